"""What CrewAI stored itself in SQLite is imported: flows, pending feedback, checkpoints."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from crewai.flow.async_feedback.types import PendingFeedbackContext
from crewai.flow.persistence.sqlite import SQLiteFlowPersistence
from crewai.state.provider import sqlite_provider
from typer.testing import CliRunner

from memalchemy import Database, DatabaseUnreachable, NotFound
from memalchemy.cli.app import app
from memalchemy.importers.sources import SOURCES
from memalchemy.importers.target import ImportOutcome, ImportTarget
from memalchemy.integrations._importers import crewai as reader
from memalchemy.integrations._importers._jsonb import decode_jsonb
from memalchemy.integrations.crewai import (
    MemalchemyCheckpointProvider,
    MemalchemyFlowPersistence,
)

OLD = datetime(2021, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)
DOCUMENT = {
    "crewai_version": "1.15.30",
    "parent_id": None,
    "branch": "main",
    "entities": [
        {
            "n": -12,
            "f": 1.5,
            "e": 1e-7,
            "big": 2**70,
            "t": True,
            "no": False,
            "words": "plain",
            "esc": 'line\n"quoted" é 日 😀 \x00',
            "long": "x" * 300,
            "empty": {},
            "list": [],
            "inf": float("inf"),
        }
    ],
    "event_record": {"nodes": {"a/b": [1, [2, [3]]]}},
}
JSONB = bytes.fromhex(
    "dc0229c70e6372657761695f76657273696f6e77312e31352e333097706172656e745f696400676272616e6368476d"
    "61696e87656e746974696573db01c9dc01c6176e332d3132176635312e3517655531652d303737626967c316313138"
    "30353931363230373137343131333033343234177401276e6f0257776f72647357706c61696e37657363c8326c696e"
    "655c6e5c2271756f7465645c22205c7530306539205c7536356535205c75643833645c7564653030205c7530303030"
    f"476c6f6e67d7012c{'78' * 300}"
    "57656d7074790c476c6973740b37696e66553965393939c70c6576656e745f7265636f7264cc15576e6f646573cc0d"
    "37612f628b13315b13322b1333"
)
"""`json.dumps` of the document, as ``jsonb()`` of SQLite 3.54 stores it."""


def pause(flow: str, at: datetime = OLD) -> PendingFeedbackContext:
    return PendingFeedbackContext(flow, "app.F", "ask", {"a": 1}, "Good?", requested_at=at)


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A file with all three tables, filled by CrewAI itself, but for what SQLite is too old for."""
    path = tmp_path / "crewai.db"
    theirs = SQLiteFlowPersistence(str(path))
    for turn in range(3):
        theirs.save_state("f1", f"step{turn}", {"id": "f1", "turn": turn, "é": [1.5, None]})
        theirs.save_state("f2", "step", {"id": "f2", "turn": turn})
    theirs.save_pending_feedback("f2", pause("f2"), {"id": "f2", "turn": 2, "waits": True})
    with closing(sqlite3.connect(path)) as raw, raw:
        for table, column in (("flow_states", "timestamp"), ("pending_feedback", "created_at")):
            raw.execute(f"UPDATE {table} SET {column} = ? WHERE id = 1", [OLD.isoformat()])
        raw.execute(sqlite_provider._CREATE_TABLE)
        rows = [
            ("20210304T050607_b", None, "main", JSONB),
            ("20210304T050607_a", "20210304T050607_b", "main", JSONB),
            ("20210304T050608_c", "20210304T050607_a", "fork/x", b"\x0c"),
        ]
        for id_, parent, branch, data in rows:
            raw.execute(
                "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?)",
                (id_, id_.partition("_")[0], parent, branch, data),
            )
    return str(path)


@pytest.fixture
async def source(place: str) -> AsyncIterator[str]:
    before = content(place)
    yield place
    assert content(place) == before, "nothing changed"


def content(place: str) -> list[str]:
    with closing(sqlite3.connect(place)) as raw:
        return list(raw.iterdump())


async def imported(place: str, db: Database, **options: Any) -> list[ImportOutcome]:
    target = ImportTarget(db, **options)
    return [await target.write(record) async for record in SOURCES["crewai"].read(place)]


def change(place: str, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(place)) as raw, raw:
        raw.execute(statement, values)


def test_the_reader_knows_where_the_adapters_look(db: Database) -> None:
    flows = MemalchemyFlowPersistence(db)
    assert flows.native.namespace == reader.FLOWS
    assert flows._pending.namespace == reader.PENDING
    assert MemalchemyCheckpointProvider(db).native.namespace == reader.CHECKPOINTS


async def test_an_import_is_complete_counted_and_not_repeated(source: str, db: Database) -> None:
    dry = await imported(source, db, dry_run=True)
    flows = MemalchemyFlowPersistence(db)
    assert await flows.native.list_logs(below=True) == []
    first = await imported(source, db)

    assert first == dry
    assert [(one.name, one.status, one.written) for one in first] == [
        ("flow f1", "imported", 3),
        ("flow f2", "imported", 4),
        ("pending feedback of flow f2", "imported", 1),
        (f"checkpoints of {source}", "imported", 3),
    ]
    assert len(first) == await SOURCES["crewai"].count(source)
    again = await imported(source, db)
    assert {(outcome.status, outcome.written) for outcome in again} == {("unchanged", 0)}


