"""Limits on what one request, one tenant and all requests together may take of a server."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import math
import re
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields

from memalchemy._cache import BoundedCache

ADDRESSES = 10_000
"""Addresses of which failed attempts are remembered."""

MAX_RESULTS = 100_000
"""The largest limit of a list or search that any server can be set to."""

# A string, an unterminated one too; or what begins a value: the start of a container, or a comma.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{,]', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that a server spends on requests. Each is a whole number above zero.

    Args:
        values: JSON values in the body of a request: numbers, texts, objects and what is in them.
            A body with more is answered with 413 before it is parsed.
        results: the largest ``limit``, ``offset`` and ``among`` of a list or search, 100,000 at
            most. A larger one is answered with 422.
        answer_bytes: the size of an answer. A larger one is answered with 422 (``TooLarge``).
        tenant_requests: requests of one tenant at once. More are answered with 429.
        running: requests that are worked on at once, but for searches and large bodies. More wait,
            and the tenants take turns.
        tenant_running: those of one tenant.
        heavy: searches, and queries in SQL, that are worked on at once, and as many requests with
            over 256 KiB of body.
        tenant_heavy: those of one tenant, of either kind.
        pending_bytes: bytes of the bodies of all requests and answers at once. More are answered
            with 503.
        unknown_tokens: unknown tokens that one address may give in a minute. More are answered with
            429.
    """

    values: int = 1_000_000
    results: int = 10_000
    answer_bytes: int = 64 * 1024 * 1024
    tenant_requests: int = 100
    running: int = 32
    tenant_running: int = 16
    heavy: int = 4
    tenant_heavy: int = 2
    pending_bytes: int = 256 * 1024 * 1024
    unknown_tokens: int = 20

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{limit.name} is a whole number above zero, not {value!r}")
        if self.results > MAX_RESULTS:
            raise ValueError(f"results is at most {MAX_RESULTS:,}, not {self.results:,}")


def has_more_values(document: bytes, limit: int) -> bool:
    """Return whether a JSON document holds more than *limit* values, without parsing it."""
    if sum(document.count(sign) for sign in (b",", b"[", b"{", b'"')) < limit:
        return False
    values = 1
    for tokens, token in enumerate(_TOKENS.finditer(document)):
        values += document[token.start()] != ord('"')
        # In JSON each value has at most a key and a string. More strings than that are no JSON.
        if values > limit or tokens > 4 * limit:
            return True
    return False


@dataclass
class Bucket:
    """A token bucket: *left* requests at the time *filled*."""

    left: float
    filled: float


class RateLimiter:
    """A token bucket for each tenant: *rate* requests a second, and *burst* at once.

    Without a *rate* every request may come. *burst* is twice the rate if it is not given.
    """

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
        """Let a request in and return 0, or return the seconds until the next one may come."""
        if self._rate is None:
            return 0.0
        now = self._clock()
        bucket = self._buckets.setdefault(tenant, Bucket(self._burst, now))
        bucket.left = min(self._burst, bucket.left + (now - bucket.filled) * self._rate)
        bucket.filled = now
        if bucket.left >= 1:
            bucket.left -= 1
            return 0.0
        return (1 - bucket.left) / self._rate


class FailureLimiter:
    """Limits the unknown tokens of each address to *number* a minute.

    An address is that of a network for IPv6, of which one customer has 2**64 addresses.
    """

    def __init__(self, number: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._number = number
        self._a_second = number / 60
        self._clock = clock
        self._buckets: BoundedCache[str, Bucket] = BoundedCache(ADDRESSES)
        self._known: BoundedCache[tuple[str, bytes], bool] = BoundedCache(ADDRESSES)

    def wait_of(self, address: str, token: str) -> float:
        """Return the seconds until the address may give this token, 0 if it may now.

        A token that was known when the address gave it before does not wait.
        """
        bucket = self._refilled_bucket(address)
        if bucket.left >= 1 or self._known.get(_key_of_known(address, token)):
            return 0.0
        return (1 - bucket.left) / self._a_second

    def note_unknown(self, address: str) -> None:
        """Count an unknown token of the address."""
        self._refilled_bucket(address).left -= 1

    def note_known(self, address: str, token: str) -> None:
        """Remember that the address gave a token that is known."""
        self._known.put(_key_of_known(address, token), True)

    def _refilled_bucket(self, address: str) -> Bucket:
        network, now = _network_of_address(address), self._clock()
        bucket = self._buckets.get_or_put(network, lambda: Bucket(self._number, now))
        bucket.left = min(self._number, bucket.left + (now - bucket.filled) * self._a_second)
        bucket.filled = now
        return bucket


def _key_of_known(address: str, token: str) -> tuple[str, bytes]:
    digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
    return _network_of_address(address), digest


def _network_of_address(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False))


@dataclass
class UnansweredRequests:
    """The unanswered requests of each tenant, and the bytes of the bodies of all of them."""

    requests: Counter[str] = field(default_factory=Counter)
    body_bytes: int = 0


class Turns:
    """Places in which requests are worked on: the tenants that wait for one take turns.

    Args:
        places: requests that are worked on at once.
        tenant_places: those of one tenant.
    """

    def __init__(self, places: int, tenant_places: int) -> None:
        self._free = places
        self._tenant_places = tenant_places
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By tenant, in the order of their turns, the oldest request first."""

    async def take(self, tenant: str) -> None:
        """Wait for a place. Whoever has one gives it back, once."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(place)
        self._start_next()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give_back(tenant)
            else:
                self._leave_queue(tenant, place)
            raise

    def give_back(self, tenant: str) -> None:
        """Give a place to the next tenant whose turn it is."""
        self._free += 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self._start_next()

    def _start_next(self) -> None:
        while self._free:
            tenant = next(filter(self._may_start, self._waiting), None)
            if tenant is None:
                return
            places = self._waiting.pop(tenant)
            place = places.popleft()
            if places:  # behind the other tenants
                self._waiting[tenant] = places
            if not place.done():
                self._free -= 1
                self._running[tenant] += 1
                place.set_result(None)

    def _may_start(self, tenant: str) -> bool:
        return self._running[tenant] < self._tenant_places

    def _leave_queue(self, tenant: str, place: asyncio.Future[None]) -> None:
        places = self._waiting.get(tenant)
        if places is not None and place in places:
            places.remove(place)
            if not places:
                del self._waiting[tenant]


LARGE_BODY = 256 * 1024
"""Bytes of a body whose decoding takes longer than most requests do."""


class WorkSlots:
    """The places for each kind of request: what takes long has a share of its own."""

    def __init__(self, limits: Limits) -> None:
        self._others = Turns(limits.running, limits.tenant_running)
        self._searches = Turns(limits.heavy, limits.tenant_heavy)
        self._large_bodies = Turns(limits.heavy, limits.tenant_heavy)

    def turns(self, path: str, body_bytes: int) -> Turns:
        """Return the places for a request."""
        if path.endswith(("/search", "/api/sql")):
            return self._searches
        return self._large_bodies if body_bytes > LARGE_BODY else self._others
