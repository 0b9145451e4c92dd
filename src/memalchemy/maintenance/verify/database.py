"""The check of a whole database: everything it holds, in order, or a sample.

Others may go on saving and deleting meanwhile: nothing is locked while rows are read.
"""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any
from uuid import UUID

from sqlalchemy import Executable, Integer, Select, bindparam, func, or_, select

from memalchemy._unreadable_rows import UnreadableRows
from memalchemy.codec.anchors import Anchor, AnchorCheck, check_anchor
from memalchemy.database import Database
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, StatementFailed
from memalchemy.events import operation
from memalchemy.keys import check_thread_id, encode_id
from memalchemy.log import Log
from memalchemy.log.scan import PAGE, run_query, scan
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, same_log
from memalchemy.maintenance.anchor_reading import (
    AnchorFinding,
    RowCounter,
    TenantReading,
    find_missing_tenants,
)
from memalchemy.maintenance.command_names import anchor_command
from memalchemy.maintenance.stored_tenants import (
    add_tenants,
    next_tenant_of_items,
    next_tenant_of_logs,
)
from memalchemy.maintenance.verify.items import ItemCheck
from memalchemy.maintenance.verify.log_verification import verify_log
from memalchemy.maintenance.verify.report import Report, ReportBuilder, counted, remedy_of
from memalchemy.maintenance.verify.text_indexes import TextIndexCheck
from memalchemy.maintenance.verify.words import count_lacking_words
from memalchemy.proofs import REPORTED
from memalchemy.protection.key_registry import (
    KEYS_NAMESPACE,
    SIGNING_NAMESPACE,
    read_registered_keys,
)
from memalchemy.statements import after_key, statement

LOG_ORDER = ("thread_id", "namespace", "log_id")
"""The columns that logs are listed by. Damage can give two logs the same names."""


