"""mem0's `Memory` on our stores: its whole life, its filters, and what its own stores do."""

from __future__ import annotations

import asyncio
import inspect
import threading
import uuid
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import scripted_mem0
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mem0 import AsyncMemory, Memory
from mem0.configs.base import MemoryConfig
from mem0.embeddings.configs import EmbedderConfig
from mem0.memory.storage import SQLiteManager
from mem0.utils.factory import VectorStoreFactory
from mem0.utils.scoring import get_bm25_params, normalize_bm25
from mem0.vector_stores.base import VectorStoreBase
from mem0.vector_stores.qdrant import Qdrant
from qdrant_client import QdrantClient
from scripted_mem0 import ScriptedLLM

from drawn_examples import examples
from memalchemy import Database, NotSerialisable
from memalchemy.integrations.mem0 import (
    MemalchemyHistory,
    MemalchemyVectorStore,
    vector_store_config,
)

Reopen = Callable[[], Database]
ADA: dict[str, Any] = {"user_id": "ada"}

each_example_again = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def config(db: Any, **options: Any) -> MemoryConfig:
    made = MemoryConfig(embedder=EmbedderConfig(provider="fastembed"), history_db_path=":memory:")
    made.vector_store = vector_store_config(db, **options)
    return made


def memory_on(db: Any, *script: list[str], **options: Any) -> Memory:
    ScriptedLLM.SCRIPT[:] = script
    memory = Memory(config(db, **options))
    memory.db.close()
    memory.db = MemalchemyHistory(db)
    return memory


def texts(found: dict[str, Any]) -> list[str]:
    return [one["memory"] for one in found["results"]]


# --- mem0's Memory --------------------------------------------------------------------------------


def test_a_memory_lives_and_is_found_after_a_restart(db: Database, reopen: Reopen) -> None:
    script = ["Ada likes tea", "Ada lives in Oslo"]
    (tea, oslo) = memory_on(db, script).add("I am Ada.", **ADA)["results"]
    assert (tea["memory"], tea["event"]) == ("Ada likes tea", "ADD")

    memory = memory_on(reopen())
    assert sorted(texts(memory.get_all(filters=ADA))) == script
    assert texts(memory.search("who likes tea", filters=ADA))[0] == "Ada likes tea"
    assert texts(memory.search("tea", filters={"user_id": "bob"})) == []
    memory.update(tea["id"], "Ada likes oolong")
    memory.delete(oslo["id"])

    assert texts(memory.get_all(filters=ADA)) == ["Ada likes oolong"]
    changes = memory.history(tea["id"])
    assert [(one["event"], one["old_memory"], one["new_memory"]) for one in changes] == [
        ("ADD", None, "Ada likes tea"),
        ("UPDATE", "Ada likes tea", "Ada likes oolong"),
    ]
    assert [one["is_deleted"] for one in memory.history(oslo["id"])] == [False, True]


def test_each_user_and_run_has_memories_of_its_own(db: Database) -> None:
    memory = memory_on(db, ["A likes tea"], ["B likes tea"], ["C likes tea"])
    memory.add("a", user_id="a")
    memory.add("b", user_id="b")
    memory.add("c", user_id="b", run_id="1")

    assert texts(memory.get_all(filters={"user_id": "a"})) == ["A likes tea"]
    assert texts(memory.get_all(filters={"run_id": "1"})) == ["C likes tea"]
    memory.delete_all(user_id="b")
    assert texts(memory.get_all(filters={"user_id": "b"})) == []
    assert texts(memory.get_all(filters={"user_id": "a"})) == ["A likes tea"]


