"""`verify`: reads what is stored, all of it or a sample, and says what is wrong.

Others may go on saving and deleting meanwhile. Every page is a short read, and what is compared is
compared by one statement, so no race is reported as damage. Nothing is changed but, if asked for,
a text index that is wrong.
"""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from memalchemy.database import Database
from memalchemy.database.unreadable_rows import UnreadableRows
from memalchemy.errors import Corrupt, StatementFailed
from memalchemy.events import operation
from memalchemy.keys import check_thread_id, encode_id
from memalchemy.log import Log
from memalchemy.verify import item_queries, queries
from memalchemy.verify.indexes import TextIndexes
from memalchemy.verify.items import ItemsReading
from memalchemy.verify.logs import LogReading, ask, ask_each
from memalchemy.verify.report import CODES, REMEDIES, Finding, Report, Tally, counted

__all__ = ["CODES", "Finding", "Report", "verify"]

PAGE = 500


async def verify(
    db: Database,
    *,
    thread_id: str | None = None,
    all_tenants: bool = False,
    sample: int | float | None = None,
    repair: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Read what *db* holds of its tenant and report what is wrong with it.

    Every state is rebuilt and held to its checksum, every chain and lineage is followed, every head
    is compared with its rows; every item of a store is decoded and held to its checksum, its words
    and vectors to it; every row is looked for in the text indexes, and where the database
    has a check of its own that runs too. Memory is bounded, whatever the size of the database, by
    what the largest state and the names of one thread take.

    Args:
        thread_id: only the logs of this thread, in all namespaces, and no items.
        all_tenants: every tenant's, not only that of *db*.
        sample: read so many states and items (a whole number) or such a share of them (a fraction
            under 1), drawn at random, each state with the chain it is rebuilt from, instead of
            everything. What needs a look at all rows is left out: the database's own check,
            orphans, lineage, counters.
        repair: build a text index anew that is found wrong. Nothing else is ever changed.
        progress: called with positions and items done, and in all, as they were at the start.

    Raises:
        SchemaOutdated, SchemaTooNew: nothing was read.
        DatabaseUnreachable, AuthenticationFailed.
        ValueError: *sample* is neither a whole number above zero nor a fraction between 0 and 1.
    """
    if thread_id is not None:
        check_thread_id(thread_id)
    if thread_id is not None and all_tenants:
        raise ValueError("thread_id is of one tenant; it does not go with all_tenants")
    _check_sample(sample)
    started = time.perf_counter()
    with operation("verify", tenant=None if all_tenants else db.tenant, thread_id=thread_id):
        await db.check()
        work = _Verification(db, thread_id, all_tenants, sample, progress)
        repaired = await work.run(repair)
    tally = work.tally
    return Report(
        tenant=None if all_tenants else db.tenant,
        sampled=sample is not None,
        logs=tally.logs,
        rows=tally.rows,
        checkpoints=tally.checkpoints,
        states=tally.states,
        entries=tally.entries,
        items=tally.items,
        payload_bytes=tally.payload_bytes,
        state_bytes=tally.state_bytes,
        text_indexes=tuple(work.indexes.readings),
        errors=tally.errors,
        findings=tuple(tally.findings),
        repaired=tuple(repaired),
        seconds=time.perf_counter() - started,
    )


def _check_sample(sample: int | float | None) -> None:
    if sample is None:
        return
    fits = sample >= 1 if isinstance(sample, int) else 0 < sample < 1
    if isinstance(sample, bool) or not fits:
        raise ValueError(
            f"sample is a whole number above 0 or a fraction between 0 and 1, not {sample!r}"
        )


class _Verification:
    """One run over the logs of one tenant, of one thread, or of all tenants."""

    def __init__(
        self,
        db: Database,
        thread_id: str | None,
        all_tenants: bool,
        sample: int | float | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.db = db
        self.tally = Tally()
        self.indexes = TextIndexes(db)
        self._thread_id = thread_id
        self._all_tenants = all_tenants
        self._sample = sample
        self._progress = progress
        self._scope = "tenant" if thread_id is None else "thread"
        self._whole = sample is None and thread_id is None

    async def run(self, repair: bool) -> list[str]:
        """Everything, in order; the indexes that were repaired."""
        if self._whole:
            await self._storage()
        try:
            await self._logs()
        except Corrupt as error:
            self.tally.add("unreadable", f"what there is cannot be listed: {error}")
        for look in (self._orphans, self._whole_items) if self._whole else ():
            try:
                async for tenant in self._tenants():
                    await look(tenant)
            except Corrupt as error:
                self.tally.add("unreadable", f"what there is cannot be listed: {error}")
        await self.indexes.prove(whole=self._whole)
        repaired = await self.indexes.repair(whole=self._whole) if repair else []
        await self.indexes.report(self.tally)
        self.tally.add_notes()
        return repaired

    async def _storage(self) -> None:
        for which in ("pages", "references"):
            if self.db.dialect.maintenance.storage_faults(which) is None:
                continue
            try:
                statement = queries.storage_faults(self.db.dialect, which=which)
                for row in await ask(self.db, statement, {}):
                    self.tally.add("storage", f"the database's own check: {row.fault}")
            except Corrupt as error:
                self.tally.add("storage", f"the database's own check failed: {error}")

    async def _logs(self) -> None:
        tenants = [tenant async for tenant in self._tenants()]
        counts = [await self._positions(tenant) for tenant in tenants]
        items = [await self._count_items(tenant) for tenant in tenants]
        total = sum(counts) + sum(items)
        picks = self._picks(total)
        done = 0
        for tenant, count in zip(tenants, counts, strict=True):
            start = offset = done
            try:
                async for log, key, positions in self._logs_of(tenant):
                    if key == log.key:
                        await self._log(log, _within(picks, offset, positions))
                    else:
                        self._misnamed(log, key, positions)
                    offset += positions
                    self._tell(min(offset, total), total)
            except Corrupt as error:
                self.tally.add("unreadable", f"the logs of tenant {tenant!r}: {error}")
            done = start + count
        for tenant, count in zip(tenants, items, strict=True):
            if count:
                chosen = None if picks is None else {p - done for p in picks if p >= done}
                tell = partial(self._tell_from, done, total)
                try:
                    await self._items(tenant).read(chosen, tell)
                except Corrupt as error:
                    self.tally.add("unreadable", f"the items of tenant {tenant!r}: {error}")
            done += count
        self._tell(total, total)

    def _picks(self, total: int) -> list[int] | None:
        """The positions to read, counted over all logs; ``None`` for all."""
        if self._sample is None:
            return None
        wanted = self._sample if isinstance(self._sample, int) else math.ceil(self._sample * total)
        return sorted(random.sample(range(total), min(wanted, total)))

    async def _log(self, log: Log, picks: Sequence[int] | None) -> None:
        if picks is not None and not picks:
            return
        reading = LogReading(self.db, log, self.tally)
        try:
            if not await reading.head():
                return  # deleted since it was listed
        except Corrupt as error:
            self.tally.add("unreadable", f"the head of the log: {error}", log)
        try:
            if picks is None:
                ranges = await reading.everything()
            else:
                ranges = await reading.sampled(picks)
        except Corrupt as error:
            self.tally.add("unreadable", f"rows of the log cannot be read: {error}", log)
            return
        for low, high in ranges:
            await self.indexes.look(log, low, high)

    def _misnamed(self, log: Log, key: UUID | None, positions: int) -> None:
        """Add a head whose key is not that of its names: no operation finds it by them."""
        self.tally.logs += 1
        unread = counted(positions, "position was", "positions were")
        self.tally.add(
            "log-id",
            f"the log is stored under the key {key}, and its names make {log.key}: whoever saves "
            f"or loads by these names does not find it; its {unread} not read",
            log,
            remedy=REMEDIES["log-id"],
        )

    async def _orphans(self, tenant: str) -> None:
        for table in ("checkpoints", "deltas"):
            statement = queries.list_orphans(self.db.dialect, table=table)
            for row in await ask(self.db, statement, {"k_tenant": tenant, "p_limit": PAGE}):
                rows = counted(row.orphans, "row", "rows") + f" of {table}"
                if not row.strays:
                    what = f"{rows} without a thread, which nothing reads (log {row.log_id})"
                    self.tally.add("orphan", what, tenant=tenant)
                elif not self._all_tenants:  # else the reading of the log itself tells
                    what = f"{rows} in a log of another tenant (log {row.log_id})"
                    self.tally.add("tenant", what, tenant=tenant)

    async def _tenants(self) -> AsyncIterator[str]:
        if not self._all_tenants:
            yield self.db.tenant
            return
        found: str | None = None
        while True:
            least: set[str] = set()
            for first in (queries.list_tenants, item_queries.first_tenant):
                statement = first(self.db.dialect, after=found is not None)
                rows = await ask(self.db, statement, {} if found is None else {"k_tenant": found})
                least |= {row.tenant for row in rows if row.tenant is not None}
            if not least:
                return
            found = min(least, key=encode_id)
            yield found

    def _binds(self, tenant: str) -> dict[str, Any]:
        thread = {} if self._thread_id is None else {"k_thread_id": self._thread_id}
        return {"k_tenant": tenant} | thread

    async def _positions(self, tenant: str) -> int:
        statement = queries.count_positions(self.db.dialect, scope=self._scope)
        try:
            rows = await ask(self.db, statement, self._binds(tenant))
        except (UnreadableRows, StatementFailed):
            return 0  # a position is no number, or beyond all: reading the logs tells whose
        return int(rows[0].positions)

    async def _logs_of(self, tenant: str) -> AsyncIterator[tuple[Log, UUID | None, int]]:
        """The logs of a tenant, the key of each, and how many positions it has allotted."""
        binds = self._binds(tenant) | {"p_limit": PAGE}
        after = False
        while True:
            statement = queries.list_logs(self.db.dialect, scope=self._scope, after=after)
            rows, _ = await ask_each(self.db, statement, binds, ("thread_id", "namespace"))
            for row in rows:
                # Of what is no number the log's own reading tells.
                log = Log(tenant, row.thread_id, row.namespace)
                yield log, row.log_id, max((row.next_seq or 1) - 1, 0)
            if len(rows) < PAGE:
                return
            after = True
            binds |= {f"p_{name}": getattr(rows[-1], name) for name in queries.LISTED}

    def _items(self, tenant: str) -> ItemsReading:
        return ItemsReading(self.db, tenant, self.tally, self.indexes)

    async def _whole_items(self, tenant: str) -> None:
        await self._items(tenant).whole()

    async def _count_items(self, tenant: str) -> int:
        return await self._items(tenant).count() if self._thread_id is None else 0

    def _tell_from(self, start: int, total: int, passed: int) -> None:
        self._tell(min(start + passed, total), total)

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)


def _within(picks: list[int] | None, offset: int, positions: int) -> list[int] | None:
    """The picks that fall into a log, as positions of that log."""
    if picks is None:
        return None
    low, high = bisect_left(picks, offset), bisect_left(picks, offset + positions)
    return [pick - offset + 1 for pick in picks[low:high]]
