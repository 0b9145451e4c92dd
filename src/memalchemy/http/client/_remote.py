"""`RemoteServer`: the operations that a server offers, and requests whose answers are understood.

Whatever is neither the wanted answer nor the server's own word for an absence is an error. A 404
alone is no such word: a proxy answers with 404 too, and so does a wrong address.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from memalchemy.contracts import CheckpointerCapabilities, check_limit
from memalchemy.errors import CapabilityMissing, DatabaseUnreachable, NotFound
from memalchemy.http import operations, wire
from memalchemy.http._gzip import GZIP
from memalchemy.http._offload import offload
from memalchemy.http.client._transport import Reply, Transport, malformed
from memalchemy.http.operations import Operation, OperationRequest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReceivedJSON:
    """The JSON of a successful answer."""

    tree: Any
    url: str
    writes: bool

    def read(self, make: Callable[[Any], T]) -> T:
        """Return what *make* makes of it; if that fails, the answer was malformed."""
        return self._made(make, self.tree)

    def value(self, name: str, make: Callable[[Any], T]) -> T:
        """Return what *make* makes of the member under *name*."""
        return self.read(lambda tree: make(tree[name]))

    def members(self, name: str, make: Callable[[Any], T]) -> list[T]:
        """Return what *make* makes of each member of the list under *name*."""
        found = self.tree.get(name) if isinstance(self.tree, dict) else None
        if not isinstance(found, list):
            raise malformed(self.url, f"a list of {name}", writes=self.writes)
        return [self._made(make, one) for one in found]

    def _made(self, make: Callable[[Any], T], tree: Any) -> T:
        try:
            return make(tree)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise malformed(self.url, "an answer to this", writes=self.writes) from error


@dataclass(frozen=True, slots=True)
class Offer:
    """The capabilities of a server, and the operations that it has."""

    capabilities: CheckpointerCapabilities
    calls: frozenset[str]
    is_certain: bool = True
    """The answer came from the server itself; otherwise the server is asked again."""
    encodings: frozenset[str] = frozenset()
    """The encodings that the body of a request may have."""
    prefix: str | None = None
    """The path of a server of memalchemy's behind the address; ``None`` for one of others'."""


DOCUMENTED = Offer(
    CheckpointerCapabilities(persistent_checkpoint_ids=True),
    frozenset({"save", "list_checkpoints", "load", "delete_checkpoint", "delete_checkpoints"}),
)
"""The offer of any checkpoint server (docs/http.md), and all that is known before it was asked."""

UNCERTAIN = replace(DOCUMENTED, is_certain=False)
"""The offer of a server whose answer may be that of a proxy in front of it."""

PAGE = 500
"""Members of a list that are asked for at once."""

NO_ENDPOINT = "HTTP-404"
"""The code of memalchemy's own server for a path that it does not have."""


