"""`MemalchemyStorage` behaves as Strands' `InMemoryStorage` does, and stores differences."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import strands_scripted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from strands import Agent
from strands.memory import MemoryManager
from strands.session.snapshot_session_manager import SnapshotSessionManager
from strands.storage import InMemoryStorage
from strands.storage.storage import Storage
from strands.types.exceptions import StorageError
from strands.types.session import Session, SessionAgent, SessionType
from strands.vended_memory_stores.file_memory_store import FileMemoryStore
from strands_scripted import KEY, Scripted

from drawn_examples import examples
from memalchemy import Database
from memalchemy.integrations.strands import MemalchemySessionRepository, MemalchemyStorage
from memalchemy.log import DELTAS
from waiting import first_lines

NAMES = ("a", "b", "B", "ä", "a b", "snapshots", "snapshot_latest.json")
KEYS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join) | st.sampled_from(
    [
        "s/snapshots/snapshot_latest.json",
        "s/snapshots/immutable_history/snapshot_1.json",
        "s/snapshots/immutable_history/snapshot_2.json",
        "s/snapshots/snapshots/snapshot_latest.json",
        "s*/snapshots/snapshot_latest.json",
        "/s//x/",
    ]
)
PREFIXES = st.builds(lambda key, end: key[:end], KEYS, st.integers(0, 60))
STEPS = st.one_of(
    st.tuples(st.just("write"), KEYS, st.binary(max_size=20) | st.text(max_size=9).map(str.encode)),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("read"), KEYS),
    st.tuples(
        st.just("list"), st.tuples(KEYS, st.integers(0, 60)).map(lambda one: one[0][: one[1]])
    ),
)


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck), deadline=None)
@given(steps=st.lists(STEPS, max_size=25))
async def test_every_method_does_what_the_storage_in_memory_does(
    steps: list[Any], db: Database
) -> None:
    ours, theirs = MemalchemyStorage(db, namespace=(uuid.uuid4().hex,)), InMemoryStorage()
    for method, *arguments in steps:
        found = [await getattr(one, method)(*arguments) for one in (ours, theirs)]
        assert found[0] == found[1], (method, arguments)
    assert await ours.list("") == await theirs.list("")
    for key in await theirs.list(""):
        assert await ours.read(key) == await theirs.read(key)


@pytest.mark.parametrize("key", ["", "/", "a/../b", "..", "a\\b"])
async def test_keys_that_strands_refuses_are_refused(db: Database, key: str) -> None:
    storage = MemalchemyStorage(db)
    for call in (storage.read(key), storage.delete(key), storage.write(key, b"")):
        with pytest.raises(StorageError):
            await call


async def test_what_cannot_be_stored_is_strands_error_and_changes_nothing(db: Database) -> None:
    storage = MemalchemyStorage(db)
    with pytest.raises(StorageError, match="255"):
        await storage.write("a/" + "x" * 256, b"1")
    with pytest.raises(StorageError, match="namespace"):
        await storage.write("/".join(["x" * 100] * 6), b"1")
    with pytest.raises(StorageError, match="bytes, not int"):
        await storage.write("a", 7)  # type: ignore[arg-type]
    assert await storage.list("") == []


async def test_a_database_that_cannot_be_reached_is_strands_error() -> None:
    storage = MemalchemyStorage("postgresql://me:secret@localhost:1/db")
    with pytest.raises(StorageError) as raised:
        await storage.read("a")
    assert "secret" not in str(raised.value)


async def test_values_of_many_megabytes_come_back_as_they_were(db: Database) -> None:
    storage, large = MemalchemyStorage(db), os.urandom(1_000_000) * 12
    for key in ("blob", KEY):
        await storage.write(key, large)
        assert await storage.read(key) == large


async def stored_bytes(db: Database) -> int:
    """Return the size of all payloads of logs."""
    size = select(func.sum(func.length(DELTAS.c.payload))).where(DELTAS.c.tenant == db.tenant)
    return int(await db.run_sync(lambda connection: connection.scalar(size)) or 0)


async def test_a_snapshot_that_is_written_again_costs_the_difference(
    reopen: Callable[[], Database], db: Database
) -> None:
    storage = MemalchemyStorage(db)
    messages: list[Any] = []
    for number in range(200):
        messages.append({"role": "user", "content": [{"text": f"{uuid.uuid4()} {number}"}]})
        data = json.dumps({"data": {"messages": messages}, "created_at": str(number)}).encode()
        await storage.write(KEY, data)
    assert await stored_bytes(db) < len(data), "200 snapshots take less than the last one alone"
    async with reopen() as other:
        assert await MemalchemyStorage(other).read(KEY) == data


async def test_the_last_snapshot_is_deleted_with_what_earlier_ones_left(db: Database) -> None:
    storage = MemalchemyStorage(db)
    history = KEY.replace("snapshot_latest", "immutable_history/snapshot_1")
    for number in range(9):
        await storage.write(KEY, b"x" * 1000 + str(number).encode())
        await storage.write(history, b"x" * 1000 + str(number).encode())
    await storage.delete(KEY)
    assert await storage.read(history) == b"x" * 1000 + b"8"
    await storage.delete(history)
    await storage.delete(history)
    assert await stored_bytes(db) == 0
    await storage.write(KEY, b"again")
    assert await storage.list("") == [KEY]


async def test_concurrent_writes_leave_one_of_them_whole(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other:
        storages = [MemalchemyStorage(db), MemalchemyStorage(other)]
        written = [bytes([65 + number]) * 5_000 for number in range(20)]
        for key in ("plain", KEY):
            await asyncio.gather(
                *(storages[at % 2].write(key, data) for at, data in enumerate(written))
            )
            assert await storages[0].read(key) == await storages[1].read(key)
            assert await storages[0].read(key) in written


async def test_search_finds_words_and_file_names_below_a_namespace(db: Database) -> None:
    storage = MemalchemyStorage(db)
    view = storage.namespace("memory/one")
    await view.write("travel.md", b"Ada likes trains.")
    await view.write("food.md", "Ada isst gern Äpfel.".encode())
    await storage.write("memory/two/other.md", b"Trains are late.")
    await storage.write("memory/one/blob", b"\xff trains")
    await storage.write(KEY, b"trains")

    assert [hit.key for hit in await view.search("trains")] == ["travel.md"]
    assert [hit.data for hit in await view.search("apfel")] == ["Ada isst gern Äpfel.".encode()]
    assert [hit.key for hit in await view.search("food")] == ["food.md"]
    found = {hit.key: hit.score for hit in await storage.search("trains")}
    assert found.keys() == {"memory/one/travel.md", "memory/two/other.md"}
    assert all(0 < score <= 1 for score in found.values())
    assert await view.search("") == []
    assert isinstance(storage, Storage)


async def test_a_directory_of_one_storage_is_no_namespace_of_another(db: Database) -> None:
    outer, inner = MemalchemyStorage(db), MemalchemyStorage(db, namespace=("a",))
    await outer.write("a/k", b"1")
    await inner.write("k", b"2")

    assert await outer.list() == ["a/k"]
    assert (await outer.read("a/k"), await inner.read("k")) == (b"1", b"2")
    await outer.delete("a/k")
    assert await inner.list() == ["k"]


async def test_closing_a_view_leaves_the_storage_open() -> None:
    storage = MemalchemyStorage()
    async with storage.namespace("a") as view:
        await view.write("k", b"1")
    assert await storage.read("a/k") == b"1"
    await storage.aclose()


async def test_files_of_memories_are_found_by_strands_own_store(db: Database) -> None:
    memories = FileMemoryStore(name="notes", storage=MemalchemyStorage(db))
    await memories.add("# Travel\nAda likes trains")
    await memories.add("# Travel\nAda hates planes")
    (found,) = await MemoryManager(stores=[memories]).search("planes")
    assert found.content == "# Travel\nAda likes trains\nAda hates planes"


def test_an_agent_goes_on_after_a_restart(shared_url: str, database: str, lasting: None) -> None:
    tenant = uuid.uuid4().hex

    def run(question: str, answer: str) -> Scripted:
        model = Scripted(answer)
        storage = MemalchemyStorage(Database(shared_url, tenant=tenant))
        manager = SnapshotSessionManager("s", storage=storage)
        agent = Agent(model=model, agent_id="a", session_manager=manager, callback_handler=None)
        agent(question)
        storage.wait(storage.db.close())
        return model

    run("I am Ada.", "Hello Ada.")
    assert run("Who am I?", "Ada.").heard == [["I am Ada.", "Hello Ada.", "Who am I?"]]


def test_calls_without_await_go_to_the_thread_in_which_connections_stay_open(
    db: Database,
) -> None:
    threads: list[str] = []

    class Observed(MemalchemyStorage):
        async def _write(self, *given: Any) -> None:
            threads.append(threading.current_thread().name)
            await super()._write(*given)

    manager = SnapshotSessionManager("s", storage=Observed(db))
    agent = Agent(
        model=Scripted("one", "two"), agent_id="a", session_manager=manager, callback_handler=None
    )
    agent("first")
    assert set(threads) == {"memalchemy-sync"}
    threads.clear()

    async def awaited() -> None:
        await agent.invoke_async("second")
        await db.close()

    asyncio.run(awaited())
    assert set(threads) == {threading.current_thread().name}


async def test_a_killed_process_loses_no_acknowledged_write(
    shared_url: str, db: Database, lasting: None
) -> None:
    sessions = MemalchemySessionRepository(db)
    await sessions.acreate_session(Session("s", SessionType.AGENT))
    await sessions.acreate_agent("s", SessionAgent("a", {}, {}))
    for _ in range(3):
        process = subprocess.Popen(  # noqa: ASYNC220 - nobody else waits
            [sys.executable, strands_scripted.__file__, shared_url, db.tenant],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        lines = first_lines(process.stdout, 8)
        process.kill()
        rest, errors = process.communicate()
        assert len(lines) == 8, errors
        acknowledged = int([*lines, *rest.split()][-1])

        messages = await sessions.alist_messages("s", "a")
        texts = [one.to_message()["content"][0]["text"] for one in messages]
        assert texts == [str(number) for number in range(len(texts))]
        assert len(texts) > acknowledged
        data = await MemalchemyStorage(db).read(KEY)
        assert data is not None
        number, _, rest_of = data.partition(b":")
        assert int(number) >= acknowledged
        assert rest_of == b"x" * 10_000


@pytest.mark.parametrize("data", ["text", None, 5, ["a"], {"a": 1}])
async def test_what_is_no_bytes_is_strands_error_and_changes_nothing(
    db: Database, data: Any
) -> None:
    storage = MemalchemyStorage(db)
    for key in ("notes.md", "session/s/scopes/agent/a/snapshots/snapshot_latest.json"):
        await storage.write(key, b"before")
        with pytest.raises(StorageError, match="holds bytes"):
            await storage.write(key, data)
        assert await storage.read(key) == b"before"
