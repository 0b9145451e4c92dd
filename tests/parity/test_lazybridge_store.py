"""LazyBridge's `Store`, which is `KeyValue` here."""

from __future__ import annotations

import asyncio
from contextvars import Context
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import BaseModel

import memalchemy.sync
from memalchemy import Database, KeyValue, NotSerialisable, events
from memalchemy.collections import ABSENT


async def test_b1_whether_and_how_many_keys_there_are_is_one_question_each(db: Database) -> None:
    kv = KeyValue(db)
    for n in range(30):
        await kv.write(f"k{n}", "x" * 1000)
    seen: list[events.Event] = []
    unsubscribe = events.subscribe(seen.append)
    try:
        assert await kv.exists("k7")
        assert await kv.count() == 30
    finally:
        unsubscribe()

    assert [event.round_trips for event in seen] == [1, 1]
    assert sum(event.payload_bytes for event in seen) == 0, "no value was read"


async def test_b4_the_event_loop_turns_while_a_write_waits_for_a_lock(db: Database) -> None:
    kv, turns = KeyValue(db), 0
    await kv.write("k", 0)

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with db.transaction() as tx:
        await kv.write("k", 1, connection=tx)
        # A task that knows nothing of the transaction: this one is told to pass it.
        waiting = asyncio.create_task(kv.write("k", 2), context=Context())
        turning = asyncio.ensure_future(turn())
        while turns <= 100:  # noqa: ASYNC110 - it counts
            await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    turning.cancel()

    assert await kv.read("k") == 2


async def test_b7_a_stored_null_and_an_absent_key_can_be_told_apart(db: Database) -> None:
    kv = KeyValue(db)
    await kv.write("null", None)

    assert await kv.compare_and_swap("null", ABSENT, 1) is False
    assert await kv.compare_and_swap("null", await kv.read_entry("null"), 1) is True
    assert await kv.compare_and_swap("absent", ABSENT, 1) is True


async def test_b8_what_is_read_is_what_was_written_and_never_the_same_object(
    db: Database,
) -> None:
    kv = KeyValue(db)
    value = {"when": datetime(2026, 1, 2, tzinfo=UTC), "pair": (1, 2), "list": [1]}
    await kv.write("k", value)
    value["list"].append(2)  # type: ignore[attr-defined]

    read = await kv.read("k")
    assert read == {"when": datetime(2026, 1, 2, tzinfo=UTC), "pair": (1, 2), "list": [1]}
    read["list"].append(3)
    assert (await kv.read("k"))["list"] == [1]
    with pytest.raises(NotSerialisable):
        await kv.write("k", {7: "a key that would come back as a text"})


async def test_b8_keys_come_in_one_order_on_every_database(db: Database) -> None:
    kv = KeyValue(db)
    for key in ("b", "B", "ä", "a", "Z", "10", "9"):
        await kv.write(key, 1)

    assert await kv.keys() == sorted(("b", "B", "ä", "a", "Z", "10", "9"))


@pytest.mark.parametrize("prefix", ["\ud7ff", "a\ud7ff", "\U0010ffff", "\x00", "%", "_"])
async def test_b9_a_prefix_may_end_in_any_character(db: Database, prefix: str) -> None:
    kv = KeyValue(db)
    await kv.write(prefix + "x", 1)
    await kv.write("other", 2)

    assert await kv.items(prefix=prefix) == [(prefix + "x", 1)]


async def test_b11_an_unknown_object_is_refused_and_not_kept_as_its_repr(db: Database) -> None:
    class Unknown:
        pass

    class Model(BaseModel):
        inner: int

    kv = KeyValue(db)
    with pytest.raises(NotSerialisable) as refused:
        await kv.write("k", {"deep": [Unknown()]})
    await kv.write("k", {"deep": [Model(inner=1)]})

    assert refused.value.path == "/deep/0"
    assert await kv.read("k") == {"deep": [{"inner": 1}]}


async def test_a_closed_store_opens_again_when_it_is_used_also_without_await(
    tmp_path: Path,
) -> None:
    db = Database(f"sqlite:///{tmp_path}/closed.db")
    kv = KeyValue(db)
    await kv.write("k", {"pair": (1, 2)})
    await kv.close()
    await db.close()

    assert await kv.read("k") == {"pair": (1, 2)}
    await db.close()

    def read_and_search() -> tuple[object, list[str]]:
        with memalchemy.sync.Database(f"sqlite:///{tmp_path}/closed.db") as same:
            store = memalchemy.sync.Store(same)
            store.put(("users", "ada"), "k", "tea")
            found = [hit.key for hit in store.search(("users", "ada"), "tea", 5)]
            return memalchemy.sync.KeyValue(same).read("k"), found

    assert await asyncio.to_thread(read_and_search) == ({"pair": (1, 2)}, ["k"])
