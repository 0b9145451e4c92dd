"""What LazyBridge, lauren-ai and llm-agents-from-scratch stored themselves is imported."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lazybridge
import pytest
from lauren_ai import MemoryFact
from lauren_ai._memory import SQLiteConversationStore, SQLiteUserMemoryStore, SQLiteVectorStore
from lauren_ai._memory._sqlite import SQLiteStoreConfig
from llm_agents_from_scratch.data_structures import Episode, Task, TaskResult
from llm_agents_from_scratch.memory_stores.json import JSONMemoryStore
from typer.testing import CliRunner

from memalchemy import Database, DatabaseUnreachable, NotFound, Store
from memalchemy.cli.app import app
from memalchemy.importers.sources import SOURCES
from memalchemy.importers.target import ImportOutcome, ImportTarget
from memalchemy.integrations.lauren_ai import (
    MemalchemyConversationStore,
    MemalchemyUserMemoryStore,
    MemalchemyVectorStore,
)
from memalchemy.integrations.lazybridge import MemalchemyStore
from memalchemy.integrations.llm_agents_from_scratch import MemalchemyMemoryStore

OLD = datetime(2021, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """A place for each source, filled by the system itself."""
    return {
        "lazybridge": str(_lazybridge(tmp_path / "lazybridge.db")),
        "lauren-ai": str(tmp_path / "lauren.db"),
        "llm-agents-from-scratch": str(tmp_path),
    }


def _lazybridge(path: Path) -> Path:
    with lazybridge.Store(db=str(path)) as store:
        for number in range(502):
            store.write(f"key{number:03}", {"n": number})
        store.write("plan", [1.5, None, "é"], agent_id="planner")
        turns = [{"role": "user", "content": "Where is my parcel?"}]
        store.write_memory("planner", turns=turns, summary="a parcel", session_key="s1")
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE store SET written_at = ?", [OLD.timestamp()])
        raw.execute("UPDATE agent_memory SET updated_at = ?", [OLD.timestamp()])
    return path


def lauren(path: str) -> SQLiteStoreConfig:
    """lauren-ai's settings without its pragmas.

    It runs ``PRAGMA journal_mode`` in a thread that may still hold the cursor at the next commit,
    which then fails: "SQL statements in progress".
    """
    return SQLiteStoreConfig(path, pragmas=())


async def fill(places: dict[str, str]) -> None:
    path = places["lauren-ai"]
    talks = SQLiteConversationStore(config=lauren(path))
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    await talks.save("c1", {"messages": messages, "summary": "greetings"})
    await talks.save("c2", [{"role": "user", "content": "A flight"}])
    facts = SQLiteUserMemoryStore(config=lauren(path))
    await facts.add(
        MemoryFact(
            memory_id="f1",
            user_id="ada",
            content="Ada likes tea",
            topics=["tea"],
            confidence=0.75,
            created_at=OLD,
            last_seen_at=OLD + timedelta(days=1),
        )
    )
    documents = SQLiteVectorStore(config=lauren(path))
    await documents.upsert("A copper kettle", id="d1", metadata={"n": 1}, embedding=[0.5, 0.25])
    for store in (talks, facts, documents):
        await store.close()
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE conversations SET updated_at = ?", [OLD.isoformat()])
        raw.execute("UPDATE memory_documents SET created_at = ?", [OLD.isoformat()])
    episodes = JSONMemoryStore(Path(places["llm-agents-from-scratch"]))
    for number in range(3):
        await episodes.write(
            Episode(
                id_=f"e{number}",
                task=Task(id_=f"t{number}", instruction=f"task {number}"),
                rollout="did it",
                result=TaskResult(task_id=f"t{number}", content="done"),
                completed_at=datetime(2021, 1, 1 + number),
                metadata={"tool": "pen"},
            )
        )


async def imported(name: str, place: str, db: Database, **options: Any) -> list[ImportOutcome]:
    target = ImportTarget(db, **options)
    return [await target.write(record) async for record in SOURCES[name].read(place)]


@pytest.fixture
async def filled(places: dict[str, str]) -> AsyncIterator[dict[str, str]]:
    await fill(places)
    before = {name: content(place) for name, place in places.items()}
    yield places
    assert {name: content(place) for name, place in places.items()} == before, "nothing changed"


def content(place: str) -> list[str]:
    path = Path(place)
    if path.is_dir():
        return (path / "episodes.jsonl").read_text().splitlines()
    with closing(sqlite3.connect(path)) as raw:
        return list(raw.iterdump())


@pytest.mark.parametrize("name", ["lazybridge", "lauren-ai", "llm-agents-from-scratch"])
async def test_an_import_is_complete_counted_and_not_repeated(
    filled: dict[str, str], db: Database, name: str
) -> None:
    dry = await imported(name, filled[name], db, dry_run=True)
    assert not await Store(db).list_namespaces()
    first = await imported(name, filled[name], db)

    assert first == dry
    assert {outcome.status for outcome in first} == {"imported"}
    assert len(first) == await SOURCES[name].count(filled[name])
    again = await imported(name, filled[name], db)
    assert {(outcome.status, outcome.written) for outcome in again} == {("unchanged", 0)}


async def test_keys_and_memories_of_lazybridge_read_as_they_did(
    filled: dict[str, str], db: Database
) -> None:
    await imported("lazybridge", filled["lazybridge"], db)

    ours = MemalchemyStore(db)
    with lazybridge.Store(db=filled["lazybridge"]) as theirs:
        assert ours.read_all() == theirs.read_all()
        assert ours.read_entry("plan") == theirs.read_entry("plan")
        assert ours.read_memory("planner", session_key="s1") == theirs.read_memory(
            "planner", session_key="s1"
        )
    history = [one async for one in ours.memories("planner").history("s1")]
    assert [one.occurred_at for one in history] == [OLD]


async def test_a_memory_of_lazybridge_that_went_on_here_is_left(
    filled: dict[str, str], db: Database
) -> None:
    await imported("lazybridge", filled["lazybridge"], db)
    MemalchemyStore(db).write_memory("planner", turns=[], summary="later", session_key="s1")

    again = await imported("lazybridge", filled["lazybridge"], db, on_conflict="replace")
    assert again[-1].status == "unchanged"
    found = MemalchemyStore(db).read_memory("planner", session_key="s1")
    assert found is not None
    assert found["summary"] == "later"


async def test_conversations_facts_and_documents_of_lauren_ai_read_as_they_did(
    filled: dict[str, str], db: Database
) -> None:
    path = filled["lauren-ai"]
    await imported("lauren-ai", path, db)

    ours, theirs = MemalchemyConversationStore(db), SQLiteConversationStore(config=lauren(path))
    for name in ("c1", "c2"):
        assert await ours.load(name) == await theirs.load(name)
    assert {entry.occurred_at for entry in await ours.native.log.range("c1")} == {OLD}
    facts, known = MemalchemyUserMemoryStore(db), SQLiteUserMemoryStore(config=lauren(path))
    assert await facts.list("ada") == await known.list("ada")
    documents, found = MemalchemyVectorStore(db), SQLiteVectorStore(config=lauren(path))
    assert await documents.get("d1") == await found.get("d1")
    assert (await documents.search("", embedding=[0.5, 0.25]))[0].id == "d1"
    item = await Store(db).get_item(("lauren", "documents"), "d1")
    assert item is not None
    assert item.created_at == OLD
    for store in (theirs, known, found):
        await store.close()


async def test_a_conversation_of_lauren_ai_that_went_on_here_is_left_and_another_is_a_conflict(
    filled: dict[str, str], db: Database
) -> None:
    path = filled["lauren-ai"]
    ours = MemalchemyConversationStore(db)
    await ours.save("c2", [{"role": "user", "content": "something else"}])
    await imported("lauren-ai", path, db)
    went_on = await ours.load("c1")
    went_on["messages"].append({"role": "user", "content": "more"})
    await ours.save("c1", went_on)

    done = {one.name: one for one in await imported("lauren-ai", path, db)}
    assert done["conversation c1"].status == "unchanged"
    assert done["conversation c2"].status == "conflict"
    assert (await ours.load("c2"))["messages"][0]["content"] == "something else"


async def test_episodes_of_llm_agents_from_scratch_read_as_they_did_and_bad_lines_are_counted(
    places: dict[str, str], db: Database
) -> None:
    await fill(places)
    place = places["llm-agents-from-scratch"]
    with (Path(place) / "episodes.jsonl").open("a") as lines:
        lines.write("no JSON\n\n")
    done = await imported("llm-agents-from-scratch", place, db)

    assert [one.unreadable for one in done] == [0, 0, 0, 1]
    ours = MemalchemyMemoryStore(db)
    for episode in JSONMemoryStore(Path(place), "none")._episodes or []:
        assert await ours.get(episode.id_) == episode
    assert await ours.count() == 3
    read = await ours.get("e1")
    assert read is not None
    assert (read.completed_at, read.task.instruction) == (datetime(2021, 1, 2), "task 1")


@pytest.mark.parametrize("name", ["lazybridge", "lauren-ai", "llm-agents-from-scratch"])
async def test_a_place_with_nothing_of_it_is_an_error_that_says_so(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises((NotFound, DatabaseUnreachable), match=r"there is no file|cannot be read"):
        await SOURCES[name].count(str(tmp_path / "none"))
    empty = tmp_path / "empty.db"
    with closing(sqlite3.connect(empty)) as raw:
        raw.execute("CREATE TABLE other (id int)")
    if name != "llm-agents-from-scratch":
        with pytest.raises(NotFound, match="no table"):
            await SOURCES[name].count(str(empty))


async def test_the_command_imports_them(filled: dict[str, str], tmp_path: Path) -> None:
    def call(*arguments: str) -> Any:
        command = ["--db", f"sqlite:///{tmp_path}/ours.db", "import", *arguments]
        return asyncio.to_thread(CliRunner().invoke, app, command, catch_exceptions=False)

    done = await call("lazybridge", "--from", filled["lazybridge"], "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["written"] == 504
    done = await call("llm-agents-from-scratch", "--from", filled["llm-agents-from-scratch"])
    assert "3 records: 3 imported" in done.stdout
    assert (await call("lauren-ai", "--from", str(tmp_path / "none.db"))).exit_code == 3
    assert (await call("lauren-ai")).exit_code == 2
    assert (await call("lauren-ai", "--from", "x", "--messages-table", "y")).exit_code == 2
