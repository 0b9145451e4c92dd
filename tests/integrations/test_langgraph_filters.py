"""Filters of LangGraph's store and saver find here what they find in LangGraph's own in memory."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from beside import check_same, each_example_again
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from memalchemy import Database
from memalchemy.integrations.langgraph import MemalchemySaver, MemalchemyStore

KEYS = st.sampled_from(["a", "b", "0", "$ref", "a/b", "~", "a.b", "a b", ""])
NUMBERS = st.sampled_from([-1, 0, 2, 2.5, 10, 100])
# LangGraph's store in memory takes True for 1: booleans are in a field of their own.
SCALARS = st.one_of(NUMBERS, st.sampled_from([None, "", "x", "it's", "é\x00"]))
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)
VALUES = st.lists(
    st.builds(
        lambda some, flags: some | flags,
        st.dictionaries(KEYS, TREES, max_size=4),
        st.fixed_dictionaries({}, optional={"flag": st.booleans() | st.none()}),
    ),
    min_size=1,
    max_size=7,
)
FLAGS = st.sampled_from([True, False, None, {"$ne": True}, {"$ne": None}, {"$eq": False}])
RANGE = st.sampled_from(["$gt", "$gte", "$lt", "$lte"])
OPERATORS = st.one_of(
    st.dictionaries(st.sampled_from(["$eq", "$ne"]), TREES, min_size=1, max_size=2),
    st.dictionaries(RANGE, NUMBERS, min_size=1, max_size=2),
    st.builds(lambda one, ends: {"$ne": one, **ends}, SCALARS, st.dictionaries(RANGE, NUMBERS)),
)
NAMES = st.sampled_from(["a", "b", "0", "a/b", "~", "a.b", "a b", ""])  # none is an operator
FILTERS = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS | OPERATORS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)
        ),
        max_leaves=4,
    ),
    max_size=2,
)
ODD = st.dictionaries(
    KEYS,
    st.dictionaries(
        st.sampled_from(["$eq", "$ne", "$gt", "$lt", "$in", "x"]), TREES, min_size=1, max_size=2
    ),
    min_size=1,
    max_size=2,
)


def check(db: Database, values: list[Any], filters: list[Any], **options: Any) -> None:
    ours, theirs, here = MemalchemyStore(db), InMemoryStore(), (uuid.uuid4().hex,)
    for at, value in enumerate(values):
        for store in (ours, theirs):
            store.put(here, str(at), value)
    for wanted in filters:
        check_same(
            lambda wanted=wanted: [hit.key for hit in ours.search(here, filter=wanted)],
            lambda wanted=wanted: [hit.key for hit in theirs.search(here, filter=wanted)],
            wanted,
            **options,
        )


@each_example_again
@given(
    values=VALUES,
    filters=st.lists(FILTERS | st.fixed_dictionaries({"flag": FLAGS}), min_size=5, max_size=20),
)
def test_filters_find_what_they_find_in_langgraphs_store_in_memory(
    db: Database, values: list[dict[str, Any]], filters: list[dict[str, Any]]
) -> None:
    check(db, values, filters)


@each_example_again
@given(values=VALUES, filters=st.lists(ODD, min_size=5, max_size=20))
def test_odd_filters_find_the_same_or_are_refused(
    db: Database, values: list[dict[str, Any]], filters: list[dict[str, Any]]
) -> None:
    check(db, values, filters, may_refuse=True)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"d": None}, "03"),
        ({"d": {"$eq": None}}, "03"),
        ({"d": {"$ne": None}}, "124"),
        ({"a": {"d": None}}, "3"),
        ({"a": {}}, "3"),
        ({"rows": [{"k": 1}]}, "4"),
    ],
    ids=str,
)
def test_what_is_missing_is_none(db: Database, wanted: dict[str, Any], expected: str) -> None:
    values: list[dict[str, Any]] = [{"d": None, "a": 1}, {"d": 0}, {"d": "x"}, {"a": {"x": 1}}]
    values.append({"d": 1, "rows": [{"k": 1, "more": 2}]})
    for store in (MemalchemyStore(db), InMemoryStore()):
        for at, value in enumerate(values):
            store.put(("n",), str(at), value)
        found = store.search(("n",), filter=wanted)
        assert sorted(hit.key for hit in found) == [*expected]


@pytest.mark.parametrize("name", ["eq", "ne", "gt", "gte", "lt", "lte"])
def test_an_operator_without_its_sign_is_refused_with_the_one_that_was_meant(
    db: Database, name: str
) -> None:
    store = MemalchemyStore(db)
    store.put(("n",), "k", {"a": {name: 1, "b": [{name: 2}]}})
    for wanted in ({"a": {name: 1}}, {"a": {"b": [{name: 2}]}}, {"x": {"a": {name: 1, "gt": 3}}}):
        with pytest.raises(ValueError, match=rf"write \${name}\b"):
            store.search(("n",), filter=wanted)
    literal = {"a": {"$eq": {name: 1, "b": [{name: 2}]}}}
    assert [hit.key for hit in store.search(("n",), filter=literal)] == ["k"]


METADATA = st.dictionaries(
    st.sampled_from(["a", "a/b", "$ref", "a.b", "it's"]),
    st.recursive(
        SCALARS, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner), max_leaves=4
    ),
    max_size=3,
)


def checkpoint_id(found: CheckpointTuple) -> str:
    return str(found.checkpoint["id"])


@each_example_again
@given(some=st.lists(METADATA, min_size=1, max_size=6), filters=st.lists(METADATA, min_size=3))
def test_checkpoints_are_listed_by_their_metadata_as_in_langgraphs_saver_in_memory(
    db: Database, some: list[dict[str, Any]], filters: list[dict[str, Any]]
) -> None:
    ours, theirs, thread_id = MemalchemySaver(db), InMemorySaver(), uuid.uuid4().hex
    for metadata in some:
        checkpoint = empty_checkpoint()
        for saver in (ours, theirs):
            config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
            saver.put(config, checkpoint, metadata, {})  # type: ignore[arg-type]
    config = {"configurable": {"thread_id": thread_id}}
    for wanted in [*filters, *some, *({name: one[name]} for one in some for name in one)]:
        check_same(
            lambda wanted=wanted: [
                one.checkpoint["id"] for one in ours.list(config, filter=wanted)
            ],
            lambda wanted=wanted: [
                one.checkpoint["id"] for one in theirs.list(config, filter=wanted)
            ],
            wanted,
        )
