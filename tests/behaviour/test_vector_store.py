"""Documents that are found by what they say and what they mean."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import pytest
from store_helpers import AsyncEmbedder, Embedder, vector_of

import memalchemy
from memalchemy import Database, MemoryResult, Store, VectorStore


@pytest.fixture
def documents(store: Store) -> VectorStore:
    return memalchemy.VectorStore(store)


def ids(found: list[MemoryResult]) -> list[str]:
    return [one.id for one in found]


async def test_a_document_is_found_by_its_words(documents: VectorStore) -> None:
    fox = await documents.upsert("The quick brown fox", metadata={"tag": "test"})
    await documents.upsert("Something else", id="other")

    (found,) = await documents.search("quick fox", k=3)
    assert (found.id, found.content, found.metadata) == (
        fox,
        "The quick brown fox",
        {"tag": "test"},
    )
    assert 0 < found.score <= 1


async def test_a_document_can_be_read_replaced_and_removed(documents: VectorStore) -> None:
    assert await documents.upsert("one", id="a", metadata={"n": 1}) == "a"
    assert await documents.get("a") == MemoryResult("a", "one", 1.0, {"n": 1})
    await documents.upsert("two", id="a")
    assert await documents.get("a") == MemoryResult("a", "two", 1.0, {})
    assert await documents.search("one") == []
    await documents.upsert("three", id="b")
    await documents.upsert("four", id="c")

    assert await documents.delete(["a", "a", "nothing"]) == 1
    assert await documents.get("a") is None
    assert await documents.count() == 2
    assert await documents.clear() == 2
    assert await documents.search("three") == []
    with pytest.raises(TypeError, match="ids takes a list"):
        await documents.delete("b")


async def test_the_best_come_first_and_at_most_k(documents: VectorStore) -> None:
    await documents.upsert("red apple pie", id="all")
    await documents.upsert("red apple", id="two")
    for n in range(5):
        await documents.upsert(f"red thing {n}", id=f"one{n}")

    found = await documents.search("red apple pie", k=3)
    assert ids(found)[:2] == ["all", "two"]
    assert len(found) == 3
    assert found[0].score > found[1].score > found[2].score


@pytest.mark.parametrize("query", ["", "  ", None, "zeppelin", "!?"])
async def test_unrelated_documents_are_not_found(documents: VectorStore, query: str | None) -> None:
    await documents.upsert("a hotel in Lisbon")

    assert await documents.search(query) == []


@pytest.mark.parametrize("k", [0, -1])
async def test_a_blank_query_or_a_k_of_zero_finds_nothing(documents: VectorStore, k: int) -> None:
    await documents.upsert("tea")

    assert await documents.search("tea", k=k) == []


async def test_a_filter_is_of_equal_metadata(documents: VectorStore) -> None:
    await documents.upsert("tea one", id="a", metadata={"lang": "en", "n": 1})
    await documents.upsert("tea two", id="b", metadata={"lang": "de", "n": 1})
    await documents.upsert("tea three", id="c")

    assert ids(await documents.search("tea", filter={"lang": "en", "n": 1})) == ["a"]
    assert ids(await documents.search("tea", filter={"n": {"$exists": False}})) == ["c"]
    assert len(await documents.search("tea", filter={})) == 3


@pytest.mark.parametrize("kind", [Embedder, AsyncEmbedder])
async def test_with_an_embedder_words_and_meaning_count(
    db: Database, kind: Callable[[], Embedder]
) -> None:
    documents = memalchemy.VectorStore(db, embedder=kind())
    await documents.upsert("oolong is a tea", id="tea")
    await documents.upsert("a boat on the sea", id="boat")

    assert ids(await documents.search("oolong tea"))[0] == "tea"
    assert all(0 < one.score <= 1 for one in await documents.search("oolong tea"))


async def test_a_document_may_bring_its_own_vector(documents: VectorStore) -> None:
    await documents.upsert("alpha", id="x", embedding=[1.0, 0.0, 0.0])
    await documents.upsert("beta", id="y", embedding=[0.8, 0.6, 0.0])
    await documents.upsert("gamma", id="z", embedding=[0.0, 0.0, 1.0])
    await documents.upsert("delta", id="none")

    found = await documents.search(embedding=[1.0, 0.0, 0.0])
    assert ids(found) == ["x", "y"]
    assert math.isclose(found[0].score, 1.0, abs_tol=0.001)
    assert ids(await documents.search("gamma")) == ["z"]
    assert set(ids(await documents.search("delta", embedding=[1.0, 0.0, 0.0]))) == {
        "x",
        "y",
        "none",
    }
    assert ids(await documents.search(embedding=[1.0, 0.0, 0.0], threshold=0.95)) == ["x"]
    with pytest.raises(ValueError, match="4 dimensions"):
        await documents.search(embedding=[1.0, 0.0, 0.0, 0.0])


async def test_a_store_with_an_embedder_of_its_own_serves(db: Database) -> None:
    embedder = Embedder()
    store = memalchemy.Store(db, embedder=embedder, metric="dot")
    documents = memalchemy.VectorStore(store)
    await documents.upsert("oolong", id="a", embedding=vector_of("tea"))

    assert embedder.calls == []
    assert ids(await documents.search("tea")) == ["a"]
    with pytest.raises(TypeError, match="its own embedder"):
        memalchemy.VectorStore(store, embedder=embedder)


async def test_namespaces_and_tenants_are_apart(db: Database, store: Store) -> None:
    one = memalchemy.VectorStore(store, namespace=("a",))
    await one.upsert("tea", id="x")

    for other in (
        memalchemy.VectorStore(store, namespace=("b",)),
        memalchemy.VectorStore(store),
        memalchemy.VectorStore(db.for_tenant(f"{db.tenant}-2"), namespace=("a",)),
    ):
        assert await other.search("tea") == []
        assert await other.get("x") is None
        assert await other.clear() == 0
    assert await one.count() == 1


async def test_a_rolled_back_host_transaction_leaves_no_document(
    db: Database, documents: VectorStore
) -> None:
    async with db.transaction() as tx:
        await documents.upsert("tea", id="a", connection=tx)
        assert ids(await documents.search("tea", connection=tx)) == ["a"]
        await tx.rollback()

    assert await documents.search("tea") == []


async def test_invalid_documents_are_refused(documents: VectorStore) -> None:
    for wrong in (None, 7, b"tea", ["tea"]):
        with pytest.raises(TypeError, match="content"):
            await documents.upsert(wrong)  # type: ignore[arg-type]
    with pytest.raises(memalchemy.NotSerialisable):
        await documents.upsert("tea", metadata={"x": object()})
    with pytest.raises(ValueError, match="zero"):
        await documents.upsert("tea", embedding=[0.0, 0.0])
    assert await documents.count() == 0


@pytest.mark.parametrize(
    "foreign", [5, ["wine"], {"text": "wine"}, {"content": 5, "of": "wine"}], ids=str
)
async def test_what_is_no_document_is_left_out_and_told_of_by_its_id(
    documents: VectorStore, foreign: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await documents.upsert("white wine", id="own")
    await documents.store.put(documents.namespace, "strange", foreign)
    with caplog.at_level(logging.WARNING, "memalchemy"):
        assert [one.id for one in await documents.search("wine")] == ["own"]

    expected = ["1 items in a namespace of documents are no documents, and were left out"]
    assert caplog.messages == (expected if "wine" in str(foreign) else [])
    with pytest.raises(memalchemy.Conflict, match=r"the item 'strange' .* is no document"):
        await documents.get("strange")
    assert await documents.store.get(documents.namespace, "strange") == foreign


async def test_alpha_weighs_meaning_against_words(documents: VectorStore) -> None:
    await documents.upsert("crimson kettle", id="words", embedding=[-1.0, 0.0])
    await documents.upsert("something else", id="near", embedding=[1.0, 0.0])

    async def best(alpha: float) -> list[str]:
        return ids(await documents.search("kettle", embedding=[1.0, 0.0], alpha=alpha))

    assert await best(0.2) == ["words", "near"]
    assert await best(0.8) == ["near", "words"]
    assert await best(1) == ["near"]
    with pytest.raises(ValueError, match="alpha"):
        await best(2)


async def test_documents_that_differ_are_found_before_more_of_the_same(
    documents: VectorStore,
) -> None:
    for n in range(5):
        await documents.upsert(f"text {n}", id=f"same {n}", embedding=[1.0, n / 1000])
    await documents.upsert("other", id="other", embedding=[1.0, 0.9])

    plain = await documents.search(embedding=[1.0, 0.0], k=2)
    found = await documents.search(embedding=[1.0, 0.0], k=2, mmr=0.4)

    assert ids(plain) == ["same 0", "same 1"]
    assert ids(found) == ["same 0", "other"]


@pytest.mark.parametrize("embedded", [False, True])
async def test_a_picture_is_found_by_the_text_that_stands_for_it(
    db: Database, embedded: bool
) -> None:
    asked: list[str] = []

    def embedder(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return [vector_of(text) for text in texts]

    documents = memalchemy.VectorStore(db, embedder=embedder if embedded else None)
    picture = bytes(range(256))
    await documents.upsert(
        "a red kettle", id="p", metadata={"n": 1}, content_type="image/png", raw_content=picture
    )
    await documents.upsert("a blue kettle", id="q", content_type="caption")
    await documents.upsert("nothing", id="r")

    assert await documents.get("p") == MemoryResult(
        "p", "a red kettle", 1.0, {"n": 1}, "image/png", picture
    )
    assert await documents.get("q") == MemoryResult("q", "a blue kettle", 1.0, {}, "caption")
    assert await documents.get("r") == MemoryResult("r", "nothing", 1.0, {}, "text", None)
    (found, *_) = await documents.search("red kettle")
    assert found == MemoryResult("p", "a red kettle", 1.0, {"n": 1}, "image/png", picture)
    assert not hasattr(found, "embedding")
    by_words = memalchemy.VectorStore(db)
    for words in ("image", "png", "caption"):
        assert await by_words.search(words) == [], "its type is no text of a document"
    assert asked[:3] == (["a red kettle", "a blue kettle", "nothing"] if embedded else [])
    with pytest.raises(TypeError, match="raw_content is bytes"):
        await documents.upsert("x", raw_content="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="content_type is a str"):
        await documents.upsert("x", content_type=7)  # type: ignore[arg-type]
