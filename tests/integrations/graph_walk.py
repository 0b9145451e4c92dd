"""Walks a compiled graph over a saver, step for step, and notes all that can be seen of it.

Two walks of one script, over two savers, must have seen the same. Ids and times differ between any
two runs, so an id is noted as the ordinal of its first appearance, and a version of a channel by
how it compares with the others: nothing here knows what either looks like in any saver.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import (
    RESUME,
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    PendingWrite,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.types import Send, StateSnapshot

IDS = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b"
)
NO_TASK = "00000000-0000-0000-0000-000000000000"

SYNC = {"durability": "sync"}

Build = Callable[[BaseCheckpointSaver], Pregel]
Place = int | Callable[[Sequence[StateSnapshot]], dict]
"""A checkpoint of a thread's own namespace: its ordinal, oldest first, or who picks its config."""


class Ordinals:
    """Each id by the order in which it was first met."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {NO_TASK: "#none"}

    def of(self, value: Any) -> Any:
        """The value in plain parts that compare, with its types, and ordinals in place of ids."""
        match value:
            case str():
                return IDS.sub(lambda found: self._name(found[0]), value)
            case None | bool() | int() | float() | bytes():
                return (type(value).__name__, value)
            case BaseMessage():
                return (type(value).__name__, self.of(value.model_dump()))
            case Send():
                return ("Send", value.node, self.of(value.arg))
            case BaseException():
                return (type(value).__name__, self.of(str(value)))
            case Mapping():
                # Sorted without the ids in a key, so that they are met in the same order.
                keys = sorted(value, key=lambda key: IDS.sub("#", str(key)))
                return {self.of(key): self.of(value[key]) for key in keys}
            case set() | frozenset():
                return (type(value).__name__, sorted(repr(self.of(item)) for item in value))
            case tuple() if hasattr(value, "_asdict"):
                return (type(value).__name__, self.of(value._asdict()))
            case list() | tuple():
                return [type(value).__name__, *(self.of(item) for item in value)]
        if dataclasses.is_dataclass(value) or hasattr(value, "__slots__"):
            names = [name for name in _fields(value) if not name.startswith("_")]
            return (type(value).__name__, {name: self.of(getattr(value, name)) for name in names})
        return (type(value).__name__, self.of(repr(value)))

    def _name(self, found: str) -> str:
        return self.names.setdefault(found, f"#{len(self.names)}")

    def writes(self, pending: Iterable[PendingWrite]) -> dict[str, list]:
        """Of each task in their order. Of two tasks the order is that of their paths, and of two
        without a path that of their ids, which says nothing.

        Answers of a task that has come to its end are left out: nobody reads them again, and
        LangGraph's savers replace them (in memory) or do not (in SQL).
        """
        by_task: dict[str, list] = {}
        for task, channel, value in pending:
            by_task.setdefault(task, []).append((channel, value))
        unmet = [task for task in by_task if task not in self.names]
        for task in sorted(unmet, key=lambda task: IDS.sub("#", repr(by_task[task]))):
            self._name(task)
        for task, writes in by_task.items():
            if task != NO_TASK and any(channel not in WRITES_IDX_MAP for channel, _ in writes):
                by_task[task] = [write for write in writes if write[0] != RESUME]
        return {self._name(task): self.of(writes) for task, writes in by_task.items()}

    def snapshot(self, state: StateSnapshot) -> dict:
        """What a graph says of one of its states."""
        assert state.created_at is None or state.config["configurable"]["checkpoint_id"]
        return {
            "checkpoint": self.of(_place(state.config)),
            "parent": self.of(_place(state.parent_config)),
            "tasks": [self._task(task) for task in state.tasks],
            "interrupts": sorted(repr(self.of(interrupt)) for interrupt in state.interrupts),
            "next": sorted(state.next),
            "values": self.of(state.values),
            "metadata": self.of(state.metadata),
        }

    def _task(self, task: Any) -> dict:
        noted = {"id": self.of(task.id), "name": task.name, "path": self.of(task.path)}
        if isinstance(task.state, StateSnapshot):
            noted["state"] = self.snapshot(task.state)
        else:
            noted["state"] = self.of(_place(task.state))
        noted["interrupts"] = self.of(list(task.interrupts))
        noted["error"] = self.of(task.error)
        noted["result"] = self.of(task.result)
        return noted

    def stored(self, found: CheckpointTuple, parent: CheckpointTuple | None) -> dict:
        """What a saver says of one checkpoint."""
        checkpoint = dict(found.checkpoint)
        assert checkpoint.pop("id") == found.config["configurable"]["checkpoint_id"]
        checkpoint.pop("ts")
        versions = checkpoint.pop("channel_versions")
        seen = checkpoint.pop("versions_seen")
        before = parent.checkpoint["channel_versions"] if parent else {}
        updated = checkpoint.pop("updated_channels", None)
        return {
            "checkpoint": self.of(_place(found.config)),
            "parent": self.of(_place(found.parent_config)),
            "writes": self.writes(found.pending_writes or ()),
            "metadata": self.of(found.metadata),
            "parent's versions": _compared(before, versions),
            "versions seen": {node: _compared(of_node, versions) for node, of_node in seen.items()},
            "updated": None if updated is None else sorted(updated),
            "rest": self.of(checkpoint),
        }


def _fields(value: Any) -> Sequence[str]:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return list(value.__slots__)


def _compared(versions: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, str]:
    """How versions of channels compare with those of now."""
    names = {
        name: "same"
        if versions[name] == current[name]
        else "older"
        if versions[name] < current[name]
        else "newer"
        for name in versions.keys() & current.keys()
    }
    names |= dict.fromkeys(versions.keys() - current.keys(), "gone")
    return names | dict.fromkeys(current.keys() - versions.keys(), "none")


def _place(config: Any) -> dict | None:
    if config is None:
        return None
    names = ("checkpoint_ns", "checkpoint_id")
    return {name: config["configurable"].get(name) for name in names}


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
        """What is read one by one is what a list gives, for every checkpoint of every thread."""
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
        except (ValueError, RuntimeError, InvalidUpdateError) as error:
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
            for ns, checkpoints in self.storage[thread].items():
                for found in [*self.list(_where(thread, ns))]:
                    if _id(found) != max(checkpoints):
                        self._remove(found)

    def _remove(self, found: CheckpointTuple) -> None:
        where = found.config["configurable"]
        del self.storage[where["thread_id"]][where["checkpoint_ns"]][where["checkpoint_id"]]
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


def differs(seen: Any, expected: Any, where: str = "") -> str | None:
    """The first place where they do."""
    if isinstance(seen, dict) and isinstance(expected, dict) and seen.keys() == expected.keys():
        pairs = [(f"{where}/{key}", seen[key], expected[key]) for key in expected]
    elif (
        isinstance(seen, list | tuple)
        and isinstance(expected, list | tuple)
        and len(seen) == len(expected)
    ):
        both = zip(seen, expected, strict=True)
        pairs = [(f"{where}/{n}", one, other) for n, (one, other) in enumerate(both)]
    elif seen == expected:
        return None
    else:
        return f"{where} is {seen!r}, on LangGraph's own saver {expected!r}"
    return next((found for at, one, other in pairs if (found := differs(one, other, at))), None)


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
