"""A store seen from one namespace, and from one user and session."""

from __future__ import annotations

import pytest
from store_helpers import found_by, keys_of, undone

from memalchemy import Conflict, Database, NamespacedStore, Store, StoreContext

NS = ("app", "users")
MEMORIES = ("users", "ada", "memories")


@pytest.fixture
def here(store: Store) -> NamespacedStore:
    return NamespacedStore(store, NS)


@pytest.fixture
def ada(store: Store) -> StoreContext:
    return StoreContext(store, user_id="ada", session_id="s-1")


@pytest.fixture
def nobody(store: Store) -> StoreContext:
    return StoreContext(store)


async def test_a_namespaced_store_reads_and_writes_in_its_namespace(
    store: Store, here: NamespacedStore
) -> None:
    assert here.namespace == NS
    assert await here.put("a", {"text": "needle"}, {"m": 1}) == 1
    await store.put(("app",), "a", "above")
    await store.put((*NS, "deep"), "a", "needle below")

    assert await store.get(NS, "a") == {"text": "needle"}
    assert await here.get("a") == {"text": "needle"}
    assert await here.get("b") is None
    assert await here.exists("a")
    assert not await here.exists("b")
    item = await here.get_item("a")
    assert item == await store.get_item(NS, "a")
    assert await here.get_item("b") is None
    assert await here.list_keys() == ["a"]
    assert await here.count() == 1
    assert keys_of(await here.search("needle")) == ["a"]
    assert keys_of(await here.search()) == ["a"]
    assert await here.search("above") == []


async def test_a_namespaced_store_takes_the_options_of_the_store(here: NamespacedStore) -> None:
    assert await here.put("a", 1, expected_version=None) == 1
    with pytest.raises(Conflict):
        await here.put("a", 2, expected_version=None)
    with pytest.raises(Conflict):
        await here.delete("a", expected_version=9)
    await here.put("b", "needle", {"kind": "x"})
    await here.put("c", "needle", {"kind": "y"})
    assert await here.list_keys(2) == ["a", "b"]
    assert len(await here.search("needle", limit=1)) == 1
    assert keys_of(await here.search("needle", filter={"kind": "y"})) == ["c"]


async def test_a_namespaced_store_deletes_and_clears_only_its_own(
    store: Store, here: NamespacedStore
) -> None:
    for key in ("a", "b", "c"):
        await here.put(key, 1)
    await store.put((*NS, "deep"), "a", 1)

    assert await here.delete("a") is True
    assert await here.delete("a") is False
    assert await here.clear() == 2
    assert await here.clear() == 0
    assert await here.list_keys() == []
    assert await store.exists((*NS, "deep"), "a")


async def test_a_scope_lies_below(store: Store, here: NamespacedStore) -> None:
    deeper = here.scoped("ada", "facts")

    assert deeper.namespace == (*NS, "ada", "facts")
    await deeper.put("k", 1)
    assert await store.get((*NS, "ada", "facts"), "k") == 1
    assert await here.get("k") is None
    assert await here.scoped("ada").scoped("facts").get("k") == 1
    assert here.scoped().namespace == NS
    assert here.namespace == NS


async def test_views_share_one_store(store: Store, here: NamespacedStore) -> None:
    await here.store.put(NS, "k", 1)
    await StoreContext(store=store, user_id="ada").store.put(NS, "l", 2)

    assert await here.list_keys() == ["k", "l"]


# --- A context ----------------------------------------------------------------------------------


def test_a_context_knows_the_namespaces_of_its_user_and_session(
    ada: StoreContext, nobody: StoreContext
) -> None:
    assert ada.for_user().namespace == ("users", "ada")
    assert ada.for_user("eve").namespace == ("users", "eve")
    assert ada.for_session().namespace == ("sessions", "s-1")
    assert nobody.for_user("eve").namespace == ("users", "eve")
    with pytest.raises((ValueError,)):
        nobody.for_user()
    with pytest.raises((ValueError,)):
        nobody.for_session()


