"""Rows of lauren-ai's memory, conversations, vectors and facts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from memalchemy import (
    Conversation,
    ConversationStore,
    Database,
    DatabaseUnreachable,
    MemalchemyError,
    MemoryFact,
    MemoryResult,
    Store,
    UserMemoryStore,
    VectorStore,
    remember,
)
from memalchemy.context import (
    ContextCompactor,
    SummarizingManager,
    TokenBudgetManager,
    ToolHistoryIssue,
    ToolHistoryReport,
    estimate_tokens,
    messages_to_summarize,
    repair_tool_history,
    trim_to_fit,
    trim_to_recent,
    validate_tool_history,
)
from memalchemy.conversations import ToolExchange
from memalchemy.events import Event, subscribe
from memalchemy.http import app
from memalchemy.memory import build_memory_context, extract_facts
from memalchemy.state import Message
from parity_examples import answer, call, result, section, system, user

rows = section("lauren-ai")

TALK = [m for n in range(20) for m in (user(f"question {n}"), answer(f"answer {n}"))]


@rows("ShortTermMemory", ".messages, .trim_to_fit, .max_tokens", ".token_estimate")
async def budgets(db: Database) -> None:
    talk = Conversation(db, "t", manager=TokenBudgetManager(max_tokens=30))
    await talk.add(TALK)
    shown = await talk.messages()
    assert 0 < sum(map(estimate_tokens, shown)) <= 30
    assert await talk.count() == 40, "the log stays whole"
    for most in (5, 40, 100):
        assert sum(map(estimate_tokens, trim_to_fit([user("x" * 400)], most))) <= most
    assert estimate_tokens(user("x" * 400)) >= 100


@rows(".add_user, .add_assistant")
async def adding(db: Database) -> None:
    talk = Conversation(db, "t")
    await talk.add(Message.user("hello"), Message.assistant("hi"))
    await talk.add(user("and"), answer("so"))
    assert [m.text for m in await talk.messages()] == ["hello", "hi", "and", "so"]


@rows(
    ".add_tool_result, .add_tool_results",
    ".begin_tool_exchange, .commit_tool_exchange, .abort_tool_exchange, .active_tool_exchange",
    "the hooks on_tool_exchange_…",
    "ToolConversationIntegrityError",
)
async def exchanges(db: Database) -> None:
    seen: list[Event] = []
    unsubscribe = subscribe(seen.append)
    talk = Conversation(db, "t")
    await talk.add(user("look"))
    await talk.begin_tool_exchange(call("a", "b"))
    half = await talk.add_tool_results(Message.tool("found", "a"))
    assert isinstance(half, ToolExchange)
    assert half.missing == ["b"]
    with pytest.raises(ValueError, match="'z'"):
        await talk.add_tool_results(result("b"), result("z"))
    crashed = Conversation(db, "t")
    assert await crashed.active_tool_exchange() == half, "nothing of the wrong ones was kept"
    assert len(await crashed.messages()) == 1
    await crashed.commit_tool_exchange(result("b"))
    assert [str(m.role) for m in await talk.messages()] == ["user", "assistant", "tool", "tool"]
    await talk.begin_tool_exchange(call("c"))
    assert await talk.abort_tool_exchange() is not None
    assert await talk.active_tool_exchange() is None
    unsubscribe()
    stages = [one.name for one in seen if one.name.startswith("memory.exchange")]
    assert stages == [
        "memory.exchange.begun",
        "memory.exchange.committed",
        "memory.exchange.begun",
        "memory.exchange.aborted",
    ]


@rows(".summary, .set_summary", ".snapshot, .restore")
async def snapshots(db: Database) -> None:
    talk = Conversation(db, "t", manager=SummarizingManager(6, 2))
    given = {"messages": TALK[:2], "summary": "they met", "tool_exchange": {"ids": ["a"]}}
    await talk.restore(given)
    assert "they met" in (await talk.messages())[0].text
    found = await talk.snapshot()
    assert (found["summary"], found["tool_exchange"]) == ("they met", {"ids": ["a"]})
    assert [m["content"] for m in found["messages"]] == ["question 0", "answer 0"]
    await talk.restore(TALK[:4])
    assert (await talk.snapshot())["summary"] == "they met", "a list leaves the summary"
    await talk.restore({"messages": TALK[:4], "summary": None})
    assert (await talk.snapshot())["summary"] is None
    await talk.set_summary("they met again")
    assert (await talk.snapshot())["summary"] == "they met again"
    made = SummarizingManager(4, 2, lambda messages, previous: "in short").apply(TALK)
    assert "in short" in made[0]["content"]


@rows(".messages_to_summarize", ".trim_to_recent")
async def recent() -> None:
    old, new = messages_to_summarize(TALK, 4), trim_to_recent(TALK, 4)
    assert [*old, *new] == TALK
    assert len(new) == 4
    assert messages_to_summarize(TALK, 100) == []
    assert trim_to_recent([system("s"), *TALK], 2)[0] == system("s")


@rows(".ensure_valid, .validate_tool_history, ToolHistoryReport", ".repair_tool_history")
async def histories() -> None:
    report = validate_tool_history([user("x"), call("a"), user("y")])
    assert isinstance(report, ToolHistoryReport)
    assert isinstance(report.first_issue, ToolHistoryIssue)
    assert (report.ok, report.repairable, report.first_issue.code) == (
        False,
        True,
        "missing_result",
    )
    mended = repair_tool_history([user("x"), call("a"), user("y")])
    assert validate_tool_history(mended).ok
    assert not validate_tool_history([call("a", "a")]).repairable


@rows(".clear, len")
async def clearing(db: Database) -> None:
    talk = Conversation(db, "t")
    await talk.restore({"messages": TALK[:2], "summary": "they met"})
    assert await talk.count() == 2
    await talk.clear()
    assert (await talk.count(), await talk.messages()) == (0, [])


@rows("journal_reset and its journal")
async def journal(db: Database) -> None:
    talk = Conversation(db, "t")
    view = talk.view()
    await talk.add("hello", "hi")
    assert [m.text for m in await view.refresh()] == ["hello", "hi"]
    await talk.add(user("bye"))
    assert [m.text for m in await view.refresh()] == ["bye"]
    assert not view.restarted
    await talk.clear()
    await view.refresh()
    assert view.restarted


@rows(
    "ConversationStore, InMemoryConversationStore, SQLiteConversationStore",
    ".load",
    ".save",
)
async def conversations(db: Database) -> None:
    store = ConversationStore(db)
    assert await store.load("c") == []
    assert await store.load_snapshot("c") is None
    await store.save("c", TALK[:2])
    await store.save("c", snapshot={"messages": TALK[:4], "summary": "they met"})
    assert [m.text for m in await store.load("c")][-1] == "answer 1"
    found = await store.load_snapshot("c")
    assert found is not None
    assert found["summary"] == "they met"
    assert await Conversation(db, "c").count() == 4


@rows(".delete, .clear, .list_conversations, len, in")
async def listed(db: Database) -> None:
    store = ConversationStore(db)
    for name in ("a", "b"):
        await store.save(name, TALK[:2])
    assert await store.list() == ["b", "a"]
    assert await store.list_conversations() == ["a", "b"]
    assert await store.count() == 2
    assert await store.delete("a") is True
    assert await store.clear() == 1
    assert await store.count() == 0


@rows("AgentConfig.summarize_at")
async def at() -> None:
    long = [one | {"content": one["content"] * 40} for one in TALK]
    total = sum(map(estimate_tokens, long))
    for fraction, same in ((0.9, True), (0.2, False)):
        manager = ContextCompactor(total * 2, trigger_fraction=fraction, tail_token_fraction=0.2)
        assert (manager.apply(long) == long) is same


@rows(
    "MemoryStore, InMemoryVectorStore, SQLiteVectorStore",
    ".upsert",
    ".search, MemoryResult",
    ".get, .delete, .clear, len",
    "KnowledgeBase.search",
)
async def vectors(db: Database) -> None:
    store = VectorStore(db)
    await store.upsert("green tea", id="a", metadata={"kind": "drink"}, embedding=[1.0, 0.0])
    made = await store.upsert("Чай")
    (found,) = await store.search("tea", k=5, filter={"kind": "drink"})
    assert isinstance(found, MemoryResult)
    assert (found.id, found.content, found.metadata) == ("a", "green tea", {"kind": "drink"})
    assert 0 < found.score <= 1
    assert [one.id for one in await store.search("чай")] == [made]
    for nothing in (store.search("tea", k=0), store.search(" "), store.search("zeppelin")):
        assert await nothing == []
    assert await VectorStore(db, namespace=("other",)).search("tea") == []
    one = await store.get("a")
    assert one is not None
    assert one.score == 1.0
    assert await store.count() == 2
    await store.delete(["a", "nothing"])
    assert await store.get("a") is None
    await store.clear()
    assert await store.count() == 0


NOW = datetime.now(UTC)


@rows("MemoryFact", "MemoryFact.reinforce", "MemoryFact.decay")
async def facts(db: Database) -> None:
    old = MemoryFact("1", "ada", "likes tea", confidence=0.8, last_seen_at=NOW, created_at=NOW)
    faded = old.decay(NOW + timedelta(days=90))
    assert faded.confidence == pytest.approx(0.4, abs=0.01)
    assert old.confidence == 0.8, "a fact is frozen"
    assert old.reinforce().confidence == pytest.approx(0.9, abs=0.01)
    with pytest.raises(ValueError, match="confidence"):
        MemoryFact("1", "ada", "x", confidence=7)
    store = UserMemoryStore(db)
    await store.add(old)
    surer = await store.reinforce("ada", "1", 0.1)
    assert surer is not None
    assert surer.confidence == pytest.approx(0.9, abs=0.01)
    assert await store.reinforce("bob", "1") is None


@rows(
    "UserMemoryStore, InMemoryUserMemoryStore, SQLiteUserMemoryStore",
    ".add, .get",
    ".search",
    ".list",
    ".update, .delete, .clear, len",
)
async def users(db: Database) -> None:
    store = UserMemoryStore(db)
    await store.add(MemoryFact("1", "ada", "likes green tea", topics=["drinks"]))
    await store.add(MemoryFact("1", "bob", "likes coffee"))
    assert (found := await store.get("ada", "1")) is not None
    assert found.content == "likes green tea"
    assert await store.get("eve", "1") is None
    assert [one.user_id for one in await store.search("ada", "tea likes", 5)] == ["ada"]
    assert await store.search("bob", "tea") == []
    assert await store.search("ada", "", 0) == []
    assert [one.memory_id for one in await store.list("ada", "DRINKS")] == ["1"]
    assert await store.list("ada", "drink") == []
    changed = await store.update("ada", "1", content="likes black tea")
    assert changed is not None
    assert changed.content == "likes black tea"
    assert await store.update("ada", "nothing", content="x") is None
    assert await store.delete("ada", "1") is True
    assert await store.delete("ada", "1") is False
    assert await store.count("bob") == 1
    assert await store.clear("bob") == 1


@rows("remember, RememberMeta")
async def remembering(db: Database) -> None:
    shown: list[list[Any]] = []

    @remember(store=UserMemoryStore(db), top_k=3)
    async def agent(messages: list[Any], user_id: str) -> str:
        shown.append(messages)
        return "Noted."

    await agent([user("I like tea.")], user_id="ada")
    await agent([user("What do I like?")], user_id="ada")
    await agent([user("What do I like?")], user_id="bob")
    assert [any("I like tea" in str(m) for m in one if m["role"] == "system") for one in shown] == [
        False,
        True,
        False,
    ]
    with pytest.raises(TypeError, match="remember"):
        remember(lambda messages: None)


@rows("extract_facts")
async def extracting(db: Database) -> None:
    async def llm(prompt: str) -> str:
        return '[{"content": "likes tea", "topics": ["drinks"]}]' if "tea" in prompt else "no JSON"

    assert await extract_facts("I like tea", llm) == [
        {"content": "likes tea", "topics": ["drinks"]}
    ]
    assert await extract_facts("hello", llm) == []
    store = UserMemoryStore(db)
    await store.learn("ada", [user("I like tea")], llm=llm)
    assert [one.content for one in await store.list("ada")] == ["likes tea"]


@rows("build_memory_context")
async def context(db: Database) -> None:
    known = [MemoryFact("1", "ada", "likes <b>tea"), MemoryFact("2", "ada", "?", confidence=0.1)]
    text_ = build_memory_context(known)
    assert text_.startswith("## What I remember about you:\n- likes &lt;b>tea (confidence: high)")
    assert "(confidence: low)" in text_
    assert build_memory_context([]) == ""
    store = UserMemoryStore(db)
    await store.add(known[0])
    shown = await store.recall("ada", [user("tea?")], 5)
    assert "likes" in str(shown)


@rows("SQLiteStoreConfig, SQLiteStoreBackend", ".connect, .ensure_schema, .close")
async def connecting(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/agent.db", connect_timeout=30)
    await db.migrate()
    await db.check()
    await Store(db).put(("a",), "k", 1)
    await db.close()
    assert await Store(db).get(("a",), "k") == 1
    await db.close()
    assert Database("postgresql://localhost/x", schema="agents").schema == "agents"
    with pytest.raises(TypeError):
        await Database("sqlite://", table_prefix="x_; DROP TABLE threads").current()


@rows(".execute, .fetch_one, .fetch_all")
async def executing(db: Database) -> None:
    async with db.transaction() as tx:
        await Store(db).put(("a",), "k", 1, connection=tx)
        found = await tx.execute(text("SELECT count(*) FROM store_items WHERE key = 'k'"))
        assert found.scalar() == 1
    assert await db.run_sync(lambda c: c.execute(text("SELECT 1")).fetchall()) == [(1,)]


@rows("StorageError")
async def errors(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_bytes(b"this is no database" * 100)
    db = Database(f"sqlite:///{tmp_path}/no.db")
    with pytest.raises(MemalchemyError) as caught:
        await Store(db).get(("a",), "k")
    assert caught.value.code.startswith("MA-")
    assert issubclass(DatabaseUnreachable, MemalchemyError)
    await db.close()


@rows("McpConversationStore, McpUserMemoryStore")
async def over_http(db: Database) -> None:
    await Store(db).put(("users", "ada"), "k", {"n": 1})
    transport = httpx.ASGITransport(app=app(db))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        found = await client.get("/v1/store/users%2Fada/items/k")
    assert found.json()["value"] == {"n": 1}
