"""Sessions that ADK's own services stored in SQL databases are imported, in all their layouts."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, DatabaseSessionService, Session
from google.adk.sessions.schemas import v0
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from typer.testing import CliRunner

from memalchemy import Database, DatabaseUnreachable, NotFound, Store
from memalchemy.cli.app import app
from memalchemy.importers.sources import SOURCES
from memalchemy.importers.target import ImportOutcome, ImportTarget
from memalchemy.integrations.google_adk import MemalchemySessionService
from servers import Postgres

SOURCE = SOURCES["google-adk"]
LAYOUTS = ("v1-sqlite", "v1-postgresql", "v0-sqlite", "v0-postgresql", "sqlite-service")
ADA: dict[str, Any] = {"app_name": "app", "user_id": "ada"}
T = 1_600_000_000.25


@pytest.fixture
async def place(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[BaseSessionService, str]]:
    """A service of ADK's own, and the place that the import is given."""
    version, _, kind = str(request.param).partition("-")
    if version == "sqlite":
        yield SqliteSessionService(str(tmp_path / "adk.db")), str(tmp_path / "adk.db")
        return
    if kind == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path}/adk.db"
        given = str(tmp_path / "adk.db")
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        given = postgres.url(postgres.create_database())
        url = given.replace("postgresql://", "postgresql+asyncpg://")
    if version == "v0":
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(v0.Base.metadata.create_all)
        await engine.dispose()
    service = DatabaseSessionService(url)
    yield service, given
    await service.close()


each_layout = pytest.mark.parametrize("place", LAYOUTS, indirect=True)


def event(number: int, words: str, **fields: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=words)])
    return Event(
        id=f"e{number}",
        author="user",
        invocation_id="run",
        content=content,
        timestamp=T + number,
        **fields,
    )


async def fill(service: BaseSessionService) -> list[Session]:
    """Two users, three sessions; one has more events than are written at once."""
    state = {"topic": "gates", "app:tone": "dry", "user:name": "Ada", "none": None}
    first = await service.create_session(**ADA, session_id="s1", state=state)
    for number in range(3):
        delta = {"step": number, "app:runs": number, "user:seen": [number, 0.1], "temp:x": 1}
        actions = EventActions(state_delta=delta)
        await service.append_event(first, event(number, f"é {number}", actions=actions))
    called = types.Part(function_call=types.FunctionCall(id="c", name="look", args={"n": 2**60}))
    tool = Event(
        id="e3",
        author="guide",
        invocation_id="run",
        content=types.Content(role="model", parts=[called]),
        long_running_tool_ids={"c"},
        custom_metadata={"k": [1, None]},
        timestamp=T + 3,
    )
    await service.append_event(first, tool)
    await service.create_session(**ADA, session_id="empty")
    other = await service.create_session(app_name="app", user_id="bob", session_id="s1")
    await service.append_event(other, event(9, "equally"))
    # Two events of one moment, which services order by id or as they were written.
    await service.append_event(
        other,
        event(8, "old", turn_complete=True).model_copy(
            update={"timestamp": T + 9, "branch": "a.b"}
        ),
    )
    return [first, other]


async def imported(place: str, db: Database, **options: Any) -> list[ImportOutcome]:
    target = ImportTarget(db, **options)
    async with aclosing(SOURCE.read(place)) as records:
        return [await target.write(record) async for record in records]


async def read_all(service: BaseSessionService) -> dict[tuple[str, str], dict[str, Any]]:
    """Every session as ADK shows it, without the events' actions."""
    found = {}
    listed = (await service.list_sessions(app_name="app")).sessions
    for one in listed:
        session = await service.get_session(app_name="app", user_id=one.user_id, session_id=one.id)
        assert session is not None
        found[one.user_id, one.id] = session.model_dump()
    return found


def without_actions(
    sessions: dict[tuple[str, str], dict[str, Any]],
) -> dict[tuple[str, str], dict[str, Any]]:
    for session in sessions.values():
        for one in session["events"]:
            del one["actions"]
    return sessions


