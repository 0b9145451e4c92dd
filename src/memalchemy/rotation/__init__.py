"""`rotate_keys`: brings everything that is stored under the first key of a database's keyring.

Row by row, while others read and write: a row is written only as long as it is what was read, and
says itself under which key it is. So nothing is kept about a rotation, several may run at once, and
one that was killed goes on when it is run again. Positions, versions, times and epochs stay.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Literal, NamedTuple

from memalchemy.codec import deltas, items, sealing, writes
from memalchemy.codec.items import OTHERS
from memalchemy.codec.sealing import Keyring, Sealed
from memalchemy.contracts import Progress
from memalchemy.database import (
    READ,
    WRITE_ROWS,
    WRITE_STORED,
    Database,
    off_loop,
)
from memalchemy.database.key_registry import delete_key, read_registered_keys, register_key
from memalchemy.dialects import TEXT_INDEXES
from memalchemy.errors import Conflict, Corrupt, KeyMissing
from memalchemy.events import Event, operation
from memalchemy.keys import decode_namespace
from memalchemy.log.text_indexes import purge
from memalchemy.rotation import statements
from memalchemy.search.scope import key_lists
from memalchemy.statements import Answer, Program

__all__ = ["KeyUse", "PlainRow", "RotationReport", "rotate_keys"]

PAGE = 1000
"""Rows that are listed together."""

BATCH_ROWS = 200
BATCH_BYTES = 8 * 1024 * 1024
"""Rows that are read, sealed and written together; a larger one is alone."""

NAMED = 10_000
"""Rows that a report names of each kind."""

PASSES = 3
"""What others wrote meanwhile, with an older key, is looked for so often."""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """How much is stored under one key.

    ``key_id`` names the key, which cannot be told from it; ``None`` is what is not encrypted.
    ``state`` is ``first`` (the key that encrypts), ``given``, ``missing``, or ``plaintext``.
    ``rows`` are those of logs, ``items`` those of stores.
    """

    key_id: str | None
    state: Literal["first", "given", "missing", "plaintext"]
    rows: int
    items: int


@dataclass(frozen=True, slots=True)
class PlainRow:
    """A row or an item that was not encrypted: where it is.

    Of a log ``thread_id`` and ``position``, of a store ``key``.
    """

    tenant: str
    namespace: tuple[str, ...]
    thread_id: str | None = None
    position: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        space = "/".join(self.namespace)
        if self.thread_id is None:
            return f"item {self.key!r} in /{space} of tenant {self.tenant!r}"
        return (
            f"position {self.position} of thread {self.thread_id!r} in /{space} of tenant "
            f"{self.tenant!r}"
        )


@dataclass(frozen=True, slots=True)
class RotationReport:
    """What is under which key at the end, and what was done.

    ``rotated`` rows and items were written anew; ``words`` are those with readable words or fields
    that they may not have, ``vectors`` the vectors that they may not have: removed, or, of a dry
    run, found. ``left`` rows are not as they should be: their key is ``missing``, they are
    ``damaged``, they are ``refused``, or others wrote them meanwhile.

    In a tenant that is encrypted already somebody else may have written what is not: ``adopted``
    are such rows that were encrypted, or of a dry run would be, because *encrypt_plaintext* said
    so, ``refused`` those that were left as they are; the first `NAMED` of each.
    """

    uses: tuple[KeyUse, ...]
    rotated: int
    words: int
    vectors: int
    left: int
    damaged: int
    seconds: float
    adopted: tuple[PlainRow, ...] = ()
    refused: tuple[PlainRow, ...] = ()


async def rotate_keys(
    db: Database,
    *,
    all_tenants: bool = False,
    drop_vectors: bool = False,
    encrypt_plaintext: bool = False,
    dry_run: bool = False,
    progress: Callable[[Progress], object] | None = None,
) -> RotationReport:
    """Encrypt what *db* holds of its tenant with the first of its keys, whatever it is now.

    A tenant that is not encrypted yet is encrypted. In one that is, what is not encrypted may be
    forged: it is left as it is, and reported, unless *encrypt_plaintext* is given. Every row is
    held to its checksum first. Words and fields that *db* may not hold readable go.
    Others may read and write meanwhile, if they have the new key among theirs. A batch of rows is
    one transaction; killed at any time, it goes on when it is run again.

    Args:
        all_tenants: every tenant's, not only that of *db*.
        drop_vectors: remove vectors, where they may not be held readable.
        encrypt_plaintext: also what is not encrypted in a tenant that is. It is read as genuine
            from then on, so see first, with *dry_run*, what it is. Needed too where an earlier run
            that began to encrypt a tenant was ended half way.
        dry_run: change nothing; say what is under which key.
        progress: called with rows done, and in all, as they were at the start.

    Raises:
        ValueError: *db* has no keys.
        Conflict: there are vectors that may not be held, and *drop_vectors* is not given. Nothing
            was changed.
    """
    if not db.keyring.seals:
        raise ValueError("rotate_keys needs a Database with keys=[…]: the first is the new one")
    tenant = None if all_tenants else db.tenant
    with operation("rotation", tenant=tenant) as event:
        work = _Rotation(db, tenant, event, progress, adopts=encrypt_plaintext)
        started = time.perf_counter()
        report = await (work.survey() if dry_run else work.run(drop_vectors))
        event.details["rotated"] = report.rotated
    return replace(report, seconds=round(time.perf_counter() - started, 3))


@dataclass(slots=True)
class _Count:
    """What is stored in which way, and how much of it is due."""

    rows: Counter[bytes | None] = field(default_factory=Counter)
    items: Counter[bytes | None] = field(default_factory=Counter)
    due: int = 0
    words: int = 0


class _Rotation:
    """One run."""

    def __init__(
        self,
        db: Database,
        tenant: str | None,
        event: Event,
        progress: Callable[[Progress], object] | None,
        *,
        adopts: bool,
    ) -> None:
        self.db = db
        self.scope, self.binds = statements.scope_of(tenant)
        self.event = event
        self._progress = progress
        self._done = self._total = 0
        self._damaged: set[tuple[Any, ...]] = set()
        self._marked: set[str] = set()
        self._adopts = adopts
        self._keys_of: dict[str, set[str]] = {}
        self._adopted: dict[PlainRow, None] = {}
        self._refused: dict[PlainRow, None] = {}
        self._rotated = 0

    async def survey(self) -> RotationReport:
        """What there is; nothing is done."""
        await self._look_at_marks()
        count = await self._count()
        vectors = 0 if self.db.keyring.reveals("vectors") else await self._vectors()
        if None in (*count.rows, *count.items):
            for table in statements.KEYS:
                async for rows in self._due_pages(table):
                    _name(
                        self._adopted,
                        (_plain(row) for row in rows if self._is_suspect(row)),
                    )
        return self._report(count, count.words, vectors)

    async def _look_at_marks(self) -> None:
        """Which tenants are encrypted, before this run encrypts any."""
        statement = read_registered_keys(self.db.dialect, scope=self.scope)
        binds = self.binds if self.scope == "tenant" else {}
        for row in await self._ask(statement, binds):
            self._keys_of.setdefault(row.tenant, set()).add(row.key)

    def _is_suspect(self, row: Any) -> bool:
        """Whether a row is not encrypted in a tenant that is."""
        return row.begins is None and row.tenant in self._keys_of

    def _may_encrypt(self, tenant: str) -> bool:
        """Whether what is not encrypted may be, of a tenant."""
        keys = self._keys_of.get(tenant)
        return keys is None or (self._adopts and not keys.isdisjoint(self.db.keyring.ids))

    async def run(self, drop_vectors: bool) -> RotationReport:
        vectors = 0 if self.db.keyring.reveals("vectors") else await self._vectors()
        if vectors and not drop_vectors:
            raise Conflict(
                f"there are {vectors:,} vectors, which say much about the texts they were made of; "
                "nothing was changed. Remove them with drop_vectors=True (on the command line "
                '--drop-vectors), or keep them readable: open the database with readable=("vectors"'
                ",) (--readable vectors)."
            )
        await self._look_at_marks()
        count = await self._count()
        words, self._total = count.words, count.due
        for _ in range(PASSES):
            if not count.due:
                break
            for table in statements.KEYS:
                await self._table(table)
            count = await self._count()
        await self._unmark(count)
        if vectors:
            await self._write([Change(self._drop_vectors(), self.binds)])
        if words or vectors:
            await self._purge()
        self._tell(self._total)
        return self._report(count, words, vectors)

    async def _count(self) -> _Count:
        found = _Count()
        for table in statements.KEYS:
            statement = statements.count_rows(self.db.dialect, table=table, scope=self.scope)
            keys = found.rows if table == "deltas" else found.items
            for row in await self._ask(statement, self.binds):
                keys[None if row.begins is None else bytes(row.begins)] += row.number
                if self._is_due(row):
                    found.due += row.number
                if self._has_words(row):
                    found.words += row.number
        return found

    def _is_due(self, row: Any) -> bool:
        leading = None if row.begins is None else bytes(row.begins)
        return leading != self.db.keyring.leading or self._has_words(row)

    def _has_words(self, row: Any) -> bool:
        keyring = self.db.keyring
        return bool(
            (row.has_words and not keyring.reveals("text"))
            or (row.has_fields and not keyring.reveals("fields"))
        )

    def _report(self, count: _Count, words: int, vectors: int) -> RotationReport:
        uses = []
        for leading in sorted({*count.rows, *count.items}, key=lambda one: one or b""):
            state: Literal["first", "given", "missing", "plaintext"] = "missing"
            if leading is None:
                state = "plaintext"
            elif leading == self.db.keyring.leading:
                state = "first"
            elif self.db.keyring.knows(leading):
                state = "given"
            name = None if leading is None else sealing.key_id(leading)
            uses.append(KeyUse(name, state, count.rows[leading], count.items[leading]))
        damaged = len(self._damaged)
        return RotationReport(
            tuple(uses),
            self._rotated,
            words,
            vectors,
            count.due,
            damaged,
            seconds=0.0,
            adopted=tuple(self._adopted),
            refused=tuple(self._refused),
        )

    # --- One table ---------------------------------------------------------------------------

    async def _table(self, table: str) -> None:
        async for rows in self._due_pages(table):
            for batch in _batches(rows):
                read = self._rows_of if table == "deltas" else self._items_of
                found = await read(batch)
                size = sum(len(row["payload"]) for row in found)
                changes = await off_loop(size, partial(self._changes, table, found))
                await self._mark({change.due.tenant for change in changes})
                await self._write(changes)
                _name(
                    self._adopted,
                    (
                        _plain(change.due)
                        for change in changes
                        if not sealing.is_sealed(change.binds["p_was_codec"])
                        and change.due.tenant in self._keys_of
                    ),
                )
                self._rotated += len(changes)
                self._tell(len(batch))

    async def _mark(self, tenants: set[str]) -> None:
        """Note the first key, before anything of a tenant is under it."""
        first = self.db.keyring.first_id
        assert first is not None
        for tenant in sorted(tenants - self._marked):
            await self.db.run(partial(register_key, self.db.dialect, tenant, first), WRITE_ROWS)
            self._marked.add(tenant)

    async def _unmark(self, count: _Count) -> None:
        """Forget the keys that nothing is under any more: who has none but those may not write."""
        used = {sealing.key_id(one) for one in (*count.rows, *count.items) if one is not None}
        if self.db.keyring.first_id in used and self.scope == "tenant":
            await self._mark({self.db.tenant})
        statement = read_registered_keys(self.db.dialect, scope=self.scope)
        binds = self.binds if self.scope == "tenant" else {}
        gone = [
            Change(delete_key(self.db.dialect), {"k_tenant": row.tenant, "k_key": row.key})
            for row in await self._ask(statement, binds)
            if row.key not in used and row.key != self.db.keyring.first_id
        ]
        await self._write(gone)

    async def _due_pages(self, table: str) -> AsyncIterator[list[Any]]:
        """Rows that are not as they should be, in the order of their keys, page by page."""
        key = statements.KEYS[table]
        binds = self.binds | {"p_limit": PAGE}
        after = False
        while True:
            statement = statements.list_rows(
                self.db.dialect, table=table, scope=self.scope, after=after
            )
            rows = await self._ask(statement, binds)
            due = [row for row in rows if self._is_due(row) and self._can_open(row)]
            yield [row for row in due if row.begins is not None or self._may_encrypt(row.tenant)]
            refused = (row for row in due if row.begins is None)
            _name(
                self._refused,
                (_plain(row) for row in refused if not self._may_encrypt(row.tenant)),
            )
            if len(rows) < PAGE:
                return
            after = True
            binds = binds | {f"p_{name}": getattr(rows[-1], name) for name in key}

    def _can_open(self, row: Any) -> bool:
        return row.begins is None or self.db.keyring.knows(bytes(row.begins))

    async def _rows_of(self, batch: Sequence[Any]) -> list[dict[str, Any]]:
        """The due rows of logs with their payloads."""
        found: list[dict[str, Any]] = []
        for log_id, rows in groupby(batch, lambda row: row.log_id):
            due = {row.seq: row for row in rows}
            of_log = {"k_log_id": log_id}
            ends = {"p_low": min(due), "p_high": max(due)}
            statement = statements.read_payloads(self.db.dialect)
            for row in await self._ask(statement, of_log | ends):
                if row.seq in due:
                    place = of_log | {"p_seq": row.seq}
                    found.append(_as_read(due[row.seq], row, row.payload, place))
        return found

    async def _items_of(self, batch: Sequence[Any]) -> list[dict[str, Any]]:
        """The due items with their values."""
        found: dict[tuple[str, str, str], dict[str, Any]] = {}
        d = self.db.dialect
        for tenant, rows in groupby(batch, lambda row: row.tenant):
            due = {(row.namespace, row.key): row for row in rows}
            for listed in key_lists(d, due):
                binds = {"k_tenant": tenant} | listed
                for row in await self._ask(statements.read_values(d), binds):
                    name = row.namespace, row.key
                    place = {"k_tenant": tenant, "k_namespace": row.namespace, "k_key": row.key}
                    place |= {"p_version": row.version}
                    found[tenant, *name] = _as_read(due[name], row, row.value, place)
        # In one order in every process: two rotations do not block each other.
        order = [(row.tenant, row.namespace, row.key) for row in batch]
        return [found[name] for name in order if name in found]

    def _changes(self, table: str, found: Sequence[Mapping[str, Any]]) -> list[Change]:
        """The statements that write rows anew; damaged ones are left as they are."""
        changes: list[Change] = []
        for row in found:
            # Once more, of what was read: it may have been put there since its page was.
            is_plain = not sealing.is_sealed(row["codec"])
            if is_plain and not self._may_encrypt(row["due"].tenant):
                _name(self._refused, [_plain(row["due"])])
                continue
            try:
                stored = _resealed(self.db.keyring, Sealed(*(row[n] for n in Sealed._fields)))
            except (Corrupt, KeyMissing):
                self._damaged.add((table, *row["place"].values()))
                continue
            binds = dict(row["place"]) | {
                "p_was_codec": row["codec"],
                "p_was_checksum": row["checksum"],
                "p_codec": stored.codec,
                "p_checksum": stored.checksum,
                "p_payload" if table == "deltas" else "p_value": stored.payload,
                "p_field_terms": OTHERS,
            }
            grows = table == "deltas" and not sealing.is_sealed(row["codec"])
            changes.append(Change(self._reseal(table, row), binds, grows, row["due"]))
        return changes

    def _reseal(self, table: str, row: Mapping[str, Any]) -> Any:
        d, keyring = self.db.dialect, self.db.keyring
        words = "dropped" if row["has_words"] and not keyring.reveals("text") else "kept"
        if table == "deltas":
            return statements.reseal_delta(d, words=words)
        fields = "dropped" if row["has_fields"] and not keyring.reveals("fields") else "kept"
        return statements.reseal_item(d, words=words, fields=fields)

    # --- The database ------------------------------------------------------------------------

    async def _vectors(self) -> int:
        statement = statements.count_vectors(self.db.dialect, scope=self.scope)
        return int((await self._ask(statement, self.binds))[0][0])

    def _drop_vectors(self) -> Any:
        return statements.drop_vectors(self.db.dialect, scope=self.scope)

    async def _purge(self) -> None:
        """Rid the text indexes of words that are gone."""
        d = self.db.dialect
        indexes = [index for index in TEXT_INDEXES if d.text.purge(index) is not None]
        await self._write([Change(purge(d, index=index), {}) for index in indexes])

    async def _ask(self, statement: Any, binds: Mapping[str, Any]) -> Answer:
        def program() -> Program[Answer]:
            return (yield statement, binds)

        return await self.db.run(program, READ, event=self.event)

    async def _write(self, changes: Sequence[Change]) -> None:
        def program() -> Program[None]:
            for (statement, grows), alike in groupby(changes, lambda one: (one[0], one.grows)):
                binds = [change.binds for change in alike]
                if not grows:
                    yield statement, binds if len(binds) > 1 else binds[0]
                    continue
                for bound in binds:
                    # Whoever else writes the row anew waits from here on, and then for its size.
                    if (yield statement, bound).touched:
                        yield statements.grow_size(self.db.dialect), bound

        if changes:
            await self.db.run(program, WRITE_STORED, event=self.event)

    def _tell(self, more: int) -> None:
        self._done = min(self._done + more, self._total)
        if self._progress is not None:
            self._progress(Progress(self._done, self._total))


class Change(NamedTuple):
    """A statement with its binds."""

    statement: Any
    binds: dict[str, Any]
    grows: bool = False
    """The checkpoint's size grows with it."""
    due: Any = None
    """The row of `statements.list_rows` that it writes anew."""


