"""`MemalchemyCheckpointer`: locus' ``BaseCheckpointer``, and additions to it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from locus.core.messages import Message, ToolCall
from locus.core.protocols import CheckpointerProtocol
from locus.core.state import AgentState, ReasoningStep, ToolExecution
from locus.memory.checkpointer import BaseCheckpointer
from locus.memory.registry import get_checkpointer

from lifetimes import MOMENT
from memalchemy import (
    Checkpointer,
    Conflict,
    Database,
    NotSerialisable,
    Retention,
    ThreadLog,
)
from memalchemy.integrations.locus import MemalchemyCheckpointer, register

Reopen = Callable[[], Database]


def said(*words: str) -> AgentState:
    return AgentState(messages=tuple(Message.user(one) for one in words))


async def test_a_state_is_restored_equal_and_as_locus_own_objects(db: Database) -> None:
    call = ToolCall(name="weather", arguments={"city": "Lisbon", "deep": [1, {"a": None}]})
    state = AgentState(
        agent_id="guide",
        messages=(
            Message.system("Be brief."),
            Message(role="user", content="Weather?", metadata={"locus_at": "2026-01-01"}),
            Message.assistant(content=None, tool_calls=[call]),
            Message(role="tool", content="18 °C \x00", tool_call_id=call.id, name="weather"),
        ),
        tool_executions=(
            ToolExecution(tool_name="weather", tool_call_id=call.id, arguments={}, result="18"),
        ),
        reasoning_steps=(ReasoningStep(iteration=1, thought="Ask the tool."),),
        terminal_tools=frozenset({"done", "stop", "end"}),
        metadata={"graph_state": {"nested": {"list": [1, 2.5, True, None, "é"]}}},
        token_budget=10**12,
    )
    checkpointer = MemalchemyCheckpointer(db)
    checkpoint_id = await checkpointer.save(state=state, thread_id="t", metadata={"step": 1})
    loaded = await checkpointer.load(thread_id="t", checkpoint_id=checkpoint_id)

    assert loaded == state
    assert isinstance(loaded, AgentState)
    assert isinstance(loaded.messages[2].tool_calls[0], ToolCall)
    assert loaded.terminal_tools == {"done", "stop", "end"}


def test_it_implements_locus_interface() -> None:
    checkpointer = MemalchemyCheckpointer()

    assert isinstance(checkpointer, BaseCheckpointer)
    assert isinstance(checkpointer, CheckpointerProtocol)
    assert checkpointer.deletes_single_checkpoints is True
    assert all(asdict(checkpointer.capabilities).values())


async def test_absence_is_none_or_empty_and_never_an_error(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)

    assert await checkpointer.load("nobody") is None
    assert await checkpointer.load("nobody", "nothing") is None
    assert await checkpointer.list_checkpoints("nobody") == []
    assert await checkpointer.exists("nobody") is False
    assert await checkpointer.delete("nobody") is False
    assert await checkpointer.delete("nobody", "nothing") is False
    assert await checkpointer.get_metadata("nobody") is None
    assert await checkpointer.copy_thread("nobody", "somebody") is False
    assert await checkpointer.search("nothing") == []
    assert await checkpointer.list_threads() == []


async def test_checkpoints_are_listed_in_the_order_of_their_saves(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    ids = [await checkpointer.save(said(str(n)), "t") for n in range(12)]

    assert await checkpointer.list_checkpoints("t") == ids[:1:-1]
    assert await checkpointer.list_checkpoints(thread_id="t", limit=3) == ids[:-4:-1]
    assert await checkpointer.save(said("again"), "t", ids[4]) == ids[4]
    assert await checkpointer.list_checkpoints("t", limit=1) == [ids[4]]
    assert await checkpointer.load("t") == await checkpointer.load("t", ids[4])
    assert await checkpointer.delete("t", ids[4]) is True
    assert (await checkpointer.load("t")) == await checkpointer.load("t", ids[11])
    assert await checkpointer.exists("t", ids[4]) is False


async def test_metadata_queries_return_locus_keys(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    first = await checkpointer.save(said("a"), "one", metadata={"source": "run", "turn": 1})
    second = await checkpointer.save(said("b"), "two", metadata={"source": "run", "turn": 2})

    newest = await checkpointer.get_metadata("one")
    assert newest is not None
    assert (newest["checkpoint_id"], newest["metadata"]["turn"]) == (first, 1)
    assert datetime.fromisoformat(newest["created_at"]).utcoffset() == timedelta(0)
    assert newest["updated_at"] == newest["created_at"]
    found = await checkpointer.query_by_metadata("source", "run")
    assert [(one["thread_id"], one["checkpoint_id"]) for one in found] == [
        ("two", second),
        ("one", first),
    ]
    assert await checkpointer.query_by_metadata("turn", "1") == []
    assert len(await checkpointer.query_by_metadata("turn", 1)) == 1
    (listed,) = await checkpointer.list_with_metadata(limit=1)
    assert listed["thread_id"] == "two"
    assert "state" not in listed


async def test_invalid_metadata_is_refused_before_any_write(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    with pytest.raises(NotSerialisable, match="/when"):
        await checkpointer.save(said("a"), "t", metadata={"when": object()})

    assert await checkpointer.exists("t") is False


async def test_threads_are_found_by_words_and_by_glob(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    await checkpointer.save(said("Book a flight to Lisbon"), "user:1")
    await checkpointer.save(said("Water the plants"), "user:2")
    await checkpointer.save(said("Water the flowers"), "other")

    (hit,) = await checkpointer.search("lisbon flight")
    assert (hit["thread_id"], hit["score"]) == ("user:1", 1.0)
    assert "Lisbon" in hit["snippet"]
    assert await checkpointer.list_threads(pattern="user:*") == ["user:2", "user:1"]
    assert await checkpointer.list_threads(limit=1) == ["other"]


async def test_search_results_have_the_state_as_in_locus_sql_backends(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    state = said("Book a flight to Lisbon")
    await checkpointer.save(state, "t", metadata={"source": "run"})
    await checkpointer.save(said("Water the plants"), "other")

    (by_words,) = await checkpointer.search("lisbon")
    (by_metadata,) = await checkpointer.query_by_metadata("source", "run")
    (by_field,) = await checkpointer.search_data("run_id", state.run_id)
    for found in (by_words, by_metadata, by_field):
        assert found["thread_id"] == "t"
        assert AgentState.from_checkpoint(found["data"]) == state
        assert datetime.fromisoformat(found["updated_at"])
    assert await checkpointer.list_threads(1, offset=1) == ["t"]


async def test_a_search_finds_messages_and_no_settings(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    await checkpointer.save(said("Please read my file"), "t")
    await checkpointer.save(said("Hello"), "other")
    graph = AgentState(metadata={"graph_state": {"plan": "Book the ferry"}})
    await checkpointer.save(graph, "graph")

    # Names of tools that only read, such as read_file, are in every state.
    assert [hit["thread_id"] for hit in await checkpointer.search("read file")] == ["t"]
    assert [hit["thread_id"] for hit in await checkpointer.search("ferry")] == ["graph"]


async def test_a_copy_has_the_same_ids_in_the_same_order_and_never_overwrites(
    db: Database,
) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    ids = [await checkpointer.save(said(str(n)), "main") for n in range(3)]

    assert await checkpointer.copy_thread("main", "branch") is True
    assert await checkpointer.list_checkpoints("branch") == ids[::-1]
    assert await checkpointer.load("branch") == await checkpointer.load("main")
    with pytest.raises(Conflict):
        await checkpointer.copy_thread("main", "branch")


async def test_vacuum_deletes_only_old_threads(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    await checkpointer.save(said("a"), "t")

    assert await checkpointer.vacuum(older_than_days=1) == 0
    assert await checkpointer.vacuum(older_than_days=0) == 1
    assert await checkpointer.list_threads() == []


async def test_threads_expire_after_their_ttl(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db, ttl=timedelta(days=1))
    await checkpointer.save(said("a"), "long")
    await checkpointer.save(said("b"), "short", ttl=MOMENT)

    assert not await checkpointer.exists("short")
    assert await checkpointer.load("short") is None
    assert await checkpointer.load("long") is not None


async def test_retention_limits_the_checkpoints_of_a_thread(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db, retention=Retention(keep_last=2))
    ids = [await checkpointer.save(said(str(n)), "t") for n in range(5)]

    assert await checkpointer.list_checkpoints("t") == ids[:-3:-1]


async def test_threads_of_other_frameworks_with_the_same_id_are_separate(db: Database) -> None:
    theirs, log = Checkpointer(db), ThreadLog(db)
    ours, other = MemalchemyCheckpointer(db), MemalchemyCheckpointer(db, namespace=("crew",))
    await theirs.save({"n": 1}, "t", "c")
    await log.append("t", "an entry")
    await ours.save(said("ours"), "t", "c")
    await other.save(said("the crew's"), "t", "c")

    assert await ours.list_checkpoints("t") == await other.list_checkpoints("t") == ["c"]
    assert await ours.copy_thread("t", "copy") is True
    assert await theirs.exists("copy") is False
    assert await ours.delete("t") is True
    assert await ours.load("t") is None
    assert await other.load("t") is not None
    assert await theirs.load("t") == {"n": 1}
    assert await log.count("t") == 1
    # A cached base of the deleted thread is nobody's base.
    await ours.save(said("ours", "again"), "t")
    assert (await ours.load("t")) == await ours.load("t", (await ours.list_checkpoints("t"))[0])
    ours.clear()
    assert await ours.list_threads() == []
    assert await theirs.exists("t") is True


async def test_a_save_is_part_of_the_hosts_transaction(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    with pytest.raises(RuntimeError):  # noqa: PT012 - the block is what raises
        async with db.transaction() as tx:
            await checkpointer.save(said("a"), "t", connection=tx)
            assert await checkpointer.load("t", connection=tx) is not None
            raise RuntimeError("the host changed its mind")

    assert await checkpointer.load("t") is None


async def test_locus_methods_without_await_work_in_and_beside_a_loop(db: Database) -> None:
    checkpointer = MemalchemyCheckpointer(db)
    for n in range(3):
        await checkpointer.save(said(str(n)), "one")
    await checkpointer.save(said("x"), "two")

    assert checkpointer.get_thread_ids() == ["two", "one"]
    assert checkpointer.get_checkpoint_count() == 4
    assert await asyncio.to_thread(checkpointer.get_checkpoint_count, "one") == 3
    assert checkpointer.get_checkpoint_count("nobody") == 0
    checkpointer.clear()
    assert checkpointer.get_thread_ids() == []


def test_one_object_serves_several_loops_and_a_close_between_them_loses_nothing(
    shared_url: str, reopen: Reopen
) -> None:
    for checkpointer in (MemalchemyCheckpointer(reopen()), MemalchemyCheckpointer()):

        async def turn(n: int, checkpointer: MemalchemyCheckpointer = checkpointer) -> int:
            await checkpointer.save(said(str(n)), "loops")
            count = len(await checkpointer.list_checkpoints("loops"))
            await checkpointer.close()  # as run_sync does at the end of each turn
            return count

        assert [asyncio.run(turn(n)) for n in range(3)] == [1, 2, 3]


async def test_concurrent_saves_lose_nothing(db: Database, reopen: Reopen) -> None:
    second = reopen()
    both = [MemalchemyCheckpointer(db), MemalchemyCheckpointer(second)]
    saves = [both[n % 2].save(said(str(n)), "t", f"c{n}") for n in range(30)]
    await asyncio.gather(*saves)

    assert len(await both[0].list_checkpoints("t", limit=100)) == 30
    await second.close()


async def test_without_words_there_is_no_search_and_it_says_so(db: Database) -> None:
    silent = MemalchemyCheckpointer(db, index_text=False)
    await silent.save(said("apple"), "t")
    async with Database("sqlite://", keys=[Fernet.generate_key()]) as sealed:
        encrypted = MemalchemyCheckpointer(sealed)
        await encrypted.save(said("apple"), "t")
        for checkpointer in (silent, encrypted):
            assert checkpointer.capabilities.search is False
            with pytest.raises(NotImplementedError, match="does not support 'search'"):
                await checkpointer.search("apple")
            assert await checkpointer.load("t") is not None


ZERO = """
import asyncio, sys
from locus.core.messages import Message
from locus.core.state import AgentState
from memalchemy.integrations.locus import MemalchemyCheckpointer, MemalchemyStore

