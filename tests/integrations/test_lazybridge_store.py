"""`MemalchemyStore` for LazyBridge: the behaviour of its `Store`, and improvements on it."""

from __future__ import annotations

import inspect
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from benchmarks.calls import counting
from cryptography.fernet import Fernet
from lazybridge.store import Store as Theirs
from lazybridge.store.encryption import EncryptedStoreAdapter
from pydantic import BaseModel
from sqlalchemy import text

from memalchemy import Checkpointer, Database, MemalchemyError, NotSerialisable, Store, sync
from memalchemy.collections import ABSENT
from memalchemy.integrations.lazybridge import MemalchemyStore, _storable


@pytest.fixture
def store(db: Database) -> MemalchemyStore:
    return MemalchemyStore(db)


def test_every_method_of_lazybridges_store_is_overridden_with_the_same_arguments() -> None:
    for name, method in inspect.getmembers(Theirs, inspect.isfunction):
        if name.startswith("_") and not name.startswith("__"):
            continue
        assert getattr(MemalchemyStore, name) is not method, name
        if not name.startswith("_"):
            ours = inspect.signature(getattr(MemalchemyStore, name)).parameters
            assert list(ours) == list(inspect.signature(method).parameters), name
    assert isinstance(MemalchemyStore(), Theirs)