def _as_read(due: Any, row: Any, payload: Any, place: dict[str, Any]) -> dict[str, Any]:
    return {
        "due": due,
        "place": place,
        "codec": row.codec,
        "checksum": row.checksum,
        "payload": bytes(payload),
        "has_words": due.has_words,
        "has_fields": due.has_fields,
    }


def _resealed(keyring: Keyring, stored: Sealed) -> Sealed:
    """The same under the first key; what is not sealed is held to its checksum."""
    if sealing.is_sealed(stored.codec):
        stored = keyring.open(*stored)
    elif stored.codec == items.CODEC:
        items.decode_item(stored.payload, stored.checksum, stored.codec)
    elif stored.codec == writes.CODEC:
        writes.decode_writes(stored.payload, stored.checksum, stored.codec)
    else:
        deltas.check_payload(stored.payload, stored.checksum)
    return keyring.seal(*stored)


def _plain(row: Any) -> PlainRow:
    """The name of a row of `statements.list_rows`; a row of no log that is there has no thread."""
    found = row._mapping
    return PlainRow(
        row.tenant,
        decode_namespace(row.namespace or "/"),
        thread_id=found.get("thread_id"),
        position=found.get("seq"),
        key=found.get("key"),
    )


def _name(named: dict[PlainRow, None], rows: Iterable[PlainRow]) -> None:
    for row in rows:
        if len(named) == NAMED:
            return
        named[row] = None


def _batches(rows: Sequence[Any]) -> Iterator[list[Any]]:
    """Rows that may be held at once."""
    batch: list[Any] = []
    size = 0
    for row in rows:
        if batch and (len(batch) == BATCH_ROWS or size + row.stored > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row.stored
    if batch:
        yield batch
