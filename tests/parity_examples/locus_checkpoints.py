"""Rows of locus' checkpointers, storage backends, registry and differences."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

import memalchemy
import memalchemy.sync
from httpserver import running
from memalchemy import (
    CapabilityMissing,
    Checkpointer,
    CheckpointInfo,
    Conflict,
    Database,
    DatabaseUnreachable,
    Diff,
    HTTPCheckpointer,
    RetainedCheckpointer,
    Retention,
    Store,
    get_checkpointer,
    list_checkpointers,
    register_checkpointer,
    tenant_scope,
)
from memalchemy.context import (
    message_time,
    oldest_message_time,
    stamp_messages,
    trim_messages,
)
from memalchemy.contracts import CheckpointerCapabilities, CheckpointerProtocol
from memalchemy.http import app
from memalchemy.http.blocking import HTTPCheckpointer as Blocking
from memalchemy.memory import without_memory_blocks
from memalchemy.state import AgentState, Message, ReasoningStep, ToolCall, ToolExecution
from parity_examples import answer, section, user

rows = section("locus/Checkpointers")
backends = section("locus/Storage backends, registry, differences")

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@rows("BaseCheckpointer", "BaseCheckpointer.save", "BaseCheckpointer.load")
async def saving(db: Database) -> None:
    checkpointer = Checkpointer(db)
    first = await checkpointer.save(state={"n": 1}, thread_id="t", metadata={"source": "run"})
    assert await checkpointer.save({"n": 2}, "t", "mine") == "mine"
    assert await checkpointer.load("t") == {"n": 2}
    assert await checkpointer.load("t", first) == {"n": 1}
    assert await checkpointer.load("nobody") is None
    assert await checkpointer.load("t", "nothing") is None
    assert await checkpointer.save({"n": 3}, "t", first, ttl=60, expected_parent="mine") == first
    assert await checkpointer.load("t") == {"n": 3}
    assert await checkpointer.save({"n": 4}, "t", parent_id="mine")


@rows("BaseCheckpointer.capabilities, CheckpointerCapabilities")
async def capabilities(db: Database) -> None:
    able = Checkpointer(db).capabilities
    assert able == CheckpointerCapabilities(*[True] * 8)
    assert CheckpointerCapabilities().search is False


@rows("CheckpointerProtocol")
async def protocol(db: Database) -> None:
    assert isinstance(Checkpointer(db), CheckpointerProtocol)
    assert not isinstance(Store(db), CheckpointerProtocol)


@rows("BaseCheckpointer.list_checkpoints")
async def listing(db: Database) -> None:
    checkpointer = Checkpointer(db)
    ids = [await checkpointer.save({"n": n}, "t") for n in range(12)]
    assert await checkpointer.list_checkpoints("t") == ids[:1:-1]
    assert await checkpointer.list_checkpoints("t", 2) == ids[:-3:-1]
    assert await checkpointer.list_checkpoints("nobody") == []


@rows("BaseCheckpointer.delete", "BaseCheckpointer.exists")
async def deleting(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for name in ("a", "b"):
        await checkpointer.save({"name": name}, "t", name)
    assert await checkpointer.exists("t", "b") is True
    assert await checkpointer.delete("t", "b") is True
    assert await checkpointer.delete("t", "b") is False
    assert await checkpointer.exists("t", "b") is False
    assert await checkpointer.load("t") == {"name": "a"}
    assert await checkpointer.delete("t") is True
    assert await checkpointer.exists("t") is False


@rows("BaseCheckpointer.deletes_single_checkpoints")
async def single_deletes(db: Database) -> None:
    assert Checkpointer(db).deletes_single_checkpoints is True


@rows("BaseCheckpointer.close")
async def closing(db: Database, tmp_path: Path) -> None:
    async with Checkpointer(db).db:
        checkpointer = Checkpointer(db)
        await checkpointer.save({"n": 1}, "t")
        await checkpointer.close()
        assert await checkpointer.load("t") == {"n": 1}
    own = get_checkpointer(f"sqlite:{tmp_path / 'own.db'}")
    await own.save({}, "t")
    await own.close()
    assert await own.load("t") == {}, "a later use opens it again"
    await own.close()


@rows("BaseCheckpointer.search")
async def search(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"messages": [user("a flight to Zürich")]}, "t", "c")
    (hit,) = await checkpointer.search("zurich", 5, data=True)
    assert (hit["thread_id"], hit["checkpoint_id"], hit["score"]) == ("t", "c", 1.0)
    assert hit["data"]["messages"][0]["content"] == "a flight to Zürich"
    assert await checkpointer.search("%") == []
    assert await checkpointer.search("light") == []


@rows("BaseCheckpointer.query_by_metadata", "BaseCheckpointer.get_metadata")
async def metadata(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"n": 1}, "t", "c", {"turn": 1, "done": True})
    (found,) = await checkpointer.query_by_metadata("turn", 1)
    assert (
        found == await checkpointer.get_metadata("t") == await checkpointer.get_metadata("t", "c")
    )
    assert found["metadata"] == {"turn": 1, "done": True}
    assert await checkpointer.query_by_metadata("turn", "1") == []
    assert await checkpointer.query_by_metadata("done", "True") == []
    (whole,) = await checkpointer.query_by_metadata("done", True, data=True)
    assert whole["data"] == {"n": 1}
    assert await checkpointer.get_metadata("nobody") is None


@rows("BaseCheckpointer.vacuum")
async def vacuum(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for n in range(3):
        await checkpointer.save({"n": n}, "t")
    assert await checkpointer.vacuum(30) == 0
    assert await checkpointer.vacuum(older_than_days=0, dry_run=True) == 3
    assert await checkpointer.exists("t")
    assert await checkpointer.vacuum(older_than_days=0) == 3
    assert not await checkpointer.exists("t")


@rows("BaseCheckpointer.copy_thread")
async def copying(db: Database) -> None:
    checkpointer = Checkpointer(db)
    ids = [await checkpointer.save({"n": n}, "t") for n in range(3)]
    assert await checkpointer.copy_thread("t", "copy") is True
    assert await checkpointer.list_checkpoints("copy") == ids[::-1]
    assert await checkpointer.load("copy") == {"n": 2}
    assert await checkpointer.copy_thread("nobody", "other") is False
    with pytest.raises(Conflict):
        await checkpointer.copy_thread("t", "copy")


@rows("BaseCheckpointer.list_threads", "MemoryCheckpointer.get_thread_ids")
async def threads(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for thread in ("a-1", "b-1", "a-2"):
        await checkpointer.save({}, thread)
    assert await checkpointer.list_threads() == ["a-2", "b-1", "a-1"]
    assert await checkpointer.list_threads(1, "a-*") == ["a-2"]
    assert await checkpointer.list_threads(pattern="A-*") == []


@rows("BaseCheckpointer.list_with_metadata")
async def newest(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for n in range(3):
        await checkpointer.save({"n": n}, f"t{n}", metadata={"n": n})
    found = await checkpointer.list_with_metadata(2)
    assert [(one["thread_id"], one["metadata"]) for one in found] == [
        ("t2", {"n": 2}),
        ("t1", {"n": 1}),
    ]
    assert "state" not in found[0]


@rows("BaseCheckpointer._require_capability")
async def missing_capability(tmp_path: Path) -> None:
    from memalchemy.codec.encryption import generate_key

    async with Database(f"sqlite:///{tmp_path}/sealed.db", keys=generate_key()) as sealed:
        checkpointer = Checkpointer(sealed)
        assert checkpointer.capabilities.search is False
        with pytest.raises(CapabilityMissing) as caught:
            await checkpointer.search("word")
    assert caught.value.capability == "search"
    assert isinstance(caught.value, NotImplementedError)


@rows("Agent.get_state", "Agent.resume, Agent.continue_turn")
async def resuming(db: Database) -> None:
    checkpointer = Checkpointer(db, state_type=AgentState)
    await checkpointer.save(AgentState(messages=[Message.user("hello")]), "t")
    state = await Checkpointer(db, state_type=AgentState).load("t")
    assert [message.text for message in state.messages] == ["hello"]
    assert await checkpointer.load("nobody") is None


@rows("Agent.get_state_history")
async def states(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for n in range(3):
        await checkpointer.save({"n": n}, "t")
    infos = [info async for info in checkpointer.history("t", limit=2)]
    assert [await checkpointer.load("t", one.checkpoint_id) for one in infos] == [
        {"n": 2},
        {"n": 1},
    ]


@rows("Agent.update_state")
async def updating(db: Database) -> None:
    checkpointer = Checkpointer(db)
    first = await checkpointer.save({"n": 1}, "t")
    await checkpointer.save({"n": 2}, "t")
    branch = await checkpointer.save({"n": 9}, "t", parent_id=first)
    info = await anext(checkpointer.history("t"))
    assert (info.checkpoint_id, info.parent_id) == (branch, first)


@rows("Agent.fork")
async def forking(db: Database) -> None:
    checkpointer = Checkpointer(db)
    ids = [await checkpointer.save({"n": n}, "t") for n in range(3)]
    made = await checkpointer.fork("t", ids[1])
    assert made.startswith("t")
    assert await checkpointer.load(made) == {"n": 1}
    assert await checkpointer.fork("t", new_thread_id="other") == "other"
    with pytest.raises(Conflict):
        await checkpointer.fork("t", new_thread_id="other")


@rows("AgentState, Message, ToolCall, ToolExecution, ReasoningStep")
async def models(db: Database) -> None:
    asked = ToolCall(name="look", arguments={"q": "x"})
    state = AgentState(
        messages=[Message.user("hi"), Message.assistant("", tool_calls=[asked])],
        tool_executions=[ToolExecution(tool_name="look", tool_call_id=asked.id, arguments={})],
        reasoning_steps=[ReasoningStep(iteration=1, thought="hm")],
    )
    await Checkpointer(db).save(state, "t")
    assert await Checkpointer(db, state_type=AgentState).load("t") == state


@rows("AgentState.to_checkpoint, AgentState.from_checkpoint")
async def to_checkpoint(db: Database) -> None:
    state = AgentState(terminal_tools={"b", "a", "c"}, metadata={"n": 1})
    given = state.to_checkpoint()
    assert AgentState.from_checkpoint(given) == state
    assert given["terminal_tools"] == ["a", "b", "c"]
    assert AgentState.from_checkpoint({}).messages == ()
    await Checkpointer(db).save(state, "t")
    assert await Checkpointer(db, state_type=AgentState).load("t") == state


@rows("the durable part of a state, without memory blocks")
async def durable(db: Database) -> None:
    manager = memalchemy.LLMMemoryManager(db)
    await manager.save([memalchemy.Memory("user", "drink", "likes tea")])
    shown = await manager.on_session_start({"messages": [user("hello")]})
    assert len(shown["messages"]) == 2
    assert without_memory_blocks(shown) == {"messages": [user("hello")]}


@rows("MemoryCheckpointer")
async def in_memory() -> None:
    checkpointer = get_checkpointer("memory")
    await checkpointer.save({"n": 1}, "t")
    assert await checkpointer.load("t") == {"n": 1}
    await checkpointer.close()
    assert await checkpointer.load("t") is None


@rows("MemoryCheckpointer.clear", "PgCheckpointer.forget_tenant")
async def forgetting(db: Database) -> None:
    ada, bob = db.for_tenant("ada"), db.for_tenant("bob")
    for one in (ada, bob):
        await Checkpointer(one).save({"n": 1}, "t")
        await Store(one).put(("a",), "k", 1)
    assert await Checkpointer(ada).forget(tenant="ada") >= 1
    assert await Checkpointer(ada).list_threads() == []
    assert await Store(ada).get(("a",), "k") is None
    assert await Checkpointer(bob).load("t") == {"n": 1}
    assert await Store(bob).get(("a",), "k") == 1


@rows("MemoryCheckpointer.get_checkpoint_count", "FileCheckpointer.get_disk_usage")
async def counting(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for n in range(3):
        await checkpointer.save({"n": n}, "t")
    stats = await checkpointer.get_storage_stats("t")
    assert stats["total_checkpoints"] == 3
    assert stats["compressed_size"] > 0
    assert (await checkpointer.get_storage_stats("nobody"))["total_checkpoints"] == 0


@rows("FileCheckpointer")
async def in_a_directory(tmp_path: Path) -> None:
    checkpointer = get_checkpointer(f"file:{tmp_path}/states")
    await checkpointer.save({"n": 1}, "t")
    await checkpointer.close()
    assert [file.suffix for file in (tmp_path / "states").iterdir()] == [".db"]
    again = get_checkpointer("file", base_dir=f"{tmp_path}/states")
    assert await again.load("t") == {"n": 1}
    await again.close()


@rows("FileCheckpointer: a readable file for each checkpoint")
async def readable_files(db: Database, tmp_path: Path) -> None:
    checkpointer = Checkpointer(db)
    for n in range(2):
        await checkpointer.save({"n": n}, "t")
    assert await checkpointer.export_files(tmp_path / "out") == 2
    files = sorted((tmp_path / "out").rglob("*.json"))
    assert sorted(json.loads(file.read_text())["state"]["n"] for file in files) == [0, 1]


@rows("FileCheckpointer(max_checkpoints_per_thread=)", "PgCheckpointer(keep_checkpoints=)")
async def keeping(db: Database) -> None:
    checkpointer = Checkpointer(db, retention=Retention(keep_last=2))
    ids = [await checkpointer.save({"n": n}, "t") for n in range(5)]
    assert await checkpointer.list_checkpoints("t") == ids[:2:-1]
    with pytest.raises(ValueError, match="keep_last"):
        Retention(keep_last=0)


@rows("FileCheckpointer.get_storage_path")
async def path(tmp_path: Path) -> None:
    assert f"{tmp_path}/agent.db" in repr(Database(f"sqlite:///{tmp_path}/agent.db"))


@rows("HTTPCheckpointer and its server")
async def over_http(db: Database) -> None:
    await Checkpointer(db).save({"n": 1}, "a/b", "c", {"k": "v"})
    with running(db) as url:
        async with HTTPCheckpointer(url, {}, None, 10.0) as client:
            assert await client.load("a/b") == {"n": 1}
            await client.save({"n": 2}, "a/b")
            (found,) = await client.query_by_metadata("k", "v", data=True)
            assert found["data"] == {"n": 1}
            assert await client.list_threads(1, offset=1) == []
        with Blocking(url) as waiting:
            assert waiting.list_threads() == ["a/b"]
    with pytest.raises(DatabaseUnreachable):
        await HTTPCheckpointer(url, timeout=1).load("a/b")
    transport = httpx.ASGITransport(app=app(db))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as mounted:
        assert (await mounted.get("/v1/threads")).json() == {"threads": ["a/b"]}


@rows("HTTPCheckpointer.health_check")
async def health(db: Database) -> None:
    with running(db) as url:
        async with HTTPCheckpointer(url) as client:
            assert await client.health_check() is True
    async with HTTPCheckpointer(url, timeout=1) as client:
        assert await client.health_check() is False


@rows("PgCheckpointer")
async def tenants(db: Database) -> None:
    await Checkpointer(db.for_tenant("ada")).save({"n": 1}, "t")
    assert await Checkpointer(db.for_tenant("bob")).load("t") is None
    assert Database("sqlite://", tenant="ada").tenant == "ada"
    assert Database("postgresql://localhost/x", schema="agents").schema == "agents"


@rows(
    "PgCheckpointer(message_retention=), .prepare",
    "RetainedCheckpointer",
    "PgCheckpointer.purge_messages",
)
async def retained(db: Database) -> None:
    now = [NOON]
    saves = RetainedCheckpointer(db, max_age=30 * DAY, clock=lambda: now[0])
    await saves.save({"messages": [user("old"), answer("so")]}, "t")
    now[0] += 31 * DAY
    state = await saves.load("t")
    state["messages"].append(user("new"))
    await saves.save(state, "t")
    assert [m["content"] for m in (await saves.load("t"))["messages"]] == ["new"]
    now[0] += 31 * DAY
    assert await saves.purge_messages(30 * DAY, thread_id="t") == 1
    assert (await saves.load("t"))["messages"] == []
    with pytest.raises(ValueError, match="max_age"):
        RetainedCheckpointer(db, max_age=timedelta(0))


@rows("PgCheckpointer.tenant_scope, .tenant_for, tenant_of=")
async def scopes(db: Database) -> None:
    with tenant_scope("ada"):
        scoped = db.for_scope()
        assert scoped.tenant == db.for_tenant("ada").tenant == "ada"
    with pytest.raises(LookupError):
        db.for_scope()


@rows("the row policies of PgCheckpointer and PgMemory")
async def walls(db: Database, tmp_path: Path) -> None:
    # Policies are PostgreSQL's: tests/behaviour/test_row_policies.py. A tenant is a wall anywhere.
    url = f"sqlite:///{tmp_path}/walls.db"
    async with Database(url, tenant="ada") as ada, Database(url, tenant="bob") as bob:
        await Checkpointer(ada).save({"n": 1}, "t")
        assert await Checkpointer(bob).load("t") is None
        assert await Checkpointer(bob).list_with_metadata() == []


@rows("PgCheckpointer.ddl, create_schema=")
async def migrating(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/new.db", migrate="off")
    assert await db.migrate() != []
    assert await db.migrate() == []
    await db.check()
    await db.close()
    with pytest.raises(ValueError, match="migrate"):
        Database("sqlite://", migrate="sometimes")  # type: ignore[arg-type]


@rows("message_time, stamp_messages, oldest_message_time")
async def times() -> None:
    messages = [user("a"), user("b") | {"metadata": {"locus_at": (NOON - DAY).isoformat()}}]
    stamped = stamp_messages(messages, NOON)
    assert [message_time(one) for one in stamped] == [NOON, NOON - DAY]
    assert oldest_message_time(stamped) == NOON - DAY
    assert message_time(user("a")) is None
    both = {"occurred_at": NOON.isoformat(), "locus_at": (NOON - DAY).isoformat()}
    assert message_time(user("a") | {"metadata": both}) == NOON


@rows("trim_messages")
async def trimming() -> None:
    old, new = (
        stamp_messages([user("a"), answer("b")], NOON),
        stamp_messages([user("c")], NOON + DAY),
    )
    assert trim_messages([*old, *new], NOON + DAY) == new
    assert trim_messages([*old, *new], NOON) == [*old, *new]


@backends("SQLiteBackend, PostgreSQLBackend, OracleBackend and their adapter")
async def backend(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/backend.db") as db:
        await Checkpointer(db).save({"n": 1}, "t")
        assert await Checkpointer(db).load("t") == {"n": 1}
        assert await Checkpointer(db).list_threads() == ["t"]
    for url in ("postgresql://localhost/x", "oracle://u:p@localhost/x"):
        assert Checkpointer(Database(url)).capabilities.search


@backends(".save, .load, .delete, .exists of a backend")
async def dicts(db: Database) -> None:
    checkpointer = Checkpointer(db)
    assert await checkpointer.save({"a": {"b": [1, None]}}, "t")
    assert await checkpointer.load("t") == {"a": {"b": [1, None]}}
    assert await checkpointer.exists("t")
    assert await checkpointer.delete("t")
    assert not await checkpointer.delete("t")


@backends(".list_threads(pattern=, limit=, offset=)")
async def pages_of_threads(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for n in range(5):
        await checkpointer.save({}, f"t{n}")
    assert await checkpointer.list_threads(pattern="t*", limit=2, offset=1) == ["t3", "t2"]


@backends(".get_metadata, .query_by_metadata, .get_by_metadata")
async def backend_metadata(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"n": 1}, "t", metadata={"user": "ada"})
    found = await checkpointer.get_metadata("t")
    assert found is not None
    assert found["created_at"].tzinfo is not None
    assert [
        one["data"] for one in await checkpointer.query_by_metadata("user", "ada", data=True)
    ] == [{"n": 1}]


@backends(".search of a backend")
async def backend_search(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"said": "green tea"}, "t")
    assert [one["data"] for one in await checkpointer.search("TEA", limit=1, data=True)] == [
        {"said": "green tea"}
    ]


@backends(".search_data of a backend")
async def by_field(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"agent_id": "agent-1", "n": 1}, "a")
    await checkpointer.save({"agent_id": "agent-2", "n": 1}, "b")
    (found,) = await checkpointer.search_data("agent_id", "agent-1", 10)
    assert (found["thread_id"], found["data"]) == ("a", {"agent_id": "agent-1", "n": 1})
    assert [one["thread_id"] for one in await checkpointer.search_data("n", 1)] == ["b", "a"]
    assert await checkpointer.search_data("agent_id", "agent-1", among=1) == []


@backends(".count(pattern) of a backend")
async def count(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for thread in ("a1", "a2", "b1"):
        await checkpointer.save({}, thread)
    assert await checkpointer.count_threads() == 3
    assert await checkpointer.count_threads("a*") == 2


@backends(".vacuum of a backend")
async def backend_vacuum(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({}, "t", ttl=0.001)
    await asyncio.sleep(0.01)  # timed: longer than it lives
    assert await checkpointer.vacuum() == 1


@backends("retries after a lost connection")
async def lost_connections() -> None:
    db = Database("postgresql://nobody@127.0.0.1:1/x", connect_timeout=1)
    with pytest.raises(DatabaseUnreachable) as caught:
        await Checkpointer(db).save({}, "t")
    assert caught.value.maybe_applied is False
    await db.close()


@backends("register_checkpointer", "list_checkpointers")
async def registering(db: Database) -> None:
    assert {"memory", "file", "sqlite", "postgresql", "oracle", "http"} <= {*list_checkpointers()}

    def make(config_hint: str | None = None, **options: Any) -> Checkpointer:
        return Checkpointer(db, namespace=(config_hint or "none",), **options)

    register_checkpointer("parity-example", make)
    assert "parity-example" in list_checkpointers()
    assert get_checkpointer("parity-example:x").namespace == ("x",)


@backends("get_checkpointer")
async def by_name(tmp_path: Path) -> None:
    checkpointer = get_checkpointer(f"sqlite:///{tmp_path}/named.db")
    await checkpointer.save({"n": 1}, "t")
    await checkpointer.close()
    with pytest.raises(ValueError, match="memory"):
        get_checkpointer("redis")
    with pytest.raises(TypeError):
        get_checkpointer("memory", pretty=True)


@backends("sqlite_checkpointer, postgresql_checkpointer, oracle_checkpointer")
async def by_kind(tmp_path: Path) -> None:
    assert isinstance(get_checkpointer(f"sqlite:{tmp_path}/x.db"), Checkpointer)
    assert "agents" in repr(get_checkpointer("postgresql:agents"))
    assert isinstance(get_checkpointer("oracle://u:p@localhost:1521/?service_name=x"), Checkpointer)


@backends("OracleCheckpointSaver.put, .get, .list_checkpoints, .delete_thread")
async def saver(db: Database) -> None:
    checkpointer = Checkpointer(db, namespace=("default",))
    for n in range(3):
        await checkpointer.save({"n": n}, "t", f"c{n}", {"n": n})
    await checkpointer.save({"n": 1}, "t", "c1")
    assert await checkpointer.load("t", "c0") == {"n": 0}
    older = [one.checkpoint_id async for one in checkpointer.history("t", before="c2")]
    assert older == ["c0"], "c1 was saved again, and is newer"
    assert await Checkpointer(db).load("t") is None
    assert await checkpointer.delete("t") is True


@backends("OracleCheckpointSaver.put_writes, .get_writes")
async def writes(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({}, "t", "c")
    for _ in range(2):
        await checkpointer.put_writes([("a", 1), ("b", {"n": 2})], "t", "c", "task")
    found = await checkpointer.get_writes("t", "c")
    assert [(one.task_id, one.index, one.channel, one.value) for one in found] == [
        ("task", 0, "a", 1),
        ("task", 1, "b", {"n": 2}),
    ]


@backends("OracleSyncCheckpointSaver")
async def without_await(tmp_path: Path) -> None:
    def work() -> Any:
        with memalchemy.sync.Database(f"sqlite:///{tmp_path}/sync.db") as db:
            checkpointer = memalchemy.sync.Checkpointer(db)
            checkpointer.save({"n": 1}, "t")
            return checkpointer.load("t")

    assert await asyncio.to_thread(work) == {"n": 1}


@backends("DeltaCheckpointer", "DeltaCheckpointer(max_chain_depth=)")
async def differences(db: Database) -> None:
    checkpointer = Checkpointer(db, max_chain_depth=5)
    messages: list[Any] = []
    for n in range(12):
        messages.append(user(f"message {n} " + "x" * 100))
        await checkpointer.save({"messages": messages}, "t")
    stats = await checkpointer.get_storage_stats("t")
    assert 12 // 6 <= stats["full_checkpoints"] <= 12 // 5
    assert stats["delta_checkpoints"] == 12 - stats["full_checkpoints"]


@backends("DeltaCheckpointer.save, .load, .list_checkpoints, .delete")
async def children(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for n in range(3):
        await checkpointer.save({"n": n, "same": "x" * 500}, "t", f"c{n}", metadata={"n": n})
    assert await checkpointer.delete("t", "c0") is True
    assert await checkpointer.load("t", "c2") == {"n": 2, "same": "x" * 500}
    assert await checkpointer.list_checkpoints("t") == ["c2", "c1"]


@backends("DeltaCheckpointer.get_metadata, CheckpointMetadata")
async def info(db: Database) -> None:
    checkpointer = Checkpointer(db)
    first = await checkpointer.save({"n": 1}, "t")
    second = await checkpointer.save({"n": 2}, "t")
    found = await anext(checkpointer.history("t"))
    assert isinstance(found, CheckpointInfo)
    assert (found.checkpoint_id, found.parent_id) == (second, first)
    assert found.raw_size > 0
    assert found.stored_size > 0


@backends("DeltaCheckpointer.get_storage_stats, DeltaCheckpoint.compression_ratio")
async def ratio(db: Database) -> None:
    checkpointer = Checkpointer(db)
    assert (await checkpointer.get_storage_stats("t"))["compression_ratio"] == 1.0
    for n in range(20):
        await checkpointer.save({"messages": [f"message {i}" for i in range(n * 10)]}, "t")
    stats = await checkpointer.get_storage_stats("t")
    assert stats["compression_ratio"] == stats["total_size"] / stats["compressed_size"] > 5


@backends("the added, removed and changed keys of a delta")
async def diff(db: Database) -> None:
    checkpointer = Checkpointer(db)
    a = await checkpointer.save({"x": {"y": 1}, "gone": 1}, "t")
    b = await checkpointer.save({"x": {"y": 2}, "new": 1}, "t")
    assert await checkpointer.diff("t", a, b) == Diff({"/new": 1}, {"/gone": 1}, {"/x/y": (1, 2)})
