"""Copy from one database to another: `copy`.

Rows are copied as they are stored. The order is:

1. Compare everything of the source with the target, and refuse to begin if the target holds
   something else under the same keys.
2. Register the source's encryption keys on the target.
3. Copy the logs. A log is checked as `verify` does, read as of the same moment, written, read back
   and compared in one transaction of the target: so it is there whole or not at all. Small logs
   share a transaction.
4. Copy the items of stores, each with its vectors, in the same way.

A log or an item that is damaged, or not what was signed, is left out whole, and so the target
verifies. The others are copied, and an error at the end names what was left out.

A copy can be repeated, and a killed one continues when it is run again, because the head of a log
says enough: `epoch_of_copy` marks it as copied and unchanged since. So a log that is there already
is left alone, brought up to date or refused, and no progress is recorded anywhere.
"""

from __future__ import annotations

import enum
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    Table,
    and_,
    bindparam,
    func,
    insert,
    literal_column,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.checkpoints.forget import forget_item
from memalchemy.codec.encryption import Keyring, is_encrypted
from memalchemy.database import READ, WRITE_COPIED, WRITE_ROWS, Database
from memalchemy.dialects import Dialect
from memalchemy.errors import (
    Conflict,
    CopyIncomplete,
    Corrupt,
    MemalchemyError,
    NotEncrypted,
    NotSigned,
    UniqueViolation,
    about,
)
from memalchemy.events import operation
from memalchemy.keys import INTERNAL_PREFIX
from memalchemy.log import Log, forget_log, lock_log
from memalchemy.log.scan import ScanPage, batches, run_query, scan
from memalchemy.log.tables import NAMES, THREADS, of_log
from memalchemy.maintenance.local_items import is_not_local
from memalchemy.maintenance.log_positions import (
    BEFORE_ALL,
    LOG_ROWS,
    list_positions,
    scan_positions,
)
from memalchemy.maintenance.row_comparison import (
    Values,
    comparable_vector,
    epoch_of_copy,
    is_unchanged_copy,
    same_row,
    same_rows,
)
from memalchemy.maintenance.stored_tenants import list_tenants
from memalchemy.maintenance.verify.database import list_orphaned_rows
from memalchemy.maintenance.verify.items import ItemCheck, StoreNamespace
from memalchemy.maintenance.verify.log_verification import verify_log
from memalchemy.maintenance.verify.report import CODES, ReportBuilder
from memalchemy.maintenance.verify.text_indexes import TextIndexCheck
from memalchemy.proofs import ON_TARGET
from memalchemy.protection.found_items import check_items
from memalchemy.protection.key_registry import (
    FIRST_SIGNATURES,
    KEYS_NAMESPACE,
    SIGNING_NAMESPACE,
    note_signatures,
    read_registered_keys,
    register_key,
)
from memalchemy.protection.proven_jobs import ERRORS, Damage, is_damage
from memalchemy.rows import AS_STORED
from memalchemy.search.cache_versions import count_change
from memalchemy.search.scope import EMBEDDINGS, ITEM_KEY, ITEMS, of_item
from memalchemy.search.vectors import has_native_vectors
from memalchemy.statements import Parameters, after_key, column_bind, program_of, statement
from memalchemy.store.write import delete_vectors

__all__ = ["CopyReport", "copy"]

PAGE = 200
"""The number of logs or items that are listed together and written in one transaction at most."""

BATCH_ROWS = 100
BATCH_BYTES = 8 * 1024 * 1024
"""The rows and bytes of a log that are held at once. After so many bytes a transaction ends."""

NAMED_LEFT_OUT = 1_000
"""Maximum number of left-out logs and items that a report names."""

NAMED_FINDINGS = 3
"""Maximum number of faults that the reason for leaving out a log or an item names."""

NAMED_CONFLICTS = 5
"""The number of logs and items that an error names."""

LOG_ORDER = (*NAMES, "log_id")
"""The columns that logs are listed by. Damage can give two logs the same names."""

