"""`ForeignTables`: another library's tables, read as of one moment and never changed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, TableClause, column, func, inspect, select, table
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database import Database
from memalchemy.database.sqlite.aiosqlite_connection import AioSQLiteConnection
from memalchemy.dialects import parse_url
from memalchemy.errors import DatabaseUnreachable, NotFound

Row = Mapping[str, Any]


class ForeignTables:
    """All tables of a SQLite file, or of a schema on a server, in one snapshot."""

    def __init__(self, snapshot: AsyncConnection, schema: str | None, place: str) -> None:
        self._snapshot = snapshot
        self._schema = schema
        self._place = place
        self._columns: dict[str, list[str]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, place: str, *, schema: str | None = None) -> AsyncIterator[ForeignTables]:
        """Open the database at *place*, a URL or the path of a SQLite file.

        Raises:
            DatabaseUnreachable: there is no such file or server.
        """
        is_url = "://" in place
        file = parse_url(place).path if is_url else place
        if file is not None and not await asyncio.to_thread(Path(file).is_file):
            raise DatabaseUnreachable(f"there is no file {file}")
        url = place if is_url else URL.create("sqlite", database=place)
        async with (
            Database(url, schema=schema, migrate="off") as db,
            db.snapshot() as snapshot,
        ):
            found = cls(snapshot, schema, repr(db))
            await snapshot.run_sync(found._inspect_tables)
            with undecodable_as_bytes(snapshot):
                yield found

    def like(self, name: str, *columns: str) -> list[str]:
        """Return the tables that have *columns* and a name that ends with *name*, sorted.

        So the tables of a library are found whatever prefix it was told to put before them.
        """
        return sorted(
            one
            for one, known in self._columns.items()
            if one.endswith(name) and {*columns} <= {*known}
        )

    def one(self, name: str, *columns: str) -> str:
        """Return the only table that `like` returns.

        Raises:
            NotFound: there is none, or several.
        """
        found = self.like(name, *columns)
        if len(found) != 1:
            what = f"several tables {', '.join(found)}" if found else f"no table {name!r}"
            raise NotFound(
                f"there are {what} in {self._place}" if found else f"{what} in {self._place}"
            )
        return found[0]

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def exactly(self, name: str, *columns: str) -> str:
        """Return *name*, which is that of a table with *columns*.

        Raises:
            NotFound: there is no such table, or it lacks one of them.
        """
        if not {*columns} <= {*self._columns.get(name, ())}:
            raise NotFound(f"there is no table {name!r} with the columns expected in {self._place}")
        return name

    async def count(
        self,
        name: str,
        *,
        distinct: str | None = None,
        where: Mapping[str, Any] | None = None,
        present: str | None = None,
    ) -> int:
        """Count the rows of a table, or the *distinct* values of a column.

        With *where*, those whose columns have these values; with *present*, those where that column
        is not null.
        """
        its = self._table(name)
        what = func.count() if distinct is None else func.count(its.c[distinct].distinct())
        counted = _add_conditions(select(what).select_from(its), where)
        if present is not None:
            counted = counted.where(column(present).is_not(None))
        return int((await self._snapshot.execute(counted)).scalar_one())

    def columns(self, name: str) -> list[str]:
        """Return the columns of a table."""
        return self._columns[name]

    async def rows(
        self,
        name: str,
        *order: str,
        only: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Row]:
        """Yield the rows of a table in the order of columns, with all columns or *only* some.

        With *where*, they are those whose columns have these values. A column of *order* may be
        SQLite's ``rowid``.
        """
        its = self._table(name)
        query = _add_conditions(select(*(its.c[one] for one in only or self._columns[name])), where)
        async with self._snapshot.stream(query.order_by(*map(column, order))) as streamed:
            async for row in streamed.mappings():
                yield {str(column): value for column, value in row.items()}

    def _table(self, name: str) -> TableClause:
        return table(name, *map(column, self._columns[name]), schema=self._schema)

    def _inspect_tables(self, connection: Connection) -> None:
        inspector = inspect(connection)
        for (_, name), columns in inspector.get_multi_columns(schema=self._schema).items():
            self._columns[str(name)] = [one["name"] for one in columns]


def text_or_bytes(stored: bytes) -> str | bytes:
    """Return a text of SQLite's, or its bytes if they are not UTF-8: one of them ends no query."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


@contextmanager
def undecodable_as_bytes(snapshot: AsyncConnection) -> Iterator[None]:
    """Read texts that are not UTF-8 as bytes on a SQLite connection, until the block ends."""
    below = AioSQLiteConnection.usable_below(snapshot)
    if below is None:
        yield
        return
    raw = below.sqlite_connection
    before, raw.text_factory = raw.text_factory, text_or_bytes
    try:
        yield
    finally:
        with suppress(sqlite3.ProgrammingError):  # it was closed, as its caller was cancelled
            raw.text_factory = before


def _add_conditions(query: Select[Any], where: Mapping[str, Any] | None) -> Select[Any]:
    return query.where(*(column(name) == value for name, value in (where or {}).items()))
