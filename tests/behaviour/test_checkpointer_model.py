"""Any sequence of operations by three checkpointers with stale caches, against a model.

The model is a few dicts. What it says is the contract: order, lineage, states, results, refusals.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from memalchemy import Checkpointer, Database
from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.errors import Conflict, NotFound, ThreadDeleted

"""How many times the usual number of sequences to try."""

ALL = 1000
NOISE = random.Random(1).randbytes(3000).hex()

who = st.integers(0, 2)
thread = st.sampled_from([0, 0, 0, 0, 1, 1, 2])
pick = st.integers(0, 30)
change = st.sampled_from(
    ["append", "append", "append", "edit", "set", "drop", "shrink", "noise", "reorder", "types"]
)
parent = st.one_of(st.none(), pick)
steps = st.one_of(
    *3 * [st.tuples(st.just("save"), who, thread, st.none(), change)],
    st.tuples(st.just("save"), who, thread, pick, change),
    *2 * [st.tuples(st.just("branch"), who, thread, pick, change)],
    *2 * [st.tuples(st.just("replace"), who, thread, pick, parent, change)],
    st.tuples(st.just("expect"), who, thread, parent, change),
    *2 * [st.tuples(st.just("load"), who, thread, parent)],
    *2 * [st.tuples(st.just("delete"), who, thread, pick)],
    st.tuples(st.just("delete_thread"), who, thread),
    st.tuples(
        st.just("prune"),
        who,
        thread,
        st.one_of(st.none(), st.integers(1, 6)),
        st.one_of(st.none(), st.integers(1, 4)),
        st.booleans(),
    ),
    st.tuples(st.just("copy"), who, thread, thread),
    st.tuples(st.just("fork"), who, thread, parent, thread),
    st.tuples(st.just("rewrite"), who, thread),
)
sequences = st.sampled_from([1, 10, 40, 60]).flatmap(
    lambda size: st.lists(steps, min_size=size // 2, max_size=size)
)


@dataclass
class Named:
    """A checkpoint as the model knows it; ``word`` stands in no other save's new text."""

    parent: str | None
    seq: int
    ordinal: int
    state: dict[str, Any]
    word: str


@dataclass
class Thread:
    thread_id: str
    live: bool = False
    buried: bool = False
    next_seq: int = 1
    counted: int = 0
    names: dict[str, Named] = field(default_factory=dict)
    ever: list[str] = field(default_factory=list)

    def newest_first(self) -> list[str]:
        return sorted(self.names, key=lambda name: -self.names[name].seq)

    def head(self) -> str | None:
        return next(iter(self.newest_first()), None)

    def any_id(self, number: int) -> str:
        """One of the ids this thread has had, deleted ones too."""
        return self.ever[-1 - number % len(self.ever)] if self.ever else "never"

    def put(self, name: str, parent: str | None, state: dict[str, Any], word: str) -> None:
        """Save; without a parent, a new name takes the newest and a replaced one keeps its own."""
        if parent is None:
            parent = self.names[name].parent if name in self.names else self.head()
        self.counted += name not in self.names
        ordinal = self.names[name].ordinal if name in self.names else self.counted
        self.names[name] = Named(parent, self.next_seq, ordinal, state, word)
        self.next_seq += 1
        self.live, self.buried = True, False
        if name not in self.ever:
            self.ever.append(name)

    def pruned(self, keep_last: int | None, keep_every: int | None) -> list[str]:
        beyond = self.newest_first()[keep_last or 1 :]
        return [n for n in beyond if keep_every is None or self.names[n].ordinal % keep_every]


