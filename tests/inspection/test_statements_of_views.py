"""A view sends as many statements for many rows as for few."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memalchemy import Checkpointer, Conversation, Database, Store, ThreadLog
from memalchemy.events import subscribe_statements
from memalchemy.inspection import Activity, Inspector

pytestmark = pytest.mark.unsigned_only("it counts statements")

FEW, MANY = 3, 20
"""Rows of a view. All of them are read at once: see `STEPS_AT_ONCE`, `NAMESPACES_AT_ONCE`."""


async def count(reading: Awaitable[Any]) -> tuple[int, Any]:
    """Return the number of statements that a reading sends, and what it returns.

    What is read in memory has a transaction of its own: what begins and ends it does not count.
    """
    sent: list[str] = []
    stop = subscribe_statements(lambda event: sent.append(event.sql))
    try:
        found = await reading
    finally:
        stop()
    return sum(not sql.startswith(("BEGIN", "COMMIT")) for sql in sent), found


async def converse(db: Database, number: int) -> None:
    await Conversation(db, f"talk {number}").add("Hello", f"Good day {number}")


async def put_item(db: Database, number: int) -> None:
    await Store(db).put(("facts", f"user {number:03}"), "key", {"text": str(number)})


async def append_entry(db: Database, number: int) -> None:
    await ThreadLog(db).append("thread", [{"role": "user", "content": str(number)}])


async def save_thread(db: Database, number: int) -> None:
    said = [{"role": "user", "content": str(number)}]
    metadata = {"agent": "planner"}
    await Checkpointer(db).save({"messages": said}, f"thread {number}", metadata=metadata)


VIEWS: dict[str, tuple[Callable[[Database, int], Awaitable[None]], Callable[[Inspector], Any]]] = {
    "conversations": (converse, lambda one: one.memories("conversations")),
    "items": (put_item, lambda one: one.items()),
    "entries": (append_entry, lambda one: one.entries("thread", ("log",))),
    "timeline": (save_thread, lambda one: one.timeline("thread 0")),
}


@pytest.mark.parametrize("name", VIEWS)
async def test_statements_do_not_grow_with_rows(db: Database, name: str) -> None:
    write, read = VIEWS[name]
    for number in range(FEW):
        await write(db, number)
    await read(Inspector(db))  # what is looked up once, is
    few, _ = await count(read(Inspector(db)))
    for number in range(FEW, MANY):
        await write(db, number)
    many, found = await count(read(Inspector(db)))

    assert many <= few
    assert found


async def test_namespaces_are_found_together_and_each_is_counted(db: Database) -> None:
    for number in range(MANY):
        await put_item(db, number)
    sent, found = await count(Inspector(db).namespaces(("facts",)))

    assert [one["namespace"][-1] for one in found["namespaces"]] == [
        f"user {number:03}" for number in range(MANY)
    ]
    assert sent <= MANY + 2  # a bounded count of each


async def test_steps_that_are_followed_are_read_together(db: Database) -> None:
    async def follow(first: int, last: int) -> tuple[int, list[Any]]:
        messages = [{"role": "user", "content": str(at)} for at in range(last)]
        for number in range(first, last):
            await Checkpointer(db).save({"messages": messages[: number + 1]}, "thread")
        return await count(activity.since())

    await Checkpointer(db).save({"messages": []}, "thread")
    activity = Activity(Inspector(db), "thread")
    await activity.newest(1)
    await follow(0, 1)
    few, _ = await follow(1, 3)
    many, found = await follow(3, 13)

    assert [one["messages"][0]["text"] for one in found] == [str(at) for at in range(3, 13)]
    assert many <= few