async def verify(
    db: Database,
    *,
    thread_id: str | None = None,
    all_tenants: bool = False,
    sample: int | float | None = None,
    repair: bool = False,
    anchor: Anchor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Read what *db* holds of its tenant and report what is wrong with it.

    Every state is rebuilt and compared with its checksum, every chain and lineage is followed,
    every head is compared with its rows. Every item of a store is decoded and compared with its
    checksum, its words and its vectors. Every row is looked for in the text indexes. Where the
    database has a check of its own, that runs too. Memory does not grow with the database: it is
    bounded by the largest state and by the checkpoint ids of one thread.

    Args:
        thread_id: only the logs of this thread, in all namespaces, and no items.
        all_tenants: check every tenant, not only that of *db*.
        sample: read so many states and items (a whole number) or such a share of them (a fraction
            under 1), drawn at random, each state with the chain it is rebuilt from, instead of
            everything. What needs all rows is left out: the database's own check, orphans,
            lineage, counters.
        repair: rebuild a text index that is wrong. Nothing else is ever changed.
        anchor: also check each log and item against this anchor, and look for those that the
            database lacks; not with *sample*. With *thread_id* only the logs that exist are
            checked.
        progress: called with positions and items done, and in all, as they were at the start.

    Raises:
        SchemaOutdated, SchemaTooNew: nothing was read.
        DatabaseUnreachable, AuthenticationFailed.
        ReadOnly: *repair*, and *db* was opened read-only.
        CapabilityMissing: *all_tenants*, and row-level security shows the role one of them.
        ValueError: *sample* is neither a whole number above zero nor a fraction between 0 and 1; or
            there is an *anchor*, and *sample* or no signing keys.
        Corrupt, KeyMissing: *anchor* was changed, or was made with another key.
    """
    if thread_id is not None:
        check_thread_id(thread_id)
    if thread_id is not None and all_tenants:
        raise ValueError("thread_id is of one tenant; it does not go with all_tenants")
    _check_sample(sample)
    if anchor is not None and sample is not None:
        raise ValueError("an anchor is about everything; it does not go with sample")
    held = None if anchor is None else check_anchor(anchor, db.signing)
    if repair:
        db.check_writable()
    if all_tenants:
        await db.check_sees_all_tenants("a check of all tenants")
    tenant = None if all_tenants else db.tenant
    started = time.perf_counter()
    with operation("verify", tenant=tenant, thread_id=thread_id):
        await db.check()
        check = DatabaseCheck(db, thread_id, all_tenants, sample, progress, held)
        repaired = await check.run(repair)
    return check.report.build(
        tenant=tenant,
        sampled=sample is not None,
        text_indexes=tuple(check.text_indexes.faults),
        repaired=repaired,
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


class DatabaseCheck:
    """Check the logs and items of one tenant, of one thread, or of all tenants."""

    def __init__(
        self,
        db: Database,
        thread_id: str | None,
        all_tenants: bool,
        sample: int | float | None,
        progress: Callable[[int, int], None] | None,
        anchor: AnchorCheck | None = None,
    ) -> None:
        self.db = db
        self.report: ReportBuilder = ReportBuilder()
        self.text_indexes: TextIndexCheck = TextIndexCheck(db)
        self._thread_id = thread_id
        self._all_tenants = all_tenants
        self._sample = sample
        self._progress = progress
        self._anchor = anchor
        self._scope = "tenant" if thread_id is None else "thread"
        self._whole = sample is None and thread_id is None

    async def run(self, repair: bool) -> tuple[str, ...]:
        """Check everything, in order; return the text indexes that were repaired."""
        if self._whole:
            await self._check_storage()
        tenants = await self._list_tenants()
        await self._compare_registered_keys(tenants)
        try:
            await self._check_rows(tenants)
        except Corrupt as error:
            self.report.add("unreadable", f"logs and items cannot be counted: {error}")
        if self._anchor is not None:
            await self._hold_to_anchor(self._anchor, tenants)
        if self._whole:
            await self._check_references(tenants)
        if self._sample is None:
            await self._check_words(tenants)
        await self.text_indexes.check_indexes(whole=self._whole)
        repaired = await self.text_indexes.repair(whole=self._whole) if repair else ()
        await self.text_indexes.add_findings(self.report)
        self.report.add_shared_faults()
        self.report.add_notes()
        return repaired

    async def _check_storage(self) -> None:
        """Run the database's own checks, where there are some."""
        d = self.db.dialect
        for which in ("pages", "references"):
            if d.maintenance.storage_faults(which) is None:
                continue
            try:
                for row in await run_query(self.db, find_storage_faults(d, which=which), {}):
                    self.report.add("storage", f"the database's own check: {row.fault}")
            except Corrupt as error:
                self.report.add("storage", f"the database's own check failed: {error}")

    async def _list_tenants(self) -> list[str]:
        """List the tenants that have a thread or an item, in the order of the database."""
        if not self._all_tenants:
            return [self.db.tenant]
        found: set[str] = set()
        for family in (next_tenant_of_logs, next_tenant_of_items):
            try:
                await add_tenants(self.db, family, found)
            except Corrupt as error:
                self.report.add("unreadable", f"the tenants cannot be listed: {error}")
        return sorted(found, key=encode_id)

    async def _compare_registered_keys(self, tenants: Sequence[str]) -> None:
        """Find signed tenants for which no key was given, and tenants that have no key yet."""
        scope = "all" if self._all_tenants else "tenant"
        statement = read_registered_keys(self.db.dialect, scope=scope)
        registered = await run_query(self.db, statement, self._scope_binds(self.db.tenant))
        signed = {row.tenant for row in registered if row.namespace == SIGNING_NAMESPACE}
        encrypted = {row.tenant for row in registered if row.namespace == KEYS_NAMESPACE}
        if self.db.keyring.refuses_plaintext:
            self.report.never_encrypted = frozenset(tenants) - encrypted
        if self.db.signing.signs:
            self.report.never_signed = frozenset(tenants) - signed
        elif number := len(signed.intersection(tenants)):
            self._note_unchecked(
                counted(number, "tenant is", "tenants are") + " signed and no signing keys were "
                "given: the rows were checked, and their signatures were not"
            )

    def _note_unchecked(self, what: str) -> None:
        self.report.add("unchecked", what, severity="note")

    async def _check_rows(self, tenants: Sequence[str]) -> None:
        """Check the logs of all tenants, then their items: all of them, or a sample."""
        positions = [await self._count_positions(tenant) for tenant in tenants]
        items = [await self._count_items(tenant) for tenant in tenants]
        total = sum(positions) + sum(items)
        sample = self._draw_sample(total)
        if sample is not None:
            sample = sorted(
                {*sample, *self._one_row_of_each_unkeyed_tenant(tenants, positions, items)}
            )
        done = 0
        for tenant, count in zip(tenants, positions, strict=True):
            try:
                await self._check_logs(tenant, sample, done, total)
            except Corrupt as error:
                self.report.add("unreadable", f"the logs of tenant {tenant!r}: {error}")
            done += count
        for tenant, count in zip(tenants, items, strict=True):
            if count:
                try:
                    await self._check_items(tenant, sample, done, total)
                except Corrupt as error:
                    self.report.add("unreadable", f"the items of tenant {tenant!r}: {error}")
            done += count
        self._tell_progress(total, total)

    def _draw_sample(self, total: int) -> list[int] | None:
        """Draw the numbers of the positions and items to read, in order; ``None`` stands for all.

        All positions are numbered from 0, in the order in which they are read, then all items.
        """
        if self._sample is None:
            return None
        wanted = self._sample if isinstance(self._sample, int) else math.ceil(self._sample * total)
        return sorted(random.sample(range(total), min(wanted, total)))

    def _one_row_of_each_unkeyed_tenant(
        self, tenants: Sequence[str], positions: Sequence[int], items: Sequence[int]
    ) -> Iterator[int]:
        """Yield the number, as `_draw_sample` counts, of a row of each tenant without a key.

        *positions* and *items* are how many of them each tenant has.
        """
        unkeyed = self.report.never_signed | self.report.never_encrypted
        first_position, first_item = 0, sum(positions)
        for tenant, its_positions, its_items in zip(tenants, positions, items, strict=True):
            if tenant in unkeyed and (its_positions or its_items):
                yield first_position if its_positions else first_item
            first_position += its_positions
            first_item += its_items

    async def _check_words(self, tenants: Sequence[str]) -> None:
        """Count the rows that lack words or field terms, of which searches find nothing."""
        for tenant in tenants:
            try:
                db = self.db.for_tenant(tenant)
                await count_lacking_words(db, self._thread_id, self.report)
            except Corrupt as error:
                self.report.add("unreadable", f"the words of tenant {tenant!r}: {error}")

    # --- Logs --------------------------------------------------------------------------------

    async def _check_logs(
        self, tenant: str, sample: list[int] | None, first: int, total: int
    ) -> None:
        """Check the logs of a tenant, whose first position has the number *first*."""
        async with aclosing(self._list_logs(tenant)) as logs:
            async for log, key, count in logs:
                if key == log.key:
                    await self._check_log(log, _positions_of(sample, first, count))
                else:
                    self._report_wrong_key(log, key, count)
                first += count
                self._tell_progress(min(first, total), total)

    async def _list_logs(self, tenant: str) -> AsyncGenerator[tuple[Log, UUID | None, int]]:
        """Yield the logs of a tenant, the key of each, and the number of its positions."""
        pages = scan(
            self.db,
            lambda after: list_logs_to_verify(self.db.dialect, scope=self._scope, after=after),
            self._scope_binds(tenant),
            LOG_ORDER,
            identified_by=("thread_id", "namespace"),
        )
        async for page in pages:
            for row in page:
                # A cell that cannot be read is reported when the log itself is checked.
                log = Log(tenant, row.thread_id, row.namespace)
                yield log, row.log_id, max((row.next_seq or 1) - 1, 0)

    async def _check_log(self, log: Log, sample: Sequence[int] | None) -> None:
        if sample is not None and not sample:
            return
        for low, high in await verify_log(self.db, log, self.report, sample):
            await self.text_indexes.check_rows(log, low, high)

    def _report_wrong_key(self, log: Log, key: UUID | None, count: int) -> None:
        """Report a head whose key is not that of its names: no operation finds it by them."""
        self.report.logs += 1
        unread = counted(count, "position was", "positions were")
        self.report.add(
            "log-id",
            f"the log is stored under the key {key}, and its names make {log.key}: whoever saves "
            f"or loads by these names does not find it; its {unread} not read",
            log,
            remedy=remedy_of("log-id", log.tenant),
        )

    async def _count_positions(self, tenant: str) -> int:
        statement = count_positions(self.db.dialect, scope=self._scope)
        try:
            rows = await run_query(self.db, statement, self._scope_binds(tenant))
        except (UnreadableRows, StatementFailed):
            return 0  # a damaged head, which is reported when its log is checked
        return int(rows[0].positions)

    def _scope_binds(self, tenant: str) -> dict[str, Any]:
        thread = {} if self._thread_id is None else {"k_thread_id": self._thread_id}
        return {"k_tenant": tenant} | thread

    # --- Items -------------------------------------------------------------------------------

    async def _check_items(
        self, tenant: str, sample: list[int] | None, first: int, total: int
    ) -> None:
        """Check the items of a tenant, whose first has the number *first*."""
        drawn = None if sample is None else {number - first for number in sample if number >= first}
        await self._item_check(tenant).check(
            drawn, lambda passed: self._tell_progress(min(first + passed, total), total)
        )

    async def _count_items(self, tenant: str) -> int:
        return await self._item_check(tenant).count() if self._thread_id is None else 0

    def _item_check(self, tenant: str) -> ItemCheck:
        return ItemCheck(self.db, tenant, self.report, self.text_indexes)

    # --- Anchors -----------------------------------------------------------------------------

    async def _hold_to_anchor(self, anchor: AnchorCheck, tenants: Sequence[str]) -> None:
        """Check heads and items against an anchor. Wrong signatures were reported before."""

        accepting = anchor_command(None if self._all_tenants else self.db.tenant)
        remedy = (
            f"if a backup was restored on purpose, {accepting} --accept-rollback; otherwise find "
            "out who has put an older copy back, or removed something"
        )

        def found(finding: AnchorFinding) -> None:
            self.report.add("anchor", remedy=remedy, **asdict(finding))

        for tenant in tenants:
            reading = TenantReading(self.db.for_tenant(tenant), anchor, found, RowCounter(None))
            try:
                await reading.hold(self._thread_id)
            except Corrupt as error:
                self.report.add("anchor", str(error), tenant=tenant)
        if self._all_tenants:
            for finding in find_missing_tenants(anchor, tenants):
                found(finding)
        if new := sum(anchor.section(tenant) is None for tenant in tenants):
            which = None if self._all_tenants else self.db.tenant
            self._note_unchecked(
                counted(new, "tenant is", "tenants are") + " not in the anchor, so nothing of it "
                f"was held to it; the next one has it after {anchor_command(which)}"
            )

    # --- References --------------------------------------------------------------------------

    async def _check_references(self, tenants: Sequence[str]) -> None:
        """Find rows without what they belong to."""
        for check in (self._check_heads, self._check_items_of_vectors):
            try:
                for tenant in tenants:
                    await check(tenant)
            except Corrupt as error:
                self.report.add("unreadable", f"rows without a thread or item: {error}")

    async def _check_heads(self, tenant: str) -> None:
        """Find rows of logs that have no head, or one of another tenant."""
        for table in ("checkpoints", "deltas"):
            statement = list_orphaned_rows(self.db.dialect, table=table)
            for row in await run_query(self.db, statement, {"k_tenant": tenant, "p_limit": PAGE}):
                rows = counted(row.orphans, "row", "rows") + f" of {table}"
                if not row.strays:
                    what = f"{rows} without a thread, which nothing reads (log {row.log_id})"
                    self.report.add("orphan", what, tenant=tenant)
                elif not self._all_tenants:  # otherwise the check of the log reports them
                    what = f"{rows} in a log of another tenant (log {row.log_id})"
                    self.report.add("tenant", what, tenant=tenant)

    async def _check_items_of_vectors(self, tenant: str) -> None:
        await self._item_check(tenant).check_references()

    def _tell_progress(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)


def _positions_of(sample: list[int] | None, first: int, count: int) -> list[int] | None:
    """Return the positions of a log that were drawn; its first has the number *first*."""
    if sample is None:
        return None
    low, high = bisect_left(sample, first), bisect_left(sample, first + count)
    return [number - first + 1 for number in sample[low:high]]


# --- Statements ----------------------------------------------------------------------------------


def _of_tenant(query: Select[Any], scope: str) -> Select[Any]:
    query = query.where(THREADS.c.tenant == bindparam("k_tenant"))
    if scope == "thread":
        query = query.where(THREADS.c.thread_id == bindparam("k_thread_id"))
    return query


@statement(unproven=REPORTED, scope=("tenant", "thread"))
def count_positions(dialect: Dialect, scope: str) -> Executable:
    """Count the positions that logs have allotted, which is about the number of their rows."""
    return _of_tenant(
        select(func.coalesce(func.sum(THREADS.c.next_seq - 1), 0).label("positions")), scope
    )


@statement(unproven=REPORTED, scope=("tenant", "thread"), after=(True, False))
def list_logs_to_verify(dialect: Dialect, scope: str, after: bool) -> Executable:
    """Select a page of the logs of a tenant or thread, tombstones too, in the order of names."""
    query = _of_tenant(select(*(THREADS.c[name] for name in (*LOG_ORDER, "next_seq"))), scope)
    if after:
        query = query.where(after_key(dialect, THREADS, LOG_ORDER))
    return query.order_by(*(THREADS.c[name] for name in LOG_ORDER)).limit(bindparam("p_limit"))


@statement(unproven=REPORTED, table=("checkpoints", "deltas"))
def list_orphaned_rows(dialect: Dialect, table: str) -> Executable:
    """Select the logs that have rows of a tenant, and no head, or one of another tenant."""
    rows = {"checkpoints": CHECKPOINTS, "deltas": DELTAS}[table]
    head = THREADS.c.log_id
    return (
        select(
            rows.c.log_id,
            func.count(type_=Integer).label("orphans"),
            func.count(head, type_=Integer).label("strays"),
        )
        .select_from(rows.outerjoin(THREADS, same_log(THREADS, rows)))
        .where(
            rows.c.tenant == bindparam("k_tenant", type_=rows.c.tenant.type),
            or_(head.is_(None), THREADS.c.tenant != rows.c.tenant),
        )
        .group_by(rows.c.log_id)
        .order_by(rows.c.log_id)
        .limit(bindparam("p_limit"))
    )


@statement(which=("pages", "references"))
def find_storage_faults(dialect: Dialect, which: str) -> Executable | None:
    """Select what the database itself finds wrong with its storage."""
    return dialect.maintenance.storage_faults(which)
