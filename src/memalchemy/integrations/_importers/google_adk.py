"""Reads the tables of ADK's `DatabaseSessionService` and `SqliteSessionService`.

Three layouts exist. In two an event is JSON; they differ in the types of times. In the oldest one,
schema version 0, it is columns, of which one is a pickle, which is never loaded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from google.adk.events import Event

from memalchemy._bounds import parse_json
from memalchemy.contracts import MAX_LIMIT, NewItem
from memalchemy.database import Database, HostConnection
from memalchemy.errors import Conflict
from memalchemy.importers.foreign_tables import ForeignTables, Row
from memalchemy.importers.log_times import LogTimes
from memalchemy.importers.stored_time import to_utc
from memalchemy.importers.target import BATCH, Items, Record, Unreadable, Whole
from memalchemy.importers.unreadable import (
    UNREADABLE,
    Unusable,
    describe_problem,
    read_or_leave,
    text_field,
)
from memalchemy.integrations._importers._json import object_in, value_of
from memalchemy.integrations.google_adk import MemalchemySessionService
from memalchemy.integrations.google_adk.sessions import SESSION, event_key, moment

_SESSION = ("app_name", "user_id", "id")
_SCHEMA = "adk_internal_metadata"
"""Table that `DatabaseSessionService` makes beside events in JSON, and `SqliteSessionService` does
not."""
_IMPORTED = {"imported_from": "google-adk"}
"""Metadata of shared state as long as it was not changed after the import."""
_CONTENTS = (
    "content",
    "grounding_metadata",
    "custom_metadata",
    "usage_metadata",
    "citation_metadata",
    "input_transcription",
    "output_transcription",
)
"""Columns of schema version 0 that hold JSON."""
_PLAIN = (
    "id",
    "invocation_id",
    "author",
    "branch",
    "partial",
    "turn_complete",
    "error_code",
    "error_message",
    "interrupted",
)
_PICKLED = "the pickled actions of as many events"


async def count(place: str, *, schema: str | None = None) -> int:
    """Count the records: one for each session, and one for 500 rows of state of apps and users."""
    async with ForeignTables.open(place, schema=schema) as tables:
        rows = [await tables.count(name) for name in _find_tables(tables)]
        return rows[0] + sum(-(-one // BATCH) for one in rows[1:])


async def read(place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
    """Yield the state of apps and of users, and then the sessions, each with its events and state.

    Events of schema version 0 come without their actions, which are pickled; they are counted.
    """
    async with ForeignTables.open(place, schema=schema) as tables:
        sessions, apps, users = _find_tables(tables)
        async for page in _shared_states(tables, apps, "apps", "app_name"):
            yield page
        async for page in _shared_states(tables, users, "users", "app_name", "user_id"):
            yield page
        there = [row async for row in tables.rows(sessions, *_SESSION, only=_SESSION)]
        for keys in there:
            found = [row async for row in tables.rows(sessions, *_SESSION, where=keys)]
            for row in found or [keys]:
                try:
                    yield await _read_session(tables, row)
                except UNREADABLE as error:
                    yield Unreadable("log", _label_of_session(row), describe_problem(error))
        async for orphans in _orphaned_events(tables, there):
            yield orphans


def _find_tables(tables: ForeignTables) -> tuple[str, str, str]:
    """Return the tables of sessions, of apps' and of users' state.

    Raises:
        NotFound: they are not all there, with those of events.
    """
    tables.exactly("events", "session_id", "invocation_id", "timestamp")
    return (
        tables.exactly("sessions", *_SESSION, "state", "update_time"),
        tables.exactly("app_states", "app_name", "state", "update_time"),
        tables.exactly("user_states", "user_id", "state", "update_time"),
    )


async def _shared_states(
    tables: ForeignTables, name: str, scope: str, *owner: str
) -> AsyncIterator[Items]:
    """Yield the state of one scope, the rows of `BATCH` owners at a time."""
    page: list[NewItem] = []
    left_out: list[str] = []
    read = 0

    def items(row: Row) -> list[NewItem]:
        at = moment(_to_seconds(row["update_time"]))
        namespace = (MemalchemySessionService.root, scope, *(text_field(row, one) for one in owner))
        return [
            NewItem(namespace, key, value, _IMPORTED, created_at=at, updated_at=at)
            for key, value in object_in(row["state"]).items()
        ]

    async for row in tables.rows(name, *owner):
        label = "/".join(str(row[one]) for one in owner)
        page += read_or_leave(lambda row=row: items(row), label, left_out) or []  # type: ignore[misc]
        read += 1
        if read % BATCH == 0:
            yield Items(page, f"state of {scope}", left_out, renewable=True)
            page, left_out = [], []
    if read % BATCH:
        yield Items(page, f"state of {scope}", left_out, renewable=True)


async def _orphaned_events(
    tables: ForeignTables, sessions: Sequence[Row]
) -> AsyncIterator[Unreadable]:
    """Yield the events of sessions that are not there."""
    known = {tuple(row[name] for name in _SESSION) for row in sessions}
    lost: dict[tuple[Any, ...], list[str]] = {}
    names = ("app_name", "user_id", "session_id", "id")
    async for row in tables.rows("events", *names, only=names):
        place = tuple(row[name] for name in names[:3])
        if place not in known:
            lost.setdefault(place, []).append(f"event {row['id']}")
    for (app_name, user_id, id_), events in lost.items():
        row = {"app_name": app_name, "user_id": user_id, "id": id_}
        yield Unreadable("log", _label_of_session(row), "its session is not there", events)


def _label_of_session(row: Row) -> str:
    return f"session {row['id']} of {row['user_id']} in {row['app_name']}"


async def _read_session(tables: ForeignTables, row: Row) -> Whole:
    app_name, user_id, _session_id = (text_field(row, one) for one in _SESSION)
    names: list[str] = []
    events: list[dict[str, Any]] = []
    left_out: list[str] = []
    where = {"app_name": app_name, "user_id": user_id, "session_id": row["id"]}
    columns = tables.columns("events")
    # As ADK's services order them: what is equally old, by id or in the order of writing.
    is_plain = "event_data" in columns and _SCHEMA not in tables
    async for stored in tables.rows(
        "events", "timestamp", "rowid" if is_plain else "id", where=where
    ):
        read = _to_event if "event_data" in columns else _event_of_columns
        name = f"event {stored['id']}"
        event = read_or_leave(lambda: _check_event(read(stored)), name, left_out)  # noqa: B023
        if event is not None:
            events.append(event)
            names.append(name)
    pickled = 0
    if "event_data" not in columns:
        pickled = await tables.count("events", where=where, present="actions")
    state = read_or_leave(lambda: object_in(row["state"]), "state", left_out) or {}
    parts = [*names, *(f"state {key!r}" for key in state)]

    def record(kept: Sequence[int], left_out: Sequence[str] = (), pickled: int = 0) -> Whole:
        values = [*state.items()]
        return _to_record(
            row,
            [events[at] for at in kept if at < len(events)],
            dict(values[at - len(events)] for at in kept if at >= len(events)),
            parts=[parts[at] for at in kept],
            with_parts=lambda some: record([kept[at] for at in some]),
            left_out=left_out,
            unreadable=pickled,
            reason=_PICKLED if pickled else "",
        )

    return record(range(len(parts)), left_out, pickled)


def _to_record(
    row: Row, events: list[dict[str, Any]], state: dict[str, Any], **about: Any
) -> Whole:
    app_name, user_id, session_id = (str(row[one]) for one in _SESSION)
    value = {
        "events": events,
        "state": _sort_state(state),
        "created": moment(_to_seconds(row["create_time"])).isoformat(),
        "update_time": _to_seconds(row["update_time"]),
    }
    session = _Session(app_name, user_id, session_id.strip(), value)
    return Whole(
        "log",
        _label_of_session(row),
        value,
        session.read,
        session.write,
        logs=session.times,
        covers=session.is_part_of,
        extends=session.extends,
        missing=lambda found: len(events) - len(found["events"] if found else ()),
        **about,
    )


def _check_event(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event that ADK takes, and whose place and time can be stored."""
    Event.model_validate(event)
    if not isinstance(event["timestamp"], int | float):
        raise Unusable("has a time that is none")
    event_key(text_field(event, "id"))
    return event


