"""Databases in which one row was edited, for tests of what goes on beside it.

The edits are generated: each column of the rows of `EDITED` gets each of `VALUES`.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from store_helpers import Embedder

from lifetimes import MOMENT
from memalchemy import Checkpointer, ConversationStore, Database, Store
from memalchemy.errors import MemalchemyError
from memalchemy.schema import Base
from memalchemy.state import Message
from rows import without_checks
from servers import Postgres

NAMES = ("a", "b", "c")
VALUES = ("'garbage'", "x'ff'", "-5", "NULL", "'[]'", "'a'")
"""What a column is set to, as it is written in SQL. A column of SQLite takes nearly all of them."""

EDITED = {
    "threads": "thread_id IN ('b', 'expired b', 'talk b')",
    "checkpoints": "checkpoint_id IN ('b2', 'expired b', 'talk b')",
    "deltas": "log_id IN (SELECT log_id FROM threads WHERE thread_id IN ('b', 'talk b')) "
    "AND seq IN (1, 2)",
    "store_items": "key = 'b'",
    "embeddings": "key = 'b'",
}
"""By table, the rows that are edited: those of ``b``."""


async def fill(db: Database) -> None:
    """Write threads, conversations and items of each of `NAMES`."""
    agent, store = Checkpointer(db), Store(db)
    for name in NAMES:
        for step in range(4):
            await agent.save(
                {"text": f"word{step} {name}"}, name, f"{name}{step}", {"of": "a thread"}
            )
        await agent.put_writes([("channel", "x")], name, f"{name}3", "task")
        await agent.save({"n": 1}, f"expired {name}", f"expired {name}", ttl=MOMENT)
        await store.put(("old",), name, {"t": name}, {"of": "an item"}, ttl=MOMENT)
        said = [Message.user(f"said by {name}"), Message.assistant("an answer")]
        await ConversationStore(db).conversation(name).add(said, keys=[f"said {name}", None])
        talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        await agent.save({"messages": talk}, f"talk {name}", f"talk {name}")


async def fill_items(db: Database) -> None:
    """Put a new item of each of `NAMES`, and one with a vector."""
    for name in NAMES:
        await Store(db).put(("new",), name, name)
        await Store(db, embedder=Embedder()).put(("near",), name, {"t": name}, index=["t"])


async def is_whole(db: Database, name: str) -> bool:
    """Return whether what `fill` and `fill_items` wrote of a name can be read."""
    store = Store(db)
    said = await ConversationStore(db).conversation(name).messages()
    return (
        await Checkpointer(db).load(name) == {"text": f"word3 {name}"}
        and len(said) == 2
        and await store.get(("new",), name) == name
        and await store.get(("near",), name) == {"t": name}
    )


@dataclass
class Edit:
    """A value of a column of the rows of `EDITED`."""

    table: str
    column: str
    value: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column} = {self.value}"

    def make(self, connection: Connection) -> int:
        """Edit the rows; return the number of them."""
        with without_checks(connection, self.table):
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
            sql = f"UPDATE {self.table} SET {self.column} = {self.value} WHERE {EDITED[self.table]}"
            return connection.exec_driver_sql(sql).rowcount


def edits(table: str, values: tuple[str, ...] = VALUES) -> Iterator[Edit]:
    """Yield every edit of a table."""
    for column in Base.metadata.tables[table].columns:
        for value in values:
            yield Edit(table, column.name, value)


@dataclass
class Files:
    """A database that is whole, and copies of it with one edit each."""

    directory: Path
    keys: dict[str, Any] = field(default_factory=dict)

    async def make(self) -> None:
        """Make the database that is whole."""
        async with Database(self.url_of_whole, migrate="upgrade", **self.keys) as db:
            await fill(db)
            await fill_items(db)

    @property
    def whole(self) -> Path:
        return self.directory / "whole.db"

    @property
    def url_of_whole(self) -> str:
        return f"sqlite:///{self.whole}"

    @property
    def file(self) -> Path:
        return self.directory / "agent.db"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.file}"

    def opened(self, **keys: Any) -> Database:
        """Open the copy, with other *keys* than it was made with if some are given."""
        return Database(self.url, migrate="off", **self.keys | keys)

    def new(self, name: str) -> Path:
        """Return the path of a file that is not there."""
        file = self.directory / name
        for suffix in ("", "-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)
        return file

    def restore(self) -> None:
        """Make the copy whole."""
        shutil.copy(self.whole, self.new("agent.db"))

    async def each(self, table: str, values: tuple[str, ...] = VALUES) -> AsyncIterator[Edit]:
        """Yield each edit of a table that the database takes, once it is made in the copy."""
        for edit in edits(table, values):
            self.restore()
            async with self.opened() as db:
                changed = 0
                with suppress(DBAPIError, MemalchemyError):
                    changed = await db.run_sync(edit.make)
            if changed:
                yield edit


@dataclass
class OnServer(Files):
    """The same on a PostgreSQL server."""

    server: Postgres = field(kw_only=True)
    names: list[str] = field(default_factory=list)
    """The databases that were made: the one that is whole, and the last copy."""

    async def make(self) -> None:
        self.names = [self.server.create_database()]
        await super().make()

    @property
    def url_of_whole(self) -> str:
        return self.server.url(self.names[0])

    @property
    def url(self) -> str:
        return self.server.url(self.names[-1])

    def restore(self) -> None:
        for name in self.names[1:]:
            self.server.drop_database(name)
        self.names[1:] = [self.server.create_database(template=self.names[0])]


def files_in(directory: Path, keys: dict[str, Any], server: Postgres | None) -> Files:
    """Return the databases of a test: files in a directory, or databases of a server."""
    return Files(directory, keys) if server is None else OnServer(directory, keys, server=server)
