"""Asking a server: what it offers, what is absent there, and what an answer must look like.

Knows nothing of checkpoints. Whatever is neither the answer nor the server's own word for an
absence is an error. A 404 alone is no such word: a proxy has one, and so has a wrong address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from memalchemy.contracts import CheckpointerCapabilities
from memalchemy.errors import CapabilityMissing, DatabaseUnreachable, NotFound
from memalchemy.http import wire
from memalchemy.http.transport import Reply, Transport, malformed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server can do: the operations it has, and so the capabilities."""

    capabilities: CheckpointerCapabilities
    calls: frozenset[str]
    is_told: bool = True
    """Whether the server's answer says so; if not, it is asked again the next time."""


DOCUMENTED = Offer(
    CheckpointerCapabilities(persistent_checkpoint_ids=True),
    frozenset({"save", "list_checkpoints", "load", "delete_checkpoint", "delete_checkpoints"}),
)
"""What any server of checkpoints has, and all that is known before it was asked."""

UNTOLD = replace(DOCUMENTED, is_told=False)
"""What is tried on a server whose answer may be that of whatever stands before it."""

NO_ENDPOINT = "HTTP-404"
"""The code of memalchemy's own server for a path that leads to nothing."""


class Asking:
    """One server, asked."""

    _transport: Transport
    _offer: Offer | None = None
    _nowhere: Any = None
    """What a server of somebody else's answers with where it has no endpoint, if it is JSON."""

    async def _offered(self) -> Offer:
        if self._offer is not None:
            return self._offer
        reply = await self._transport.read("GET", "/capabilities")
        status = reply.status
        failed = status < 200 or 300 <= status < 400 or status in (401, 408, 429)
        if failed or (status >= 500 and status != 501) or _is_no_endpoint(reply):
            raise self._transport.error_of(reply, writes=False)
        offer = _offer_of(reply)
        if offer.is_told:
            self._offer, self._nowhere = offer, reply.tree if status == 404 else None
        return offer

    async def _has(self, call: str) -> bool:
        return call in (await self._offered()).calls

    async def _need(self, call: str, what: str | None = None) -> None:
        offer = await self._offered()
        if call in offer.calls:
            return
        display = self._transport.display
        if not offer.is_told:
            raise DatabaseUnreachable(
                f"{display} does not say whether it offers {what or call}: its answer to "
                "/capabilities is not JSON; is the address that of a checkpoint server?"
            )
        raise CapabilityMissing(
            f"{display} does not offer {what or call}; `memalchemy serve` does", capability=call
        )

    def _is_absent(self, reply: Reply) -> bool:
        """Whether the server says that what was named is not there.

        Of memalchemy's own it is its word for it: another 404 is of whatever stands before it. Of
        another it is a JSON object that is not what it answers with on a path that leads nowhere.
        """
        if reply.status != 404:
            return False
        if isinstance(reply.problem, NotFound):
            return True
        if self._offer not in (None, DOCUMENTED) or _is_no_endpoint(reply):
            return False
        return isinstance(reply.tree, dict) and reply.tree != self._nowhere

    def _tree(self, reply: Reply, *, writes: bool) -> Any:
        if not 200 <= reply.status < 300:
            raise self._transport.error_of(reply, writes=writes)
        return reply.tree

    async def _read(self, method: str, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """The JSON that is there, or ``None`` if the server says that there is none."""
        await self._offered()
        reply = await self._transport.read(method, path, query)
        if self._is_absent(reply):
            return None
        tree = self._tree(reply, writes=False)
        if tree is None:
            raise malformed(self._transport.display, "an answer to this")
        return tree

    async def _asked(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """The JSON of an answer that has to be there."""
        return self._tree(await self._transport.read(method, path, query, body), writes=False)

    async def _write(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self._tree(await self._transport.write(method, path, body=body), writes=True)

    async def _count(self, path: str, body: Mapping[str, Any] | None) -> int:
        tree = await self._write("POST", path, body)
        return self._made(lambda found: int(found["count"]), tree, writes=True)

    def _infos(self, tree: Any) -> list[dict[str, Any]]:
        return [self._made(wire.info_of_tree, one) for one in listed(tree, "checkpoints")]

    def _made(self, make: Callable[[Any], T], tree: Any, *, writes: bool = False) -> T:
        try:
            return make(tree)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            display = self._transport.display
            raise malformed(display, "an answer to this", writes=writes) from error


def _is_no_endpoint(reply: Reply) -> bool:
    """Whether a server of memalchemy's says that the path is not one of its own."""
    tree = reply.tree
    return reply.status == 404 and isinstance(tree, dict) and tree.get("code") == NO_ENDPOINT


def _offer_of(reply: Reply) -> Offer:
    tree = reply.tree
    if reply.status in (405, 501):
        return DOCUMENTED
    if reply.status not in (200, 404) or not isinstance(tree, dict):
        return UNTOLD
    if reply.status == 404 or tree.get("server") != "memalchemy":
        return DOCUMENTED
    able = tree.get("checkpointer")
    names = CheckpointerCapabilities.__dataclass_fields__
    known = {name: able.get(name) is True for name in names} if isinstance(able, dict) else {}
    return Offer(CheckpointerCapabilities(**known), frozenset(map(str, tree.get("calls") or ())))


def ids_of(tree: Any, display: str) -> list[str]:
    """Checkpoint ids from any of the shapes that servers list them in."""
    found = tree.get("checkpoints", tree.get("data")) if isinstance(tree, dict) else tree
    if isinstance(found, list):
        ids = [one.get("checkpoint_id") if isinstance(one, dict) else one for one in found]
        texts = [one for one in ids if isinstance(one, str)]
        if len(texts) == len(ids):
            return texts
    raise malformed(display, "a list of checkpoints")


def listed(tree: Any, name: str) -> list[Any]:
    found = tree.get(name) if isinstance(tree, dict) else None
    if not isinstance(found, list):
        raise malformed("the server", f"a list of {name}")
    return found
