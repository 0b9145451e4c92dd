"""`import langgraph`: data of LangGraph's own savers and stores, imported."""

from __future__ import annotations

import asyncio
import json
import operator
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.postgres import AsyncPostgresStore
from langgraph.store.sqlite import AsyncSqliteStore
from langgraph.types import Command, interrupt
from sqlalchemy import select
from typer.testing import CliRunner

from memalchemy import Checkpointer, Database, NotFound
from memalchemy.cli.app import app
from memalchemy.errors import Corrupt, DatabaseUnreachable, NotSerialisable
from memalchemy.integrations.langgraph import MemalchemySaver, MemalchemyStore
from memalchemy.integrations.langgraph._source_tables import by_path
from memalchemy.integrations.langgraph.importing import ImportReport, import_langgraph
from memalchemy.schema import DeltaRow, ThreadRow
from servers import Postgres

Opening = Callable[[], AbstractAsyncContextManager[Any]]


@dataclass
class Place:
    """A database with LangGraph's own tables."""

    url: str
    saver: Opening
    store: Opening
    execute: Callable[..., Any]
    encrypted: Callable[[Any], AbstractAsyncContextManager[Any]]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        path = str(tmp_path / "langgraph.db")

        def execute(sql: str) -> None:
            with sqlite3.connect(path) as connection:
                connection.execute(sql)
            connection.close()

        yield Place(
            f"sqlite:///{path}",
            lambda: AsyncSqliteSaver.from_conn_string(path),
            lambda: AsyncSqliteStore.from_conn_string(path),
            execute,
            lambda serde: _with_serde(AsyncSqliteSaver.from_conn_string(path), serde),
        )
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create_database()
    url = server.url(name)
    yield Place(
        url,
        lambda: AsyncPostgresSaver.from_conn_string(url),
        lambda: AsyncPostgresStore.from_conn_string(url),
        lambda sql: server.execute(sql, name),
        lambda serde: AsyncPostgresSaver.from_conn_string(url, serde=serde),
    )
    server.drop_database(name)


@pytest.fixture
async def db(
    place: Place, name: str, postgres: Postgres, tmp_path: Path
) -> AsyncIterator[Database]:
    """The target of an import: from SQLite to PostgreSQL, and the other way."""
    other = postgres.url(name) if place.url.startswith("sqlite") else f"sqlite:///{tmp_path}/a.db"
    async with Database(other, tenant=uuid4().hex) as made:
        yield made


def saver_of(db: Database) -> MemalchemySaver:
    """A saver that makes the user's objects, too."""
    allowed = [(Opinion.__module__, Opinion.__qualname__)]
    return MemalchemySaver(db, serde=JsonPlusSerializer(allowed_msgpack_modules=allowed))


@asynccontextmanager
async def _with_serde(opening: Any, serde: Any) -> AsyncIterator[Any]:
    async with opening as saver:
        saver.serde = serde
        yield saver


@dataclass
class Opinion:
    """A class of the user's, which strict deserialisation does not make."""

    text: str


@dataclass
class Verdict:
    by: Any


@dataclass
class Written:
    number: int


class State(MessagesState):
    steps: Annotated[list[str], operator.add]
    opinion: Any


def build(saver: BaseCheckpointSaver[Any]) -> Any:
    """A graph with a subgraph that asks a human."""

    def think(state: State) -> dict[str, Any]:
        said = str(state["messages"][-1].content)
        return {
            "messages": [AIMessage(f"re: {said}")],
            "steps": ["think"],
            "opinion": Opinion(said),
        }

    def ask(state: State) -> dict[str, Any]:
        answer = interrupt("go on?") if "ask" in str(state["messages"][-1].content) else "no need"
        return {"steps": [f"asked: {answer}"]}

    inner = StateGraph(State)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    builder = StateGraph(State)
    builder.add_node("think", think)
    builder.add_node("inner", inner.compile(checkpointer=True))
    builder.add_edge(START, "think")
    builder.add_edge("think", "inner")
    builder.add_edge("inner", END)
    return builder.compile(checkpointer=saver)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name, "user": "ada"}}


def words(state: dict[str, Any]) -> Any:
    """A state without what is made by chance: the ids of messages."""
    return [m.content for m in state["messages"]], state["steps"], state["opinion"]


