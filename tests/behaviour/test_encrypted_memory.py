"""Memories, facts, episodes and documents in an encrypted database."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memory_helpers import user
from sqlalchemy import select
from store_helpers import vector_of

import memalchemy
from lifetimes import ITEMS
from memalchemy import (
    CapabilityMissing,
    Database,
    Episode,
    EpisodicMemory,
    MemoryFact,
    remember,
)
from memalchemy.codec.encryption import generate_key
from memalchemy.memory import MemoryType

pytestmark = pytest.mark.own_keys

OLD, NEW = generate_key(), generate_key()
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
READABLE = r'readable=\("text",\)'

Open = Callable[..., Any]


@pytest.fixture
async def opened(database_url: str) -> AsyncIterator[Open]:
    """Opens a database of the test's own, as often as it is called."""
    async with AsyncExitStack() as stack:

        async def open_(keys: list[str] | None = None, **settings: Any) -> Database:
            keys = [OLD] if keys is None else keys
            db = memalchemy.Database(database_url, migrate="off", keys=keys, **settings)
            if not await db.current():
                await db.migrate()
            return await stack.enter_async_context(db)

        yield open_


@pytest.fixture
def lasting() -> None:
    """For tests that open a database twice."""


async def readable(db: Database) -> list[dict[str, Any]]:
    """All items as they are stored, sealed payload and all, but memalchemy's own."""
    found = await db.run_sync(lambda c: c.execute(select(ITEMS)).mappings().all())
    return [dict(row) for row in found if not row["namespace"].startswith("/~")]


def block_of(messages: list[Any]) -> str:
    return "\n".join(m["content"] for m in messages if m["role"] == "system")


async def test_topics_of_a_fact_are_not_readable_and_find_it(opened: Open) -> None:
    db = await opened()
    facts = memalchemy.UserMemoryStore(db)
    await facts.add(MemoryFact("1", "ada", "is ill", topics=("Diagnosis", "~/x")))
    await facts.add(MemoryFact("2", "ada", "likes tea", topics=("drinks",)))

    assert "diagnosis" not in str(await readable(db)).lower()
    assert [one.memory_id for one in await facts.list("ada", "diagnosis ")] == ["1"]
    assert [one.memory_id for one in await facts.list("ada", "~/X")] == ["1"]
    assert [one.memory_id for one in await facts.list("ada", "diag")] == []


async def test_no_key_confirms_a_guess_of_what_was_said(opened: Open) -> None:
    db = await opened()
    facts, said = memalchemy.UserMemoryStore(db), "I have an illness."
    manager = memalchemy.LLMMemoryManager(db)
    for name in ("ada", "eve"):
        await facts.learn(name, [user(said)])
        await facts.add(name, "have an ILLNESS")
        await facts.add(name, "have an illness!")
    await manager.on_session_end([user("I'm a nurse")])
    with manager.scoped(("users", "eve")):
        await manager.on_session_end([user("I'm a nurse")])

    keys = [row["key"] for row in await readable(db)]
    assert len({*keys}) == len(keys) == 6, "nor that of one user's what another has said"
    for guess in (said, "i have an illness", "have an illness", "I'm a nurse"):
        digest = hashlib.sha256(guess.encode()).hexdigest()
        assert not any(digest[:12] in key for key in keys)
    assert all(re.fullmatch(r"(fact|user_context)_[0-9a-f]{12,24}", key) for key in keys)


async def test_a_fact_is_known_again_by_its_words_also_by_two_at_once(opened: Open) -> None:
    facts = memalchemy.UserMemoryStore(await opened())
    await asyncio.gather(*(facts.learn("ada", [user("I like tea.")]) for _ in range(4)))
    await facts.learn("ada", [user("i LIKE tea!")])

    (fact,) = await facts.list("ada")
    assert fact.confidence == 1.0


@pytest.mark.usefixtures("lasting")
async def test_a_fact_is_known_again_after_keys_were_changed(opened: Open) -> None:
    await memalchemy.UserMemoryStore(await opened()).learn("ada", [user("I like tea.")])
    db = await opened([NEW, OLD])
    facts = memalchemy.UserMemoryStore(db)
    await facts.learn("ada", [user("I like tea!"), user("I like tea! I own a boat.")])

    assert sorted(one.content for one in await facts.list("ada")) == [
        "I like tea.",
        "I own a boat.",
    ]