def test_more_memories_are_deleted_than_are_listed_at_once(db: Database) -> None:
    memory = memory_on(db)
    ids = [str(uuid.uuid4()) for _ in range(230)]
    payloads = [{"data": f"fact {n}", **ADA} for n in range(230)]
    memory.vector_store.insert([[1.0, float(n)] for n in range(230)], payloads, ids)

    assert len(memory.vector_store.list(ADA, top_k=None)[0]) == 230
    assert len(memory.vector_store.list(ADA)[0]) == 100
    memory.delete_all(**ADA)
    assert memory.vector_store.list(ADA) == [[]]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"stars": 3}, ["c"]),
        ({"stars": {"gte": 2, "lt": 3}}, ["b"]),
        ({"stars": {"ne": 1}}, ["b", "c"]),
        ({"kind": {"in": ["tea", "milk"]}}, ["a", "c"]),
        ({"kind": {"nin": ["tea"]}}, ["b", "c"]),
        ({"kind": {"contains": "il"}}, ["c"]),
        ({"kind": {"icontains": "TEA"}}, ["a", "b"]),
        ({"kind": "*"}, ["a", "b", "c", "d"]),
        ({"AND": [{"kind": "*"}, {"stars": {"gt": 1}}]}, ["b", "c"]),
        ({"OR": [{"stars": 1}, {"kind": "milk"}]}, ["a", "c"]),
        ({"NOT": [{"stars": 1}, {"kind": "milk"}]}, ["b", "d"]),
    ],
)
def test_memories_are_filtered_by_mem0s_operators(
    db: Database, wanted: dict[str, Any], expected: list[str]
) -> None:
    memory = memory_on(db)
    payloads = [
        {"data": "a", "stars": 1, "kind": "tea"},
        {"data": "b", "stars": 2, "kind": "Tea"},
        {"data": "c", "stars": 3, "kind": "milk"},
        {"data": "d"},
    ]
    memory.vector_store.insert(
        [memory.embedding_model.embed("x")] * 4, [{**one, **ADA} for one in payloads], [*"abcd"]
    )

    found = memory.search("x", filters={**ADA, **wanted}, threshold=0.0)
    assert sorted(texts(found)) == expected


def test_a_memory_with_the_words_of_a_query_comes_first(db: Database) -> None:
    memory = memory_on(db)
    same = [1.0] * scripted_mem0.SIZE
    payloads = [{"data": text, "text_lemmatized": text, **ADA} for text in ("a b c", "kettle", "x")]
    memory.vector_store.insert([same] * 3, payloads)

    found = memory.search("kettle", filters=ADA, threshold=0.0, explain=True)
    assert texts(found)[0] == "kettle"
    assert found["results"][0]["score_details"]["bm25_score"] > 0.9


def test_entities_are_linked_in_a_collection_of_their_own(db: Database) -> None:
    memory = memory_on(db)
    memory._upsert_entity("Oslo", "PLACE", "memory-1", ADA)
    memory._upsert_entity("oslo", "PLACE", "memory-2", ADA)

    ((entity,),) = memory.entity_store.list(ADA)
    assert entity.payload["linked_memory_ids"] == ["memory-1", "memory-2"]
    assert memory.entity_store.db is db
    assert memory.vector_store.list_cols() == ["mem0_entities"]
    memory._remove_memory_from_entity_store("memory-1", ADA)
    memory._remove_memory_from_entity_store("memory-2", ADA)
    assert memory.entity_store.list(ADA) == [[]]


def test_the_last_messages_of_a_session_go_to_the_model(db: Database) -> None:
    memory = memory_on(db)
    for number in range(12):
        memory.add(f"message {number}", **ADA)

    last = memory.db.get_last_messages("user_id=ada")
    assert [one["content"] for one in last] == [f"message {number}" for number in range(2, 12)]


def test_a_reset_deletes_everything_and_mem0_goes_back_to_its_own_history(db: Database) -> None:
    memory = memory_on(db, ["a fact"])
    (added,) = memory.add("hello", **ADA)["results"]
    memory.reset()

    assert memory.vector_store.list() == [[]]
    assert isinstance(memory.db, SQLiteManager)
    ours = MemalchemyHistory(db)
    assert ours.get_history(added["id"]) == ours.get_last_messages("user_id=ada") == []
    memory.close()


async def test_mem0s_class_with_await_uses_the_same_stores(db: Database) -> None:
    ScriptedLLM.SCRIPT[:] = [["Ada likes tea"]]
    memory = AsyncMemory(config(db))
    memory.db.close()
    memory.db = MemalchemyHistory(db)
    (added,) = (await memory.add("hello", **ADA))["results"]

    assert texts(await memory.search("tea", filters=ADA)) == ["Ada likes tea"]
    await memory.delete(added["id"])
    assert [one["event"] for one in await memory.history(added["id"])] == ["ADD", "DELETE"]
    assert texts(await asyncio.to_thread(memory_on(db).get_all, filters=ADA)) == []