async def main():
    async with MemalchemyCheckpointer() as checkpointer, MemalchemyStore() as store:
        if sys.argv[1] == "write":
            await checkpointer.save(AgentState(messages=(Message.user("hello"),)), "t")
            await store.put(("users",), "k", {"v": 1})
        loaded = await checkpointer.load("t")
        print(loaded and loaded.messages[0].content, await store.get(("users",), "k"))

asyncio.run(main())
"""


def zero(tmp_path: Path, what: str, url: str | None) -> str:
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    environment |= {} if url is None else {"MEMALCHEMY_URL": url}
    done = subprocess.run(
        [sys.executable, "-c", ZERO, what],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_without_arguments_it_is_on_the_url_of_the_environment_or_in_memory(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"

    assert zero(tmp_path, "write", url) == zero(tmp_path, "read", url) == "hello {'v': 1}"
    assert zero(tmp_path, "write", None) == "hello {'v': 1}"
    assert zero(tmp_path, "read", None) == "None None"
    assert [path.name.split("-")[0] for path in tmp_path.iterdir() if path.suffix == ".db"] == [
        "agent.db"
    ]


async def test_two_databases_in_memory_share_nothing() -> None:
    one, two = MemalchemyCheckpointer(), MemalchemyCheckpointer()
    await one.save(said("a"), "t")

    assert await two.load("t") is None


async def test_a_database_in_memory_outlives_a_checkpointer_on_it() -> None:
    async with Database("sqlite://") as db:
        checkpointer = MemalchemyCheckpointer(db)
        await checkpointer.save(said("a"), "t")
        running = {t for t in threading.enumerate() if t.name == "memalchemy-sync"}
        assert checkpointer.get_thread_ids() == ["t"]
        running = {t for t in threading.enumerate() if t.name == "memalchemy-sync"} - running
        await checkpointer.close()
        del checkpointer
        gc.collect()
        for one in running:
            await asyncio.to_thread(one.join, 20)
        assert running
        assert not any(one.is_alive() for one in running)
        assert await MemalchemyCheckpointer(db).load("t") is not None


async def test_locus_registry_finds_it(tmp_path: Path) -> None:
    register()
    checkpointer = get_checkpointer(f"memalchemy:sqlite:///{tmp_path}/agent.db", index_text=False)
    await checkpointer.save(said("a"), "t")

    assert isinstance(checkpointer, MemalchemyCheckpointer)
    assert (tmp_path / "agent.db").exists()
    assert get_checkpointer("memalchemy").capabilities.search is True
    await checkpointer.close()


HASHED = """
import asyncio, sys
from locus.core.state import AgentState
from memalchemy import Database
from memalchemy.integrations.locus import MemalchemyCheckpointer

async def main():
    state = AgentState(run_id="r", terminal_tools=frozenset(f"tool-{n}" for n in range(60)))
    times = {"started_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    state = AgentState.from_checkpoint(state.to_checkpoint() | times)
    async with Database(sys.argv[1]) as db:
        checkpointer = MemalchemyCheckpointer(db)
        await checkpointer.save(state, "t", sys.argv[2])
        assert await checkpointer.load("t") == state

asyncio.run(main())
"""


async def test_l13_a_set_is_stored_alike_by_every_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    for seed in ("1", "2"):
        subprocess.run(  # noqa: ASYNC221 - one after the other
            [sys.executable, "-c", HASHED, url, seed],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(path for path in sys.path if path)},
            check=True,
        )

    async with MemalchemyCheckpointer(url) as checkpointer:
        assert not await checkpointer.native.diff("t", "1", "2")