async def run_a_while(saver: Any) -> None:
    """Threads with several turns, an interrupt that waits, a fork, and bytes and numbers."""
    await saver.setup()
    graph = build(saver)
    for text in ("one", "two", "three"):
        await graph.ainvoke({"messages": [HumanMessage(text)]}, thread("talk"))
    history = [one async for one in graph.aget_state_history(thread("talk"))]
    old = next(one for one in history if len(one.values["messages"]) == 2)
    await graph.aupdate_state(old.config, {"messages": [HumanMessage("fork")]}, as_node="think")
    await graph.ainvoke({"messages": [HumanMessage("please ask")]}, thread("waits"))


async def told(saver: Any, name: str) -> list[Any]:
    """All that a saver says of a thread."""
    return [
        (one.config, one.checkpoint, one.metadata, one.parent_config, one.pending_writes)
        async for one in saver.alist({"configurable": {"thread_id": name}})
    ]


async def comparable(saver: Any, name: str) -> dict[Any, Any]:
    def known(config: Any) -> Any:
        place = config and config["configurable"]
        return place and (place.get("checkpoint_ns"), place.get("checkpoint_id"))

    return {
        known(config): (checkpoint, metadata, known(parent), writes)
        for config, checkpoint, metadata, parent, writes in await told(saver, name)
    }


@pytest.fixture
async def ran(place: Place) -> Place:
    async with place.saver() as saver:
        await run_a_while(saver)
    return place


async def test_threads_read_as_langgraphs_own_saver_reads_them(ran: Place, db: Database) -> None:
    seen: list[int] = []
    report = await import_langgraph(ran.url, db, progress=lambda r: seen.append(r.done))

    assert report.problems == []
    assert report.threads == 2
    assert report.new_checkpoints == report.checkpoints == report.done == seen[-1] > 15
    assert report.writes > report.checkpoints / 2
    ours = saver_of(db)
    async with ran.saver() as saver:
        for name in ("talk", "waits"):
            theirs = await comparable(saver, name)
            assert len({place[0] for place in theirs}) >= 2  # the subgraph's namespace, too
            assert await comparable(ours, name) == theirs


async def test_a_thread_goes_on_where_it_was(ran: Place, db: Database) -> None:
    await import_langgraph(ran.url, db)
    graph = build(saver_of(db))

    waiting = await graph.aget_state(thread("waits"))
    assert [one.value for task in waiting.tasks for one in task.interrupts] == ["go on?"]
    resumed = await graph.ainvoke(Command(resume="yes"), thread("waits"))
    after = await graph.ainvoke({"messages": [HumanMessage("four", id="4")]}, thread("talk"))
    assert "asked: yes" in resumed["steps"]
    assert {"one", "re: two", "four", "re: four"} <= {m.content for m in after["messages"]}
    async with ran.saver() as saver:
        theirs = build(saver)
        expected = await theirs.ainvoke(Command(resume="yes"), thread("waits"))
        assert resumed == expected
        said = {"messages": [HumanMessage("four", id="4")]}
        expected = await theirs.ainvoke(said, thread("talk"))
        assert words(after) == words(expected)


async def test_a_repeated_import_imports_what_is_new(ran: Place, db: Database) -> None:
    first = await import_langgraph(ran.url, db)
    again = await import_langgraph(ran.url, db)
    assert (again.new_checkpoints, again.writes) == (0, 0)
    assert again.unchanged_checkpoints == first.checkpoints
    async with ran.saver() as saver:
        await build(saver).ainvoke({"messages": [HumanMessage("four")]}, thread("talk"))

    more = await import_langgraph(ran.url, db)

    assert 0 < more.new_checkpoints == more.checkpoints - first.checkpoints
    async with ran.saver() as saver:
        assert await comparable(saver_of(db), "talk") == await comparable(saver, "talk")


async def test_later_steps_in_memalchemy_survive_a_repeated_import(
    ran: Place, db: Database
) -> None:
    await import_langgraph(ran.url, db)
    graph = build(MemalchemySaver(db))
    await graph.ainvoke(Command(resume="yes"), thread("waits"))
    before = await comparable(MemalchemySaver(db), "waits")

    again = await import_langgraph(ran.url, db)

    assert (again.problems, again.new_checkpoints, again.writes) == ([], 0, 0)
    assert await comparable(MemalchemySaver(db), "waits") == before


async def test_an_interrupted_import_continues(ran: Place, db: Database) -> None:
    def stop(report: ImportReport) -> None:
        if report.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await import_langgraph(ran.url, db, progress=stop)
    rest = await import_langgraph(ran.url, db)

    assert rest.unchanged_checkpoints == 5
    assert rest.new_checkpoints == rest.checkpoints - 5
    assert adds_up(rest)


