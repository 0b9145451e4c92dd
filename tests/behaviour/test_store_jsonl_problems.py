"""Each problem of a line that is no item is a sentence about the field that is wrong."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from memalchemy import Database, Store
from memalchemy.store.jsonl import import_items

VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "x", "a" * 600, "\x00", "\ud800", [], [1], [None], [[]], {}),
    *({"a": 1}, {"~d": "x"}, {"a": {"~u": "zz"}}, {"a": 10**400}, {"": {"": [{}]}}),
    *("9999-12-31T23:59:59.9999999+00:00", "0001-01-01T00:00:00+14:00", "2030-01-01"),
    *("9999-12-31T23:59:59-12:00", "10000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
    *("9000-01-01T00:00:00Z", "2024-02-30T00:00:00Z", "-2024-02-03T00:00:00Z", "24:00"),
]
VECTORS: list[Any] = [
    [{"field": field, "model": "m", "part": part, "vector": vector}]
    for field, part, vector in (
        *((1, 0, [1]), ("f" * 200, 0, [1]), ("f", -1, [1]), ("f", 2**40, [1]), ("f", 0, [])),
        *(("f", 0, ["x"]), ("f", 0, "x"), ("f", 0, [True]), ("f", 0, [[1]]), ("f", 0, None)),
    )
]
FIELDS = ("namespace", "key", "value", "metadata", "expires_at", "vectors")
NAMES = {"vectors": "vector"}


@pytest.mark.parametrize("field", FIELDS)
async def test_a_problem_names_its_field(db: Database, field: str) -> None:
    store, problems = Store(db), set[str]()
    for value in (*VALUES, *VECTORS):
        record = {"namespace": ["a"], "key": "k", "value": 1} | {field: value}
        async for batch in import_items(
            store, [json.dumps(record).encode()], on_conflict="overwrite"
        ):
            assert sum(batch.counts.values()) == 1
            problems |= {problem.problem for problem in batch.problems}
    for problem in problems:
        assert re.match("has |holds |is ", problem), problem
        assert NAMES.get(field, field) in problem, problem
        assert not re.search("ttl|math|datetime|isoformat|NoneType", problem), problem
        assert not problem.endswith("."), problem
    assert problems or field == "value"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0001-01-01T00:00:00+14:00", "not between the years 1 and 9999 in UTC"),
        ("9999-12-31T23:59:59-12:00", "not between the years 1 and 9999 in UTC"),
        ("10000-01-01T00:00:00Z", "not a time in ISO 8601 of the years 1 to 9999"),
        ("9000-01-01T00:00:00Z", "over a thousand years ahead"),
    ],
)
async def test_a_time_that_no_item_can_have_is_said(db: Database, text: str, said: str) -> None:
    record = {"namespace": ["a"], "key": "k", "value": 1, "expires_at": text}
    (batch,) = [one async for one in import_items(Store(db), [json.dumps(record).encode()])]

    assert [one.problem for one in batch.problems] == [f"has an 'expires_at' that is {said}"]
    assert await Store(db).get(("a",), "k") is None
