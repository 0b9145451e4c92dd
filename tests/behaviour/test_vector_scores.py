"""Scores that mean something: of meaning alone, of words alone, and of what is the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from store_helpers import Embedder, keys_of, vector_of

import memalchemy
from memalchemy import AnsweredByWordsWarning, Database, Episode, MemoryFact, Store, VectorStore
from memalchemy.events import Event, subscribe

NS = ("notes",)


class Down(Exception):
    """What an embedder raises whose model cannot be reached."""


def down(texts: list[str]) -> Any:
    raise Down


def similarity(one: str, other: str) -> float:
    """The score of two texts by the cosine of their vectors."""
    a, b = np.array(vector_of(one)), np.array(vector_of(other))
    return float(1 + a @ b / np.linalg.norm(a) / np.linalg.norm(b)) / 2


TEXTS = {"oolong": "oolong tea", "boat": "a boat on the sea", "tea": "tea", "house": "tea house"}


@pytest.fixture
async def documents(db: Database) -> VectorStore:
    documents = memalchemy.VectorStore(db, embedder=Embedder())
    for key, text in TEXTS.items():
        await documents.upsert(text, id=key)
    return documents


# --- The ends of alpha ---------------------------------------------------------------------------


async def test_meaning_alone_scores_similarities(documents: VectorStore) -> None:
    for query in ("oolong tea", "tea", "sea boat", "house of tea"):
        expected = {key: similarity(query, text) for key, text in TEXTS.items()}
        found = await documents.search(query, alpha=1)
        assert {one.id for one in found} == {key for key, score in expected.items() if score > 0.5}
        for one in found:
            assert one.score == pytest.approx(expected[one.id], abs=1e-5)

        for threshold in (0.6, 0.75, 0.9, 0.99):
            above = await documents.search(query, alpha=1, threshold=threshold)
            assert {one.id for one in above} == {
                key for key, score in expected.items() if score >= threshold
            }


async def test_a_store_scores_meaning_and_words_alone_as_their_modes_do(db: Database) -> None:
    store = memalchemy.Store(db, embedder=Embedder())
    for key, text in TEXTS.items():
        await store.put(NS, key, text)

    for query in ("oolong tea", "tea", "a boat", "nothing of these"):
        for alpha, mode in ((1, "vector"), (1.0, "vector"), (0, "text"), (0.0, "text")):
            for threshold in (None, 0.7, 0.95):
                how: dict[str, Any] = {"threshold": threshold, "limit": 3, "offset": 1}
                assert await store.search(NS, query, mode="hybrid", alpha=alpha, **how) == (
                    await store.search(NS, query, mode=mode, **how)
                )


async def test_words_alone_ask_no_embedder(db: Database, documents: VectorStore) -> None:
    offline = memalchemy.VectorStore(db, embedder=down)
    store = memalchemy.Store(db, embedder=down)

    found = await offline.search("oolong tea", alpha=0)
    assert found[0].id == "oolong"
    assert found[0].score == 1.0
    assert {one.id for one in found} == {"oolong", "tea", "house"}
    assert len(await offline.search("tea", alpha=0, mmr=0.5, k=2)) == 2
    hits = await store.search(offline.namespace, "oolong tea", mode="hybrid", alpha=0)
    assert keys_of(hits) == [one.id for one in found]
    for alpha in (None, 0.01, 1):
        with pytest.raises(Down):
            await offline.search("oolong tea", alpha=alpha)


async def test_words_alone_need_no_embedder_and_no_vector(db: Database) -> None:
    store = memalchemy.Store(db)
    await store.put(NS, "a", "tea")

    assert keys_of(await store.search(NS, "tea", mode="hybrid", alpha=0)) == ["a"]
    with pytest.raises(memalchemy.StoreCapabilityError):
        await store.search(NS, "tea", mode="hybrid", alpha=0.1)


# --- What is the same -----------------------------------------------------------------------------

SIZES = (1, 2, 3, 7, 64, 384, 1536)


def random_vectors(count: int, size: int, seed: int) -> list[list[float]]:
    """Return vectors of any length: units, and some that are far longer or shorter."""
    dice = np.random.default_rng(seed)
    vectors = dice.standard_normal((count, size))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[::3] *= 10.0 ** dice.uniform(-4, 4, (len(vectors[::3]), 1))
    return [list(map(float, vector)) for vector in vectors]


def units(vectors: list[list[float]], kind: type[Any] = np.float64) -> list[list[float]]:
    """Return vectors with the length of 1, as exact as a kind of float has them."""
    made = [(np.array(one) / np.linalg.norm(one)).astype(kind) for one in vectors]
    return [list(map(float, one)) for one in made]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
async def test_the_same_vector_passes_the_highest_threshold(
    db: Database, metric: Any, size: int
) -> None:
    store = memalchemy.Store(db, metric=metric)
    documents = memalchemy.VectorStore(store, namespace=NS)
    vectors = random_vectors(24, size, seed=size)
    if metric == "dot":  # of vectors that are not normalised it has no highest product
        vectors = units(vectors[:12]) + units(vectors[12:18], np.float32)
        vectors += units(vectors[18:], np.float16) if size > 1 else []
    await store.put_batch(
        [memalchemy.NewItem(NS, str(n), "text", embedding=v) for n, v in enumerate(vectors)]
    )

    for n, vector in enumerate(vectors):
        for found in (
            await store.search(NS, embedding=vector, threshold=1.0, limit=100),
            await store.search(NS, embedding=np.array(vector), threshold=1.0, limit=100),
        ):
            assert str(n) in keys_of(found)
            assert all(hit.score == 1.0 for hit in found)
        hits = await store.search_by_embedding(NS, vector, 100, threshold=1.0)
        assert str(n) in [hit.item.key for hit in hits]
        found_documents = await documents.search(embedding=vector, k=100, threshold=1.0)
        assert str(n) in [one.id for one in found_documents]


@pytest.mark.parametrize("metric", ["cosine", "l2"])
async def test_another_vector_does_not_pass_it(db: Database, metric: Any) -> None:
    store = memalchemy.Store(db, metric=metric)
    for n, other in enumerate((0.01, 0.1, 1.0, -1.0)):
        await store.put(NS, str(n), n, embedding=[1.0, other])

    assert await store.search(NS, embedding=[1.0, 0.0], threshold=1.0) == []


async def test_the_first_of_both_rankings_passes_it_whatever_their_weights(db: Database) -> None:
    store = memalchemy.Store(db, embedder=Embedder())
    documents = memalchemy.VectorStore(store, namespace=NS)
    await store.put(NS, "first", "oolong tea")
    await store.put(NS, "other", "a boat and tea")

    for hundredth in range(101):
        alpha = hundredth / 100
        hits = await store.search(NS, "oolong tea", mode="hybrid", alpha=alpha, threshold=1.0)
        assert keys_of(hits) == ["first"], alpha
        assert hits[0].score == 1.0
        found = await documents.search("oolong tea", alpha=alpha, threshold=1.0)
        assert [one.id for one in found] == ["first"], alpha


async def test_a_text_that_holds_all_words_passes_it(store: Store) -> None:
    words = [f"word{n}" for n in range(30)]
    for n in range(len(words)):
        await store.put(NS, f"{n:02}", " ".join(words[: n + 1]) + " and more" * (n % 7))

    for n in range(len(words)):
        hits = await store.search(NS, " ".join(words[: n + 1]), threshold=1.0, limit=100)
        assert hits
        assert {hit.score for hit in hits} == {1.0}
        everything = await store.search(NS, " ".join(words[: n + 1]), limit=100)
        assert all(0 < (hit.score or 0) <= 1 for hit in everything)


# --- Vectors of another size ----------------------------------------------------------------------


def wider(texts: list[str]) -> list[list[float]]:
    """Another model: its vectors have one more dimension."""
    return [[*vector_of(text), 0.5] for text in texts]


async def _search_store(db: Database, **how: Any) -> list[str]:
    store = memalchemy.Store(db, embedder=wider)
    return keys_of(await store.search(("documents",), "oolong tea", mode="hybrid", **how))


async def _search_documents(db: Database, **how: Any) -> list[str]:
    found = await memalchemy.VectorStore(db, embedder=wider).search("oolong tea", **how)
    return [one.id for one in found]


@pytest.mark.parametrize("search", [_search_store, _search_documents])
@pytest.mark.parametrize("how", [{}, {"alpha": 0.9}, {"mmr": 0.5}, {"filter": {}}], ids=str)
async def test_a_hybrid_search_among_vectors_of_another_size_goes_by_words_and_says_so(
    db: Database, documents: VectorStore, search: Callable[..., Any], how: dict[str, Any]
) -> None:
    with pytest.warns(AnsweredByWordsWarning, match=r"65 dimensions.*of 64.*words alone"):
        found = await search(db, **how)

    assert found[0] == "oolong"
    assert set(found) == {"oolong", "tea", "house"}


async def test_it_scores_and_pages_as_a_search_by_words(
    db: Database, documents: VectorStore
) -> None:
    store = memalchemy.Store(db, embedder=wider)
    place = documents.namespace
    by_words = await store.search(place, "oolong tea", explain=True)

    with pytest.warns(AnsweredByWordsWarning):
        hits = await store.search(place, "oolong tea", mode="hybrid", explain=True)
    assert [(hit.key, hit.score) for hit in hits] == [(hit.key, hit.score) for hit in by_words]
    assert any("words alone" in plan.reason for plan in hits.plans)
    with pytest.warns(AnsweredByWordsWarning):
        second = await store.search(place, "oolong tea", 1, mode="hybrid", offset=1)
    assert second == by_words[1:2]


async def test_an_observer_hears_it_too(db: Database, documents: VectorStore) -> None:
    told: list[Event] = []
    end = subscribe(told.append)
    try:
        with pytest.warns(AnsweredByWordsWarning):
            await _search_store(db)
    finally:
        end()

    (event,) = (one for one in told if one.name == "store.search")
    assert event.error is None
    assert event.details["answered_by"] == "words"


async def test_memories_are_found_by_words_after_a_change_of_the_model(db: Database) -> None:
    facts = memalchemy.UserMemoryStore(memalchemy.Store(db, embedder=Embedder()))
    await facts.add(MemoryFact("1", "ada", "likes oolong tea"))
    await memalchemy.EpisodeStore(db, embedder=Embedder()).write(
        Episode(id_="e", task="oolong tea")
    )

    with pytest.warns(AnsweredByWordsWarning):
        found = await memalchemy.UserMemoryStore(memalchemy.Store(db, embedder=wider)).search(
            "ada", "oolong"
        )
    assert [fact.memory_id for fact in found] == ["1"]
    with pytest.warns(AnsweredByWordsWarning):
        episodes = await memalchemy.EpisodeStore(db, embedder=wider).recall("oolong")
    assert [one.id_ for one in episodes] == ["e"]


async def test_meaning_alone_refuses_vectors_of_another_size(
    db: Database, documents: VectorStore
) -> None:
    for refused in (
        lambda: _search_documents(db, alpha=1),
        lambda: _search_store(db, alpha=1),
        lambda: documents.search(embedding=[1.0, 0.0]),
        lambda: documents.search("tea", alpha=1, embedding=[1.0, 0.0]),
    ):
        with pytest.raises(ValueError, match="of that size under the model"):
            await refused()


async def test_nothing_is_said_where_vectors_can_be_compared(
    db: Database, documents: VectorStore
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await documents.search("oolong tea")
        await documents.search("oolong tea", filter={"of": "none"})
        await documents.search("zeppelin", alpha=0.3)
        await memalchemy.VectorStore(db, embedder=wider, namespace=("empty",)).search("tea")
        await _search_documents(db, alpha=0)
        # One of the new size is enough: the others are told by their number.
        await memalchemy.VectorStore(db, embedder=wider).upsert("a new one", id="new")
        await _search_documents(db)