@each_layout
async def test_sessions_read_as_they_did(
    place: tuple[BaseSessionService, str], db: Database, request: pytest.FixtureRequest
) -> None:
    theirs, where = place
    is_pickled = "v0" in request.node.callspec.id
    await fill(theirs)
    dry = await imported(where, db, dry_run=True)
    assert not await Store(db).list_namespaces()
    done = await imported(where, db)

    assert done == dry
    assert {one.status for one in done} == {"imported"}
    assert len(done) == await SOURCE.count(where)
    by_name = {one.name: one for one in done}
    s1 = by_name["session s1 of ada in app"]
    assert (s1.written, s1.unreadable) == (4, 4 if is_pickled else 0)
    assert "pickled" in s1.reason or not is_pickled

    ours = MemalchemySessionService(db)
    expected, found = await read_all(theirs), await read_all(ours)
    assert len(expected) == 3
    if is_pickled:
        expected, found = without_actions(expected), without_actions(found)
    assert found == expected
    assert found["ada", "s1"]["state"]["app:runs"] == 2
    log = ours.log("app", "ada")
    assert [entry.occurred_at.timestamp() for entry in await log.range("s1")] == [
        T + number for number in range(4)
    ]
    again = await imported(where, db)
    assert {(one.status, one.written) for one in again} == {("unchanged", 0)}


class Scripted(BaseLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        words = " ".join(
            part.text or "" for one in llm_request.contents for part in one.parts or []
        )
        yield LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text=f"heard {words}")])
        )


async def test_an_agent_goes_on_with_an_imported_session(tmp_path: Path, db: Database) -> None:
    path = tmp_path / "adk.db"

    async def run(service: BaseSessionService, words: str) -> str:
        agent = LlmAgent(name="guide", model=Scripted(model="scripted"), output_key="answer")
        runner = Runner(agent=agent, app_name="app", session_service=service)
        message = types.Content(role="user", parts=[types.Part(text=words)])
        answers = [
            one
            async for one in runner.run_async(user_id="ada", session_id="s", new_message=message)
        ]
        content = answers[-1].content
        assert content is not None
        assert content.parts
        return str(content.parts[0].text)

    theirs = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
    await theirs.create_session(**ADA, session_id="s")
    await run(theirs, "the gate")
    await imported(str(path), db)
    ours = MemalchemySessionService(db)
    assert "the gate" in await run(ours, "and the fence")

    # It went on here, and an import leaves it; it went on there as well, and that is a conflict.
    assert {one.status for one in await imported(str(path), db)} == {"unchanged"}
    await run(theirs, "elsewhere")
    await theirs.close()
    assert (await imported(str(path), db))[-1].status == "conflict"
    session = await ours.get_session(**ADA, session_id="s")
    assert session is not None
    assert len(session.events) == 4


@each_layout
async def test_a_later_import_adds_what_is_new(
    place: tuple[BaseSessionService, str], db: Database
) -> None:
    theirs, where = place
    first, _ = await fill(theirs)
    await imported(where, db)
    ours = MemalchemySessionService(db)
    mine = await ours.get_session(app_name="app", user_id="bob", session_id="s1")
    assert mine is not None
    await ours.append_event(
        mine, Event(author="x", actions=EventActions(state_delta={"app:tone": "warm"}))
    )
    actions = EventActions(state_delta={"step": 7, "app:runs": 7})
    await theirs.append_event(first, event(20, "later", actions=actions))

    done = {one.name: one for one in await imported(where, db)}
    s1 = done["session s1 of ada in app"]
    assert (s1.status, s1.written) == ("resumed", 1)
    assert done["session s1 of bob in app"].status == "unchanged"
    read = await ours.get_session(**ADA, session_id="s1")
    assert read is not None
    assert (read.state["step"], len(read.events)) == (7, 5)
    # The app's row is old and its state was changed here since: that stays. What was not changed
    # here is as in the source, if its row was written later.
    assert read.state["app:tone"] == "warm"


async def test_a_session_that_exists_and_differs_is_a_conflict(
    tmp_path: Path, db: Database
) -> None:
    path = str(tmp_path / "adk.db")
    theirs, ours = SqliteSessionService(path), MemalchemySessionService(db)
    await fill(theirs)
    mine = await ours.create_session(**ADA, session_id="s1", state={"topic": "mine"})
    await ours.append_event(mine, event(1, "another"))

    done = {one.name: one.status for one in await imported(path, db)}
    assert done["session s1 of ada in app"] == "conflict"
    read = await ours.get_session(**ADA, session_id="s1")
    assert read is not None
    assert (len(read.events), read.state["topic"]) == (1, "mine")

    await imported(path, db, on_conflict="replace")
    assert await read_all(ours) == await read_all(theirs)


