"""Rows of locus' store, and of the documents of its retrieval."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import memalchemy
import memalchemy.sync
from memalchemy import (
    Database,
    MemoryResult,
    NamespacedStore,
    NotSerialisable,
    SemanticSearchResult,
    Store,
    StoreCapabilities,
    StoreCapabilityError,
    StoreContext,
    StoreItem,
    VectorStore,
)
from memalchemy.codec.encryption import generate_key
from memalchemy.filters import Filter
from memalchemy.search.indexes import build_index, list_indexes
from parity_examples import embedder, section

rows = section("locus/Store")
documents = section("locus/Documents")

NS = ("users", "ada")


@rows("BaseStore, InMemoryStore, PgMemory, OracleStore")
async def store(db: Database) -> None:
    await Store(db).put(NS, "k", {"a": 1})
    assert await Store(db).get(NS, "k") == {"a": 1}
    assert await Store(db).get(("users/ada",), "k") is None
    for url in ("sqlite://", "postgresql://localhost/x", "oracle://u:p@localhost/x"):
        assert Store(Database(url)).capabilities.search


@rows("OracleSyncStore, aput and the like")
async def without_await(tmp_path: Path) -> None:
    def work() -> Any:
        with memalchemy.sync.Database(f"sqlite:///{tmp_path}/sync.db") as db:
            store = memalchemy.sync.Store(db)
            store.put(NS, "k", "tea")
            return [hit.key for hit in store.search(NS, "tea", 5)]

    assert await asyncio.to_thread(work) == ["k"]


@rows("BaseStore.capabilities, StoreCapabilities")
async def capabilities(db: Database) -> None:
    able = Store(db).capabilities
    assert able == StoreCapabilities(True, True, None, True, True, True, True)


@rows("StoreCapabilityError")
async def missing_capability(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/sealed.db", keys=generate_key()) as sealed:
        store = Store(sealed)
        assert (store.capabilities.search, store.capabilities.semantic_search) == (False, False)
        with pytest.raises(StoreCapabilityError) as words:
            await store.search(NS, "word")
        with pytest.raises(StoreCapabilityError) as vectors:
            await store.put_with_embedding(NS, "k", 1, [1.0])
    assert (words.value.capability, vectors.value.capability) == ("search", "semantic_search")
    assert isinstance(words.value, NotImplementedError)
    own = StoreCapabilityError("ttl", "MyStore", "Use another.")
    assert str(own) == "MyStore does not support 'ttl'. Use another."
    assert (own.capability, own.store_class, own.hint) == ("ttl", "MyStore", "Use another.")


@rows("StoreItem, .to_dict, .from_dict", "BaseStore.get_item")
async def items(db: Database) -> None:
    store = Store(db)
    await store.put(NS, "k", [1], {"m": 1})
    item = await store.get_item(NS, "k")
    assert isinstance(item, StoreItem)
    assert (item.namespace, item.key, item.value, item.metadata) == (NS, "k", [1], {"m": 1})
    assert (item.version, item.created_at, item.expires_at) == (1, item.updated_at, None)
    assert StoreItem.from_dict(item.to_dict()) == item
    assert item.to_dict()["namespace"] == list(NS)
    assert await store.get_item(NS, "nothing") is None


@rows(
    "SemanticSearchResult",
    "BaseStore.put_with_embedding",
    "BaseStore.search_by_embedding",
    "BaseStore.get_embedding",
)
async def vectors(db: Database) -> None:
    store = Store(db)
    await store.put_with_embedding(NS, "same", 1, [1.0, 0.0], {"kind": "a"})
    await store.put_with_embedding(NS, "across", 2, [0.0, 1.0], {"kind": "b"})
    found = await store.search_by_embedding(NS, [2.0, 0.0], 10)
    assert isinstance(found[0], SemanticSearchResult)
    assert [(one.item.key, round(one.score, 6)) for one in found] == [
        ("same", 1.0),
        ("across", 0.5),
    ]
    assert found[0].distance == pytest.approx(0.0, abs=1e-6)
    assert len(await store.search_by_embedding(NS, [2.0, 0.0], 10, 0.9)) == 1
    filtered = await store.search_by_embedding(NS, [2.0, 0.0], 10, None, {"kind": "b"})
    assert [one.item.key for one in filtered] == ["across"]
    assert await store.get_embedding(NS, "same") == [1.0, 0.0]
    assert await store.get_embedding(NS, "nothing") is None


@rows("BaseStore.put", "BaseStore.get", "BaseStore.delete", "BaseStore.exists")
async def putting(db: Database) -> None:
    store = Store(db)
    assert await store.put(NS, "k", {"n": 1}, {"m": 1}) == 1
    assert await store.put(NS, "k", None) == 2
    assert await store.get(NS, "k") is None
    assert await store.exists(NS, "k") is True, "a stored None is there"
    item = await store.get_item(NS, "k")
    assert item is not None
    assert item.metadata == {}, "metadata is replaced"
    assert await store.delete(NS, "k") is True
    assert await store.delete(NS, "k") is False
    assert await store.exists(NS, "k") is False


@rows("BaseStore.list_keys", "BaseStore.list_namespaces", "BaseStore.clear_namespace")
async def listing(db: Database) -> None:
    store = Store(db)
    for key in ("b", "a", "B"):
        await store.put(("x",), key, 1)
    await store.put(("x", "y"), "below", 1)
    assert await store.list_keys(("x",)) == ["B", "a", "b"]
    assert await store.list_keys(("x",), 1) == ["B"]
    assert await store.list_namespaces() == [("x",), ("x", "y")]
    assert await store.list_namespaces(("x", "y"), 5) == [("x", "y")]
    assert await store.clear_namespace(("x",)) == 3
    assert await store.list_namespaces() == [("x", "y")]


@rows("BaseStore.search")
async def search(db: Database) -> None:
    store = Store(db)
    for key, text in {"a": "green tea", "b": "black coffee", "c": "café au lait"}.items():
        await store.put(NS, key, text)
    assert [hit.key for hit in await store.search(NS, "tea", 1)] == ["a"]
    assert [hit.key for hit in await store.search(NS, "cafe")] == ["c"]
    assert [hit.key for hit in await store.search(NS, None, 2)] == ["c", "b"]
    assert await store.search(NS, "ea") == []
    assert await store.search(NS, None, 0) == []


@rows("BaseStore.search_many")
async def search_many(db: Database) -> None:
    store = Store(db)
    for user in ("ada", "bob"):
        await store.put((user,), "k", "tea")
    found = await store.search_many([("bob",), ("nobody",), ("ada",)], "tea", 5)
    assert [hit.namespace for hit in found] == [("bob",), ("ada",)]


@rows("BaseStore.put_batch", "BaseStore.get_batch")
async def batches(db: Database) -> None:
    store = Store(db)
    assert await store.put_batch([(NS, "a", 1, None), (NS, "b", 2, {"m": 1})]) == [1, 1]
    assert await store.get_batch([(NS, "a"), (NS, "nothing")]) == {(NS, "a"): 1}
    with pytest.raises(NotSerialisable):
        await store.put_batch([(NS, "c", 3, None), (NS, "d", object(), None)])
    assert await store.list_keys(NS) == ["a", "b"], "all or none"


@rows("BaseStore.close")
async def closing(db: Database) -> None:
    store = Store(db)
    await store.put(NS, "k", 1)
    await store.close()
    assert await Store(db).get(NS, "k") == 1


@rows(
    "NamespacedStore, .namespace, .scoped",
    "NamespacedStore.put, .get, .list_keys, .exists, .search",
    "NamespacedStore.delete, .clear",
)
async def namespaced(db: Database) -> None:
    ada = NamespacedStore(Store(db), NS)
    assert ada.namespace == NS
    assert ada.scoped("notes").namespace == (*NS, "notes")
    await ada.put("k", "green tea", {"m": 1})
    await ada.scoped("notes").put("below", 1)
    assert await ada.get("k") == "green tea"
    assert await ada.list_keys() == ["k"]
    assert await ada.exists("k")
    assert [hit.key for hit in await ada.search("tea", 5)] == ["k"]
    assert await ada.delete("k") is True
    await ada.put("k", 1)
    assert await ada.clear() == 1
    assert await ada.scoped("notes").exists("below")


@rows(
    "StoreContext, .store",
    "StoreContext.for_user, .for_session",
    "StoreContext.get_user_memory, .remember, .forget",
)
async def contexts(db: Database) -> None:
    shared = Store(db)
    context = StoreContext(store=shared, user_id="ada", session_id="s1")
    assert context.store is shared
    assert context.for_user().namespace == ("users", "ada")
    assert context.for_user("bob").namespace == ("users", "bob")
    assert context.for_session().namespace == ("sessions", "s1")
    await context.remember("k", "tea", {"m": 1})
    assert await context.get_user_memory("k") == "tea"
    assert await shared.get(("users", "ada", "memories"), "k") == "tea"
    assert await context.forget("k") is True
    nobody = StoreContext(shared)
    assert await nobody.get_user_memory("k") is None
    assert await nobody.forget("k") is False
    with pytest.raises(ValueError, match="user"):
        await nobody.remember("k", 1)
    with pytest.raises(ValueError, match="session"):
        nobody.for_session()


@rows(
    "StoreContext.search_memories, .remember_with_embedding, .search_memories_semantic",
    "StoreContext.get_global, .set_global",
)
async def memories(db: Database) -> None:
    context = StoreContext(Store(db), "ada")
    await context.remember_with_embedding("k", "green tea", [1.0, 0.0])
    assert [one.key for one in await context.search_memories("tea", 5)] == ["k"]
    (near,) = await context.search_memories_semantic([1.0, 0.0], 5, 0.9)
    assert near.item.key == "k"
    assert await StoreContext(Store(db)).search_memories("tea") == []
    await context.set_global("g", 1)
    assert await StoreContext(Store(db)).get_global("g") == 1


@rows("HolographicStore", "PgMemory(embedder=)")
async def meaning(db: Database) -> None:
    store = Store(db, embedder=embedder)
    await store.put(NS, "a", "Earl Grey tea")
    await store.put(NS, "b", "a train to Oslo")
    hits = await store.search(NS, "something to drink", mode="vector")
    assert [hit.key for hit in hits] == ["a", "b"]
    assert (await store.search(NS, "train", mode="hybrid"))[0].key == "b"


@rows("OracleStore(distance_metric=)")
async def metrics(db: Database) -> None:
    for metric, first in {"cosine": "near", "dot": "far", "l2": "near"}.items():
        store = Store(db, metric=metric)  # type: ignore[arg-type]
        await store.put_with_embedding((metric,), "near", 1, [0.2, 0.0])
        await store.put_with_embedding((metric,), "far", 1, [0.9, 0.3])
        found = await store.search_by_embedding((metric,), [0.2, 0.0])
        assert found[0].item.key == first, metric
        assert found[0].score > found[1].score


# --- Documents ------------------------------------------------------------------------------------


@documents(
    "BaseVectorStore, PgVectorStore, OracleVectorStore",
    ".add, .add_batch",
    ".get, .delete",
    ".search",
    ".count, .clear",
)
async def vector_store(db: Database) -> None:
    docs = VectorStore(db)
    assert await docs.upsert("green tea", id="a", metadata={"kind": "drink"}) == "a"
    await docs.upsert("a train to Oslo", id="b", embedding=[1.0, 0.0])
    await docs.upsert("green tea and more", id="a", metadata={"kind": "drink"})
    assert await docs.count() == 2
    assert [found.id for found in await docs.search("tea", k=5)] == ["a"]
    assert await docs.search("tea", k=5, filter={"kind": "other"}) == []
    found = await docs.get("a")
    assert found is not None
    assert (found.content, found.score) == ("green tea and more", 1.0)
    assert await docs.delete(["a", "nothing"]) == 1
    assert await docs.get("a") is None
    assert await docs.clear() == 1
    many = [(("documents",), f"d{n}", {"n": n}, None) for n in range(3)]
    assert await Store(db).put_batch(many) == [1, 1, 1]


@documents("Document, SearchResult")
async def pictures(db: Database) -> None:
    docs = VectorStore(db)
    await docs.upsert("a red barn", id="p", content_type="image/png", raw_content=b"\x89PNG")
    (found,) = await docs.search("barn")
    assert found == MemoryResult("p", "a red barn", 1.0, {}, "image/png", b"\x89PNG")
    assert not hasattr(found, "embedding")


@documents("VectorStoreConfig")
async def config(db: Database) -> None:
    docs = VectorStore(Store(db, embedder=embedder, metric="dot"))
    await docs.upsert("tea", id="a")
    assert [found.id for found in await docs.search("something to drink")] == ["a"]


@documents(".close")
async def close(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/docs.db")
    await VectorStore(db).upsert("tea", id="a")
    await db.close()
    assert await VectorStore(db).count() == 1
    await db.close()


@documents("OracleVectorStore.hybrid_search")
async def hybrid(db: Database) -> None:
    store, docs = Store(db, embedder=embedder), VectorStore(db, embedder=embedder)
    for key, text in {"a": "Earl Grey tea", "b": "the horn of Oslo"}.items():
        await store.put(NS, key, text)
        await docs.upsert(text, id=key)
    for alpha, first in ((0.0, "b"), (1.0, "a")):  # by words, by meaning
        (hit,) = await store.search(NS, "coffee horn", mode="hybrid", alpha=alpha, limit=1)
        assert hit.key == first
        assert (await docs.search("coffee horn", alpha=alpha))[0].id == first


@documents("OracleVectorStore.mmr")
async def diverse(db: Database) -> None:
    store, docs = Store(db), VectorStore(db)
    vectors = {"a": [1.0, 0.0], "b": [0.99, 0.05], "c": [0.6, 0.8]}
    for key, vector in vectors.items():
        await store.put_with_embedding(NS, key, key, vector)
        await docs.upsert(key, id=key, embedding=vector)
    hits = await store.search(NS, limit=2, mode="vector", embedding=[1.0, 0.0], mmr=0.3)
    assert [hit.key for hit in hits] == ["a", "c"]
    nearest = await docs.search(k=2, embedding=[1.0, 0.0], mmr=0.3)
    assert [found.id for found in nearest] == ["a", "c"]


@documents(".create_index, .has_index, .build_index")
async def indexes(db: Database) -> None:
    await Store(db).put_with_embedding(NS, "k", 1, [1.0, 0.0])
    # An index is PostgreSQL's or Oracle's; SQLite searches exactly, and says so.
    for asked in (list_indexes(db), build_index(db, dimensions=2)):
        with pytest.raises(memalchemy.CapabilityMissing, match="exactly"):
            await asked
    assert len(await Store(db).search_by_embedding(NS, [1.0, 0.0])) == 1


@documents("the grammar of filters")
async def filters(db: Database) -> None:
    store = Store(db)
    for n in (2, 10):
        await store.put(NS, f"k{n}", {"n": n, "a-b": n > 5, "tags": ["x"]})
    for wanted, keys in [
        ({"n": {"$gt": 9}}, ["k10"]),
        ({"n": 2.0}, ["k2"]),
        ({"a-b": True}, ["k10"]),
        ({"$or": [{"n": {"$lte": 2}}, {"n": {"$in": [10]}}]}, ["k10", "k2"]),
        ({"n": {"$in": []}}, []),
        ({"$not": {"n": 2}}, ["k10"]),
        ({"n": {"$ne": 2, "$nin": [3]}}, ["k10"]),
        ({"missing": {"$exists": False}, "n": {"$gte": 2, "$lt": 3}}, ["k2"]),
    ]:
        assert [hit.key for hit in await store.search(NS, filter=wanted)] == keys, wanted
    with pytest.raises(ValueError, match=r"\$near"):
        Filter.parse({"n": {"$near": 1}})
