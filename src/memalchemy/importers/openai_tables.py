"""The tables in which the OpenAI Agents SDK keeps sessions, read as of one moment. Writes nothing.

`SQLiteSession` and `SQLAlchemySession` have two; `AdvancedSQLiteSession` has two more, about
branches and usage. Their names may be others than the SDK's own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, TableClause, column, distinct, func, inspect, select, table
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database import Database
from memalchemy.errors import NotFound
from memalchemy.importers.openai_places import MAIN

MESSAGES = "agent_messages"
STRUCTURE = "message_structure"
USAGE = "turn_usage"

PAGE = 500
_COUNTED = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILED = ("input_tokens_details", "output_tokens_details")


@dataclass(frozen=True, slots=True)
class Item:
    """A row of messages. ``key`` is made of its id."""

    key: str
    value: Any
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class Branch:
    """What a session shows on one branch, in its order. ``usage`` is of the turn that begins with
    the item of that number, counted from 0.
    """

    session_id: str
    name: str
    items: list[Item]
    unreadable: int = 0
    usage: dict[int, dict[str, Any]] = field(default_factory=dict)


class AgentTables:
    """The tables of one database, on a connection that sees one moment."""

    def __init__(self, then: AsyncConnection, schema: str | None, messages: str) -> None:
        self._then = then
        self._messages = _table(
            messages, "id", "session_id", "message_data", "created_at", schema=schema
        )
        self._structure: TableClause | None = None
        self._usage: TableClause | None = None
        self._order = [self._messages.c.id]

    @classmethod
    @asynccontextmanager
    async def open(cls, source: Database, messages: str = MESSAGES) -> AsyncIterator[AgentTables]:
        """The tables of *source*.

        Raises:
            NotFound: it has no such table.
        """
        async with source.snapshot() as then:
            tables = cls(then, source.schema, messages)
            await then.run_sync(tables._look, source.schema, messages)
            yield tables

    async def count(self) -> int:
        """How many sessions hold something."""
        counted = select(func.count(distinct(self._messages.c.session_id)))
        return int((await self._then.execute(counted)).scalar_one())

    async def branches(self) -> AsyncIterator[Branch]:
        """Every branch of every session, by session id, main first."""
        ids = select(self._messages.c.session_id).distinct()
        ids = ids.order_by(self._messages.c.session_id).limit(PAGE)
        page = list((await self._then.execute(ids)).scalars())
        while page:
            for session_id in page:
                for branch in await self._of_session(session_id):
                    yield branch
            after = ids.where(self._messages.c.session_id > page[-1])
            page = list((await self._then.execute(after)).scalars())

    def _look(self, connection: Connection, schema: str | None, messages: str) -> None:
        there = inspect(connection)
        names = set(there.get_table_names(schema=schema))
        if messages not in names:
            raise NotFound(
                f"the database has no table {messages!r}; if the SDK was given another name for "
                "its messages, give it as messages_table= or --messages-table"
            )
        # `SQLAlchemySession` makes this index, and gives items in its order; `SQLiteSession` not.
        indexes = {index["name"] for index in there.get_indexes(messages, schema=schema)}
        if f"idx_{messages}_session_time" in indexes:
            self._order.insert(0, self._messages.c.created_at)
        if {STRUCTURE, USAGE} <= names:
            turn = ("session_id", "branch_id", "user_turn_number")
            of_items = ("message_id", "message_type", "sequence_number", "id")
            self._structure = _table(STRUCTURE, *turn, *of_items, schema=schema)
            self._usage = _table(USAGE, *turn, *_COUNTED, *_DETAILED, schema=schema)

    async def _of_session(self, session_id: str) -> list[Branch]:
        m = self._messages.c
        query = select(m.id, m.message_data, m.created_at).where(m.session_id == session_id)
        rows = (await self._then.execute(query.order_by(*self._order))).all()
        items = {row.id: _item(row) for row in rows}
        if self._structure is not None:
            s = self._structure.c
            structure = select(s.branch_id, s.message_id, s.user_turn_number, s.message_type)
            structure = structure.where(s.session_id == session_id)
            shown = await self._then.execute(structure.order_by(s.sequence_number, s.id))
            if places := shown.all():
                return await self._of_branches(session_id, items, places)
        return [_branch(session_id, MAIN, list(items.values()))]

    async def _of_branches(
        self, session_id: str, items: dict[Any, Item | None], places: Any
    ) -> list[Branch]:
        usage = await self._usage_of(session_id)
        names = sorted({row.branch_id for row in places}, key=lambda name: (name != MAIN, name))
        found = []
        for name in names:
            shown = [row for row in places if row.branch_id == name and row.message_id in items]
            readable = [row for row in shown if items[row.message_id] is not None]
            used = {
                at: usage[name, row.user_turn_number]
                for at, row in enumerate(readable)
                if row.message_type == "user" and (name, row.user_turn_number) in usage
            }
            found.append(_branch(session_id, name, [items[row.message_id] for row in shown], used))
        return found

    async def _usage_of(self, session_id: str) -> dict[tuple[str, int], dict[str, Any]]:
        assert self._usage is not None
        query = select(self._usage).where(self._usage.c.session_id == session_id)
        return {
            (row.branch_id, row.user_turn_number): {
                **{name: getattr(row, name) or 0 for name in _COUNTED},
                **{name: _details(getattr(row, name)) for name in _DETAILED},
            }
            for row in await self._then.execute(query)
        }


def _table(name: str, *columns: str, schema: str | None) -> TableClause:
    return table(name, *(column(each) for each in columns), schema=schema)


def _branch(
    session_id: str, name: str, items: list[Item | None], usage: dict[int, Any] | None = None
) -> Branch:
    readable = [item for item in items if item is not None]
    return Branch(session_id, name, readable, len(items) - len(readable), usage or {})


def _item(row: Any) -> Item | None:
    try:
        value = json.loads(row.message_data)
    except (ValueError, TypeError, RecursionError):
        return None
    return Item(f"openai-agents:{row.id}", value, _time(row.created_at))


def _time(stored: Any) -> datetime:
    """Both write CURRENT_TIMESTAMP without a zone; SQLite gives it as a text, in UTC."""
    time = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _details(stored: Any) -> Any:
    if not isinstance(stored, str):
        return stored
    try:
        return json.loads(stored)
    except ValueError:
        return None
