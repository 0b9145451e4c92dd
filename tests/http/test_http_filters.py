"""Filters over HTTP accept, delete and refuse what they do without HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import httpx
import numpy as np
import pytest

from memalchemy import Checkpointer, Database, HTTPCheckpointer, NotSerialisable, Store
from memalchemy.http import HTTPStore

pytestmark = pytest.mark.usefixtures("lasting")

NOTES = ("notes",)
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Color(StrEnum):
    RED = "red"


class Rank(IntEnum):
    FIRST = 1


class Plain(Enum):
    RED = "red"


class Moment(datetime):
    """A subclass, as those of pandas are."""


VALUES: dict[str, Any] = {
    "datetime": NOON,
    "datetime without a zone": NOON.replace(tzinfo=None),
    "date": date(2026, 5, 1),
    "uuid": UUID(int=7),
    "decimal": Decimal("1.10"),
    "number": 1,
    "large number": 2**70,
    "infinity": float("inf"),
    "bytes": b"\xff",
    "set": {1, "two"},
    "list": [1, (2, b"x")],
    "tags": {"~dt": "red", "~other": 1},
    "path": PurePosixPath("/a"),
    "windows": PureWindowsPath("C:/a"),
    "text": "red",
    "lone surrogate": "\ud800",
    "nothing": None,
    "flag": True,
}
"""Values of items, each of which is under the key ``v`` of an item of its own."""

OPERANDS: list[Any] = [
    *VALUES.values(),
    float("nan"),
    Decimal("1.0"),
    NOON.astimezone(timezone(timedelta(hours=5, microseconds=1))),
    Moment(2026, 5, 1, 12, tzinfo=UTC),
    frozenset({1, "two"}),
    (1, [2, b"x"]),
    np.int64(1),
    np.float64("nan"),
    Color.RED,
    Rank.FIRST,
    MappingProxyType({"~dt": "red", "~other": 1}),
]

FILTERS: list[Any] = [
    *({"v": operand} for operand in OPERANDS),
    *({"v": {"$ne": operand}} for operand in OPERANDS),
    *({"v": {"$in": [operand]}} for operand in OPERANDS),
    *({"v": {"$gte": operand}} for operand in (NOON, date(2026, 1, 1), Decimal(1), 0, "r")),
    *({"v": {"$date": {"$lte": operand}}} for operand in (NOON, date(2026, 5, 2), "2026-05-02")),
    {"v": {"$in": {1, NOON, UUID(int=7), (1, (2, b"x"))}}},
    {"v": {"$nin": frozenset({b"\xff", PurePosixPath("/a"), None})}},
    {"$or": [{"v": b"\xff"}, {"$not": {"v": {"$type": "uuid"}}}]},
    {"$and": ({"v": {"$contains": "two"}}, {"$value": {"v": {"$any": {"$eq": 1}}}})},
    {"/v/~0dt": "red"},
    {"~dt": {"$exists": False}},
    MappingProxyType({Color.RED: {"$exists": False}}),
    None,
    {},
]

REFUSED: list[Any] = [
    [],
    [("v", 1)],
    "v",
    {1: 2},
    {"v": {1: 2}},
    {"v": object()},
    {"v": Plain.RED},
    {"v": 1j},
    {"v": np.datetime64("2026-05-01")},
    {"v": {"$in": {range(3)}}},
    {"v": {"$unknown": 1}},
    {"v": {"gte": 1}},
    {"v": {"$in": 1}},
    {"v": {"$gt": None}},
    {"/~5": 1},
]


async def fill(store: Store) -> None:
    await store.put_batch([(NOTES, name, {"v": value}) for name, value in VALUES.items()])


async def refusal(call: Callable[..., Awaitable[Any]], *given: Any) -> tuple[Any, str]:
    """Return the built-in type of the error of a call, and its message."""
    with pytest.raises((TypeError, ValueError)) as refused:
        await call(*given)
    kind = TypeError if isinstance(refused.value, TypeError) else ValueError
    return kind, str(refused.value)


async def test_a_search_finds_what_a_filter_accepts(db: Database, base_url: str) -> None:
    native = Store(db)
    await fill(native)
    async with HTTPStore(base_url) as client:
        for filter in FILTERS:
            expected = sorted(
                hit.key for hit in await native.search(NOTES, None, 99, filter=filter)
            )
            found = await client.search(NOTES, None, 99, filter=filter)
            assert sorted(hit.key for hit in found) == expected, filter


async def test_a_deletion_deletes_what_a_filter_accepts(db: Database, base_url: str) -> None:
    native = Store(db)
    async with HTTPStore(base_url) as client:
        for filter in ({"v": {"$ne": UUID(int=7)}}, {"v": float("nan")}, {"v": {"$lt": NOON}}):
            await fill(native)
            gone = await native.delete_matching(NOTES, filter)
            left = await native.list_keys(NOTES)
            await fill(native)
            assert await client.delete_matching(NOTES, filter) == gone
            assert await native.list_keys(NOTES) == left


@pytest.mark.parametrize("filter", REFUSED, ids=map(str, range(len(REFUSED))))
@pytest.mark.parametrize("method", ["search", "delete_matching"])
async def test_a_filter_is_refused_before_it_is_sent(
    method: str, filter: Any, db: Database
) -> None:
    async def call(store: Any) -> Any:
        return await getattr(store, method)(NOTES, filter=filter)

    nobody = HTTPStore("http://nobody.invalid")
    assert await refusal(call, nobody) == await refusal(call, Store(db))


@pytest.mark.parametrize("filter", [None, {}])
async def test_an_empty_filter_deletes_nothing(filter: Any, db: Database, base_url: str) -> None:
    await fill(native := Store(db))
    async with HTTPStore(base_url) as client:
        expected = await refusal(native.delete_matching, NOTES, filter)
        assert await refusal(client.delete_matching, NOTES, filter) == expected
    assert await native.count(NOTES) == len(VALUES)


async def test_states_are_found_by_any_value(db: Database, base_url: str) -> None:
    native = Checkpointer(db)
    for name, value in VALUES.items():
        await native.save({"v": value}, name)
    async with HTTPCheckpointer(base_url) as client:
        for operand in OPERANDS:
            found = [one["thread_id"] for one in await client.search_data("v", operand)]
            expected = [one["thread_id"] for one in await native.search_data("v", operand)]
            assert found == expected, operand


deep: Any = 1
for _ in range(60):
    deep = [deep]


@pytest.mark.parametrize(
    ("path", "value"),
    [("v", deep), ("v", [1] * 20_000), ("/~5", 1), ("v", object()), ("v", {1: 2}), (1, 1)],
    ids=["deep", "large", "pointer", "object", "key", "path"],
)
async def test_a_value_to_look_for_is_refused_before_it_is_sent(
    path: Any, value: Any, db: Database
) -> None:
    client = HTTPCheckpointer("http://nobody.invalid")
    expected = await refusal(Checkpointer(db).search_data, path, value)
    assert await refusal(client.search_data, path, value) == expected


async def test_forget_never_takes_another_value_for_that_of_the_metadata(
    db: Database, base_url: str
) -> None:
    await Store(db).put(NOTES, "k", 1, {"owner": None})
    async with HTTPCheckpointer(base_url) as client:
        for owner in (float("nan"), b"x", UUID(int=7), {1: 2}):
            with pytest.raises(NotSerialisable, match="owner"):
                await client.forget(metadata={"owner": owner})
    assert await Store(db).exists(NOTES, "k")


BODIES: dict[str, tuple[Mapping[str, Any], int]] = {
    "plain": ({"v": {"$in": ["red", 1]}}, 200),
    "tagged": ({"v": {"$gte": {"~dt": "2026-05-01T12:00:00+00:00"}}}, 200),
    "a field with the name of a tag": ({"~dt": {"$exists": False}}, 200),
    "an unknown tag": ({"v": {"~what": 1}}, 422),
    "a tag of something else": ({"v": {"~dt": 1}}, 422),
    "what no item holds": ({"v": {"~p": ["json", {"~b": "eA=="}]}}, 422),
    "a point in time of numpy": ({"v": {"~m": ["M8[s]", {"~b": "AAAAAAAAAAA="}]}}, 422),
    "a set of lists": ({"v": {"~s": [[1]]}}, 422),
    "too deep": ({"v": deep}, 422),
    "too large": ({"v": [1] * 20_000}, 422),
}


@pytest.mark.parametrize("name", BODIES)
async def test_other_programs_send_plain_json_or_tags(
    name: str, db: Database, base_url: str
) -> None:
    filter, status = BODIES[name]
    await fill(Store(db))
    async with httpx.AsyncClient(base_url=base_url) as client:
        for route in ("search", "delete"):
            answer = await client.post(f"/v1/store/notes/{route}", json={"filter": filter})
            assert answer.status_code == status, answer.text
        if name != "a field with the name of a tag":
            body = {"path": "v", "value": filter["v"]}
            answer = await client.post("/v1/checkpoints/data", json=body)
            assert answer.status_code == (200 if name in ("plain", "tagged") else 422), answer.text
