"""Retention as an operation: prune and vacuum, over any number of threads, in short transactions.

Both go through the logs page by page, in the order of their keys, and remove batch by batch (see
`memalchemy.log.bulk_delete`). What one batch committed stays done: an interrupted run is resumed by
running it again, which reads its way past what is done and locks and writes only where something is
left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.contracts import Progress, Retention, to_timedelta
from memalchemy.database import WRITE_ROWS, Database, HostConnection
from memalchemy.events import Event
from memalchemy.log import Log, bulk_delete
from memalchemy.log.scan import run_query, scan
from memalchemy.statements import Program

PAUSES = (0.05, 0.2, 0.5, 1.0)
"""Seconds before each time that logs are tried again which somebody was writing to."""

TOMBSTONE_LIFE = timedelta(hours=24)

Watch = Callable[[Progress], object]

_NEVER = 2**62
_END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)


def retention_binds(retention: Retention, now: datetime) -> dict[str, Any]:
    """The binds of `beyond_retention`; a rule that is not given lets everything go."""
    age = retention.older_than
    return {
        "p_keep": min(retention.keep_last or 1, _NEVER) - 1,
        "p_every": min(retention.keep_every or _NEVER, _NEVER),
        "p_cutoff": _END_OF_TIME if age is None else now - to_timedelta(age),
    }


@dataclass
class RetentionRun:
    """One run of prune or vacuum."""

    db: Database
    cache: TipCache
    within: dict[str, Any]
    values: dict[str, Any]
    scope: str
    which: str
    """``live``: logs to prune; ``stale``: logs to remove."""
    wait: bool
    connection: HostConnection | None

    async def run(self, event: Event, progress: Watch | None, *, dry_run: bool) -> int:
        """Do it, or count; tell *progress* and *event*."""
        if not dry_run:
            self.db.check_writable()
        self.event, self.tell = event, progress or (lambda _: None)
        self.now = Progress(0, 0)
        if progress is not None:
            rows = await self._query(
                bulk_delete.count_logs(self.db.dialect, which=self.which, scope=self.scope),
                self.within,
            )
            self.now = replace(self.now, total=int(rows[0][0]))
        busy: list[bulk_delete.RemovableLog] = []
        async for seen, found in self._pages():
            if dry_run:
                self._tell(removed=sum(one.going for one in found))
            else:
                for batch in bulk_delete.batches(found):
                    busy += await self._remove(batch)
            self._tell(done=seen)
        busy = await self._again(busy)
        self._tell(busy=len(busy))
        event.details |= {"removed": self.now.removed, "busy": len(busy), "dry_run": dry_run}
        return self.now.removed

    async def _pages(self) -> AsyncIterator[tuple[int, list[bulk_delete.RemovableLog]]]:
        """Page by page: how many logs were looked at, and those that have something to go."""
        d = self.db.dialect
        page = bulk_delete.list_prunable if self.which == "live" else bulk_delete.list_stale
        pages = scan(
            self.db,
            lambda after: page(d, scope=self.scope, after=after),
            self.values | self.within,
            ("thread_id", "namespace"),
            self.connection,
            size=bulk_delete.MAX_LOGS,
            event=self.event,
        )
        async for rows in pages:
            yield len(rows), [found for row in rows if (found := self._found(row)) is not None]

    def _found(self, row: Any) -> bulk_delete.RemovableLog | None:
        log = Log(self.db.tenant, row.thread_id, row.namespace)
        if self.which == "stale":
            return bulk_delete.RemovableLog(log, row.next_seq, row.going)
        return (
            bulk_delete.RemovableLog(log, row.names, int(row.going))
            if row.going or row.needless
            else None
        )

    async def _remove(
        self, batch: list[bulk_delete.RemovableLog]
    ) -> list[bulk_delete.RemovableLog]:
        """Remove what is to go from *batch*; those of it that were not free."""
        d = self.db.dialect
        logs = [one.log for one in batch]
        free: set[Log] = set()
        while logs:
            program: Callable[[], Program[bulk_delete.BatchResult]]
            if self.which == "live":
                program = partial(bulk_delete.prune_batch, d, logs, self.values, wait=self.wait)
            else:
                program = partial(bulk_delete.remove_batch, d, logs, self.values, wait=False)
            done = await self.db.run(
                program, WRITE_ROWS, connection=self.connection, event=self.event
            )
            for log in done.logs:
                self.cache.drop(log)
            free.update(done.logs)
            self._tell(removed=done.removed)
            logs = done.logs if done.more else []
        return [one for one in batch if one.log not in free]

    async def _again(self, busy: list[bulk_delete.RemovableLog]) -> list[bulk_delete.RemovableLog]:
        """Try logs again that were passed over; those that never were free."""
        for pause in PAUSES:
            busy = await self._still_there(busy)
            if not busy:
                break
            self._tell(busy=len(busy))
            await asyncio.sleep(pause)
            left: list[bulk_delete.RemovableLog] = []
            for batch in bulk_delete.batches(busy):
                left += await self._remove(batch)
            busy = left
        return await self._still_there(busy)

    async def _still_there(
        self, busy: list[bulk_delete.RemovableLog]
    ) -> list[bulk_delete.RemovableLog]:
        """Those that somebody writes to, and not those that somebody has deleted meanwhile."""
        there: set[Log] = set()
        for batch in bulk_delete.batches(busy):
            binds = bulk_delete.batch_binds(self.db.dialect, [one.log for one in batch])
            rows = await self._query(bulk_delete.read_batch(self.db.dialect), binds)
            there.update(
                Log(self.db.tenant, row.thread_id, row.namespace)
                for row in rows
                if bulk_delete.is_wanted(row, self.which, self.values)
            )
        return [one for one in busy if one.log in there]

    async def _query(self, statement: Any, binds: dict[str, Any]) -> Any:
        values = self.values | binds
        return await run_query(self.db, statement, values, self.connection, event=self.event)

    def _tell(self, *, done: int = 0, removed: int = 0, busy: int | None = None) -> None:
        now = self.now
        self.now = replace(
            now,
            done=now.done + done,
            total=max(now.total, now.done + done),
            removed=now.removed + removed,
            busy=now.busy if busy is None else busy,
        )
        if self.now != now:
            self.tell(self.now)