LOG_TABLES = ("deltas", "checkpoints")
"""A base is before the states that are built on it, and a state before the name of its checkpoint:
so no row refers to one that comes later."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The counts of a copy, so far or at its end.

    Attributes:
        logs: the logs that the source had when the copy began.
        items: the items that it had then.
        looked: the logs and items that were compared with the target before the copy.
        new: those that were not on the target.
        updated: those that were there from an earlier copy, and are the source's of now.
        unchanged: those that were there already.
        rows: the rows that were written and read back.
        bytes: the bytes of payloads, values and vectors that were written and read back.
        left: the logs and items that were left out, because they are damaged or not what was
            signed.
        left_out: those, each with the reason, the first `NAMED_LEFT_OUT`.
    """

    logs: int = 0
    items: int = 0
    looked: int = 0
    new: int = 0
    updated: int = 0
    unchanged: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    left: int = 0
    left_out: tuple[str, ...] = ()

    @property
    def done(self) -> int:
        """Logs and items that are on the target, as the source has them."""
        return self.new + self.updated + self.unchanged


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
    under the same keys must be equal, or be what an earlier copy left and nobody has written to
    since; otherwise the copy is refused. A log that was copied and has changed in the source since
    is replaced. An item is replaced if the source's version of it is later, or was put again after
    the target's was last written. Both are replaced, too, if the source's keys have changed. What
    the source no longer has stays on the target.

    Others may write to the source meanwhile. A log is copied as of one moment, and so is an item
    with its vectors; different logs are as of different moments. Run it again for what came since.
    Killed at any time, it continues when it is run again. Rows are held in batches of 8 MB.

    A log or an item in which `verify` finds damage, or something that is not what was signed with
    the target's signing keys (if it has none, the source's), is not copied, nor a part of it: what
    the target has of it from an earlier copy stays as it is. Everything else is copied, and the
    error at the end names what was left out. Once that is mended or deleted in the source, another
    copy completes the target.

    Args:
        recheck: also compare the rows of logs that an earlier copy has verified; their heads
            always are.
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


class OnTarget(enum.Enum):
    """The state of the target under a key of the source."""

    NOTHING = "nothing"
    SAME = "the same"
    OLDER = "what an earlier copy left"
    OTHER_VECTORS = "the same item with other vectors"
    OTHER = "something else"


Item = tuple[list[Values], list[Values]]
"""The row of an item, if it is there, and the rows of its vectors, as float32 bytes."""


