"""Reading of a tenant for an anchor: the records of its logs and items, checked against the last.

Heads and items are read page by page, and the signature of each is verified first.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Executable, bindparam, select

from memalchemy.codec.anchors import (
    TOLERANCE,
    AnchorCheck,
    Identity,
    Life,
    Record,
    Section,
    is_born_after,
    is_superseded,
    item_identity,
    life_of_item,
    life_of_log,
    log_identity,
    microseconds,
    moment_of,
    pack_record,
    refused_by_anchor,
    tenant_identity,
)
from memalchemy.codec.signed_rows import head_content, item_content_of
from memalchemy.database import READ, Database
from memalchemy.database.intent import Intent
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, KeyMissing
from memalchemy.keys import encode_namespace
from memalchemy.log.scan import batches, run_query, scan
from memalchemy.log.tables import THREADS
from memalchemy.maintenance.command_names import anchor_command
from memalchemy.maintenance.sign import read_items_to_sign
from memalchemy.proofs import FOUND
from memalchemy.protection.removals import (
    Anchoring,
    Removal,
    delete_old_removals,
    delete_removals,
    genuine_removal,
    is_excused,
    list_removals,
    read_anchoring,
    write_anchoring,
)
from memalchemy.rows import HEAD
from memalchemy.search.scope import ITEMS, in_scope, key_lists, scope_binds
from memalchemy.statements import Program, after_key, column_bind, program_of, statement

KEPT = timedelta(days=30)
"""The least time for which notes of removals are kept, for anchors that are older."""

ITEMS_AT_ONCE = 100
REGISTRY = Intent("transaction", brings_signatures=True, repeatable=True)
"""Intent of programs on the registry of anchors, which sign its rows themselves."""

_UNSIGNED = "it has no signature"
"""The fault of an unsigned row where that is allowed: it can be in no anchor."""

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class AnchorFinding:
    """Contradiction between a database and an anchor.

    Attributes:
        sentence: what is wrong.
        thread_id: the thread; with *namespace* as it is stored.
        key: the key of an item, in *namespace*. An anchor does not reveal names: if the database
            lacks the log or item, all three are ``None``.
    """

    sentence: str
    tenant: str | None = None
    namespace: str | None = None
    thread_id: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        if self.thread_id is not None:
            return f"thread {self.thread_id!r}: {self.sentence}"
        if self.key is not None:
            return f"the item {self.key!r} in {self.namespace}: {self.sentence}"
        return self.sentence


def first_key_id(db: Database) -> str:
    """Return the id of the key that signs."""
    key_id = db.signing.first_id
    assert key_id is not None
    return key_id


def find_missing_tenants(check: AnchorCheck, tenants: Sequence[str]) -> list[AnchorFinding]:
    """Return a finding for each tenant of an anchor of which the database has nothing."""
    there = {check.code(tenant_identity(tenant)) for tenant in tenants}
    return [
        AnchorFinding(f"a tenant of which the anchor has {len(one):,} logs and items is not there")
        for one in check.anchor.sections
        if one.tenant not in there and _has_live(one)
    ]


def _has_live(section: Section) -> bool:
    return any(not section.record(index).is_gone for index in range(len(section)))


class RowCounter:
    """Count of rows, which is reported to a caller."""

    def __init__(self, tell: Progress | None) -> None:
        self._tell = tell
        self._rows = 0

    def add(self, rows: int) -> None:
        """Count some rows."""
        self._rows += rows
        if self._tell is not None:
            self._tell(self._rows)


class TenantReading:
    """Reading of one tenant, for a new anchor or for a check against one."""

    def __init__(
        self,
        db: Database,
        before: AnchorCheck | None,
        found: Callable[[AnchorFinding], None],
        done: RowCounter,
    ) -> None:
        self._db = db
        self._keys = db.signing
        self._key_id = first_key_id(db)
        self._before = before
        self._section = None if before is None else before.section(db.tenant)
        self._same_key = before is not None and before.anchor.key_id == self._key_id
        self._found = found
        self._done = done
        self._records: list[bytes] = []
        """The new records, packed."""
        self._seen = bytearray(0 if self._section is None else len(self._section))
        """1 for each record of the section before whose log or item is there."""
        self._removals: dict[bytes, Removal] = {}
        self._back: list[bytes] = []
        """Hashes of what was removed and is there again."""

    async def take(self, *, full: bool, accept_rollback: bool) -> Section:
        """Return the section of a new anchor."""
        if accept_rollback:
            self._section, self._seen = None, bytearray()
        anchoring = await self._announce_anchor()
        code = self._keys.identity_code(self._key_id, tenant_identity(self._db.tenant))
        since = None
        if self._section is not None and self._same_key and not full:
            since = self._section.taken_at - TOLERANCE
        await self._read_removals()
        await self._read_logs(anchoring.latest, since, None)
        await self._read_items(anchoring.latest, since)
        await self._read_removals()  # others go on removing
        if since is None:
            self._find_missing()
        if accept_rollback:
            await self._delete_notes([*self._back, code])
        elif self._section is not None:
            await self._delete_notes_before(min(self._section.taken_at, anchoring.latest - KEPT))
        base = Section(code, anchoring.database_id, anchoring.latest, b"")
        if since is not None:
            assert self._section is not None
            self._take_removals_in()
            base = Section(code, anchoring.database_id, anchoring.latest, self._section.records)
        records = base.merged_records(self._records)
        return Section(code, anchoring.database_id, anchoring.latest, records)

    async def hold(self, thread_id: str | None) -> None:
        """Check the tenant, or one of its threads, against the anchor."""
        if self._section is None:
            return
        anchoring = await self._db.run(self._anchoring_program, READ)
        self._check_database(anchoring)
        if (older := self._reason_of_backup(anchoring)) is not None:
            self._found(AnchorFinding(older, self._db.tenant))
        await self._read_removals()
        await self._read_logs(None, None, thread_id)
        if thread_id is None:
            await self._read_items(None, None)
            await self._read_removals()  # others go on removing
            self._find_missing()

    # --- The registry ----------------------------------------------------------------------------

    def _anchoring_program(self) -> Program[Anchoring | None]:
        return read_anchoring(self._db.dialect, self._db.tenant)

    async def _announce_anchor(self) -> Anchoring:
        """Note in the registry that an anchor is taken now, before anything is read."""
        await self._db.check_payloads()  # which registers the key
        now, d, tenant = await self._db.now(), self._db.dialect, self._db.tenant

        def program() -> Program[Anchoring]:
            there = yield from read_anchoring(d, tenant)
            self._check_database(there)
            if (older := self._reason_of_backup(there)) is not None:
                raise refused_by_anchor(older)
            made = Anchoring(os.urandom(16) if there is None else there.database_id, now)
            yield from write_anchoring(d, tenant, made)
            return made

        return await self._db.run(program, REGISTRY)

    def _check_database(self, anchoring: Anchoring | None) -> None:
        if self._section is None or (
            anchoring is not None and anchoring.database_id == self._section.database_id
        ):
            return
        raise Corrupt(
            f"the anchor is not one of tenant {self._db.tenant!r} of this database: it is of "
            "another database, or this one was restored from a backup that is older than its first "
            "anchor, or somebody has changed its registry. If it was restored on purpose, "
            f"`{anchor_command(self._db.tenant)} --accept-rollback` takes a new anchor."
        )

    def _reason_of_backup(self, anchoring: Anchoring | None) -> str | None:
        """Return the finding that the registry lacks the last anchor, as that of a backup does."""
        section = self._section
        if section is None or anchoring is None or anchoring.latest >= section.taken_at:
            return None
        taken, known = (
            f"{moment:%Y-%m-%d %H:%M:%S} UTC" for moment in (section.taken_at, anchoring.latest)
        )
        return (
            f"tenant {self._db.tenant!r} knows of no anchor since {known}, and this is of {taken}"
        )

    async def _read_removals(self) -> None:
        pages = scan(
            self._db,
            lambda after: list_removals(self._db.dialect, after=after),
            {"k_tenant": self._db.tenant},
            ("key",),
        )
        async for page in pages:
            for row in page:
                self._removals |= genuine_removal(self._db.tenant, row, self._keys)

    async def _delete_notes_before(self, moment: datetime) -> None:
        """Delete notes of removals before *moment*, which the last anchor includes."""
        binds = {"k_tenant": self._db.tenant, "p_before": moment - TOLERANCE}
        statement = delete_old_removals(self._db.dialect)
        await self._db.run(partial(program_of, statement, binds=binds), REGISTRY)

    async def _delete_notes(self, codes: Sequence[bytes]) -> None:
        """Delete notes of removed logs and items that exist again, which was accepted."""
        d = self._db.dialect
        listed = [(code.hex(),) for code in codes]
        for keys in d.statements.list_batches("p_keys", listed):
            binds = {"k_tenant": self._db.tenant} | keys
            await self._db.run(partial(program_of, delete_removals(d), binds=binds), REGISTRY)

    # --- Rows ------------------------------------------------------------------------------------

    async def _read_logs(
        self, taken_at: datetime | None, since: datetime | None, thread_id: str | None
    ) -> None:
        order = ("thread_id", "namespace") if since is None else ("active_at", "log_id")
        which = "changed" if since is not None else "all" if thread_id is None else "thread"
        binds = {"k_tenant": self._db.tenant, "k_thread_id": thread_id, "p_since": since}
        pages = scan(
            self._db,
            lambda after: list_signed_heads(self._db.dialect, which=which, after=after),
            {name: value for name, value in binds.items() if value is not None},
            order,
        )
        async for page in pages:
            for row in page:
                self._take_log(row, taken_at)
            self._done.add(len(page))

    def _take_log(self, row: Any, taken_at: datetime | None) -> None:
        life, is_tombstone = life_of_log(row), row.deleted_at is not None
        self._take_into_anchor(
            log_identity(row.tenant, row.log_id),
            # The states before a deletion are gone.
            Record(life._replace(position=life.position - is_tombstone), is_tombstone),
            life,
            taken_at,
            _fault_of_signature(
                row, partial(self._keys.check_head, row.signature, head_content(row))
            ),
            AnchorFinding("", self._db.tenant, row.namespace, thread_id=row.thread_id),
        )

    async def _read_items(self, taken_at: datetime | None, since: datetime | None) -> None:
        async with aclosing(self._list_items(since)) as lists:
            async for some in lists:
                for listed in key_lists(self._db.dialect, some):
                    statement = read_items_to_sign(self._db.dialect)
                    binds = {"k_tenant": self._db.tenant} | listed
                    for row in await run_query(self._db, statement, binds):
                        self._take_item(row, taken_at)
                self._done.add(len(some))

    async def _list_items(self, since: datetime | None) -> AsyncGenerator[list[tuple[str, str]]]:
        """Yield lists of the namespaces and keys of items, each to be read at once."""
        d, tenant = self._db.dialect, self._db.tenant
        order = ("namespace", "key") if since is None else ("namespace", "updated_at", "key")
        binds = scope_binds(tenant, encode_namespace(()), below=True)
        pages = scan(
            self._db,
            lambda after: list_sizes_of_items(d, changed=since is not None, after=after),
            binds if since is None else binds | {"p_since": since},
            order,
        )
        async for page in pages:
            for some in batches(page, lambda row: int(row.stored), most_rows=ITEMS_AT_ONCE):
                yield [(row.namespace, row.key) for row in some]

    def _take_item(self, row: Any, taken_at: datetime | None) -> None:
        tenant, life = self._db.tenant, life_of_item(row)
        self._take_into_anchor(
            item_identity(tenant, row.namespace, row.key),
            Record(life, False),
            life,
            taken_at,
            _fault_of_signature(
                row, partial(self._keys.check, row.signature, item_content_of(row, tenant))
            ),
            AnchorFinding("", tenant, row.namespace, key=row.key),
        )

    def _take_into_anchor(
        self,
        identity: Identity,
        record: Record,
        life: Life,
        taken_at: datetime | None,
        fault: str | None,
        finding: AnchorFinding,
    ) -> None:
        """Check a log or item against the last anchor, and take it into the new one.

        A *fault* of its signature is a finding where an anchor is taken; otherwise `verify` reports
        it.
        """
        code = known = self._keys.identity_code(self._key_id, identity)
        if self._before is not None and self._section is not None and not self._same_key:
            known = self._before.code(identity)
        why = self._reason_to_refuse(known, life, record.is_gone)
        if fault is not None:
            why = fault if taken_at is not None and fault != _UNSIGNED else None
        elif taken_at is not None and not is_born_after(life, taken_at):
            self._records.append(pack_record(code, record))
        if why is not None:
            self._found(replace(finding, sentence=why))

    def _reason_to_refuse(self, code: bytes, life: Life, is_tombstone: bool) -> str | None:
        """Return why a log or item contradicts the anchor or a removal; ``None`` if it does not."""
        section, record = self._section, None
        if section is not None:
            index = section.index(code)
            if index < len(section) and section.code(index) == code:
                self._seen[index] = 1
                record = section.record(index)
            why = section.refusal(record, life) or self._reason_of_removed_tenant(
                section, record, life
            )
            if why is not None:
                return why
        proof = self._removals.get(code)
        if proof is not None and not is_tombstone and is_superseded(life, proof.life):
            self._back.append(code)
            return f"it was removed at {proof.removed_at:%Y-%m-%d %H:%M:%S} UTC and is there again"
        return None

    def _reason_of_removed_tenant(
        self, section: Section, record: Record | None, life: Life
    ) -> str | None:
        """Return the finding that a log or item is from before the removal of its whole tenant."""
        proof = self._removals.get(section.tenant)
        if proof is None:
            return None
        is_known = record is not None and record.life.created_at == life.created_at
        known_before = is_known and section.taken_at < proof.removed_at
        # A transaction that began before the removal may have ended after it.
        if known_before or life.created_at < microseconds(proof.removed_at - TOLERANCE):
            return f"its tenant was removed at {proof.removed_at:%Y-%m-%d %H:%M:%S} UTC"
        return None

    # --- What is not there -----------------------------------------------------------------------

    def _find_missing(self) -> None:
        """Report records of the last anchor that the database lacks, but for excused removals."""
        section = self._section
        for index in range(len(self._seen)):
            if self._seen[index]:
                continue
            assert section is not None
            code, record = section.code(index), section.record(index)
            if is_excused(code, record, section, self._removals):
                if self._same_key:
                    self._records.append(self._pack_gone(code, record))
                continue
            began, position = moment_of(record.life.created_at), record.life.position
            what = (
                f"what began at {began:%Y-%m-%d %H:%M:%S} UTC and was at position {position} is "
                f"not there, and no key has removed it (record {code.hex()})"
            )
            self._found(AnchorFinding(what, self._db.tenant))

    def _take_removals_in(self) -> None:
        """Mark what was removed since the section before, and was not seen, as gone."""
        section = self._section
        assert section is not None
        if section.tenant in self._removals:
            indexes: Iterable[int] = range(len(section))
        else:
            indexes = map(section.index, self._removals)
        for index in indexes:
            if index == len(section) or self._seen[index]:
                continue
            code, record = section.code(index), section.record(index)
            if not record.is_gone and is_excused(code, record, section, self._removals):
                self._records.append(self._pack_gone(code, record))

    def _pack_gone(self, code: bytes, record: Record) -> bytes:
        """Return the packed record of a log or item that was removed."""
        proof = self._removals.get(code)
        last = record.life if proof is None else max(record.life, proof.life)
        return pack_record(code, Record(last, True))


def _fault_of_signature(row: Any, check: Callable[[], object]) -> str | None:
    """Return the fault of a row's signature, or that it has none, which is allowed."""
    try:
        check()
    except (Corrupt, KeyMissing) as error:
        return str(error)
    return _UNSIGNED if row.signature is None else None


