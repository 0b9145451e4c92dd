"""Rows of LazyBridge's store, encryption and memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import memalchemy.sync
from memalchemy import Conversation, Database, KeyValue, NotEncrypted, NotSerialisable
from memalchemy.codec.encryption import generate_key
from memalchemy.collections import ABSENT, KeyValueEntry
from memalchemy.context import (
    ContextCompactor,
    NullManager,
    SlidingWindowManager,
    SummarizingManager,
    TokenBudgetManager,
    estimate_tokens,
)
from parity_examples import answer, section, user

rows = section("LazyBridge")

TALK = [m for n in range(20) for m in (user(f"question {n}"), answer(f"answer {n}"))]


@rows("Store")
async def store(tmp_path: Path) -> None:
    for url in ("sqlite://", f"sqlite:///{tmp_path}/kv.db"):
        async with Database(url) as db:
            await KeyValue(db).write("k", {"t": (1, 2)})
            assert await KeyValue(db).read("k") == {"t": (1, 2)}

    def work() -> Any:
        with memalchemy.sync.Database(f"sqlite:///{tmp_path}/kv.db") as db:
            return memalchemy.sync.KeyValue(db).read("k")

    assert await asyncio.to_thread(work) == {"t": (1, 2)}


class Model(BaseModel):
    n: int


@rows("Store.write", "Store.read")
async def writing(db: Database) -> None:
    store = KeyValue(db)
    assert await store.write("k", Model(n=1)) == 1
    assert await store.write("k", {"deep": [Model(n=2)]}, agent_id="a") == 2
    assert await store.read("k") == {"deep": [{"n": 2}]}
    assert await store.read("nothing", "default") == "default"
    await store.write("none", None)
    assert await store.read("none", "default") is None
    with pytest.raises(NotSerialisable):
        await store.write("k", object())


@rows("Store.read_entry, StoreEntry")
async def entries(db: Database) -> None:
    store = KeyValue(db)
    await store.write("k", 1, agent_id="agent")
    entry = await store.read_entry("k")
    assert isinstance(entry, KeyValueEntry)
    assert (entry.key, entry.value, entry.agent_id) == ("k", 1, "agent")
    assert entry.written_at.tzinfo is not None
    assert await store.read_entry("nothing") is None


@rows("Store.read_all, .keys, .items", "in, len, iter", "Store.delete, .clear")
async def listing(db: Database) -> None:
    store = KeyValue(db)
    for key in ("b:1", "a:1", "a:2"):
        await store.write(key, key)
    assert await store.read_all() == {"a:1": "a:1", "a:2": "a:2", "b:1": "b:1"}
    assert await store.keys() == ["a:1", "a:2", "b:1"]
    assert await store.items(prefix="a:") == [("a:1", "a:1"), ("a:2", "a:2")]
    assert await store.exists("a:1")
    assert not await store.exists(42)
    assert await store.count() == 3
    await store.write_memory("agent", turns=[])
    assert await store.delete("a:1") is True
    assert await store.delete("a:1") is False
    assert await store.clear() == 2
    assert await store.read_memory("agent") is not None


@rows("Store.compare_and_swap")
async def swapping(db: Database) -> None:
    store = KeyValue(db)
    assert await store.compare_and_swap("k", None, {"n": 1}) is True
    assert await store.compare_and_swap("k", None, {"n": 2}) is False
    assert await store.compare_and_swap("k", {"n": 1}, None, agent_id="a") is True
    assert await store.compare_and_swap("k", ABSENT, 1) is False, "a stored None is there"
    assert await store.compare_and_swap("k", None, 1) is True


@rows("Store.to_text")
async def text(db: Database) -> None:
    store = KeyValue(db)
    await store.write("a", 1)
    await store.write("b", {"c": "d"})
    assert await store.to_text() == 'a: 1\nb: {"c": "d"}'
    assert await store.to_text(["b", "nothing"]) == 'b: {"c": "d"}'


@rows("Store.write_memory, .read_memory, .delete_memory")
async def memories(db: Database) -> None:
    store = KeyValue(db)
    turns = [{"user": "a", "assistant": "b", "token_estimate": 2}]
    await store.write_memory("agent", turns=turns, summary="s")
    found = await store.read_memory("agent")
    assert found is not None
    assert (found["turns"], found["summary"]) == (turns, "s")
    assert await store.read_memory("agent", "other") is None
    await store.delete_memory("agent")
    assert await store.read_memory("agent") is None


@rows("Store.close")
async def closing(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/closed.db")
    store = KeyValue(db)
    await store.write("k", 1)
    await store.close()
    await db.close()
    assert await store.read("k") == 1
    await db.close()


@rows(
    "EncryptedStoreAdapter",
    "its plaintext keys, times and agents",
    "its error for a row that is not encrypted",
    "its compare_and_swap",
)
async def encrypted(tmp_path: Path) -> None:
    old, new = generate_key(), generate_key().encode()
    url = f"sqlite:///{tmp_path}/sealed.db"
    async with Database(url, keys=old) as db:
        store = KeyValue(db, agent_id="scribe")
        await store.write("the key", {"a": "zebrafish"})
        assert await store.compare_and_swap("the key", {"a": "zebrafish"}, {"a": "okapi"}) is True
        await Conversation(db, "t").add(user("giraffe"))
    stored = (tmp_path / "sealed.db").read_bytes()
    assert b"the key" in stored
    assert b"scribe" in stored
    assert not any(word in stored for word in (b"zebrafish", b"okapi", b"giraffe"))
    async with Database(url, keys=[old, new]) as db:
        assert await KeyValue(db).read("the key") == {"a": "okapi"}
    plain = f"sqlite:///{tmp_path}/plain.db"
    async with Database(plain) as db:
        await KeyValue(db).write("offending", 1)
    async with Database(plain, keys=new) as db:
        with pytest.raises(NotEncrypted, match="offending"):
            await KeyValue(db).read_all()


@rows("Memory", "Memory.add", "Memory.messages", "Memory.text")
async def memory(db: Database, tmp_path: Path) -> None:
    talk = Conversation(db, "t")
    await talk.add("hello", "hi there")
    await Conversation(db, "t").add([user("bye"), answer("ciao")])
    assert [m.text for m in await talk.messages()] == ["hello", "hi there", "bye", "ciao"]
    assert [word in await talk.text() for word in ("hello", "hi there", "bye", "ciao")] == [
        True
    ] * 4

    def work() -> int:
        with memalchemy.sync.Database(f"sqlite:///{tmp_path}/talk.db") as other:
            talk = memalchemy.sync.Conversation(other, "t")
            talk.add("hello", "hi")
            return len(talk.messages())

    assert await asyncio.to_thread(work) == 2


@rows("""Memory(strategy="auto"), max_tokens""")
async def auto() -> None:
    short = ContextCompactor(context_length=100).apply(TALK)
    assert sum(map(estimate_tokens, short)) <= 100
    assert ContextCompactor(context_length=10_000).apply(TALK) == TALK
    budget = TokenBudgetManager(max_tokens=20).apply(TALK)
    assert 0 < sum(map(estimate_tokens, budget)) <= 20


@rows("""Memory(strategy="sliding")""", """Memory(max_turns=)""", """Memory(strategy="none")""")
async def sliding(db: Database) -> None:
    whole_turns = SlidingWindowManager(window_size=2, preserve_first_user=False)
    assert whole_turns.apply(TALK) == TALK[-2:]
    last_two = SlidingWindowManager(None, preserve_first_user=False, max_turns=2)
    talk = Conversation(db, "t", manager=last_two)
    await talk.add(TALK)
    shown = [m.text for m in await talk.messages()]
    assert shown == ["question 18", "answer 18", "question 19", "answer 19"]
    assert await talk.count() == 40
    assert NullManager().apply(TALK) == TALK


@rows("""Memory(strategy="summary"), summarizer, summarizer_timeout""")
async def summarised(db: Database) -> None:
    asked: list[str | None] = []

    async def summarise(messages: list[Any], previous: str | None) -> str:
        asked.append(previous)
        return f"summary {len(asked)}"

    manager = SummarizingManager(6, 2, summarize_fn=summarise, timeout=5)
    talk = Conversation(db, "t", manager=manager)
    await talk.add(TALK[:10])
    assert "summary 1" in await talk.text()
    await talk.add(TALK[10:])
    assert "summary 2" in await talk.text()
    assert asked == [None, "summary 1"]

    async def slow(messages: list[Any], previous: str | None) -> str:
        await asyncio.Event().wait()
        return "never"

    shown = await SummarizingManager(6, 2, summarize_fn=slow, timeout=0.01).async_apply(TALK)
    assert "never" not in str(shown)
    assert shown[-2:] == TALK[-2:]


@rows("Memory(store=, key=, session_key=)")
async def sessions(db: Database) -> None:
    mine = Conversation(db, thread_id="ada", namespace=("session", "1"))
    await mine.add("hello", "hi")
    assert await Conversation(db, thread_id="ada", namespace=("session", "2")).messages() == []
    assert len(await Conversation(db, "ada", namespace=("session", "1")).messages()) == 2


@rows("Memory.amend_last", "Memory.clear")
async def amending(db: Database) -> None:
    talk = Conversation(db, "t")
    assert await talk.amend_last("nothing") is False
    await talk.add("hello", "hi")
    assert await talk.amend_last("good day") is True
    assert [m.text for m in await talk.messages()] == ["hello", "good day"]
    await talk.clear()
    assert await talk.messages() == []