class Run:
    """One sequence: the checkpointers, the model of three threads, and what is expected of each."""

    def __init__(self, checkpointers: list[Checkpointer]) -> None:
        self.run = uuid.uuid4().hex[:10]
        self.checkpointers = checkpointers
        self.threads = [Thread(f"{self.run}/{number}") for number in range(3)]
        self.saves = 0

    async def step(self, operation: str, who: int, thread: int, *arguments: Any) -> None:
        method = getattr(self, f"do_{operation}")
        await method(self.checkpointers[who], self.threads[thread], *arguments)
        witness = self.checkpointers[(who + 1) % 3]
        await self.check_order(witness, self.threads[thread])

    def changed(self, thread: Thread, of: int | None, change: str) -> tuple[dict[str, Any], str]:
        """A state that came of an earlier one of the thread, and the word that is new in it."""
        self.saves += 1
        word = f"w{self.run}x{self.saves}"
        names = thread.newest_first()
        old: dict[str, Any] = {"noise": NOISE}
        if names:
            old = thread.names[names[(of or 0) % len(names)]].state
        messages = list(old.get("messages", ()))
        said = {"role": "assistant", "content": f"now {word} is said, {self.saves} times"}
        match change:
            case "append":
                return old | {"messages": [*messages, said]}, word
            case "edit" if messages:
                at = self.saves % len(messages)
                return old | {"messages": [*messages[:at], said, *messages[at + 1 :]]}, word
            case "set":
                return old | {f"key {self.saves % 5}": [word, None, 1.5, -0.0]}, word
            case "drop" if len(old) > 1:
                return dict(list(old.items())[1:]) | {"dropped": word}, word
            case "shrink":
                return {"note": word}, word
            case "noise":
                dice = random.Random(self.saves)
                return old | {"noise": dice.randbytes(dice.randint(0, 4000)).hex(), "w": word}, word
            case "reorder":
                return {"first": word} | dict(reversed(old.items())) | {"first": word}, word
            case "types":
                moment = datetime(2026, 1, 1, tzinfo=UTC)
                return old | {"~t": (moment, b"\x00", Decimal("1.0"), {"~": word}, 2**70)}, word
        return old | {"said": [said]}, word

    async def do_save(self, who: Checkpointer, thread: Thread, of: int | None, change: str) -> None:
        state, word = self.changed(thread, of, change)
        thread.put(await who.save(state, thread.thread_id), None, state, word)

    async def do_branch(self, who: Checkpointer, thread: Thread, of: int, change: str) -> None:
        state, word = self.changed(thread, of, change)
        await self.save_under(who, thread, thread.any_id(of), None, state, word)

    async def do_replace(
        self, who: Checkpointer, thread: Thread, which: int, of: int | None, change: str
    ) -> None:
        state, word = self.changed(thread, of, change)
        parent = None if of is None else thread.any_id(of)
        await self.save_under(who, thread, parent, thread.any_id(which), state, word)

    async def save_under(
        self,
        who: Checkpointer,
        thread: Thread,
        parent: str | None,
        name: str | None,
        state: dict[str, Any],
        word: str,
    ) -> None:
        saving = who.save(state, thread.thread_id, name, parent_id=parent)
        if parent is not None and parent == name:
            with pytest.raises(ValueError, match="own parent"):
                await saving
        elif parent is None or parent in thread.names:
            saved = await saving
            assert name is None or saved == name
            thread.put(saved, parent, state, word)
        else:
            with pytest.raises(ThreadDeleted if thread.buried else NotFound):
                await saving

    async def do_expect(
        self, who: Checkpointer, thread: Thread, which: int | None, change: str
    ) -> None:
        state, word = self.changed(thread, None, change)
        expected = None if which is None else thread.any_id(which)
        saving = who.save(state, thread.thread_id, expected_parent=expected)
        if expected == thread.head():
            thread.put(await saving, None, state, word)
        elif expected is not None and thread.buried:
            with pytest.raises(ThreadDeleted):
                await saving
        else:
            with pytest.raises(Conflict) as caught:
                await saving
            assert (caught.value.expected, caught.value.current) == (expected, thread.head())

    async def do_load(self, who: Checkpointer, thread: Thread, which: int | None) -> None:
        name = None if which is None else thread.any_id(which)
        wanted = thread.names.get(name or thread.head() or "")
        loaded = await who.load(thread.thread_id, name)
        assert repr(loaded) == repr(wanted and wanted.state)

    async def do_delete(self, who: Checkpointer, thread: Thread, which: int) -> None:
        name = thread.any_id(which)
        was_there = thread.names.pop(name, None) is not None
        assert await who.delete(thread.thread_id, name) is was_there

    async def do_delete_thread(self, who: Checkpointer, thread: Thread) -> None:
        assert await who.delete(thread.thread_id) is thread.live
        thread.buried = thread.buried or thread.live
        thread.live, thread.counted = False, 0
        thread.names.clear()

    async def do_prune(
        self,
        who: Checkpointer,
        thread: Thread,
        keep_last: int | None,
        keep_every: int | None,
        only_old: bool,
    ) -> None:
        if keep_last is None and keep_every is None:
            keep_last = 2
        gone = [] if only_old else thread.pruned(keep_last, keep_every)
        pruned = await who.prune(
            thread.thread_id,
            keep_last=keep_last,
            keep_every=keep_every,
            older_than=3600 if only_old else None,
        )
        assert pruned == len(gone)
        for name in gone:
            del thread.names[name]

    async def do_copy(self, who: Checkpointer, source: Thread, to: int) -> None:
        target = self.threads[to]
        copying = who.copy_thread(source.thread_id, target.thread_id)
        if target is source:
            with pytest.raises(ValueError, match="itself"):
                await copying
        elif not source.names:
            assert await copying is False
        elif target.names:
            with pytest.raises(Conflict):
                await copying
        else:
            assert await copying is True
            self.become(target, source, source.next_seq - 1)
        await self.check_order(who, target)

    async def do_fork(self, who: Checkpointer, source: Thread, which: int | None, to: int) -> None:
        target = self.threads[to]
        name = source.head() if which is None else source.any_id(which)
        forking = who.fork(
            source.thread_id,
            None if which is None else name,
            new_thread_id=target.thread_id,
        )
        if name not in source.names:
            with pytest.raises(NotFound):
                await forking
        elif target is source:
            with pytest.raises(ValueError, match="own"):
                await forking
        elif target.names:
            with pytest.raises(Conflict):
                await forking
        else:
            assert await forking == target.thread_id
            self.become(target, source, source.names[name].seq)
        await self.check_order(who, target)

    def become(self, target: Thread, source: Thread, until: int) -> None:
        target.live, target.buried, target.next_seq = True, False, until + 1
        target.names = {
            name: replace(named) for name, named in source.names.items() if named.seq <= until
        }
        target.counted = max((named.ordinal for named in target.names.values()), default=0)
        target.ever += [name for name in target.names if name not in target.ever]

    async def do_rewrite(self, who: Checkpointer, thread: Thread) -> None:
        assert await who.rewrite(thread.thread_id) >= 0
        assert await who.rewrite(thread.thread_id) == 0

    async def check_order(self, who: Checkpointer, thread: Thread) -> None:
        assert await who.list_checkpoints(thread.thread_id, limit=ALL) == thread.newest_first()

    async def check_everything(self) -> None:
        for number, thread in enumerate(self.threads):
            who = self.checkpointers[number]
            infos = [info async for info in who.history(thread.thread_id)]
            expected = [
                (name, thread.names[name].parent, thread.names[name].seq)
                for name in thread.newest_first()
            ]
            assert [(i.checkpoint_id, i.parent_id, i.seq) for i in infos] == expected
            for other in self.checkpointers:
                await self.do_load(other, thread, None)
            for name, named in thread.names.items():
                assert repr(await who.load(thread.thread_id, name)) == repr(named.state)
        await self.check_search()

    async def check_search(self) -> None:
        """What a save added is found there, and nowhere that does not hold it."""
        live = [(t, name, named) for t in self.threads for name, named in t.names.items()]
        for word in dict.fromkeys(named.word for _, _, named in live):
            hits = await self.checkpointers[0].search(word, limit=ALL)
            found = {(hit["thread_id"], hit["checkpoint_id"]) for hit in hits}
            assert len(found) == len(hits)
            added = {(t.thread_id, name) for t, name, named in live if named.word == word}
            held = {(t.thread_id, name) for t, name, named in live if word in repr(named.state)}
            assert added <= found <= held


