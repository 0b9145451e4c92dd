"""Sign what is stored already: databases that were not signed, and rows under an older key.

Each log is signed in one transaction, and so is each page of items: an agent that works on it
waits for a moment, and an interrupted run is simply run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Executable, and_, bindparam, select

from memalchemy.codec.signed_rows import (
    head_content,
    item_content_of,
    parts_of_log_row,
    vector_content_of,
)
from memalchemy.column_types import stored_vector_bytes
from memalchemy.database import READ, WRITE_COPIED, WRITE_ROWS, Database
from memalchemy.database.known_keys import KNOWN_SECONDS
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, KeyMissing, NotSigned
from memalchemy.keys import encode_id
from memalchemy.log.reencoding import note_reencoding
from memalchemy.log.scan import run_query, scan
from memalchemy.log.tables import THREADS
from memalchemy.maintenance.local_items import is_not_local
from memalchemy.maintenance.stored_tenants import list_tenants
from memalchemy.proofs import FOUND
from memalchemy.protection.key_registry import (
    ALL_RENEWED,
    FIRST_SIGNATURES,
    SIGNING_NAMESPACE,
    note_signatures,
    read_registered_keys,
    unregister_keys,
)
from memalchemy.protection.proven_jobs import ERRORS, Damage, each_proven
from memalchemy.protection.signed_items import read_signed_vectors, sign_item, sign_vector
from memalchemy.protection.signed_logs import (
    read_signatures,
    read_signed_head,
    read_signed_rows,
    rows_do_not_add_up,
    sign_head,
    sign_row,
    sum_up,
)
from memalchemy.rows import ITEM
from memalchemy.search.scope import ITEMS, is_listed
from memalchemy.statements import Program, after_key, column_bind, statement
from memalchemy.store.write import lock_listed

NOTICED_AFTER = KNOWN_SECONDS + 1
"""Seconds after which every process has noticed that a key was registered."""
PAGE = 100
PASSES = 3
"""Passes over everything, at most, until one finds nothing under an older key."""
MAX_REFUSED = 1_000
"""The number of refused rows that a report lists; further ones are counted."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """Row that was refused: its log, or the item, was not signed.

    Attributes:
        place: the row, or the log that it is of, for people.
        reason: why it was not signed.
        unsigned: it has no signature, which `adopt_unsigned` would take for genuine.
        tenant: its tenant.
    """

    place: str
    reason: str
    unsigned: bool
    tenant: str


@dataclass(slots=True)
class SigningReport:
    """The result of `sign`.

    Attributes:
        logs: the logs that were looked at.
        items: the items that were looked at.
        signed: the rows that were signed, or would be.
        refused: the rows that were refused, a thousand at most.
        refused_count: the number of all of them.
        unregistered: the ids of older keys with which no row is signed any more: a process that has
            no other key may not write.
    """

    logs: int = 0
    items: int = 0
    signed: int = 0
    refused: list[RefusedRow] = field(default_factory=list)
    refused_count: int = 0
    unregistered: list[str] = field(default_factory=list)

    def refuse(self, tenant: str, place: str, error: BaseException) -> None:
        """Note that something was not signed."""
        self.refused_count += 1
        if len(self.refused) < MAX_REFUSED:
            unsigned = isinstance(error, NotSigned)
            self.refused.append(RefusedRow(place, str(error), unsigned, tenant))

    def add(self, other: SigningReport) -> None:
        """Add the counts of another run to this report; the keys stay."""
        self.logs += other.logs
        self.items += other.items
        self.signed += other.signed
        self.refused += other.refused[: MAX_REFUSED - len(self.refused)]
        self.refused_count += other.refused_count


class _Refused(Exception):
    """A row of a log is not what was signed: nothing of the log is signed."""


async def sign(
    db: Database,
    *,
    thread_id: str | None = None,
    all_tenants: bool = False,
    adopt_unsigned: bool = False,
    resign: bool = False,
    dry_run: bool = False,
    progress: Callable[[int], None] | None = None,
) -> SigningReport:
    """Sign what the tenant of *db* has stored with the first of its signing keys.

    The signature that a row has is verified first, and its content stays. In a tenant that was
    never signed all rows are signed, after some seconds in which running processes without the key
    notice that they may not write any more. In a signed tenant, rows without a signature may be
    forged: they are listed and left, with the whole log that they belong to. If all rows are signed
    with the first key at the end, the older keys are unregistered. Signatures of version 1, which
    leave fractions of seconds out, are renewed.

    Args:
        thread_id: only this thread, and no items.
        all_tenants: sign the rows of every tenant, not only of that of *db*.
        adopt_unsigned: sign rows without a signature in a signed tenant, too.
        resign: sign the thread as it is now, even if it does not match its signatures. For a thread
            that somebody has looked at and decided to keep.
        dry_run: change nothing.
        progress: called with the number of logs and items so far.

    Raises:
        ValueError: *db* has no signing keys; *resign* was asked for without a *thread_id*; or
            *thread_id* with *all_tenants*.
        CapabilityMissing: *all_tenants*, and row-level security shows the role one of them.
    """
    if not db.signing.signs:
        raise ValueError("there is no key to sign with: give Database signing_keys=[…]")
    if resign and thread_id is None:
        raise ValueError("resign= is for one thread at a time: name it with thread_id=")
    if all_tenants and thread_id is not None:
        raise ValueError("thread_id is of one tenant; it does not go with all_tenants")
    databases = [db]
    if all_tenants:
        await db.check_sees_all_tenants("signing all tenants")
        databases = [db.for_tenant(tenant) for tenant in await list_tenants(db)]
    never_signed = await _register_first_key(databases, dry_run=dry_run)
    report = SigningReport()
    unregistered: set[str] = set()
    still_used: set[str] = set()
    for one in databases:
        adopts, done = adopt_unsigned or one.tenant in never_signed, report.logs + report.items
        run = _Run(one, adopts, resign, dry_run, _counting_on(progress, done))
        await run.sign_logs(thread_id)
        if thread_id is None:
            await run.sign_items()
            older = await _older_keys(one)
            if not (dry_run or run.report.refused_count) and await _finish_signing(
                one, older, report
            ):
                unregistered.update(older)
            else:
                still_used.update(older)
        report.add(run.report)
    report.unregistered += sorted(unregistered - still_used)
    return report


async def _register_first_key(databases: Sequence[Database], *, dry_run: bool) -> set[str]:
    """Register the key that signs, and wait until others have noticed.

    Returns:
        The tenants that were never signed.
    """
    never_signed = {db.tenant for db in databases if not await _registered_keys(db)}
    if not dry_run:
        for db in databases:
            await db.check_payloads()  # which registers the key
        if never_signed:
            await asyncio.sleep(NOTICED_AFTER)
    return never_signed


async def outdated_tenants(db: Database) -> list[str]:
    """Return the tenants of *db* that may have signatures of version 1, in order.

    Those leave fractions of seconds out, from .536871 on; `sign` renews them. It needs no keys, and
    only reads.
    """
    registered = await run_query(db, read_registered_keys(db.dialect, scope="all"), {})
    return sorted({row.tenant for row in registered if _is_outdated(row)})


def _is_outdated(row: Any) -> bool:
    return row.namespace == SIGNING_NAMESPACE and bytes(row.value) == FIRST_SIGNATURES


async def _registrations(db: Database) -> list[Any]:
    """Return the registrations of the signing keys of a tenant."""
    statement = read_registered_keys(db.dialect, scope="tenant")
    registered = await run_query(db, statement, {"k_tenant": db.tenant})
    return [row for row in registered if row.namespace == SIGNING_NAMESPACE]


async def _registered_keys(db: Database) -> set[str]:
    """Return the ids of the signing keys that are registered for a tenant."""
    return {row.key for row in await _registrations(db)}


async def _older_keys(db: Database) -> list[str]:
    """Return the ids of the registered keys of a tenant but the one that signs, in order."""
    return sorted(key for key in await _registered_keys(db) if key != db.signing.first_id)


async def _finish_signing(db: Database, older: Sequence[str], report: SigningReport) -> bool:
    """Unregister *older* keys, and note that no signature of version 1 is left.

    Do so once a look at everything has found no such row: a process that has an older key first, or
    is of an older release, may have written during a pass over everything.

    Returns:
        Whether the older keys are unregistered.
    """
    outdated = [row.key for row in await _registrations(db) if _is_outdated(row)]
    for _ in range(PASSES if older or outdated else 0):
        again = _Run(db, False, False, False, lambda _: None)
        await again.sign_logs(None)
        await again.sign_items()
        report.signed += again.report.signed
        if again.report.refused_count:
            return False
        if not again.report.signed:
            keys = [(db.tenant, key) for key in older]
            unregistering = partial(unregister_keys, db.dialect, keys, SIGNING_NAMESPACE)
            await db.run(unregistering, WRITE_ROWS)
            for key in {*outdated} - {*older}:
                noting = partial(note_signatures, db.dialect, db.tenant, key, ALL_RENEWED)
                await db.run(noting, WRITE_ROWS)
            db.forget_known_keys()
            return True
    return False


def _counting_on(progress: Callable[[int], None] | None, done: int) -> Callable[[int], None]:
    """Return a callback that adds *done* to the logs and items of which it tells *progress*."""
    return lambda number: None if progress is None else progress(done + number)


class _Run:
    def __init__(
        self,
        db: Database,
        adopts: bool,
        resigns: bool,
        dry_run: bool,
        tell: Callable[[int], None],
    ) -> None:
        self._db = db
        self._keys = db.signing
        self._adopts, self._resigns, self._dry_run, self._tell = adopts, resigns, dry_run, tell
        self.report = SigningReport()

    # --- Logs ------------------------------------------------------------------------------------

    async def sign_logs(self, thread_id: str | None) -> None:
        """Sign all logs of the tenant, or those of one thread."""
        scope = "tenant" if thread_id is None else "thread"
        binds = {"k_tenant": self._db.tenant, "k_thread_id": thread_id}
        pages = scan(
            self._db,
            lambda after: list_log_keys(self._db.dialect, scope=scope, after=after),
            binds,
            lambda last: {"p_thread_id": last.thread_id, "p_namespace": last.namespace},
            size=PAGE,
            damage=(damage := Damage()),
        )
        async for page in pages:
            for row in page:
                await self._sign_log(row)
                self._tell(self.report.logs + self.report.items)
        self._refuse_damaged("a thread", damage)

    async def _sign_log(self, row: Any) -> None:
        self.report.logs += 1
        program = partial(self._log_program, row.log_id)
        name, damage = f"thread {row.thread_id!r} in {row.namespace}", Damage()
        try:
            with damage.noted():
                self.report.signed += await self._run_program(program)
        except _Refused as refused:
            name = f"{name}: {refused}"
            self.report.refuse(self._db.tenant, name, refused.__cause__ or refused)
        self._refuse_damaged(name, damage)

    def _refuse_damaged(self, name: str, damage: Damage) -> None:
        """Report rows that cannot be read, or that the database does not take."""
        for error in damage.errors:
            self.report.refuse(self._db.tenant, name, error)

    async def _run_program(self, program: Callable[[], Program[int]]) -> int:
        if self._dry_run:
            return await self._db.run(program, READ)
        return await self._db.run(program, WRITE_COPIED)

    def _log_program(self, log_id: UUID) -> Program[int]:
        """Sign a log whole, or nothing of it; return the number of rows that were signed."""
        d, keys = self._db.dialect, self._keys
        heads = yield read_signed_head(d, locks=not self._dry_run), {"k_log_id": log_id}
        if not heads:
            return 0
        head = heads[0]
        with self._refusing_unsigned_content("its head"):
            sums = keys.check_head(head.signature, head_content(head))
            found = yield from read_signatures(d, log_id)
            if sums is not None and not self._resigns and sum_up(keys, found) != sums:
                raise rows_do_not_add_up()
        signed = yield from self._sign_rows(log_id)
        if not signed and keys.is_up_to_date(head.signature):
            return 0
        if self._dry_run:
            return signed + 1
        yield from note_reencoding(d, [log_id])
        now = yield from read_signatures(d, log_id)
        signature = keys.sign_head(head_content(head), sum_up(keys, now))
        yield sign_head(d), {"k_log_id": log_id, "p_signature": signature}
        return signed + 1

    def _sign_rows(self, log_id: UUID) -> Program[int]:
        d, keys, count = self._db.dialect, self._keys, 0
        for table in ("checkpoints", "deltas"):
            after = -1
            while True:
                page = {"k_log_id": log_id, "p_after": after, "p_limit": PAGE}
                rows = yield read_signed_rows(d, table=table), page
                signing = []
                for row in rows:
                    content, words = parts_of_log_row(table, row, log_id)
                    with self._refusing_unsigned_content(f"position {row.seq}"):
                        keys.check_whole(row.signature, content, words)
                    if not keys.is_up_to_date(row.signature) or self._resigns:
                        place = {"k_log_id": log_id, "p_seq": row.seq}
                        signing.append(place | {"p_signature": keys.sign(content, words)})
                if signing and not self._dry_run:
                    yield sign_row(d, table=table), signing
                count += len(signing)
                if len(rows) < PAGE:
                    break
                after = rows[-1].seq
        return count

    @contextmanager
    def _refusing_unsigned_content(self, what: str) -> Iterator[None]:
        """Raise `_Refused` if a row is not what was signed, unless it is to be signed as it is."""
        try:
            yield
        except NotSigned as error:
            if not (self._adopts or self._resigns):
                raise _Refused(what) from error
        except (Corrupt, KeyMissing) as error:
            if not self._resigns:
                raise _Refused(what) from error

    # --- Items -----------------------------------------------------------------------------------

    async def sign_items(self) -> None:
        """Sign the items of the tenant, and their vectors."""
        pages = scan(
            self._db,
            lambda after: list_items_to_sign(self._db.dialect, after=after),
            {"k_tenant": self._db.tenant},
            lambda last: {"p_namespace": last.namespace, "p_key": last.key},
            size=PAGE,
            damage=(damage := Damage()),
        )
        async for page in pages:
            self.report.items += len(page)
            keys = [(row.namespace, row.key) for row in page]
            async for signed in each_proven(keys, self._sign_some_items, damage):
                self.report.signed += signed
            self._tell(self.report.logs + self.report.items)
        self._refuse_damaged("an item", damage)

    async def _sign_some_items(self, keys: Sequence[tuple[str, str]]) -> int:
        refused, count = list(self.report.refused), self.report.refused_count
        try:
            return await self._run_program(partial(self._page_program, keys))
        except ERRORS:  # they are signed one by one then, and refused again
            self.report.refused[:], self.report.refused_count = refused, count
            raise

    def _page_program(self, names: Sequence[tuple[str, str]]) -> Program[int]:
        """Sign some items with their vectors; return the number of rows that were signed."""
        d, tenant, signed = self._db.dialect, self._db.tenant, 0
        listed = [(namespace, encode_id(key)) for namespace, key in names]
        for keys in d.statements.list_batches("p_keys", listed):
            binds = {"k_tenant": tenant} | keys
            if not self._dry_run:
                # As of a time before all: those that have expired are signed, too.
                before = {"k_tenant": tenant, "p_now": datetime.fromtimestamp(0, UTC)}
                yield from lock_listed(d, names, before)
            items = yield read_items_to_sign(d), binds
            versions = {(row.namespace, row.key): row.version for row in items}
            vectors = yield read_signed_vectors(d), binds
            new_vectors = [
                one
                for row in vectors
                if (one := self._signed_vector(row, versions.get((row.namespace, row.key))))
            ]
            sets = _vectors_by_item(vectors, new_vectors)
            new_items = [one for row in items if (one := self._signed_item(row, sets))]
            signed += len(new_items) + len(new_vectors)
            if new_items and not self._dry_run:
                yield sign_item(d), new_items
            if new_vectors and not self._dry_run:
                yield sign_vector(d), new_vectors
        return signed

    def _signed_item(
        self, row: Any, sets: Mapping[tuple[str, str], _VectorSet]
    ) -> Mapping[str, Any] | None:
        """Return the binds of a new signature of an item, whose vectors may have new ones."""
        vectors = sets.get((row.namespace, row.key), _VectorSet([], []))
        content = item_content_of(row, self._db.tenant)
        words = [getattr(row, name) for name in ITEM.words]
        place = {"k_tenant": self._db.tenant, "k_namespace": row.namespace, "k_key": row.key}
        if not self._is_proven(row, content, words, f"the item {row.key!r}", vectors.before):
            return None
        signature, is_old = row.signature, not self._keys.is_up_to_date(row.signature)
        if is_old:
            signature = self._keys.sign(content, words)
        if is_old or self._keys.proves_vectors(signature):
            signature = self._keys.with_vectors(signature, words, vectors.after)
        return None if signature == row.signature else place | {"p_signature": signature}

    def _signed_vector(self, row: Any, version: int | None) -> Mapping[str, Any] | None:
        if version is None:
            return None
        vector = stored_vector_bytes(row.vector)
        content = vector_content_of(row, self._db.tenant, vector, version=version)
        place = {"k_tenant": self._db.tenant, "k_namespace": row.namespace, "k_key": row.key}
        part = {f"p_{name}": getattr(row, name) for name in ("field", "model", "part")}
        what = f"a vector of the item {row.key!r}"
        if not self._is_proven(row, content, None, what):
            return None
        if self._keys.is_up_to_date(row.signature):
            return None
        return place | part | {"p_signature": self._keys.sign(content)}

    def _is_proven(
        self,
        row: Any,
        content: Sequence[Any],
        words: Sequence[Any] | None,
        what: str,
        vectors: Sequence[bytes | None] = (),
    ) -> bool:
        """Return whether a row is what was signed; report one that is refused."""
        try:
            with self._refusing_unsigned_content(what):
                self._keys.check_whole(row.signature, content, words)
                if words is not None:
                    self._keys.check_vectors(row.signature, vectors)
        except _Refused as refused:
            name = f"{what} in {row.namespace}"
            self.report.refuse(self._db.tenant, name, refused.__cause__ or refused)
            return False
        return True


class _VectorSet(NamedTuple):
    """Signatures of the vectors of an item, before and after they are signed anew."""

    before: list[bytes | None]
    after: list[bytes | None]


def _vectors_by_item(
    rows: Iterable[Any], signing: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, str], _VectorSet]:
    """Return the vectors of items, by namespace and key; *signing* has new signatures of some."""
    names = ("k_namespace", "k_key", "p_field", "p_model", "p_part")
    newer = {tuple(one[name] for name in names): one["p_signature"] for one in signing}
    found: dict[tuple[str, str], _VectorSet] = {}
    for row in rows:
        vectors = found.setdefault((row.namespace, row.key), _VectorSet([], []))
        which = row.namespace, row.key, row.field, row.model, row.part
        vectors.before.append(row.signature)
        vectors.after.append(newer.get(which, row.signature))
    return found


# --- Statements ----------------------------------------------------------------------------------


@statement(unproven=FOUND, scope=("tenant", "thread"), after=(True, False))
def list_log_keys(dialect: Dialect, scope: str, after: bool) -> Executable:
    """Select a page of the keys and names of logs, in the order of their names."""
    names = ("tenant", "thread_id")[: 1 if scope == "tenant" else 2]
    where = [THREADS.c[name] == column_bind(THREADS.c[name], "k") for name in names]
    key = ("thread_id", "namespace")
    if after:
        where.append(after_key(dialect, THREADS, key))
    return (
        select(THREADS.c.log_id, THREADS.c.thread_id, THREADS.c.namespace)
        .where(*where)
        .order_by(*(THREADS.c[name] for name in key))
        .limit(bindparam("p_limit"))
    )


@statement(unproven=FOUND, after=(True, False))
def list_items_to_sign(dialect: Dialect, after: bool) -> Executable:
    """Select a page of the keys of items, in their order, without those that are never signed."""
    names = ("namespace", "key")
    query = select(*(ITEMS.c[name] for name in names)).where(_is_of_tenant(), is_not_local())
    if after:
        query = query.where(after_key(dialect, ITEMS, names))
    return query.order_by(*(ITEMS.c[name] for name in names)).limit(bindparam("p_limit"))


@statement(proves="row")
def read_items_to_sign(dialect: Dialect) -> Executable:
    """Select what is signed of the items that ``p_keys`` lists, and their signatures."""
    columns = [
        ITEMS.c[name] for name in ("namespace", "key", *ITEM.signed, *ITEM.words, "signature")
    ]
    where = and_(_is_of_tenant(), is_listed(dialect, ITEMS))
    return select(*columns).where(where)


def _is_of_tenant() -> ColumnElement[bool]:
    return ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