async def test_what_is_imported_reads_as_it_did_with_its_times(source: str, db: Database) -> None:
    await imported(source, db)

    ours, theirs = MemalchemyFlowPersistence(db), SQLiteFlowPersistence(source)
    for flow in ("f1", "f2", "f3"):
        assert await ours.aload_state(flow) == theirs.load_state(flow)
        assert await ours.aload_pending_feedback(flow) == theirs.load_pending_feedback(flow)
    history = [one async for one in ours.native.history("f1")]
    assert [one.metadata["method"] for one in history] == ["step2", "step1", "step0"]
    assert [one.parent_id for one in history] == [
        history[1].checkpoint_id,
        history[2].checkpoint_id,
        None,
    ]
    assert history[-1].occurred_at == OLD
    (waits,) = [one async for one in ours._pending.history("f2")]
    assert waits.occurred_at == OLD

    provider = MemalchemyCheckpointProvider(db)
    for id_ in ("20210304T050607_b", "20210304T050607_a"):
        assert json.loads(await provider.afrom_checkpoint(f"{source}#{id_}")) == DOCUMENT
    found = [one async for one in provider.native.history(source)]
    assert [one.checkpoint_id[-1] for one in found] == ["c", "a", "b"], "in the order of the rows"
    assert [one.metadata["branch"] for one in found] == ["fork/x", "main", "main"]
    assert found[1].parent_id == "20210304T050607_b"
    assert found[2].occurred_at == OLD.replace(microsecond=0)
    assert await provider.aprune(source, 1) == 1


async def test_a_flow_that_went_on_at_its_source_is_completed(place: str, db: Database) -> None:
    await imported(place, db)
    SQLiteFlowPersistence(place).save_state("f1", "later", {"id": "f1", "turn": 9})

    done = await imported(place, db)

    assert [(one.status, one.written) for one in done][:2] == [("resumed", 1), ("unchanged", 0)]
    assert await MemalchemyFlowPersistence(db).aload_state("f1") == {"id": "f1", "turn": 9}


async def test_a_flow_that_was_resumed_here_is_left_and_another_is_a_conflict(
    source: str, db: Database
) -> None:
    await imported(source, db)
    flows = MemalchemyFlowPersistence(db)
    await flows.asave_state("f2", "resumed", {"id": "f2", "turn": 10})
    await flows.aclear_pending_feedback("f2")
    await flows.native.delete("f1")
    await flows.native.save({"id": "something else"}, "f1", "flow_states-1")

    done = {one.name: one.status for one in await imported(source, db)}
    assert done["flow f1"] == "conflict"
    assert done["flow f2"] == done["pending feedback of flow f2"] == "unchanged"
    assert await flows.aload_pending_feedback("f2") is None
    await flows.asave_pending_feedback("f2", pause("f2", OLD + timedelta(days=1)), {"turn": 11})
    await imported(source, db, on_conflict="replace")
    paused = await flows.aload_pending_feedback("f2")
    assert paused is not None
    assert paused[0] == {"turn": 11}
    assert await flows.aload_state("f1") == SQLiteFlowPersistence(source).load_state("f1")


async def test_what_cannot_be_read_is_counted_and_the_rest_is_imported(
    place: str, db: Database
) -> None:
    change(place, "UPDATE flow_states SET state_json = '[1' WHERE id = 3")
    change(place, "UPDATE pending_feedback SET context_json = 'null'")
    change(place, "UPDATE checkpoints SET data = x'ff00' WHERE branch = 'fork/x'")

    done = await imported(place, db)

    assert [one.unreadable for one in done] == [1, 0, 1, 1]
    assert await MemalchemyFlowPersistence(db).aload_pending_feedback("f2") is None
    ids = await MemalchemyFlowPersistence(db).native.list_checkpoints("f1")
    assert len(ids) == 2


def test_jsonb_is_read_and_what_is_none_is_refused() -> None:
    assert decode_jsonb(JSONB) == DOCUMENT
    wide = b"\xeb\x00\x01\x11\x75\xe7\x00\x01\x11\x70" + b"y" * 70_000
    assert decode_jsonb(wide) == ["y" * 70_000]
    assert (decode_jsonb(b"\x00"), decode_jsonb(b"\x4b\x13\x31\x13\x32")) == (None, [1, 2])
    for end in range(len(JSONB) - 1):
        with pytest.raises(ValueError, match=r"JSON"):
            decode_jsonb(JSONB[:end])
    for broken in (b"", b"\x17", b"\x1c\x00", b"\x1d", JSONB + b"\x00", b"\x0d", b"\x17\xff"):
        with pytest.raises(ValueError, match=r".+"):
            decode_jsonb(broken)
    if sqlite3.sqlite_version_info >= (3, 45):
        with closing(sqlite3.connect(":memory:")) as raw:
            ((stored,),) = raw.execute("SELECT jsonb(?)", [json.dumps(DOCUMENT)])
        assert stored == JSONB


async def test_a_place_with_nothing_of_it_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreachable, match="there is no file"):
        await SOURCES["crewai"].count(str(tmp_path / "none"))
    empty = tmp_path / "empty.db"
    with closing(sqlite3.connect(empty)) as raw:
        raw.execute("CREATE TABLE other (id int)")
    with pytest.raises(NotFound, match="CrewAI"):
        await SOURCES["crewai"].count(str(empty))


async def test_the_command_imports_it(source: str, tmp_path: Path) -> None:
    def call(*arguments: str) -> Any:
        command = ["--db", f"sqlite:///{tmp_path}/ours.db", "import", "crewai", *arguments]
        return asyncio.to_thread(CliRunner().invoke, app, command, catch_exceptions=False)

    done = await call("--from", source, "--dry-run", "--json")
    assert json.loads(done.stdout)["written"] == 11
    assert not (tmp_path / "ours.db").exists()
    done = await call("--from", source, "--prefix", "old/", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["records"]["imported"] == 4
    flows = MemalchemyFlowPersistence(tmp_path / "ours.db")
    assert await flows.aload_pending_feedback("old/f2") is not None
    await flows.aclose()
    assert (await call("--from", str(tmp_path / "none.db"))).exit_code == 3