class DatabaseCopy:
    """Copy the logs and items of one tenant, or of all.

    Methods are given a *snapshot* of the source to read on, and a *transaction* of the target. The
    latter is ``None`` while everything is compared, before anything is written.
    """

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
        self.report: CopyReport = CopyReport()
        self._scope = "all" if all_tenants else "tenant"
        self._binds = {} if all_tenants else {"k_tenant": source.tenant}
        self._recheck = recheck
        self._progress = progress
        self._started = time.perf_counter()
        self._native_vectors: dict[Database, bool] = {}
        self._keyed: set[str] = set()
        """The tenants whose rows in the source may have been encrypted or signed anew."""
        self._plaintext_refused: set[str] = set()
        """The tenants that are encrypted on the target and not in the source."""
        self._encrypted: set[str] = set()
        """The tenants that are encrypted in the source."""
        self._signed: set[str] = set()
        """The tenants that are signed in the source."""
        self._damage = Damage()
        self._left: set[tuple[Any, ...]] = set()
        """The names of the logs and items that are left out."""

    async def run(self) -> CopyReport:
        """Compare everything, then copy what is not on the target."""
        for db in (self.source, self.target):
            self._native_vectors[db] = await db.run(partial(has_native_vectors, db), READ)
        await self._count_rows()
        registered = read_registered_keys(self.source.dialect, scope=self._scope)
        keys = await run_query(self.source, registered, self._binds)
        self._encrypted = {row.tenant for row in keys if row.namespace == KEYS_NAMESPACE}
        self._signed = {row.tenant for row in keys if row.namespace == SIGNING_NAMESPACE}
        self._keyed = self._encrypted | self._signed
        await self._refuse_never_signed()
        await self._compare_all()
        await self._register_keys()
        if self.source.has_first_words and not self.target.has_first_words:
            await self.target.forget_words_note()
        await self._copy_all(list_heads_to_copy, LOG_ORDER, self._copy_log)
        await self._copy_all(list_keys_of_items, ITEM_KEY, self._copy_item)
        await self._note_orphans()
        left_out = tuple(map(str, self._damage.errors[:NAMED_LEFT_OUT]))
        self.report = replace(self.report, left=len(self._damage.errors), left_out=left_out)
        return self.report

    async def _count_rows(self) -> None:
        counts = []
        for table in ("threads", "store_items"):
            statement = count_rows_to_copy(self.source.dialect, table=table, scope=self._scope)
            counts.append((await run_query(self.source, statement, self._binds))[0][0])
        self._tell_progress(logs=counts[0], items=counts[1])

    async def _refuse_never_signed(self) -> None:
        """Refuse tenants without any signature, if the target accepts only signed rows.

        Raises:
            NotSigned: there is one.
        """
        if not self.target.signing.signs or self.target.signing.allow_unsigned:
            return
        for tenant in await self._list_tenants():
            if tenant not in self._signed:
                raise NotSigned(
                    f"tenant {tenant!r} was never signed in the source, and the target has signing "
                    "keys; nothing was written. Sign it first with `memalchemy sign`, or copy "
                    "without signing keys and sign the target."
                )

    async def _list_tenants(self) -> list[str]:
        """List the tenants to copy that have something."""
        if self._scope == "all":
            return await list_tenants(self.source)
        return [self.source.tenant] if self.report.logs + self.report.items else []

    async def _compare_all(self) -> None:
        """Compare everything with the target before anything is written.

        Raises:
            Conflict: the target holds something else under the same keys.
        """
        names: list[str] = []
        count = 0
        for listing, key, compare in (
            (list_heads_to_copy, LOG_ORDER, self._compare_log),
            (list_keys_of_items, ITEM_KEY, self._compare_item),
        ):
            async with aclosing(self._list_pages(listing, key)) as pages:
                async for page in pages:
                    others = await self._find_others(page, compare)
                    count += len(others)
                    names += others[: NAMED_CONFLICTS - len(names)]
                    self._tell_progress(looked=len(page))
        if names:
            named = ", ".join(names) + (", …" if count > len(names) else "")
            raise Conflict(
                f"the target holds something else under {count:,} of the source's keys: "
                f"{named}. Nothing was written. Delete them on one side, or copy into an empty "
                "database.",
                current=names,
            )

    async def _find_others(self, page: ScanPage, compare: Callable[..., Any]) -> list[str]:
        """Return the names of a page's logs or items in whose place the target has others."""
        others: list[str] = []
        for row in _to_values(page):
            with self._leaving_out(row):
                if await compare(row, page.connection, None) is OnTarget.OTHER:
                    await self._check_source(row, page.connection)
                    others.append(_name_of(row))
        return others

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
        self._plaintext_refused = encrypted[1] - encrypted[0]
        for row in source:
            program = partial(register_key, self.target.dialect, row.tenant, row.key, row.namespace)
            await self.target.run(program, WRITE_ROWS)
            if row.namespace == SIGNING_NAMESPACE and bytes(row.value) == FIRST_SIGNATURES:
                # The rows come with the signatures that they have.
                note = partial(
                    note_signatures, self.target.dialect, row.tenant, row.key, FIRST_SIGNATURES
                )
                await self.target.run(note, WRITE_ROWS)

    async def _copy_all(
        self,
        listing: Any,
        key: Sequence[str],
        copy_one: Callable[[Values, Any, AsyncConnection], Awaitable[None]],
    ) -> None:
        """Copy all logs, or all items, many of them in one transaction of the target."""
        async with aclosing(self._list_pages(listing, key)) as pages:
            async for page in pages:
                rows, before = _to_values(page), self.report
                done = len(rows)
                try:
                    done = await self._copy_together(rows, copy_one, page.connection)
                except ERRORS as error:
                    if not is_damage(error):
                        raise
                    self.report = before  # nothing of the transaction is committed
                    if len(rows) == 1:
                        self._leave_out(rows[0], error)
                    else:
                        await self._copy_one_by_one(rows, copy_one, page.connection)
                del page[done:]  # they come with the next page, in a snapshot of their own

    async def _copy_one_by_one(
        self,
        rows: Sequence[Values],
        copy_one: Callable[[Values, Any, AsyncConnection], Awaitable[None]],
        snapshot: Any,
    ) -> None:
        """Copy logs or items in a transaction each, and leave out what cannot be copied."""
        for row in rows:
            before = self.report
            with self._leaving_out(row):
                await self._copy_together([row], copy_one, snapshot)
                continue
            self.report = before

    async def _copy_together(
        self,
        rows: Sequence[Values],
        copy_one: Callable[[Values, Any, AsyncConnection], Awaitable[None]],
        snapshot: Any,
    ) -> int:
        """Copy logs or items in one transaction of the target; return the number of them.

        Those behind the first `BATCH_BYTES` are not copied.
        """
        end = self.report.bytes + BATCH_BYTES
        async with self.target.transaction() as transaction:
            for done, row in enumerate(rows, 1):
                if _key_of(row) not in self._left:
                    await copy_one(row, snapshot, transaction)
                if self.report.bytes >= end:
                    return done
        return len(rows)

    def _list_pages(self, listing: Any, key: Sequence[str]) -> AsyncGenerator[ScanPage]:
        """List heads, or the keys of items, each page in a snapshot of the source."""
        return scan(
            self.source,
            lambda after: listing(self.source.dialect, scope=self._scope, after=after),
            self._binds,
            key,
            size=PAGE,
            snapshots=True,
            damage=self._damage,
        )

    # --- What is left out --------------------------------------------------------------------

    @contextmanager
    def _leaving_out(self, row: Values) -> Iterator[None]:
        """Leave a log or an item out if it is damaged, or not what was signed."""
        try:
            yield
        except ERRORS as error:
            if not is_damage(error):
                raise
            self._leave_out(row, error)

    def _leave_out(self, row: Values, error: MemalchemyError) -> None:
        self._left.add(_key_of(row))
        self._damage.errors.append(about(error, _name_of(row)))

    async def _check_source(self, row: Values, snapshot: Any) -> None:
        """Check a log or an item of the source.

        Raises:
            Corrupt: it is damaged, or not what was signed.
        """
        if "thread_id" in row:
            await self._check_log(row, snapshot)
        else:
            await self._check_item(*await self._read_item(self.source, row, snapshot))

    async def _check_log(self, head: Values, snapshot: Any) -> None:
        log, report = _to_log(head), ReportBuilder()
        if head["log_id"] != log.key:
            raise Corrupt(f"{CODES['log-id']}: {head['log_id']}")
        keyring = self._keyring_of(log.tenant)
        await verify_log(self.source, log, report, keyring=keyring, connection=snapshot)
        self._raise_findings(report)

    async def _check_item(self, items: Sequence[Values], vectors: Sequence[Values]) -> None:
        """Check an item and its vectors; of the library's own items only the signatures."""
        report, item = ReportBuilder(), items[0]
        tenant, namespace, key = (item[name] for name in ITEM_KEY)
        keyring, location = self._keyring_of(tenant), StoreNamespace(tenant, namespace)
        is_internal = namespace.startswith(INTERNAL_PREFIX)
        if is_internal and item["signature"] is None:
            return
        row = SimpleNamespace(**item)
        if is_internal:
            check_items(tenant, [row], keyring.signing, words=True)
            return
        check = ItemCheck(self.source, tenant, report, TextIndexCheck(self.source), keyring)
        await check.check_item(location, row)
        if keyring.signing.signs:
            signatures = [vector["signature"] for vector in vectors]
            check.check_vector_set(location, key, item["signature"], signatures)
        for vector in vectors:
            signed = {"vector_signature": vector["signature"], "version": item["version"]}
            check.check_vector(location, SimpleNamespace(**vector, **signed))
        self._raise_findings(report)

    def _keyring_of(self, tenant: str) -> Keyring:
        """Return the keys that open and prove what the source has of a tenant."""
        signing = self.target.signing
        if not signing.signs and tenant in self._signed:
            signing = self.source.signing
        if tenant not in self._encrypted:
            return Keyring(signing=signing)
        keys = self.source if self.source.keyring.encrypts else self.target
        return keys.keyring.with_signing(signing)

    def _raise_findings(self, report: ReportBuilder) -> None:
        """Raise what the check of a log or an item has found.

        Raises:
            Corrupt: something was found.
        """
        report.add_shared_faults()
        found = [one.sentence for one in report.findings if one.severity == "error"]
        if not found:
            return
        more = len(found) - NAMED_FINDINGS
        named = "; ".join(found[:NAMED_FINDINGS])
        raise Corrupt(named + (f"; and {more:,} more" if more > 0 else ""))

    async def _note_orphans(self) -> None:
        """Note the rows of the source that no log has: nothing reads them."""
        for tenant in await self._list_tenants():
            for table in LOG_TABLES:
                binds = {"k_tenant": tenant, "p_limit": PAGE}
                listing = list_orphaned_rows(self.source.dialect, table=table)
                for row in await run_query(self.source, listing, binds):
                    if not row.strays:
                        self._damage.errors.append(
                            Corrupt(
                                f"{row.orphans:,} rows of {table} of tenant {tenant!r} without a "
                                f"thread, which nothing reads (log {row.log_id})"
                            )
                        )

    # --- Logs --------------------------------------------------------------------------------

    async def _compare_log(
        self, head: Values, snapshot: Any, transaction: AsyncConnection | None
    ) -> OnTarget:
        """Compare a log with the target; in a transaction the log is locked there first."""
        log = _to_log(head)
        if transaction is not None:
            await run_query(self.target, lock_log(self.target.dialect), log.binds(), transaction)
        there = await self._read_head(log, transaction)
        if there is None:
            return OnTarget.NOTHING
        unchanged = is_unchanged_copy(there)
        if not same_row(head, there, but="epoch"):
            return OnTarget.OLDER if unchanged else OnTarget.OTHER
        # A rotation of keys writes all rows anew, and leaves the head as it is.
        may_be_encoded_anew = unchanged and log.tenant in self._keyed
        if self._recheck or not unchanged:
            same = await self._has_same_rows(log, snapshot, transaction)
        else:
            same = not may_be_encoded_anew or await self._has_same_checksums(
                log, snapshot, transaction
            )
        if same:
            return OnTarget.SAME
        return OnTarget.OLDER if may_be_encoded_anew else OnTarget.OTHER

    async def _has_same_checksums(
        self, log: Log, snapshot: Any, transaction: AsyncConnection | None
    ) -> bool:
        """Return whether a log that was copied is still stored by the same bytes."""
        after = BEFORE_ALL
        while True:
            binds = log.binds() | {"p_after": after, "p_limit": PAGE}
            ours, theirs = [
                await run_query(db, list_checksums(db.dialect), binds, connection)
                for db, connection in ((self.source, snapshot), (self.target, transaction))
            ]
            if [tuple(row) for row in ours] != [tuple(row) for row in theirs]:
                return False
            if len(ours) < PAGE:
                return True
            after = ours[-1].seq

    async def _has_same_rows(
        self, log: Log, snapshot: Any, transaction: AsyncConnection | None
    ) -> bool:
        """Return whether every row of a log is the same on both sides."""
        for table in LOG_TABLES:
            after = BEFORE_ALL
            positions = list_positions(self.target.dialect, table=table)
            async for page in scan_positions(self.source, log, table, snapshot):
                # The sizes are compared first: the rows of the target are not larger than these.
                binds = log.binds() | {"p_after": after, "p_limit": len(page)}
                there = await run_query(self.target, positions, binds, transaction)
                if [tuple(row) for row in page] != [tuple(row) for row in there]:
                    return False
                for batch in _split_page(page):
                    until = batch[-1].seq
                    ours = await self._read_rows(self.source, table, log, after, until, snapshot)
                    theirs = await self._read_rows(
                        self.target, table, log, after, until, transaction
                    )
                    if not same_rows(ours, theirs):
                        return False
                    after = until
            binds = log.binds() | {"p_after": after, "p_limit": 1}
            if await run_query(self.target, positions, binds, transaction):
                return False
        return True

    async def _copy_log(self, head: Values, snapshot: Any, transaction: AsyncConnection) -> None:
        """Copy a log to the target, unless it is there."""
        log = _to_log(head)
        there = await self._compare_log(head, snapshot, transaction)
        if there is OnTarget.OTHER:
            raise _written_meanwhile(head)
        if there is OnTarget.SAME:
            self._tell_progress(unchanged=1)
            return
        with self._leaving_out(head):
            await self._check_log(head, snapshot)
        if _key_of(head) in self._left:
            return
        if there is OnTarget.OLDER:
            # It is replaced by the source's, whatever it says: it may be from before a signing.
            removal = partial(forget_log, self.target.dialect, log, why="order")
            await self.target.run(removal, WRITE_ROWS, connection=transaction)
        marked = dict(head) | {"epoch": epoch_of_copy(head)}
        await self._insert_rows("threads", [marked], head, transaction)
        back = await self._read_head(log, transaction)
        if back is None or not same_row(marked, back) or not is_unchanged_copy(back):
            raise _not_as_written("threads", head)
        for table in LOG_TABLES:
            await self._copy_rows(table, head, snapshot, transaction)
        self._tell_progress(**{"new" if there is OnTarget.NOTHING else "updated": 1})

    async def _copy_rows(
        self, table: str, head: Values, snapshot: Any, transaction: AsyncConnection
    ) -> None:
        """Copy the rows of a log that is new on the target, batch by batch, and read them back."""
        log = _to_log(head)
        after = BEFORE_ALL
        async for page in scan_positions(self.source, log, table, snapshot):
            for batch in _split_page(page):
                until = batch[-1].seq
                ours = await self._read_rows(self.source, table, log, after, until, snapshot)
                await self._insert_rows(table, ours, head, transaction)
                back = await self._read_rows(self.target, table, log, after, until, transaction)
                if not same_rows(ours, back):
                    raise _not_as_written(table, head)
                self._tell_progress(bytes=sum(row.stored for row in batch))
                after = until

    async def _read_head(self, log: Log, transaction: AsyncConnection | None) -> Values | None:
        """Read the head of a log on the target."""
        statement = read_whole_head(self.target.dialect)
        rows = _to_values(await run_query(self.target, statement, log.binds(), transaction))
        return rows[0] if rows else None

    async def _read_rows(
        self, db: Database, table: str, log: Log, after: int, until: int, connection: Any
    ) -> list[Values]:
        """Read the rows of a log behind one position, up to another."""
        binds = log.binds() | {"p_after": after, "p_until": until}
        return _to_values(
            await run_query(db, read_rows_to_copy(db.dialect, table=table), binds, connection)
        )

    # --- Items -------------------------------------------------------------------------------

    async def _compare_item(
        self, key: Values, snapshot: Any, transaction: AsyncConnection | None
    ) -> OnTarget:
        """Compare an item and its vectors with the target."""
        ours = await self._read_item(self.source, key, snapshot)
        theirs = await self._read_item(self.target, key, transaction)
        return _compare_items(ours, theirs, key["tenant"] in self._keyed)

    async def _copy_item(self, key: Values, snapshot: Any, transaction: AsyncConnection) -> None:
        """Copy an item and its vectors to the target, unless they are there."""
        items, vectors = ours = await self._read_item(self.source, key, snapshot)
        theirs = await self._read_item(self.target, key, transaction)
        there = _compare_items(ours, theirs, key["tenant"] in self._keyed)
        if there is OnTarget.OTHER:
            raise _written_meanwhile(key)
        if there is OnTarget.SAME:
            self._tell_progress(unchanged=1)
            return
        with self._leaving_out(key):
            await self._check_item(items, vectors)
        if _key_of(key) in self._left:
            return
        d, binds = self.target.dialect, _item_binds(key)
        if there is OnTarget.OLDER:
            seen = binds | {"p_version": theirs[0][0]["version"]}
            if await self._execute_write(forget_item(d, why="order"), seen, transaction) != 1:
                raise _written_meanwhile(key)
        if there is OnTarget.OTHER_VECTORS:
            await self._execute_write(delete_vectors(d), binds, transaction)
        else:
            await self._insert_rows("store_items", items, key, transaction)
        if vectors:
            await self._insert_vectors(key, vectors, transaction)
        if not _same_item(ours, await self._read_item(self.target, key, transaction)):
            raise _not_as_written("store_items", key)
        written = len(items[0]["value"]) + sum(len(row["vector"]) for row in vectors)
        self._tell_progress(**{"new" if there is OnTarget.NOTHING else "updated": 1}, bytes=written)

    async def _read_item(self, db: Database, key: Values, connection: Any) -> Item:
        binds = _item_binds(key)
        items = _to_values(await run_query(db, read_whole_item(db.dialect), binds, connection))
        if not items:
            return [], []
        statement = read_embeddings(db.dialect, native=self._native_vectors[db])
        vectors = _to_values(await run_query(db, statement, binds, connection))
        return items, [dict(row) | {"vector": comparable_vector(row["vector"])} for row in vectors]

    async def _insert_vectors(
        self, key: Values, vectors: Sequence[Values], transaction: AsyncConnection
    ) -> None:
        d, native = self.target.dialect, self._native_vectors[self.target]
        change = 0
        if d.vectors.counts_changes:
            # Caches of the target's vectors read new ones when the counter has moved.
            counting = partial(
                count_change,
                d,
                key["tenant"],
                key["namespace"],
                datetime.now(UTC),
                removes=False,
            )
            change = await self.target.run(counting, WRITE_ROWS, connection=transaction)
        rows = [
            dict(row) | {"vector": d.vectors.bind_value(row["vector"], native), "change": change}
            for row in vectors
        ]
        await self._execute_insert(insert_embedding(d, native=native), rows, key, transaction)

    # --- Writing -----------------------------------------------------------------------------

    async def _insert_rows(
        self, table: str, rows: Sequence[Values], of: Values, transaction: AsyncConnection
    ) -> None:
        """Insert rows into a table of the target; *of* names their log or item.

        Raises:
            NotEncrypted: a row is not encrypted, and its tenant is on the target.
        """
        for row in rows if self._plaintext_refused else ():
            is_refused = "codec" in row and row["tenant"] in self._plaintext_refused
            if is_refused and not is_encrypted(row["codec"]):
                raise NotEncrypted(
                    f"tenant {row['tenant']!r} is encrypted on the target, and {_name_of(of)} of "
                    "the source is not; it was not copied. Copy into an empty database, and "
                    "encrypt that with `memalchemy rotate-keys`."
                )
        statement = insert_copied_row(self.target.dialect, table=table)
        await self._execute_insert(statement, rows, of, transaction)

    async def _execute_insert(
        self,
        statement: Executable,
        rows: Sequence[Values],
        of: Values,
        transaction: AsyncConnection,
    ) -> None:
        if not rows:
            return
        binds = [{f"p_{name}": value for name, value in row.items()} for row in rows]
        try:
            await self._execute_write(statement, binds, transaction)
        except UniqueViolation as error:
            raise _written_meanwhile(of) from error
        self._tell_progress(rows=len(rows))

    async def _execute_write(
        self, statement: Executable, binds: Parameters, transaction: AsyncConnection
    ) -> int:
        """Execute a statement on the target; return the number of rows it changed."""
        program = partial(program_of, statement, binds=binds)
        answer = await self.target.run(program, WRITE_COPIED, connection=transaction)
        return answer.touched

    def _tell_progress(self, **more: int) -> None:
        """Add to the report and call *progress*."""
        counts: dict[str, Any] = {k: getattr(self.report, k) + v for k, v in more.items()}
        seconds = round(time.perf_counter() - self._started, 3)
        self.report = replace(self.report, **counts, seconds=seconds)
        if self._progress is not None:
            self._progress(self.report)