@pytest.fixture
async def writers(db: Database, shared_url: str) -> AsyncIterator[list[Checkpointer]]:
    """Three checkpointers on the same rows, none of which knows what the others do."""
    async with AsyncExitStack() as opened:
        writers = [Checkpointer(db)]
        for max_chain_depth in (1024, 3):
            if shared_url == "sqlite://":
                other = Checkpointer(db, max_chain_depth=max_chain_depth)
                other._cache = TipCache()
                other._saver = replace(other._saver, cache=other._cache)
            else:
                second = await opened.enter_async_context(Database(shared_url, tenant=db.tenant))
                other = Checkpointer(second, max_chain_depth=max_chain_depth)
            writers.append(other)
        yield writers


@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,  # every sequence has threads of its own
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
@given(sequence=sequences)
@example(  # 1 has what 0 deletes in its cache
    sequence=[
        ("save", 0, 0, None, "append"),
        ("save", 1, 0, None, "append"),
        ("delete", 0, 0, 0),
        ("branch", 1, 0, 0, "append"),
    ]
)
@example(  # 0 encodes anew, at other depths, what 1 has in its cache
    sequence=[
        *[("save", 0, 0, None, "append")] * 5,
        ("branch", 1, 0, 4, "append"),
        *[("save", 1, 0, None, "append")] * 3,
        ("rewrite", 0, 0),
        ("save", 1, 0, None, "append"),
        ("save", 0, 0, None, "append"),
    ]
)
@example(  # the parent is of the thread's former life, and a state that shrinks needs no base
    sequence=[
        ("save", 1, 0, None, "append"),
        ("delete_thread", 0, 0),
        ("save", 0, 0, None, "append"),
        ("branch", 1, 0, 1, "shrink"),
    ]
)
async def test_any_sequence_of_operations_does_what_the_model_does(
    writers: list[Checkpointer], sequence: list[tuple[Any, ...]]
) -> None:
    run = Run(writers)
    for step in sequence:
        await run.step(*step)
    await run.check_everything()
