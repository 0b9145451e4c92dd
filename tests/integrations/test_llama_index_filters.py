"""LlamaIndex's filters find here what they find in its `SimpleVectorStore`."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from beside import answer, check_same, each_example_again
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from memalchemy import Database
from memalchemy.integrations.llama_index import MemalchemyVectorStore

TEXTS = st.sampled_from(["", "x", "xy", "y", "X Y", "Ä", "ä/b"])
NUMBERS = st.sampled_from([-1, 0, 1, 1.0, 2.5])
KEYS = st.sampled_from(["s", "n", "l", "ok", "any", "a/b~c", "missing", "ref_doc_id"])
ANYTHING = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none(), st.lists(TEXTS, max_size=2))
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "s": TEXTS | st.none(),
        "n": NUMBERS | st.none(),
        "l": st.none()
        | st.lists(TEXTS, max_size=3)
        | st.lists(NUMBERS | st.booleans(), max_size=3),
        "ok": st.booleans() | st.none(),
        "any": ANYTHING,
        "a/b~c": ANYTHING,
    },
)
FILTERS = st.builds(
    lambda key, operator, value: MetadataFilter(key=key, operator=operator, value=value),
    KEYS,
    # The values that LlamaIndex's own type takes.
    st.sampled_from(FilterOperator),
    st.one_of(
        TEXTS, NUMBERS, st.none(), st.lists(TEXTS, max_size=2), st.lists(st.sampled_from([0, 1, 2]))
    ),
)
GROUPS = st.builds(
    lambda filters, condition: MetadataFilters(filters=filters, condition=condition),
    st.lists(FILTERS, min_size=1, max_size=2),
    st.sampled_from(FilterCondition),
)
NEEDS_A_LIST = {FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL}
MATCHES = {FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE}
ORDERED = {FilterOperator.GT, FilterOperator.GTE, FilterOperator.LT, FilterOperator.LTE}


def node(at: int, metadata: dict[str, Any]) -> TextNode:
    document = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc-{at % 2}")}
    return TextNode(id_=str(at), metadata=metadata, embedding=[1.0, at / 9], relationships=document)


def is_refused_before_it_is_asked(group: MetadataFilters) -> bool:
    """Return whether an operand is of a kind that ours refuses, and theirs only at some nodes."""
    return any(
        (one.operator in NEEDS_A_LIST and not isinstance(one.value, list))
        or (one.operator in MATCHES and not isinstance(one.value, str))
        or (one.operator in ORDERED and not isinstance(one.value, str | int | float))
        for one in group.filters
        if isinstance(one, MetadataFilter)
    )


@each_example_again
@given(
    metadata=st.lists(METADATA, min_size=1, max_size=6),
    groups=st.lists(GROUPS, min_size=5, max_size=20),
)
def test_filters_find_what_they_find_in_llama_indexs_own_store(
    db: Database, metadata: list[dict[str, Any]], groups: list[MetadataFilters]
) -> None:
    nodes = [node(at, one) for at, one in enumerate(metadata)]
    ours, theirs = MemalchemyVectorStore(db, namespace=(uuid.uuid4().hex,)), SimpleVectorStore()
    for store in (ours, theirs):
        store.add(nodes)
    for group in groups:
        query = VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=10, filters=group)
        check_same(
            lambda query=query: ours.query(query).ids or [],
            lambda query=query: theirs.query(query).ids or [],
            group,
            may_refuse=is_refused_before_it_is_asked(group),
        )
        listed = answer(lambda group=group: [one.node_id for one in ours.get_nodes(filters=group)])
        found = answer(lambda query=query: ours.query(query).ids or [])
        assert listed == found or isinstance(found, Exception)


@pytest.mark.parametrize("operator", sorted(MATCHES))
@pytest.mark.parametrize("value", [1, True, ["x"]])
def test_a_part_of_a_text_is_looked_for_in_texts_only(
    db: Database, operator: FilterOperator, value: Any
) -> None:
    ours, theirs = MemalchemyVectorStore(db), SimpleVectorStore()
    wanted = MetadataFilters(filters=[MetadataFilter(key="s", operator=operator, value="X")])
    query = VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=10, filters=wanted)
    texts = [node(0, {"s": "AXE"}), node(1, {"s": None}), node(2, {})]
    for store in (ours, theirs):
        store.add(texts)
        assert store.query(query).ids == ["0"]
        store.add([node(3, {"s": value})])
        with pytest.raises(TypeError, match=r"text|strings"):
            store.query(query)
        with pytest.raises(TypeError, match=r"text|strings"):
            store.delete_nodes(filters=wanted)
    assert len(ours.get_nodes()) == 4, "nothing was deleted"
    ours.delete_nodes(["0", "1"], wanted)  # the number is not among them
    assert sorted(one.node_id for one in ours.get_nodes()) == ["1", "2", "3"]