async def test_large_sessions_and_many_users_are_whole(tmp_path: Path, db: Database) -> None:
    path = str(tmp_path / "adk.db")
    theirs = SqliteSessionService(path)
    await theirs.create_session(**ADA, session_id="s")
    with closing(sqlite3.connect(path)) as raw, raw:
        rows = [
            (
                f"e{number}",
                "app",
                "ada",
                "s",
                "run",
                T + number,
                event(number, "w").model_dump_json(),
            )
            for number in range(1_203)
        ]
        raw.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        users = [("app", f"u{number}", json.dumps({"n": number}), T) for number in range(501)]
        raw.executemany("INSERT INTO user_states VALUES (?, ?, ?, ?)", users)

    done = await imported(path, db)
    assert len(done) == await SOURCE.count(path) == 3
    assert sum(one.written for one in done) == 1_203 + 501
    ours = MemalchemySessionService(db)
    session = await ours.get_session(**ADA, session_id="s")
    assert session is not None
    assert [one.id for one in session.events] == [f"e{number}" for number in range(1_203)]
    assert await ours.get_user_state(app_name="app", user_id="u500") == {"n": 500}


async def test_an_event_that_nobody_can_read_is_counted(tmp_path: Path, db: Database) -> None:
    path = str(tmp_path / "adk.db")
    await fill(SqliteSessionService(path))
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE events SET event_data = '{' WHERE id = 'e1'")

    done = {one.name: one for one in await imported(path, db)}
    s1 = done["session s1 of ada in app"]
    assert (s1.status, s1.written, s1.unreadable) == ("imported", 3, 1)


async def test_pickles_are_never_loaded(tmp_path: Path, db: Database) -> None:
    path = tmp_path / "adk.db"
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    async with engine.begin() as connection:
        await connection.run_sync(v0.Base.metadata.create_all)
    await engine.dispose()
    theirs = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
    session = await theirs.create_session(**ADA, session_id="s")
    await theirs.append_event(session, event(1, "words"))
    await theirs.close()
    harm = tmp_path / "harm"
    with closing(sqlite3.connect(path)) as raw, raw:
        call = b"cos\nmkdir\n(V" + str(harm).encode() + b"\ntR."  # what makes a directory if loaded
        raw.execute("UPDATE events SET actions = ?", [call])

    *_, done = await imported(str(path), db)
    assert not harm.exists()
    assert (done.status, done.written, done.unreadable) == ("imported", 1, 1)
    read = await MemalchemySessionService(db).get_session(**ADA, session_id="s")
    assert read is not None
    assert read.events[0].actions == EventActions()


async def test_the_source_is_not_changed(tmp_path: Path, db: Database) -> None:
    path = tmp_path / "adk.db"
    await fill(SqliteSessionService(str(path)))
    before = path.read_bytes()
    await imported(str(path), db)
    assert path.read_bytes() == before


async def test_a_place_with_nothing_of_it_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreachable, match="there is no file"):
        await SOURCE.count(str(tmp_path / "none.db"))
    with closing(sqlite3.connect(tmp_path / "empty.db")) as raw:
        raw.execute("CREATE TABLE events (id int)")
    with pytest.raises(NotFound, match="no table 'events'"):
        await SOURCE.count(str(tmp_path / "empty.db"))


@pytest.mark.parametrize("place", ["v1-postgresql"], indirect=True)
async def test_the_command_imports_from_a_schema(
    place: tuple[BaseSessionService, str], tmp_path: Path
) -> None:
    theirs, where = place
    await fill(theirs)
    engine = create_async_engine(where.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.begin() as connection:
        await connection.execute(text("CREATE SCHEMA adk"))
        for name in ("sessions", "events", "app_states", "user_states", "adk_internal_metadata"):
            await connection.execute(text(f"ALTER TABLE {name} SET SCHEMA adk"))
    await engine.dispose()
    command = ["--db", f"sqlite:///{tmp_path}/ours.db", "--json", "import", "google-adk"]
    options = ["--from", where, "--from-schema", "adk", "--prefix", "old-"]
    done = await asyncio.to_thread(
        CliRunner().invoke, app, [*command, *options], catch_exceptions=False
    )

    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["records"]["imported"] == 5
    async with Database(f"sqlite:///{tmp_path}/ours.db") as db:
        service = MemalchemySessionService(db)
        read = await service.get_session(**ADA, session_id="old-s1")
        assert read is not None
        assert len(read.events) == 4
