"""Runs a compiled graph on a saver step by step, and records everything that can be observed of it.

Two runs of one script on two savers must make the same observations; see ``graph_observations``.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from graph_observations import IDS, Ordinals, differs
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointTuple,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import EmptyInputError, InvalidUpdateError
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

SYNC = {"durability": "sync"}

Build = Callable[[BaseCheckpointSaver], Pregel]
Place = int | Callable[[Sequence[StateSnapshot]], dict]
"""A checkpoint of a thread's own namespace: its ordinal, oldest first, or who picks its config."""


class Walk:
    """A graph on a saver, and what was seen of it after every step.

    With `blocking` everything goes through the methods that block, in a thread. A step that fails
    is noted with its error. A step waits for its save: else LangGraph goes on changing sets and
    messages that it has handed out to be saved. `thread` is a name in the script; in the
    database it has `prefix`.
    """

    def __init__(
        self, build: Build, saver: BaseCheckpointSaver, *, prefix: str = "", blocking: bool = False
    ) -> None:
        self.saver = saver
        self.graph: CompiledStateGraph[Any, Any, Any, Any] = build(saver)  # type: ignore[assignment]
        self.prefix = prefix
        self.blocking = blocking
        self.ordinals = Ordinals()
        self.threads: dict[str, None] = {}
        self.seen: list[tuple[str, Any]] = []

    async def invoke(self, given: Any, thread: str = "1", at: Place | None = None, **options: Any):
        """Run the graph from the thread's newest state, or from an older one."""
        config = await self.config(thread, at, options.pop("config", {}))
        done = await self._try(self._call("invoke", given, config, **{**SYNC, **options}))
        await self._look("invoke", thread, done)
        return done

    async def stream(self, given: Any, thread: str = "1", at: Place | None = None, **options: Any):
        """As `invoke`, and all that it streams."""
        config = await self.config(thread, at, options.pop("config", {}))
        done = await self._try(self._items("stream", given, config, **{**SYNC, **options}))
        await self._look("stream", thread, done)
        return done

    async def update(
        self, values: Any, thread: str = "1", at: Place | None = None, as_node: str | None = None
    ):
        config = await self.config(thread, at)
        done = await self._try(self._call("update_state", config, values, as_node))
        await self._look("update", thread, done)

    async def update_many(self, supersteps: Any, thread: str = "1", at: Place | None = None):
        config = await self.config(thread, at)
        done = await self._try(self._call("bulk_update_state", config, supersteps))
        await self._look("update_many", thread, done)

    async def state(self, thread: str = "1", at: Place | None = None) -> StateSnapshot:
        return await self._call("get_state", await self.config(thread, at), subgraphs=True)

    async def delete(self, thread: str = "1") -> None:
        await self._save("delete_thread", self.prefix + thread)
        await self._look("delete", thread, None)

    async def copy(self, source: str, target: str) -> None:
        await self._save("copy_thread", self.prefix + source, self.prefix + target)
        await self._look("copy", target, None)

    async def prune(self, *threads: str, strategy: str = "keep_latest") -> None:
        await self._save("prune", [self.prefix + one for one in threads], strategy=strategy)
        for thread in threads:
            await self._look("prune", thread, None)

    async def delete_for_runs(self, *runs: str) -> None:
        await self._save("delete_for_runs", list(runs))
        for thread in [*self.threads]:
            await self._look("delete_for_runs", thread, None)

    async def history(self, thread: str = "1") -> list[StateSnapshot]:
        """Oldest first."""
        return (await self._items("get_state_history", await self.config(thread)))[::-1]

    async def config(
        self, thread: str = "1", at: Place | None = None, more: Mapping = {}
    ) -> dict[str, Any]:
        config: dict[str, Any] = {"configurable": {"thread_id": self.prefix + thread}}
        if at is not None:
            states = await self.history(thread)
            picked = at(states) if callable(at) else states[at % len(states)].config
            config["configurable"] |= picked["configurable"]
        config["configurable"] |= more.get("configurable", {})
        return {**more, **config}

    async def _look(self, step: str, thread: str, done: Any) -> None:
        """Note all that is there now; what a run came to comes last, since it may be in any order
        that its tasks came to an end.
        """
        self.threads[thread] = None
        label = f"step {len(self.seen) + 1}, {step} of {thread}"
        states = [self.ordinals.snapshot(state) for state in await self.history(thread)]
        found = await self.stored(thread)
        by_id = {_id(one): one for one in found}
        stored = [self.ordinals.stored(one, _parent(one, by_id)) for one in found]
        newest = self.ordinals.snapshot(await self.state(thread))
        self.seen.append(
            (
                label,
                {"stored": stored, "states": states, "newest": newest, "done": self._done(done)},
            )
        )

    def _done(self, done: Any) -> Any:
        if isinstance(done, dict) and "__interrupt__" in done:
            interrupts = sorted(repr(self.ordinals.of(one)) for one in done["__interrupt__"])
            return self.ordinals.of({**done, "__interrupt__": interrupts})
        return self.ordinals.of(done)

    async def stored(self, thread: str) -> list[CheckpointTuple]:
        """All of a thread, its own namespace first, oldest first; each as it is read alone."""
        everywhere = {"configurable": {"thread_id": self.prefix + thread}}
        found = await self._listed(everywhere)
        namespaces: dict[str, list[CheckpointTuple]] = {}
        for one in found:
            namespaces.setdefault(one.config["configurable"]["checkpoint_ns"], []).append(one)
        for ns, of_ns in namespaces.items():
            ids = [one.config["configurable"]["checkpoint_id"] for one in of_ns]
            assert all(newer > older for newer, older in pairwise(ids)), f"not newest first in {ns}"
        ordered = sorted(namespaces, key=lambda ns: (IDS.sub("#", ns), _id(namespaces[ns][-1])))
        return [one for ns in ordered for one in reversed(namespaces[ns])]

    async def check(self) -> None:
        """Check that reading checkpoints one by one gives the same as listing them."""
        for thread in self.threads:
            for listed in await self.stored(thread):
                alone = await self._save("get_tuple", listed.config)
                assert alone is not None
                assert alone.config["configurable"] == listed.config["configurable"]
                assert self.ordinals.stored(alone, None) == self.ordinals.stored(listed, None)

    async def _listed(self, config: Any) -> list[CheckpointTuple]:
        if self.blocking:
            return await asyncio.to_thread(lambda: [*self.saver.list(config)])
        return [one async for one in self.saver.alist(config)]

    async def _save(self, name: str, *given: Any, **options: Any) -> Any:
        if self.blocking:
            return await asyncio.to_thread(getattr(self.saver, name), *given, **options)
        return await getattr(self.saver, f"a{name}")(*given, **options)

    async def _call(self, name: str, *given: Any, **options: Any) -> Any:
        if self.blocking:
            return await asyncio.to_thread(getattr(self.graph, name), *given, **options)
        return await getattr(self.graph, f"a{name}")(*given, **options)

    async def _items(self, name: str, *given: Any, **options: Any) -> list:
        if self.blocking:
            call = getattr(self.graph, name)
            return await asyncio.to_thread(lambda: [*call(*given, **options)])
        return [item async for item in getattr(self.graph, f"a{name}")(*given, **options)]

    async def _try(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except (ValueError, TypeError, RuntimeError, EmptyInputError, InvalidUpdateError) as error:
            return error


def _id(of: Any) -> str:
    config = of.config if isinstance(of, CheckpointTuple) else of
    return config["configurable"]["checkpoint_id"]


def _parent(found: CheckpointTuple, by_id: Mapping[str, CheckpointTuple]) -> Any:
    return by_id.get(_id(found.parent_config)) if found.parent_config else None


class Reference(InMemorySaver):
    """LangGraph's saver, with the three operations that it does not have, in the plainest way."""

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        for held in (self.writes, self.blobs):
            of_source = [key for key in held if key[0] == source_thread_id]
            for key in of_source:
                value = held[key]  # type: ignore[index]
                held[(target_thread_id, *key[1:])] = (  # type: ignore[index]
                    dict(value) if isinstance(value, dict) else value
                )
        for ns, checkpoints in [*self.storage[source_thread_id].items()]:
            self.storage[target_thread_id][ns] = dict(checkpoints)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        for found in [*self.list(None)]:
            if found.metadata.get("run_id") in run_ids:
                self._remove(found)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            # As LangGraph's saver for PostgreSQL does it.
            before = {*self.storage[thread][""]}
            head = max(before, default=None)
            for ns, checkpoints in self.storage[thread].items():
                newest, *earlier = [*self.list(_where(thread, ns))]
                assert _id(newest) == max(checkpoints)
                root = newest.metadata.get("parents", {}).get("")
                finished = ":" in ns and root in before and root != head
                for found in [newest, *earlier] if finished else earlier:
                    self._remove(found)

    def _remove(self, found: CheckpointTuple) -> None:
        where = found.config["configurable"]
        place = self.storage[where["thread_id"]][where["checkpoint_ns"]]
        del place[where["checkpoint_id"]]
        for name, (checkpoint, metadata, parent) in [*place.items()]:
            if parent == where["checkpoint_id"]:
                place[name] = (checkpoint, metadata, None)
        self.writes.pop((where["thread_id"], where["checkpoint_ns"], where["checkpoint_id"]), None)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        asyncio.run(self.acopy_thread(source_thread_id, target_thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        asyncio.run(self.adelete_for_runs(run_ids))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        asyncio.run(self.aprune(thread_ids, strategy=strategy))


def _where(thread: str, ns: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}


def same(walk: Walk, reference: Walk) -> None:
    """Both have seen the same after every step."""
    for (label, seen), (expected_label, expected) in zip(walk.seen, reference.seen, strict=True):
        assert label == expected_label
        difference = differs(seen, expected)
        assert difference is None, f"{label}: {difference}"


async def alike(
    saver: BaseCheckpointSaver,
    blocking: bool,
    build: Build,
    script: Callable[[Walk], Awaitable[None]],
) -> Walk:
    """Walk the script over the saver and over LangGraph's own; both must have seen the same."""
    prefix = f"{uuid.uuid4().hex[:8]}-"  # metadata and streams hold the name of the thread
    walk = Walk(build, saver, prefix=prefix, blocking=blocking)
    reference = Walk(build, Reference(), prefix=prefix, blocking=blocking)
    await script(walk)
    await script(reference)
    assert walk.seen
    same(walk, reference)
    await walk.check()
    return walk
