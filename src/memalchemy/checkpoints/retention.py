"""Prune and vacuum: apply retention to any number of threads, in short transactions.

Both go through the logs page by page, in the order of their keys, and remove batch by batch (see
`memalchemy.log.bulk_delete`). What one batch committed stays done: an interrupted run is resumed by
running it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.checkpoints.word_keeper import WordKeeper
from memalchemy.contracts import Progress, Retention, to_timedelta
from memalchemy.database import WRITE_ROWS, Database, HostConnection
from memalchemy.events import Event
from memalchemy.log import Log, bulk_delete
from memalchemy.log.scan import run_query, scan
from memalchemy.protection.proven_jobs import Damage, each_proven
from memalchemy.statements import Program

PAUSES = (0.05, 0.2, 0.5, 1.0)
"""Seconds to wait before each retry of the logs that were locked."""

TOMBSTONE_LIFE = timedelta(hours=24)

ProgressCallback = Callable[[Progress], object]

_NEVER = 2**62
_END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)


def retention_binds(retention: Retention, now: datetime) -> dict[str, Any]:
    """Return the binds of `beyond_retention`; a rule that is not given keeps nothing."""
    age = retention.older_than
    return {
        "p_keep": min(retention.keep_last or 1, _NEVER) - 1,
        "p_every": min(retention.keep_every or _NEVER, _NEVER),
        "p_cutoff": _END_OF_TIME if age is None else now - to_timedelta(age),
    }


@dataclass
class RetentionRun:
    """Run of prune or vacuum."""

    db: Database
    cache: TipCache
    scope_binds: dict[str, Any]
    values: dict[str, Any]
    scope: str
    which: str
    """``live``: logs to prune; ``stale``: logs to remove."""
    wait: bool
    connection: HostConnection | None
    left_out: set[Log] = field(default_factory=set)
    """Logs of threads that were pruned as a whole before, by `add`."""
    damage: Damage = field(default_factory=Damage)
    now: Progress = field(default_factory=partial(Progress, 0, 0))

    def add(self, logs: Iterable[Log], removed: int, busy: int) -> None:
        """Count what was removed from *logs*, which this run leaves out."""
        self.left_out.update(logs)
        removed, busy = self.now.removed + removed, self.now.busy + busy
        self.now = replace(self.now, removed=removed, busy=busy)

    async def run(self, event: Event, progress: ProgressCallback | None, *, dry_run: bool) -> int:
        """Remove what the rules do not keep, or only count it; return the number."""
        if not dry_run:
            self.db.check_writable()
        self.event: Event = event
        self.report_progress: ProgressCallback = progress or (lambda _: None)
        if progress is not None:
            rows = await self._run_query(
                bulk_delete.count_logs_to_delete(
                    self.db.dialect, which=self.which, scope=self.scope
                ),
                self.scope_binds,
            )
            self.now = replace(self.now, total=int(rows[0][0]))
        self._busy_before: int = self.now.busy
        busy: list[bulk_delete.RemovableLog] = []
        async for seen, found in self._pages_of_removable():
            if dry_run:
                self._report_progress(removed=sum(one.going for one in found))
            else:
                busy += await self._delete_all(found)
            self._report_progress(done=seen)
        busy = await self._retry_busy(busy)
        self._report_progress(busy=len(busy))
        done = {"removed": self.now.removed, "busy": self.now.busy, "dry_run": dry_run}
        event.details |= done
        self.damage.raise_if_any(f"{self.now.removed:,} checkpoints and entries were removed")
        return self.now.removed

    async def list_going(self, log: Log) -> set[str]:
        """Return the ids of the checkpoints of a log that no rule keeps."""
        binds = bulk_delete.log_list_binds(self.db.dialect, [log]) | bulk_delete.WHOLE
        ranked = bulk_delete.list_ranked(self.db.dialect)
        rows = await run_query(self.db, ranked, self.values | binds, self.connection)
        return {row.checkpoint_id for row in rows if row.goes}

    async def _delete_all(
        self, found: Sequence[bulk_delete.RemovableLog]
    ) -> list[bulk_delete.RemovableLog]:
        """Remove from the logs *found* what no rule keeps; return the logs that were locked."""
        busy: list[bulk_delete.RemovableLog] = []
        for batch in bulk_delete.transaction_batches(self.db.dialect, found):
            async for skipped in each_proven(batch, self._delete, self.damage):
                busy += skipped
        return busy

    async def _pages_of_removable(
        self,
    ) -> AsyncIterator[tuple[int, list[bulk_delete.RemovableLog]]]:
        """Yield, page by page, the number of logs looked at and those with something to remove."""
        d = self.db.dialect
        page = bulk_delete.list_prunable if self.which == "live" else bulk_delete.list_stale
        pages = scan(
            self.db,
            lambda after: page(d, scope=self.scope, after=after),
            self.values | self.scope_binds,
            ("thread_id", "namespace"),
            self.connection,
            size=bulk_delete.MAX_LOGS,
            event=self.event,
            damage=self.damage,
        )
        async for rows in pages:
            counted: Sequence[Any] = rows
            count = bulk_delete.count_prunable_apart(d) if self.which == "live" else None
            if count is not None:
                keys = ({"k_log_id": row.log_id} for row in rows)
                counted = [one for key in keys for one in await self._run_query(count, key)]
            yield (
                len(rows),
                [found for row in counted if (found := self._to_removable(row)) is not None],
            )

    def _to_removable(self, row: Any) -> bulk_delete.RemovableLog | None:
        log = Log(self.db.tenant, row.thread_id, row.namespace)
        if log in self.left_out:
            return None
        if self.which == "stale":
            return bulk_delete.RemovableLog(log, row.next_seq, row.going)
        return (
            bulk_delete.RemovableLog(log, row.names, int(row.going))
            if row.going or row.needless
            else None
        )

    async def _delete(
        self, batch: Sequence[bulk_delete.RemovableLog]
    ) -> list[bulk_delete.RemovableLog]:
        """Remove from the logs of *batch* what no rule keeps; return the logs that were locked."""
        d = self.db.dialect
        logs = [one.log for one in batch]
        below: int | None = None
        keeper = None
        if self.db.keyring.is_readable("text") and any(one.going for one in batch):
            keeper = WordKeeper(self.db, logs, self.values, self.connection, self.event)
        while True:
            program: Callable[[], Program[bulk_delete.BatchResult]]
            if self.which == "live":
                program = partial(
                    bulk_delete.prune_batch,
                    d,
                    logs,
                    self.values,
                    below,
                    wait=self.wait,
                    before=None if keeper is None else keeper.carry,
                )
            else:
                program = partial(bulk_delete.forget_batch, d, logs, self.values, wait=False)
            done = await self.db.run(
                program, WRITE_ROWS, connection=self.connection, event=self.event
            )
            if keeper is not None and keeper.wanted:
                await keeper.read_states()
                continue
            for log in done.logs:
                self.cache.drop(log)
            free = set(done.logs)
            self._report_progress(removed=done.removed)
            if done.rest is None:
                break
            if keeper is not None:
                keeper.go_on()
            logs, below = done.logs, done.rest
        return [one for one in batch if one.log not in free]

    async def _retry_busy(
        self, busy: list[bulk_delete.RemovableLog]
    ) -> list[bulk_delete.RemovableLog]:
        """Try the logs that were skipped again; return those that stayed locked."""
        for pause in PAUSES:
            busy = await self._find_still_removable(busy)
            if not busy:
                break
            self._report_progress(busy=len(busy))
            await asyncio.sleep(pause)
            busy = await self._delete_all(busy)
        return await self._find_still_removable(busy)

    async def _find_still_removable(
        self, busy: list[bulk_delete.RemovableLog]
    ) -> list[bulk_delete.RemovableLog]:
        """Return the busy logs that still exist and still are to be removed from."""
        there: set[Log] = set()
        for batch in bulk_delete.transaction_batches(self.db.dialect, busy):
            binds = bulk_delete.log_list_binds(self.db.dialect, [one.log for one in batch])
            rows = await self._run_query(bulk_delete.read_batch(self.db.dialect), binds)
            there.update(
                Log(self.db.tenant, row.thread_id, row.namespace)
                for row in rows
                if bulk_delete.is_wanted(row, self.which, self.values)
            )
        return [one for one in busy if one.log in there]

    async def _run_query(self, statement: Any, binds: dict[str, Any]) -> Any:
        values = self.values | binds
        return await run_query(self.db, statement, values, self.connection, event=self.event)

    def _report_progress(self, *, done: int = 0, removed: int = 0, busy: int | None = None) -> None:
        now = self.now
        self.now = replace(
            now,
            done=now.done + done,
            total=max(now.total, now.done + done),
            removed=now.removed + removed,
            busy=now.busy if busy is None else self._busy_before + busy,
        )
        if self.now != now:
            self.report_progress(self.now)