def test_it_is_opened_with_a_path_a_url_or_a_database(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    opened: list[Callable[[], MemalchemyStore]] = [
        lambda: MemalchemyStore(db=str(file)),
        lambda: MemalchemyStore(file),
        lambda: MemalchemyStore(f"sqlite:///{file}"),
        lambda: MemalchemyStore(Database(f"sqlite:///{file}")),
        lambda: MemalchemyStore(sync.Database(f"sqlite:///{file}")),
    ]
    MemalchemyStore(file)
    assert not file.exists(), "to make one does nothing yet"

    for count, make in enumerate(opened):
        with make() as store:
            store.write(f"k{count}", count)
            assert len(store) == count + 1
    with pytest.raises(TypeError, match="Database"):
        MemalchemyStore(42)


def test_without_arguments_each_is_a_memory_of_its_own() -> None:
    for other in (None, "", ":memory:"):
        one, two = MemalchemyStore(), MemalchemyStore(other)
        one.write("k", 1)
        two.write("k", 2)
        assert (one.read("k"), two.read("k")) == (1, 2)


def test_a_closed_store_refuses_every_call_and_leaves_a_given_database_open(
    db: Database, tmp_path: Path
) -> None:
    given = MemalchemyStore(db)
    given.write("k", 1)
    for store in (given, MemalchemyStore(), MemalchemyStore(tmp_path / "a.db")):
        store.close()
        store.close()
        for call in (
            lambda s=store: s.read("k"),
            lambda s=store: s.write("k", 1),
            lambda s=store: s.compare_and_swap("k", 1, 2),
            lambda s=store: s.read_memory("a"),
            lambda s=store: len(s),
        ):
            with pytest.raises(RuntimeError, match="Store is closed"):
                call()
    assert MemalchemyStore(db).read("k") == 1


class Colour(Enum):
    RED = "red"


class Model(BaseModel):
    when: datetime


@dataclass
class Point:
    x: Any


def test_values_are_those_of_json_and_more(store: MemalchemyStore) -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    written: Any = {
        2: (1, [2, (3,)]),
        None: Colour.RED,
        True: Point(Point(1)),
        "model": [Model(when=when)],
        "path": Path("a/b"),
        "when": when,
        "much": Decimal("1.10"),
        "bytes": b"\0\xff",
    }
    store.write("k", written)

    assert store.read("k") == {
        "2": [1, [2, [3]]],
        "null": "red",
        "true": {"x": {"x": 1}},
        "model": [{"when": "2026-01-02T00:00:00Z"}],
        "path": str(Path("a/b")),
        "when": when,
        "much": Decimal("1.10"),
        "bytes": b"\0\xff",
    }
    assert store.compare_and_swap("k", written, 1)


def test_an_object_that_cannot_be_stored_is_refused_and_nothing_is_written(
    store: MemalchemyStore,
) -> None:
    store.write("k", 1)
    for write in (
        lambda: store.write("k", {"deep": [object()]}),
        lambda: store.write("k", Point(object())),
        lambda: store.write("k", Point),
        lambda: store.compare_and_swap("k", 1, object()),
        lambda: store.write_memory("a", turns=[{"user": object()}]),
    ):
        with pytest.raises(NotSerialisable):
            write()

    assert store.read("k") == 1
    assert store.read_memory("a") is None


def test_a_swap_distinguishes_none_and_absent(
    store: MemalchemyStore,
) -> None:
    store.write("null", None)

    assert store.read("null", "default") is None
    assert store.compare_and_swap("null", ABSENT, 1) is False
    assert store.compare_and_swap("null", None, 1) is True
    assert store.compare_and_swap("new", None, 1) is True
    assert store.compare_and_swap("newer", ABSENT, 1) is True
    assert store.compare_and_swap("newer", None, 2) is False


def test_an_entry_says_when_it_was_written_and_by_whom(store: MemalchemyStore) -> None:
    before = datetime.now(UTC).timestamp()
    store.write("k", {"n": 1}, agent_id="plan-run:1")
    entry = store.read_entry("k")

    assert entry is not None
    assert (entry.key, entry.value, entry.agent_id) == ("k", {"n": 1}, "plan-run:1")
    assert before - 1 < entry.written_at < datetime.now(UTC).timestamp() + 1
    assert store.compare_and_swap("k", {"n": 1}, 2, agent_id="other")
    assert getattr(store.read_entry("k"), "agent_id", None) == "other"
    assert store.read_entry("nothing") is None


def test_keys_and_items_are_sorted_and_a_prefix_may_end_in_anything(
    store: MemalchemyStore,
) -> None:
    for key in ("b", "a:\ud7ff", "a:1", "B", "a%", "ä"):
        store.write(key, key)

    assert list(store) == store.keys() == sorted(("b", "a:\ud7ff", "a:1", "B", "a%", "ä"))
    assert store.items(prefix="a:") == [("a:1", "a:1"), ("a:\ud7ff", "a:\ud7ff")]
    assert store.items(prefix="a:\ud7ff") == [("a:\ud7ff", "a:\ud7ff")]
    assert [key in store for key in ("b", "c", 3, None)] == [True, False, False, False]
    assert store.to_text(["B", "none"]) == 'B: "B"'
    store.delete("none")
    store.clear()
    assert store.read_all() == {}


def test_memories_are_separate_from_keys_and_from_each_other(store: MemalchemyStore) -> None:
    store.write("k", 1)
    for agent, session in (("a", "1"), ("a", "2"), ("b", "1")):
        store.write_memory(agent, turns=[{"user": agent + session}], session_key=session)
    store.clear()
    store.delete_memory("a", session_key="1")
    store.delete_memory("nobody")

    assert store.keys() == []
    assert store.read_memory("a", session_key="1") is None
    assert (store.read_memory("a", session_key="2") or {})["turns"] == [{"user": "a2"}]
    assert (store.read_memory("b", session_key="1") or {})["turns"] == [{"user": "b1"}]
    store.write_memory("a", turns=[{"user": (1, {2: 3})}], summary="anew", session_key="1")
    anew = store.read_memory("a", session_key="1") or {}
    assert (anew["turns"], anew["summary"]) == ([{"user": [1, {"2": 3}]}], "anew")
    assert isinstance(anew["updated_at"], float)


async def test_a_cleared_memory_leaves_nothing_in_the_tables(db: Database) -> None:
    store = MemalchemyStore(db)
    for length in range(1, 61):
        store.write_memory("a", turns=[{"user": f"a secret {n} " * 20} for n in range(length)])
    store.write_memory("a", turns=[])

    def payloads(connection: Any) -> int:
        query = text("SELECT count(*) FROM deltas WHERE tenant = :tenant")
        return int(connection.execute(query, {"tenant": db.tenant}).scalar())

    assert await db.run_sync(payloads) == 1
    assert (store.read_memory("a") or {})["turns"] == []


async def test_a_thread_of_the_same_id_and_another_namespace_are_not_touched(db: Database) -> None:
    one, two = MemalchemyStore(db), MemalchemyStore(db, namespace=("other",))
    other = Checkpointer(db)
    await other.save({"of": "another framework"}, "default")
    one.write("k", 1)
    one.write_memory("a", turns=[{"user": "mine"}])

    assert two.keys() == []
    assert two.read_memory("a") is None
    one.delete_memory("a")
    assert await other.load("default") == {"of": "another framework"}


async def test_words_are_searchable_and_keys_and_memories_can_be_awaited(db: Database) -> None:
    store = MemalchemyStore(db)
    store.write("note", {"draft": "the quick brown fox"})
    store.write_memory("a", turns=[{"user": "where is Rome?", "assistant": "in Italy"}])

    (hit,) = await Store(db).search(store.kv.namespace, query="fox")
    assert hit.key == "note"
    (found,) = await store.memories("a").search("Italy")
    assert found["thread_id"] == "default"
    assert await store.kv.read("note") == {"draft": "the quick brown fox"}
    assert (await store.memories("a").load("default"))["summary"] == ""


async def test_a_database_with_keys_encrypts_values_and_conversations(database_url: str) -> None:
    async with Database(database_url, migrate="off", keys=[Fernet.generate_key()]) as db:
        await db.migrate()
        store = MemalchemyStore(db)
        store.write("k", {"pin": "private"})
        store.write_memory("a", turns=[{"user": "private"}], summary="private")

        def stored(connection: Any) -> bytes:
            query = "SELECT payload FROM deltas UNION ALL SELECT value FROM store_items"
            return b"".join(bytes(row[0]) for row in connection.execute(text(query)))

        assert b"private" not in await db.run_sync(stored)
        assert store.compare_and_swap("k", {"pin": "private"}, {"pin": "new"})
        assert (store.read_memory("a") or {})["summary"] == "private"


def test_lazybridges_encrypting_adapter_works_on_it(store: MemalchemyStore) -> None:
    sealed = EncryptedStoreAdapter(store, key=Fernet.generate_key())
    sealed.write("k", {"n": 1})

    assert "lb-enc-v1" in store.read("k")
    assert sealed.compare_and_swap("k", {"n": 1}, {"n": 2})
    assert sealed.read_all() == {"k": {"n": 2}}


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "EncryptedStoreAdapter"])
def test_threads_on_one_store_that_compare_and_swap_lose_no_count(
    store: MemalchemyStore, is_encrypted: bool
) -> None:
    counted: Any = store
    if is_encrypted:
        counted = EncryptedStoreAdapter(store, key=Fernet.generate_key())

    def count(_: int) -> None:
        while not counted.compare_and_swap("n", seen := counted.read("n"), (seen or 0) + 1):
            pass

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(count, range(24)))
    assert counted.read("n") == 24


