"""Limits on what one request, one tenant and all requests together may take of a server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from memalchemy.http.problems import away
from memalchemy.http.shapes import MOST

RETRY_SECONDS = 1
"""What Retry-After says where nobody knows when there will be room."""

# A text, unterminated ones too, or what begins a value: the first of a container, or the next.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{,]', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that a server spends on requests. Each is a whole number above zero.

    Args:
        values: JSON values in a request's body: numbers, texts, objects and what is in them. More
            is answered with 413 before the body is parsed.
        results: the largest ``limit``, ``offset`` and ``among`` of a list or a search; a larger one
            is answered with 422. At most 100,000.
        answer_bytes: the size of an answer; a larger one is answered with 422 (``TooLarge``).
        tenant_requests: requests of one tenant at once; more are answered with 429.
        pending_bytes: bytes of the bodies of all requests at once; more are answered with 503.
    """

    values: int = 1_000_000
    results: int = 10_000
    answer_bytes: int = 64 * 1024 * 1024
    tenant_requests: int = 100
    pending_bytes: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{field.name} is a whole number above zero, not {value!r}")
        if self.results > MOST:
            raise ValueError(f"results is at most {MOST:,}, not {self.results:,}")


def has_more_values(document: bytes, limit: int) -> bool:
    """Whether a JSON document holds more than *limit* values; counted without parsing it."""
    if sum(document.count(sign) for sign in (b",", b"[", b"{", b'"')) < limit:
        return False
    values = 1
    for tokens, token in enumerate(_TOKENS.finditer(document)):
        values += document[token.start()] != ord('"')
        # A document may be texts and nothing else, which is no JSON; a value has two at most.
        if values > limit or tokens > 4 * limit:
            return True
    return False


class InFlight:
    """What requests that are being answered take, by tenant and together."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests: Counter[str] = Counter()
        self._bytes = 0

    @contextmanager
    def request(self, tenant: str | None) -> Iterator[None]:
        """Count a request of *tenant*; ``None`` is nobody's, which is not counted.

        Raises:
            Problem: 429, the tenant has as many as it may.
        """
        if tenant is None:
            yield
            return
        if self._requests[tenant] >= self._limits.tenant_requests:
            raise away(
                f"this tenant has {self._requests[tenant]} requests that are not answered yet, "
                "which is all that it may have; nothing was done",
                status=429,
                busy=True,
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        self._requests[tenant] += 1
        try:
            yield
        finally:
            self._requests[tenant] -= 1
            if not self._requests[tenant]:
                del self._requests[tenant]

    def take(self, size: int) -> None:
        """Count *size* bytes of a body that came.

        Raises:
            Problem: 503, all bodies together are too much; the bytes are not counted.
        """
        self.check(size)
        self._bytes += size

    def check(self, size: int) -> None:
        """Raise what `take` would raise."""
        if self._bytes + size > self._limits.pending_bytes:
            raise away(
                "the requests that are not answered yet have all the memory that there is for "
                "bodies; nothing was done",
                busy=True,
                headers={"Retry-After": str(RETRY_SECONDS)},
            )

    def give_back(self, size: int) -> None:
        """Forget *size* bytes: their request has been answered."""
        self._bytes -= size
