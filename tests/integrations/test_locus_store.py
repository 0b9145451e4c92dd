"""`MemalchemyStore` for locus: its ``BaseStore``, and additions to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest
from cryptography.fernet import Fernet
from locus.core.messages import Message
from locus.core.state import AgentState
from locus.memory.manager import LLMMemoryManager, Memory, MemoryType
from locus.memory.store import (
    BaseStore,
    NamespacedStore,
    SemanticSearchResult,
    StoreCapabilityError,
    StoreContext,
    StoreItem,
)

from lifetimes import MOMENT
from memalchemy import Database, Store
from memalchemy.integrations.locus import MemalchemyStore

USERS = ("users", "u1")


def embed(texts: list[str]) -> list[list[float]]:
    """Nearness by what is talked of: drinks, or places."""
    drinks, places = ("tea", "coffee", "drink"), ("lisbon", "rome", "city")
    return [
        [0.01 + sum(w in t.lower() for w in drinks), 0.01 + sum(w in t.lower() for w in places)]
        for t in texts
    ]


def test_it_implements_locus_interface() -> None:
    store = MemalchemyStore()
    known = asdict(store.capabilities)

    assert isinstance(store, BaseStore)
    assert known.pop("embedding_dimension") is None
    assert all(known.values())


async def test_an_item_has_versions_times_and_metadata_in_locus_own_record(db: Database) -> None:
    store = MemalchemyStore(db)
    assert await store.put(namespace=USERS, key="tea", value={"sugar": 1}) is None
    first = await store.get_item(USERS, "tea")
    await store.put(USERS, "tea", {"sugar": 2}, {"source": "chat"})
    second = await store.get_item(USERS, "tea")

    assert type(second) is StoreItem
    assert first is not None
    assert (first.version, first.metadata) == (1, {})
    assert (second.namespace, second.key, second.version) == (USERS, "tea", 2)
    assert (second.value, second.metadata) == ({"sugar": 2}, {"source": "chat"})
    assert second.created_at == first.created_at <= first.updated_at <= second.updated_at
    assert StoreItem.from_dict(second.to_dict()) == second


async def test_absence_is_none_or_empty_and_a_stored_none_is_there(db: Database) -> None:
    store = MemalchemyStore(db)
    await store.put(USERS, "nothing", None)

    assert await store.get(USERS, "nothing") is None
    assert await store.exists(USERS, "nothing") is True
    assert await store.get_batch([(USERS, "nothing"), (USERS, "no")]) == {(USERS, "nothing"): None}
    assert await store.exists(USERS, "no") is False
    assert await store.get_item(USERS, "no") is None
    assert await store.delete(USERS, "no") is False
    assert await store.list_keys(("nowhere",)) == []
    assert await store.search(("nowhere",)) == []
    assert await store.get_embedding(USERS, "nothing") is None
    assert await store.clear_namespace(("nowhere",)) == 0


async def test_namespaces_are_separate_and_listed_without_the_prefix(
    db: Database,
) -> None:
    store, native = MemalchemyStore(db), Store(db)
    places = [("a", "b"), ("a/b",), ("a", "b:c"), ("a",), ()]
    for place in places:
        await store.put(place, "k", list(place))
    await native.put(("a", "b"), "k", "somebody else's")

    assert [await store.get(place, "k") for place in places] == [list(place) for place in places]
    assert set(await store.list_namespaces()) == set(places)
    assert set(await store.list_namespaces(prefix=("a",))) == {("a",), ("a", "b"), ("a", "b:c")}
    assert len(await store.list_namespaces(limit=2)) == 2
    assert await store.clear_namespace(("a",)) == 1
    assert await store.get(("a", "b"), "k") == ["a", "b"]
    assert await native.get(("a", "b"), "k") == "somebody else's"
    assert await native.get(("locus", "a", "b"), "k") == ["a", "b"]
    crew = MemalchemyStore(db, namespace=("crew",))
    assert await crew.list_namespaces() == []
    with pytest.raises(TypeError, match="not one string"):
        await store.put("users", "k", 1)


async def test_a_large_namespace_is_cleared_completely(db: Database) -> None:
    store = MemalchemyStore(db)
    await store.put_batch([(USERS, f"k{n}", n, None) for n in range(150)])

    assert len(await store.list_keys(USERS)) == 100
    assert len(await store.list_keys(USERS, limit=1000)) == 150
    assert await store.clear_namespace(USERS) == 150


async def test_a_batch_is_atomic(db: Database) -> None:
    store = MemalchemyStore(db)
    with pytest.raises(TypeError):
        await store.put_batch([(USERS, "a", 1, None), (USERS, "b", object(), None)])
    assert await store.list_keys(USERS) == []
    await store.put_batch([(USERS, "a", 1, {"m": 1}), (("other",), "b", 2, None)])

    assert await store.get_batch([(USERS, "a"), (("other",), "b")]) == {
        (USERS, "a"): 1,
        (("other",), "b"): 2,
    }


async def test_a_search_goes_by_words_of_values_and_metadata(db: Database) -> None:
    store = MemalchemyStore(db)
    await store.put(USERS, "a", {"text": "Likes green tea and cafés"})
    await store.put(USERS, "b", {"text": "Likes black coffee"}, {"tag": "tea-free"})
    await store.put((*USERS, "below"), "c", {"text": "green tea"})

    assert [item.key for item in await store.search(USERS, "green tea")] == ["a", "b"]
    assert [item.key for item in await store.search(USERS, query="CAFES", limit=10)] == ["a"]
    assert [item.key for item in await store.search(USERS)] == ["b", "a"]
    assert [item.key for item in await store.search(USERS, "", limit=1)] == ["b"]
    assert await store.search(USERS, 'quo"te* OR (') == []
    assert [
        i.key for i in await store.search(USERS, filter={"$metadata": {"tag": "tea-free"}})
    ] == ["b"]
    many = await store.search_many([USERS, ("nowhere",), (*USERS, "below")], "green tea", 1)
    assert [[item.key for item in found] for found in many] == [["a"], [], ["c"]]


async def test_the_callers_vectors_are_found_by_nearness(db: Database) -> None:
    store = MemalchemyStore(db)
    await store.put_with_embedding(USERS, "x", "east", [1.0, 0.0], {"kind": "a"})
    await store.put_with_embedding(USERS, "y", "north", [0.0, 1.0], {"kind": "b"})

    found = await store.search_by_embedding(USERS, [0.9, 0.1])
    assert [type(one) for one in found] == [SemanticSearchResult] * 2
    assert [(one.item.key, one.item.namespace) for one in found] == [("x", USERS), ("y", USERS)]
    assert 1 >= found[0].score > found[1].score >= 0
    (only,) = await store.search_by_embedding(USERS, [0.9, 0.1], metadata_filter={"kind": "b"})
    assert only.item.key == "y"
    assert len(await store.search_by_embedding(USERS, [1.0, 0.0], threshold=0.9)) == 1
    assert await store.get_embedding(USERS, "x") == [1.0, 0.0]


async def test_a_search_with_an_embedder_uses_meaning_and_calls_it_once(
    db: Database,
) -> None:
    asked: list[list[str]] = []

    async def counting(texts: list[str]) -> list[list[float]]:
        asked.append(list(texts))
        return embed(texts)

    store = MemalchemyStore(db, embedder=counting)
    await store.put(USERS, "a", {"text": "Prefers green tea"})
    await store.put(USERS, "b", {"text": "Born in Rome"})
    asked.clear()

    assert [item.key for item in await store.search(USERS, "a drink", limit=1)] == ["a"]
    found = await store.search_many([USERS, ("other",), USERS], "which city", 1)
    assert [[item.key for item in items] for items in found] == [["b"], [], ["b"]]
    assert asked == [["a drink"], ["which city"]]


async def test_items_expire_after_the_ttl_of_their_namespace(db: Database) -> None:
    store = MemalchemyStore(db, ttl={("short",): MOMENT})
    await store.put(("short", "x"), "k", 1)
    await store.put(("long",), "k", 1)
    await store.put(("long",), "brief", 1, ttl=MOMENT)

    brief = (("short", "x"), "k"), (("long",), "brief")
    assert not await store.get_batch(brief)
    assert await store.list_keys(("long",)) == ["k"]


async def test_a_search_that_encryption_prevents_is_a_capability_error(db: Database) -> None:
    async with Database("sqlite://", keys=[Fernet.generate_key()]) as sealed:
        store = MemalchemyStore(sealed)
        await store.put(USERS, "k", {"text": "tea"})

        assert (store.capabilities.search, store.capabilities.semantic_search) == (False, False)
        for asked in (
            store.search(USERS, "tea"),
            store.search_by_embedding(USERS, [1.0]),
            store.put_with_embedding(USERS, "k", 1, [1.0]),
            store.get_embedding(USERS, "k"),
        ):
            with pytest.raises(StoreCapabilityError, match="readable"):
                await asked
        assert [item.key for item in await store.search(USERS)] == ["k"]


async def test_a_put_is_part_of_the_hosts_transaction(db: Database) -> None:
    store = MemalchemyStore(db)
    with pytest.raises(RuntimeError):  # noqa: PT012 - the block is what raises
        async with db.transaction() as tx:
            await store.put(USERS, "k", 1, connection=tx)
            assert await store.get(USERS, "k", connection=tx) == 1
            raise RuntimeError("the host changed its mind")

    assert await store.exists(USERS, "k") is False


async def test_locus_views_of_a_store_work_on_it(db: Database) -> None:
    store = MemalchemyStore(db)
    context = StoreContext(store, user_id="u1", session_id="s1")
    await context.remember("city", {"name": "Lisbon"})
    await context.remember_with_embedding("drink", {"name": "tea"}, embedding=[1.0, 0.0])
    await context.set_global("version", 3)

    assert await context.get_user_memory("city") == {"name": "Lisbon"}
    assert [item.key for item in await context.search_memories("lisbon")] == ["city"]
    (near,) = await context.search_memories_semantic([1.0, 0.1], threshold=0.5)
    assert near.item.key == "drink"
    assert await context.get_global("version") == 3
    assert await context.forget("city") is True
    notes = NamespacedStore(store, ("notes",)).scoped("today")
    await notes.put("a", 1)
    assert await store.get(("notes", "today"), "a") == 1
    assert await notes.clear() == 1


async def test_a_memory_manager_recalls_what_fits_the_question_in_another_process(
    db: Database, reopen: Callable[[], Database]
) -> None:
    async def extract(messages: object) -> list[Memory]:
        return [
            Memory(type=MemoryType.USER, key="tea", content="Drinks green tea without sugar"),
            Memory(type=MemoryType.USER, key="city", content="Lives in Lisbon near the river"),
        ]

    manager = LLMMemoryManager(MemalchemyStore(db), extract_fn=extract)
    state = AgentState(messages=(Message.user("I drink green tea."), Message.assistant("Noted.")))
    await manager.on_session_end(state)

    other = reopen()
    again = LLMMemoryManager(MemalchemyStore(other), retrieve_limit=1)
    asked = AgentState(messages=(Message.user("What about Lisbon?"),))
    block = (await again.on_session_start(asked)).messages[-1].content
    assert "Lives in Lisbon" in block
    assert "green tea" not in block
    await other.close()
