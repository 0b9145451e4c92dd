"""Memories: compared with CrewAI's LanceDB storage, and found after a change of embedder."""

from __future__ import annotations

import logging
import math
import uuid
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from crewai.flow.persistence.factory import default_flow_persistence
from crewai.flow.persistence.sqlite import SQLiteFlowPersistence
from crewai.memory.storage.backend import StorageBackend
from crewai.memory.storage.factory import resolve_memory_storage
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from memalchemy import Database, NotSerialisable, Store
from memalchemy.integrations.crewai import MemalchemyMemoryStorage, install

START = datetime(2026, 1, 1)
SCOPES = ("/", "/a", "/a/b", "/a/b/c", "/d", "/d/e%_'")
"""Scopes of which none is the beginning of another's name: for LanceDB a prefix is a text."""


@pytest.fixture
def memory(db: Database) -> MemalchemyMemoryStorage:
    return MemalchemyMemoryStorage(db)


def record(id_: str, **more: Any) -> MemoryRecord:
    given = {"content": f"content of {id_}", "embedding": [1.0, 0.5], "created_at": START}
    return MemoryRecord(id=id_, **(given | more))


# --- Beside LanceDB -------------------------------------------------------------------------------

NUMBERS = st.integers(-8, 8).map(lambda number: number / 8)
VECTORS = st.lists(NUMBERS, min_size=3, max_size=3).filter(any)
RECORDS = st.lists(
    st.builds(
        dict,
        scope=st.sampled_from(SCOPES),
        categories=st.lists(st.sampled_from("xyz"), max_size=3),
        metadata=st.fixed_dictionaries({}, optional={"k": st.integers(0, 2), "l": st.booleans()}),
        embedding=VECTORS,
        private=st.booleans(),
        source=st.none() | st.sampled_from(["u", "v"]),
        importance=st.sampled_from([0.0, 0.5, 1.0]),
    ),
    min_size=1,
    max_size=10,
)
WANTED = st.fixed_dictionaries(
    {},
    optional={
        "scope_prefix": st.sampled_from([*SCOPES, "/a/", "/none"]),
        "categories": st.lists(st.sampled_from("xyz"), min_size=1, max_size=2),
        "metadata_filter": st.fixed_dictionaries({"k": st.integers(0, 2) | st.none()}),
    },
)


@given(rows=RECORDS, query=VECTORS, wanted=WANTED, least=st.sampled_from([0.0, 0.3, 0.6]))
@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_everything_reads_as_from_lancedb(
    rows: list[dict[str, Any]],
    query: list[float],
    wanted: dict[str, Any],
    least: float,
    db: Database,
    tmp_path: Path,
) -> None:
    name = uuid.uuid4().hex
    ours = MemalchemyMemoryStorage(db, namespace=(name,))
    theirs = LanceDBStorage(path=tmp_path / name, compact_every=0)
    records = [
        record(f"r{n}", **row, created_at=START + timedelta(minutes=n))
        for n, row in enumerate(rows)
    ]
    stores: list[Any] = [ours, theirs]
    for store in stores:
        store.save(deepcopy(records))

    found = [store.search(query, limit=100, min_score=least, **wanted) for store in stores]
    scores = [{one.id: score for one, score in hits} for hits in found]
    assert scores[0].keys() == scores[1].keys()
    assert all(math.isclose(scores[1][id_], scores[0][id_], rel_tol=1e-4) for id_ in scores[0])
    ordered = [score for _, score in found[0]]
    assert ordered == sorted(ordered, reverse=True)
    for scope in (*SCOPES, "/none", "/a/"):
        listed = [store.list_records(scope) for store in stores]
        assert [*map(fields, listed[0])] == [*map(fields, listed[1])]
        assert ours.list_records(scope, limit=2, offset=1) == listed[0][1:3]
        assert ours.get_scope_info(scope) == theirs.get_scope_info(scope)
        assert ours.list_scopes(scope) == theirs.list_scopes(scope)
        assert ours.list_categories(scope) == theirs.list_categories(scope.rstrip("/") or None)
        assert ours.count(scope) == theirs.count(scope)
    for one in records:
        assert ours.get_record(one.id) == theirs.get_record(one.id) == one
    assert ours.get_record("none") is theirs.get_record("none") is None


def fields(one: MemoryRecord) -> dict[str, Any]:
    return one.model_dump()


