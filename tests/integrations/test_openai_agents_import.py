"""Import of the SDK's own tables, filled by its own sessions, into every database."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession, SQLAlchemySession
from scripted_model import Scripted, run, said, texts
from typer.testing import CliRunner

from memalchemy import Database, NotFound
from memalchemy.cli.app import app
from memalchemy.importers.openai_agents import BranchOutcome, count_sessions, import_sessions
from memalchemy.integrations.openai_agents import MemalchemySession, MemalchemySessions


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A file of `SQLiteSession` with two sessions."""
    file = tmp_path / "conversations.db"
    for session_id, length in (("a", 3), ("b", 1_100)):
        session = SQLiteSession(session_id, file)
        await session.add_items([said("user", f"{session_id}{n}") for n in range(length)])
        session.close()
    return file


async def imported(source: Path | str, db: Database, **options: Any) -> list[BranchOutcome]:
    url = f"sqlite:///{source}" if isinstance(source, Path) else source
    async with Database(url, migrate="off") as old:
        return [outcome async for outcome in import_sessions(old, db, **options)]


def statuses(outcomes: list[BranchOutcome]) -> list[tuple[str, str, int]]:
    return [(outcome.session_id, outcome.status, outcome.items) for outcome in outcomes]


async def test_every_item_of_every_session_is_there_with_its_time(file: Path, db: Database) -> None:
    outcomes = await imported(file, db)

    assert statuses(outcomes) == [("a", "imported", 3), ("b", "imported", 1_100)]
    assert texts(await MemalchemySession("a", db).get_items()) == ["a0", "a1", "a2"]
    session = MemalchemySession("b", db)
    assert await session.get_items() == [said("user", f"b{n}") for n in range(1_100)]
    (entry,) = await session.log.tail("b", 1)
    with sqlite3.connect(file) as theirs:
        (time,) = theirs.execute("SELECT MAX(created_at) FROM agent_messages").fetchone()
    assert entry.occurred_at == datetime.fromisoformat(time).replace(tzinfo=UTC)
    assert {info.session_id for info in await MemalchemySessions(db).list()} == {"a", "b"}


async def test_a_second_import_writes_nothing_and_a_later_one_what_is_new(
    file: Path, db: Database
) -> None:
    await imported(file, db)
    version = await MemalchemySession("a", db).log.version("a")

    assert {outcome.status for outcome in await imported(file, db)} == {"unchanged"}
    assert await MemalchemySession("a", db).log.version("a") == version

    session = SQLiteSession("a", file)
    await session.add_items([said("user", "a3")])
    session.close()
    assert statuses(await imported(file, db))[0] == ("a", "resumed", 1)
    assert texts(await MemalchemySession("a", db).get_items()) == ["a0", "a1", "a2", "a3"]


