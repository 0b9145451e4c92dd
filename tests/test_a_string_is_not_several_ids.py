"""No public method takes one string for several ids, and so its letters for ids."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import memalchemy
import memalchemy.collections
import memalchemy.context
import memalchemy.conversations
import memalchemy.http
import memalchemy.memory
from id_parameters import parameters, refuses_one, spelt
from memalchemy import Database

CLASSES = {
    value
    for package in (
        memalchemy,
        memalchemy.collections,
        memalchemy.context,
        memalchemy.conversations,
        memalchemy.http,
        memalchemy.memory,
    )
    for value in (getattr(package, name) for name in package.__all__)
    if inspect.isclass(value)
}
"""All that the packages export."""

RECORDS = {"LogReading", "NewItem", "Episode", "Diff"}
"""Records, whose fields whatever they are given to looks at."""

ELSEWHERE = {
    "Database.__init__(keys)",
    "Database.__init__(readable)",
    "ThreadLog.read_columns(make)",
    "ThreadLog.read_columns_beside(make)",
}
"""Keys and words, refused with a ValueError, see the tests of encryption; and functions."""

CASES = sorted(
    (
        case
        for case in parameters(CLASSES)
        if case[0].__name__ not in RECORDS and spelt(case) not in ELSEWHERE
    ),
    key=spelt,
)


@pytest.mark.parametrize("one", ["ab", b"ab"], ids=["str", "bytes"])
@pytest.mark.parametrize("case", CASES, ids=spelt)
async def test_one_string_is_refused_where_several_are_taken(
    case: tuple[type, str, str], one: Any
) -> None:
    cls, name, parameter = case
    async with Database("sqlite://") as db:
        made = {"db": db, "store": db, "url": "sqlite://", "thread_id": "t", "window": 1}
        made["base_url"] = "http://localhost"
        place: Any = "http://localhost" if cls.__name__.startswith("HTTP") else db
        instance = made if name == "__init__" else cls(place)
        await refuses_one(instance, cls, name, parameter, one)


def test_the_methods_that_take_several_are_found() -> None:
    names = {spelt(case) for case in CASES}

    assert {
        "Checkpointer.delete_checkpoints(checkpoint_ids)",
        "Checkpointer.find_runs(run_ids)",
        "Store.delete_batch(keys)",
        "Store.put_batch(items)",
        "Store.search_many(namespaces)",
        "ThreadLog.remove(positions)",
        "VectorStore.delete(ids)",
    } <= names