def _compare_items(ours: Item, theirs: Item, keyed: bool) -> OnTarget:
    """Compare an item that the source has with what the target has.

    If it is *keyed*, its columns may have been encrypted or signed anew since an earlier copy.
    """
    if not theirs[0]:
        return OnTarget.NOTHING
    item, there = ours[0][0], theirs[0][0]
    if same_row(item, there):
        return OnTarget.SAME if _same_item(ours, theirs) else OnTarget.OTHER_VECTORS
    ends, ended = item["expires_at"], there["expires_at"]
    if ends and ended and same_row(item, there, but="expires_at"):
        # A read has prolonged its life on one side: the later end holds.
        return OnTarget.OLDER if ends > ended else OnTarget.SAME
    same_life = item["created_at"] == there["created_at"]
    if (
        same_life
        and keyed
        and (item["version"], item["updated_at"])
        == (
            there["version"],
            there["updated_at"],
        )
    ):
        # Whoever writes an item changes both of these.
        return OnTarget.OLDER
    later = item["version"] > there["version"] and item["updated_at"] >= there["updated_at"]
    # It was deleted, or had expired, and was put again after the last write of what is there.
    reborn = not same_life and item["created_at"] >= there["updated_at"]
    return OnTarget.OLDER if reborn or (same_life and later) else OnTarget.OTHER


