"""Asking a server: what it offers, what is absent there, and what an answer must look like.

Knows nothing of checkpoints. Whatever is neither the answer nor the server's own word for an
absence is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from memalchemy.contracts import CheckpointerCapabilities
from memalchemy.errors import CapabilityMissing, NotFound
from memalchemy.http import wire
from memalchemy.http.transport import Reply, Transport, malformed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server can do: the operations it has, and so the capabilities."""

    capabilities: CheckpointerCapabilities
    calls: frozenset[str]


DOCUMENTED = Offer(
    CheckpointerCapabilities(persistent_checkpoint_ids=True),
    frozenset({"save", "list_checkpoints", "load", "delete_checkpoint", "delete_checkpoints"}),
)
"""What any server of checkpoints has, and all that is known before it was asked."""


class Asking:
    """One server, asked."""

    _transport: Transport
    _offer: Offer | None = None

    async def _offered(self) -> Offer:
        if self._offer is None:
            reply = await self._transport.read("GET", "/capabilities")
            if reply.status in (401, 429) or (reply.status >= 500 and reply.status != 501):
                raise self._transport.error_of(reply, writes=False)
            self._offer = _offer_of(reply)
        return self._offer

    async def _has(self, call: str) -> bool:
        return call in (await self._offered()).calls

    async def _need(self, call: str, what: str | None = None) -> None:
        if not await self._has(call):
            raise CapabilityMissing(
                f"{self._transport.display} does not offer {what or call}; `memalchemy serve` does"
            )

    def _is_absent(self, reply: Reply) -> bool:
        """Whether the server says that what was named is not there.

        Of memalchemy's own it is its word for it: another 404 is of whatever stands before it.
        """
        if reply.status != 404:
            return False
        return self._offer in (None, DOCUMENTED) or isinstance(reply.problem, NotFound)

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
        return self._made(lambda found: int(found["count"]), await self._write("POST", path, body))

    def _infos(self, tree: Any) -> list[dict[str, Any]]:
        return [self._made(wire.info_of_tree, one) for one in listed(tree, "checkpoints")]

    def _made(self, make: Callable[[Any], T], tree: Any) -> T:
        try:
            return make(tree)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise malformed(self._transport.display, "an answer to this") from error


def _offer_of(reply: Reply) -> Offer:
    tree = reply.tree
    if reply.status != 200 or not isinstance(tree, dict) or tree.get("server") != "memalchemy":
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
