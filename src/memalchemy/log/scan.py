"""Reading: one statement, or a listing page by page. Every loop that pages is `scan`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Executable

from memalchemy.database import READ, READ_REPLICA, Database, HostConnection
from memalchemy.events import Event
from memalchemy.statements import Answer, Program

PAGE = 500
"""Rows of a page."""


async def ask(
    db: Database,
    statement: Executable,
    binds: Mapping[str, Any],
    connection: HostConnection | None = None,
    *,
    event: Event | None = None,
    stale: bool = False,
) -> Answer:
    """The rows of a statement now; with *stale* they may be a moment old, as a replica has them.

    Binds ``p_now`` unless *binds* does.
    """
    values = {"p_now": datetime.now(UTC), **binds}

    def program() -> Program[Answer]:
        return (yield statement, values)

    return await db.run(
        program, READ_REPLICA if stale else READ, connection=connection, event=event
    )


async def scan(
    db: Database,
    statement: Callable[[bool], Executable],
    binds: Mapping[str, Any],
    key: Sequence[str] | Callable[[Any], Mapping[str, Any]],
    connection: HostConnection | None = None,
    *,
    size: int = PAGE,
    event: Event | None = None,
    stale: bool = False,
) -> AsyncGenerator[Answer]:
    """The pages of a listing, in its order; each is read when it is asked for.

    Args:
        statement: makes the statement of a page from whether another page went before it. Binds
            ``p_limit``, and behind the first page the last row's *key* as ``p_…``.
        key: the columns that the listing is ordered by, or a function of the last row that gives
            their binds.
        size: rows of a page.
    """
    values = {"p_limit": max(size, 1), **binds}
    after = False
    while True:
        rows = await ask(db, statement(after), values, connection, event=event, stale=stale)
        if rows:
            yield rows
        if len(rows) < values["p_limit"]:
            return
        last = rows[-1]
        behind = key(last) if callable(key) else {f"p_{n}": getattr(last, n) for n in key}
        values |= behind
        after = True