class _Session:
    """A session as it is read from tables, and its place in the database."""

    def __init__(self, app_name: str, user_id: str, id_: str, value: dict[str, Any]) -> None:
        self._owner = (app_name, user_id)
        self._id = id_
        self._value = value

    async def read(self, db: Database, prefix: str) -> dict[str, Any] | None:
        """Return what the database has of the session."""
        async with db.transaction() as tx:
            return await self._read_stored(db, prefix, tx)

    async def write(self, db: Database, prefix: str, found: dict[str, Any] | None) -> None:
        """Write the events that are missing, and the state, in one transaction."""
        service = MemalchemySessionService(db)
        log, namespace, id_ = self._log_and_namespace(service, prefix)
        events = self._value["events"]
        async with db.transaction() as tx:
            await log.hold(id_, tx)
            if await self._read_stored(db, prefix, tx) != found:
                raise Conflict("the session was changed meanwhile")
            start = len(found["events"]) if found is not None and self.extends(found) else 0
            if start == 0:
                await log.delete(id_, connection=tx)
            for at in range(start, len(events), BATCH):
                some = events[at : at + BATCH]
                times = [moment(event["timestamp"]) for event in some]
                keys = [event_key(event["id"]) for event in some]
                await log.append(id_, some, keys=keys, occurred_at=times, connection=tx)
            await service.store.clear_namespace(namespace, connection=tx)
            values = {SESSION: {"update_time": self._value["update_time"]}}
            values |= {f":{name}": value for name, value in self._value["state"].items()}
            created = datetime.fromisoformat(self._value["created"])
            updated = moment(self._value["update_time"])
            await service.store.put_batch(
                [
                    NewItem(namespace, key, value, created_at=created, updated_at=updated)
                    for key, value in values.items()
                ],
                connection=tx,
            )

    def times(self, db: Database, prefix: str) -> list[LogTimes]:
        """Return the log of the session, with its times."""
        log, _, id_ = self._log_and_namespace(MemalchemySessionService(db), prefix)
        times = [moment(event["timestamp"]) for event in self._value["events"]]
        return LogTimes.of(log.namespace, id_, times)

    def is_part_of(self, found: dict[str, Any]) -> bool:
        """Return whether *found* has all events, and more of them."""
        value = self._value
        more = len(found["events"]) > len(value["events"])
        return _is_beginning(value, found) and (more or found["update_time"] > value["update_time"])

    def extends(self, found: dict[str, Any]) -> bool:
        """Return whether *found* is what an earlier import wrote of the session."""
        return _is_beginning(found, self._value)

    def _log_and_namespace(
        self, service: MemalchemySessionService, prefix: str
    ) -> tuple[Any, Any, str]:
        id_ = prefix + self._id
        namespace = (*service.namespace, "sessions", *self._owner, id_)
        return service.log(*self._owner), namespace, id_

    async def _read_stored(
        self, db: Database, prefix: str, tx: HostConnection
    ) -> dict[str, Any] | None:
        service = MemalchemySessionService(db)
        log, namespace, id_ = self._log_and_namespace(service, prefix)
        items = await service.store.list_items(
            namespace, limit=MAX_LIMIT, order="key", connection=tx
        )
        own = next((item for item in items if item.key == SESSION), None)
        _, events = await log.scan(id_, lambda _, event, __: event, connection=tx)
        if own is None:
            return None
        return {
            "events": events,
            "state": _sort_state(
                {item.key[1:]: item.value for item in items if item.key != SESSION}
            ),
            "created": own.created_at.isoformat(),
            "update_time": own.value["update_time"],
        }


