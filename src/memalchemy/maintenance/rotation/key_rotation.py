"""The rotation of the keys of a tenant, or of all: `rotate_keys`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    Executable,
)

from memalchemy.codec import encryption
from memalchemy.codec.checksum import check_payload
from memalchemy.codec.encryption import (
    PREFIX_BYTES,
    Keyring,
    StoredPayload,
)
from memalchemy.codec.field_terms import OTHERS
from memalchemy.codec.payloads import VALUE_CODEC, WRITES_CODEC, decode_payload, decode_writes
from memalchemy.codec.places import Place, item_place, row_place
from memalchemy.contracts import Progress
from memalchemy.database import WRITE_ROWS, WRITE_STORED, Database, off_loop
from memalchemy.dialects import MAX_LISTED
from memalchemy.errors import Conflict, Corrupt, KeyMissing
from memalchemy.events import Event, operation
from memalchemy.keys import is_internal
from memalchemy.log.reencoding import note_reencoding
from memalchemy.log.scan import batches, run_query, scan
from memalchemy.log.text_index_sweep import sweep_indexes
from memalchemy.maintenance.own_words import OwnWords
from memalchemy.maintenance.rotation.report import (
    NAMED_ROWS,
    KeyUse,
    PlainRow,
    RotationReport,
    StoredCounts,
    add_names,
    plain_row_of,
)
from memalchemy.maintenance.rotation.statements import (
    PAGE,
    TABLES,
    count_all_vectors,
    count_rows_by_encryption,
    grow_size,
    list_items_with_vectors,
    list_rows,
    list_strays,
    read_payloads,
    read_values,
    reseal_delta,
    reseal_item,
)
from memalchemy.maintenance.words.lost_words import note_lost_words
from memalchemy.protection.key_registry import (
    KEYS_NAMESPACE,
    read_registered_keys,
    register_key,
    unregister_keys,
)
from memalchemy.protection.proven_jobs import ERRORS, Damage, each_proven, is_damage
from memalchemy.search.scope import (
    key_lists,
)
from memalchemy.statements import Program, program_of
from memalchemy.store.write import delete_vectors_of_items

__all__ = ["rotate_keys"]

BATCH_ROWS = 200
"""The number of rows that are read, encrypted and written together, in one transaction."""

PASSES = 3
"""The number of times that the tables are gone through: others may write with an older key."""


async def rotate_keys(
    db: Database,
    *,
    all_tenants: bool = False,
    drop_vectors: bool = False,
    drop_words: bool = False,
    encrypt_plaintext: bool = False,
    dry_run: bool = False,
    progress: Callable[[Progress], object] | None = None,
) -> RotationReport:
    """Encrypt what *db* holds of its tenant with the first of its keys.

    A tenant that is not encrypted yet is encrypted. In one that is, rows that are not encrypted may
    be forged: they are left as they are, and reported, unless *encrypt_plaintext* is given. Every
    row is compared with its checksum first. Others may read and write meanwhile, if they have the
    new key among theirs. Each batch of rows is one transaction; killed at any time, the rotation
    continues when it is run again. A row that is damaged, or is not what was signed, is left as it
    is and named; the others are encrypted, and the older keys stay registered.

    Args:
        all_tenants: encrypt the rows of every tenant, not only of that of *db*.
        drop_vectors: remove vectors where they may not be held readable.
        drop_words: remove words and fields where they may not be held readable.
        encrypt_plaintext: also encrypt the unencrypted rows of an encrypted tenant. They are read
            as genuine from then on, so look at them with *dry_run* first. This is needed, too,
            where an earlier run that began to encrypt a tenant was ended half way.
        dry_run: change nothing; count the rows under each key.
        progress: called with rows done, and in all, as they were at the start.

    Raises:
        ValueError: *db* has no keys.
        CapabilityMissing: *all_tenants*, and row-level security shows the role one of them.
        Conflict: there are vectors, or words and fields, that may not be held, and *drop_vectors*,
            or *drop_words*, is not given. Nothing was changed. If no row has words of its own, an
            editor has put them there: they are removed, or the rows are left as damaged if they
            are signed.
    """
    if not db.keyring.encrypts:
        raise ValueError("rotate_keys needs a Database with keys=[…]: the first is the new one")
    if all_tenants:
        await db.check_sees_all_tenants("rotating the keys of all tenants")
    tenant = None if all_tenants else db.tenant
    with operation("rotation", tenant=tenant) as event:
        rotation = KeyRotation(
            db,
            tenant,
            event,
            progress,
            drop_words=drop_words,
            encrypt_plaintext=encrypt_plaintext,
        )
        started = time.perf_counter()
        report = await (rotation.survey() if dry_run else rotation.run(drop_vectors))
        event.details["rotated"] = report.rotated
    return replace(report, seconds=round(time.perf_counter() - started, 3))


class StoredRow(NamedTuple):
    """A row as it was read.

    Attributes:
        listed: the row of `list_rows`.
        key: the binds that identify it.
        sealed: its codec, checksum and payload.
        place: what its payload is bound to.
    """

    listed: Any
    key: dict[str, Any]
    sealed: StoredPayload
    place: Place


class RewrittenRow(NamedTuple):
    """A row to write anew.

    Attributes:
        grows: the row was not encrypted, so the size of its checkpoint grows.
        was_plain: the same, for items too.
        name: the table, and the values of the key.
    """

    statement: Executable
    binds: dict[str, Any]
    listed: Any
    grows: bool
    was_plain: bool
    name: tuple[Any, ...]


class KeyRotation:
    """Encrypt the rows of a tenant, or of all, with the first key."""

    def __init__(
        self,
        db: Database,
        tenant: str | None,
        event: Event,
        progress: Callable[[Progress], object] | None,
        *,
        drop_words: bool,
        encrypt_plaintext: bool,
    ) -> None:
        self.db = db
        self.event = event
        self._scope = "all" if tenant is None else "tenant"
        self._binds: dict[str, Any] = {} if tenant is None else {"k_tenant": tenant}
        self._drop_words = drop_words
        self._encrypt_plaintext = encrypt_plaintext
        self._progress = progress
        self._done = self._total = 0
        self._rotated = 0
        self._damaged: dict[tuple[Any, ...], str] = {}
        """Why each row, by its table and key, was left as damaged."""
        self._unread = Damage()
        """The rows whose keys, or the ways in which they are stored, cannot be read."""
        self._keyless: dict[tuple[Any, ...], str] = {}
        """The same of rows whose key is missing."""
        self._missing: set[str] = set()
        """The ids of those keys."""
        self._needed: list[str] = []
        self._registered_before: dict[str, set[str]] = {}
        """The ids of the keys that each encrypted tenant had before this run."""
        self._registered: set[str] = set()
        """The tenants whose first key this run has registered."""
        self._foreign: set[tuple[Any, ...]] = set()
        """The rows whose readable words are not their own."""
        self._foreign_removed = 0
        self._noted: set[tuple[str, str, str]] = set()
        """The tenants, kinds and namespaces that this run has noted to lose words."""
        # Dictionaries, because these keep the order and have each row once.
        self._adopted: dict[PlainRow, None] = {}
        self._refused: dict[PlainRow, None] = {}

    async def survey(self) -> RotationReport:
        """Count the rows under each key; change nothing."""
        await self._read_registered_keys()
        counts = await self._count_stored()
        vectors = await self._count_forbidden_vectors()
        if counts.unreadable or None in (*counts.rows, *counts.items):
            for table in TABLES:
                async for rows in self._list_due(table):
                    add_names(self._adopted, (row for row in rows if self._is_suspect(row)))
        return self._make_report(counts, counts.words, vectors)

    async def run(self, drop_vectors: bool) -> RotationReport:
        """Encrypt everything with the first key."""
        vectors = await self._count_forbidden_vectors()
        if vectors and not drop_vectors:
            raise Conflict(
                f"there are {vectors:,} vectors, which say much about the texts they were made of; "
                "nothing was changed. Remove them with drop_vectors=True (on the command line "
                '--drop-vectors), or keep them readable: open the database with readable=("vectors"'
                ",) (--readable vectors)."
            )
        await self._read_registered_keys()
        counts = await self._count_stored()
        self._total = counts.due
        if counts.words and not self._drop_words and (lost := await self._count_losses()):
            raise Conflict(
                f"{lost:,} rows and items have readable words or fields, by which they are found; "
                "nothing was changed. Remove these with drop_words=True (on the command line "
                "--drop-words), or keep them readable: open the database with readable=("
                '"text", "fields") (--readable text,fields).'
            )
        words = counts.words
        for _ in range(PASSES):
            if not counts.due:
                break
            for table in TABLES:
                await self._rotate_table(table)
            counts = await self._count_stored()
        counts.unreadable += await self._count_strays()
        await self._unregister_unused_keys(counts)
        if vectors:
            await self._drop_vectors()
        if not self._drop_words:
            words = self._foreign_removed
        if words or vectors:
            await self.db.run(partial(sweep_indexes, self.db.dialect), WRITE_ROWS, event=self.event)
        self._tell_progress(self._total)
        return self._make_report(counts, words, vectors)

    async def _drop_vectors(self) -> None:
        """Remove all vectors, some hundred items at a time: a signed item tells which it has."""
        listing = list_items_with_vectors(self.db.dialect, scope=self._scope)
        binds = {**self._binds, "p_limit": MAX_LISTED}
        while True:
            left = len(self._unread.errors)
            found = await self._read_readable_rows(listing, binds, ("key",))
            for tenant, some in groupby(found, key=attrgetter("tenant")):
                items = [(row.namespace, row.key) for row in some]
                drop = partial(self._drop_vectors_of, tenant)
                async for _ in each_proven(items, drop, self._unread):
                    pass
            if not found or len(self._unread.errors) > left:
                return

    async def _drop_vectors_of(self, tenant: str, items: Sequence[tuple[str, str]]) -> None:
        d = self.db.dialect
        for listed in key_lists(d, items):
            binds = {"k_tenant": tenant} | listed
            dropping = partial(program_of, delete_vectors_of_items(d), binds=binds)
            await self.db.run(dropping, WRITE_ROWS, event=self.event)

    # --- Which rows are due ------------------------------------------------------------------

    async def _count_stored(self) -> StoredCounts:
        counts = StoredCounts()
        for table in TABLES:
            statement = count_rows_by_encryption(self.db.dialect, table=table, scope=self._scope)
            by_key = counts.rows if table == "deltas" else counts.items
            for row in await self._read_readable_rows(statement, self._binds, ("number",), counts):
                by_key[_leading_bytes(row)] += row.number
                if self._is_due(row):
                    counts.due += row.number
                if self._has_forbidden_words(row):
                    counts.words += row.number
        return counts

    async def _read_readable_rows(
        self,
        statement: Executable,
        binds: Mapping[str, Any],
        identified_by: Sequence[str],
        counts: StoredCounts | None = None,
        named: Callable[[Any], tuple[tuple[Any, ...], str]] | None = None,
    ) -> list[Any]:
        """Return the rows of a query that can be read.

        Args:
            counts: is given the ``number`` of those that cannot.
            named: returns the key and the name of such a row, which is noted as damaged.
        """
        rows = await run_query(
            self.db, statement, binds, event=self.event, identified_by=identified_by
        )
        for at, what in rows.damaged.items():
            if counts is not None:
                counts.unreadable += rows[at].number
            if named is not None:
                key, name = named(rows[at])
                self._damaged[key] = f"{name}: {what}"
        return [row for at, row in enumerate(rows) if at not in rows.damaged]

    async def _count_losses(self) -> int:
        """Count the rows with words that a search would miss: not those that the run has to leave.

        If no row has words of its own, none is missed: somebody else has put the words there, which
        stop no rotation and are noted.
        """
        lost, own_words, has_own = 0, OwnWords(self.db), False
        for table in TABLES:
            async for rows in self._list_due(table):
                for row in filter(self._has_forbidden_words, rows):
                    lost += 1
                    has_own = has_own or await own_words.has(table, row)
                    if not has_own:
                        self._foreign.add(_key_of(table, row))
        return lost if has_own else 0

    async def _count_strays(self) -> int:
        """Note the rows of the tenant's logs that name another tenant; return their number."""
        if self._scope == "all":
            return 0  # they are listed by what they say, and do not open there
        found = await self._read_readable_rows(
            list_strays(self.db.dialect), self._binds, ("log_id", "seq")
        )
        for row in found:
            what = f"{plain_row_of(row)}: it says another tenant than its log"
            self._damaged[_key_of("deltas", row)] = what
        return len(found)

    async def _count_forbidden_vectors(self) -> int:
        """Count the vectors, unless the keyring lets them be readable."""
        if self.db.keyring.is_readable("vectors"):
            return 0
        statement = count_all_vectors(self.db.dialect, scope=self._scope)
        rows = await run_query(self.db, statement, self._binds, event=self.event)
        return int(rows[0][0])

    def _is_due(self, row: Any) -> bool:
        """Return whether a row is to be written anew."""
        return _leading_bytes(row) != self.db.keyring.prefix or self._has_forbidden_words(row)

    def _has_forbidden_words(self, row: Any) -> bool:
        keyring = self.db.keyring
        return bool(
            (row.has_words and not keyring.is_readable("text"))
            or (row.has_fields and not keyring.is_readable("fields"))
        )

    def _is_suspect(self, row: Any) -> bool:
        """Return whether a row is not encrypted in a tenant that was encrypted before this run."""
        return row.begins is None and row.tenant in self._registered_before

    def _may_encrypt_plaintext(self, tenant: str) -> bool:
        keys = self._registered_before.get(tenant)
        if keys is None:
            return True
        return self._encrypt_plaintext and not keys.isdisjoint(self.db.keyring.ids)

    async def _list_due(self, table: str) -> AsyncGenerator[list[Any]]:
        """Yield pages of the rows to write anew, in the order of their keys.

        Notes the rows that may not be written because they may be forged.
        """
        pages = scan(
            self.db,
            lambda after: list_rows(self.db.dialect, table=table, scope=self._scope, after=after),
            self._binds,
            TABLES[table].key,
            size=PAGE,
            event=self.event,
            damage=self._unread,
        )
        async for page in pages:
            due: list[Any] = []
            refused: list[Any] = []
            for row in page:
                leading = _leading_bytes(row)
                if not self._is_due(row):
                    continue
                if leading is None:
                    (due if self._may_encrypt_plaintext(row.tenant) else refused).append(row)
                elif self.db.keyring.has_key_of(leading):
                    due.append(row)
                else:
                    self._note_unopened(table, row, leading)
            add_names(self._refused, refused)
            yield due

    def _note_unopened(self, table: str, row: Any, leading: bytes) -> None:
        """Note a row that no key opens: its key is missing, or its payload names none."""
        key, name = _key_of(table, row), str(plain_row_of(row))
        if len(leading) < PREFIX_BYTES or leading[:1] != self.db.keyring.prefix[:1]:
            self._damaged[key] = f"{name}: its payload does not begin as an encrypted one does"
        else:
            key_id = encryption.key_id(leading)
            self._missing.add(key_id)
            self._keyless[key] = f"{name}: its key {key_id} was not given"

    # --- One table ---------------------------------------------------------------------------

    async def _rotate_table(self, table: str) -> None:
        """Write the due rows of a table anew, batch by batch."""
        async for rows in self._list_due(table):
            for batch in batches(rows, lambda row: row.stored, most_rows=BATCH_ROWS):
                read = self._read_rows if table == "deltas" else self._read_items
                stored = await read(batch)
                size = sum(len(row.sealed.payload) for row in stored)
                changes = await off_loop(size, partial(self._encrypt_rows, table, stored))
                await self._register_first_key({change.listed.tenant for change in changes})
                await self._note_lost_words(table, changes)
                written = await self._write_changes(changes)
                add_names(
                    self._adopted,
                    (
                        change.listed
                        for change in written
                        if change.was_plain and change.listed.tenant in self._registered_before
                    ),
                )
                self._rotated += len(written)
                self._foreign_removed += sum(change.name in self._foreign for change in written)
                self._tell_progress(len(batch))

    async def _read_rows(self, batch: Sequence[Any]) -> list[StoredRow]:
        """Read the listed rows of logs with their payloads."""
        found: list[StoredRow] = []
        for log_id, rows in groupby(batch, lambda row: row.log_id):
            listed = {row.seq: row for row in rows}
            of_this_log = {"k_log_id": log_id}
            binds = of_this_log | {"p_low": min(listed), "p_high": max(listed)}
            statement = read_payloads(self.db.dialect)
            named = partial(_named_as_listed, "deltas", listed, attrgetter("seq"))
            for row in await self._read_readable_rows(statement, binds, ("seq",), named=named):
                if row.seq in listed:
                    sealed = StoredPayload(row.codec, row.checksum, bytes(row.payload))
                    key = of_this_log | {"p_seq": row.seq}
                    tenant = listed[row.seq].tenant
                    place = row_place(tenant, log_id, row.seq, row.kind, row.label)
                    found.append(StoredRow(listed[row.seq], key, sealed, place))
        return found

    async def _read_items(self, batch: Sequence[Any]) -> list[StoredRow]:
        """Read the listed items with their values."""
        found: dict[tuple[str, str, str], StoredRow] = {}
        d = self.db.dialect
        for tenant, rows in groupby(batch, lambda row: row.tenant):
            listed = {(row.namespace, row.key): row for row in rows}
            for binds in key_lists(d, listed):
                binds = {"k_tenant": tenant} | binds
                named = partial(
                    _named_as_listed, "store_items", listed, attrgetter("namespace", "key")
                )
                key_columns = ("namespace", "key")
                for row in await self._read_readable_rows(
                    read_values(d), binds, key_columns, named=named
                ):
                    sealed = StoredPayload(row.codec, row.checksum, bytes(row.value))
                    key = {"k_tenant": tenant, "k_namespace": row.namespace, "k_key": row.key}
                    key["p_version"] = row.version
                    name = row.namespace, row.key
                    place = item_place(tenant, *name, row.version)
                    found[tenant, *name] = StoredRow(listed[name], key, sealed, place)
        # Every process writes in one order: so two rotations do not deadlock.
        order = [(row.tenant, row.namespace, row.key) for row in batch]
        return [found[name] for name in order if name in found]

    def _encrypt_rows(self, table: str, rows: Sequence[StoredRow]) -> list[RewrittenRow]:
        """Return the changes that write *rows* under the first key; damaged rows have none."""
        changes: list[RewrittenRow] = []
        for row in rows:
            # Looked at again, because a row may have been replaced since it was listed.
            was_plain = not encryption.is_encrypted(row.sealed.codec)
            if was_plain and not self._may_encrypt_plaintext(row.listed.tenant):
                add_names(self._refused, [row.listed])
                continue
            try:
                new = _encrypt_with_first_key(self.db.keyring, row.sealed, row.place)
            except (Corrupt, KeyMissing) as error:
                key = _key_of(table, row.listed)
                self._damaged[key] = f"{plain_row_of(row.listed)}: {error}"
                continue
            name = _key_of(table, row.listed)
            binds = row.key | {
                "p_was_codec": row.sealed.codec,
                "p_was_checksum": row.sealed.checksum,
                "p_codec": new.codec,
                "p_checksum": new.checksum,
                TABLES[table].payload_bind: new.payload,
                "p_field_terms": OTHERS,
            }
            grows = was_plain and table == "deltas"
            statement = self._statement_of_rewrite(table, row.listed)
            changes.append(RewrittenRow(statement, binds, row.listed, grows, was_plain, name))
        return changes

    def _statement_of_rewrite(self, table: str, listed: Any) -> Executable:
        """Return the statement that writes a row anew, without words that it may not have."""
        d, keyring = self.db.dialect, self.db.keyring
        # Without `drop_words`, others have written them since the rotation began: they are left.
        drops = self._drop_words or _key_of(table, listed) in self._foreign
        drops_words = drops and not keyring.is_readable("text")
        drops_fields = drops and not keyring.is_readable("fields")
        words = "dropped" if listed.has_words and drops_words else "kept"
        if table == "deltas":
            return reseal_delta(d, words=words)
        fields = "dropped" if listed.has_fields and drops_fields else "kept"
        return reseal_item(d, words=words, fields=fields)

    async def _note_lost_words(self, table: str, changes: Sequence[RewrittenRow]) -> None:
        """Note the namespaces whose words these changes remove, for `rebuild_words`."""
        if not self._drop_words or self.db.keyring.is_readable("text"):
            return
        kind: Literal["logs", "items"] = "logs" if table == "deltas" else "items"
        lost: dict[str, set[tuple[Literal["logs", "items"], str]]] = {}
        for row in (change.listed for change in changes):
            if row.has_words and row.namespace is not None and not is_internal(row.namespace):
                lost.setdefault(row.tenant, set()).add((kind, row.namespace))
        for tenant, names in lost.items():
            new = {name for name in names if (tenant, *name) not in self._noted}
            await note_lost_words(self.db.for_tenant(tenant), new)
            self._noted.update((tenant, *name) for name in new)

    async def _write_changes(self, changes: Sequence[RewrittenRow]) -> Sequence[RewrittenRow]:
        """Write rows anew in one transaction, those that are still what was read.

        Rows that their signatures do not prove are left. Returns the changes without those.
        """

        def program() -> Program[None]:
            logs = (row.binds["k_log_id"] for row in changes if "k_log_id" in row.binds)
            yield from note_reencoding(self.db.dialect, logs)
            for (rewrite, grows), alike in groupby(
                changes, lambda change: (change.statement, change.grows)
            ):
                binds = [change.binds for change in alike]
                if not grows:
                    yield rewrite, binds if len(binds) > 1 else binds[0]
                    continue
                for one in binds:
                    # The row is locked from here on, so its size grows once, whoever else writes.
                    if (yield rewrite, one).touched:
                        yield grow_size(self.db.dialect), one

        if not changes:
            return changes
        try:
            await self.db.run(program, WRITE_STORED, event=self.event)
        except ERRORS as error:
            if not is_damage(error):
                raise
            if len(changes) == 1:
                self._damaged[changes[0].name] = f"{plain_row_of(changes[0].listed)}: {error}"
                return []
            return [one for change in changes for one in await self._write_changes([change])]
        return changes

    # --- The registry of keys ----------------------------------------------------------------

    async def _read_registered_keys(self) -> None:
        """Note which tenants are encrypted, before this run encrypts any."""
        for row in await self._registered_keys():
            self._registered_before.setdefault(row.tenant, set()).add(row.key)

    async def _register_first_key(self, tenants: set[str]) -> None:
        """Register the first key of tenants, before anything of them is under it."""
        first = self.db.keyring.first_id
        assert first is not None
        for tenant in sorted(tenants - self._registered):
            await self.db.run(partial(register_key, self.db.dialect, tenant, first), WRITE_ROWS)
            self._registered.add(tenant)

    async def _unregister_unused_keys(self, counts: StoredCounts) -> None:
        """Unregister keys without any row: a process that has no other key may not write.

        No key is unregistered if rows were left that are damaged, or name a key that was never
        registered: once mended, such a row may be under any key.
        """
        used = {encryption.key_id(one) for one in (*counts.rows, *counts.items) if one is not None}
        first = self.db.keyring.first_id
        if first in used and self._scope == "tenant":
            await self._register_first_key({self.db.tenant})
        older = [(row.tenant, row.key) for row in await self._registered_keys() if row.key != first]
        unused = [(tenant, key) for tenant, key in older if key not in used]
        strange = self._missing - {key for _, key in older}
        is_kept = bool(self._damaged or self._unread or strange or counts.unreadable)
        if is_kept or self._keyless:
            self._needed = sorted({key for _, key in (older if is_kept else {*older} - {*unused})})
        if unused and not is_kept:
            unregistering = partial(unregister_keys, self.db.dialect, unused)
            await self.db.run(unregistering, WRITE_ROWS, event=self.event)

    async def _registered_keys(self) -> Sequence[Any]:
        statement = read_registered_keys(self.db.dialect, scope=self._scope)
        rows = await run_query(self.db, statement, self._binds, event=self.event)
        return [row for row in rows if row.namespace == KEYS_NAMESPACE]

    # --- Report ------------------------------------------------------------------------------

    def _make_report(self, counts: StoredCounts, words: int, vectors: int) -> RotationReport:
        keyring = self.db.keyring
        uses = []
        for leading in sorted({*counts.rows, *counts.items}, key=lambda one: one or b""):
            state: Literal["first", "given", "missing", "plaintext"] = "missing"
            if leading is None:
                state = "plaintext"
            elif leading == keyring.prefix:
                state = "first"
            elif keyring.has_key_of(leading):
                state = "given"
            key_id = None if leading is None else encryption.key_id(leading)
            uses.append(KeyUse(key_id, state, counts.rows[leading], counts.items[leading]))
        left_out = [
            *self._damaged.values(),
            *map(str, self._unread.errors),
            *self._keyless.values(),
        ]
        return RotationReport(
            tuple(uses),
            self._rotated,
            words,
            vectors,
            left=counts.due + counts.unreadable,
            damaged=len(self._damaged) + len(self._unread.errors),
            seconds=0.0,
            adopted=tuple(self._adopted),
            refused=tuple(self._refused),
            left_out=tuple(left_out[:NAMED_ROWS]),
            needed_keys=tuple(self._needed),
        )

    def _tell_progress(self, more: int) -> None:
        self._done = min(self._done + more, self._total)
        if self._progress is not None:
            self._progress(Progress(self._done, self._total))


