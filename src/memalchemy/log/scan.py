"""Read many rows: `run_query` executes one query, `scan` reads page by page.

Every loop that reads rows in pages is `scan`. It holds no transaction open between two pages, so
rows may come and go meanwhile; a page continues behind the key of the last row before it, and so
never repeats a row nor misses one that was there all the time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Executable

from memalchemy._unreadable_rows import UnreadableRows
from memalchemy.database import READ, READ_REPLICA, Database, HostConnection
from memalchemy.events import Event
from memalchemy.protection.proven_jobs import Damage
from memalchemy.protection.proven_reads import going_on
from memalchemy.statements import Answer, Program

Row = TypeVar("Row")

PAGE = 500
"""The number of rows of a page."""

BATCH_BYTES = 8 * 1024 * 1024
"""The number of bytes that a reader of large rows holds at once."""


class ScanPage(Answer):
    """Rows of one page of a `scan`."""

    connection: HostConnection | None = None
    """The connection that the page was read on; ``None`` is one of the pool."""


async def run_query(
    db: Database,
    statement: Executable,
    binds: Mapping[str, Any],
    connection: HostConnection | None = None,
    *,
    event: Event | None = None,
    replica_ok: bool = False,
    identified_by: Sequence[str] = (),
    check: Callable[[], Program[object]] | None = None,
) -> Answer:
    """Return the rows of one query.

    Args:
        binds: the values of the statement. ``p_now`` is the current time unless it is given.
        connection: a host's connection or a snapshot to read on.
        event: counts the round trip.
        replica_ok: rows may be a moment old, as a replica has them.
        identified_by: columns that identify a row. With them, rows that have a damaged cell
            elsewhere are returned too: see `Answer.damaged`.
        check: a program that is run after the query.

    Raises:
        UnreadableRows: a cell is not of its column's type and *identified_by* is not given, or such
            a cell is in one of these columns.
    """
    values = {"p_now": datetime.now(UTC), **binds}

    def program() -> Program[Answer]:
        rows = yield statement, values
        if check is not None:
            yield from check()
        return rows

    intent = READ_REPLICA if replica_ok else READ
    try:
        return await db.run(program, intent, connection=connection, event=event)
    except UnreadableRows as error:
        identified = identified_by and all(
            getattr(row, name) is not None for row in error.rows for name in identified_by
        )
        if not identified or not error.damaged:
            raise
        answer = Answer(error.rows)
        answer.damaged = error.damaged
        return answer


async def scan(
    db: Database,
    statement: Callable[[bool], Executable],
    binds: Mapping[str, Any],
    key: Sequence[str] | Callable[[Any], Mapping[str, Any]],
    connection: HostConnection | None = None,
    *,
    size: int = PAGE,
    event: Event | None = None,
    replica_ok: bool = False,
    identified_by: Sequence[str] = (),
    snapshots: bool = False,
    damage: Damage | None = None,
) -> AsyncGenerator[ScanPage]:
    """Yield the pages of a query, in its order. Each is read when it is asked for.

    A reader that takes only the first rows of a page deletes the others from it: the next page
    begins with them.

    Args:
        statement: returns the statement of a page; its argument says whether the page comes after
            another. The statement binds ``p_limit``, and behind the first page the values of *key*.
        binds: the other values of the statement.
        key: the columns that the query is ordered by, whose values in the last row are bound as
            ``p_`` and their names; or a function of the last row that returns the values to bind.
        connection, event, replica_ok, identified_by: see `run_query`.
        size: the number of rows of a page.
        snapshots: read each page in a snapshot, `Page.connection`, on which a reader can read more
            as of the same moment. It ends when the next page is asked for, so iterate within
            `contextlib.aclosing`.
        damage: rows that cannot be read, or are not what was signed, are noted there and left out:
            a job goes on without them.
    """
    values = {"p_limit": max(size, 1), **binds}
    after = False
    while True:
        context: AbstractAsyncContextManager[Any]
        context = db.snapshot() if snapshots else nullcontext(connection)
        async with context as on:
            listed: list[Any] = []
            try:
                with going_on(damage):
                    rows = await run_query(
                        db, statement(after), values, on, event=event, replica_ok=replica_ok,
                        identified_by=identified_by,
                    )  # fmt: skip
            except UnreadableRows as error:
                if damage is None or not error.damaged:
                    raise
                damage.note_rows(error)
                listed = error.rows
                rows = Answer([row for at, row in enumerate(listed) if at not in error.damaged])
            if not (rows or listed):
                return
            page = ScanPage(rows)
            page.damaged, page.connection = rows.damaged, on
            if page:
                yield page
        if not listed and not page:
            return
        if len(page) == len(rows) and max(len(rows), len(listed)) < values["p_limit"]:
            return
        for last in [*listed[::-1], *page[-1:]] if len(page) == len(rows) else page[-1:]:
            place = key(last) if callable(key) else {f"p_{n}": getattr(last, n) for n in key}
            if None not in place.values():
                break
        else:
            return  # nothing of a whole page says where the next one begins
        values |= place
        after = True


def batches(
    rows: Sequence[Row],
    weight: Callable[[Row], int],
    *,
    most_rows: int,
    most: int = BATCH_BYTES,
) -> Iterator[list[Row]]:
    """Split *rows* into batches that are processed at once.

    A batch has at most *most_rows* rows, whose *weight* is together at most *most*; a heavier row
    is a batch of its own.
    """
    batch: list[Row] = []
    total = 0
    for row in rows:
        if batch and (len(batch) == most_rows or total + weight(row) > most):
            yield batch
            batch, total = [], 0
        batch.append(row)
        total += weight(row)
    if batch:
        yield batch