async def test_a_conversation_that_is_read_again_makes_no_second_memory(opened: Open) -> None:
    manager = memalchemy.LLMMemoryManager(await opened())
    for _ in range(2):
        await manager.on_session_end([user("I'm a nurse")])

    assert [one.content for one in await manager.retrieve()] == ["I'm a nurse"]


async def test_without_readable_words_the_surest_facts_are_recalled(opened: Open) -> None:
    facts = memalchemy.UserMemoryStore(await opened())
    await facts.add(MemoryFact("1", "ada", "likes tea", confidence=0.4))
    await facts.add(MemoryFact("2", "ada", "lives in Oslo", confidence=0.9))
    recalled = await facts.recall("ada", [user("tea?")], top_k=1)

    assert "lives in Oslo" in block_of(recalled)
    assert "tea" not in block_of(recalled)
    with pytest.raises(CapabilityMissing, match=READABLE):
        await facts.search("ada", "tea")


async def test_without_readable_words_remember_remembers(opened: Open) -> None:
    facts = memalchemy.UserMemoryStore(await opened())

    @remember(store=facts)
    async def agent(messages: list[Any], user_id: str) -> str:
        return block_of(messages)

    await agent([user("I like tea.")], "ada")
    assert "- I like tea." in await agent([user("What do I like?")], "ada")


async def test_without_readable_words_the_newest_memories_are_recalled(opened: Open) -> None:
    manager = memalchemy.LLMMemoryManager(await opened(), retrieve_limit=1)
    for key in ("first", "second"):
        await manager.save([memalchemy.Memory(MemoryType.USER, key, f"the {key}")])

    assert [one.key for one in await manager.retrieve(query="first")] == ["second"]
    assert "the second" in block_of(await manager.on_session_start([user("first?")]))


async def test_without_readable_words_the_newest_episodes_are_recalled(opened: Open) -> None:
    episodes = memalchemy.EpisodeStore(await opened(), max_results=2)
    for minutes in (2, 3, 1):
        at = NOON + timedelta(minutes=minutes)
        await episodes.write(Episode(task=f"task {minutes}", completed_at=at, result=str(minutes)))

    assert [one.result for one in await episodes.recall("task 1")] == ["3", "2"]
    assert [one.result for one in await episodes.recall("x", filter={"result": "1"})] == ["1"]
    assert "task 3" in await EpisodicMemory(episodes).recall("task 1")
    with pytest.raises(CapabilityMissing, match=READABLE):
        await episodes.recall("task 1", threshold=0.5)


async def test_without_readable_words_a_search_of_documents_says_how_to_have_them(
    opened: Open,
) -> None:
    documents = memalchemy.VectorStore(await opened())
    await documents.upsert("A note on tea", id="tea")

    with pytest.raises(CapabilityMissing, match=READABLE):
        await documents.search("tea")
    assert await documents.get("tea") is not None


async def test_where_only_vectors_are_readable_all_is_found_by_meaning(opened: Open) -> None:
    def embed(texts: list[str]) -> list[Any]:
        return [vector_of(text) for text in texts]

    db = await opened(readable=("vectors",))
    store = memalchemy.Store(db, embedder=embed, index=False)
    facts, manager = memalchemy.UserMemoryStore(store), memalchemy.LLMMemoryManager(store)
    episodes = memalchemy.EpisodeStore(db, embedder=embed, max_results=1)
    documents = memalchemy.VectorStore(db, embedder=embed)
    for text in ("green tea", "the boat"):
        await facts.add(MemoryFact(text, "ada", text))
        await manager.save([memalchemy.Memory(MemoryType.USER, text, text)])
        await episodes.write(Episode(task=text))
        await documents.upsert(text)

    assert (await facts.search("ada", "green tea"))[0].content == "green tea"
    assert (await manager.retrieve(1, query="green tea"))[0].content == "green tea"
    assert [one.task for one in await episodes.recall("green tea")] == ["green tea"]
    assert (await documents.search("green tea", k=1))[0].content == "green tea"
