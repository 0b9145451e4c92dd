"""What Strands' own file-based session managers and storages keep is imported."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from strands import Agent
from strands.session.file_session_manager import FileSessionManager
from strands.session.repository_session_manager import RepositorySessionManager
from strands.session.snapshot_session_manager import SnapshotSessionManager
from strands.storage import LocalFileStorage
from strands.types.session import SessionMessage
from strands_scripted import Scripted
from typer.testing import CliRunner

from memalchemy import Database, DatabaseUnreachable, NotFound, Store
from memalchemy.cli.app import app
from memalchemy.importers.sources import SOURCES
from memalchemy.importers.target import ImportOutcome, ImportTarget
from memalchemy.integrations.strands import MemalchemySessionRepository, MemalchemyStorage

SOURCE = SOURCES["strands"]


class Group:
    """A group of agents, as far as a session manager asks it."""

    id = "crew"

    def serialize_state(self) -> dict[str, Any]:
        return {"status": "executing", "order": ["a", "b"], "n": 2**60}


def talk(directory: Path, *steps: str) -> Agent:
    manager = FileSessionManager("s1", storage_dir=str(directory))
    agent = Agent(
        model=Scripted(*steps), agent_id="guide", session_manager=manager, callback_handler=None
    )
    for step in steps:
        agent(f"say {step}")
    return agent


def fill(directory: Path) -> FileSessionManager:
    """Two sessions; one has an agent that ran, one with bytes, and a group."""
    talk(directory, "one", "two é").state.set("mood", "calm")
    manager = FileSessionManager("s1", storage_dir=str(directory))
    image: Any = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    Agent(
        model=Scripted(),
        agent_id="painter",
        session_manager=manager,
        messages=[{"role": "user", "content": [image]}],
        callback_handler=None,
    )
    if not manager.list_messages("s1", "painter"):
        message = SessionMessage({"role": "user", "content": [image]}, 0)
        manager.create_message("s1", "painter", message)
    redacted = manager.read_message("s1", "guide", 2)
    assert redacted is not None
    redacted.redact_message = {"role": "user", "content": [{"text": "redacted"}]}
    manager.update_message("s1", "guide", redacted)
    manager.create_multi_agent("s1", Group())  # type: ignore[arg-type]
    FileSessionManager("s2", storage_dir=str(directory))
    return manager


def content(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


async def imported(place: Path, db: Database, **options: Any) -> list[ImportOutcome]:
    target = ImportTarget(db, **options)
    async with aclosing(SOURCE.read(str(place))) as records:
        return [await target.write(record) async for record in records]


async def test_sessions_read_as_they_did(tmp_path: Path, db: Database) -> None:
    theirs = await asyncio.to_thread(fill, tmp_path)
    before = content(tmp_path)
    dry = await imported(tmp_path, db, dry_run=True)
    assert not await Store(db).list_namespaces()
    done = await imported(tmp_path, db)

    assert done == dry
    assert content(tmp_path) == before
    assert {one.status for one in done} == {"imported"}
    assert len(done) == await SOURCE.count(str(tmp_path)) == 5
    assert {one.name: one.written for one in done}["agent guide of session s1"] == 5
    ours = MemalchemySessionRepository(db)
    for session in ("s1", "s2"):
        assert await ours.aread_session(session) == theirs.read_session(session)
    for agent in ("guide", "painter"):
        assert await ours.aread_agent("s1", agent) == theirs.read_agent("s1", agent)
        expected = theirs.list_messages("s1", agent)
        assert await ours.alist_messages("s1", agent) == expected
        times = [entry.occurred_at for entry in await ours.messages(agent).range("s1")]
        assert times == [datetime.fromisoformat(one.created_at) for one in expected]
    assert await ours.aread_multi_agent("s1", "crew") == theirs.read_multi_agent("s1", "crew")
    again = await imported(tmp_path, db)
    assert {(one.status, one.written) for one in again} == {("unchanged", 0)}


async def test_an_agent_goes_on_with_an_imported_session(tmp_path: Path, db: Database) -> None:
    await asyncio.to_thread(talk, tmp_path, "one")
    await imported(tmp_path, db)
    # The session goes on in its files, and then here.
    await asyncio.to_thread(talk, tmp_path, "two")
    done = {one.name: one for one in await imported(tmp_path, db)}
    agent = done["agent guide of session s1"]
    assert (agent.status, agent.written) == ("resumed", 3)
    assert done["session s1"].status == "unchanged"

    model = Scripted("three")
    manager = RepositorySessionManager("s1", MemalchemySessionRepository(db))
    goes_on = Agent(model=model, agent_id="guide", session_manager=manager, callback_handler=None)
    await goes_on.invoke_async("and?")
    assert model.heard == [["say one", "one", "say two", "two", "and?"]]
    assert {one.status for one in await imported(tmp_path, db)} == {"unchanged"}

    await asyncio.to_thread(talk, tmp_path, "elsewhere")
    done = {one.name: one for one in await imported(tmp_path, db)}
    assert done["agent guide of session s1"].status == "conflict"
    ours = MemalchemySessionRepository(db)
    assert len(await ours.alist_messages("s1", "guide")) == 6
    await imported(tmp_path, db, on_conflict="replace")
    texts = [one.message["content"][0]["text"] for one in await ours.alist_messages("s1", "guide")]
    assert texts[-2:] == ["say elsewhere", "elsewhere"]


async def test_files_that_nobody_can_read_are_counted(tmp_path: Path, db: Database) -> None:
    await asyncio.to_thread(talk, tmp_path, "one", "two")
    messages = tmp_path / "session_s1" / "agents" / "agent_guide" / "messages"
    (messages / "message_1.json").write_text("{")
    (messages / "message_2.json").unlink()
    (messages / "message_2.json").symlink_to(messages / "message_0.json")
    (tmp_path / "session_bad").mkdir()
    (tmp_path / "session_bad" / "session.json").write_text("[]")

    done = {one.name: one for one in await imported(tmp_path, db)}
    assert done["agent guide of session s1"].unreadable == 2
    assert done["session bad"].unreadable == 1
    ours = MemalchemySessionRepository(db)
    assert [one.message_id for one in await ours.alist_messages("s1", "guide")] == [0, 3]
    assert await ours.aread_session("bad") is None


def snap(storage: Any, *steps: str) -> list[list[str]]:
    model = Scripted(*steps)
    manager = SnapshotSessionManager("s1", storage=storage, snapshot_trigger=lambda *_, **__: True)
    agent = Agent(model=model, agent_id="guide", session_manager=manager, callback_handler=None)
    for step in steps:
        agent(f"say {step}")
    return model.heard


async def test_snapshots_and_other_values_of_a_storage_are_imported(
    tmp_path: Path, db: Database
) -> None:
    theirs = LocalFileStorage(str(tmp_path))
    await asyncio.to_thread(snap, theirs, "one", "two")
    await theirs.write("notes/é.md", b"Mend the gate")
    await theirs.write("raw.bin", b"\xff\x00")
    (tmp_path / ".__strands_tmp_1").write_text("a write that was killed")
    for name in content(tmp_path):
        os.utime(name, (1_600_000_000, 1_600_000_000))
    before = content(tmp_path)
    done = await imported(tmp_path, db)

    assert {one.status for one in done} == {"imported"}
    assert len(done) == await SOURCE.count(str(tmp_path)) == len(before) - 1
    assert content(tmp_path) == before
    ours = MemalchemyStorage(db)
    keys = await theirs.list("")
    assert await ours.list("") == sorted(keys)
    for key in keys:
        assert await ours.read(key) == await theirs.read(key)
    (hit,) = await ours.search("gate")
    assert hit.key == "notes/é.md"
    item = await ours.store.get_item(("strands", "storage"), "raw.bin")
    assert item is not None
    assert item.updated_at == datetime.fromtimestamp(1_600_000_000, UTC)
    assert {one.status for one in await imported(tmp_path, db)} == {"unchanged"}

    heard = await asyncio.to_thread(snap, ours, "three")
    assert heard == [["say one", "one", "say two", "two", "say three"]]
    assert {one.status for one in await imported(tmp_path, db)} == {"unchanged"}
    await asyncio.to_thread(snap, theirs, "four")
    statuses = {one.status for one in await imported(tmp_path, db)}
    assert statuses == {"unchanged", "imported", "resumed"}
    await asyncio.to_thread(ours.wait, db.close())  # connections of agents' calls without await


async def test_a_place_with_nothing_of_it_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreachable, match="there is no directory"):
        await SOURCE.count(str(tmp_path / "none"))
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(NotFound, match="neither sessions nor snapshots of Strands'"):
        await SOURCE.count(str(tmp_path))


async def test_the_command_imports_with_a_prefix(tmp_path: Path) -> None:
    await asyncio.to_thread(talk, tmp_path / "sessions", "one")
    await asyncio.to_thread(snap, LocalFileStorage(str(tmp_path / "storage")), "one")
    command = ["--db", f"sqlite:///{tmp_path}/ours.db", "--json", "import", "strands"]
    for name in ("sessions", "storage"):
        options = ["--from", str(tmp_path / name), "--prefix", "old-"]
        done = await asyncio.to_thread(
            CliRunner().invoke, app, [*command, *options], catch_exceptions=False
        )
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["records"]["imported"] == 2
    async with Database(f"sqlite:///{tmp_path}/ours.db") as db:
        ours = MemalchemySessionRepository(db)
        session = await ours.aread_session("old-s1")
        assert session is not None
        assert session.session_id == "old-s1"
        assert len(await ours.alist_messages("old-s1", "guide")) == 2
        keys = await MemalchemyStorage(db).list("")
        assert all("old-s1/scopes/agent/guide/snapshots/" in key for key in keys)