def _same_item(ours: Item, theirs: Item) -> bool:
    """Return whether two items and their vectors are the same, but for the counts of changes."""
    return same_rows(ours[0], theirs[0]) and same_rows(ours[1], theirs[1], but="change")


def _split_page(page: ScanPage) -> Any:
    return batches(page, lambda row: row.stored, most_rows=BATCH_ROWS, most=BATCH_BYTES)


def _to_values(rows: Sequence[Any]) -> list[Values]:
    return [dict(row._mapping) for row in rows]


def _to_log(head: Values) -> Log:
    return Log(*(head[name] for name in Log._fields))


def _item_binds(key: Values) -> dict[str, Any]:
    return {f"k_{name}": key[name] for name in ITEM_KEY}


def _key_of(row: Values) -> tuple[Any, ...]:
    """Return the key of a log or an item, which no other has: damaged logs may share names."""
    return tuple(row[name] for name in (("log_id",) if "thread_id" in row else ITEM_KEY))


def _name_of(row: Values) -> str:
    """Name a log or an item for people."""
    if "thread_id" in row:
        return f"thread {row['thread_id']!r} in {row['namespace']}"
    return f"item {row['key']!r} in {row['namespace']}"


def _written_meanwhile(row: Values) -> Conflict:
    """Return the error for what somebody wrote between the comparison and the copy of a row."""
    name = _name_of(row)
    return Conflict(
        f"somebody wrote {name} on the target while it was copied; it was left as it is. "
        "What was copied before it stays.",
        current=name,
    )


