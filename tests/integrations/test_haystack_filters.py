"""Haystack's filters find here what they find in its `InMemoryDocumentStore`."""

from __future__ import annotations

import uuid
from typing import Any

from beside import check_same, each_example_again
from haystack import Document
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.errors import FilterError
from hypothesis import given
from hypothesis import strategies as st

from memalchemy import Database
from memalchemy.integrations.haystack import MemalchemyDocumentStore

DATES = ["2026-03-01", "2026-03-01T12:00:00Z", "2026-03-01T13:00:00+01:00", "2026-03-01 12:00:00"]
NUMBERS = st.sampled_from([-1, 0, 1, 1.0, 2.5])
SCALARS = st.one_of(NUMBERS, st.none(), st.sampled_from(["", "x", "soon", *DATES]))
LISTS = st.lists(SCALARS, max_size=3)
# Haystack takes True for 1: booleans have a field to themselves, which is not ordered.
META = st.fixed_dictionaries(
    {},
    optional={
        "a": SCALARS | LISTS | st.fixed_dictionaries({}, optional={"n": SCALARS}),
        "n": NUMBERS | st.none(),
        "at": st.sampled_from([None, *DATES]),
        "flag": st.booleans() | st.none(),
    },
)
FIELDS = ["meta.a", "meta.n", "meta.at", "a", "meta.a.n", "meta.a.n.m", "other.n", "none"]
FIELDS += ["content", "id"]


def comparison(field: str, operator: str, value: Any) -> dict[str, Any]:
    return {"field": field, "operator": operator, "value": value}


EQUAL, AMONG = st.sampled_from(["==", "!="]), st.sampled_from(["in", "not in"])
ORDER = st.sampled_from([">", ">=", "<", "<="])
COMPARISONS = st.one_of(
    st.builds(comparison, st.sampled_from(FIELDS), EQUAL, SCALARS | LISTS),
    st.builds(comparison, st.sampled_from(FIELDS), AMONG, LISTS),
    st.builds(comparison, st.sampled_from(["meta.n", "none"]), ORDER, NUMBERS | st.none()),
    st.builds(comparison, st.sampled_from(["meta.at", "none"]), ORDER, st.sampled_from(DATES)),
    st.builds(comparison, st.just("meta.flag"), EQUAL, st.booleans() | st.none()),
    st.builds(comparison, st.just("embedding"), EQUAL, st.none()),
)
ODD = st.builds(
    comparison,
    st.sampled_from(FIELDS),
    st.one_of(ORDER, AMONG, st.sampled_from(["like", "array_contains"])),
    SCALARS | LISTS,
)


def groups_of(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        parts,
        lambda inner: st.builds(
            lambda operator, conditions: {"operator": operator, "conditions": conditions},
            st.sampled_from(["AND", "OR", "NOT"]),
            st.lists(inner, max_size=3),
        ),
        max_leaves=4,
    )


METAS = st.lists(META, min_size=1, max_size=6)


def check(db: Database, metas: list[Any], filters: list[Any], **options: Any) -> None:
    documents = [
        Document(id=f"{at}", content="x" if at % 2 else None, meta=meta)
        for at, meta in enumerate(metas)
    ]
    ours = MemalchemyDocumentStore(db, namespace=(uuid.uuid4().hex,))
    theirs = InMemoryDocumentStore(shared=False)
    for store in (ours, theirs):
        store.write_documents(documents)
    for wanted in filters:
        check_same(
            lambda wanted=wanted: [one.id for one in ours.filter_documents(wanted)],
            lambda wanted=wanted: [one.id for one in theirs.filter_documents(wanted)],
            wanted,
            refusals=(FilterError,),
            **options,
        )


@each_example_again
@given(metas=METAS, filters=st.lists(groups_of(COMPARISONS), min_size=5, max_size=20))
def test_filters_find_what_they_find_in_haystacks_own_store(
    db: Database, metas: list[dict[str, Any]], filters: list[dict[str, Any]]
) -> None:
    check(db, metas, filters)


@each_example_again
@given(metas=METAS, filters=st.lists(groups_of(ODD), min_size=5, max_size=20))
def test_odd_filters_find_the_same_or_are_refused(
    db: Database, metas: list[dict[str, Any]], filters: list[dict[str, Any]]
) -> None:
    check(db, metas, filters, may_refuse=True)
