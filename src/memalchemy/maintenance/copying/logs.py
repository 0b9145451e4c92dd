"""Copy logs: a log that is new as a whole, one that was copied before by what is new in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Executable, bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database import WRITE_ROWS, Database
from memalchemy.dialects import Dialect
from memalchemy.keys import encode_id
from memalchemy.log import Log, forget_log, lock_log
from memalchemy.log.delete import bind_logs, delete_checkpoint_rows, is_of_listed_log
from memalchemy.log.scan import ScanPage, batches, run_query
from memalchemy.log.tables import THREADS, of_log
from memalchemy.maintenance.copying.grown_logs import CopiedPrefix, PrefixProof
from memalchemy.maintenance.copying.report import LeftOut
from memalchemy.maintenance.copying.row_comparison import (
    Values,
    epoch_of_copy,
    is_of_same_epoch,
    is_unchanged_copy,
    same_row,
    same_rows,
)
from memalchemy.maintenance.copying.source import CopySource, to_log
from memalchemy.maintenance.copying.target import (
    CopyTarget,
    OnTarget,
    not_as_written,
    written_meanwhile,
)
from memalchemy.maintenance.log_positions import (
    BEFORE_ALL,
    LOG_ROWS,
    list_positions,
    scan_positions,
)
from memalchemy.proofs import ON_TARGET
from memalchemy.rows import AS_STORED
from memalchemy.statements import column_bind, statement

BATCH_ROWS = 100
BATCH_BYTES = 8 * 1024 * 1024
"""The rows and bytes of a log that are held at once."""

LOG_TABLES = ("deltas", "checkpoints")
"""A base is before the states that are built on it, and a state before the name of its checkpoint:
so no row refers to one that comes later."""

RECHECKED = "every row was to be compared"
"""The reason for copying logs as a whole that have changed, if the caller asks for it."""


@dataclass(frozen=True, slots=True)
class HeadsOnTarget:
    """The heads that the target has of some logs.

    Attributes:
        heads: by the keys of the logs.
        unread: the keys of those that cannot be read together with others.
    """

    heads: Mapping[UUID, Values]
    unread: frozenset[UUID]


class LogCopy:
    """Compares and copies logs.

    Methods are given a *snapshot* of the source to read on, and a *transaction* of the target. The
    latter is ``None`` while everything is compared, before anything is written.
    """

    def __init__(
        self, source: CopySource, target: CopyTarget, left_out: LeftOut, *, recheck: bool
    ) -> None:
        self._source = source
        self._target = target
        self._left_out = left_out
        self._recheck = recheck

    async def look_up(
        self, heads: Sequence[Values], snapshot: Any, transaction: AsyncConnection | None
    ) -> HeadsOnTarget:
        """Return what the target has of some logs."""
        d = self._target.db.dialect
        found: dict[UUID, Values] = {}
        unread: set[UUID] = set()
        for listed in bind_logs(d, map(to_log, heads)):
            rows = await run_query(
                self._target.db,
                read_heads_on_target(d),
                listed,
                transaction,
                identified_by=("log_id",),
            )
            for at, row in enumerate(rows):
                if at in rows.damaged:
                    unread.add(row.log_id)
                else:
                    found[row.log_id] = dict(row._mapping)
        return HeadsOnTarget(found, frozenset(unread))

    async def compare(
        self,
        head: Values,
        found: HeadsOnTarget,
        snapshot: Any,
        transaction: AsyncConnection | None,
    ) -> OnTarget:
        """Compare a log with what the target has of it."""
        log = to_log(head)
        if log.key in found.unread:
            return await self._compare_head(
                head, await self._read_head(log, transaction), snapshot, transaction
            )
        return await self._compare_head(head, found.heads.get(log.key), snapshot, transaction)

    async def _compare_head(
        self,
        head: Values,
        there: Values | None,
        snapshot: Any,
        transaction: AsyncConnection | None,
    ) -> OnTarget:
        if there is None:
            return OnTarget.NOTHING
        unchanged = is_unchanged_copy(there)
        if not same_row(head, there, but=("epoch",)):
            return OnTarget.OLDER if unchanged else OnTarget.OTHER
        is_older = unchanged and not is_of_same_epoch(there, head)
        if unchanged and not self._recheck:
            return OnTarget.OLDER if is_older else OnTarget.SAME
        if await self._has_same_rows(to_log(head), snapshot, transaction):
            return OnTarget.SAME
        return OnTarget.OLDER if is_older else OnTarget.OTHER

    async def _has_same_rows(
        self, log: Log, snapshot: Any, transaction: AsyncConnection | None
    ) -> bool:
        """Return whether every row of a log is the same on both sides."""
        source, target = self._source.db, self._target.db
        for table in LOG_TABLES:
            after = BEFORE_ALL
            positions = list_positions(target.dialect, table=table)
            async for page in scan_positions(source, log, table, snapshot):
                # The sizes are compared first: the rows of the target are not larger than these.
                binds = log.binds() | {"p_after": after, "p_limit": len(page)}
                there = await run_query(target, positions, binds, transaction)
                if [tuple(row) for row in page] != [tuple(row) for row in there]:
                    return False
                for batch in _split_page(page):
                    until = batch[-1].seq
                    ours = await _read_rows(source, table, log, after, until, snapshot)
                    theirs = await _read_rows(target, table, log, after, until, transaction)
                    if not same_rows(ours, theirs):
                        return False
                    after = until
            binds = log.binds() | {"p_after": after, "p_limit": 1}
            if await run_query(target, positions, binds, transaction):
                return False
        return True

    # --- Copying -----------------------------------------------------------------------------

    async def copy(
        self, head: Values, found: HeadsOnTarget, snapshot: Any, transaction: AsyncConnection
    ) -> None:
        """Copy a log to the target, unless it is there."""
        there = await self.compare(head, found, snapshot, transaction)
        if there is OnTarget.SAME:
            self._target.progress.tell(unchanged=1)
            return
        log = to_log(head)
        await run_query(
            self._target.db, lock_log(self._target.db.dialect), log.binds(), transaction
        )
        copied = await self._read_head(log, transaction)
        there = await self._compare_head(head, copied, snapshot, transaction)
        if there is OnTarget.SAME:
            self._target.progress.tell(unchanged=1)
        elif there is OnTarget.OTHER:
            raise written_meanwhile(head)
        else:
            await self._copy_locked(head, copied, snapshot, transaction)

    async def _copy_locked(
        self, head: Values, copied: Values | None, snapshot: Any, transaction: AsyncConnection
    ) -> None:
        """Copy a log of which the target has nothing, or *copied* from an earlier copy."""
        log, progress = to_log(head), self._target.progress
        prefix, reason = None, None
        if copied is not None:
            prefix, reason = await self._find_prefix(head, copied, snapshot, transaction)
        with self._left_out.noting(head):
            await self._source.check_log(head, snapshot, prefix)
        if self._left_out.has(head):
            return
        marked = dict(head) | {"epoch": epoch_of_copy(head)}
        if prefix is not None:
            await self._delete_names(log, prefix.gone, transaction)
            statement = replace_copied_head(self._target.db.dialect)
            await self._target.write(statement, [marked], head, transaction)
        else:
            if copied is not None:
                # It is replaced by the source's, whatever it says: it may be from before a signing.
                removal = partial(forget_log, self._target.db.dialect, log, why="order")
                await self._target.db.run(removal, WRITE_ROWS, connection=transaction)
            await self._target.insert("threads", [marked], head, transaction)
        back = await self._read_head(log, transaction)
        if back is None or not same_row(marked, back) or not is_unchanged_copy(back):
            raise not_as_written("threads", head)
        after = BEFORE_ALL if prefix is None else prefix.until
        for table in LOG_TABLES:
            await self._copy_rows(table, head, after, snapshot, transaction)
        progress.tell(**{"new" if copied is None else "updated": 1}, grown=int(prefix is not None))
        if reason is not None:
            progress.note_copied_again(reason)

    async def _find_prefix(
        self, head: Values, copied: Values, snapshot: Any, transaction: AsyncConnection
    ) -> tuple[CopiedPrefix | None, str | None]:
        """Return the part of a log that need not be copied, or why all of it has to be."""
        if self._recheck:
            return None, RECHECKED
        source, target = self._source.db, self._target.db
        proof = PrefixProof(source, target, to_log(head), snapshot, transaction)
        found = await proof.prove(head, copied)
        return (found, None) if isinstance(found, CopiedPrefix) else (None, found)

    async def _delete_names(
        self, log: Log, names: Sequence[str], transaction: AsyncConnection
    ) -> None:
        """Delete checkpoints of a log on the target whose states stay there."""
        d = self._target.db.dialect
        for listed in d.statements.list_batches("p_keys", [(encode_id(one),) for one in names]):
            await self._target.execute(delete_checkpoint_rows(d), log.binds() | listed, transaction)

    async def _copy_rows(
        self, table: str, head: Values, after: int, snapshot: Any, transaction: AsyncConnection
    ) -> None:
        """Copy the rows of a log behind a position, batch by batch, and read them back."""
        log, source, target = to_log(head), self._source.db, self._target.db
        async for page in scan_positions(source, log, table, snapshot, after=after):
            for batch in _split_page(page):
                until = batch[-1].seq
                ours = await _read_rows(source, table, log, after, until, snapshot)
                await self._target.insert(table, ours, head, transaction)
                back = await _read_rows(target, table, log, after, until, transaction)
                if not same_rows(ours, back):
                    raise not_as_written(table, head)
                self._target.progress.tell(bytes=sum(row.stored for row in batch))
                after = until

    async def _read_head(self, log: Log, transaction: AsyncConnection | None) -> Values | None:
        """Read the head of a log on the target."""
        target = self._target.db
        statement = read_whole_head(target.dialect)
        rows = await run_query(target, statement, log.binds(), transaction)
        return dict(rows[0]._mapping) if rows else None


async def _read_rows(
    db: Database, table: str, log: Log, after: int, until: int, connection: Any
) -> list[Values]:
    """Read the rows of a log behind one position, up to another."""
    binds = log.binds() | {"p_after": after, "p_until": until}
    rows = await run_query(db, read_rows_to_copy(db.dialect, table=table), binds, connection)
    return [dict(row._mapping) for row in rows]


def _split_page(page: ScanPage) -> Iterator[list[Any]]:
    return batches(page, lambda row: row.stored, most_rows=BATCH_ROWS, most=BATCH_BYTES)


# --- Statements ----------------------------------------------------------------------------------


@statement(unproven=ON_TARGET)
def read_heads_on_target(dialect: Dialect) -> Executable:
    """Select the whole heads of the logs that `bind_logs` lists."""
    return select(*THREADS.c).where(is_of_listed_log(dialect, THREADS))


@statement(unproven=ON_TARGET)
def read_whole_head(dialect: Dialect) -> Executable:
    """Select the whole head of a log."""
    return select(*THREADS.c).where(of_log(THREADS))


@statement(writes=AS_STORED)
def replace_copied_head(dialect: Dialect) -> Executable:
    """Make the head of a log what it is in another database."""
    values = {c.name: column_bind(c, "p") for c in THREADS.c if c.name != "log_id"}
    same = THREADS.c.log_id == column_bind(THREADS.c.log_id, "p")
    return update(THREADS).where(same).values(values)


@statement(proves="verify", unproven=ON_TARGET, table=tuple(LOG_ROWS))
def read_rows_to_copy(dialect: Dialect, table: str) -> Executable:
    """Select the rows of a log behind one position and up to another, payloads too."""
    rows = LOG_ROWS[table]
    seq = rows.c.seq
    return (
        select(*rows.c)
        .where(
            of_log(rows),
            seq > bindparam("p_after", type_=seq.type),
            seq <= bindparam("p_until", type_=seq.type),
        )
        .order_by(seq)
    )
