"""lauren-ai's stores: its protocols, on every database, with real agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lauren_ai
import pytest
from cryptography.fernet import Fernet
from lauren_ai import MemoryFact, StorageError, ToolExchange, agent, tool, use_tools
from lauren_ai._knowledge import KnowledgeBase
from lauren_ai._memory import ConversationStore, MemoryStore, ShortTermMemory, UserMemoryStore
from lauren_ai._middleware import conversation_middleware
from lauren_ai._transport import (
    Completion,
    ContentBlock,
    Message,
    RedactedThinkingBlock,
    ThinkingBlock,
    TokenUsage,
    ToolCall,
)
from lauren_ai.testing import TestClient as Client

import memalchemy
from memalchemy import Corrupt, Database, MemalchemyError, NotSerialisable, ThreadLog
from memalchemy.integrations.lauren_ai import (
    MemalchemyConversationStore,
    MemalchemyUserMemoryStore,
    MemalchemyVectorStore,
)

STORES = (MemalchemyConversationStore, MemalchemyUserMemoryStore, MemalchemyVectorStore)


@pytest.fixture
def conversations(db: Database) -> MemalchemyConversationStore:
    return MemalchemyConversationStore(db)


@pytest.fixture
def facts(db: Database) -> MemalchemyUserMemoryStore:
    return MemalchemyUserMemoryStore(db)


@pytest.fixture
def documents(db: Database) -> MemalchemyVectorStore:
    return MemalchemyVectorStore(db)


def said(text: str, *calls: ToolCall) -> Completion:
    usage = TokenUsage(input_tokens=10, output_tokens=5)
    reason: Any = "tool_use" if calls else "end_turn"
    return Completion("c", "mock", text, [*calls], reason, usage)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def fact(memory_id: str, content: str, user_id: str = "ada", **more: Any) -> MemoryFact:
    return MemoryFact(memory_id, user_id, content, **more)


def ids(found: Any) -> list[str]:
    return [getattr(one, "memory_id", None) or one.id for one in found]


async def test_the_stores_implement_lauren_ais_protocols(
    conversations: MemalchemyConversationStore,
    facts: MemalchemyUserMemoryStore,
    documents: MemalchemyVectorStore,
) -> None:
    assert isinstance(conversations, ConversationStore)
    assert isinstance(facts, UserMemoryStore)
    assert isinstance(documents, MemoryStore)


def test_construction_needs_no_loop_and_no_reachable_database() -> None:
    for store in STORES:
        store("postgresql://nobody@127.0.0.1:1/none")


async def test_connect_raises_at_once_if_the_database_is_unreachable() -> None:
    for store in STORES:
        with pytest.raises(StorageError) as caught:
            await store.connect("postgresql://nobody:secret@127.0.0.1:1/none")
        assert isinstance(caught.value.__cause__, MemalchemyError)
        assert "secret" not in str(caught.value)


async def test_stores_on_one_backend_share_it_and_only_an_owner_closes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with Database(url) as db:
        for store in STORES:
            shared = store.from_backend(db)
            assert shared.db is db
            await shared.close()
        await MemalchemyConversationStore.from_backend(db).save("c", [user("hi")])
    async with await MemalchemyConversationStore.connect(url) as own:
        assert (await own.load("c"))["messages"] == [user("hi")]
    with pytest.raises(TypeError, match="takes a Database"):
        MemalchemyVectorStore.from_backend(url)  # type: ignore[arg-type]


# Conversations


async def test_an_agent_continues_a_conversation_in_another_process(
    db: Database, conversations: MemalchemyConversationStore
) -> None:
    @agent(model="mock", conversation_store=conversations)
    class Assistant:
        pass

    first = Client(Assistant())
    first.mock.queue_response(said("Nice to meet you."))
    await first.run_async("I am Ada", conversation_id="ada")

    later = MemalchemyConversationStore(db)

    @agent(model="mock", conversation_store=later)
    class SameAssistant:
        pass

    second = Client(SameAssistant())
    second.mock.queue_response(said("Ada."))
    await second.run_async("Who am I?", conversation_id="ada")

    heard = [message["content"] for message in second.mock.calls[0].messages]
    assert heard == ["I am Ada", "Nice to meet you.", "Who am I?"]
    assert [m["content"] for m in (await later.load("ada"))["messages"]] == [*heard, "Ada."]


async def test_an_agent_with_tools_and_a_summary_is_loaded_as_it_was_saved(
    conversations: MemalchemyConversationStore,
) -> None:
    @tool()
    async def weather(city: str) -> dict[str, Any]:
        """Tell the weather.

        Args:
            city: where.
        """
        return {"city": city, "sky": "clear"}

    @agent(model="mock", conversation_store=conversations)
    @use_tools(weather)
    class Forecaster:
        pass

    client = Client(Forecaster())
    client.mock.queue_response(said("", ToolCall("t1", "weather", {"city": "Rome"})))
    client.mock.queue_response(said("Clear."))
    answer = await client.run_async("Rome?", conversation_id="c")
    assert answer.content == "Clear."

    loaded = await conversations.load("c")
    memory = ShortTermMemory()
    memory.restore(loaded)
    assert memory.validate_tool_history().ok
    assert memory.snapshot() == loaded
    assert loaded["tool_exchange"].state == "committed"
    assert loaded["tool_exchange"].calls[0].input == {"city": "Rome"}
    memory.set_summary("The user asks about the weather.")
    await conversations.save("c", memory.snapshot())
    assert (await conversations.load("c"))["summary"] == "The user asks about the weather."


async def test_a_snapshot_is_restored_with_lauren_ais_types(
    conversations: MemalchemyConversationStore,
) -> None:
    messages = [
        user("plain"),
        {"role": "user", "content": [ContentBlock.text_block("a block"), {"type": "text"}]},
        Message.user([ContentBlock(type="tool_result", tool_use_id="t", content=[{"x": 1}])]),
        {
            "role": "assistant",
            "content": [ThinkingBlock("hm", "sig"), RedactedThinkingBlock("xyz")],
            "reasoning_content": "because",
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
            ],
            "name": None,
            "lauren_ai": {"an application's": True},
        },
        {"role": "tool", "tool_call_id": "1", "content": "", "score": 1, "sure": True},
        {"content": "without a role"},
        {"role": "user", "content": 7, "metadata": "none"},
        {"role": "user", "content": [lauren_ai.ImageContent.from_bytes(b"\x00png", "image/png")]},
    ]
    exchange = ToolExchange.from_tool_calls([ToolCall("t1", "f", {"a": [1]})], run_id="r")
    snapshot = {"messages": messages, "summary": "so far", "tool_exchange": exchange}
    await conversations.save("c", snapshot)

    loaded = await conversations.load("c")
    assert loaded == snapshot
    assert [type(m) for m in loaded["messages"]] == [type(m) for m in messages]
    assert loaded["messages"][5]["sure"] is True
    assert (await conversations.load("c"))["messages"] is not loaded["messages"]


async def test_a_list_is_a_snapshot_without_a_summary_and_a_missing_one_an_empty_list(
    conversations: MemalchemyConversationStore,
) -> None:
    assert await conversations.load("c") == []
    await conversations.save("c", {"messages": [user("a")], "summary": "old"})
    await conversations.save("c", [user("b")])
    assert await conversations.load("c") == {"messages": [user("b")], "summary": None}
    await conversations.delete("c")
    await conversations.delete("c")
    assert await conversations.load("c") == []


async def test_only_new_messages_are_written(
    conversations: MemalchemyConversationStore,
) -> None:
    history = [{"role": "user", "content": [ContentBlock.text_block(f"{n}")]} for n in range(50)]
    await conversations.save("c", {"messages": history, "summary": None})
    log = conversations.native.log
    before = {entry.position: entry.stored_at for entry in await log.range("c")}
    await conversations.save("c", {"messages": [*history, user("new")], "summary": None})

    after = {entry.position: entry.stored_at for entry in await log.range("c")}
    assert len(after) == 51
    assert {position: after[position] for position in before} == before


async def test_all_conversations_are_listed_in_order_and_cleared(
    conversations: MemalchemyConversationStore, db: Database
) -> None:
    apart = MemalchemyConversationStore(db, namespace=("team",))
    await apart.save("z", [user("kept")])
    async with asyncio.TaskGroup() as group:
        for n in (3, 1, 2):
            group.create_task(conversations.save(f"c{n}", [user(f"{n}")]))
    assert await conversations.list_conversations() == ["c1", "c2", "c3"]
    await conversations.clear()
    assert await conversations.list_conversations() == []
    assert await apart.list_conversations() == ["z"]


async def test_messages_are_searchable_and_other_frameworks_logs_are_left_alone(
    conversations: MemalchemyConversationStore, db: Database
) -> None:
    other = ThreadLog(db, namespace=("openai",))
    await other.append("c", {"role": "user", "content": "elsewhere"})
    await conversations.save("c", [user("The refund of order A-17")])
    (hit,) = await conversations.native.log.search("refund")
    assert hit.thread_id == "c"
    await conversations.clear()
    assert await other.count("c") == 1


async def test_a_value_that_cannot_be_stored_is_a_storage_error(
    conversations: MemalchemyConversationStore,
) -> None:
    class Unknown:
        pass

    await conversations.save("c", [user("kept")])
    with pytest.raises(StorageError) as caught:
        await conversations.save("c", [user("new"), {"role": "user", "content": [Unknown()]}])
    assert isinstance(caught.value.__cause__, NotSerialisable)
    for wrong in ("text", 7, None, {"messages": ["not a message"]}, {"messages": 1}):
        with pytest.raises(StorageError):
            await conversations.save("c", wrong)
    assert (await conversations.load("c"))["messages"] == [user("kept")]


async def test_the_middleware_loads_and_saves(conversations: MemalchemyConversationStore) -> None:
    await conversations.save("c", [user("before")])
    made = conversation_middleware(
        conversations, header="x-conversation-id", cookie=None, auto_create=False
    )
    request = SimpleNamespace(
        headers={"x-conversation-id": "c"}, cookies={}, state=SimpleNamespace()
    )

    async def handler(request: Any) -> str:
        request.state.updated_conversation = [user("after")]
        return "ok"

    assert await made(conv_store=conversations).dispatch(request, handler) == "ok"
    assert request.state.conversation_history["messages"] == [user("before")]
    assert (await conversations.load("c"))["messages"] == [user("after")]


# Facts


async def test_a_fact_is_restored_as_it_was(facts: MemalchemyUserMemoryStore) -> None:
    seen = datetime.now(UTC) - timedelta(days=400)
    one = fact(
        "f1",
        "User likes tea",
        topics=["Drinks", "home"],
        confidence=0.8**5,
        created_at=seen,
        last_seen_at=seen,
        source_conversation_id="c",
    )
    await facts.add(one)
    found = await facts.get("ada", "f1")
    assert found == one
    assert isinstance(found, MemoryFact)
    found.decay()
    assert await facts.get("ada", "f1") == one
    await facts.add(found)
    assert await facts.get("ada", "f1") == found
    assert await facts.get("bob", "f1") is await facts.get("ada", "f2") is None


async def test_times_without_a_zone_are_local(facts: MemalchemyUserMemoryStore) -> None:
    naive = datetime(2026, 3, 1, 12)
    await facts.add(fact("f1", "User likes tea", created_at=naive, last_seen_at=naive))
    found = await facts.get("ada", "f1")
    assert found is not None
    assert found.created_at == found.last_seen_at == naive.astimezone(UTC)


async def test_facts_are_found_by_words_substrings_and_topics(
    facts: MemalchemyUserMemoryStore,
) -> None:
    await facts.add(fact("1", "User likes green tea", topics=["Drinks"], confidence=0.5))
    await facts.add(fact("2", "User prefers morning meetings", confidence=0.9))
    await facts.add(fact("3", "User drinks steamed milk", confidence=0.7))
    await facts.add(fact("4", "User likes green tea", "bob"))

    assert ids(await facts.search("ada", "tea likes")) == ["1"]
    assert ids(await facts.search("ada", "MORN")) == ["2"]
    assert ids(await facts.search("ada", "tea")) == ["1", "3"]  # a word before a part of one
    assert ids(await facts.search("ada", "tea", top_k=1)) == ["1"]
    assert ids(await facts.search("ada", "")) == ["2", "3", "1"]
    assert await facts.search("ada", "tea", top_k=0) == []
    assert ids(await facts.list("ada")) == ["3", "2", "1"]
    assert ids(await facts.list("ada", topic="drinks")) == ["1"]


async def test_in_an_encrypted_database_facts_are_found_too() -> None:
    async with Database("sqlite://", keys=[Fernet.generate_key()]) as db:
        facts = MemalchemyUserMemoryStore(db)
        await facts.add(fact("1", "User likes green tea"))
        assert ids(await facts.search("ada", "green tea")) == ["1"]
        assert await facts.search("ada", "coffee") == []


async def test_a_fact_is_changed_and_removed_by_its_id_alone(
    facts: MemalchemyUserMemoryStore,
) -> None:
    one = fact("1", "User likes tea", confidence=0.5)
    await facts.add(one)
    await facts.update("1", content="User likes coffee", confidence=0.6)
    assert await facts.get("ada", "1") == replace(one, content="User likes coffee", confidence=0.6)
    await facts.update("2", content="nobody's")
    await facts.delete("2")
    await facts.delete("1")
    await facts.delete("1")
    await facts.update("1", content="gone")
    assert await facts.list("ada") == []


async def test_c2_concurrent_updates_lose_nothing(
    facts: MemalchemyUserMemoryStore,
) -> None:
    for n in range(4):
        await facts.add(fact(f"{n}", "before", confidence=0.1))
        await asyncio.gather(
            facts.update(f"{n}", content="after"), facts.update(f"{n}", confidence=0.9)
        )
        found = await facts.get("ada", f"{n}")
        assert found is not None
        assert (found.content, found.confidence) == ("after", 0.9)


async def test_c3_facts_of_two_users_may_have_the_same_id(
    facts: MemalchemyUserMemoryStore,
) -> None:
    await asyncio.gather(facts.add(fact("1", "of Ada")), facts.add(fact("1", "of Bob", "bob")))
    for change in (facts.update("1", content="whose?"), facts.delete("1")):
        with pytest.raises(StorageError, match="2 users have a fact '1'"):
            await change
    await facts.update("1", content="still of Bob", user_id="bob")
    await facts.delete("1", user_id="ada")
    await facts.update("1", confidence=0.5)  # Bob's alone now

    assert await facts.get("ada", "1") is None
    found = await facts.get("bob", "1")
    assert found is not None
    assert (found.content, found.confidence) == ("still of Bob", 0.5)


async def test_clearing_a_user_leaves_the_others(facts: MemalchemyUserMemoryStore) -> None:
    for n in range(3):
        await facts.add(fact(f"{n}", "of Ada"))
    await facts.add(fact("2", "of Bob", "bob"))
    await facts.clear("ada")
    await facts.clear("ada")
    assert await facts.list("ada") == []
    await facts.update("2", content="changed")
    assert [one.content for one in await facts.list("bob")] == ["changed"]
    await facts.clear("bob")
    assert await facts.native.store.list_namespaces(("lauren",)) == []


async def test_confidence_fades_where_a_half_life_is_given(
    db: Database, facts: MemalchemyUserMemoryStore
) -> None:
    fading = MemalchemyUserMemoryStore(db, half_life=timedelta(microseconds=1))
    await fading.add(fact("1", "User likes tea"))
    faded, kept = await fading.get("ada", "1"), await facts.get("ada", "1")
    assert faded is not None
    assert kept is not None
    assert (faded.confidence, kept.confidence) == (0.0, 1.0)


async def test_an_invalid_fact_is_a_storage_error(facts: MemalchemyUserMemoryStore) -> None:
    for wrong in (fact("1", "x", confidence=7), fact("", "x"), fact("1", "x", "")):
        with pytest.raises(StorageError):
            await facts.add(wrong)
    with pytest.raises(StorageError, match="user_id"):
        await facts.list("")


# Documents


async def test_a_document_is_found_and_restored_whole(documents: MemalchemyVectorStore) -> None:
    assert await documents.search("anything") == []
    await documents.upsert("Refund policy", id="d1", metadata={"topic": "billing", "n": 1})
    await documents.upsert("Vacation policy", id="d2", metadata={"topic": "hr"})
    new = await documents.upsert("Something else")

    assert ids(await documents.search("refund policy", k=2)) == ["d1", "d2"]
    assert ids(await documents.search("policy", filter={"topic": "hr"})) == ["d2"]
    assert await documents.search("policy", filter={"topic": "hr", "n": 1}) == []
    assert await documents.search("policy", k=0) == await documents.search("  ") == []
    found = await documents.get("d1")
    assert found == lauren_ai._memory.MemoryResult(
        "d1", "Refund policy", 1.0, {"topic": "billing", "n": 1}
    )
    assert await documents.get("d9") is None
    await documents.upsert("Shipping policy", id="d1")
    assert await documents.search("refund") == []
    await documents.delete(["d1", "d9", new])
    assert ids(await documents.search("policy else")) == ["d2"]
    await documents.clear()
    assert await documents.search("policy") == []


async def test_names_and_values_of_a_filter_are_never_operators(
    documents: MemalchemyVectorStore,
) -> None:
    odd = {"$or": 1, "/a/b": "x", "~": {"$gt": 1}, "ok": None}
    await documents.upsert("policy", id="1", metadata=odd)
    await documents.upsert("policy", id="2", metadata={"~": 2, "ok": 0})
    for name, value in odd.items():
        assert ids(await documents.search("policy", filter={name: value})) == ["1"]


async def test_c8_documents_of_other_processes_are_found(
    db: Database, reopen: Callable[[], Database]
) -> None:
    ours = MemalchemyVectorStore(db)
    async with reopen() as other:
        assert await ours.search("policy") == []
        await MemalchemyVectorStore(other).upsert("policy", id="1")
    assert ids(await ours.search("policy")) == ["1"]


async def test_c6_searches_by_vector_and_by_words_are_combined(
    documents: MemalchemyVectorStore,
) -> None:
    await documents.upsert("north", id="n", embedding=[1.0, 0.0])
    await documents.upsert("west", id="w", embedding=[0.0, 1.0])
    await documents.upsert("nowhere", id="z", embedding=[0.0, 0.0])
    assert ids(await documents.search("", embedding=[0.9, 0.1])) == ["n", "w"]
    assert ids(await documents.search("west")) == ["w"]
    assert ids(await documents.search("nowhere")) == ["z"]


async def test_an_embedder_finds_by_meaning(db: Database) -> None:
    def embedder(texts: list[str]) -> list[list[float]]:
        return [[float("cat" in text or "kitten" in text), 0.1] for text in texts]

    documents = MemalchemyVectorStore(db, embedder=embedder)
    await documents.upsert("a kitten", id="1")
    await documents.upsert("a stone", id="2")
    assert ids(await documents.search("cat", k=1)) == ["1"]


async def test_a_knowledge_base_looks_in_it(documents: MemalchemyVectorStore) -> None:
    class Loader:
        async def load(self) -> list[Any]:
            return [SimpleNamespace(content="Express shipping", metadata={"of": "faq"}, id="d")]

    class Chunker:
        def chunk(self, document: Any) -> list[Any]:
            return [document]

    knowledge = KnowledgeBase(store=documents, chunker=Chunker())
    await knowledge.load(Loader())
    found = await knowledge.search("shipping", top_k=3, filter_metadata={"of": "faq"})
    assert ids(found) == ["d"]


async def test_a_damaged_conversation_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with Database(url) as db:
        await MemalchemyConversationStore(db).save("c", [user("hi " * 50)])

        def damage(connection: Any) -> None:
            connection.exec_driver_sql("UPDATE deltas SET checksum = checksum + 1")

        await db.run_sync(damage)
    async with memalchemy.Database(url) as db:
        with pytest.raises(StorageError) as caught:
            await MemalchemyConversationStore(db).load("c")
        assert isinstance(caught.value.__cause__, Corrupt)


async def test_the_example_of_lauren_ais_own_decorator_remembers(
    db: Database, facts: MemalchemyUserMemoryStore
) -> None:
    @agent(model="claude-haiku-4-5")
    @lauren_ai.remember(store="user_memory", extract=True, inject=True, top_k=5)
    class PersonalAssistant: ...

    facts.serve(PersonalAssistant)
    store = MemalchemyConversationStore(db)
    await talk(PersonalAssistant, "I like tea.", store=store)
    (learnt,) = await facts.list("ada")
    assert (learnt.content, learnt.source_conversation_id) == ("I like tea.", "c")
    await facts.update(learnt.memory_id, confidence=0.9)
    assert (await facts.list("ada"))[0].confidence == 0.9

    heard = await talk(PersonalAssistant, "What do I like?", store=store)

    assert [role for role, _ in heard] == ["user", "assistant", "user", "user"]
    assert "- I like tea. (confidence: high)" in heard[2][1]
    assert heard[3] == ("user", "What do I like?")
    kept = [message["content"] for message in (await store.load("c"))["messages"]]
    assert kept == ["I like tea.", "Noted.", "What do I like?", "Noted."]
    assert "tea" not in str(await talk(PersonalAssistant, "Hello", user_id="bob"))


@pytest.mark.parametrize("above", [True, False])
async def test_the_example_remembers_with_our_decorator_above_and_below_agent(
    facts: MemalchemyUserMemoryStore, above: bool
) -> None:
    remembering = memalchemy.remember(store=facts, extract=True, inject=True, top_k=5)
    marking = agent(model="claude-haiku-4-5")

    class PersonalAssistant: ...

    for decorate in (marking, remembering) if above else (remembering, marking):
        decorate(PersonalAssistant)
    await talk(PersonalAssistant, "I like tea.")

    heard = await talk(PersonalAssistant, "What do I like?")

    assert "- I like tea. (confidence: high)" in heard[0][1]


async def test_facts_are_extracted_by_the_model_that_the_decorator_names(
    facts: MemalchemyUserMemoryStore,
) -> None:
    @lauren_ai.remember(extraction_model="small")
    @agent(model="large")
    class Assistant: ...

    with pytest.raises(ValueError, match=r"extraction_model='small'.*llm="):
        facts.serve(Assistant)
    asked: list[tuple[str, str]] = []

    class Transport:
        async def complete(self, messages: list[Message], *, model: str) -> Completion:
            asked.append((model, str(messages[0].content)))
            return said('[{"content": "User drinks tea", "topics": ["drinks"]}]')

    facts.serve(Assistant, llm=Transport())
    await talk(Assistant, "Tea, please.")

    assert [model for model, _ in asked] == ["small"]
    assert "Tea, please." in asked[0][1]
    assert [fact.content for fact in await facts.list("ada")] == ["User drinks tea"]


async def test_serve_refuses_a_class_without_the_decorator(
    facts: MemalchemyUserMemoryStore,
) -> None:
    @agent(model="m")
    class Assistant: ...

    with pytest.raises(TypeError, match="not decorated with lauren-ai's @remember"):
        facts.serve(Assistant)


async def talk(
    of: type, text: str, *, user_id: str = "ada", store: Any = None
) -> list[tuple[str, Any]]:
    """A run of a new agent; the roles and texts of the messages that its model heard."""
    client = Client(of())
    client.mock.queue_response(said("Noted."))
    await client._runner.run(
        client._agent,
        text,
        conversation_id="c",
        conversation_store=store,
        metadata={"user_id": user_id},
    )
    return [(message["role"], message["content"]) for message in client.calls[0].messages]


@pytest.mark.parametrize("role", ["critic", "usr", "", "unknown", "model"])
async def test_lauren_ais_own_roles_come_back(db: Database, role: str) -> None:
    store = MemalchemyConversationStore(db)
    messages = [
        {"role": role, "content": "a text"},
        {"role": role, "content": "a text", "mine": [1]},
        {"role": role, "content": [{"type": "text", "text": "a block"}]},
    ]
    await store.save("c", messages)

    found: Any = await store.load("c")
    assert found["messages"] == messages