async def test_an_import_that_stopped_within_a_session_continues(
    file: Path, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memalchemy.threads import ThreadLog

    class Stopped(Exception):
        pass

    append, calls = ThreadLog.append, []

    async def stop(self: ThreadLog, *args: Any, **options: Any) -> list[int]:
        calls.append(args[0])
        if len(calls) == 3:
            raise Stopped
        return await append(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ThreadLog, "append", stop)
        with pytest.raises(Stopped):
            await imported(file, db)
    assert len(await MemalchemySession("b", db).get_items()) == 500

    assert statuses(await imported(file, db)) == [("a", "unchanged", 0), ("b", "resumed", 600)]
    assert len(await MemalchemySession("b", db).get_items()) == 1_100


async def test_a_different_session_is_a_conflict_skipped_or_replaced(
    file: Path, db: Database
) -> None:
    session = MemalchemySession("a", db)
    await session.add_items([said("user", "a0")])

    conflict = (await imported(file, db))[0]
    assert (conflict.status, conflict.items) == ("conflict", 0)
    assert "something else" in str(conflict.problem)
    assert (await imported(file, db, on_conflict="skip"))[0].status == "skipped"
    assert texts(await session.get_items()) == ["a0"]

    assert statuses(await imported(file, db, on_conflict="replace"))[0] == ("a", "replaced", 3)
    assert texts(await session.get_items()) == ["a0", "a1", "a2"]
    with pytest.raises(ValueError, match="on_conflict"):
        await imported(file, db, on_conflict="maybe")


@pytest.mark.parametrize("on_conflict", ["error", "replace"])
async def test_items_that_were_added_here_since_stay_and_are_no_conflict(
    file: Path, db: Database, on_conflict: Any
) -> None:
    await imported(file, db)
    await MemalchemySession("a", db).add_items([said("user", "here")])

    assert (await imported(file, db, on_conflict=on_conflict))[0].status == "unchanged"
    assert texts(await MemalchemySession("a", db).get_items())[-1] == "here"


async def test_a_session_that_went_on_here_and_there_is_a_conflict(
    file: Path, db: Database
) -> None:
    await imported(file, db)
    await MemalchemySession("a", db).add_items([said("user", "here")])
    with sqlite3.connect(file) as theirs:
        theirs.execute(
            "INSERT INTO agent_messages (session_id, message_data) VALUES ('a', ?)",
            [json.dumps(said("user", "there"))],
        )

    assert (await imported(file, db))[0].status == "conflict"
    assert texts(await MemalchemySession("a", db).get_items())[-1] == "here"


async def test_a_dry_run_reports_the_same_and_writes_nothing(file: Path, db: Database) -> None:
    before = await imported(file, db, dry_run=True)
    assert await MemalchemySessions(db).list() == []

    assert await imported(file, db) == before


async def test_a_prefix_comes_before_every_id(file: Path, db: Database) -> None:
    await imported(file, db, prefix="old/")

    assert {info.session_id for info in await MemalchemySessions(db).list()} == {"old/a", "old/b"}


async def test_rows_that_are_not_json_are_skipped_and_counted(file: Path, db: Database) -> None:
    with sqlite3.connect(file) as theirs:
        theirs.execute("UPDATE agent_messages SET message_data = 'no' WHERE id = 2")

    first = (await imported(file, db))[0]

    assert (first.status, first.items, first.unreadable) == ("imported", 2, 1)
    assert texts(await MemalchemySession("a", db).get_items()) == ["a0", "a2"]


async def test_branches_and_usage_are_imported(tmp_path: Path, db: Database) -> None:
    file = tmp_path / "advanced.db"
    theirs = AdvancedSQLiteSession(session_id="t", db_path=file, create_tables=True)
    agent = Agent(name="a", model=Scripted("one", "two", "three"))
    for text in ("1", "2"):
        await theirs.store_run_usage(await run(agent, text, theirs))
    await theirs.create_branch_from_turn(2, "b")
    await theirs.store_run_usage(await run(agent, "otherwise", theirs))
    want = {name: await _as_theirs(theirs, name) for name in ("main", "b")}
    theirs.close()

    outcomes = await imported(file, db)

    assert [(o.branch, o.status, o.items) for o in outcomes] == [
        ("main", "imported", 4),
        ("b", "imported", 4),
    ]
    ours = MemalchemySession("t", db)
    assert {name: await _as_theirs(ours, name) for name in ("main", "b")} == want
    assert want["b"][1][0]["user_turn_number"] == 2
    assert {outcome.status for outcome in await imported(file, db)} == {"unchanged"}


async def _as_theirs(session: Any, branch: str) -> tuple[Any, Any, Any]:
    await session.switch_to_branch(branch)
    usage = await session.get_turn_usage()
    return (
        await session.get_items(),
        [{k: v for k, v in one.items() if not k.endswith("details")} for one in usage],
        await session.get_conversation_by_turns(),
    )


async def test_tables_with_another_name_are_imported_from_postgresql(
    postgres: Any, db: Database
) -> None:
    name = postgres.create_database()
    url = postgres.url(name)
    theirs = SQLAlchemySession.from_url(
        "t",
        url=postgres.url(name, driver="asyncpg"),
        create_tables=True,
        sessions_table="my_sessions",
        messages_table="my_messages",
    )
    given = [said("user", f"{number}") for number in range(5)]
    await theirs.add_items(given[:2])
    await theirs.add_items(given[2:])
    await theirs.engine.dispose()
    try:
        with pytest.raises(NotFound, match="agent_messages"):
            await imported(url, db)
        assert statuses(await imported(url, db, messages_table="my_messages")) == [
            ("t", "imported", 5)
        ]
        async with Database(url, migrate="off") as source:
            assert await count_sessions(source, messages_table="my_messages") == 1
        assert await MemalchemySession("t", db).get_items() == given
        assert postgres.execute("SELECT count(*) FROM my_messages", name) == [(5,)]
    finally:
        postgres.drop_database(name)


async def test_items_of_sqlalchemysession_are_imported_in_its_order(
    tmp_path: Path, db: Database
) -> None:
    file = tmp_path / "agents.db"
    theirs = SQLAlchemySession.from_url("t", url=f"sqlite+aiosqlite:///{file}", create_tables=True)
    await theirs.add_items([said("user", "late"), said("user", "early")])
    with sqlite3.connect(file) as rows:
        rows.execute("UPDATE agent_messages SET created_at = '2020-01-01 00:00:00' WHERE id = 2")
    want = await theirs.get_items()
    await theirs.engine.dispose()

    await imported(file, db)

    assert texts(want) == ["early", "late"]
    assert await MemalchemySession("t", db).get_items() == want


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_the_command_imports_sessions_and_prints_a_summary(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "agent.db"
    command = ("--db", f"sqlite:///{target}", "import", "openai-agents")
    source = ("--from", f"sqlite:///{file}")

    code, out, _ = call(*command, *source, "--dry-run")
    assert (code, target.exists()) == (0, False)
    assert "1,103 items would be written" in out

    code, out, _ = call(*command, *source)
    assert code == 0
    assert "2 sessions, 2 branches: 2 imported" in out
    assert "1,103 items written, read back and compared" in out

    code, out, _ = call(*command, *source, "--json")
    document = json.loads(out)
    assert (code, document["branches"]["unchanged"], document["items"]) == (0, 2, 0)


def test_the_command_names_what_it_leaves_out(file: Path, tmp_path: Path) -> None:
    with sqlite3.connect(file) as theirs:
        theirs.execute("UPDATE agent_messages SET message_data = '{' WHERE id = 2")
    command = ("--db", f"sqlite:///{tmp_path}/agent.db", "import", "openai-agents")

    code, _, err = call(*command, "--from", f"sqlite:///{file}")

    assert (code, "session a: 1 row left out, not JSON" in err) == (4, True)


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    command = ("--db", f"sqlite:///{tmp_path}/agent.db", "import")

    code, _, err = call(*command, "openai-agents")
    assert (code, "--from" in err) == (2, True)
    code, _, err = call(*command, "openai-agents", "--from", f"sqlite:///{tmp_path}/none.db")
    assert (code, "does not exist" in err) == (3, True)
    code, _, err = call(*command, "threads.jsonl", "--dry-run")
    assert (code, "openai-agents" in err) == (2, True)