async def test_a_dry_run_writes_nothing_and_reports_the_same(ran: Place, db: Database) -> None:
    looked = await import_langgraph(ran.url, db, dry_run=True)
    assert await told(MemalchemySaver(db), "talk") == []
    done = await import_langgraph(ran.url, db)
    assert looked == done


async def test_a_different_thread_of_the_same_name_is_a_reported_conflict(
    ran: Place, db: Database
) -> None:
    async with ran.saver() as saver:
        one = await saver.aget_tuple({"configurable": {"thread_id": "talk"}})
    place = {"configurable": {"thread_id": "talk", "checkpoint_ns": ""}}
    changed = dict(one.checkpoint) | {"ts": "2020-01-01T00:00:00+00:00"}
    ours = MemalchemySaver(db)
    await ours.aput(place, changed, {"source": "loop"}, {})  # type: ignore[arg-type,typeddict-item]

    report = await import_langgraph(ran.url, db)

    assert len(report.problems) == 1
    assert "'talk'" in report.problems[0]
    assert adds_up(report)
    kept = await ours.aget_tuple(
        {"configurable": place["configurable"] | {"checkpoint_id": one.checkpoint["id"]}}
    )
    assert kept is not None
    assert kept.checkpoint["ts"] == changed["ts"]
    assert (await import_langgraph(ran.url, db, prefix="old/")).problems == []
    assert await told(ours, "old/talk")


async def forked(place: Place, db: Database) -> None:
    """Resume a thread that waits, with one answer here and with another in the source."""
    await import_langgraph(place.url, db)
    await build(saver_of(db)).ainvoke(Command(resume="yes"), thread("waits"))
    async with place.saver() as saver:
        await build(saver).ainvoke(Command(resume="no"), thread("waits"))
        # A thread that comes after the one in conflict, and one that went on in the source only.
        await build(saver).ainvoke({"messages": [HumanMessage("late")]}, thread("zz late"))
        await build(saver).ainvoke({"messages": [HumanMessage("four")]}, thread("talk"))


def adds_up(report: ImportReport) -> bool:
    """Return whether every checkpoint and item is counted once."""
    checkpoints = report.new_checkpoints, report.unchanged_checkpoints
    left = report.conflicting_checkpoints, report.bad_checkpoints
    items = report.new_items, report.unchanged_items, report.conflicting_items, report.bad_items
    return (
        sum(checkpoints) + sum(left) == report.checkpoints
        and sum(items) + report.expired == report.items
        and sum(report.thread_statuses.values()) == report.threads
        and report.done == report.checkpoints + report.items
    )


async def rows_of(saver: MemalchemySaver, name: str) -> list[Any]:
    """All rows of a thread's logs, in the order in which they were written."""
    namespaces = await saver.checkpointer().namespaces(name)
    async with saver.db.snapshot() as snapshot:
        found = await snapshot.execute(
            select(DeltaRow.log_id, DeltaRow.seq, DeltaRow.label, DeltaRow.payload)
            .join(ThreadRow, ThreadRow.log_id == DeltaRow.log_id)
            .where(ThreadRow.thread_id == name, ThreadRow.tenant == saver.db.tenant)
            .order_by(DeltaRow.log_id, DeltaRow.seq)
        )
        return [sorted(map(str, namespaces)), *found.all()]


async def test_a_thread_that_was_answered_in_both_places_stays_and_the_others_are_imported(
    ran: Place, db: Database
) -> None:
    await forked(ran, db)
    ours = saver_of(db)
    kept, rows = await comparable(ours, "waits"), await rows_of(ours, "waits")

    dry = await import_langgraph(ran.url, db, dry_run=True)
    report = await import_langgraph(ran.url, db)

    assert report == dry
    assert len(report.problems) == 1
    assert "thread 'waits'" in report.problems[0]
    assert report.thread_statuses == {"conflict": 1, "imported": 1, "resumed": 1}
    assert adds_up(report)
    assert min(report.new_checkpoints, report.conflicting_checkpoints, report.writes) > 0
    assert await comparable(ours, "waits") == kept
    assert await rows_of(ours, "waits") == rows
    async with ran.saver() as saver:
        for name in ("zz late", "talk"):
            assert await comparable(ours, name) == await comparable(saver, name)
    state = await build(ours).aget_state(thread("waits"))
    assert state.values["steps"][-1] == "asked: yes"

    again = await import_langgraph(ran.url, db)
    assert (again.problems, again.new_checkpoints, again.writes) == (report.problems, 0, 0)
    assert again.unchanged_checkpoints + again.conflicting_checkpoints == again.checkpoints
    assert await rows_of(ours, "waits") == rows
    skipped = await import_langgraph(ran.url, db, on_conflict="skip")
    assert (skipped.problems, skipped.skipped) == ([], report.problems)
    assert await rows_of(ours, "waits") == rows