def _leading_bytes(row: Any) -> bytes | None:
    """Return the bytes with which the payload of an encrypted row begins: they name its key."""
    return None if row.begins is None else bytes(row.begins)


def _encrypt_with_first_key(keyring: Keyring, stored: StoredPayload, place: Place) -> StoredPayload:
    """Encrypt a payload with the first key; one that is not encrypted is checked first."""
    if encryption.is_encrypted(stored.codec):
        stored = keyring.decrypt(*stored, place)
    elif stored.codec == VALUE_CODEC:
        decode_payload(stored.payload, stored.checksum, stored.codec)
    elif stored.codec == WRITES_CODEC:
        decode_writes(stored.payload, stored.checksum, stored.codec)
    else:
        check_payload(stored.payload, stored.checksum)
    return keyring.encrypt(*stored, place)


def _key_of(table: str, listed: Any) -> tuple[Any, ...]:
    """Return the table and the key of a row of `list_rows`."""
    return table, *(getattr(listed, name) for name in TABLES[table].key)


def _named_as_listed(
    table: str, listed: Mapping[Any, Any], place: Callable[[Any], Any], row: Any
) -> tuple[tuple[Any, ...], str]:
    """Return the key and the name of a row that cannot be read, by the row that was listed."""
    one = listed.get(place(row))
    if one is None:  # it is not due
        return (table, place(row)), f"a row of {table}"
    return _key_of(table, one), str(plain_row_of(one))
