"""Plain keys and values, shared by agents and processes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel
from store_helpers import undone

from lifetimes import MOMENT, end_lifetimes
from memalchemy import Conflict, Database, KeyValue, NotSerialisable, Store
from memalchemy.collections import ABSENT, KeyValueEntry


@pytest.fixture
def kv(db: Database) -> KeyValue:
    return KeyValue(db)


async def test_what_is_written_is_read_with_its_types(kv: KeyValue) -> None:
    value = {"n": 1, "when": datetime(2026, 1, 2, tzinfo=UTC), "pair": (1, b"\x00"), "none": None}

    assert await kv.write("k", value) == 1
    assert await kv.write("k", value) == 2
    assert await kv.read("k") == value
    assert type((await kv.read("k"))["pair"]) is tuple


async def test_a_key_that_is_not_there_is_the_default_and_a_stored_none_is_not(
    kv: KeyValue,
) -> None:
    await kv.write("none", None)

    assert await kv.read("none", "default") is None
    assert await kv.read("absent", "default") == "default"
    assert await kv.read("absent") is None
    assert (await kv.exists("none"), await kv.exists("absent"), await kv.exists(3)) == (
        True,
        False,
        False,
    )


async def test_an_entry_says_who_wrote_it_and_when(db: Database) -> None:
    kv = KeyValue(db, agent_id="planner")
    before = datetime.now(UTC)
    await kv.write("k", 1)
    await kv.write("other", 1, agent_id="critic")

    entry = await kv.read_entry("k")

    assert isinstance(entry, KeyValueEntry)
    assert (entry.key, entry.value, entry.agent_id, entry.version) == ("k", 1, "planner", 1)
    assert before - timedelta(seconds=5) <= entry.written_at <= datetime.now(UTC)
    other = await kv.read_entry("other")
    assert other is not None
    assert other.agent_id == "critic"
    assert await kv.read_entry("absent") is None


async def test_keys_and_items_come_by_key_and_by_prefix(kv: KeyValue) -> None:
    for key in ("b/2", "a", "b/10", "b", "c"):
        await kv.write(key, key.upper())

    assert await kv.keys() == ["a", "b", "b/10", "b/2", "c"]
    assert await kv.keys(prefix="b/") == ["b/10", "b/2"]
    assert await kv.items(prefix="b") == [("b", "B"), ("b/10", "B/10"), ("b/2", "B/2")]
    assert await kv.items(prefix="") == await kv.items()
    assert await kv.read_all() == {k: k.upper() for k in ("a", "b", "b/10", "b/2", "c")}
    assert await kv.count() == 5


async def test_more_keys_than_a_page_are_all_there(
    kv: KeyValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.collections.key_value.PAGE", 3)
    for n in range(10):
        await kv.write(f"k{n}", n)

    assert await kv.items() == [(f"k{n}", n) for n in range(10)]
    assert await kv.keys(prefix="k") == [f"k{n}" for n in range(10)]


async def test_what_is_deleted_is_gone_and_clear_keeps_the_memories_of_agents(
    kv: KeyValue,
) -> None:
    await kv.write("a", 1)
    await kv.write("b", 1)
    await kv.write_memory("planner", turns=[{"user": "hi", "assistant": "ho"}], summary="s")

    assert await kv.delete("a") is True
    assert await kv.delete("a") is False
    assert await kv.clear() == 1
    assert await kv.keys() == []
    memory = await kv.read_memory("planner")
    assert memory is not None
    assert memory["turns"] == [{"user": "hi", "assistant": "ho"}]
    assert memory["summary"] == "s"
    assert memory["updated_at"].tzinfo is not None
    assert await kv.read_memory("planner", "another session") is None
    assert await kv.read_memory("critic") is None
    assert await kv.delete_memory("planner") is True
    assert await kv.read_memory("planner") is None


async def test_a_key_that_lives_for_a_while_is_gone_after_it(kv: KeyValue) -> None:
    await kv.write("k", 1, ttl=MOMENT)

    assert await kv.read("k", "gone") == "gone"
    assert await kv.keys() == []
    assert await kv.compare_and_swap("k", ABSENT, 2) is True


async def test_models_are_written_as_their_json(kv: KeyValue) -> None:
    class Plan(BaseModel):
        due: datetime
        steps: tuple[str, ...]

    plan = Plan(due=datetime(2026, 1, 2, tzinfo=UTC), steps=("a",))
    await kv.write("k", {"plans": [plan]})

    assert await kv.read("k") == {"plans": [{"due": "2026-01-02T00:00:00Z", "steps": ["a"]}]}
    assert await kv.compare_and_swap("k", {"plans": [plan]}, plan) is True
    assert await kv.read("k") == plan.model_dump(mode="json")


async def test_what_cannot_be_stored_is_refused_and_changes_nothing(kv: KeyValue) -> None:
    await kv.write("k", 1)

    with pytest.raises(NotSerialisable):
        await kv.write("k", object())
    with pytest.raises(NotSerialisable):
        await kv.compare_and_swap("k", 1, object())
    assert await kv.read("k") == 1


@pytest.mark.parametrize(
    ("stored", "expected", "swaps"),
    [
        ({"a": 1, "b": [1]}, {"b": [1], "a": 1}, True),
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        ((1,), [1], False),
        (None, None, True),
        (None, ABSENT, False),
        (0, None, False),
    ],
)
async def test_compare_and_swap_needs_an_equal_value(
    kv: KeyValue, stored: Any, expected: Any, swaps: bool
) -> None:
    await kv.write("k", stored)

    assert await kv.compare_and_swap("k", expected, "new") is swaps
    assert await kv.read("k") == ("new" if swaps else stored)


async def test_a_swap_of_what_is_not_there_creates_it_once(kv: KeyValue) -> None:
    assert await kv.compare_and_swap("k", 1, 2) is False
    assert await kv.compare_and_swap("k", ABSENT, "first") is True
    assert await kv.compare_and_swap("k", ABSENT, "second") is False
    assert await kv.compare_and_swap("new", None, "first") is True
    assert await kv.compare_and_swap("new", None, "second") is False
    assert await kv.read_all() == {"k": "first", "new": "first"}


async def test_a_swap_of_an_entry_fails_where_the_key_was_removed_and_written_anew(
    kv: KeyValue,
) -> None:
    await kv.write("k", "free")
    entry = await kv.read_entry("k")
    assert entry is not None
    await kv.delete("k")
    assert await kv.write("k", "taken") == entry.version

    assert await kv.compare_and_swap("k", entry, "mine") is False
    assert await kv.read("k") == "taken"


async def test_a_swap_of_an_entry_fails_where_it_expired_and_was_written_anew(
    kv: KeyValue,
) -> None:
    await kv.write("k", "free", ttl=60)
    entry = await kv.read_entry("k")
    assert entry is not None
    await end_lifetimes(kv.store.db)
    await kv.write("k", "taken")

    assert await kv.compare_and_swap("k", entry, "mine") is False


async def test_a_swap_of_an_entry_fails_once_somebody_has_written(kv: KeyValue) -> None:
    await kv.write("k", None)
    entry = await kv.read_entry("k")
    await kv.write("k", None)

    assert await kv.compare_and_swap("k", entry, 1) is False
    assert await kv.compare_and_swap("k", await kv.read_entry("k"), 1, agent_id="me") is True
    written = await kv.read_entry("k")
    assert written is not None
    assert (written.value, written.agent_id) == (1, "me")


async def test_concurrent_increments_lose_nothing(kv: KeyValue) -> None:
    await kv.write("n", 0)

    async def count_up() -> None:
        while not await kv.compare_and_swap("n", seen := await kv.read("n"), seen + 1):
            pass

    await asyncio.gather(*(count_up() for _ in range(20)))

    assert await kv.read("n") == 20


async def test_namespaces_are_separate(db: Database) -> None:
    one, other = KeyValue(db, namespace=("one",)), KeyValue(db, namespace=("one", "below"))
    await one.write("k", 1)
    await other.write("k", 2)

    assert (await one.read_all(), await other.read_all()) == ({"k": 1}, {"k": 2})
    assert await one.clear() == 1
    assert await other.read("k") == 2


async def test_text_for_a_prompt_names_the_keys_that_are_asked_for(kv: KeyValue) -> None:
    await kv.write("b", {"x": [1, "é"]})
    await kv.write("a", None)

    assert await kv.to_text() == 'a: null\nb: {"x": [1, "é"]}'
    assert await kv.to_text(["b", "absent"]) == 'b: {"x": [1, "é"]}'
    assert await kv.to_text([]) == await kv.to_text()


async def test_a_transaction_that_is_rolled_back_leaves_nothing(db: Database) -> None:
    kv = KeyValue(db)
    async with undone(db) as tx:
        await kv.write("k", 1, connection=tx)
        assert await kv.compare_and_swap("k", 1, 2, connection=tx) is True
        assert await kv.items(connection=tx) == [("k", 2)]

    assert await kv.exists("k") is False


async def test_values_are_items_that_a_store_finds(db: Database) -> None:
    kv = KeyValue(db, index_text=True)
    await kv.write("drink", "green tea")

    hits = await Store(db).search(("kv",), "tea")

    assert [hit.key for hit in hits] == ["drink"]
    with pytest.raises(Conflict):
        await Store(db).put(("kv",), "drink", 1, expected_version=7)