# --- Ours -----------------------------------------------------------------------------------------


def test_it_is_a_storage_backend(memory: MemalchemyMemoryStorage) -> None:
    assert isinstance(memory, StorageBackend)
    assert deepcopy(memory) is memory


def test_a_scope_is_a_path_and_not_the_beginning_of_a_name(memory: MemalchemyMemoryStorage) -> None:
    memory.save([record("one", scope="/crew/ada"), record("two", scope="/crewmates")])
    memory.save([record("three", scope="crew//bob/")])

    assert {one.id for one, _ in memory.search([1.0, 0.0], scope_prefix="/crew")} == {
        "one",
        "three",
    }
    assert memory.count("crew") == 2
    assert memory.list_scopes("/") == ["/crew", "/crewmates"]
    assert memory.list_scopes("/crew") == ["/crew/ada", "/crew/bob"]
    memory.reset("/crew")
    assert [one.id for one in memory.list_records()] == ["two"]


def test_a_filter_does_not_cut_the_hits_short(memory: MemalchemyMemoryStorage) -> None:
    far = [record(f"far{n}", categories=["rare"], embedding=[-1.0, n / 100]) for n in range(5)]
    near = [record(f"near{n}", embedding=[1.0, n / 1000]) for n in range(300)]
    memory.save(far + near)
    assert len(memory.search([1.0, 0.0], categories=["rare"], limit=5)) == 5


def test_criteria_of_a_deletion_hold_together(memory: MemalchemyMemoryStorage) -> None:
    def fill() -> None:
        memory.reset()
        memory.save(
            [
                record("old", scope="/a", categories=["x"], metadata={"k": 1}),
                record("new", scope="/a", created_at=START + timedelta(days=2)),
                record("root", scope="/"),
                record("aware", scope="/b", created_at=START.replace(tzinfo=UTC)),
            ]
        )

    day = START + timedelta(days=1)
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"old", "new", "root", "aware"}),
        ({"scope_prefix": "/"}, {"old", "new", "root", "aware"}),
        ({"scope_prefix": "/a"}, {"old", "new"}),
        ({"older_than": day}, {"old", "root", "aware"}),
        ({"older_than": day.replace(tzinfo=UTC)}, {"old", "root", "aware"}),
        ({"scope_prefix": "/a", "older_than": day}, {"old"}),
        ({"categories": ["x", "y"]}, {"old"}),
        ({"metadata_filter": {"k": 1}}, {"old"}),
        ({"metadata_filter": {"k": None}}, {"new", "root", "aware"}),
        ({"record_ids": ["old", "root", "none"]}, {"old", "root"}),
        ({"record_ids": ["old", "root"], "scope_prefix": "/a"}, {"old"}),
        ({"record_ids": ["new"], "older_than": day}, set()),
    ]
    for criteria, gone in cases:
        fill()
        assert memory.delete(**criteria) == len(gone), criteria
        left = {one.id for one in memory.list_records()}
        assert left == {"old", "new", "root", "aware"} - gone, criteria


def test_saving_an_id_again_replaces_it_wherever_it_was(memory: MemalchemyMemoryStorage) -> None:
    memory.save([record("one", scope="/a"), record("one", scope="/b", content="second")])
    assert [(one.scope, one.content) for one in memory.list_records()] == [("/b", "second")]
    memory.update(record("one", scope="/c", embedding=[0.0, 1.0]))
    memory.update(record("two"))
    assert memory.count() == 2
    assert memory.list_scopes("/") == ["/c"]
    moved = memory.get_record("one")
    assert moved is not None
    assert moved.embedding == [0.0, 1.0]


def test_an_update_without_a_vector_keeps_it_while_the_content_is_the_same(
    memory: MemalchemyMemoryStorage,
) -> None:
    memory.save([record("one")])
    ((listed, _),) = memory.search([1.0, 0.5])
    assert listed.embedding is None
    memory.update(listed.model_copy(update={"importance": 0.9}))
    kept = memory.get_record("one")
    assert kept is not None
    assert (kept.importance, kept.embedding) == (0.9, [1.0, 0.5])

    memory.update(listed.model_copy(update={"content": "of something else"}))
    assert memory.search([1.0, 0.5]) == []
    changed = memory.get_record("one")
    assert changed is not None
    assert changed.embedding is None


