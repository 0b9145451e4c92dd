"""Bearer tokens, each of which stands for a tenant."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import ClassVar

from memalchemy.keys import check_tenant

MIN_TOKEN_CHARACTERS = 16
_HASHED = re.compile("sha256:([0-9a-fA-F]{64})")


class Tokens:
    """Bearer tokens and the tenant that each stands for.

    Only hashes are kept. A token is compared with every one of them, each in constant time, so the
    time of an answer tells nothing about them.

    Args:
        tenants: token to tenant. A token is 16 characters or more, or ``sha256:`` and the hex
            digest of one.

    Raises:
        ValueError: a token is too short or stands for two tenants, or a tenant's name is invalid.
    """

    VARIABLE: ClassVar[str] = "MEMALCHEMY_TOKENS"
    """The environment variable that ``memalchemy serve`` reads them from."""

    def __init__(self, tenants: Mapping[str, str]) -> None:
        self._tenants: dict[bytes, str] = {}
        for token, tenant in tenants.items():
            digest = _digest_of(token)
            if self._tenants.get(digest, tenant) != tenant:
                raise ValueError("a token stands for one tenant, and one is given for two")
            self._tenants[digest] = check_tenant(tenant)

    @classmethod
    def parse(cls, text: str) -> Tokens:
        """Read ``token=tenant`` entries, separated by line ends or commas; ``#`` begins a comment.

        Raises:
            ValueError: an entry is malformed, or there is none.
        """
        tenants: dict[str, str] = {}
        for number, line in enumerate(re.split("[\n,]", text), start=1):
            entry = line.split("#", 1)[0].strip()
            if not entry:
                continue
            # Split at the last equals sign: Base64 ends in some.
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
        """Return the tenant that *token* stands for, or ``None`` if it is unknown."""
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
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise ValueError(
            f"a token is {MIN_TOKEN_CHARACTERS} characters or more; make one with: "
            'python -c "import secrets; print(secrets.token_urlsafe())"'
        )
    return hashlib.sha256(token.encode()).digest()
