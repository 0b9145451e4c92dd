"""Activity returns what is written to a thread, each row once."""

from __future__ import annotations

from typing import Any

import pytest

from memalchemy import Checkpointer, Database, NotFound, ThreadLog
from memalchemy.inspection import Activity, Inspector, activity


def state(length: int, last: str = "") -> dict[str, Any]:
    said = [{"role": "user", "content": f"{n}"} for n in range(length)]
    return {"messages": [*said, *([{"role": "user", "content": last}] if last else [])]}


def follow(db: Database, namespace: tuple[str, ...] | None = None) -> Activity:
    return Activity(Inspector(db), "t", namespace)


def texts(record: dict[str, Any]) -> list[str]:
    return [message["text"] for message in record["messages"]]


async def test_rows_come_once_and_in_the_order_of_their_logs(db: Database) -> None:
    states, log = Checkpointer(db), ThreadLog(db)
    await states.save(state(2), "t", "a")
    await log.append("t", ["x", "y"])
    seen = follow(db)
    newest = await seen.newest(2)
    writes = [("one", 1), ("__interrupt__", [{"value": "?"}])]
    await states.put_writes(writes, "t", "a", "task")
    await states.save(state(3), "t", "b")
    await log.append("t", "z")
    new = await seen.since()

    assert [one["messages"][0]["value"] for one in newest] == ["x", "y"]
    assert [one["kind"] for one in new] == ["write", "interrupt", "step", "entry"]
    assert (new[0]["value"], new[1]["value"], new[3]["key"]) == (1, "?", None)
    assert not new[1]["answered"]
    assert (new[2]["added"], new[2]["total"], texts(new[2])) == (1, 3, ["2"])
    assert await seen.since() == []


async def test_a_step_shows_what_is_new_to_its_parent(db: Database) -> None:
    states = Checkpointer(db)
    await states.save(state(3), "t", "a")
    await states.save(state(5), "t", "b")
    await states.save(state(3, "other"), "t", "branch", parent_id="a")
    await states.save(state(1, "summary"), "t", "c")

    newest = await follow(db).newest(4)

    assert [texts(one) for one in newest] == [["0", "1", "2"], ["3", "4"], ["other"], ["summary"]]


async def test_news_of_more_logs_than_are_looked_at_first_are_not_missed(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "LOGS", 3)
    seen = follow(db)
    await ThreadLog(db, namespace=("first",)).append("t", "0")
    await seen.newest(1)
    for number in range(7):
        await ThreadLog(db, namespace=(f"n{number}",)).append("t", str(number))

    new = await seen.since()

    assert sorted(one["messages"][0]["value"] for one in new) == [str(n) for n in range(7)]
    assert await seen.since() == []


async def test_much_is_read_in_pages(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "ROWS", 3)
    log = ThreadLog(db)
    await log.append("t", "first")
    seen = follow(db)
    await seen.newest(1)
    await log.append("t", list(range(7)))

    found = []
    while True:
        found += await seen.since()
        if not seen.is_behind:
            break

    assert [one["messages"][0]["value"] for one in found] == list(range(7))


async def test_a_thread_that_is_deleted_and_begun_anew_starts_again(db: Database) -> None:
    states = Checkpointer(db)
    await states.save(state(3), "t", "a")
    seen = follow(db)
    await seen.newest(1)
    await states.delete("t")
    with pytest.raises(NotFound, match="deleted"):
        await seen.since()

    await states.save(state(1), "t", "new")

    assert [one["checkpoint_id"] for one in await seen.since()] == ["new"]


async def test_one_namespace_is_followed_alone(db: Database) -> None:
    await ThreadLog(db, namespace=("a",)).append("t", 1)
    await ThreadLog(db, namespace=("b",)).append("t", 2)

    assert [one["namespace"] for one in await follow(db, ("b",)).newest(9)] == [["b"]]
    with pytest.raises(NotFound, match="does not exist"):
        await follow(db, ("c",)).newest(9)


async def test_a_look_costs_one_query_if_nothing_was_written(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        await ThreadLog(db, namespace=("log", str(number))).append("t", number)
    seen = follow(db)
    await seen.newest(3)
    sent: list[Any] = []
    run_query = activity.run_query

    async def counted(*arguments: Any, **options: Any) -> Any:
        sent.append(arguments[1])
        return await run_query(*arguments, **options)

    monkeypatch.setattr(activity, "run_query", counted)
    assert await seen.since() == []
    assert len(sent) == 1
    await ThreadLog(db, namespace=("log", "1")).append("t", "new")
    assert len(await seen.since()) == 1
    assert len(sent) == 3
