"""Any sequence of operations on a log by two readers and writers, against a list."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import memalchemy
from drawn_examples import examples
from memalchemy import UNSET, Conflict, Database, LogReading, NotFound, ThreadLog

"""How many times the usual number of sequences to try."""

threads = st.sampled_from(["t", "u"])
values = st.sampled_from(["text", {"n": 1}, (1, {2}), None, b"\x00", 2**70])
keyed = st.lists(st.tuples(values, st.sampled_from([None, None, "a", "b", "\x00"])), max_size=4)
wanted = st.sampled_from(["any", "any", "now", "stale", "none"])
places = st.integers(0, 12)
steps = st.one_of(
    *4 * [st.tuples(st.just("append"), threads, keyed, wanted)],
    *2 * [st.tuples(st.just("pop"), threads, wanted)],
    st.tuples(st.just("replace"), threads, places, keyed, wanted),
    st.tuples(st.just("edit"), threads, places, values, wanted),
    st.tuples(st.just("clear"), threads, wanted),
    st.tuples(st.just("delete"), threads),
    st.tuples(st.just("fork"), threads, places),
    *2 * [st.tuples(st.just("read"), threads)],
)
sequences = st.lists(steps, min_size=5, max_size=25)


@dataclass
class Kept:
    """A log as the model knows it: what is at which position, under which key."""

    entries: dict[int, tuple[Any, str | None]] = field(default_factory=dict)
    next: int = 1
    version: int = 0
    """0 once it was deleted; versions go on from ``last``."""
    last: int = 0

    def changed(self) -> None:
        self.last += 1
        self.version = self.last

    def append(self, given: list[tuple[Any, str | None]]) -> tuple[list[int], bool]:
        taken, added = [], False
        for value, key in given:
            there = [at for at, (_, k) in self.entries.items() if key is not None and k == key]
            if not there:
                self.entries[self.next] = (value, key)
                there = [self.next]
                self.next += 1
                added = True
            taken.append(there[0])
        return taken, added


@dataclass
class Model:
    """Both sides of the comparison."""

    log: ThreadLog
    other: ThreadLog
    """A second one on the same database, which reads."""
    kept: dict[str, Kept] = field(default_factory=lambda: {"t": Kept(), "u": Kept()})
    seen: dict[str, LogReading] = field(default_factory=dict)
    held: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    forks: int = 0

    async def step(self, name: str, thread: str, *how: Any) -> None:
        await getattr(self, name)(thread, self.kept[thread], *how)
        await self.compare(thread)

    def expected(self, kept: Kept, wanted: str) -> Any:
        version = {"any": UNSET, "now": kept.version, "stale": kept.last + 7, "none": 0}[wanted]
        return version, version is not UNSET and version != kept.version

    async def refused(self, work: Any) -> None:
        with pytest.raises((Conflict, memalchemy.ThreadDeleted)):
            await work

    async def append(self, thread: str, kept: Kept, given: Any, wanted: str) -> None:
        version, refuses = self.expected(kept, wanted)
        entries, keys = [value for value, _ in given], [key for _, key in given]
        work = self.log.append(thread, entries, keys=keys, expected_version=version)
        if refuses:
            await self.refused(work)
            return
        taken, added = kept.append(given)
        assert await work == taken
        if added:
            kept.changed()

    async def replace(self, thread: str, kept: Kept, after: int, given: Any, wanted: str) -> None:
        version, refuses = self.expected(kept, wanted)
        entries, keys = [value for value, _ in given], [key for _, key in given]
        work = self.log.replace_suffix(thread, after, entries, keys=keys, expected_version=version)
        if refuses:
            await self.refused(work)
            return
        before = len(kept.entries)
        kept.entries = {at: entry for at, entry in kept.entries.items() if at <= after}
        removed = before > len(kept.entries)
        taken, added = kept.append(given)
        assert await work == taken
        if added or removed:
            kept.changed()

    async def pop(self, thread: str, kept: Kept, wanted: str) -> None:
        version, refuses = self.expected(kept, wanted)
        work = self.log.pop(thread, expected_version=version)
        if refuses:
            await self.refused(work)
            return
        popped = await work
        if not kept.entries:
            assert popped is None
            return
        newest = max(kept.entries)
        assert popped is not None
        assert (popped.position, popped.value, popped.key) == (newest, *kept.entries.pop(newest))
        kept.changed()

    async def edit(self, thread: str, kept: Kept, at: int, value: Any, wanted: str) -> None:
        version, refuses = self.expected(kept, wanted)
        work = self.log.edit(thread, at, value, expected_version=version)
        if refuses:
            await self.refused(work)
            return
        assert await work is (at in kept.entries)
        if at in kept.entries:
            kept.entries[at] = (value, kept.entries[at][1])
            kept.changed()

    async def clear(self, thread: str, kept: Kept, wanted: str) -> None:
        version, refuses = self.expected(kept, wanted)
        work = self.log.clear(thread, expected_version=version)
        if refuses:
            await self.refused(work)
            return
        assert await work == len(kept.entries)
        if kept.entries:
            kept.entries.clear()
            kept.changed()

    async def delete(self, thread: str, kept: Kept) -> None:
        assert await self.log.delete(thread) is (kept.version != 0)
        if kept.version:
            kept.entries.clear()
            kept.changed()
            kept.version = 0

    async def fork(self, thread: str, kept: Kept, at: int) -> None:
        self.forks += 1
        new = f"fork-{self.forks}"
        if at not in kept.entries:
            with pytest.raises(NotFound):
                await self.log.fork(thread, at, new_thread_id=new)
            return
        await self.log.fork(thread, at, new_thread_id=new)
        upto = {place: entry for place, entry in kept.entries.items() if place <= at}
        found = await self.other.range(new)
        assert {e.position: (e.value, e.key) for e in found} == upto
        assert await self.log.append(new, "next") == [at + 1]

    async def read(self, thread: str, kept: Kept) -> None:
        """A reader that holds what it read before, and adds what is new or starts again."""
        news = await self.other.read(thread, self.seen.get(thread))
        held = [] if news.complete else self.held.get(thread, [])
        self.held[thread] = [*held, *((entry.position, entry.value) for entry in news.entries)]
        self.seen[thread] = replace(news, entries=[])
        expected = [(at, value) for at, (value, _) in sorted(kept.entries.items())]
        assert self.held[thread] == expected

    async def compare(self, thread: str) -> None:
        kept = self.kept[thread]
        found = await self.other.range(thread)
        assert [(e.position, e.value, e.key) for e in found] == [
            (at, *entry) for at, entry in sorted(kept.entries.items())
        ]
        assert await self.other.tail(thread, 2) == found[-2:]
        assert await self.other.count(thread) == len(found)
        assert await self.other.version(thread) == kept.version


SAY = ("append", "t", [("text", None), ({"n": 1}, "a")], "any")


@given(sequence=sequences)
@example([SAY, ("read", "t"), ("pop", "t", "now"), ("read", "t"), SAY, ("read", "t")])
@example([SAY, ("read", "t"), ("edit", "t", 1, None, "any"), ("read", "t"), ("fork", "t", 1)])
@example([SAY, ("read", "t"), ("delete", "t"), SAY, ("read", "t"), ("pop", "t", "stale")])
@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_any_sequence_does_what_a_list_would(db: Database, sequence: Any) -> None:
    mine = db.for_tenant(f"t-{uuid.uuid4().hex[:16]}")
    model = Model(memalchemy.ThreadLog(mine), memalchemy.ThreadLog(mine))
    for name, *how in sequence:
        await model.step(name, *how)
