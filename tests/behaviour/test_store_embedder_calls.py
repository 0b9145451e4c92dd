"""Vectors that the store has made: of what, by whom, and in how many calls."""

from __future__ import annotations

import math
from typing import Any

import pytest
from store_helpers import AsyncEmbedder, Embedder, found_by, keys_of, vector_of

from memalchemy import Database, MemalchemyError, NewItem, Store

NS = ("vectors",)


@pytest.mark.parametrize("kind", [Embedder, AsyncEmbedder])
async def test_an_embedder_makes_the_vectors_of_puts_and_queries(db: Database, kind: Any) -> None:
    embedder = kind()
    store = Store(db, embedder=embedder)
    await store.put(NS, "fruit", {"text": "apple pear plum"})
    await store.put(NS, "tools", "hammer saw")

    assert len(embedder.calls) == 2
    assert "apple pear plum" in embedder.calls[0][0]
    assert embedder.calls[1] == ["hammer saw"]
    hits = await store.search(NS, "pear plum", mode="vector")
    assert embedder.calls[2:] == [["pear plum"]]
    assert keys_of(hits) == ["fruit", "tools"]
    assert hits[0].score is not None
    assert hits[1].score is not None
    assert hits[0].score > hits[1].score
    read = await store.get_embedding(NS, "tools")
    assert read == pytest.approx(vector_of("hammer saw"), rel=1e-6)
    assert found_by(await store.search_by_embedding(NS, vector_of("saw"), 1)) == ["tools"]


async def test_a_batch_is_embedded_in_one_call(db: Database) -> None:
    embedder = Embedder()
    store = Store(db, embedder=embedder)
    await store.put_batch([(NS, f"k{n}", f"word{n}") for n in range(20)])

    assert [sorted(call) for call in embedder.calls] == [sorted(f"word{n}" for n in range(20))]
    assert keys_of(await store.search(NS, "word7", mode="vector", limit=1)) == ["k7"]


async def test_what_changes_while_a_batch_is_embedded_is_stored_and_embedded_as_it_was(
    db: Database,
) -> None:
    late = {"text": "apple", "more": "pear"}
    asked: list[str] = []

    async def embedder(texts: list[str]) -> list[Any]:
        late["text"] = "hammer"  # while the batch waits for the vectors of its first item
        asked.extend(texts)
        return [vector_of(text) for text in texts]

    store = Store(db, embedder=embedder)
    await store.put_batch(
        [NewItem(NS, "whole", {"text": "stone"}), NewItem(NS, "field", late, index=["text"])]
    )

    assert asked == ["stone", "apple"]
    assert await store.get(NS, "field") == {"text": "apple", "more": "pear"}


async def test_fields_that_are_indexed_have_vectors_of_their_own(db: Database) -> None:
    embedder = Embedder()
    store = Store(db, embedder=embedder, index=["title", "/deep/parts"])
    value = {
        "title": "apple",
        "body": "unseen",
        "deep": {"parts": ["hammer saw", "river boat"]},
    }
    await store.put(NS, "k", value)
    await store.put(NS, "other", {"title": "stone"})

    asked = sorted(text for call in embedder.calls for text in call)
    assert asked == ["apple", "hammer saw", "river boat", "stone"]
    for field, part, text in (
        ("title", 0, "apple"),
        ("/deep/parts", 0, "hammer saw"),
        ("/deep/parts", 1, "river boat"),
    ):
        read = await store.get_embedding(NS, "k", field=field, part=part)
        assert read == pytest.approx(vector_of(text), rel=1e-6)
    for query in ("apple", "boat", "saw"):
        hits = await store.search(NS, query, mode="vector")
        assert keys_of(hits) == ["k", "other"]


async def test_a_put_may_say_what_is_indexed(db: Database) -> None:
    embedder = Embedder()
    store = Store(db, embedder=embedder)
    await store.put(NS, "not", {"title": "apple"}, index=False)
    assert embedder.calls == []
    assert await store.get_embedding(NS, "not") is None
    assert await store.search_by_embedding(NS, vector_of("apple")) == []
    assert keys_of(await store.search(NS, "apple")) == ["not"]

    await store.put(NS, "field", {"title": "apple", "body": "pear"}, index=["title"])
    await store.put(NS, "all", {"title": "apple", "body": "pear"}, index=True)
    assert embedder.calls[0] == ["apple"]
    assert "apple" in embedder.calls[1][0]
    assert "pear" in embedder.calls[1][0]
    await store.put(NS, "own", "apple", embedding=[1.0] * 3)
    assert await store.get_embedding(NS, "own") == [1.0] * 3
    await store.put_batch([(NS, "field", {"title": "plum"})], index=False)
    assert await store.get_embedding(NS, "field", field="title") is None
    assert len(embedder.calls) == 2


async def test_a_value_without_text_is_stored_though_there_is_nothing_to_embed(
    db: Database,
) -> None:
    store = Store(db, embedder=Embedder(), index=["title"])
    await store.put_batch([(NS, "number", 5), (NS, "dict", {"body": "x"}), (NS, "null", None)])
    await store.put(NS, "one", {"title": None})

    assert await store.list_keys(NS) == ["dict", "null", "number", "one"]
    assert await store.get_embedding(NS, "dict", field="title") is None


@pytest.mark.parametrize(
    "made", [[[0.0, 0.0]], [[math.nan, 1.0]], [], [[1.0, 0.0], [1.0, 0.0]]], ids=repr
)
async def test_what_an_embedder_makes_wrongly_is_refused(db: Database, made: Any) -> None:
    store = Store(db, embedder=lambda texts: made)

    with pytest.raises((ValueError, TypeError, MemalchemyError)):
        await store.put(NS, "k", "needle")
    assert not await store.exists(NS, "k")


async def test_an_embedder_that_fails_leaves_nothing_written(db: Database) -> None:
    class ServiceDown(Exception):
        pass

    def fail(texts: list[str]) -> Any:
        raise ServiceDown

    store = Store(db, embedder=fail)
    with pytest.raises(ServiceDown):
        await store.put(NS, "k", "needle")
    with pytest.raises(ServiceDown):
        await store.put_batch([(NS, "k", "needle")])
    with pytest.raises(ServiceDown):
        await store.search(NS, "needle", mode="vector")
    assert not await store.exists(NS, "k")
    assert await store.search(NS, "needle") == []
