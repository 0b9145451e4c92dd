"""Transcripts of Claude Code are imported as the SDK's own import does, and resumed from there."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    InMemorySessionStore,
    get_session_messages_from_store,
    import_session_to_store,
    list_sessions_from_store,
    project_key_for_directory,
)
from claude_agent_sdk._internal.session_resume import materialize_resume_session
from typer.testing import CliRunner

from memalchemy import Database, DatabaseUnreachable, NotFound, Store
from memalchemy.cli.app import app
from memalchemy.importers.sources import SOURCES
from memalchemy.importers.target import ImportOutcome, ImportTarget
from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

SOURCE = SOURCES["claude-code"]
S1 = "11111111-1111-4111-8111-111111111111"
S2 = "22222222-2222-4222-8222-222222222222"


def said(number: int, words: str, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {
        "parentUuid": f"u{number - 1}" if number else None,
        "type": role,
        "message": {"role": role, "content": words},
        "uuid": f"u{number}",
        "timestamp": f"2024-03-04T05:06:{number % 60:02}.250Z",
        "sessionId": S1,
    } | fields


def as_lines(*lines: dict[str, Any]) -> str:
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The directory in which the sessions ran."""
    (tmp_path / "my work").mkdir()
    return tmp_path / "my work"


@pytest.fixture
def projects(tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two projects: one with two sessions, of which one has subagents, and one with one."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    projects = tmp_path / "claude" / "projects"
    project = projects / project_key_for_directory(work)
    agents = project / S1 / "subagents"
    (agents / "workflows" / "run-1").mkdir(parents=True)
    (project / f"{S1}.jsonl").write_text(
        as_lines(
            {"type": "file-history-snapshot", "snapshot": {"n": 1.5}},
            said(0, "Mend the gate é", cwd=str(work)),
            {"type": "custom-title", "customTitle": "The gate", "sessionId": S1},
            said(1, "Mended \ud800.", "assistant"),
            said(0, "Mend the gate é", cwd=str(work)),
        ).replace("\ud800", "\\ud800")
    )
    (agents / "agent-a.jsonl").write_text(as_lines(said(5, "look", isSidechain=True)))
    (agents / "agent-a.meta.json").write_text('{"agentType": "finder", "type": "x"}')
    (agents / "workflows" / "run-1" / "agent-b.jsonl").write_text(as_lines(said(6, "see")))
    (project / f"{S2}.jsonl").write_text(as_lines(said(0, "Another", sessionId=S2)))
    other = projects / "-home-ada-other"
    other.mkdir()
    (other / f"{S1}.jsonl").write_text(as_lines(said(0, "Elsewhere")))
    for seconds, file in enumerate([project / f"{S1}.jsonl", project / f"{S2}.jsonl"]):
        os.utime(file, (1_700_000_000 + seconds, 1_700_000_000 + seconds))
    return projects


def content(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


async def imported(place: Path | str, db: Database, **options: Any) -> list[ImportOutcome]:
    target = ImportTarget(db, **options)
    async with aclosing(SOURCE.read(str(place))) as records:
        return [await target.write(record) async for record in records]


async def test_a_store_holds_what_the_sdk_imports(projects: Path, work: Path, db: Database) -> None:
    before = content(projects)
    dry = await imported(projects, db, dry_run=True)
    assert not await Store(db).list_namespaces()
    done = await imported(projects, db)
    assert done == dry
    assert {one.status for one in done} == {"imported"}
    assert len(done) == await SOURCE.count(str(projects)) == 5
    assert content(projects) == before

    theirs, ours = InMemorySessionStore(), MemalchemySessionStore(db)
    for session in (S1, S2):
        await import_session_to_store(session, theirs, directory=str(work))
    key = project_key_for_directory(work)
    for session in (S1, S2):
        main: Any = {"project_key": key, "session_id": session}
        expected = await theirs.load(main)
        assert expected is not None
        # A line that is there twice is stored once, by its uuid.
        assert await ours.load(main) == expected[: 4 if session == S1 else 1]
        subpaths = await ours.list_subkeys(main)
        assert subpaths == sorted(await theirs.list_subkeys(main))
        for subpath in subpaths:
            assert await ours.load({**main, "subpath": subpath}) == await theirs.load(
                {**main, "subpath": subpath}
            )
    listed = await list_sessions_from_store(ours, str(work))
    assert [(one.session_id, one.custom_title) for one in listed] == [(S2, None), (S1, "The gate")]
    assert await ours.load({"project_key": "-home-ada-other", "session_id": S1})

    entries = await ours.transcript({"project_key": key, "session_id": S1}).range(S1)
    first, second = (datetime(2024, 3, 4, 5, 6, second, 250_000, tzinfo=UTC) for second in (0, 1))
    assert [entry.occurred_at for entry in entries] == [first, first, first, second]
    again = await imported(projects, db)
    assert {(one.status, one.written) for one in again} == {("unchanged", 0)}


async def test_an_imported_session_is_resumed_from_the_store(
    projects: Path, work: Path, db: Database
) -> None:
    await imported(projects, db)
    store = MemalchemySessionStore(db)
    options = ClaudeAgentOptions(session_store=store, resume=S1, cwd=str(work))
    made = await materialize_resume_session(options)

    assert made is not None
    directory = Path(made.config_dir) / "projects" / project_key_for_directory(work)
    lines = (directory / f"{S1}.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines] == [
        "file-history-snapshot",
        "user",
        "custom-title",
        "assistant",
    ]
    meta = json.loads((directory / S1 / "subagents" / "agent-a.meta.json").read_text())
    assert meta["agentType"] == "finder"
    await made.cleanup()
    messages = await get_session_messages_from_store(store, S1, str(work))
    assert [one.type for one in messages] == ["user", "assistant"]


async def test_a_session_that_is_being_written_is_completed_by_the_next_import(
    projects: Path, work: Path, db: Database
) -> None:
    project = projects / project_key_for_directory(work)
    file = project / f"{S2}.jsonl"
    undated = {"type": "summary", "summary": "once"}
    torn = as_lines(said(2, "torn é"))
    with file.open("a") as opened:
        opened.write(as_lines(undated) + torn[:-9])
    first = {one.name: one for one in await imported(project, db)}[f"session {S2}"]
    assert (first.status, first.written, first.unreadable) == ("imported", 2, 0)

    with file.open("a") as opened:
        opened.write(torn[-9:] + as_lines(undated, said(3, "more")))
    then = {one.name: one for one in await imported(project, db)}[f"session {S2}"]
    assert (then.status, then.written) == ("resumed", 3)
    store = MemalchemySessionStore(db)
    stored = await store.load({"project_key": project.name, "session_id": S2})
    assert stored == [json.loads(line) for line in file.read_text().splitlines()]
    (summary,) = [
        one for one in await store.list_session_summaries(project.name) if one["session_id"] == S2
    ]
    assert summary["data"]["summary_hint"] == "once"

    meta = project / S1 / "subagents" / "agent-a.meta.json"
    meta.write_text('{"agentType": "other"}')
    with (project / S1 / "subagents" / "agent-a.jsonl").open("a") as opened:
        opened.write(as_lines(said(7, "again")))
    done = {one.name: one.status for one in await imported(project, db)}
    assert done[f"session {S1}, subagents/agent-a"] == "resumed"
    assert {*done.values()} == {"resumed", "unchanged"}
    assert {one.status for one in await imported(project, db)} == {"unchanged"}


async def test_a_session_that_went_on_in_the_store_is_left(
    projects: Path, work: Path, db: Database
) -> None:
    file = projects / project_key_for_directory(work) / f"{S2}.jsonl"
    await imported(file, db)
    store = MemalchemySessionStore(db)
    key: Any = {"project_key": file.parent.name, "session_id": S2}
    await store.append(key, [said(9, "on")])  # type: ignore[list-item]
    assert [one.status for one in await imported(file, db)] == ["unchanged"]
    assert len(await store.load(key) or ()) == 2

    with file.open("a") as opened:
        opened.write(as_lines(said(4, "elsewhere")))
    assert [one.status for one in await imported(file, db)] == ["conflict"]
    assert len(await store.load(key) or ()) == 2
    assert [one.status for one in await imported(file, db, on_conflict="replace")] == ["replaced"]
    assert [one["uuid"] for one in await store.load(key) or ()] == ["u0", "u4"]  # type: ignore[typeddict-item]


async def test_lines_that_are_no_json_are_counted_and_a_long_session_is_whole(
    tmp_path: Path, db: Database
) -> None:
    file = tmp_path / "-p" / f"{S1}.jsonl"
    file.parent.mkdir()
    lines = [said(number, "w") for number in range(1_203)]
    file.write_text(as_lines(*lines[:7]) + "{broken\n[]\n\n" + as_lines(*lines[7:]))
    (tmp_path / "-p" / f"{S2}.jsonl").write_text("")

    done = {one.name: one for one in await imported(tmp_path / "-p", db)}
    one = done[f"session {S1}"]
    assert (one.status, one.written, one.unreadable) == ("imported", 1_203, 2)
    assert (done[f"session {S2}"].status, done[f"session {S2}"].written) == ("unchanged", 0)
    store = MemalchemySessionStore(db)
    assert await store.load({"project_key": "-p", "session_id": S1}) == lines


async def test_a_place_with_nothing_of_it_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreachable, match="there is no"):
        await SOURCE.count(str(tmp_path / "none"))
    with pytest.raises(NotFound, match="no transcripts of Claude Code's"):
        await SOURCE.count(str(tmp_path))
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(NotFound, match="no transcripts of Claude Code's"):
        await SOURCE.count(str(tmp_path / "notes.txt"))


async def test_the_command_imports_a_directory_of_projects(projects: Path, tmp_path: Path) -> None:
    command = ["--db", f"sqlite:///{tmp_path}/ours.db", "import", "claude-code"]
    done = await asyncio.to_thread(
        CliRunner().invoke, app, [*command, "--from", str(projects)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.stderr
    assert "5 records: 5 imported" in done.stdout
    assert "8 entries" in done.stdout
