"""Every method of the inspector returns plain JSON, whatever values were stored."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from drawn_examples import examples_of
from memalchemy import Checkpointer, Database, MemoryFact, Store, ThreadLog, UserMemoryStore
from memalchemy.analysis import TABLES, Analysis
from memalchemy.inspection import Activity, Inspector

sys.path.append(str(Path(__file__).parent.parent / "codec"))
import states

INTERRUPT = "__interrupt__"
LISTED: list[Any] = [
    b"\xff",
    datetime(2026, 4, 1, tzinfo=UTC),
    {1, "a"},
    frozenset({(1, 2)}),
    Decimal("1.50"),
    UUID(int=1),
    float("nan"),
    float("-inf"),
    10**400,
    10**5000,
    {10**5000, b""},
    Decimal("sNaN7"),
    {"text": [10**5000, float("nan")]},
    "\ud800",
    Path("a/b"),
    {"\ud800": [b"", {"deep": {UUID(int=2)}}]},
]


@cache
def stored_values() -> list[Any]:
    return [*LISTED, *examples_of(states.values, 30)]


async def fill(db: Database) -> None:
    """Store each value wherever a value can be: in messages, states, entries, writes and items."""
    for at, value in enumerate(stored_values()):
        call = {"id": "1", "name": "f", "arguments": {"a": value}}
        messages = [
            {"role": "user", "content": "hi", "data": value},
            {"role": "assistant", "content": value, "tool_calls": [call]},
            {"role": "assistant", "content": "", "tool_calls": [call | {"arguments": value}]},
            {"role": "tool", "tool_call_id": "1", "content": {"r": value}},
            {"role": "tool", "tool_call_id": "2", "content": value},
        ]
        await ThreadLog(db).append("entries", [*messages, {"kind": "event", "value": value}, value])
        await Store(db).put(("items",), str(at), {"value": value, "text": value})
        state = {"messages": messages, "value": value}
        await Checkpointer(db).save(state, "states", f"c{at}")
        for place, written in (("writes", value), (INTERRUPT, [{"value": value, "id": "i"}])):
            await Checkpointer(db).put_writes([(place, written)], "states", f"c{at}", "task")
        await Checkpointer(db).save({"value": value}, "values", f"c{at}")
    await UserMemoryStore(db).add(MemoryFact("f", "ada", "a fact"))


def calls(inspector: Inspector, at: int) -> dict[str, list[Callable[[], Any]]]:
    """Return calls of each method, of which some show the value of number *at*."""
    log, step, key = ("entries", ("log",)), f"c{at}", str(at)

    def transcript(*log: Any, **page: Any) -> list[Callable[[], Any]]:
        return [partial(inspector.transcript, *log, whole=one, **page) for one in (False, True)]

    return {
        "overview": [inspector.overview],
        "space": [inspector.space],
        "changes": [inspector.changes],
        "threads": [inspector.threads, lambda: inspector.threads(sort="cost")],
        "thread": [lambda: inspector.thread("states"), lambda: inspector.thread(*log)],
        "use": [inspector.use],
        "person": [lambda: inspector.person("ada")],
        "scope": [lambda: inspector.scope(agent="x"), lambda: inspector.scope(("items",))],
        "transcript": [
            *transcript("states", at=step),
            *transcript("values", at=step),
            *transcript(*log, before=7 * at + 8),
        ],
        "origins": [lambda: inspector.origins("states", at=step)],
        "added_messages": [
            partial(inspector.added_messages, "states", at=step, whole=one) for one in (False, True)
        ],
        "text": [
            *(partial(inspector.text, "states", index=one, at=step) for one in range(5)),
            lambda: inspector.text(*log, index=7 * at + 7),
        ],
        "timeline": [lambda: inspector.timeline("states")],
        "entries": [lambda: inspector.entries(*log, before=7 * at + 8)],
        "entry": [lambda: inspector.entry(*log, position=7 * at + 7)],
        "state": [lambda: inspector.state("states", at=step)],
        "diff": [partial(inspector.diff, "values", a=one, b=step) for one in ("c0", step)],
        "writes": [lambda: inspector.writes("states", at=step)],
        "interrupts": [lambda: inspector.interrupts("states", at=step)],
        "namespaces": [inspector.namespaces],
        "items": [lambda: inspector.items(("items",))],
        "item": [lambda: inspector.item(("items",), key)],
        "neighbours": [lambda: inspector.neighbours(("items",), key)],
        "memories": [lambda: inspector.memories("facts")],
        "search": [lambda: inspector.search("hi")],
    }


async def test_every_method_is_called(db: Database) -> None:
    methods = {name for name, _ in inspect.getmembers(Inspector, inspect.iscoroutinefunction)}
    assert methods == set(calls(Inspector(db), 0))


async def test_every_method_returns_plain_json(db: Database) -> None:
    await fill(db)
    inspector = Inspector(db)
    for at in range(len(stored_values())):
        for name, made in calls(inspector, at).items():
            for number, call in enumerate(made):
                if at and name in ("overview", "space", "threads", "use", "timeline", "search"):
                    continue
                found = await call()
                try:
                    json.dumps(found, allow_nan=False)
                except (TypeError, ValueError) as error:
                    pytest.fail(f"{name} {number} of {stored_values()[at]!r}: {error}")


async def test_activity_returns_plain_json(db: Database) -> None:
    await fill(db)
    for thread_id in ("states", "entries", "values"):
        found = await Activity(Inspector(db), thread_id).newest(500)
        assert found
        json.dumps(found, allow_nan=False)


async def test_the_analysis_reads_any_value(db: Database) -> None:
    await fill(db)
    analysis = Analysis(db)
    for table in TABLES:
        rows = [row async for batch in analysis.rows(table) for row in batch]
        assert all(isinstance(row, dict) for row in rows)
    assert analysis.unreadable == []