async def test_a_thread_in_conflict_is_replaced_as_a_whole_if_that_is_wanted(
    ran: Place, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await forked(ran, db)
    ours = saver_of(db)
    kept = await comparable(ours, "waits")
    looked = await import_langgraph(ran.url, db, on_conflict="replace", dry_run=True)
    assert await comparable(ours, "waits") == kept

    put, calls = Checkpointer.put_writes, 0

    async def fails(self: Any, *given: Any, **options: Any) -> None:
        nonlocal calls
        calls += given[1] == "waits"
        if given[1] == "waits" and calls == 4:
            raise NotSerialisable("", "of this write cannot be stored")
        await put(self, *given, **options)

    monkeypatch.setattr(Checkpointer, "put_writes", fails)
    failed = await import_langgraph(ran.url, db, on_conflict="replace")
    assert "cannot be stored" in failed.problems[0]
    assert adds_up(failed)
    assert await comparable(ours, "waits") == kept  # and not half of it
    monkeypatch.undo()

    report = await import_langgraph(ran.url, db, on_conflict="replace")

    assert report.thread_statuses == {"replaced": 1, "unchanged": 2}
    assert report.problems == []
    assert adds_up(looked)
    assert adds_up(report)
    assert looked.thread_statuses == {"replaced": 1, "imported": 1, "resumed": 1}
    async with ran.saver() as saver:
        assert await comparable(ours, "waits") == await comparable(saver, "waits")
    state = await build(ours).aget_state(thread("waits"))
    assert state.values["steps"][-1] == "asked: no"
    again = await import_langgraph(ran.url, db)
    assert again.thread_statuses == {"unchanged": 3}


async def test_a_thread_that_was_continued_in_both_places_is_a_conflict(
    ran: Place, db: Database
) -> None:
    await import_langgraph(ran.url, db)
    ours = saver_of(db)
    await build(ours).ainvoke({"messages": [HumanMessage("here")]}, thread("talk"))
    async with ran.saver() as saver:
        await build(saver).ainvoke({"messages": [HumanMessage("there")]}, thread("talk"))
    kept = await rows_of(ours, "talk")

    report = await import_langgraph(ran.url, db)

    assert report.thread_statuses == {"conflict": 1, "unchanged": 1}
    assert (report.new_checkpoints, report.writes) == (0, 0)
    assert adds_up(report)
    assert await rows_of(ours, "talk") == kept


@pytest.mark.parametrize("at", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("method", ["save", "put_writes"])
async def test_an_import_that_stopped_at_any_write_is_completed(
    ran: Place, db: Database, monkeypatch: pytest.MonkeyPatch, method: str, at: int
) -> None:
    do, calls = getattr(Checkpointer, method), 0

    async def stop(self: Any, *given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return await do(self, *given, **options)

    monkeypatch.setattr(Checkpointer, method, stop)
    with pytest.raises(KeyboardInterrupt):
        await import_langgraph(ran.url, db)
    monkeypatch.undo()

    rest = await import_langgraph(ran.url, db)

    assert rest.problems == []
    assert adds_up(rest)
    assert rest.new_checkpoints + rest.writes > 0
    async with ran.saver() as saver:
        for name in ("talk", "waits"):
            assert await comparable(saver_of(db), name) == await comparable(saver, name)


async def asking(saver: Any, *answers: str) -> Any:
    """Run a graph whose one node asks three questions, and give the first answers."""

    def ask(state: State) -> dict[str, Any]:
        return {"steps": [interrupt(f"question {number}") for number in (1, 2, 3)]}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    graph: Any = builder.compile(checkpointer=saver)
    given = thread("asks")
    if await saver.aget_tuple(given) is None:
        await graph.ainvoke({"messages": []}, given)
    for answer in answers:
        await graph.ainvoke(Command(resume=answer), given)
    return await graph.aget_state(given)


def waits_for(state: Any) -> list[Any]:
    return [one.value for task in state.tasks for one in task.interrupts]


@pytest.mark.parametrize("first", [(), ("a",)])
@pytest.mark.parametrize("more", [("b",), ("b", "c"), ("b", "c", "d")])
async def test_a_later_question_of_the_source_is_imported_and_one_here_stays(
    place: Place, db: Database, first: tuple[str, ...], more: tuple[str, ...]
) -> None:
    more = more[: 3 - len(first)]
    async with place.saver() as saver:
        await saver.setup()
        await asking(saver, *first)
        await import_langgraph(place.url, db)
        ours, theirs = MemalchemySaver(db), await asking(saver, *more)
        report = await import_langgraph(place.url, db)

        assert report.problems == []
        assert report.writes > 0
        assert adds_up(report)
        assert await comparable(ours, "asks") == await comparable(saver, "asks")
        assert waits_for(await asking(ours)) == waits_for(theirs)

        await import_langgraph(place.url, db, prefix="own/")
        await ours.adelete_thread("asks")
        await ours.acopy_thread("own/asks", "asks")
    if len(first) + len(more) == 3:
        return
    here = await asking(ours, "x")
    kept = await rows_of(ours, "asks")
    again = await import_langgraph(place.url, db)
    assert (again.problems, again.writes, again.new_checkpoints) == ([], 0, 0)
    assert await rows_of(ours, "asks") == kept
    assert waits_for(await asking(ours)) == waits_for(here)


@pytest.mark.parametrize("here", [("x",), ("x", "y"), ("x", "y", "z")])
@pytest.mark.parametrize("there", [("b",), ("b", "c"), ("b", "c", "d")])
@pytest.mark.parametrize("first", [(), ("a",)])
async def test_other_answers_in_both_places_are_a_conflict(
    place: Place,
    db: Database,
    first: tuple[str, ...],
    here: tuple[str, ...],
    there: tuple[str, ...],
) -> None:
    ours = MemalchemySaver(db)
    async with place.saver() as saver:
        await saver.setup()
        await asking(saver, *first)
        await import_langgraph(place.url, db)
        await asking(ours, *here[: 3 - len(first)])
        await asking(saver, *there[: 3 - len(first)])
    kept = await rows_of(ours, "asks")

    report = await import_langgraph(place.url, db)

    assert report.thread_statuses == {"conflict": 1}
    assert (report.new_checkpoints, report.writes) == (0, 0)
    assert await rows_of(ours, "asks") == kept


async def test_a_checkpoint_that_was_saved_over_itself_is_imported(
    place: Place, db: Database
) -> None:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    async with place.saver() as saver:
        await saver.setup()
        checkpoint = empty_checkpoint()
        config = await saver.aput(config, checkpoint, {"step": 0}, {})
        await saver.aput(config, checkpoint, {"step": 1}, {})

    assert (await import_langgraph(place.url, db)).problems == []

    found = await MemalchemySaver(db).aget_tuple(config)
    assert found is not None
    assert (found.metadata["step"], found.parent_config) == (1, None)


async def test_what_was_pruned_here_or_in_the_source_is_not_missed(
    ran: Place, db: Database
) -> None:
    await import_langgraph(ran.url, db)
    ours = saver_of(db)
    await ours.aprune(["talk"])
    left = await ours.checkpointer().list_checkpoints("talk", 100)
    assert len(left) == 1
    again = await import_langgraph(ran.url, db)
    assert (again.problems, again.new_checkpoints) == ([], 0)
    assert await ours.checkpointer().list_checkpoints("talk", 100) == left

    ran.execute("DELETE FROM checkpoints WHERE thread_id = 'talk' AND parent_checkpoint_id IS NULL")
    async with ran.saver() as saver:
        await build(saver).ainvoke({"messages": [HumanMessage("four")]}, thread("talk"))
    more = await import_langgraph(ran.url, db)
    assert more.problems == []
    assert more.new_checkpoints > 0
    await ours.adelete_thread("talk")
    anew = await import_langgraph(ran.url, db)  # the first checkpoint has a parent that is gone
    assert anew.problems == []
    assert anew.thread_statuses == {"imported": 1, "unchanged": 1}


async def test_an_import_that_reads_back_differently_is_corrupt(
    ran: Place, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Checkpointer.save

    async def wrong(self: Any, state: Any, *given: Any, **options: Any) -> Any:
        return await save(self, state | {"steps": state["~metadata"]}, *given, **options)

    monkeypatch.setattr(Checkpointer, "save", wrong)
    with pytest.raises(Corrupt, match="reads back as something else"):
        await import_langgraph(ran.url, db)


async def test_the_source_is_not_changed(ran: Place, db: Database, tmp_path: Path) -> None:
    if ran.url.startswith("sqlite"):
        ran.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = (tmp_path / "langgraph.db").read_bytes()
        await import_langgraph(ran.url, db)
        assert (tmp_path / "langgraph.db").read_bytes() == before
        return
    source = ran.url.split("?")[0].rsplit("/", 1)[1]
    ran.execute(f"ALTER DATABASE {source} SET default_transaction_read_only = on")
    assert (await import_langgraph(ran.url, db)).problems == []


async def test_encrypted_values_stay_encrypted_or_are_reported(place: Place, db: Database) -> None:
    async with place.encrypted(EncryptedSerializer(Turning())) as saver:
        await saver.setup()
        await build(saver).ainvoke({"messages": [HumanMessage("secret")]}, thread("talk"))

    report = await import_langgraph(place.url, db)

    if place.url.startswith("sqlite"):
        assert "encrypted as a whole" in report.problems[0]
        return
    assert report.problems == []
    ours = build(MemalchemySaver(db, serde=EncryptedSerializer(Turning())))
    after = await ours.aget_state(thread("talk"))
    assert after.values["messages"][0].content == "secret"
    packed = await MemalchemySaver(db).checkpointer().snapshot("talk")
    assert packed is not None
    assert packed.state["messages"].format == "msgpack+turned"


class Turning:
    """A cipher that needs no package."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "turned", bytes(byte ^ 0x5A for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return bytes(byte ^ 0x5A for byte in ciphertext)


# The store.


async def fill(place: Place) -> None:
    async with place.store() as store:
        await store.setup()
        await store.aput(("users", "ada"), "diet", {"text": "no peanuts", "n": 1.5, "deep": [{}]})
        await store.aput(("users", "bob"), "é/k", {"text": "ü"}, ttl=30)
        await store.aput(("old",), "gone", {"text": "x"}, ttl=30)
        for n in range(30):
            await store.aput(("many", f"{n % 3}"), f"k{n}", {"n": n})
    past = "'2020-01-01 00:00:00'"
    place.execute(f"UPDATE store SET expires_at = {past} WHERE key = 'gone'")
    place.execute(f"UPDATE store SET created_at = {past}, updated_at = {past} WHERE key = 'diet'")


async def test_items_keep_their_values_times_and_lifetimes(place: Place, db: Database) -> None:
    await fill(place)
    report = await import_langgraph(place.url, db)

    assert (report.items, report.new_items, report.expired, report.problems) == (33, 32, 1, [])
    ours = MemalchemyStore(db)
    async with place.store() as store:
        for namespace, key in [(("users", "ada"), "diet"), (("many", "1"), "k4")]:
            theirs = await store.aget(namespace, key, refresh_ttl=False)
            found = await ours.aget(namespace, key, refresh_ttl=False)
            assert found is not None
            assert found.value == theirs.value
            for name in ("created_at", "updated_at"):
                stamp = getattr(theirs, name)
                assert getattr(found, name).replace(tzinfo=None) == stamp.replace(tzinfo=None)
    bob = await ours.store.get_item(("langgraph", "users", "bob"), "é/k", refresh=False)
    assert bob is not None
    assert bob.expires_at is not None
    assert 29 * 60 < (bob.expires_at - bob.updated_at).total_seconds() < 31 * 60
    assert await ours.aget(("old",), "gone") is None

    again = await import_langgraph(place.url, db)
    assert (again.new_items, again.unchanged_items, again.problems) == (0, 32, [])
    await ours.aput(("users", "ada"), "diet", {"text": "newer"})
    conflict = await import_langgraph(place.url, db)
    assert "users/ada/diet" in conflict.problems[0]
    assert adds_up(conflict)
    assert (conflict.conflicting_items, conflict.unchanged_items) == (1, 31)
    skipped = await import_langgraph(place.url, db, on_conflict="skip")
    assert (skipped.problems, skipped.skipped) == ([], conflict.problems)
    assert (await ours.aget(("users", "ada"), "diet")).value == {"text": "newer"}  # type: ignore[union-attr]
    replaced = await import_langgraph(place.url, db, on_conflict="replace")
    assert (replaced.problems, replaced.new_items, replaced.unchanged_items) == ([], 1, 31)
    assert (await import_langgraph(place.url, db)).unchanged_items == 32


async def test_items_keep_their_vectors(postgres: Postgres, tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/agent.db")

    def embed(texts: list[str]) -> list[list[float]]:
        return [[float(text.count(letter)) + 0.1 for letter in "abc"] for text in texts]

    index: Any = {"dims": 3, "embed": embed, "fields": ["text", "parts[*]"]}
    name = postgres.create_database()
    url = postgres.url(name)
    async with AsyncPostgresStore.from_conn_string(url, index=index) as theirs:
        await theirs.setup()
        await theirs.aput(("n",), "one", {"text": "aab", "parts": ["c", "cc", "b"]})
        await theirs.aput(("n",), "two", {"text": "bbb"})
        report = await import_langgraph(url, db)
        assert (report.problems, report.vectors) == ([], 5)
        ours = MemalchemyStore(db, index=index)
        for query in ("a", "ccc", "b"):
            expected = await theirs.asearch(("n",), query=query)
            found = await ours.asearch(("n",), query=query)
            assert [hit.key for hit in found] == [hit.key for hit in expected]
            scores = [hit.score for hit in expected]
            assert [hit.score for hit in found] == pytest.approx(scores, abs=1e-5)
    await db.close()
    postgres.drop_database(name)


def test_vectors_are_grouped_by_path_and_number() -> None:
    given = {"$": [1.0], "a.b": [2.0], "p[*].1": [4.0], "p[*].0": [3.0], "p[*].10": [5.0]}
    assert by_path(given) == {"$": [[1.0]], "a.b": [[2.0]], "p[*]": [[3.0], [4.0], [5.0]]}


# What is not there, and the command.


async def test_a_missing_source_is_an_error_that_says_so(
    tmp_path: Path, postgres: Postgres
) -> None:
    db = Database("sqlite://")
    with pytest.raises(DatabaseUnreachable, match="there is no file"):
        await import_langgraph(f"sqlite:///{tmp_path}/none.db", db)
    sqlite3.connect(tmp_path / "empty.db").close()
    with pytest.raises(NotFound, match="no tables of LangGraph's"):
        await import_langgraph(f"sqlite:///{tmp_path}/empty.db", db)
    with pytest.raises(NotFound, match="no tables of LangGraph's"):
        await import_langgraph(postgres.url(), db)
    with pytest.raises(ValueError, match="SQLite or PostgreSQL"):
        await import_langgraph("mysql://x/y", db)
    with pytest.raises(NotFound, match="is not LangGraph's"):
        await import_langgraph(postgres.url(_migrated(postgres)), db)


def _migrated(postgres: Postgres) -> str:
    name = postgres.create_database()
    with psycopg.connect(postgres.url(name), autocommit=True) as connection:
        connection.execute("CREATE TABLE checkpoints (id int)")
    return name


async def run(*arguments: str) -> Any:
    """Run the command in a thread, because it has an event loop of its own."""
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


async def test_the_command_imports_and_prints_a_summary(place: Place, tmp_path: Path) -> None:
    async with place.saver() as saver:
        await run_a_while(saver)
    await fill(place)
    command = ["--db", f"sqlite:///{tmp_path}/{uuid4()}.db", "import", "langgraph"]

    looked = await run(*command, "--from", place.url, "--dry-run", "--json")
    assert looked.exit_code == 0, looked.output
    done = await run(*command, "--from", place.url)
    assert done.exit_code == 0, done.output
    assert "2 threads: 2 imported" in done.stdout
    assert "33 items: 32 new, 0 unchanged, 1 expired and left; 0 new vectors" in done.stdout
    assert f"{Opinion.__module__}.Opinion. To let the data name no other" in done.stderr
    assert f"allowed_msgpack_modules=[({Opinion.__module__!r}, 'Opinion')]" in done.stderr
    again = json.loads((await run(*command, "--from", place.url, "--json")).stdout)
    assert again["new_checkpoints"] == again["new_items"] == 0
    assert again["unchanged_checkpoints"] == json.loads(looked.stdout)["new_checkpoints"] > 15
    assert (again["dry_run"], json.loads(looked.stdout)["dry_run"]) == (False, True)


@pytest.mark.unsigned_only("the command has no key")
async def test_the_command_says_what_to_do_about_a_conflict(ran: Place, tmp_path: Path) -> None:
    command = ["--db", f"sqlite:///{tmp_path}/here.db", "import", "langgraph", "--from", ran.url]
    async with Database(f"sqlite:///{tmp_path}/here.db") as here:
        await forked(ran, here)

    done = await run(*command)
    assert done.exit_code == 4
    assert "thread 'waits': it went on" in done.stderr
    assert "--on-conflict replace" in done.stderr
    assert "3 threads: 1 imported, 1 resumed, 1 conflict" in done.stdout
    assert " in conflict; " in done.stdout
    assert (await run(*command, "--on-conflict", "skip")).exit_code == 0
    replaced = await run(*command, "--on-conflict", "replace", "--json")
    assert replaced.exit_code == 0
    assert json.loads(replaced.stdout)["thread_statuses"] == {"unchanged": 2, "replaced": 1}


async def test_the_command_takes_the_path_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # By its name alone, this could be the URL of a server.
    async with AsyncSqliteSaver.from_conn_string("postgres") as saver:
        await saver.setup()
    command = ["--db", "agent.db", "import", "langgraph", "--from"]
    for path in ("postgres", "./postgres", str(tmp_path / "postgres"), "sqlite:postgres"):
        done = await run(*command, path, "--json")
        assert (done.exit_code, json.loads(done.stdout)["checkpoints"]) == (0, 0)
    refused = await run(*command, "mysql://ada@db/x")
    assert (refused.exit_code, "the path of a file" in refused.stderr) == (2, True)


async def test_classes_that_come_back_as_dicts_are_named_with_what_allows_them(
    ran: Place, db: Database
) -> None:
    report = await import_langgraph(ran.url, db, dry_run=True)
    assert report.classes == [(Opinion.__module__, "Opinion")]
    await import_langgraph(ran.url, db)

    async def opinion(saver: MemalchemySaver) -> Any:
        found = await saver.aget_tuple(thread("talk"))
        assert found is not None
        return found.checkpoint["channel_values"]["opinion"]

    assert isinstance(await opinion(MemalchemySaver(db, strict=True)), dict)
    allowed: dict[str, Any] = eval(
        f"dict({report.allow_list()})", {"JsonPlusSerializer": JsonPlusSerializer}
    )
    assert type(await opinion(MemalchemySaver(db, **allowed))) is Opinion


async def test_objects_within_objects_and_in_writes_are_named_too(
    place: Place, db: Database
) -> None:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    async with place.saver() as saver:
        await saver.setup()
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"a": Opinion(Verdict(uuid4()))}  # type: ignore[arg-type]
        checkpoint["channel_versions"] = {"a": saver.get_next_version(None, None)}
        config = await saver.aput(config, checkpoint, {}, checkpoint["channel_versions"])
        await saver.aput_writes(config, [("b", [Written(1)])], "task")

    report = await import_langgraph(place.url, db)

    here = Opinion.__module__
    assert report.classes == [(here, "Opinion"), (here, "Verdict"), (here, "Written")]


async def test_the_command_is_refused_where_it_makes_no_sense(tmp_path: Path) -> None:
    command = ["--db", f"sqlite:///{tmp_path}/{uuid4()}.db", "import", "langgraph"]

    assert (await run(*command)).exit_code == 2
    there = ["--from", f"sqlite:///{tmp_path}/none.db"]
    assert (await run(*command, *there, "--messages-table", "t")).exit_code == 2
    missing = await run(*command, *there)
    assert missing.exit_code == 3
    assert "there is no file" in missing.stderr


@pytest.mark.parametrize(
    ("url", "package"), [("sqlite:///x.db", "sqlite"), ("postgresql://nowhere/x", "postgres")]
)
async def test_a_reader_that_is_not_installed_is_named(
    url: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"langgraph.checkpoint.{package}.aio", None)
    refused = await run("--db", f"sqlite:///{tmp_path}/a.db", "import", "langgraph", "--from", url)

    assert refused.exit_code not in (0, 2)
    assert f"pip install langgraph-checkpoint-{package}" in refused.stderr


async def test_history_keeps_its_times_and_retention_goes_by_them(
    place: Place, db: Database
) -> None:
    now = datetime.now(UTC).isoformat()
    told = ["2020-01-01T00:00:00+00:00", "2021-06-01T12:30:00.500000+02:00", now]
    async with place.saver() as saver:
        await saver.setup()
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for step, ts in enumerate(told):
            checkpoint = {**empty_checkpoint(), "ts": ts}
            config = await saver.aput(config, checkpoint, {"source": "loop", "step": step}, {})

    await import_langgraph(place.url, db)

    keep = MemalchemySaver(db).checkpointer("")
    infos = [info async for info in keep.history("t")][::-1]
    assert [info.occurred_at for info in infos] == [datetime.fromisoformat(ts) for ts in told]
    assert all(datetime.now(UTC) - info.created_at < timedelta(minutes=5) for info in infos)
    assert await keep.prune(older_than=timedelta(days=30), all_namespaces=True) == 2
    assert await keep.list_checkpoints("t") == [infos[-1].checkpoint_id]