def _not_as_written(table: str, row: Values) -> Corrupt:
    return Corrupt(
        f"the target does not give back what was written to {table}, of {_name_of(row)}; it was "
        "not committed"
    )


# --- Statements ----------------------------------------------------------------------------------

OWN_TENANT = "'~'"
"""The tenant of what memalchemy keeps about the database itself, which is not copied."""

_LISTED: Mapping[str, tuple[Table, tuple[str, ...]]] = {
    "threads": (THREADS, LOG_ORDER),
    "store_items": (ITEMS, ITEM_KEY),
}
_INSERTED: dict[str, Table] = {**LOG_ROWS, "threads": THREADS, "store_items": ITEMS}


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
def list_keys_of_items(dialect: Dialect, scope: str, after: bool) -> Executable:
    """Select a page of the keys of items, in their order."""
    return _page(dialect, "store_items", [ITEMS.c[name] for name in ITEM_KEY], scope, after)


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


@statement(proves="verify", unproven=ON_TARGET)
def list_checksums(dialect: Dialect) -> Executable:
    """Select the checksums of a page of a log's rows, which tell what is stored of them."""
    rows = LOG_ROWS["deltas"]
    seq = rows.c.seq
    return (
        select(seq, rows.c.checksum)
        .where(of_log(rows), seq > bindparam("p_after", type_=seq.type))
        .order_by(seq)
        .limit(bindparam("p_limit"))
    )


