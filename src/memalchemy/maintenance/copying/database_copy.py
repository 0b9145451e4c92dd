"""The copy of a database as a whole: `copy`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Executable,
    Table,
    and_,
    bindparam,
    func,
    literal_column,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database import WRITE_ROWS, Database
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict, CopyIncomplete, Corrupt, NotSigned
from memalchemy.events import operation
from memalchemy.log.scan import ScanPage, run_query, scan
from memalchemy.log.tables import NAMES, THREADS
from memalchemy.maintenance.copying.items import ItemCopy, summary
from memalchemy.maintenance.copying.logs import LOG_TABLES, LogCopy
from memalchemy.maintenance.copying.report import CopyProgress, CopyReport, LeftOut, name_of
from memalchemy.maintenance.copying.row_comparison import Values
from memalchemy.maintenance.copying.source import CopySource
from memalchemy.maintenance.copying.target import CopyTarget, OnTarget
from memalchemy.maintenance.local_items import is_not_local
from memalchemy.maintenance.stored_tenants import list_tenants
from memalchemy.maintenance.verify.database import list_orphaned_rows
from memalchemy.protection.key_registry import (
    FIRST_SIGNATURES,
    KEYS_NAMESPACE,
    SIGNING_NAMESPACE,
    note_signatures,
    read_registered_keys,
    register_key,
)
from memalchemy.protection.proven_jobs import ERRORS, is_damage
from memalchemy.search.scope import ITEM_KEY, ITEMS
from memalchemy.statements import after_key, statement

__all__ = ["CopyReport", "copy"]

PAGE = 200
"""The number of logs or items that are listed together and written in one transaction at most."""

BATCH_BYTES = 8 * 1024 * 1024
"""The bytes after which a transaction ends."""

NAMED_CONFLICTS = 5
"""The number of logs and items that an error names."""

LOG_ORDER = (*NAMES, "log_id")
"""The columns that logs are listed by. Damage can give two logs the same names."""


async def copy(
    source: Database,
    target: Database,
    *,
    all_tenants: bool = False,
    recheck: bool = False,
    progress: Callable[[CopyReport], object] | None = None,
) -> CopyReport:
    """Copy what *source* holds of its tenant, or of *all_tenants*, to *target*.

    Rows of all five tables are copied, tombstones included, with their ids, positions, versions,
    times and bytes. Only the epochs, and the counts of changes to vectors, are the target's own.
    The text indexes are built by the target. Every row is read back and compared before it is
    committed. Both databases need their schema.

    Before anything is written, all of the source is compared with the target. What the target has
    under the same keys must be equal, or an earlier state of it; otherwise the copy is refused. A
    log that was copied, and has only grown in the source since, is given its new rows: what it had
    is not read again. One of which rows were removed or changed, or encrypted, signed or indexed
    anew, is replaced. An item is replaced if the source's version of it is later, or was put again
    after the target's was last written; or if the source's keys have changed, or its words were
    rebuilt. If that write has the earlier time, as of a clock that was set back, the copy is
    refused. What the source no longer has stays on the target.

    Others may write to the source meanwhile. A log is copied as of one moment, and so is an item
    with its vectors; different logs are as of different moments. Run it again for what came since.
    Killed at any time, it continues when it is run again. Rows are held in batches of 8 MB.

    A log or an item in which `verify` finds damage, or something that is not what was signed with
    the target's signing keys (if it has none, the source's), is not copied, nor a part of it: what
    the target has of it from an earlier copy stays as it is. Everything else is copied, and the
    error at the end names what was left out. Once that is mended or deleted in the source, another
    copy completes the target.

    Args:
        recheck: read and compare every row of both sides, also of what an earlier copy has
            verified, and copy logs that have grown as a whole. This finds rows that were edited in
            the target's tables behind its back.
        progress: called often, with the counts so far.

    Raises:
        Conflict: the target holds something else under the same keys. Nothing was written, unless
            it came into being while the copy ran.
        NotEncrypted: a tenant is encrypted on the target and not in the source. Nothing of the log
            or item was written.
        CapabilityMissing: *all_tenants*, and row-level security shows a role one of them.
        NotSigned: the target has signing keys, and a tenant was never signed in the source.
        CopyIncomplete: logs or items were left out, because they are damaged, not what was signed,
            or not given back by the target as they were written. All others are on the target.
    """
    if source.identity is target.identity:
        raise ValueError("source and target are the same Database")
    if not all_tenants and source.tenant != target.tenant:
        raise ValueError(f"the source is tenant {source.tenant!r}, the target {target.tenant!r}")
    if all_tenants:
        for db in (source, target):
            await db.check_sees_all_tenants("a copy of all tenants")
    work = DatabaseCopy(source, target, all_tenants=all_tenants, recheck=recheck, progress=progress)
    with operation("transfer.copy", tenant=None if all_tenants else source.tenant) as event:
        report = await work.run()
        event.payload_bytes = report.bytes
    if report.left:
        raise CopyIncomplete(report)
    return report


class CopyOfRows(Protocol):
    """The methods by which logs, or items, are compared and copied: `LogCopy` and `ItemCopy`.

    Methods are given a *snapshot* of the source to read on, and a *transaction* of the target. The
    latter is ``None`` while everything is compared, before anything is written.
    """

    async def look_up(
        self, rows: Sequence[Values], snapshot: Any, transaction: AsyncConnection | None
    ) -> Any:
        """Return what the target has of some logs or items of the source."""

    async def compare(
        self, row: Values, found: Any, snapshot: Any, transaction: AsyncConnection | None
    ) -> OnTarget:
        """Compare a log or an item with what `look_up` has *found*."""

    async def copy(
        self, row: Values, found: Any, snapshot: Any, transaction: AsyncConnection
    ) -> None:
        """Copy it, unless it is on the target."""


class DatabaseCopy:
    """Copy the logs and items of one tenant, or of all."""

    def __init__(
        self,
        source: Database,
        target: Database,
        *,
        all_tenants: bool,
        recheck: bool,
        progress: Callable[[CopyReport], object] | None,
    ) -> None:
        self.source = source
        self.target = target
        self._scope = "all" if all_tenants else "tenant"
        self._binds = {} if all_tenants else {"k_tenant": source.tenant}
        self._recheck = recheck
        self._progress = CopyProgress(progress)
        self._left_out = LeftOut()
        self._of_source = CopySource(source, target)
        self._on_target = CopyTarget(target, self._progress)
        parts = self._of_source, self._on_target, self._left_out
        self._logs = LogCopy(*parts, recheck=recheck)
        self._items = ItemCopy(*parts, recheck=recheck)

    async def run(self) -> CopyReport:
        """Compare everything, then copy what is not on the target."""
        await self._items.prepare()
        await self._count_rows()
        await self._of_source.read_keys(self._scope, self._binds)
        await self._refuse_never_signed()
        await self._compare_all()
        await self._register_keys()
        if self.source.has_first_words and not self.target.has_first_words:
            await self.target.forget_words_note()
        await self._copy_all(list_heads_to_copy, LOG_ORDER, self._logs)
        await self._copy_all(list_items_to_copy, ITEM_KEY, self._items)
        report = self._progress.report
        if self._recheck or not (report.unchanged or report.updated):
            await self._note_orphans()
        return self._left_out.added_to(report)

    async def _count_rows(self) -> None:
        counts = []
        for table in ("threads", "store_items"):
            statement = count_rows_to_copy(self.source.dialect, table=table, scope=self._scope)
            counts.append((await run_query(self.source, statement, self._binds))[0][0])
        self._progress.tell(logs=counts[0], items=counts[1])

    async def _refuse_never_signed(self) -> None:
        """Refuse tenants without any signature, if the target accepts only signed rows.

        Raises:
            NotSigned: there is one.
        """
        if not self.target.signing.signs or self.target.signing.allow_unsigned:
            return
        for tenant in await self._list_tenants():
            if tenant not in self._of_source.signed:
                raise NotSigned(
                    f"tenant {tenant!r} was never signed in the source, and the target has signing "
                    "keys; nothing was written. Sign it first with `memalchemy sign`, or copy "
                    "without signing keys and sign the target."
                )

    async def _list_tenants(self) -> list[str]:
        """List the tenants to copy that have something."""
        if self._scope == "all":
            return await list_tenants(self.source)
        report = self._progress.report
        return [self.source.tenant] if report.logs + report.items else []

    async def _compare_all(self) -> None:
        """Compare everything with the target before anything is written.

        Raises:
            Conflict: the target holds something else under the same keys.
        """
        names: list[str] = []
        count = 0
        kinds: tuple[tuple[Any, Sequence[str], CopyOfRows], ...] = (
            (list_heads_to_copy, LOG_ORDER, self._logs),
            (list_items_to_copy, ITEM_KEY, self._items),
        )
        for listing, key, kind in kinds:
            async with aclosing(self._list_pages(listing, key)) as pages:
                async for page in pages:
                    others = await self._find_others(page, kind)
                    count += len(others)
                    names += others[: NAMED_CONFLICTS - len(names)]
                    self._progress.tell(looked=len(page))
        if names:
            named = ", ".join(names) + (", …" if count > len(names) else "")
            raise Conflict(
                f"the target holds something else under {count:,} of the source's keys: "
                f"{named}. Nothing was written. Delete them on one side, or copy into an empty "
                "database.",
                current=names,
            )

    async def _find_others(self, page: ScanPage, kind: CopyOfRows) -> list[str]:
        """Return the names of a page's logs or items in whose place the target has others."""
        others: list[str] = []
        rows = _to_values(page)
        found = await kind.look_up(rows, page.connection, None)
        for row in rows:
            with self._left_out.noting(row):
                if await kind.compare(row, found, page.connection, None) is OnTarget.OTHER:
                    await self._check_source(row, page.connection)
                    others.append(name_of(row))
        return others

    async def _check_source(self, row: Values, snapshot: Any) -> None:
        """Check a log or an item of the source.

        Raises:
            Corrupt: it is damaged, or not what was signed.
        """
        if "thread_id" in row:
            await self._of_source.check_log(row, snapshot)
        else:
            await self._items.check_stored_item(row, snapshot)

    async def _register_keys(self) -> None:
        """Register the source's keys on the target, before it has a row that needs them."""
        source, target = [
            await run_query(db, read_registered_keys(db.dialect, scope=self._scope), self._binds)
            for db in (self.source, self.target)
        ]
        encrypted = [
            {row.tenant for row in rows if row.namespace == KEYS_NAMESPACE}
            for rows in (source, target)
        ]
        self._on_target.refuses_plaintext_of = encrypted[1] - encrypted[0]
        for row in source:
            program = partial(register_key, self.target.dialect, row.tenant, row.key, row.namespace)
            await self.target.run(program, WRITE_ROWS)
            if row.namespace == SIGNING_NAMESPACE and bytes(row.value) == FIRST_SIGNATURES:
                # The rows come with the signatures that they have.
                note = partial(
                    note_signatures, self.target.dialect, row.tenant, row.key, FIRST_SIGNATURES
                )
                await self.target.run(note, WRITE_ROWS)

    async def _copy_all(self, listing: Any, key: Sequence[str], kind: CopyOfRows) -> None:
        """Copy all logs, or all items, many of them in one transaction of the target."""
        async with aclosing(self._list_pages(listing, key)) as pages:
            async for page in pages:
                rows, before = _to_values(page), self._progress.report
                done = len(rows)
                try:
                    done = await self._copy_together(rows, kind, page.connection)
                except ERRORS as error:
                    if not is_damage(error):
                        raise
                    self._progress.report = before  # nothing of the transaction is committed
                    if len(rows) == 1:
                        self._left_out.add(rows[0], error)
                    else:
                        await self._copy_one_by_one(rows, kind, page.connection)
                del page[done:]  # they come with the next page, in a snapshot of their own

    async def _copy_one_by_one(
        self, rows: Sequence[Values], kind: CopyOfRows, snapshot: Any
    ) -> None:
        """Copy logs or items in a transaction each, and leave out what cannot be copied."""
        for row in rows:
            before = self._progress.report
            with self._left_out.noting(row):
                await self._copy_together([row], kind, snapshot)
                continue
            self._progress.report = before

    async def _copy_together(self, rows: Sequence[Values], kind: CopyOfRows, snapshot: Any) -> int:
        """Copy logs or items in one transaction of the target; return the number of them.

        Those behind the first `BATCH_BYTES` are not copied.
        """
        end = self._progress.report.bytes + BATCH_BYTES
        async with self.target.transaction() as transaction:
            found = await kind.look_up(rows, snapshot, transaction)
            for done, row in enumerate(rows, 1):
                if not self._left_out.has(row):
                    await kind.copy(row, found, snapshot, transaction)
                if self._progress.report.bytes >= end:
                    return done
        return len(rows)

    def _list_pages(self, listing: Any, key: Sequence[str]) -> AsyncGenerator[ScanPage]:
        """List heads, or items, each page in a snapshot of the source."""
        return scan(
            self.source,
            lambda after: listing(self.source.dialect, scope=self._scope, after=after),
            self._binds,
            key,
            size=PAGE,
            snapshots=True,
            damage=self._left_out.damage,
        )

    async def _note_orphans(self) -> None:
        """Note the rows of the source that no log has: nothing reads them.

        All rows are gone through, so this is not done again when a copy is repeated.
        """
        for tenant in await self._list_tenants():
            for table in LOG_TABLES:
                binds = {"k_tenant": tenant, "p_limit": PAGE}
                listing = list_orphaned_rows(self.source.dialect, table=table)
                for row in await run_query(self.source, listing, binds):
                    if not row.strays:
                        self._left_out.damage.errors.append(
                            Corrupt(
                                f"{row.orphans:,} rows of {table} of tenant {tenant!r} without a "
                                f"thread, which nothing reads (log {row.log_id})"
                            )
                        )


