"""mem0's filters find in our store what they find in Qdrant, mem0's own default."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import scripted_mem0  # noqa: F401  (before mem0)
from beside import check_same, each_example_again
from hypothesis import given
from hypothesis import strategies as st
from mem0.vector_stores.qdrant import Qdrant
from qdrant_client import QdrantClient

from memalchemy import Database
from memalchemy.integrations.mem0 import MemalchemyVectorStore

# Numbers with a fraction equal no operand that Qdrant takes. No word is a part of another.
WORDS = st.sampled_from(["tea", "milk", "green tea"])
NUMBERS = st.sampled_from([-1, 0, 1, 2, 2.5])
WHOLE = st.sampled_from([-1, 0, 1, 2])
TIMES = [
    "2025-06-15T05:00:00+00:00",
    "2025-06-15T05:00:00Z",
    "2025-06-15T10:30:00+05:30",
    "2025-06-14 23:00:00-06:00",
    "2025-06-15T05:00:00.123456Z",
    "2025-06-15T05:00:00",
    "2025-06-15 05:00",
    "2025-06-15",
    "2024-12-31T23:30:00-02:00",
]
BAD_TIMES = ["2025-13-45", "2025-06-15T99:00:00Z", "soon", "2025"]
ELEMENTS = st.one_of(WORDS, WHOLE, st.booleans(), st.none(), st.lists(WORDS, max_size=1))
VALUES: dict[str, Any] = {
    "kind": st.one_of(WORDS, st.none()),
    "n": st.one_of(NUMBERS, st.none(), WORDS),
    "ok": st.booleans(),
    "at": st.one_of(st.sampled_from(TIMES + BAD_TIMES), NUMBERS, st.none()),
    "tags": st.lists(ELEMENTS, max_size=3),
    "times": st.lists(st.sampled_from(TIMES), max_size=2),
    "in": st.fixed_dictionaries({}, optional={"a": WORDS, "0": WHOLE, "b.c": WHOLE}),
    "rows": st.lists(st.fixed_dictionaries({}, optional={"a": WHOLE}), max_size=2),
}
PAYLOADS = st.lists(st.fixed_dictionaries({}, optional=VALUES), min_size=1, max_size=7)
PATHS = [
    "none",
    "in.a",
    "in.0",
    'in."b.c"',
    "in[0]",
    "tags[0]",
    "tags.0",
    "rows[1].a",
    "tags[]",
    "times[]",
]
FIELDS = st.sampled_from([*VALUES, *PATHS])
RANGES = ["gt", "gte", "lt", "lte"]
OPERANDS = st.one_of(WORDS, WHOLE, st.booleans())
LISTS = st.one_of(st.lists(WORDS, max_size=3), st.lists(WHOLE, max_size=3))
CONDITIONS = st.one_of(
    st.one_of(OPERANDS, LISTS, st.just("*")),
    st.builds(lambda name, one: {name: one}, st.sampled_from(["eq", "ne"]), OPERANDS),
    st.builds(lambda name, one: {name: one}, st.sampled_from(["contains", "icontains"]), WORDS),
    st.builds(lambda name, some: {name: some}, st.sampled_from(["in", "nin"]), LISTS),
    st.dictionaries(st.sampled_from(RANGES), st.sampled_from(TIMES), min_size=1, max_size=2),
    st.dictionaries(st.sampled_from(RANGES), NUMBERS, min_size=1, max_size=2),
)
LOGIC = st.sampled_from(["AND", "OR", "NOT", "$and", "$or", "$not"])
FILTERS: st.SearchStrategy[Any] = st.recursive(
    st.dictionaries(FIELDS, CONDITIONS, max_size=2),
    lambda inner: st.builds(
        lambda name, parts, beside: {name: parts, **beside},
        LOGIC,
        st.lists(inner, max_size=3),
        st.dictionaries(FIELDS, CONDITIONS, max_size=1),
    ),
    max_leaves=4,
)
ANYTHING = st.one_of(OPERANDS, st.sampled_from([None, 2.5, "*", [None], [1, "x"], [True], [2.5]]))
ENDS = st.one_of(NUMBERS, st.sampled_from([*TIMES, *BAD_TIMES, "1", True, None, [1], {"a": 1}]))
ODD_CONDITIONS = st.one_of(
    ANYTHING,
    st.dictionaries(
        st.sampled_from(["eq", "ne", "in", "nin", "contains", "icontains", "near"]),
        ANYTHING,
        max_size=1,
    ),
    st.dictionaries(st.sampled_from(RANGES), ENDS, max_size=2),
)
ODD_FIELDS = st.one_of(FIELDS, st.sampled_from(["a b", "a.", "in..a", "", "$ref", '"']))
ODD_FILTERS = st.one_of(
    st.dictionaries(ODD_FIELDS, ODD_CONDITIONS, min_size=1, max_size=1),
    st.builds(
        lambda name, parts: {name: parts},
        LOGIC,
        st.one_of(st.sampled_from(["x", None, ["x"], [None], [[]], {}]), FILTERS),
    ),
)


def stores_of(db: Database, payloads: list[dict[str, Any]]) -> tuple[MemalchemyVectorStore, Qdrant]:
    ours = MemalchemyVectorStore(db, collection_name=uuid.uuid4().hex)
    theirs = Qdrant("test", 2, client=QdrantClient(":memory:"))
    theirs._bm25_encoder = False  # or else it downloads a model
    ids = [str(uuid.UUID(int=n)) for n in range(len(payloads))]
    for store in (ours, theirs):
        store.insert([[1.0, n / 9] for n in range(len(payloads))], payloads, ids)
    return ours, theirs


def check(db: Database, payloads: list[dict[str, Any]], filters: list[Any]) -> None:
    ours, theirs = stores_of(db, payloads)
    for wanted in filters:
        check_same(
            lambda wanted=wanted: [one.id for one in ours.list(wanted)[0]],
            lambda wanted=wanted: [one.id for one in theirs.list(wanted)[0]],
            wanted,
        )
    theirs.client.close()


@each_example_again
@given(payloads=PAYLOADS, filters=st.lists(FILTERS, min_size=5, max_size=20))
def test_filters_find_what_they_find_in_qdrant(
    db: Database, payloads: list[dict[str, Any]], filters: list[Any]
) -> None:
    check(db, payloads, filters)


@each_example_again
@given(payloads=PAYLOADS, filters=st.lists(ODD_FILTERS, min_size=5, max_size=20))
def test_odd_filters_find_what_they_find_in_qdrant_or_are_refused(
    db: Database, payloads: list[dict[str, Any]], filters: list[Any]
) -> None:
    check(db, payloads, filters)


PLAIN: list[dict[str, Any]] = [
    {"data": "a", "user_id": "alice", "category": "programming", "n": 5, "ok": True}
    | {"created_at": "2025-06-15T05:00:00+00:00", "tags": ["x", "y"]},
    {"data": "b", "user_id": "alice", "category": "data", "n": 10, "ok": False}
    | {"created_at": "2025-06-15T10:30:00+05:30", "tags": ["y"]},
    {"data": "c", "user_id": "alice", "category": "spam", "n": 1}
    | {"created_at": "2024-12-31T23:30:00-02:00", "name": "Spam Mail"},
    {"data": "d", "user_id": "bob", "category": "data", "n": 7.5}
    | {"created_at": "2025-01-01T00:00:00Z", "nested": {"a": 1}},
    {"data": "e", "user_id": "bob", "category": None, "n": None}
    | {"created_at": "2025-03-01", "name": "spam"},
]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"created_at": {"gte": "2025-06-15T05:00:00Z"}}, "ab"),
        ({"created_at": {"gte": "2025-01-01", "lt": "2025-02-01"}}, "cd"),
        ({"tags": "y"}, "ab"),
        ({"tags": {"in": ["x"]}}, "a"),
        ({"tags": ["x", "q"]}, "a"),
        ({"tags": {"ne": "y"}}, "a"),
        ({"NOT": [{"tags": "x"}]}, "bcde"),
        ({"AND": []}, "abcde"),
        ({"OR": []}, "abcde"),
        ({"NOT": [], "user_id": "bob"}, "de"),
        ({"category": {"ne": "data"}}, "ac"),
        ({"category": {"nin": ["data", "spam"]}}, "a"),
        ({"nope": {"ne": 1}}, ""),
        ({"nope": "*"}, "abcde"),
        ({"AND": [{"user_id": "*"}, {"category": "data"}]}, "bd"),
        ({"nested.a": 1}, "d"),
    ],
    ids=str,
)
def test_filters_that_mem0s_users_write(db: Database, wanted: Any, expected: str) -> None:
    ours, theirs = stores_of(db, PLAIN)
    for store in (ours, theirs):
        assert sorted(one.payload["data"] for one in store.list(wanted)[0]) == [*expected]
    theirs.client.close()


@pytest.mark.parametrize(
    "wanted",
    [
        {"AND": "x"},
        {"OR": {"n": 1}},
        {"NOT": ["x"]},
        {"$not": [1]},
        {"n": {}},
        {"n": {"near": 1}},
        {"n": {"in": "x"}},
        {"n": {"nin": 1}},
        {"created_at": {"gte": "2025-13-45"}},
        {"created_at": {"gte": "soon"}},
        {"created_at": {"gte": "2025-01-01", "lte": 100}},
        {"n": {"gte": [1]}},
    ],
    ids=str,
)
def test_both_refuse_what_is_no_filter(db: Database, wanted: Any) -> None:
    ours, theirs = stores_of(db, PLAIN)
    for store in (ours, theirs):
        with pytest.raises(ValueError):  # noqa: PT011  (Qdrant's messages are pydantic's)
            store.list(wanted)
    assert len(ours.list()[0]) == len(PLAIN)
    theirs.client.close()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"n": 7.5}, "d"),
        ({"n": 5.0}, "a"),
        ({"category": None}, "e"),
        ({"category": {"in": ["data", None]}}, "bde"),
        ({"ok": {"ne": None}}, "ab"),
        ({"n": {"gte": 5, "ne": 10}}, "ad"),
        ({"name": {"contains": "pam"}}, "ce"),
        ({"name": {"contains": "Mail"}}, "c"),
        ({"name": {"contains": "mail"}}, ""),
        ({"name": {"icontains": "SPAM"}}, "ce"),
    ],
    ids=str,
)
def test_filters_that_find_more_than_in_qdrant(db: Database, wanted: Any, expected: str) -> None:
    ours, theirs = stores_of(db, PLAIN)
    theirs.client.close()
    assert sorted(one.payload["data"] for one in ours.list(wanted)[0]) == [*expected]