COUNTING = """
import json, sys
from memalchemy import Database
from memalchemy.integrations.lazybridge import MemalchemyStore, _storable

url, tenant = json.loads(sys.argv[1])
with MemalchemyStore(Database(url, tenant=tenant)) as store:
    for _ in range(10):
        while not store.compare_and_swap("n", seen := store.read("n"), (seen or 0) + 1):
            pass
"""


@pytest.mark.usefixtures("lasting")
def test_processes_that_compare_and_swap_lose_no_count(db: Database, shared_url: str) -> None:
    command = [sys.executable, "-c", COUNTING, json.dumps([shared_url, db.tenant])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [subprocess.Popen(command, env=environment) for _ in range(3)]

    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert MemalchemyStore(db).read("n") == 30


WRITES: tuple[Callable[[MemalchemyStore], object], ...] = (
    lambda store: store.write("k2", "v2"),
    lambda store: store.delete("seed"),
    lambda store: store.clear(),
    lambda store: store.compare_and_swap("seed", "value", "new"),
    lambda store: store.write_memory("a", turns=[{"user": "u"}]),
    lambda store: store.delete_memory("seed"),
)


@pytest.mark.parametrize("write", WRITES)
def test_after_a_write_that_met_a_lock_it_sees_what_others_write(
    tmp_path: Path, write: Callable[[MemalchemyStore], object]
) -> None:
    """The scenario of LazyBridge's test_store_write_recovery.py."""
    file = tmp_path / "agent.db"
    with sync.Database(f"sqlite:///{file}", statement_timeout=0.05) as db:
        store = MemalchemyStore(db)
        store.write("seed", "value")
        store.write_memory("seed", turns=[{"user": "u"}])
        blocker = sqlite3.connect(file)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(MemalchemyError):
            write(store)
        blocker.rollback()
        blocker.close()
        with MemalchemyStore(file) as other:
            other.write("k3", "v3")

        assert store.read("k3") == "v3"
        assert store.read("seed") == "value"
        write(store)


async def test_it_may_be_called_in_an_event_loop_and_in_any_thread(store: MemalchemyStore) -> None:
    store.write("k", 1)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(store.read("k")))
    thread.start()
    thread.join()

    assert found == [1]


def test_a_memory_is_found_by_the_words_of_every_turn_that_it_holds(tmp_path: Path) -> None:
    with MemalchemyStore(tmp_path / "a.db") as store:
        turns: list[dict[str, Any]] = []
        searching = Checkpointer(store.db)

        def threads(word: str) -> set[str]:
            hits = store.wait(searching.search(word, below=True))
            return {hit["thread_id"] for hit in hits}

        for n in range(50):
            turns.append({"role": "user", "content": f"word{n}x"})
            store.write_memory("agent", turns=turns, session_key="s")
            assert all(threads(f"word{at}x") == {"s"} for at in (0, n // 2, n))
        assert len(store.wait(store.memories("agent").list_checkpoints("s"))) <= 16

        store.write_memory("agent", turns=[], session_key="s")
        assert len(store.wait(store.memories("agent").list_checkpoints("s"))) == 1
        assert threads("word49x") == threads("word0x") == set()


def test_a_memory_is_converted_with_few_calls_for_each_turn(store: MemalchemyStore) -> None:
    calls: list[int] = []
    for number in (100, 300):
        turns = [{"user": f"u{n}", "assistant": "a", "token_estimate": n} for n in range(number)]
        with counting() as found:
            # The conversion is called where the coroutine runs; its calls are those of one file.
            _storable({"turns": turns, "summary": "", "updated_at": 1.5})
        calls.append(sum(found.values()))

    few, many = calls
    assert many - few <= 2 * 200
