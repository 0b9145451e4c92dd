"""Who may come in, as which tenant, and how often. Knows nothing of requests."""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memalchemy.keys import check_tenant

VARIABLE = "MEMALCHEMY_TOKENS"
SHORTEST = 16
_HASHED = re.compile("sha256:([0-9a-fA-F]{64})")


class Tokens:
    """Bearer tokens and the tenant that each stands for.

    Only hashes are kept, and every one is compared with, each in constant time: how long an answer
    takes says nothing about a token.

    Args:
        tenants: token to tenant. A token is 16 characters or more, or ``sha256:`` and the hex
            digest of one.

    Raises:
        ValueError: a token is too short, or stands for two tenants; a tenant that cannot be one.
    """

    def __init__(self, tenants: Mapping[str, str]) -> None:
        self._tenants: dict[bytes, str] = {}
        for token, tenant in tenants.items():
            digest = _digest_of(token)
            if self._tenants.get(digest, tenant) != tenant:
                raise ValueError("a token stands for one tenant, and one is given for two")
            self._tenants[digest] = check_tenant(tenant)

    @classmethod
    def parse(cls, text: str) -> Tokens:
        """Read ``token=tenant``, one a line or with commas between; ``#`` begins a comment.

        Raises:
            ValueError: a line is none, or there is not one.
        """
        tenants: dict[str, str] = {}
        for number, line in enumerate(re.split("[\n,]", text), start=1):
            entry = line.split("#", 1)[0].strip()
            if not entry:
                continue
            # From the right: Base64 ends in equals signs.
            token, equals, tenant = entry.rpartition("=")
            if not equals or not token.strip() or not tenant.strip():
                raise ValueError(f"entry {number} of the tokens is not token=tenant")
            token, tenant = token.strip(), tenant.strip()
            if tenants.get(token, tenant) != tenant:
                raise ValueError(f"entry {number} of the tokens gives a token a second tenant")
            tenants[token] = tenant
        if not tenants:
            raise ValueError("there are no tokens in it; write token=tenant, one a line")
        return cls(tenants)

    def __len__(self) -> int:
        return len(self._tenants)

    def __repr__(self) -> str:
        return f"Tokens({len(self)} of {len(set(self._tenants.values()))} tenants)"

    def tenant_of(self, token: str) -> str | None:
        """The tenant that *token* stands for; ``None`` if it is not one of these."""
        given = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        found = None
        for digest, tenant in self._tenants.items():
            if hmac.compare_digest(digest, given):
                found = tenant
        return found


def _digest_of(token: str) -> bytes:
    hashed = _HASHED.fullmatch(token)
    if hashed:
        return bytes.fromhex(hashed[1])
    if len(token) < SHORTEST:
        raise ValueError(
            f"a token is {SHORTEST} characters or more; make one with: "
            'python -c "import secrets; print(secrets.token_urlsafe())"'
        )
    return hashlib.sha256(token.encode()).digest()


@dataclass
class Bucket:
    """How many requests are left: *rate* more each second, *burst* at most."""

    rate: float
    burst: float
    left: float
    filled: float


class Rates:
    """The request rate of each tenant: *rate* a second, and *burst* at once."""

    def __init__(
        self,
        rate: float | None,
        burst: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if rate is not None and not rate > 0:
            raise ValueError(f"rate is requests a second, above zero, not {rate!r}")
        if burst is not None and burst < 1:
            raise ValueError(f"burst is at least 1, not {burst!r}")
        self._rate = rate
        self._burst = burst or max(1, math.ceil(2 * rate)) if rate is not None else 0
        self._buckets: dict[str, Bucket] = {}
        self._clock = clock

    def take(self, tenant: str) -> float:
        """Count a request. Zero, or the seconds until one will be let in; that one was not."""
        if self._rate is None:
            return 0.0
        now = self._clock()
        bucket = self._buckets.setdefault(tenant, Bucket(self._rate, self._burst, self._burst, now))
        bucket.left = min(bucket.burst, bucket.left + (now - bucket.filled) * bucket.rate)
        bucket.filled = now
        if bucket.left >= 1:
            bucket.left -= 1
            return 0.0
        return (1 - bucket.left) / bucket.rate
