"""Random calls of the public classes: a result, or an error that is documented, and nothing else.

Arguments are drawn by the name of their parameter, valid or not. A `TypeError` or `ValueError` has
to be raised on purpose, by a line of memalchemy's that begins with ``raise``: one that escapes from
Python's own workings is a defect. What belongs to another tenant stays as it was.

`MEMALCHEMY_EXAMPLES` multiplies the number of calls; ``nox -s fuzz`` makes 100,000 on each
database.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from drawn_examples import examples
from memalchemy import Checkpointer, Database, Episode, MemalchemyError, MemoryFact, Store
from public_calls import CLASSES, arguments, methods_of, outcome
from told_errors import is_raised_on_purpose, told
from waiting import A_WHILE

CALLS = examples(1_500)
SECONDS = 10.0
"""The longest that one call may take, on a machine that does other things, too."""

DEEP: list[Any] = []
for _ in range(3_000):
    DEEP = [DEEP]

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**400),
    *(0.0, -0.5, 1.5, math.nan, math.inf, 5e-324, 1e308),
    *(
        "",
        " ",
        "x",
        "\x00",
        "\ud800",
        "é",
        "a" * 300,
        "a" * 5_000,
        "\u202ea",
        "'; DROP TABLE threads",
    ),
    *("/", "~", "%", "_", "\x1a", "latest", "[", "{", '"', "*", "NEAR(", "日本語"),
    *(b"", b"\x00\xff", bytearray(b"x"), memoryview(b"x")),
    *(
        [],
        [None],
        [1, "a", b"b"],
        (),
        ("a",),
        ("a", "b"),
        ("", "\x00"),
        ("a",) * 40,
    ),
    *({}, {"a": 1}, {1: 2}, {"": None}, {"a": {"b": [1.5, None]}}, {"$gt": 1}, {"a": {"$gt": "x"}}),
    *({"a": {"$in": [1] * 500}}, {"a": {"$unknown": 1}}, {"a": math.nan}, {"a": 2**70}),
    *(set(), {1, 2}, frozenset({"a"}), object(), Ellipsis, 3 + 4j, range(3)),
    *(datetime(2026, 1, 1, tzinfo=UTC), datetime(1, 1, 1), datetime.max, timedelta(0)),
    *(timedelta(days=-1), timedelta.max, timedelta(seconds=5)),
    *([1.0, 2.0], [0.0, 0.0], [math.nan, 1.0], [1.0] * 20_000, ["a"]),
]

FACT = MemoryFact("f1", "ada", "likes tea")
EPISODE = Episode(task="a task", result="done")

NESTED = {"state", "value", "values", "metadata", "filter", "entries", "items", "messages"}
"""Parameters of which any depth is refused, or kept."""

USUAL: dict[str, list[Any]] = {
    "thread_id": ["t", "u", "no such thread"],
    "source_thread_id": ["t", "u"],
    "dest_thread_id": ["v", "w"],
    "new_thread_id": ["v", "w", None],
    "thread_ids": [["t", "u"], []],
    "checkpoint_id": ["c0", "c1", "no such checkpoint", None],
    "checkpoint_ids": [["c0", "c1"], []],
    "parent_id": ["c0", None],
    "expected_parent": ["c0", None],
    "a": ["c0"],
    "b": ["c1"],
    "state": [{"messages": ["hello"]}, {"n": 1, "m": {"x": [1, 2, 3]}}],
    "metadata": [{"step": 1}, None, {}],
    "namespace": [("users", "ada"), (), ("a",)],
    "key": ["k", "l", "no such key"],
    "keys": [[(("users", "ada"), "k")], ["k"], None],
    "value": [1, "text", {"text": "some words"}],
    "values": [[1, 2], ["text"]],
    "entries": [[1, "two", {"three": 3}]],
    "query": ["words", "some", "nothing of the kind"],
    "limit": [1, 10, None],
    "offset": [0, 3],
    "filter": [{"text": "some words"}, {"n": {"$gte": 1}}, None],
    "mode": ["text", "vector", "hybrid"],
    "match": ["any", "all"],
    "embedding": [[1.0, 2.0], None],
    "vector": [[1.0, 2.0]],
    "ttl": [5, 0.5, None, timedelta(seconds=3)],
    "position": [1, 2, 0],
    "expected_version": [1, None],
    "items": [[(("users", "ada"), "k", 1)]],
    "writes": [[("channel", 1)]],
    "task_id": ["task"],
    "user_id": ["ada", "bob"],
    "fact": [FACT],
    "episode": [EPISODE],
    "text": ["some words"],
    "texts": [["some words", "others"]],
    "messages": [[{"role": "user", "content": "hello"}]],
    "role": ["user", "assistant"],
    "content": ["hello"],
    "keep_last": [1, 3, None],
    "run_ids": [["r"]],
}


def argument(name: str, rng: random.Random) -> Any:
    usual = USUAL.get(name)
    if usual is not None and rng.random() < 0.75:
        return rng.choice(usual)
    if name in NESTED and rng.random() < 0.1:
        return DEEP
    return rng.choice(ODD)


@pytest.mark.own_keys
@pytest.mark.alone
@pytest.mark.asyncio_only("the synchronous classes call the same methods")
async def test_a_call_ends_in_a_result_or_a_documented_error(database_url: str) -> None:
    rng = random.Random(1147)
    wrong: Counter[str] = Counter()
    async with Database(database_url, migrate="upgrade") as db:
        other = db.for_tenant("another")
        await Checkpointer(other).save({"mine": 1}, "t", "c0")
        await Store(other).put(("users", "ada"), "k", "mine")
        for number in range(3):
            await Checkpointer(db).save({"messages": ["hello"] * number}, "t", f"c{number}")
        subjects = {name: make(db) for name, make in CLASSES.items()}
        names = [(name, method) for name, of in subjects.items() for method in methods_of(of)]
        assert len(names) > 60
        for number in range(CALLS):
            class_name, name = names[number % len(names)] if number < 500 else rng.choice(names)
            method = getattr(subjects[class_name], name)
            given, named = arguments(method, rng, argument)
            began = time.process_time()
            try:
                async with asyncio.timeout(A_WHILE):
                    await outcome(partial(method, *given, **named))
            except MemalchemyError:
                pass
            except (TypeError, ValueError) as error:
                if not is_raised_on_purpose(error) and "argument" not in str(error):
                    wrong[f"{class_name}.{name}{shown(given, named)}: {told(error)}"] += 1
            except Exception as error:  # noqa: BLE001 - what it is is the question
                wrong[f"{class_name}.{name}{shown(given, named)}: {told(error)}"] += 1
            if (took := time.process_time() - began) > SECONDS:
                wrong[f"{class_name}.{name} took {took:.0f} s"] += 1
        assert await Checkpointer(other).load("t") == {"mine": 1}
        assert await Store(other).get(("users", "ada"), "k") == "mine"
        assert (await db.health())["checked_out"] == 0
    assert not wrong, "\n".join(f"{count} x {what}" for what, count in wrong.most_common(40))


def shown(given: list[Any], named: dict[str, Any]) -> str:
    """The arguments of a call, as one writes them."""
    values = [(f"{key}=", one) for key, one in named.items()]
    values = [("", one) for one in given] + values
    written = (key + ("DEEP" if one is DEEP else repr(one)[:40]) for key, one in values)
    return f"({', '.join(written)})"