def test_a_url_is_shared_by_all_stores_of_a_memory_and_shown_nowhere(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/secret.db"
    memory = memory_on(url, ["a fact"], collection_name="facts")
    memory.add("hello", **ADA)

    assert memory.entity_store.db is memory.vector_store.db is memory.db.db
    assert memory.entity_store.collection_name == "facts_entities"
    assert "secret" not in repr(memory.config.vector_store)
    assert deepcopy(memory.config.vector_store.config).db is memory.config.vector_store.config.db
    memory.close()
    memory.vector_store.close()


def test_mem0_still_has_the_places_in_which_ours_is_put() -> None:
    assert VectorStoreFactory.provider_to_class["memalchemy"].endswith(".MemalchemyVectorStore")
    for name, method in inspect.getmembers(VectorStoreBase, inspect.isfunction):
        ours = inspect.signature(getattr(MemalchemyVectorStore, name)).parameters
        theirs = inspect.signature(method).parameters
        assert [*ours][: len(theirs)] == [*theirs], name
    public = inspect.getmembers(SQLiteManager, inspect.isfunction)
    for name, method in ((name, method) for name, method in public if name[0] != "_"):
        ours = inspect.signature(getattr(MemalchemyHistory, name)).parameters
        assert [*ours] == [*inspect.signature(method).parameters], name


# --- The vector store -----------------------------------------------------------------------------

IDS = [str(uuid.UUID(int=n)) for n in range(6)]
SIDES = st.sampled_from([-1.0, 0.25, 0.5, 1.0])
vectors = st.tuples(SIDES, SIDES, SIDES).map(list)
payloads = st.fixed_dictionaries(
    {"data": st.sampled_from(["tea", "milk"])},
    optional={"n": st.integers(0, 3), "user_id": st.sampled_from("xy")},
)
steps = st.one_of(
    st.tuples(
        st.just("insert"),
        st.lists(
            st.tuples(st.sampled_from(IDS), vectors, payloads),
            max_size=3,
            unique_by=lambda one: one[0],
        ),
    ),
    st.tuples(st.just("update"), st.tuples(st.sampled_from(IDS), vectors, payloads)),
    st.tuples(st.just("delete"), st.sampled_from(IDS)),
)
filters = st.sampled_from(
    [
        None,
        {"user_id": "x"},
        {"n": {"gte": 1, "lte": 2}},
        {"user_id": {"in": ["x", "y"]}},
        {"data": {"contains": "milk"}},  # a part of a word is one for Qdrant's server only
        {"$or": [{"n": 0}, {"user_id": "x"}]},
        {"$not": [{"n": 0}, {"user_id": "x"}]},
        {"user_id": "x", "data": "tea"},
    ]
)


@each_example_again
@given(steps=st.lists(steps, max_size=8), query=vectors, wanted=filters)
def test_memories_are_those_of_qdrant(
    db: Database, steps: list[Any], query: list[float], wanted: Any
) -> None:
    ours = MemalchemyVectorStore(db)
    ours.reset()
    theirs = Qdrant("test", 3, client=QdrantClient(":memory:"))
    theirs._bm25_encoder = False  # or else it downloads a model
    for name, what in steps:
        for store in (ours, theirs):
            if name == "insert" and what:
                ids, some, given_ = map(list, zip(*what, strict=True))
                store.insert(some, given_, ids)
            elif name == "update":
                if store.get(what[0]) is not None:  # Qdrant would insert it
                    store.update(*what)
            elif name == "delete":
                store.delete(what)

    for id_ in IDS:
        found, expected = ours.get(id_), theirs.get(id_)
        assert (found and found.payload) == (expected and expected.payload)
    (found,), listed = ours.list(wanted), theirs.list(wanted)[0]
    assert {one.id: one.payload for one in found} == {one.id: one.payload for one in listed}
    nearest = ours.search("", query, 10, wanted)
    expected = theirs.search("", query, 10, wanted)
    assert [one.score for one in nearest] == pytest.approx(
        [max(0.0, one.score) for one in expected], abs=1e-5
    )
    assert {one.id for one in nearest} == {str(one.id) for one in expected}
    assert ours.search("", [query], 10, wanted) == nearest
    assert ours.search_batch(["", ""], [query, query], 10, wanted) == [nearest] * 2
    theirs.client.close()


def test_an_update_keeps_what_it_is_not_given(db: Database) -> None:
    store = MemalchemyVectorStore(db)
    store.insert([[1.0, 0.0]], [{"data": "a"}], ["1"])
    store.update("1", payload={"data": "b"})
    (found,) = store.search("", [1.0, 0.0])
    assert (found.score, found.payload) == (pytest.approx(1), {"data": "b"})
    store.update("1", vector=[0.0, 1.0])
    (found,) = store.search("", [0.0, 1.0])
    assert (found.score, found.payload) == (pytest.approx(1), {"data": "b"})
    store.update("2", [1.0, 0.0], {"data": "c"})
    assert store.get("2") is None


def test_updates_at_once_lose_nothing_of_each_other(db: Database, reopen: Reopen) -> None:
    store = MemalchemyVectorStore(db)
    other = reopen()
    for turn in range(5):
        store.insert([[1.0, 0.0]], [{"data": "a"}], [str(turn)])
        both = [
            threading.Thread(target=store.update, args=(str(turn), [0.0, 1.0])),
            threading.Thread(
                target=MemalchemyVectorStore(other).update,
                kwargs={"vector_id": str(turn), "payload": {"data": "b"}},
            ),
        ]
        for one in both:
            one.start()
        for one in both:
            one.join()
        (found,) = store.search("", [0.0, 1.0], 1, {"data": "b"})
        assert found.score == pytest.approx(1)
        store.reset()


@pytest.mark.parametrize(
    "wrong",
    [
        ([[1.0]], [{}, {}], ["1"]),
        ([[1.0]], [{}], ["1", "2"]),
        ([[1.0], [0.0]], [{}, {}], ["1", "2"]),
        ([[1.0], [1.0]], [{}, {"data": object()}], ["1", "2"]),
    ],
    ids=["payloads", "ids", "zero", "object"],
)
def test_memories_that_cannot_be_stored_change_nothing(db: Database, wrong: Any) -> None:
    store = MemalchemyVectorStore(db)
    with pytest.raises((ValueError, NotSerialisable)):
        store.insert(*wrong)
    assert store.list() == [[]]


@pytest.mark.parametrize(
    "wrong", [{"n": {"near": 1}}, {"$not": {"n": 1}}, {"n": {}}, {"OR": "x"}, {"tags[].a": 1}]
)
def test_a_filter_that_mem0_does_not_have_is_refused(db: Database, wrong: Any) -> None:
    with pytest.raises(
        ValueError, match=r"Unsupported filter operator|wants a list|no operator|end of a path"
    ):
        MemalchemyVectorStore(db).list(wrong)


def test_names_of_fields_are_names(db: Database) -> None:
    store = MemalchemyVectorStore(db)
    odd = {"$ref": 1, "/a": 2, "a/b~c": 3}
    store.insert([[1.0]], [odd])

    for name, value in odd.items():
        assert len(store.list({name: value})[0]) == 1
        assert len(store.list({name: {"gt": value}})[0]) == 0


def test_collections_are_separate_and_listed(db: Database) -> None:
    first, second = MemalchemyVectorStore(db), MemalchemyVectorStore(db, collection_name="b/c")
    for store in (first, second):
        store.insert([[1.0]], [{"data": store.collection_name}], ["1"])
    MemalchemyVectorStore(db, namespace=("team",)).insert([[1.0]], [{}], ["1"])

    assert sorted(first.list_cols()) == ["b/c", "mem0"]
    assert second.col_info() == {"name": "b/c", "count": 1}
    first.delete_col()
    assert first.get("1") is None
    assert second.get("1") is not None
    assert first.list_cols() == ["b/c"]
    first.create_col("b/c", 3, "cosine")
    assert first.get("1") is not None
    with pytest.raises(ValueError, match="cosine"):
        first.create_col("x", 3, "euclidean")


def test_a_score_by_words_is_in_the_middle_of_mem0s_sigmoid_for_half_of_them(db: Database) -> None:
    store = MemalchemyVectorStore(db)
    store.insert([[1.0]] * 2, [{"data": "tea"}, {"data": "milk"}], ["1", "2"])
    (found,) = store.keyword_search("tea") or []
    assert normalize_bm25(found.score or 0, *get_bm25_params("tea", lemmatized="tea")) > 0.9
    assert store.keyword_search("zeppelin") == []
    scores = [one.score or 0 for one in store.keyword_search("tea milk") or []]
    assert [
        normalize_bm25(score, *get_bm25_params("", lemmatized="tea milk")) for score in scores
    ] == pytest.approx([0.5, 0.5], abs=0.05)


# --- The history ----------------------------------------------------------------------------------


@pytest.fixture
def sqlite_manager() -> Iterator[SQLiteManager]:
    manager = SQLiteManager(":memory:")
    yield manager
    manager.close()


def test_a_history_is_that_of_mem0s_own(db: Database, sqlite_manager: SQLiteManager) -> None:
    ours = MemalchemyHistory(db)
    times = [f"2026-03-01T00:00:0{n}+00:00" for n in range(3)]
    for history in (ours, sqlite_manager):
        history.batch_add_history(
            [
                {"memory_id": id_, "new_memory": id_, "event": "ADD", "created_at": times[0]}
                for id_ in "ba"
            ]
        )
        history.add_history(
            "a", "a", "b", "UPDATE", created_at=times[0], updated_at=times[1], actor_id="x"
        )
        history.add_history("a", "b", None, "DELETE", created_at=times[1], is_deleted=1, role="y")
        history.save_messages([], "scope")
        for number in range(4):
            history.save_messages(
                [
                    {"role": "user", "content": f"{number} {n}", "name": "ada", "more": 1}
                    for n in range(4)
                ],
                "scope",
            )

    for id_ in "abc":
        found, expected = ours.get_history(id_), sqlite_manager.get_history(id_)
        assert [one | {"id": ""} for one in found] == [one | {"id": ""} for one in expected]
        assert [list(one) for one in found] == [list(one) for one in expected]
    for limit in (1, 3, 10, 100):
        found = ours.get_last_messages("scope", limit)
        assert [one["content"] for one in found] == [
            f"{number} {n}" for number in range(4) for n in range(4)
        ][-min(limit, 10) :]
        assert {tuple(one) for one in found} == {("role", "content", "name", "created_at")}
    assert len(sqlite_manager.get_last_messages("scope", 100)) == 10


def test_a_history_refuses_what_cannot_be_stored_and_keeps_what_is_there(db: Database) -> None:
    history = MemalchemyHistory(db)
    history.save_messages([{"role": "user", "content": "a"}], "scope")
    with pytest.raises(NotSerialisable):
        history.save_messages([{"role": "user"}, {"role": "user", "content": object()}], "scope")
    with pytest.raises(NotSerialisable):
        history.batch_add_history(
            [
                {"memory_id": "1", "event": "ADD"},
                {"memory_id": "2", "event": "ADD", "new_memory": object()},
            ]
        )
    with pytest.raises(ValueError, match="keep_messages"):
        MemalchemyHistory(db, keep_messages=0)

    assert [one["content"] for one in history.get_last_messages("scope")] == ["a"]
    assert history.get_history("1") == []


def test_long_scopes_of_sessions_are_told_apart(db: Database) -> None:
    history = MemalchemyHistory(db)
    scopes = [f"user_id={'x' * 300}{n}" for n in range(2)]
    for scope in scopes:
        history.save_messages([{"role": "user", "content": scope}], scope)

    assert [history.get_last_messages(one)[0]["content"] for one in scopes] == scopes


async def test_messages_and_changes_are_logs(db: Database) -> None:
    history = MemalchemyHistory(db)
    history.save_messages([{"role": "user", "content": "a kettle"}], "user_id=ada")
    history.add_history("1", None, "a kettle", "ADD")

    (hit,) = await history.messages.search("kettle")
    assert (hit.thread_id, hit.value["role"]) == ("user_id=ada", "user")
    assert await history.changes.list_threads() == ["1"]