def test_touching_changes_the_time_of_access_alone(memory: MemalchemyMemoryStorage) -> None:
    memory.save([record("one", last_accessed=START), record("two", last_accessed=START)])
    memory.touch_records(["one", "none"])
    memory.touch_records([])

    one, two = memory.get_record("one"), memory.get_record("two")
    assert one is not None
    assert two is not None
    assert two.last_accessed == START
    assert abs(one.last_accessed - datetime.now(UTC).replace(tzinfo=None)) < timedelta(minutes=5)
    assert one.model_copy(update={"last_accessed": START}) == record("one", last_accessed=START)
    assert len(memory.search([1.0, 0.5])) == 2


def test_values_of_metadata_come_back_and_a_refused_record_changes_nothing(
    memory: MemalchemyMemoryStorage,
) -> None:
    metadata = {"at": START, "tags": {"x"}, "deep": {"a/b": [1]}, "n": None}
    memory.save([record("one", metadata=metadata, source="u", private=True)])
    found = memory.get_record("one")
    assert found is not None
    assert (found.metadata, found.source, found.private) == (metadata, "u", True)
    memory.save([record("two", metadata={"deep": {1: "one"}})])
    numbered = memory.get_record("two")
    assert numbered is not None
    assert numbered.metadata == {"deep": {"1": "one"}}

    for bad in ([record("two"), record("one", metadata={"x": object()})],):
        with pytest.raises(NotSerialisable):
            memory.save(bad)
    with pytest.raises(ValueError, match="NaN"):
        memory.save([record("two"), record("one", embedding=[math.nan, 1.0])])
    assert memory.get_record("one") == found
    assert memory.get_record("two") == numbered


def test_a_memory_without_a_vector_is_listed_and_not_found(memory: MemalchemyMemoryStorage) -> None:
    memory.save([record("none", embedding=None), record("zero", embedding=[0.0, 0.0])])
    memory.save([record("empty", embedding=[]), record("one")])
    assert memory.count() == 4
    assert [one.id for one, _ in memory.search([1.0, 0.5])] == ["one"]
    assert memory.search([0.0, 0.0]) == []
    assert memory.search([]) == []
    assert memory.search([1.0, 0.5], limit=0) == []


def test_a_change_of_embedder_makes_no_memory_unusable(
    memory: MemalchemyMemoryStorage, caplog: pytest.LogCaptureFixture
) -> None:
    old = [record(f"old{n}", created_at=START + timedelta(hours=n)) for n in range(230)]
    memory.save(old)

    def embedder(texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text)), 0.25] for text in texts]

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert memory.search(embedder(["x"])[0]) == []
    assert len(caplog.records) == 1
    assert "2 dimensions and the embedder makes 3" in caplog.text
    memory.save([record("new", embedding=embedder(["content of new"])[0], created_at=START)])
    assert [one.id for one, _ in memory.search(embedder(["x"])[0])] == ["new"]
    assert len(memory.search([1.0, 0.5], limit=500)) == 230
    assert memory.count() == 231

    assert memory.reembed(embedder) == 230

    assert len(memory.search(embedder(["x"])[0], limit=500)) == 231
    assert memory.search([1.0, 0.5]) == []
    assert memory.reembed(embedder) == 0
    assert [one.id for one in memory.list_records(limit=2)] == ["old229", "old228"]
    found = memory.get_record("old7")
    assert found is not None
    assert found.embedding == embedder([found.content])[0]
    assert found.model_copy(update={"embedding": [1.0, 0.5]}) == old[7]


def test_what_is_written_while_vectors_are_made_is_not_overwritten(
    memory: MemalchemyMemoryStorage,
) -> None:
    memory.save([record("one"), record("two")])
    calls = []

    def embedder(texts: list[str]) -> list[list[float]]:
        if not calls:
            calls.append(memory.update(record("one", content="newer")))
        return [[1.0, 2.0, 3.0] for _ in texts]

    assert memory.reembed(embedder) == 1
    newer = memory.get_record("one")
    assert newer is not None
    assert newer.content == "newer"
    memory.reembed(embedder)
    assert len(memory.search([1.0, 2.0, 3.0])) == 2