async def test_a_memory_is_remembered_read_and_forgotten(store: Store, ada: StoreContext) -> None:
    await ada.remember("colour", {"likes": "blue"}, {"source": "chat"})

    item = await store.get_item(MEMORIES, "colour")
    assert item is not None
    assert (item.value, item.metadata) == ({"likes": "blue"}, {"source": "chat"})
    assert await ada.get_user_memory("colour") == {"likes": "blue"}
    assert await ada.get_user_memory("food") is None
    await ada.remember("colour", "green")
    assert await ada.get_user_memory("colour") == "green"
    assert await ada.forget("colour") is True
    assert await ada.forget("colour") is False
    assert await ada.get_user_memory("colour") is None


async def test_memories_are_found_by_words_and_by_vectors(ada: StoreContext) -> None:
    await ada.remember("a", "likes the crimson kettle")
    await ada.remember_with_embedding("b", "has a cat", [1.0, 0.0], {"m": 1})
    await ada.remember_with_embedding("c", "has a dog", [0.6, 0.8])

    assert keys_of(await ada.search_memories("kettle")) == ["a"]
    assert sorted(keys_of(await ada.search_memories("has", 5))) == ["b", "c"]
    assert len(await ada.search_memories("has", limit=1)) == 1
    results = await ada.search_memories_semantic([1.0, 0.0])
    assert found_by(results) == ["b", "c"]
    assert results[0].item.metadata == {"m": 1}
    assert found_by(await ada.search_memories_semantic([1.0, 0.0], limit=1)) == ["b"]
    middle = (results[0].score + results[1].score) / 2
    above = await ada.search_memories_semantic([1.0, 0.0], threshold=middle)
    assert found_by(above) == ["b"]


async def test_users_do_not_see_each_others_memories(store: Store, ada: StoreContext) -> None:
    eve = StoreContext(store, user_id="eve")
    await ada.remember_with_embedding("secret", "needle", [1.0, 0.0])

    assert await eve.get_user_memory("secret") is None
    assert await eve.search_memories("needle") == []
    assert await eve.search_memories_semantic([1.0, 0.0]) == []
    assert await eve.forget("secret") is False
    assert await ada.get_user_memory("secret") == "needle"


async def test_without_a_user_nothing_is_remembered_and_nothing_found(
    store: Store, ada: StoreContext, nobody: StoreContext
) -> None:
    await ada.remember_with_embedding("k", "needle", [1.0, 0.0])

    with pytest.raises((ValueError,)):
        await nobody.remember("k", 1)
    with pytest.raises((ValueError,)):
        await nobody.remember_with_embedding("k", 1, [1.0, 0.0])
    assert await nobody.get_user_memory("k") is None
    assert await nobody.forget("k") is False
    assert await nobody.search_memories("needle") == []
    assert await nobody.search_memories_semantic([1.0, 0.0]) == []
    assert await store.list_namespaces() == [MEMORIES]


async def test_what_is_global_is_everyones(
    store: Store, ada: StoreContext, nobody: StoreContext
) -> None:
    await ada.set_global("motd", "hello")

    assert await nobody.get_global("motd") == "hello"
    assert await nobody.get_global("absent") is None
    assert await store.get(("global",), "motd") == "hello"
    await nobody.set_global("motd", None)
    assert await store.exists(("global",), "motd")


async def test_a_users_memories_and_what_all_share_take_part_in_a_hosts_transaction(
    db: Database,
) -> None:
    ada = StoreContext(Store(db), user_id="ada")
    async with undone(db) as tx:
        await ada.remember("likes", "tea", connection=tx)
        await ada.set_global("motto", "onwards", ttl=60, connection=tx)
        assert await ada.get_user_memory("likes", connection=tx) == "tea"
        assert await ada.get_global("motto", connection=tx) == "onwards"
        assert len(await ada.search_memories("tea", connection=tx)) == 1
        assert await ada.forget("likes", connection=tx) is True

    assert await ada.get_global("motto") is None
