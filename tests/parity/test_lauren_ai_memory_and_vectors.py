"""lauren-ai's user memory, vector stores and backend."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

import memalchemy
from memalchemy import (
    Database,
    DatabaseUnreachable,
    MemalchemyError,
    MemoryFact,
    Store,
    UserMemoryStore,
    remember,
)
from memalchemy.memory import build_memory_context, extract_facts
from parity.messages import user

OPEN = Callable[[], Database]
NOW = datetime.now(UTC)


def fact(memory_id: str, content: str, user_id: str = "ada", **more: Any) -> MemoryFact:
    return MemoryFact(memory_id, user_id, content, **more)


async def test_c1_remember_injects_extracts_and_reinforces(db: Database) -> None:
    facts = memalchemy.UserMemoryStore(db)
    given: list[list[Any]] = []

    @remember(store=facts)
    async def agent(messages: list[Any], user_id: str) -> str:
        given.append(messages)
        return "Noted."

    await agent([user("I like tea.")], user_id="ada")
    (learnt,) = await facts.list("ada")
    assert learnt.content == "I like tea."
    await agent([user("As I said: nothing. I like tea.")], user_id="ada")

    assert len(given[0]) == 1
    assert "I like tea." in given[1][1]["content"]
    (again,) = [one for one in await facts.list("ada") if one.memory_id == learnt.memory_id]
    assert math.isclose(again.confidence, learnt.confidence + 0.1, abs_tol=0.001)
    faded = again.decay(again.last_seen_at + memalchemy.memory.facts.HALF_LIFE)
    assert math.isclose(faded.confidence, again.confidence / 2, rel_tol=0.001)


async def test_c2_concurrent_updates_lose_nothing(db: Database, reopen: OPEN) -> None:
    other = reopen()
    one, two = memalchemy.UserMemoryStore(db), memalchemy.UserMemoryStore(other)
    for n in range(8):
        await one.add(fact(str(n), "tea", confidence=0.5))
        await asyncio.gather(
            one.update("ada", str(n), content="coffee"),
            two.update("ada", str(n), confidence=0.25),
            one.update("ada", str(n), topics=["drinks"]),
        )

    found = [(f.content, round(f.confidence, 2), f.topics) for f in await two.list("ada")]
    assert found == [("coffee", 0.25, ("drinks",))] * 8
    await other.close()


async def test_c3_a_fact_is_its_owners_whatever_its_id(db: Database) -> None:
    facts = memalchemy.UserMemoryStore(db)
    await facts.add(fact("1", "ada's", "ada"))
    await facts.add(fact("1", "eve's", "eve"))
    await facts.update("eve", "1", content="stolen")
    await facts.delete("eve", "1")

    found = await facts.get("ada", "1")
    assert found is not None
    assert found.content == "ada's"


async def test_c4_a_failed_statement_locks_nobody_out_and_is_an_error_of_the_library(
    db: Database, reopen: OPEN
) -> None:
    other = reopen()
    facts = memalchemy.UserMemoryStore(other)
    await facts.add(fact("1", "tea"))
    insert = text("INSERT INTO store_items (tenant) VALUES (NULL)")
    with pytest.raises(MemalchemyError):
        await db.run_sync(lambda connection: connection.execute(insert))

    async with asyncio.timeout(60):
        await facts.add(fact("2", "milk"))
        await memalchemy.UserMemoryStore(db).add(fact("3", "rice"))
    assert await facts.count("ada") == 3
    await other.close()


@pytest.mark.asyncio_only("without await there is one event loop")
def test_c5_a_second_event_loop_works_under_contention(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/agent.db")
    facts, documents = memalchemy.UserMemoryStore(db), memalchemy.VectorStore(db)

    async def work(begin: int) -> None:
        await asyncio.gather(
            *(facts.add(fact(str(n), "tea")) for n in range(begin, begin + 20)),
            *(documents.upsert("tea", id=str(n)) for n in range(begin, begin + 20)),
        )

    async def counts() -> tuple[int, int]:
        try:
            return await facts.count("ada"), await documents.count()
        finally:
            await db.close()

    asyncio.run(work(0))
    asyncio.run(work(20))
    assert asyncio.run(counts()) == (40, 40)


async def test_c6_a_document_with_a_vector_is_found_by_it_and_by_its_text(db: Database) -> None:
    documents = memalchemy.VectorStore(db)
    await documents.upsert("oolong", id="a", embedding=[0.0, 0.0, 0.0, 1.0])
    await documents.upsert("green", id="b", embedding=[1.0, 0.0, 0.0, 0.0])

    assert [one.id for one in await documents.search("oolong")] == ["a"]
    near = await documents.search(embedding=[0.9, 0.0, 0.0, 0.1])
    assert near[0].id == "b"
    assert await documents.search("3") == [], "a word is no dimension"


async def test_c7_one_document_has_a_score_and_any_script_is_found_and_nothing_else(
    db: Database,
) -> None:
    documents = memalchemy.VectorStore(db)
    await documents.upsert("東京タワー", id="ja")
    (found,) = await documents.search("東京")
    assert found.score > 0
    await documents.upsert("Привет, мир", id="ru")
    await documents.upsert("שלום עולם", id="he")

    for query, wanted in (("東京", "ja"), ("привет", "ru"), ("שלום", "he")):
        assert [one.id for one in await documents.search(query, k=10)] == [wanted]


def test_c8_what_another_process_writes_is_found(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    program = (
        "import sys, memalchemy.sync as m\n"
        "with m.Database(sys.argv[1]) as db:\n"
        "    m.VectorStore(db).upsert('written elsewhere', id='b', embedding=[0.0, 1.0])\n"
    )
    with memalchemy.sync.Database(url) as db:
        documents = memalchemy.sync.VectorStore(db)
        documents.upsert("written here", id="a", embedding=[1.0, 0.0])
        assert [one.id for one in documents.search("written")] == ["a"]
        assert documents.search(embedding=[0.0, 1.0]) == []
        subprocess.run([sys.executable, "-c", program, url], check=True)

        assert sorted(one.id for one in documents.search("written")) == ["a", "b"]
        assert [one.id for one in documents.search(embedding=[0.0, 1.0])] == ["b"]


async def test_c10_words_are_found_in_any_order_and_only_the_facts_that_hold_them_are_read(
    db: Database,
) -> None:
    facts = memalchemy.UserMemoryStore(db)
    await facts.add(fact("1", "User likes green tea"))
    for n in range(2, 30):
        await facts.add(fact(str(n), "x" * 4000 + f" number {n}"))

    read: list[int] = []
    end = memalchemy.events.subscribe(lambda event: read.append(event.round_trips))
    found = await facts.search("ada", "tea likes")
    end()
    assert [one.memory_id for one in found] == ["1"]
    assert sum(read) <= 2


async def test_c11_facts_are_records_and_topics_are_equal_or_not(db: Database) -> None:
    facts = memalchemy.UserMemoryStore(db)
    topics = ["Food"]
    given = fact("1", "tea", topics=topics)
    await facts.add(given)
    topics.append("cars")
    found = await facts.get("ada", "1")
    assert found is not None

    assert given.topics == found.topics == ("Food",)
    assert found is not given
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.content = "coffee"  # type: ignore[misc]
    assert len(await facts.list("ada", "food")) == 1
    assert await facts.list("ada", "foo") == []


@pytest.mark.parametrize("name", ["x'; DROP TABLE store_items; --", 'x" OR 1=1 --', "%", "{0}"])
async def test_c13_no_name_becomes_sql(db: Database, name: str) -> None:
    facts = memalchemy.UserMemoryStore(db, namespace=(name,))
    documents = memalchemy.VectorStore(db, namespace=(name,))
    await facts.add(fact(name, name, name, topics=[name]))
    await documents.upsert(name, id=name, metadata={name: name})

    assert [one.memory_id for one in await facts.list(name, name)] == [name]
    found = await documents.get(name)
    assert found is not None
    assert found.metadata == {name: name}
    assert await memalchemy.UserMemoryStore(db).list(name) == []
    with pytest.raises(TypeError, match="table_prefix"):
        await memalchemy.Database("sqlite://", table_prefix=name).check()


async def test_a_fact_fades_with_time_and_grows_surer_when_it_is_said_again(
    db: Database,
) -> None:
    given = fact("1", "likes tea", confidence=0.8, last_seen_at=NOW, created_at=NOW)
    store = UserMemoryStore(db)
    await store.add(given)
    surer = await store.reinforce("ada", "1", 0.1)

    assert given.decay(NOW + timedelta(days=90)).confidence == pytest.approx(0.4, abs=0.01)
    assert given.reinforce().confidence == pytest.approx(0.9, abs=0.01)
    assert given.confidence == 0.8, "a fact is frozen"
    assert surer is not None
    assert surer.confidence == pytest.approx(0.9, abs=0.01)
    assert await store.reinforce("bob", "1") is None


async def test_a_model_extracts_facts_which_a_prompt_then_tells(db: Database) -> None:
    async def llm(prompt: str) -> str:
        return '[{"content": "likes tea", "topics": ["drinks"]}]' if "tea" in prompt else "no JSON"

    store = UserMemoryStore(db)
    await store.learn("ada", [user("I like tea")], llm=llm)
    known = [fact("1", "likes <b>tea"), fact("2", "?", confidence=0.1)]
    told = build_memory_context(known)

    assert await extract_facts("I like tea", llm) == [
        {"content": "likes tea", "topics": ["drinks"]}
    ]
    assert await extract_facts("hello", llm) == []
    assert [one.content for one in await store.list("ada")] == ["likes tea"]
    assert told.startswith("## What I remember about you:\n- likes &lt;b>tea (confidence: high)")
    assert "(confidence: low)" in told
    assert build_memory_context([]) == ""
    assert "likes tea" in str(await store.recall("ada", [user("tea?")], 5))


async def test_sql_of_the_host_runs_in_the_transaction_of_a_write(db: Database) -> None:
    count = text("SELECT count(*) FROM store_items WHERE key = 'k' AND tenant = :tenant")
    async with db.transaction() as tx:
        await Store(db).put(("a",), "k", 1, connection=tx)
        found = await tx.execute(count, {"tenant": db.tenant})
        assert found.scalar() == 1

    again = await db.run_sync(lambda c: c.execute(count, {"tenant": db.tenant}).fetchall())
    assert again == [(1,)]


async def test_a_file_that_is_no_database_is_an_error_with_a_code(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_bytes(b"this is no database" * 100)
    db = Database(f"sqlite:///{tmp_path}/no.db")
    with pytest.raises(MemalchemyError) as caught:
        await Store(db).get(("a",), "k")

    assert caught.value.code.startswith("MA-")
    assert issubclass(DatabaseUnreachable, MemalchemyError)
    await db.close()
