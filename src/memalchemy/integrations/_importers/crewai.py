"""Reads CrewAI's SQLite files: states of flows, pending feedback, and checkpoints.

It does not need CrewAI, whose requirements exclude those of other frameworks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

from memalchemy._bounds import parse_json
from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import Retention
from memalchemy.database import Database
from memalchemy.errors import NotFound
from memalchemy.importers.foreign_tables import ForeignTables, Row
from memalchemy.importers.log_times import LogTimes
from memalchemy.importers.stored_time import to_utc
from memalchemy.importers.target import ImportedThread, NewCheckpoint, Record, Unreadable, Whole
from memalchemy.importers.unreadable import UNREADABLE, Unusable, describe_problem, text_field
from memalchemy.integrations._importers._json import object_in
from memalchemy.integrations._importers._jsonb import decode_jsonb

FLOWS = ("crewai", "flows")
PENDING = (*FLOWS, "pending")
CHECKPOINTS = ("crewai", "checkpoints")
"""Namespaces of the adapters' data; tests/integrations/crewai compares them."""

_STATES = ("flow_states", "flow_uuid", "method_name", "state_json")
_FEEDBACK = ("pending_feedback", "flow_uuid", "context_json", "state_json")
_CHECKPOINTS = ("checkpoints", "id", "parent_id", "branch", "data")
_BEGINNING = "flow_states-"
"""Beginning of the id of an imported state; the id of its row follows."""
_RESUMED = {"resumed": True}


async def count(place: str, *, schema: str | None = None) -> int:
    """Count the records: one for each flow, each pause, and each table of checkpoints."""
    async with ForeignTables.open(place, schema=schema) as tables:
        _check_tables(tables)
        states = [len(await _list_flows(tables, name)) for name in tables.like(*_STATES)]
        pauses = [await tables.count(name) for name in tables.like(*_FEEDBACK)]
        return sum(states) + sum(pauses) + len(tables.like(*_CHECKPOINTS))


async def read(place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
    """Yield the flows by id, then what flows wait for, then the checkpoints.

    Checkpoints become those of the location *place*, as it is written.
    """
    async with ForeignTables.open(place, schema=schema) as tables:
        _check_tables(tables)
        flows: dict[str, list[int]] = {}
        for name in tables.like(*_STATES):
            flows = await _list_flows(tables, name)
            for flow, ids in flows.items():
                if isinstance(flow, str):
                    yield _record_of_flow(tables, name, flow, ids)
                else:
                    left_out = [f"state {one}" for one in ids]
                    yield Unreadable(
                        "thread", f"flow {flow!r}", "has an id that is no text", left_out
                    )
        for name in tables.like(*_FEEDBACK):
            async for row in tables.rows(name, "id"):
                try:
                    yield _record_of_pause(row, flows.get(row["flow_uuid"], []))
                except UNREADABLE as error:
                    yield Unreadable("thread", _label_of_pause(row), describe_problem(error))
        for name in tables.like(*_CHECKPOINTS):
            found = [row["id"] async for row in tables.rows(name, "rowid", only=["id"])]
            ids_ = [one for one in found if isinstance(one, str)]
            nameless = ["a checkpoint: has an id that is no text"] * (len(found) - len(ids_))
            yield _record_of_checkpoints(tables, name, place, ids_, nameless)


def _check_tables(tables: ForeignTables) -> None:
    if not any(tables.like(*one) for one in (_STATES, _FEEDBACK, _CHECKPOINTS)):
        raise NotFound("there are no tables of CrewAI's in this database")


async def _list_flows(tables: ForeignTables, name: str) -> dict[str, list[int]]:
    """Return the ids of the states of each flow, oldest first."""
    flows: dict[str, list[int]] = {}
    async for row in tables.rows(name, "flow_uuid", "id", only=["flow_uuid", "id"]):
        flows.setdefault(row["flow_uuid"], []).append(row["id"])
    return flows


def _record_of_flow(tables: ForeignTables, name: str, flow: str, ids: list[int]) -> ImportedThread:
    names = {f"{_BEGINNING}{one}": one for one in ids}
    earlier = dict(zip([*names][1:], names, strict=False))

    async def load(checkpoint_id: str) -> NewCheckpoint | None:
        async for row in tables.rows(name, "id", where={"id": names[checkpoint_id]}):
            return NewCheckpoint(
                checkpoint_id,
                object_in(row["state_json"]),
                to_utc(row["timestamp"]),
                earlier.get(checkpoint_id),
                {"method": text_field(row, "method_name")},
            )
        return None

    return ImportedThread(FLOWS, flow, [*names], load, label=f"flow {flow}")


def _record_of_pause(row: Row, ids: Sequence[int]) -> Record:
    flow, at = text_field(row, "flow_uuid"), to_utc(row["created_at"])
    context, state = object_in(row["context_json"]), object_in(row["state_json"])
    value = {"context": context, "state": state}
    imported = {f"{_BEGINNING}{one}" for one in ids}

    async def load(db: Database, prefix: str) -> Any:
        there = await _checkpointer_of_pauses(db).load(prefix + flow)
        if there is None:
            newest = await Checkpointer(db, namespace=FLOWS).list_checkpoints(prefix + flow, 1)
            if newest and newest[0] not in imported:
                return _RESUMED
        return there

    async def save(db: Database, prefix: str, _: Any) -> None:
        method = {"method": context.get("method_name")}
        await _checkpointer_of_pauses(db).save(value, prefix + flow, None, method, occurred_at=at)

    return Whole(
        "thread",
        _label_of_pause(row),
        value,
        load,
        save,
        logs=lambda _, prefix: LogTimes.of(PENDING, prefix + flow, [at]),
        # A flow that was resumed here, or waits for something later, is not made to wait again.
        covers=lambda found: found == _RESUMED or _is_later(found, value),
    )


def _label_of_pause(row: Row) -> str:
    return f"pending feedback of flow {row['flow_uuid']}"


def _checkpointer_of_pauses(db: Database) -> Checkpointer:
    return Checkpointer(db, namespace=PENDING, retention=Retention(keep_last=1))


def _is_later(found: Any, value: Any) -> bool:
    times = [str(one["context"].get("requested_at")) for one in (found, value)]
    return bool(times[0] > times[1])


def _record_of_checkpoints(
    tables: ForeignTables, name: str, place: str, ids: list[str], left_out: list[str]
) -> ImportedThread:
    async def load(checkpoint_id: str) -> NewCheckpoint | None:
        async for row in tables.rows(name, "id", where={"id": checkpoint_id}):
            data = row["data"]
            state = parse_json(data) if isinstance(data, str) else decode_jsonb(data)
            made = datetime.strptime(row["created_at"], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
            parent_id = None if row["parent_id"] is None else text_field(row, "parent_id")
            branch = {"branch": text_field(row, "branch")}
            if not isinstance(state, dict):
                raise Unusable("is no JSON object")
            return NewCheckpoint(checkpoint_id, state, made, parent_id, branch)
        return None

    label = f"checkpoints of {place}"
    return ImportedThread(CHECKPOINTS, place, ids, load, label=label, left_out=left_out)