def _to_values(rows: Sequence[Any]) -> list[Values]:
    return [dict(row._mapping) for row in rows]


# --- Statements ----------------------------------------------------------------------------------

OWN_TENANT = "'~'"
"""The tenant of what memalchemy keeps about the database itself, which is not copied."""

_LISTED: Mapping[str, tuple[Table, tuple[str, ...]]] = {
    "threads": (THREADS, LOG_ORDER),
    "store_items": (ITEMS, ITEM_KEY),
}


def _in_scope(table: Table, scope: str) -> ColumnElement[bool]:
    """The rows to copy of a tenant or of all."""
    of_tenant = table.c.tenant == bindparam("k_tenant")
    if scope == "all":
        of_tenant = table.c.tenant != literal_column(OWN_TENANT)
    return and_(of_tenant, is_not_local()) if table is ITEMS else of_tenant


@statement(proves="verify", scope=("tenant", "all"), after=(True, False))
def list_heads_to_copy(dialect: Dialect, scope: str, after: bool) -> Executable:
    """Select a page of heads, tombstones included, in the order of their names."""
    return _page(dialect, "threads", THREADS.c, scope, after)


@statement(proves="verify", scope=("tenant", "all"), after=(True, False))
def list_items_to_copy(dialect: Dialect, scope: str, after: bool) -> Executable:
    """Select what tells of a page of items whether they are the same elsewhere, by their keys."""
    return _page(dialect, "store_items", summary(dialect), scope, after)


def _page(dialect: Dialect, listed: str, columns: Any, scope: str, after: bool) -> Executable:
    table, key = _LISTED[listed]
    query = (
        select(*columns)
        .where(_in_scope(table, scope))
        .order_by(*(table.c[name] for name in key))
        .limit(bindparam("p_limit"))
    )
    # Of one tenant the rest of the key is compared, so that the index starts at the page.
    compared = key[1:] if scope == "tenant" else key
    return query.where(after_key(dialect, table, compared)) if after else query


@statement(table=tuple(_LISTED), scope=("tenant", "all"))
def count_rows_to_copy(dialect: Dialect, table: str, scope: str) -> Executable:
    """Count the logs or items to copy."""
    listed, _ = _LISTED[table]
    return select(func.count()).select_from(listed).where(_in_scope(listed, scope))