# --- Statements ----------------------------------------------------------------------------------

_ORDERS = {
    "all": ("thread_id", "namespace"),
    "thread": ("thread_id", "namespace"),
    "changed": ("active_at", "log_id"),
}


@statement(proves="head", which=tuple(_ORDERS), after=(True, False))
def list_signed_heads(dialect: Dialect, which: str, after: bool) -> Executable:
    """Select a page of the signed columns of the heads of a tenant or a thread, tombstones too.

    Or of the heads of the tenant that have changed since ``p_since``.
    """
    names = (*HEAD.signed, "signature", *(("active_at",) if which == "changed" else ()))
    where = [THREADS.c.tenant == column_bind(THREADS.c.tenant, "k")]
    if which == "thread":
        where.append(THREADS.c.thread_id == column_bind(THREADS.c.thread_id, "k"))
    if which == "changed":
        where.append(THREADS.c.active_at >= bindparam("p_since", type_=THREADS.c.active_at.type))
    if after:
        where.append(after_key(dialect, THREADS, _ORDERS[which]))
    page = select(*(THREADS.c[name] for name in names)).where(*where)
    return page.order_by(*(THREADS.c[name] for name in _ORDERS[which])).limit(bindparam("p_limit"))


@statement(unproven=FOUND, changed=(True, False), after=(True, False))
def list_sizes_of_items(dialect: Dialect, changed: bool, after: bool) -> Executable:
    """Select a page of the keys of a tenant's items, with the bytes of their values.

    Or of those that have changed since ``p_since``: the index of times has all that is looked at.
    """
    order = ("namespace", "updated_at", "key") if changed else ("namespace", "key")
    columns = [ITEMS.c[name] for name in order]
    stored = dialect.statements.byte_length(ITEMS.c.value).label("stored")
    where: list[Any] = [in_scope(ITEMS, below=True)]
    if changed:
        since = bindparam("p_since", type_=ITEMS.c.updated_at.type)
        where.append(ITEMS.c.updated_at >= since)
    if after:
        where.append(after_key(dialect, ITEMS, order))
    return select(*columns, stored).where(*where).order_by(*columns).limit(bindparam("p_limit"))
