"""What is stored is what was passed: changing an object while a call waits changes nothing.

An object of many values that are not plain is encoded in a thread; of few, or plain, at once.
"""

from __future__ import annotations

import asyncio
import tracemalloc
import unittest
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, SafeUUID

import pytest
from pydantic import BaseModel

from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.codec import values
from memalchemy.conversations import RetainedCheckpointer
from memalchemy.errors import NotSerialisable
from waiting import steps

SMALL, LARGE = 3, 7_000
sizes = pytest.mark.parametrize("size", [SMALL, LARGE])
pytestmark = pytest.mark.asyncio_only(reason="a caller without await waits until it is done")


def made(size: int) -> dict[str, Any]:
    """Values that MessagePack lacks, in everything that can be changed."""
    return {
        "rows": [{"at": (n, [n]), "tags": {n, -n}} for n in range(size)],
        "by name": {f"name {n}": {"n": [n]} for n in range(size)},
        "when": datetime(2024, 1, 1, tzinfo=UTC),
    }


def spoil(given: dict[str, Any]) -> None:
    """Change everything in it that can be changed."""
    given["when"] = None
    for row in given["rows"]:
        row["tags"].add("spoilt")
        row["at"][1].append("spoilt")
        row["new"] = "spoilt"
    given["rows"].append("spoilt")
    for name in list(given["by name"]):
        given["by name"][name]["n"].append("spoilt")
        given["by name"][f"new {name}"] = "spoilt"
    given["more"] = "spoilt"


async def begun_and_spoilt(work: Coroutine[Any, Any, Any], *given: dict[str, Any]) -> Any:
    """Start a call as a task, change what it was given as soon as it waits, and await it."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    for one in given:
        spoil(one)
    return await task


@pytest.fixture
def spoils_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the thread that encodes come after the change, always."""
    plain = asyncio.to_thread

    async def later(work: Callable[..., Any], *args: Any) -> Any:
        await steps(20)
        return await plain(work, *args)

    monkeypatch.setattr(asyncio, "to_thread", later)


pytestmark = [pytestmark, pytest.mark.usefixtures("spoils_late")]


@sizes
async def test_a_state(checkpointer: Checkpointer, size: int) -> None:
    state, metadata = made(size), {"tags": ["one"]}
    await checkpointer.save({"first": 1}, "t")
    task = asyncio.create_task(checkpointer.save(state, "t", "c", metadata))
    await asyncio.sleep(0)
    spoil(state)
    metadata["tags"].append("spoilt")
    await task
    assert await checkpointer.load("t", "c") == made(size)
    assert (await checkpointer.get_metadata("t", "c") or {})["metadata"] == {"tags": ["one"]}
    assert await checkpointer.search("spoilt") == []


@sizes
async def test_pending_writes(checkpointer: Checkpointer, size: int) -> None:
    value = made(size)
    await begun_and_spoilt(checkpointer.put_writes([("channel", value)], "t", "c", "task"), value)
    (write,) = await checkpointer.get_writes("t", "c")
    assert write.value == made(size)


@sizes
async def test_an_item(store: Store, size: int) -> None:
    value = made(size)
    await begun_and_spoilt(store.put(("a",), "k", value), value)
    assert await store.get(("a",), "k") == made(size)
    assert await store.search(("a",), "spoilt") == []


@pytest.mark.parametrize(("count", "size"), [(2, SMALL), (300, SMALL), (2, LARGE)])
async def test_items_of_a_batch(store: Store, count: int, size: int) -> None:
    given = [made(size) for _ in range(count)]
    items = [(("a",), f"k{n}", value, {"tags": ["one"]}) for n, value in enumerate(given)]
    await begun_and_spoilt(store.put_batch(items), *given)
    found = await store.get_batch([(("a",), f"k{n}") for n in range(count)])
    assert list(found.values()) == [made(size)] * count


@pytest.mark.parametrize(("count", "size"), [(2, SMALL), (2_500, 1), (2, LARGE)])
async def test_entries(db: Database, count: int, size: int) -> None:
    log, given = ThreadLog(db), [made(size) for _ in range(count)]
    await begun_and_spoilt(log.append("t", given), *given)
    assert [entry.value for entry in await log.tail("t", count)] == [made(size)] * count


@sizes
async def test_an_edited_entry(db: Database, size: int) -> None:
    log, value = ThreadLog(db), made(size)
    (position,) = await log.append("t", "before")
    await begun_and_spoilt(log.edit("t", position, value), value)
    assert [entry.value for entry in await log.tail("t", 1)] == [made(size)]


@sizes
async def test_a_state_whose_messages_are_given_times(db: Database, size: int) -> None:
    checkpointer = RetainedCheckpointer(db)
    messages = [{"role": "user", "content": "hello"}]
    state = made(size) | {"messages": messages}
    task = asyncio.create_task(checkpointer.save(state, "t"))
    await asyncio.sleep(0)
    spoil(state)
    messages[0]["content"] = "spoilt"
    await task
    loaded = await checkpointer.load("t")
    assert loaded.pop("messages")[0]["content"] == "hello"
    assert loaded == made(size)


def test_what_an_object_belongs_to_does_not_make_it_large() -> None:
    # An enumeration refers to its class, and that to modules with all that they hold.
    few = [UUID(int=1), SafeUUID.safe, Decimal(1), datetime.now(UTC), date.min, object(), unittest]
    few += [len, values.is_heavy, [].append, Point(1, 2), Model(n=1)]
    assert not values.is_heavy([few], 100)
    assert not values.is_heavy(few, 100)


@dataclass
class Point:
    x: int
    y: int


class Model(BaseModel):
    n: int
    tags: list[str] = []


@pytest.mark.parametrize("made", [lambda n: Point(n, n), lambda n: Model(n=n, tags=["a"])])
def test_objects_count_with_what_they_hold(made: Any) -> None:
    assert values.is_heavy([[made(n) for n in range(40)]], 80)


def test_containers_that_share_a_large_one_are_large_without_being_listed() -> None:
    shared = list(range(40_000))
    tracemalloc.start()
    assert values.is_heavy([[shared] * 1_000])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_value_that_holds_itself_is_heavy() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert values.is_heavy([endless])


@pytest.mark.parametrize("kind", [dict, list, tuple, set, frozenset])
def test_each_container_counts(kind: Any) -> None:
    members = [(n, n) for n in range(30)] if issubclass(kind, dict) else range(30)
    assert values.is_heavy([kind(members)], 30)
    assert not values.is_heavy([kind(members)], 31)


def test_the_large_object_is_one_that_a_thread_encodes() -> None:
    assert values.is_heavy([made(LARGE)])
    assert not values.is_heavy([made(SMALL)])


def test_what_nests_too_deeply_is_left_for_the_encoder_to_refuse() -> None:
    round_: list[Any] = []
    round_.append(round_)
    values.frozen(round_)
    with pytest.raises(NotSerialisable, match="nested"):
        values.encode_state({"k": round_})
