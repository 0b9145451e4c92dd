"""A read over many logs takes as many statements as it has pages, however many the logs are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.events import subscribe_statements
from memalchemy.log import listing as log_listing

Reading = Callable[[Checkpointer], Awaitable[Any]]


async def read_listed(checkpointer: Checkpointer) -> list[Any]:
    infos = [info async for info in checkpointer.history(None, order="id", below=True)]
    return [found async for found in checkpointer.snapshots_of(infos)]


async def read_export(checkpointer: Checkpointer) -> list[Any]:
    return [record async for record in checkpointer.export(tenant=checkpointer.db.tenant)]


READINGS: dict[str, Reading] = {
    "a listing with states": read_listed,
    "matches of metadata with states": lambda c: c.query_by_metadata("kind", "of many", data=True),
    "hits of words": lambda c: c.search("weather", 100),
    "hits of words with states": lambda c: c.search("weather", 100, below=True, data=True),
    "newest states without a match": lambda c: c.search_data("n", "none"),
    "newest checkpoints": lambda c: c.list_with_metadata(),
    "logs": lambda c: c.list_logs(below=True),
    "an export": read_export,
}


async def fill(db: Database, first: int, last: int) -> None:
    for number in range(first, last):
        await ThreadLog(db).append(f"thread {number}", [f"entry {number}"])
        for namespace in ((), ("calls", f"call {number}")):
            checkpointer = Checkpointer(db, namespace=namespace)
            text = f"the weather of {number}"
            await checkpointer.save(
                {"text": text, "n": number}, f"thread {number}", metadata={"kind": "of many"}
            )


async def count_statements(reading: Reading, db: Database) -> int:
    sent: list[str] = []
    stop = subscribe_statements(lambda event: sent.append(event.sql))
    try:
        await reading(Checkpointer(db))
    finally:
        stop()
    return len(sent)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.unsigned_only("each log that it writes is proven"))
        if name == "an export"
        else name
        for name in READINGS
    ],
)
async def test_statements_do_not_grow_with_logs(db: Database, name: str) -> None:
    await fill(db, 0, 3)
    await count_statements(READINGS[name], db)  # what is looked up once, is
    few = await count_statements(READINGS[name], db)
    await fill(db, 3, 20)

    assert await count_statements(READINGS[name], db) <= few + 1


PAGES = st.sampled_from([1, 4, 10, 500])
NAMES = st.sampled_from(["a", "b", "c" * 80, "\ud800"])
WRITES = st.tuples(
    st.sampled_from(["thread 1", "thread 2"]),
    st.sampled_from([(), ("x",), ("x", "y")]),
    NAMES,
    st.dictionaries(st.sampled_from(["m", "n"]), st.text(max_size=40) | st.integers(), max_size=2),
    st.sampled_from(["save", "save", "save", "save", "write", "delete"]),
)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=st.lists(WRITES, max_size=24), asked=st.randoms(use_true_random=False))
async def test_a_listing_gives_the_states_that_each_log_gives_alone(
    db: Database, written: list[Any], asked: Any
) -> None:
    root = uuid4().hex
    for thread_id, below, name, state, what in written:
        checkpointer = Checkpointer(db, namespace=(root, *below), max_chain_depth=3)
        if what == "save":
            await checkpointer.save(state, thread_id, name)
        elif what == "write":
            await checkpointer.put_writes([("channel", state)], thread_id, name, uuid4().hex)
        else:
            await checkpointer.delete_checkpoints(thread_id, [name])
    checkpointer = Checkpointer(db, namespace=(root,))
    infos = [info async for info in checkpointer.history(None, order="id", below=True)]
    asked.shuffle(infos)

    alone = [
        await Checkpointer(db, namespace=one.namespace).snapshot(one.thread_id, one.checkpoint_id)
        for one in infos
    ]
    found = [each async for each in checkpointer.snapshots_of(infos)]
    assert found == list(zip(infos, alone, strict=True))


async def test_a_listed_checkpoint_that_is_gone_is_left_out(db: Database) -> None:
    checkpointers = [Checkpointer(db, namespace=(name,)) for name in ("a", "b")]
    for number, checkpointer in enumerate(checkpointers):
        await checkpointer.save({"n": number}, "thread", "c")
    top = Checkpointer(db)
    infos = [info async for info in top.history("thread", order="id", below=True)]
    await checkpointers[0].delete("thread", all_namespaces=False)

    found = [one async for one in top.snapshots_of(infos)]
    assert [(info.namespace, one.state) for info, one in found] == [(("b",), {"n": 1})]
    assert [one async for one in top.snapshots_of([])] == []


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8), page=PAGES)
async def test_an_export_has_each_log_after_the_other_whatever_is_read_together(
    db: Database, lengths: list[tuple[int, int]], page: int
) -> None:
    own = db.for_tenant(f"t-{uuid4().hex[:16]}")
    expected: list[Any] = []
    for number, (states, entries) in enumerate(lengths):
        thread_id, namespace = f"t{number // 2}", ("n",) * (number % 2)
        for n in range(states):
            checkpointer = Checkpointer(own, namespace=namespace)
            await checkpointer.save({"n": n}, thread_id, f"c{n}")
            expected.append((thread_id, [*namespace], {"n": n}))
        for n in range(entries):
            await ThreadLog(own, namespace=namespace).append(thread_id, [n])
            expected.append((thread_id, [*namespace], n))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_listing, "PAGE", page)
        found = [one async for one in Checkpointer(own).export(tenant=own.tenant)]
    assert [
        (one["thread_id"], one["namespace"], one.get("state", one.get("value"))) for one in found
    ] == expected
