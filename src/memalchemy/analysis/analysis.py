"""`Analysis`: what a database holds, as rows of tables."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from os import PathLike
from typing import Any

from memalchemy.analysis import duckdb_cache
from memalchemy.analysis.arrow import import_pyarrow, record_batch
from memalchemy.analysis.connection import (
    MEMORY,
    SQLConnection,
    create_table,
    import_duckdb,
    insert_rows,
    open_duckdb,
)
from memalchemy.analysis.reader import Reader
from memalchemy.analysis.selection import EVERYTHING, Selection
from memalchemy.analysis.tables import TABLES, table_of
from memalchemy.database import Database
from memalchemy.errors import InvalidArgument

Row = dict[str, Any]


class Analysis:
    """Read the stored data of all frameworks as rows of the tables of `memalchemy.analysis.TABLES`.

        analysis = Analysis(db)
        async for batch in analysis.rows("tool_calls", framework="langgraph"):
            for call in batch:
                print(call["name"], call["duration_ms"])

    Rows are read as the classes of memalchemy read them: with the keys of an encrypted database,
    held to the signatures of a signed one, and of the database's tenant alone. They come in batches
    as they are read, thread by thread, so that memory does not grow with the number of threads.
    Threads that are written meanwhile may be read before or after. What cannot be read is passed
    over, and `unreadable` says what it was.
    """

    def __init__(self, db: Database) -> None:
        self.db: Database = db
        self._reader = Reader(db)

    def __repr__(self) -> str:
        return f"Analysis({self.db!r})"

    @property
    def unreadable(self) -> list[str]:
        """Descriptions of what was passed over so far."""
        return [str(error) for error in self._reader.damage.errors]

    async def rows(self, table: str, **selection: Any) -> AsyncGenerator[list[Row]]:
        """Yield the rows of a table, in batches of at most 1,000.

        Threads come in the order of their last write, the newest first; what a thread holds, in the
        order in which it was stored, but a call of a tool when its result is known.

        Args:
            selection: arguments of `Selection`.

        Raises:
            InvalidArgument: there is no such table, or the selection makes no sense.
        """
        name = table_of(table).name
        async with aclosing(self._reader.batches([name], Selection(**selection))) as batches:
            async for _, batch in batches:
                yield batch

    async def arrow(self, table: str, **selection: Any) -> AsyncGenerator[Any]:
        """Yield the rows of a table as record batches of Arrow, as `rows` does.

        Raises:
            DriverMissing: pyarrow is not installed; the extra ``analysis`` has it.
            InvalidArgument: there is no such table, or the selection makes no sense.
        """
        declared = table_of(table)
        import_pyarrow()
        async with aclosing(self.rows(table, **selection)) as batches:
            async for batch in batches:
                yield record_batch(declared, batch)

    async def connect(
        self,
        *,
        tables: Iterable[str] | None = None,
        cache: str | PathLike[str] | None = None,
        plaintext: bool = False,
        memory: str = MEMORY,
        **selection: Any,
    ) -> SQLConnection:
        """Read the tables into a DuckDB, and return a connection for SQL.

        Args:
            tables: those that are filled; all by default.
            cache: a file that keeps the tables, which only its owner may read. Logs that have
                changed since the last time are read again, others are not; what was deleted, erased
                or has expired is removed from it. DuckDB, pandas and notebooks open it, too.
                Without a file everything is read into memory.
            plaintext: allow the cache of an encrypted database, which is not encrypted.
            memory: the most memory that DuckDB uses, such as ``"2GB"``.
            selection: arguments of `Selection`, without a cache.

        Raises:
            DriverMissing: duckdb or pyarrow is not installed; the extra ``analysis`` has them.
            InvalidArgument: an argument makes no sense.
            CapabilityMissing: a cache of an encrypted database, without *plaintext*.
            Conflict, DatabaseUnreachable: the file is another database's, or cannot be opened.
        """
        import_duckdb()
        import_pyarrow()
        wanted = [table_of(name).name for name in (TABLES if tables is None else tables)]
        chosen = Selection(**selection)
        if cache is not None:
            if chosen != EVERYTHING:
                raise InvalidArgument("a cache has everything: select in SQL")
            await duckdb_cache.refresh(self._reader, cache, memory, plaintext=plaintext)
            duck = open_duckdb(cache, memory, read_only=True)
            return SQLConnection(duck, self.unreadable)
        duck = open_duckdb(":memory:", memory)
        for table in TABLES.values():
            create_table(duck, table)
        async with aclosing(self._reader.batches(wanted, chosen)) as batches:
            async for name, batch in batches:
                insert_rows(duck, TABLES[name], batch)
        return SQLConnection(duck, self.unreadable)
