"""Reading of the OpenAI Agents SDK's own tables, all as of one moment.

`SQLiteSession` and `SQLAlchemySession` have two tables, of sessions and of messages;
`AdvancedSQLiteSession` has two more, of branches and of usage.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, TableClause, column, distinct, func, inspect, select, table
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy._bounds import parse_json
from memalchemy.database import Database
from memalchemy.errors import NotFound
from memalchemy.importers.foreign_tables import undecodable_as_bytes
from memalchemy.importers.openai_session_namespaces import MAIN
from memalchemy.importers.stored_time import to_utc
from memalchemy.importers.unreadable import Unusable, read_or_leave

MESSAGES = "agent_messages"
STRUCTURE = "message_structure"
USAGE = "turn_usage"

PAGE = 500
_COUNTERS = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS = ("input_tokens_details", "output_tokens_details")


@dataclass(frozen=True, slots=True)
class MessageRow:
    """Row of messages; ``key`` is made of the row's id."""

    key: str
    value: Any
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class Branch:
    """Items of one branch of a session, in order.

    ``left_out`` names what nobody can read. ``usage`` has that of each turn, under the index of the
    turn's first item.
    """

    session_id: Any
    name: Any
    items: list[MessageRow]
    left_out: list[str] = field(default_factory=list)
    usage: dict[int, dict[str, Any]] = field(default_factory=dict)


class AgentTables:
    """The tables of one database, on a connection that sees one snapshot of them."""

    def __init__(self, snapshot: AsyncConnection, schema: str | None, messages: str) -> None:
        self._snapshot = snapshot
        self._messages = _table(
            messages, "id", "session_id", "message_data", "created_at", schema=schema
        )
        self._structure: TableClause | None = None
        self._usage: TableClause | None = None
        self._order = [self._messages.c.id]

    @classmethod
    @asynccontextmanager
    async def open(cls, source: Database, messages: str = MESSAGES) -> AsyncIterator[AgentTables]:
        """Open the tables of *source*.

        Raises:
            NotFound: it has no such table.
        """
        async with source.snapshot() as snapshot:
            tables = cls(snapshot, source.schema, messages)
            await snapshot.run_sync(tables._inspect_tables, source.schema, messages)
            with undecodable_as_bytes(snapshot):
                yield tables

    async def count(self) -> int:
        """Count the sessions with messages."""
        counted = select(func.count(distinct(self._messages.c.session_id)))
        return int((await self._snapshot.execute(counted)).scalar_one())

    async def branches(self) -> AsyncIterator[Branch]:
        """Yield all branches of all sessions, sorted by session id, main first."""
        ids = select(self._messages.c.session_id).distinct()
        ids = ids.order_by(self._messages.c.session_id).limit(PAGE)
        page = list((await self._snapshot.execute(ids)).scalars())
        while page:
            for session_id in page:
                for branch in await self._branches_of(session_id):
                    yield branch
            after = ids.where(self._messages.c.session_id > page[-1])
            page = list((await self._snapshot.execute(after)).scalars())

    def _inspect_tables(self, connection: Connection, schema: str | None, messages: str) -> None:
        inspector = inspect(connection)
        names = set(inspector.get_table_names(schema=schema))
        if messages not in names:
            raise NotFound(
                f"the database has no table {messages!r}; if the SDK was given another name for "
                "its messages, give it as messages_table= or --messages-table"
            )
        # `SQLAlchemySession` creates this index, and returns items in its order.
        indexes = {index["name"] for index in inspector.get_indexes(messages, schema=schema)}
        if f"idx_{messages}_session_time" in indexes:
            self._order.insert(0, self._messages.c.created_at)
        if {STRUCTURE, USAGE} <= names:
            turn = ("session_id", "branch_id", "user_turn_number")
            message = ("message_id", "message_type", "sequence_number", "id")
            self._structure = _table(STRUCTURE, *turn, *message, schema=schema)
            self._usage = _table(USAGE, *turn, *_COUNTERS, *_DETAILS, schema=schema)

    async def _branches_of(self, session_id: str) -> list[Branch]:
        m = self._messages.c
        query = select(m.id, m.message_data, m.created_at).where(m.session_id == session_id)
        rows = (await self._snapshot.execute(query.order_by(*self._order))).all()
        items = {row.id: _Read.of(row) for row in rows}
        if self._structure is not None:
            s = self._structure.c
            structure = select(s.branch_id, s.message_id, s.user_turn_number, s.message_type)
            structure = structure.where(s.session_id == session_id)
            found = await self._snapshot.execute(structure.order_by(s.sequence_number, s.id))
            if rows_by_branch := found.all():
                return await self._split_into_branches(session_id, items, rows_by_branch)
        return [_to_branch(session_id, MAIN, list(items.values()))]

    async def _split_into_branches(
        self, session_id: str, items: dict[Any, _Read], structure: Any
    ) -> list[Branch]:
        """Distribute the items of a session over its branches."""
        lost: list[str] = []
        usage = await self._usage_of(session_id, lost)
        names = sorted(
            {row.branch_id for row in structure}, key=lambda name: (name != MAIN, str(name))
        )
        found = []
        for name in names:
            shown = [row for row in structure if row.branch_id == name and row.message_id in items]
            readable = [row for row in shown if items[row.message_id].item is not None]
            used = {
                at: usage[name, row.user_turn_number]
                for at, row in enumerate(readable)
                if row.message_type == "user" and (name, row.user_turn_number) in usage
            }
            branch = _to_branch(session_id, name, [items[row.message_id] for row in shown], used)
            branch.left_out.extend(lost)
            lost = []
            found.append(branch)
        return found

    async def _usage_of(
        self, session_id: str, lost: list[str]
    ) -> dict[tuple[Any, Any], dict[str, Any]]:
        assert self._usage is not None
        query = select(self._usage).where(self._usage.c.session_id == session_id)
        found = {}
        for row in await self._snapshot.execute(query):
            turn = row.branch_id, row.user_turn_number
            used = read_or_leave(partial(_usage_counters, row), f"usage of turn {turn[1]}", lost)
            if used is not None:
                found[turn] = used
        return found


def _table(name: str, *columns: str, schema: str | None) -> TableClause:
    return table(name, *(column(each) for each in columns), schema=schema)


@dataclass(frozen=True, slots=True)
class _Read:
    """Item of a row; if it cannot be read, the name of the row and the reason."""

    item: MessageRow | None
    left_out: list[str]

    @classmethod
    def of(cls, row: Any) -> _Read:
        left_out: list[str] = []
        item = read_or_leave(lambda: _to_item(row), f"row {row.id}", left_out)
        return cls(item, left_out)


def _to_branch(
    session_id: Any, name: Any, read: list[_Read], usage: dict[int, Any] | None = None
) -> Branch:
    readable = [one.item for one in read if one.item is not None]
    left_out = [name for one in read for name in one.left_out]
    return Branch(session_id, name, readable, left_out, usage or {})


def _to_item(row: Any) -> MessageRow:
    value = parse_json(row.message_data)
    return MessageRow(f"openai-agents:{row.id}", value, to_utc(row.created_at))


def _usage_counters(row: Any) -> dict[str, Any]:
    counters = {name: getattr(row, name) or 0 for name in _COUNTERS}
    if not all(isinstance(one, int) for one in counters.values()):
        raise Unusable("has a counter that is no number")
    return {**counters, **{name: _parse_details(getattr(row, name)) for name in _DETAILS}}


def _parse_details(stored: Any) -> Any:
    return parse_json(stored) if isinstance(stored, str | bytes) else stored