@statement(unproven=ON_TARGET)
def read_whole_head(dialect: Dialect) -> Executable:
    """Select the whole head of a log."""
    return select(*THREADS.c).where(of_log(THREADS))


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


@statement(proves="verify", unproven=ON_TARGET)
def read_whole_item(dialect: Dialect) -> Executable:
    """Select one item, whole."""
    return select(*ITEMS.c).where(of_item(ITEMS))


@statement(proves="verify", unproven=ON_TARGET, native=(True, False))
def read_embeddings(dialect: Dialect, native: bool) -> Executable | None:
    """Select the vectors of one item."""
    if not native and not dialect.vectors.may_be_bytes:
        return None
    columns = [column for column in EMBEDDINGS.c if column.name != "vector"]
    vector = dialect.vectors.readable(EMBEDDINGS.c.vector, native).label("vector")
    key = (EMBEDDINGS.c[name] for name in ("field", "model", "part"))
    return select(*columns, vector).where(of_item(EMBEDDINGS)).order_by(*key)


@statement(table=tuple(_INSERTED), writes=AS_STORED)
def insert_copied_row(dialect: Dialect, table: str) -> Executable:
    """Insert a row as it is in another database."""
    return insert(_INSERTED[table]).values(
        {c.name: column_bind(c, "p") for c in _INSERTED[table].c}
    )


@statement(native=(True, False), writes=AS_STORED)
def insert_embedding(dialect: Dialect, native: bool) -> Executable | None:
    """Insert a vector of an item."""
    if not native and not dialect.vectors.may_be_bytes:
        return None
    values: dict[str, Any] = {c.name: column_bind(c, "p") for c in EMBEDDINGS.c}
    return insert(EMBEDDINGS).values(values | {"vector": dialect.vectors.bind("p_vector", native)})