def test_vectors_of_the_default_embedder_fit(memory: MemalchemyMemoryStorage) -> None:
    for size in (1536, 3072):
        memory.save([record(f"r{size}", embedding=[1.0] + [0.01] * (size - 1))])
    for size in (1536, 3072):
        ((found, score),) = memory.search([1.0] + [0.01] * (size - 1))
        assert (found.id, round(score, 3)) == (f"r{size}", 1.0)
    with pytest.raises(ValueError, match="16,000"):
        memory.save([record("long", embedding=[1.0] * 16_001)])


async def test_words_are_found_and_memories_are_items(db: Database) -> None:
    memory = MemalchemyMemoryStorage(db)
    await memory.asave([record("one", content="The kettle is copper", scope="/kitchen")])
    (hit,) = await Store(db).search(("crewai",), "copper kettle", prefix=True)
    assert (hit.namespace, hit.key) == (("crewai", "memory"), "one")
    assert hit.created_at == START.replace(tzinfo=UTC)
    assert await memory.adelete(record_ids=["one"]) == 1
    assert await memory.asearch([1.0, 0.5]) == []


def test_many_writers_lose_no_memory(shared_url: str, lasting: None) -> None:
    name = (uuid.uuid4().hex,)
    several = [MemalchemyMemoryStorage(shared_url, namespace=name) for _ in range(3)]

    def work(number: int) -> None:
        memory = several[number % 3]
        for turn in range(6):
            memory.save([record(f"{number}-{turn}"), record("shared", content=str(number))])
            memory.update(record(f"{number}-{turn}", importance=1.0, embedding=None))
            memory.touch_records([f"{number}-{turn}", "shared"])
            if turn % 2:
                assert memory.delete(record_ids=[f"{number}-{turn}"]) == 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    left = {one.id: one for one in several[0].list_records()}
    assert left.keys() == {f"{n}-{turn}" for n in range(6) for turn in (0, 2, 4)} | {"shared"}
    assert all(one.importance == 1.0 for id_, one in left.items() if id_ != "shared")
    assert len(several[1].search([1.0, 0.5], limit=100)) == 19
    for one in several:
        one.close()


# --- With CrewAI's Memory -------------------------------------------------------------------------


def embed(texts: list[str]) -> list[list[float]]:
    words = ("copper", "tea", "train", "night")
    return [[0.1 + text.lower().count(word) for word in words] for text in texts]


class NoModel:
    """No language model is asked where scope, categories and importance are given."""


def test_memory_remembers_recalls_updates_and_forgets_after_a_restart(
    shared_url: str, lasting: None
) -> None:
    namespace = (uuid.uuid4().hex,)

    def memory() -> Memory:
        return Memory(llm=NoModel(), embedder=embed, root_scope="/crew")

    known = {"scope": "/facts", "categories": ["fact"], "importance": 0.5}
    with install(shared_url, namespace=namespace):
        first = memory()
        first.remember("The kettle is copper", **known)
        first.remember("The night train leaves at ten", **known)
        first.remember_many(["Tea at four", "Copper for tea"], **known)
        first.close()

    with install(shared_url, namespace=namespace) as storage:
        again = memory()
        best = again.recall("When is the night train?", depth="shallow", limit=1)[0].record
        assert best.content == "The night train leaves at ten"
        assert best.scope == "/crew/facts"
        again.update(best.id, content="The night train leaves at nine")
        assert again.recall("night train", depth="shallow")[0].record.content.endswith("nine")
        assert storage.memory().count("/crew") == 4
        assert again.forget(categories=["fact"]) == 4
        assert again.recall("tea", depth="shallow") == []


def test_install_serves_each_spec_and_the_last_installation_holds(db: Database) -> None:
    with install(db, namespace=("app",)) as storage:
        default = Memory(llm=NoModel(), embedder=embed)._storage
        path = Memory(storage="some/path", llm=NoModel(), embedder=embed)._storage
        assert isinstance(default, MemalchemyMemoryStorage)
        assert isinstance(path, MemalchemyMemoryStorage)
        assert (default.place, path.place) == (
            ("crewai", "app", "memory"),
            ("crewai", "app", "some/path", "memory"),
        )
        second, third = install(db), install(db)
        assert default_flow_persistence() is third.flows
        second.close()
        assert default_flow_persistence() is third.flows
        third.close()
        assert default_flow_persistence() is storage.flows
    storage.close()
    assert isinstance(default_flow_persistence(), SQLiteFlowPersistence)
    assert resolve_memory_storage("lancedb") is None
