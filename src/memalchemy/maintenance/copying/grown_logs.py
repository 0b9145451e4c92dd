"""The proof that a log has only grown since it was copied, so that only its new rows are copied.

A copied head says what the head of the source was, and of which epoch: see `row_comparison`. Every
removal and every change of a row of ``deltas`` moves the epoch of its log, and so does every
deletion of a checkpoint but two: a save that replaces a checkpoint moves it behind all others, and
a save with retention removes the names of old ones. So within one epoch the rows up to the position
that was copied are those that were copied, without some names of checkpoints. Those are counted,
and listed only where the numbers differ.

An epoch does not tell histories apart: a source that was restored from a backup goes on with the
epoch that it had. There the newest row that was copied is another one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Executable, Row, Table, and_, bindparam, func, select

from memalchemy.database import Database
from memalchemy.dialects import Dialect
from memalchemy.keys import encode_id
from memalchemy.log import Log
from memalchemy.log.scan import run_query, scan
from memalchemy.log.tables import CHECKPOINTS, of_log
from memalchemy.maintenance.copying.row_comparison import Values, is_of_same_epoch, same_rows
from memalchemy.maintenance.log_positions import BEFORE_ALL, LOG_ROWS
from memalchemy.proofs import ON_TARGET
from memalchemy.statements import statement

REMOVED_OR_CHANGED = "rows were removed, changed or encoded anew since the last copy"
OTHER_HISTORY = "the newest row of the last copy is not in the source"

NAMES_PAGE = 1_000
"""The number of checkpoints whose names are listed together."""


@dataclass(frozen=True, slots=True)
class CopiedPrefix:
    """The part of a log that the target has from an earlier copy.

    Attributes:
        head: the head that the log had then.
        until: the last position of the part.
        gone: the checkpoints that the target has up to there, and the source has not.
    """

    head: Values
    until: int
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefixProof:
    """Proves what the target has of one log; reads the source on a snapshot."""

    source: Database
    target: Database
    log: Log
    snapshot: Any
    transaction: Any

    async def prove(self, head: Values, copied: Values) -> CopiedPrefix | str:
        """Return the part of the log that is on the target, or the reason why there is no proof.

        Args:
            head: the head of the log in the source.
            copied: its head on the target, which is an unchanged copy.
        """
        if not is_of_same_epoch(copied, head):
            return REMOVED_OR_CHANGED
        until = copied["next_seq"] - 1
        if head["next_seq"] <= until or head["version"] < copied["version"]:
            return OTHER_HISTORY
        gone = await self._find_gone_names(until)
        if gone is None or not await self._has_same_newest_rows(until):
            return OTHER_HISTORY
        return CopiedPrefix(copied, until, gone)

    async def _has_same_newest_rows(self, until: int) -> bool:
        """Return whether the newest rows of the part are the same on both sides.

        The newest checkpoint is that of the source: newer names may be gone from it.
        """
        at = until
        for table in ("deltas", "checkpoints"):
            ours = await self._read_newest_row(self.source, table, until)
            if table == "checkpoints":
                if not ours:
                    return True
                at = ours[0]["seq"]
            if not same_rows(ours, await self._read_newest_row(self.target, table, at)):
                return False
        return True

    async def _read_newest_row(self, which: Database, table: str, until: int) -> list[Values]:
        query = read_newest_row(which.dialect, table=table)
        return [dict(row._mapping) for row in await self._ask(which, query, p_until=until)]

    async def _find_gone_names(self, until: int) -> tuple[str, ...] | None:
        """Return the checkpoints of the part that only the target has.

        ``None`` if the source has one there that the target has not.
        """
        counts = [
            (await self._ask(which, count_names(which.dialect), p_until=until))[0][0]
            for which in (self.source, self.target)
        ]
        if counts[0] == counts[1]:
            return ()
        replaced = await self._find_replaced_names(until)
        if counts[0] + len(replaced) == counts[1]:
            return tuple(replaced)
        ours, theirs = [
            {row.checkpoint_id async for row in self._list_names(which, BEFORE_ALL, until)}
            for which in (self.source, self.target)
        ]
        return None if ours - theirs else tuple(sorted(theirs - ours))

    async def _find_replaced_names(self, until: int) -> list[str]:
        """Return the checkpoints of the part that the source has behind it."""
        found: list[str] = []
        d = self.target.dialect
        new = [row.checkpoint_id async for row in self._list_names(self.source, until, 2**62)]
        for listed in d.statements.list_batches("p_keys", [(encode_id(one),) for one in new]):
            rows = await self._ask(self.target, find_names(d), p_until=until, **listed)
            found += [row.checkpoint_id for row in rows]
        return found

    async def _list_names(
        self, which: Database, after: int, until: int
    ) -> AsyncGenerator[Row[Any]]:
        pages = scan(
            which,
            lambda _: list_names(which.dialect),
            self.log.binds() | {"p_after": after, "p_until": until},
            lambda last: {"p_after": last.seq},
            self._connection(which),
            size=NAMES_PAGE,
        )
        async for page in pages:
            for row in page:
                yield row

    async def _ask(self, which: Database, query: Executable, **binds: Any) -> Sequence[Any]:
        return await run_query(which, query, self.log.binds() | binds, self._connection(which))

    def _connection(self, which: Database) -> Any:
        return self.snapshot if which is self.source else self.transaction


# --- Statements ----------------------------------------------------------------------------------

_HEAVY = ("payload", "search_text")
"""The columns that are left out of a comparison: a checksum tells of them."""


def _up_to(table: Table) -> ColumnElement[bool]:
    return and_(of_log(table), table.c.seq <= bindparam("p_until", type_=table.c.seq.type))


@statement(unproven=ON_TARGET, table=tuple(LOG_ROWS))
def read_newest_row(dialect: Dialect, table: str) -> Executable:
    """Select the newest row of a log up to a position, without its payload and words."""
    rows = LOG_ROWS[table]
    columns = [column for column in rows.c if column.name not in _HEAVY]
    return select(*columns).where(_up_to(rows)).order_by(rows.c.seq.desc()).limit(1)


@statement()
def count_names(dialect: Dialect) -> Executable:
    """Count the checkpoints of a log up to a position."""
    return select(func.count()).select_from(CHECKPOINTS).where(_up_to(CHECKPOINTS))


@statement(unproven=ON_TARGET)
def list_names(dialect: Dialect) -> Executable:
    """Select a page of the checkpoints of a log behind one position and up to another."""
    seq = CHECKPOINTS.c.seq
    return (
        select(seq, CHECKPOINTS.c.checkpoint_id)
        .where(_up_to(CHECKPOINTS), seq > bindparam("p_after", type_=seq.type))
        .order_by(seq)
        .limit(bindparam("p_limit"))
    )


@statement(unproven=ON_TARGET)
def find_names(dialect: Dialect) -> Executable:
    """Select those of the checkpoints that ``p_keys`` lists which a log has up to a position."""
    named = dialect.statements.rows_from_list("p_keys", ("checkpoint_id",))
    listed = CHECKPOINTS.c.checkpoint_id.in_(select(named.c.checkpoint_id))
    return select(CHECKPOINTS.c.checkpoint_id).where(_up_to(CHECKPOINTS), listed)
