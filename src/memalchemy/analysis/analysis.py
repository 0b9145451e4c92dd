"""`Analysis`: what a database holds, as rows of tables."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from memalchemy.analysis.arrow import import_pyarrow, record_batch
from memalchemy.analysis.reader import Reader
from memalchemy.analysis.selection import Selection
from memalchemy.analysis.tables import table_of
from memalchemy.database import Database

Row = dict[str, Any]


class Analysis:
    """What is stored, of all frameworks, as rows of the tables of `memalchemy.analysis.TABLES`.

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
            DriverMissing: pyarrow is not installed: ``pip install 'memalchemy[analysis]'``.
            InvalidArgument: there is no such table, or the selection makes no sense.
        """
        declared = table_of(table)
        import_pyarrow()
        async with aclosing(self.rows(table, **selection)) as batches:
            async for batch in batches:
                yield record_batch(declared, batch)