class RemoteServer:
    """A server behind a `Transport`. It is asked once for the operations that it offers."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        is_versioned = transport.display.endswith(wire.VERSION_PATH)
        self._version_path = "" if is_versioned else wire.VERSION_PATH
        self._offer: Offer | None = None
        self._unknown_path: Any = None
        """The JSON with which a server of somebody else's answers on a path that it lacks."""

    @property
    def url(self) -> str:
        """The address of the server, without a password."""
        return self.transport.display

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """The capabilities as far as they are known."""
        return (self._offer or DOCUMENTED).capabilities

    async def offer(self) -> Offer:
        """Return what the server offers; ask it if that is not known for certain."""
        if self._offer is not None:
            return self._offer
        request = operations.capabilities()
        reply = await self.transport.send(
            request.operation.method, self._version_path + request.path
        )
        status = reply.status
        failed = status < 200 or 300 <= status < 400 or status in (401, 408, 429)
        if failed or (status >= 500 and status != 501) or _is_no_endpoint(reply):
            raise self.transport.error_of(reply, writes=False)
        offer = _parse_offer(reply, self._version_path)
        if offer.is_certain:
            self._offer, self._unknown_path = offer, reply.tree if status == 404 else None
            self.transport.compresses = GZIP in offer.encodings
        return offer

    async def offers(self, operation: Operation) -> bool:
        """Return whether the server has an operation."""
        return operation.name in (await self.offer()).calls

    async def require(self, operation: Operation, what: str | None = None) -> None:
        """Raise an error unless the server has an operation, which the error calls *what*.

        Raises:
            CapabilityMissing: the server says that it lacks the operation.
            DatabaseUnreachable: the server does not say what it has.
        """
        offer, call = await self.offer(), operation.name
        if call in offer.calls:
            return
        if not offer.is_certain:
            raise DatabaseUnreachable(
                f"{self.url} does not say whether it offers {what or call}: its answer to "
                "/v1/capabilities is not JSON; is the address that of a checkpoint server?"
            )
        raise CapabilityMissing(
            f"{self.url} does not offer {what or call}; `memalchemy serve` does", capability=call
        )

    async def call(self, request: OperationRequest, *, repeats: bool = True) -> ReceivedJSON:
        """Send a request, and return its answer. Every 404 is an error."""
        return self._to_answer(request, await self._send(request, None if repeats else {}))

    async def count(self, request: OperationRequest) -> int:
        """Send a request, and return the count in its answer."""
        return (await self.call(request)).value("count", int)

    async def find(self, request: OperationRequest) -> ReceivedJSON | None:
        """Send a request; return ``None`` if the server says that what it names is not there."""
        reply = await self._send(request)
        if self._is_absent(reply):
            return None
        answer = self._to_answer(request, reply)
        if answer.tree is None and not answer.writes:
            raise malformed(self.url, "an answer to this")
        return answer

    async def exists(self, request: OperationRequest) -> bool:
        """Return whether what a request reads is there, without a transfer of it."""
        reply = await self._send(request, {"If-None-Match": "*"})
        if reply.status != 304 and not self._is_absent(reply):
            raise self.transport.error_of(reply, writes=False)
        return reply.status == 304

    async def create(self, request: OperationRequest) -> ReceivedJSON | None:
        """Create something under a new name; return ``None`` if an earlier attempt did it."""
        reply = await self._send(request, {"If-None-Match": "*"})
        if reply.status == 412 and reply.maybe_applied:
            return None
        return self._to_answer(request, reply)

    async def pages(
        self, request: OperationRequest, name: str, make: Callable[[Any], T], limit: int | None
    ) -> AsyncGenerator[list[T]]:
        """Yield the pages of a list, as many as have *limit* members together.

        Args:
            name: that of the list in an answer.
            make: makes a member from its JSON.
        """
        left, where = None if limit is None else check_limit(limit), dict(request.query)
        while left is None or left > 0:
            where["limit"] = PAGE if left is None else min(left, PAGE)
            answer = await self.call(replace(request, query=where))
            found = await offload(answer.tree, partial(answer.members, name, make))
            yield found
            if "next" not in answer.tree:
                return
            where["cursor"] = answer.tree["next"]
            left = None if left is None else left - len(found)

    async def all_pages(
        self, request: OperationRequest, name: str, make: Callable[[Any], T], limit: int | None
    ) -> list[T]:
        """Return the members of the `pages` of a list."""
        pages = self.pages(request, name, make, limit)
        return [one async for some in pages for one in some]

    async def _send(
        self, request: OperationRequest, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request. A write repeats under a key of its own, or under the *headers*."""
        operation, offer = request.operation, await self.offer()
        if headers is None and operation.keyed and offer.prefix is not None:
            headers = {"Idempotency-Key": uuid.uuid4().hex}
        return await self.transport.send(
            operation.method,
            (offer.prefix or "") + request.path,
            request.query,
            request.body,
            headers,
            writes=operation.writes,
            repeats=bool(headers) or not operation.writes,
        )

    def _to_answer(self, request: OperationRequest, reply: Reply) -> ReceivedJSON:
        writes = request.operation.writes
        if not 200 <= reply.status < 300:
            raise self.transport.error_of(reply, writes=writes)
        return ReceivedJSON(reply.tree, self.url, writes)

    def _is_absent(self, reply: Reply) -> bool:
        """Return whether the server says that something is not there.

        memalchemy's own server says so in a problem document; another 404 is that of a proxy. A
        server of somebody else's says so in a JSON object that differs from its answer on a path
        that it lacks.
        """
        if reply.status != 404:
            return False
        if isinstance(reply.error, NotFound):
            return True
        if self._offer not in (None, DOCUMENTED) or _is_no_endpoint(reply):
            return False
        return isinstance(reply.tree, dict) and reply.tree != self._unknown_path


def _is_no_endpoint(reply: Reply) -> bool:
    tree = reply.tree
    return reply.status == 404 and isinstance(tree, dict) and tree.get("code") == NO_ENDPOINT


def _parse_offer(reply: Reply, version_path: str) -> Offer:
    tree = reply.tree
    if reply.status in (405, 501):
        return DOCUMENTED
    if reply.status not in (200, 404) or not isinstance(tree, dict):
        return UNCERTAIN
    if reply.status == 404 or tree.get("server") != "memalchemy":
        return DOCUMENTED
    able = tree.get("checkpointer")
    names = CheckpointerCapabilities.__dataclass_fields__
    known = {name: able.get(name) is True for name in names} if isinstance(able, dict) else {}
    calls = frozenset(map(str, tree.get("calls") or ()))
    encodings = frozenset(map(str, tree.get("encodings") or ()))
    return Offer(CheckpointerCapabilities(**known), calls, encodings=encodings, prefix=version_path)
