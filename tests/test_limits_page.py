"""docs/reference/limits.md is generated from the limits of the code, and these are what holds.

``MEMALCHEMY_REGENERATE=1`` writes the page.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from website import limits

from memalchemy import Checkpointer, Database, Store, ThreadLog, errors

A = ("a",)
MANY = 100_000
Try = Callable[[Database, int], Awaitable[Any]]


async def _save(db: Database, number: int) -> None:
    await Checkpointer(db).save({}, "t" * number)


async def _put(db: Database, number: int) -> None:
    await Store(db).put(A, "k" * number, 1)


async def _append(db: Database, number: int) -> None:
    await ThreadLog(db).append("thread", ["entry"], keys=["k" * number])


async def _tenant(db: Database, number: int) -> None:
    await Checkpointer(db.for_tenant("t" * number)).save({}, "thread")


async def _namespace(db: Database, number: int) -> None:
    await Store(db).put(("n" * (number - 2),), "key", 1)


async def _metadata(db: Database, number: int) -> None:
    await Store(db).put(A, "key", 1, {"a": "x" * (number - 8)})


async def _vector(db: Database, number: int) -> None:
    await Store(db).put_embedding(A, "key", [1.0] * number)


async def _model(db: Database, number: int) -> None:
    await Store(db).put_embedding(A, "key", [1.0], model="m" * number)


async def _filter(db: Database, number: int) -> None:
    await Store(db).search(A, filter={"$or": [{"a": one} for one in range(number)]})


async def _lifetime(db: Database, years: int) -> None:
    await Store(db).put(A, "key", 1, ttl=timedelta(days=365 * years))


async def _levels(db: Database, number: int) -> None:
    value: Any = 1
    for _ in range(number):
        value = [value]
    await Checkpointer(db).save({"value": value}, "thread")


async def _integer(db: Database, bits: int) -> None:
    await Store(db).put(A, "key", 1, {"a": 2**bits - 1})


TRIES: list[tuple[str, Try, int, int]] = [
    ("id of a thread", _save, 255, 256),
    ("id of a thread", _put, 255, 256),
    ("key of an entry", _append, 128, 129),
    ("tenant", _tenant, 64, 65),
    ("namespace", _namespace, 512, 513),
    ("metadata", _metadata, 32_000, 32_001),
    ("a value in metadata", _integer, 63, 65),
    ("containers", _levels, 199, MANY // 200),
    ("a vector", _vector, 16_000, 16_001),
    ("model", _model, 128, 129),
    ("a filter", _filter, 500, 501),
    ("a lifetime", _lifetime, 999, 1001),
]


def test_the_page_of_limits_is_generated_from_the_code() -> None:
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        limits.PAGE.write_text(limits.page())

    assert limits.PAGE.read_text() == limits.page()


@pytest.mark.parametrize(
    ("what", "attempt", "most", "over"), TRIES, ids=[f"{one[0]} {one[1].__name__}" for one in TRIES]
)
async def test_a_value_at_a_limit_is_stored_and_one_over_it_raises_the_error_of_the_page(
    what: str, attempt: Try, most: int, over: int
) -> None:
    (limit,) = [one for one in limits.LIMITS if one.what.startswith(what)]
    error = getattr(errors, limit.error, ValueError)
    async with Database("sqlite://") as db:
        await attempt(db, most)
        with pytest.raises(error):
            await attempt(db, over)
