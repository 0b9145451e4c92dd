"""Positions of a log, listed with the sizes of payloads, so that readers can take batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from sqlalchemy import Executable, Table, bindparam, literal_column, select

from memalchemy.database import Database
from memalchemy.dialects import Dialect
from memalchemy.log import Log
from memalchemy.log.scan import ScanPage, scan
from memalchemy.log.tables import CHECKPOINTS, DELTAS, of_log
from memalchemy.proofs import REPORTED
from memalchemy.statements import statement

LOG_ROWS: dict[str, Table] = {"checkpoints": CHECKPOINTS, "deltas": DELTAS}
"""The tables that have rows of logs, by their names."""

BEFORE_ALL = -(2**62)
"""A position before all others."""


def scan_positions(
    db: Database,
    log: Log,
    table: str,
    connection: Any = None,
    *,
    after: int = BEFORE_ALL,
    identified_by: Sequence[str] = (),
) -> AsyncGenerator[ScanPage]:
    """Yield pages of the positions of a log in a table, with the bytes ``stored`` at each.

    Args:
        after: only those behind this position.
        connection, identified_by: see `memalchemy.log.scan.run_query`.
    """
    return scan(
        db,
        lambda _: list_positions(db.dialect, table=table),
        log.binds() | {"p_after": after},
        lambda last: {"p_after": last.seq},
        connection,
        identified_by=identified_by,
    )


@statement(proves="verify", unproven=REPORTED, table=tuple(LOG_ROWS))
def list_positions(dialect: Dialect, table: str) -> Executable:
    """Select the next positions of a log, and the bytes of the payload at each."""
    rows = LOG_ROWS[table]
    size: Any = (
        dialect.statements.byte_length(DELTAS.c.payload) if rows is DELTAS else literal_column("0")
    )
    return (
        select(rows.c.seq, size.label("stored"))
        .where(of_log(rows), rows.c.seq > bindparam("p_after", type_=rows.c.seq.type))
        .order_by(rows.c.seq)
        .limit(bindparam("p_limit"))
    )
