"""`RemoteServer`: the operations that a server offers, and requests whose answers are understood.

Whatever is neither the wanted answer nor the server's own word for an absence is an error. A 404
alone is no such word: a proxy answers with 404 too, and so does a wrong address.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from memalchemy.contracts import CheckpointerCapabilities
from memalchemy.errors import CapabilityMissing, DatabaseUnreachable, NotFound
from memalchemy.http import wire
from memalchemy.http._gzip import GZIP
from memalchemy.http.client._transport import Reply, Transport, malformed

T = TypeVar("T")


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
        reply = await self.transport.read("GET", self._version_path + "/capabilities")
        status = reply.status
        failed = status < 200 or 300 <= status < 400 or status in (401, 408, 429)
        if failed or (status >= 500 and status != 501) or _is_no_endpoint(reply):
            raise self.transport.error_of(reply, writes=False)
        offer = _offer_of(reply, self._version_path)
        if offer.is_certain:
            self._offer, self._unknown_path = offer, reply.tree if status == 404 else None
            self.transport.compresses = GZIP in offer.encodings
        return offer

    async def offers(self, call: str) -> bool:
        """Return whether the server has an operation."""
        return call in (await self.offer()).calls

    async def require(self, call: str, what: str | None = None) -> None:
        """Raise an error unless the server has an operation, which the error calls *what*.

        Raises:
            CapabilityMissing: the server says that it lacks the operation.
            DatabaseUnreachable: the server does not say what it has.
        """
        offer = await self.offer()
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

    async def find(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Get the JSON of something; ``None`` if the server says that it is not there."""
        reply = await self.transport.read("GET", await self._whole(path), query)
        if self._is_absent(reply):
            return None
        tree = self._tree(reply, writes=False)
        if tree is None:
            raise malformed(self.url, "an answer to this")
        return tree

    async def exists(self, path: str) -> bool:
        """Return whether something is there, without a transfer of it."""
        headers = {"If-None-Match": "*"}
        reply = await self.transport.read("GET", await self._whole(path), headers=headers)
        if reply.status == 304:
            return True
        if self._is_absent(reply):
            return False
        raise self.transport.error_of(reply, writes=False)

    async def read(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request that changes nothing, and return the JSON of its answer."""
        reply = await self.transport.read(method, await self._whole(path), query, body)
        return self._tree(reply, writes=False)

    async def write(
        self, path: str, body: Mapping[str, Any] | None = None, *, once: bool = True
    ) -> Any:
        """Post a request that changes something, and return the JSON of its answer.

        Unless it is *once*, a server of memalchemy's is asked again if its answer is lost.
        """
        headers = {} if once else self.key()
        reply = await self.transport.write(
            "POST", await self._whole(path), body, headers=headers, repeats=bool(headers)
        )
        return self._tree(reply, writes=True)

    async def put_new(self, path: str, body: Mapping[str, Any]) -> Any:
        """Put something under a name that nobody else has; ``None`` if an attempt before did it."""
        headers = {"If-None-Match": "*"}
        whole = await self._whole(path)
        reply = await self.transport.write("PUT", whole, body, headers=headers, repeats=True)
        if reply.status == 412 and reply.maybe_applied:
            return None
        return self._tree(reply, writes=True)

    async def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """Put something under a name, whatever is there, and return the JSON of the answer."""
        whole = await self._whole(path)
        reply = await self.transport.write("PUT", whole, body, headers=self.key(), repeats=True)
        return self._tree(reply, writes=True)

    async def change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request that changes something, and return the JSON of its answer.

        ``None`` if the server says that it is not there. It is repeated if its answer is lost.
        """
        whole, headers = await self._whole(path), self.key()
        reply = await self.transport.write(
            method, whole, body, query=query, headers=headers, repeats=bool(headers)
        )
        return None if self._is_absent(reply) else self._tree(reply, writes=True)

    async def pages(
        self, path: str, name: str, query: Mapping[str, Any], limit: int | None
    ) -> AsyncGenerator[list[Any]]:
        """Yield the pages of a list, as many as have *limit* members together."""
        left, where = limit, dict(query)
        while left is None or left > 0:
            where["limit"] = PAGE if left is None else min(left, PAGE)
            tree = await self.read("GET", path, where)
            found = tree.get(name) if isinstance(tree, dict) else None
            if not isinstance(found, list):
                raise malformed(self.url, f"a list of {name}")
            yield found
            if "next" not in tree:
                return
            where["cursor"] = tree["next"]
            left = None if left is None else left - len(found)

    async def all_pages(
        self, path: str, name: str, query: Mapping[str, Any], limit: int | None
    ) -> list[Any]:
        """Return the members of the `pages` of a list."""
        return [one async for some in self.pages(path, name, query, limit) for one in some]

    def key(self) -> dict[str, str]:
        """Return the header under which a write may be repeated, if the server knows it."""
        known = self._offer is not None and self._offer.prefix is not None
        return {"Idempotency-Key": uuid.uuid4().hex} if known else {}

    async def write_and_count(
        self, path: str, body: Mapping[str, Any] | None = None, *, once: bool = True
    ) -> int:
        """Post a request that changes something; return the count in its answer."""
        tree = await self.write(path, body, once=once)
        return self.decode(lambda found: int(found["count"]), tree, writes=True)

    async def read_count(self, path: str, body: Mapping[str, Any]) -> int:
        """Post a request that changes nothing; return the count in its answer."""
        tree = await self.read("POST", path, body=body)
        return self.decode(lambda found: int(found["count"]), tree)

    async def delete(self, path: str) -> bool:
        """Delete something; return ``False`` if the server says that it is not there."""
        whole, headers = await self._whole(path), self.key()
        reply = await self.transport.write("DELETE", whole, headers=headers, repeats=bool(headers))
        if self._is_absent(reply):
            return False
        tree = self._tree(reply, writes=True)
        return not (isinstance(tree, dict) and tree.get("deleted") is False)

    def decode(self, make: Callable[[Any], T], tree: Any, *, writes: bool = False) -> T:
        """Return ``make(tree)``; if it fails, the server's answer was malformed."""
        try:
            return make(tree)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise malformed(self.url, "an answer to this", writes=writes) from error

    def decode_list(self, make: Callable[[Any], T], tree: Any, name: str) -> list[T]:
        """Return the decoded members of the list that an answer has under *name*."""
        found = tree.get(name) if isinstance(tree, dict) else None
        if not isinstance(found, list):
            raise malformed(self.url, f"a list of {name}")
        return [self.decode(make, one) for one in found]

    async def _whole(self, path: str) -> str:
        """Return the path of an operation behind the address of the server."""
        return ((await self.offer()).prefix or "") + path

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

    def _tree(self, reply: Reply, *, writes: bool) -> Any:
        if not 200 <= reply.status < 300:
            raise self.transport.error_of(reply, writes=writes)
        return reply.tree


def _is_no_endpoint(reply: Reply) -> bool:
    tree = reply.tree
    return reply.status == 404 and isinstance(tree, dict) and tree.get("code") == NO_ENDPOINT


def _offer_of(reply: Reply, version_path: str) -> Offer:
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
