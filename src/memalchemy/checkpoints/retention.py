"""Retention as an operation: prune and vacuum, over any number of threads, in short transactions.

Both go through the logs page by page, in the order of their keys, and remove batch by batch (see
`memalchemy.log.many`). What one batch committed stays done: an interrupted run is resumed by
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

from sqlalchemy import Executable

from memalchemy.checkpoints import upkeep
from memalchemy.checkpoints.cache import TipCache
from memalchemy.checkpoints.scope import Scope
from memalchemy.contracts import Progress, Retention, Seconds
from memalchemy.database import Database, HostConnection
from memalchemy.events import Event, operation
from memalchemy.log import Log, bulk_delete
from memalchemy.statements import Program

PAUSES = (0.05, 0.2, 0.5, 1.0)
"""Seconds before each time that logs are tried again which somebody was writing to."""

Watching = Callable[[Progress], object]


class Retaining(Scope):
    """What `Checkpointer` lets go of by rules and by age."""

    async def prune(
        self,
        thread_id: str | None = None,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: Seconds | None = None,
        all_namespaces: bool = False,
        dry_run: bool = False,
        progress: Watching | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete checkpoints that every given rule lets go (see `Retention`); how bulk_delete.

        Of one thread, or of all; in this checkpointer's namespace, or in all. The newest of a
        thread always stays, and so do states, without a name, that kept ones are built on.

        Over all threads it works in batches, each a transaction of its own of about 2,000 rows. A
        thread that somebody is saving into is passed over and tried again at the end, for some two
        seconds; then it is left, and `Progress.busy` says so. One thread, by its name, is waited
        for. Interrupted, run it again: it goes on where something is left.

        Args:
            dry_run: count what would go, exactly, reading only.
            progress: called after every batch.
        """
        rules = Retention(keep_last, keep_every, older_than)
        now = datetime.now(UTC)
        values = upkeep.retention_binds(rules, now) | {"p_now": now}
        sweep = Sweep(
            self.db,
            self._cache,
            self._binds(thread_id),
            values,
            scope=self._reach(thread_id, all_namespaces),
            which="live",
            wait=thread_id is not None,
            connection=connection,
        )
        known = {"tenant": self.db.tenant, "thread_id": thread_id}
        with operation("checkpoint.prune", **known) as event:
            return await sweep.run(event, progress, dry_run=dry_run)

    async def vacuum(
        self,
        older_than_days: float | None = 30,
        *,
        all_namespaces: bool = False,
        dry_run: bool = False,
        progress: Watching | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove threads that were not saved for so long, expired threads, and old tombstones.

        A log whose thread is in use in a namespace above it stays, as that of a subgraph which
        remembers by itself. Without *older_than_days* (``None``) only expired threads and old
        tombstones, which no reader sees. A thread goes as a whole; otherwise batches, busy threads,
        *dry_run* and *progress* are as in `prune`. Returns how many checkpoints and entries went.
        `memalchemy.space.reclaim` gives the space back.
        """
        now = datetime.now(UTC)
        if older_than_days is None:
            cutoff = datetime(1970, 1, 1, tzinfo=UTC)
        elif 0 <= older_than_days < 365_000:
            cutoff = now - timedelta(days=older_than_days)
        else:
            raise ValueError("older_than_days must not be negative, nor over a thousand years")
        sweep = Sweep(
            self.db,
            self._cache,
            self._binds(None),
            {"p_now": now, "p_cutoff": cutoff, "p_buried": now - upkeep.TOMBSTONE_LIFE},
            scope=self._reach(None, all_namespaces),
            which="stale",
            wait=False,
            connection=connection,
        )
        with operation("checkpoint.vacuum", tenant=self.db.tenant) as event:
            return await sweep.run(event, progress, dry_run=dry_run)

    def _binds(self, thread_id: str | None) -> dict[str, Any]:
        if thread_id is not None:
            return self._log(thread_id).names()
        return {"k_tenant": self.db.tenant, "k_namespace": self._path}

    def _reach(self, thread_id: str | None, all_namespaces: bool) -> str:
        if thread_id is not None:
            return "thread" if all_namespaces else "log"
        return "tenant" if all_namespaces else "namespace"


@dataclass
class Sweep:
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

    async def run(self, event: Event, progress: Watching | None, *, dry_run: bool) -> int:
        """Do it, or count; tell *progress* and *event*."""
        if not dry_run:
            self.db.check_writable()
        self.event, self.tell = event, progress or (lambda _: None)
        self.now = Progress(0, 0)
        if progress is not None:
            rows = await self._ask(
                bulk_delete.count_logs(self.db.dialect, which=self.which, scope=self.scope),
                self.within,
            )
            self.now = replace(self.now, total=int(rows[0][0]))
        busy: list[bulk_delete.Found] = []
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

    async def _pages(self) -> AsyncIterator[tuple[int, list[bulk_delete.Found]]]:
        """Page by page: how many logs were looked at, and those that have something to go."""
        d = self.db.dialect
        page = bulk_delete.list_prunable if self.which == "live" else bulk_delete.list_stale
        binds = self.within | {"p_limit": bulk_delete.LOGS}
        after = False
        while True:
            rows = await self._ask(page(d, scope=self.scope, after=after), binds)
            yield len(rows), [found for row in rows if (found := self._found(row)) is not None]
            if len(rows) < bulk_delete.LOGS:
                return
            after = True
            binds |= {"p_thread_id": rows[-1].thread_id, "p_namespace": rows[-1].namespace}

    def _found(self, row: Any) -> bulk_delete.Found | None:
        log = Log(self.db.tenant, row.thread_id, row.namespace)
        if self.which == "stale":
            return bulk_delete.Found(log, row.next_seq, row.going)
        return (
            bulk_delete.Found(log, row.names, int(row.going)) if row.going or row.needless else None
        )

    async def _remove(self, batch: list[bulk_delete.Found]) -> list[bulk_delete.Found]:
        """Remove what is to go from *batch*; those of it that were not free."""
        d = self.db.dialect
        logs = [one.log for one in batch]
        free: set[Log] = set()
        while logs:
            program: Callable[[], Program[bulk_delete.Removed]]
            if self.which == "live":
                program = partial(bulk_delete.prune_listed, d, logs, self.values, wait=self.wait)
            else:
                program = partial(bulk_delete.remove_listed, d, logs, self.values, wait=False)
            done = await self.db.write(
                program, connection=self.connection, event=self.event, payloads=False
            )
            for log in done.logs:
                self.cache.drop(log)
            free.update(done.logs)
            self._tell(removed=done.removed)
            logs = done.logs if done.more else []
        return [one for one in batch if one.log not in free]

    async def _again(self, busy: list[bulk_delete.Found]) -> list[bulk_delete.Found]:
        """Try logs again that were passed over; those that never were free."""
        for pause in PAUSES:
            busy = await self._still_there(busy)
            if not busy:
                break
            self._tell(busy=len(busy))
            await asyncio.sleep(pause)
            left: list[bulk_delete.Found] = []
            for batch in bulk_delete.batches(busy):
                left += await self._remove(batch)
            busy = left
        return await self._still_there(busy)

    async def _still_there(self, busy: list[bulk_delete.Found]) -> list[bulk_delete.Found]:
        """Those that somebody writes to, and not those that somebody has deleted meanwhile."""
        there: set[Log] = set()
        for batch in bulk_delete.batches(busy):
            binds = bulk_delete.batch_binds(self.db.dialect, [one.log for one in batch])
            rows = await self._ask(bulk_delete.find_listed(self.db.dialect), binds)
            there.update(
                Log(self.db.tenant, row.thread_id, row.namespace)
                for row in rows
                if bulk_delete.is_wanted(row, self.which, self.values)
            )
        return [one for one in busy if one.log in there]

    async def _ask(self, statement: Executable, binds: dict[str, Any]) -> Any:
        def program() -> Program[Any]:
            return (yield statement, self.values | binds)

        return await self.db.read(program, connection=self.connection, event=self.event)

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