def _is_beginning(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether *other* is the same session, with the same events first."""
    events = other["events"][: len(one["events"])]
    return bool(one["created"] == other["created"] and events == one["events"])


def _sort_state(state: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(state.items()))


def _to_event(row: Row) -> dict[str, Any]:
    """Return an event that is stored as JSON, as ADK reads it."""
    event = {} if row["event_data"] is None else object_in(row["event_data"])
    timestamp = event.get("timestamp")
    return event | {
        "id": row["id"],
        "invocation_id": row["invocation_id"],
        "timestamp": _to_seconds(row["timestamp"]) if timestamp is None else timestamp,
    }


def _event_of_columns(row: Row) -> dict[str, Any]:
    """Return an event of schema version 0, without its actions."""
    event = {name: row[name] for name in _PLAIN if row.get(name) is not None}
    for name in ("partial", "turn_complete", "interrupted"):
        if name in event:
            event[name] = bool(event[name])
    for name in _CONTENTS:
        found = value_of(row.get(name))
        if found is not None:
            event[name] = found
    event["long_running_tool_ids"] = parse_json(row["long_running_tool_ids_json"] or "[]")
    event["timestamp"] = _to_seconds(row["timestamp"])
    made = Event.model_validate(event)
    return made.model_dump(mode="json", exclude_none=True)


def _to_seconds(stored: Any) -> float:
    """Return a time as seconds since 1970; ADK stores them in UTC."""
    if isinstance(stored, int | float) and not isinstance(stored, bool):
        return float(stored)
    return to_utc(stored).timestamp()
