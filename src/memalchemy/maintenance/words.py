"""Rebuild words: the search text of rows, and the field terms of items, from their payloads.

An older release has made words by other rules. They are found as that release found them, and here
they are made anew, wherever there are some. Words that a checkpoint has taken over from pruned ones
are made from its state, if that has their text.

Words can be lost, too. A database that may not hold readable words has none: a rotation has removed
them, or rows were written without them. Once words are allowed again, they are made from the
payloads, as a save makes them.

Whether a row without words should have some is a setting of the class that wrote it,
``index_text``, which the database does not know. A rotation that removes words notes the namespaces
from which it removed some. Words of other namespaces are rebuilt only where the caller names them:
what was kept out of the readable words on purpose stays out.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    Text,
    and_,
    bindparam,
    func,
    literal_column,
    not_,
    or_,
    select,
    update,
)

from memalchemy._cache import BoundedCache
from memalchemy.checkpoints.load import load_chain
from memalchemy.checkpoints.rewrite import list_in_order
from memalchemy.checkpoints.skip_deltas import rebuild_checkpoint
from memalchemy.codec.field_terms import OTHERS, field_terms
from memalchemy.codec.first_tokens import first_tokens
from memalchemy.codec.payloads import decode_payload
from memalchemy.codec.places import item_place, row_place
from memalchemy.codec.search_text import (
    MARK,
    is_of_first_version,
    item_search_text,
    search_text,
    texts_of_state,
    words_in,
)
from memalchemy.codec.tokens import tokens
from memalchemy.codec.values import Parts, state_size
from memalchemy.contracts import Progress
from memalchemy.database import READ, WRITE_ROWS, Database, off_loop
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict, Corrupt, KeyMissing, MemalchemyError, NotEncrypted
from memalchemy.events import operation
from memalchemy.keys import (
    INTERNAL_RANGE,
    InternalNamespace,
    check_namespace,
    check_thread_id,
    encode_namespace,
)
from memalchemy.log import Log
from memalchemy.log.reencoding import note_reencoding
from memalchemy.log.scan import batches, run_query, scan
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    THREADS,
    column_binds,
    constants,
    of_log,
    same_log,
)
from memalchemy.maintenance.stored_tenants import list_tenants
from memalchemy.proofs import REPORTED
from memalchemy.protection.proven_jobs import ERRORS, Damage, is_damage
from memalchemy.protection.signed_reads import check_every_row
from memalchemy.rows import DELTA, ITEM
from memalchemy.search.scope import ITEMS, is_listed, key_lists, of_item
from memalchemy.statements import Program, after_key, column_bind, statement
from memalchemy.store import Store

LOST = InternalNamespace(("words",))
"""Namespace of the notes about namespaces whose words a rotation has removed."""

PAGE = 500
"""The number of rows that are listed together."""

BATCH_ROWS = 100
"""The number of rows whose words are written together, in one transaction."""

PARENTS_BYTES = 32 * 1024 * 1024
"""The bytes of states that are kept because the next ones grew out of them."""

NAMED = 1000
"""The number of namespaces that a report names."""

EVER = datetime.fromtimestamp(0, UTC)
"""As of this time nothing has expired: rows wait for a sweep, and are read as all others."""

Kind = Literal["logs", "items"]

_KINDS = ("states", "entries", "items")


@dataclass(frozen=True, slots=True)
class WordlessNamespace:
    """A namespace with rows that have texts and no words.

    Attributes:
        namespace: as it is stored: ``/`` is the default one, ``/a/b/`` is ``("a", "b")``.
        kind: ``logs`` (of checkpoints and entries) or ``items`` (of a store).
        rows: the number of such rows.
    """

    tenant: str
    kind: Kind
    namespace: str
    rows: int


@dataclass(frozen=True, slots=True)
class WordsReport:
    """The result of `rebuild_words`; of a dry run what would be done.

    Attributes:
        states: the checkpoints that have words again, or words by the rules of this release.
        entries: the entries that have.
        items: the items that have, or have field terms again.
        left: rows that were not rebuilt: they cannot be read, or others changed them meanwhile.
        unnamed: namespaces that were left as they are, because nobody said that they should have
            words, the first `NAMED`.
        damaged: those of *left* that are damaged or not what was signed.
    """

    states: int = 0
    entries: int = 0
    items: int = 0
    left: int = 0
    unnamed: tuple[WordlessNamespace, ...] = ()
    seconds: float = 0.0
    damaged: int = 0

    @property
    def rebuilt(self) -> int:
        """The number of rows that have words again."""
        return self.states + self.entries + self.items


async def rebuild_words(
    db: Database,
    *,
    namespaces: Iterable[Sequence[str]] = (),
    all_namespaces: bool = False,
    thread_id: str | None = None,
    index_text: bool | Iterable[str] = True,
    indexed_fields: Iterable[str] = (),
    all_tenants: bool = False,
    dry_run: bool = False,
    progress: Callable[[Progress], object] | None = None,
) -> WordsReport:
    """Rebuild the words and field terms that rows of *db* lack, from their payloads.

    Words by the rules of an older release are made anew. Other rows that have words are left alone.
    Field terms are rebuilt in all namespaces. Words that are missing are rebuilt where
    `rotate_keys` has removed some, and in *namespaces*. Others may read and write meanwhile: a row
    is written only if it is still what was read. Each batch is one transaction; killed at any time,
    the run goes on when it is run again. Versions and times stay as they are.

    Until no row of any tenant has words of an older release, searches go by both rules. Databases
    that are open then go by this release's alone when they are opened again.

    Args:
        namespaces: also rebuild the words of logs and items in these namespaces and below them.
        all_namespaces: in all namespaces, also where ``index_text=False`` keeps texts out of the
            words. In an encrypted database that makes them readable.
        thread_id: only the logs of this thread, and no items.
        index_text: the keys of states that have words, as `Checkpointer` takes it.
        indexed_fields: JSON pointers of the only fields that have field terms; none: all have.
        all_tenants: rebuild the words of every tenant, not only of that of *db*.
        dry_run: change nothing; say what lacks words.
        progress: called with rows done, and in all, as they were at the start.

    Raises:
        Conflict: *db* may hold neither words nor fields readable. Nothing was changed.
        ValueError: *thread_id* does not go with *all_tenants*.
        CapabilityMissing: *all_tenants*, and row-level security shows the role one of them.
        ReadOnly: *db* was opened read-only, and this is no *dry_run*.
    """
    if thread_id is not None:
        check_thread_id(thread_id)
        if all_tenants:
            raise ValueError("thread_id is of one tenant; it does not go with all_tenants")
    wanted = tuple(encode_namespace(check_namespace(tuple(one))) for one in namespaces)
    keyring = db.keyring
    if not (keyring.is_readable("text") or keyring.is_readable("fields")):
        raise Conflict(
            "this database may hold no readable words or fields, so none were rebuilt. Open it "
            'with readable=("text", "fields") (on the command line --readable text,fields) if it '
            "may."
        )
    if not dry_run:
        db.check_writable()
    databases = [db]
    if all_tenants:
        await db.check_sees_all_tenants("rebuilding the words of all tenants")
        databases = [db.for_tenant(tenant) for tenant in await list_tenants(db)]
    started = time.perf_counter()
    run = WordRebuild(
        "all" if all_namespaces else wanted,
        thread_id,
        index_text if isinstance(index_text, bool) else frozenset(index_text),
        frozenset(indexed_fields),
        dry_run=dry_run,
        progress=progress,
    )
    with operation("words", tenant=None if all_tenants else db.tenant, thread_id=thread_id):
        await run.run(databases)
        if not dry_run and thread_id is None and not run.left and keyring.is_readable("text"):
            await db.note_words()
    return run.report(time.perf_counter() - started)


async def has_words(db: Database, kind: Kind) -> bool:
    """Return whether a log or an item of the tenant has words."""
    binds = {"k_tenant": db.tenant, "p_limit": 1}
    return bool(await run_query(db, find_words(db.dialect, kind=kind), binds))


async def note_lost_words(db: Database, lost: Collection[tuple[Kind, str]]) -> None:
    """Note that words were removed from logs, or items, in namespaces as they are stored."""
    notes = [(LOST, _note_key(*one), list(one)) for one in sorted(lost)]
    if notes:
        await Store(db, index_text=False).put_batch(notes)


def _note_key(kind: Kind, namespace: str) -> str:
    # A namespace can be longer than a key.
    return sha256(f"{kind} {namespace}".encode()).hexdigest()


async def read_lost_words(db: Database) -> set[tuple[Kind, str]]:
    """Return the namespaces of the tenant from which a rotation has removed words."""
    return {
        (item.value[0], item.value[1])
        async for item in Store(db).iter_items(LOST)
        if isinstance(item.value, list)
    }


class NewWords(NamedTuple):
    """Words of a row that are to be written."""

    kind: Literal["states", "entries", "items"]
    statement: Executable
    binds: dict[str, Any]


@dataclass(slots=True)
class WordRebuild:
    """Run of the rebuilding of words over the tenants of a database, and its result."""

    _namespaces: tuple[str, ...] | Literal["all"]
    _thread_id: str | None
    _index_text: bool | frozenset[str]
    _indexed_fields: frozenset[str]
    dry_run: bool
    progress: Callable[[Progress], object] | None = None
    rebuilt: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    left: int = 0
    damaged: int = 0
    lost_words: int = 0
    """The rows that lack words."""
    _unnamed: dict[tuple[str, Kind, str], int] = field(default_factory=dict)
    lost_terms: int = 0
    """The items that lack field terms."""
    counts_unnamed: bool = True
    """Look, too, what the rows of namespaces lack that nobody has named."""
    renews: bool = True
    """Make words anew that are by the rules of an older release."""
    _done: int = 0
    _total: int = 0
    _lost: set[tuple[Kind, str]] = field(default_factory=set)
    """The namespaces that `read_lost_words` returns for the current tenant."""

    @classmethod
    def survey(cls, thread_id: str | None, *, counts_unnamed: bool) -> WordRebuild:
        """Return a run that looks for what is missing, with the settings that classes have."""
        return cls(
            *((), thread_id, True, frozenset()),
            dry_run=True,
            counts_unnamed=counts_unnamed,
            renews=False,
        )

    async def run(self, databases: Sequence[Database]) -> None:
        """Rebuild what rows lack, tenant by tenant."""
        for db in databases:
            self._total += await self._count_rows(db)
        self._tell_progress(0)
        for db in databases:
            self._lost = await read_lost_words(db)
            left = self.left
            if db.keyring.is_readable("text"):
                await self._rebuild_logs(db)
            if self._thread_id is None:
                await self._rebuild_items(db)
                if not self.dry_run and self.left == left and db.keyring.is_readable("text"):
                    await _delete_notes(db, self._lost)
        self._tell_progress(self._total)

    @property
    def unnamed_namespaces(self) -> list[WordlessNamespace]:
        """The namespaces with rows that lack words, and that nobody has named."""
        return [WordlessNamespace(*one, rows) for one, rows in self._unnamed.items()]

    def report(self, seconds: float) -> WordsReport:
        """Return what was done."""
        return WordsReport(
            **self.rebuilt,
            left=self.left,
            damaged=self.damaged,
            unnamed=tuple(self.unnamed_namespaces[:NAMED]),
            seconds=round(seconds, 3),
        )

    def _tell_progress(self, more: int) -> None:
        self._done = min(self._done + more, self._total)
        if self.progress is not None:
            self.progress(Progress(self._done, self._total))

    def _asks_for_words(self, kind: Kind, namespace: str) -> bool:
        if (kind, namespace) in self._lost or self._namespaces == "all":
            return True
        return namespace.startswith(tuple(self._namespaces))

    async def _count_rows(self, db: Database) -> int:
        scope = "tenant" if self._thread_id is None else "thread"
        tables = TABLES if self._thread_id is None else TABLES[:1]
        number = 0
        for table in tables:
            statement = count_wordless(db.dialect, table=table, scope=scope)
            number += (await run_query(db, statement, self._scope_binds(db)))[0][0]
        return number

    def _scope_binds(self, db: Database) -> dict[str, Any]:
        binds = {"k_tenant": db.tenant}
        return binds if self._thread_id is None else binds | {"k_thread_id": self._thread_id}

    async def _list_rows(self, db: Database, table: str) -> AsyncGenerator[Sequence[Any]]:
        scope = "tenant" if self._thread_id is None else "thread"
        key = ("log_id", "seq") if table == "deltas" else ("namespace", "key")
        unread = Damage()
        pages = scan(
            db,
            lambda after: list_wordless(db.dialect, table=table, scope=scope, after=after),
            self._scope_binds(db),
            key,
            size=PAGE,
            damage=unread,
        )
        async for page in pages:
            yield page
        self.left += len(unread.errors)
        self.damaged += len(unread.errors)

    async def _write_changes(
        self, db: Database, changes: Sequence[NewWords], examined: int
    ) -> None:
        """Write words in one transaction, of the rows that are still what was read."""

        def program() -> Program[dict[str, int]]:
            touched = dict.fromkeys(_KINDS, 0)
            logs = (change.binds["k_log_id"] for change in changes if change.kind != "items")
            yield from note_reencoding(db.dialect, logs)
            for change in changes:
                touched[change.kind] += (yield change.statement, change.binds).touched
            return touched

        if self.dry_run:
            for change in changes:
                self.rebuilt[change.kind] += 1
        elif changes:
            try:
                touched = await db.run(program, WRITE_ROWS)
            except ERRORS as error:
                # A row that its signature does not prove is not signed anew.
                if not is_damage(error):
                    raise
                if len(changes) > 1:
                    for change in changes:
                        await self._write_changes(db, [change], 0)
                else:
                    self._leave_unread(error)
            else:
                for kind, number in touched.items():
                    self.rebuilt[kind] += number
                self.left += len(changes) - sum(touched.values())
        self._tell_progress(examined)

    def _leave_unread(self, error: MemalchemyError) -> None:
        """Count a row that was left because of *error*."""
        self.left += 1
        self.damaged += not isinstance(error, (KeyMissing, NotEncrypted))

    # --- Logs ------------------------------------------------------------------------------------

    async def _rebuild_logs(self, db: Database) -> None:
        """Rebuild the words of states and entries, log by log."""
        log: Log | None = None
        states = StatesOfLog(db, Log(db.tenant, "", "/"), self._index_text)
        async for page in self._list_rows(db, "deltas"):
            for batch in batches(page, lambda row: row.stored, most_rows=BATCH_ROWS):
                changes: list[NewWords] = []
                for names, rows in groupby(batch, lambda row: (row.thread_id, row.namespace)):
                    looks = self.counts_unnamed or self._asks_for_words("logs", names[1])
                    some = [
                        row for row in rows if (looks if row.search_text is None else self.renews)
                    ]
                    if some and (log is None or log[1:] != names):
                        log = Log(db.tenant, *names)
                        states = StatesOfLog(db, log, self._index_text)
                    changes += await self._words_of_log(states, some)
                await self._write_changes(db, changes, len(batch))

    async def _words_of_log(self, states: StatesOfLog, rows: Sequence[Any]) -> list[NewWords]:
        """Return the words of rows of one log that have texts."""
        log = states.log
        found: list[NewWords] = []
        entries = {row.seq: row for row in rows if row.kind == "entry"}
        for row in rows:
            if row.kind == "entry":
                continue
            try:
                words = await states.words_at(row)
            except (Corrupt, KeyMissing, NotEncrypted) as error:
                self._leave_unread(error)
                continue
            if words is not None:
                was = row.search_text
                found.append(_delta_change("states", states.db.dialect, log, row, was, words))
        if entries:
            found += await self._words_of_entries(states.db, log, entries)
        lacking = [one for one in found if one.binds["p_was_length"] == 0]
        if lacking and not self._asks_for_words("logs", log.namespace):
            self._note_left_rows(states.db.tenant, "logs", log.namespace, len(lacking))
            found = [one for one in found if one.binds["p_was_length"]]
        self.lost_words += len(found)
        return found

    async def _words_of_entries(
        self, db: Database, log: Log, listed: Mapping[int, Any]
    ) -> list[NewWords]:
        found: list[NewWords] = []
        binds = log.binds() | {"p_low": min(listed), "p_high": max(listed)}
        rows = await run_query(db, read_entries_of_range(db.dialect), binds, identified_by=("seq",))
        for at, row in enumerate(rows):
            if row.seq not in listed:
                continue
            if at in rows.damaged:
                self.left += 1
                self.damaged += 1
                continue
            try:
                place = row_place(log.tenant, log.key, row.seq, "entry", None)
                value = _open_payload(db, row, bytes(row.payload), place)
            except (Corrupt, KeyMissing, NotEncrypted) as error:
                self._leave_unread(error)
                continue
            words = await off_loop(len(row.payload), partial(item_search_text, value, {}))
            if words is not None:
                was = listed[row.seq].search_text
                found.append(_delta_change("entries", db.dialect, log, row, was, words))
        return found

    def _note_left_rows(self, tenant: str, kind: Kind, namespace: str, number: int) -> None:
        name = tenant, kind, namespace
        self._unnamed[name] = self._unnamed.get(name, 0) + number

    # --- Items -----------------------------------------------------------------------------------

    async def _rebuild_items(self, db: Database) -> None:
        """Rebuild the words and field terms of items."""
        async for page in self._list_rows(db, "store_items"):
            for batch in batches(page, lambda row: row.stored, most_rows=BATCH_ROWS):
                changes: list[NewWords] = []
                names = [(row.namespace, row.key) for row in batch]
                for binds in key_lists(db.dialect, names):
                    rows = await run_query(
                        db,
                        read_wordless_items(db.dialect),
                        {"k_tenant": db.tenant} | binds,
                        identified_by=("namespace", "key"),
                    )
                    self.left += len(rows.damaged)
                    self.damaged += len(rows.damaged)
                    for at, row in enumerate(rows):
                        change = None if at in rows.damaged else await self._words_of_item(db, row)
                        changes += [] if change is None else [change]
                await self._write_changes(db, changes, len(batch))

    async def _words_of_item(self, db: Database, row: Any) -> NewWords | None:
        """Return the words and terms of an item, if it lacks some."""
        try:
            place = item_place(db.tenant, row.namespace, row.key, row.version)
            value = _open_payload(db, row, bytes(row.value), place)
        except (Corrupt, KeyMissing, NotEncrypted) as error:
            self._leave_unread(error)
            return None
        words, terms = row.search_text, row.field_terms
        asks = words is not None or self._asks_for_words("items", row.namespace)
        wanted = words is None or (self.renews and is_of_first_version(words))
        if wanted and db.keyring.is_readable("text") and (asks or self.counts_unnamed):
            words = await off_loop(len(row.value), partial(item_search_text, value, row.meta))
            if words is not None and not asks:
                self._note_left_rows(db.tenant, "items", row.namespace, 1)
                words = None
        if terms in (None, OTHERS) and db.keyring.is_readable("fields"):
            terms = field_terms(value, row.meta, self._indexed_fields)
        if (words, terms) == (row.search_text, row.field_terms):
            return None
        self.lost_terms += terms != row.field_terms
        self.lost_words += words != row.search_text
        binds = {
            "k_tenant": db.tenant,
            "k_namespace": row.namespace,
            "k_key": row.key,
            "p_version": row.version,
            "p_was_codec": row.codec,
            "p_was_checksum": row.checksum,
            "p_search_text": words,
            "p_field_terms": terms,
        }
        return NewWords("items", give_item_words(db.dialect), binds)


def _open_payload(db: Database, row: Any, payload: bytes, place: Any) -> Any:
    codec, checksum, opened = db.keyring.decrypt(row.codec, row.checksum, payload, place)
    return decode_payload(opened, checksum, codec)


def _delta_change(
    kind: Literal["states", "entries"],
    dialect: Dialect,
    log: Log,
    row: Any,
    was: str | None,
    words: str,
) -> NewWords:
    binds = log.binds() | {
        "p_seq": row.seq,
        "p_was_codec": row.codec,
        "p_was_checksum": row.checksum,
        "p_was_length": len(was or ""),
        "p_search_text": words,
    }
    return NewWords(kind, give_delta_words(dialect), binds)


async def _delete_notes(db: Database, lost: Collection[tuple[Kind, str]]) -> None:
    """Remove the notes about namespaces whose words are there again."""
    store = Store(db)
    for one in sorted(lost):
        await store.delete(LOST, _note_key(*one))


class StatesOfLog:
    """The states of one log, each compared with the one that it grew out of."""

    def __init__(self, db: Database, log: Log, index_text: bool | frozenset[str]) -> None:
        self.db, self.log = db, log
        self._index_text = index_text
        self._names: dict[str, int] | None = None
        """The positions of the checkpoints of the log by their ids, in order."""
        self._states: BoundedCache[str, Parts] = BoundedCache(
            PARENTS_BYTES, lambda parts: min(state_size(parts), PARENTS_BYTES)
        )

    async def words_at(self, row: Any) -> str | None:
        """Return the words of a checkpoint by the rules of this release.

        They are those that it added, as its save had them. If its row has words already, by the
        rules of an older release, they are those.
        """
        parts, parent = await self._load_with_parent(row)
        make: Callable[[], str | None] = partial(self._text_of_added, parts, parent)
        if row.search_text is not None:
            make = partial(_renewed, row.search_text, parts, parent)
        return await off_loop(state_size(parts), make)

    async def words_by_key(self, row: Any) -> list[set[str]]:
        """Return the words that a checkpoint added, apart for each key that has some.

        They are by the rules by which the words of its row are.
        """
        parts, parent = await self._load_with_parent(row)
        split = first_tokens if is_of_first_version(row.search_text) else tokens
        found = []
        for key, part in parts.items():
            make = partial(_words_of_part, {key: part}, parent, split)
            found.append(await off_loop(len(part), make))
        return [words for words in found if words]

    async def _load_with_parent(self, row: Any) -> tuple[Parts, Parts | None]:
        if row.checkpoint_id is None or not (self._index_text or row.search_text):
            return {}, None  # nobody can load this state, so nobody looks for it
        parts = await self._load_parts(row.checkpoint_id)
        before = None if parts is None else await self._checkpoint_before(row)
        return parts or {}, None if before is None else await self._load_parts(before)

    async def _checkpoint_before(self, row: Any) -> str | None:
        """Return the checkpoint that a save compared with: its parent, or else the one before it.

        A parent that was pruned has left its words to those after it.
        """
        if self._names is None:
            d, log = self.db.dialect, self.log
            check = partial(check_every_row, d, log, "checkpoints", self.db.signing)
            rows = await run_query(self.db, list_in_order(d), log.binds(), check=check)
            self._names = {one.checkpoint_id: one.seq for one in rows}
        if row.parent_id != row.checkpoint_id and row.parent_id in self._names:
            return str(row.parent_id)
        earlier = [name for name, seq in self._names.items() if seq < row.seq]
        return earlier[-1] if earlier else None

    async def _load_parts(self, checkpoint_id: str) -> Parts | None:
        parts = self._states.get(checkpoint_id)
        if parts is not None:
            return parts
        tip = await self.db.run(
            lambda: load_chain(self.db.dialect, self.log, checkpoint_id, EVER, self.db.signing),
            READ,
        )
        if tip is None:
            return None
        parts = rebuild_checkpoint(self.log, tip, self.db.keyring).parts()
        self._states.put(checkpoint_id, parts)
        return parts

    def _text_of_added(self, parts: Parts, parent: Parts | None) -> str | None:
        if not isinstance(self._index_text, bool):
            parts = {key: part for key, part in parts.items() if key in self._index_text}
        return search_text(texts_of_state(parts, parent))


def _words_of_part(
    parts: Parts, parent: Parts | None, split: Callable[[str], list[str]]
) -> set[str]:
    return {word for text in texts_of_state(parts, parent) for word in split(text)}


def _renewed(stored: str, parts: Parts, parent: Parts | None) -> str:
    """Return words of version 1, and no others, as this release makes them from a state.

    A save has added some; which keys had words is told by what is stored. The others were taken
    over from pruned checkpoints. Those whose text the state has no more stay as they are.
    """
    held = dict.fromkeys(words_in(stored))
    left, texts = dict(held), list[str]()
    for key, part in parts.items():
        own = list(texts_of_state({key: part}, parent))
        words = {word for text in own for word in first_tokens(text)}
        if words <= held.keys():
            texts += own
            left = {word: None for word in left if word not in words}
    taken_over = []
    for text in texts_of_state(parts) if left else ():
        for word in text.split():
            words = {*first_tokens(word)}
            if words <= held.keys() and not left.keys().isdisjoint(words):
                taken_over.append(word)
    covered = {token for word in taken_over for token in first_tokens(word)}
    gone = [word for word in left if word not in covered]
    return search_text([*gone, *taken_over, *texts]) or MARK


# --- Statements ----------------------------------------------------------------------------------

TABLES = ("deltas", "store_items")
SCOPES = ("tenant", "thread")


def _may_lack_words(dialect: Dialect, table: str, scope: str) -> ColumnElement[bool] | None:
    """Return the condition on rows that may lack words; ``None`` where there are none to look for.

    Items that are memalchemy's own have none.
    """
    if table == "deltas":
        names = ("tenant", "thread_id")[: 1 if scope == "tenant" else 2]
        return and_(
            *(THREADS.c[name] == column_bind(THREADS.c[name], "k") for name in names),
            _has_none_of_this_version(DELTAS),
            DELTAS.c.kind.not_in(constants("write")),
        )
    if scope == "thread":
        return None
    length = dialect.statements.byte_length(ITEMS.c.field_terms)
    own = and_(
        ITEMS.c.namespace >= literal_column(f"'{INTERNAL_RANGE[0]}'"),
        ITEMS.c.namespace < literal_column(f"'{INTERNAL_RANGE[1]}'"),
    )
    return and_(
        ITEMS.c.tenant == column_bind(ITEMS.c.tenant, "k"),
        not_(own),
        or_(
            _has_none_of_this_version(ITEMS),
            ITEMS.c.field_terms.is_(None),
            length <= literal_column(str(len(OTHERS)), Integer),
        ),
    )


def _has_none_of_this_version(table: Any) -> ColumnElement[bool]:
    """Return the condition that a row has no words by the rules of this release."""
    one = literal_column("1", Integer)
    first = func.substr(table.c.search_text, one, one, type_=Text)
    return or_(table.c.search_text.is_(None), first != literal_column(f"'{MARK}'", Text))


def _source_table(table: str) -> Any:
    return ITEMS if table == "store_items" else DELTAS.join(THREADS, same_log(THREADS, DELTAS))


@statement(table=TABLES, scope=SCOPES)
def count_wordless(dialect: Dialect, table: str, scope: str) -> Executable | None:
    """Count the rows that may lack words."""
    where = _may_lack_words(dialect, table, scope)
    return (
        None
        if where is None
        else select(func.count()).select_from(_source_table(table)).where(where)
    )


@statement(proves="changed row", table=TABLES, scope=SCOPES, after=(True, False))
def list_wordless(dialect: Dialect, table: str, scope: str, after: bool) -> Executable | None:
    """Select a page of the rows that may lack words of this version, in the order of their keys."""
    where = _may_lack_words(dialect, table, scope)
    if where is None:
        return None
    if table == "store_items":
        rows: Any = ITEMS
        key: tuple[str, ...] = ("namespace", "key")
        columns = [*(ITEMS.c[name] for name in key), ITEMS.c.value]
    else:
        at = and_(same_log(CHECKPOINTS, DELTAS), CHECKPOINTS.c.seq == DELTAS.c.seq)
        rows, key = _source_table(table).outerjoin(CHECKPOINTS, at), ("log_id", "seq")
        columns = [
            *(DELTAS.c[name] for name in (*key, "kind", "codec", "checksum")),
            *(THREADS.c[name] for name in ("thread_id", "namespace")),
            *(CHECKPOINTS.c[name] for name in ("checkpoint_id", "parent_id")),
            DELTAS.c.search_text,
            DELTAS.c.payload,
        ]
    stored = dialect.statements.byte_length(columns.pop()).label("stored")
    query = select(*columns, stored).select_from(rows).where(where)
    source = ITEMS if table == "store_items" else DELTAS
    if after:
        query = query.where(after_key(dialect, source, key))
    return query.order_by(*(source.c[name] for name in key)).limit(bindparam("p_limit"))


@statement(unproven=REPORTED, kind=("logs", "items"))
def find_words(dialect: Dialect, kind: str) -> Executable:
    """Select a row of a tenant that has words."""
    names, rows, words = ITEMS, _source_table("store_items"), ITEMS.c.search_text
    if kind == "logs":
        names, rows, words = THREADS, _source_table("deltas"), DELTAS.c.search_text
    here = names.c.tenant == column_bind(names.c.tenant, "k")
    found = select(names.c.namespace).select_from(rows).where(here, words.is_not(None))
    return found.limit(bindparam("p_limit"))


@statement(proves="changed row")
def read_entries_of_range(dialect: Dialect) -> Executable:
    """Select the entries of a range of positions of a log."""
    seq = DELTAS.c.seq
    low, high = (bindparam(name, type_=seq.type) for name in ("p_low", "p_high"))
    columns = (DELTAS.c[name] for name in ("seq", "codec", "checksum", "payload"))
    entries = DELTAS.c.kind.in_(constants("entry"))
    return select(*columns).where(of_log(DELTAS), entries, seq >= low, seq <= high).order_by(seq)


@statement(proves="changed row")
def read_wordless_items(dialect: Dialect) -> Executable:
    """Select the items of a tenant that ``p_keys`` lists, with their words, expired ones too."""
    columns = ("namespace", "key", "meta", "version", "codec", "checksum")
    tenant = ITEMS.c.tenant == column_bind(ITEMS.c.tenant, "k")
    return select(
        *(ITEMS.c[name] for name in (*columns, "search_text", "field_terms", "value"))
    ).where(tenant, is_listed(dialect, ITEMS))


def _is_as_read(table: Any) -> list[ColumnElement[bool]]:
    return [
        table.c[name] == bindparam(f"p_was_{name}", type_=table.c[name].type)
        for name in ("codec", "checksum")
    ]


@statement(changes=DELTA)
def give_delta_words(dialect: Dialect) -> Executable:
    """Set the words of a row of a log that has none of this version, if it is as it was read.

    The words that it takes over from pruned checkpoints make its text longer.
    """
    here = DELTAS.c.seq == column_bind(DELTAS.c.seq, "p")
    length = func.coalesce(func.length(DELTAS.c.search_text), literal_column("0", Integer))
    same_text = length == bindparam("p_was_length", type_=Integer)
    none = _has_none_of_this_version(DELTAS)
    changing = update(DELTAS).where(of_log(DELTAS), here, none, same_text, *_is_as_read(DELTAS))
    return changing.values(column_binds(DELTAS, ["search_text"]))


@statement(changes=ITEM)
def give_item_words(dialect: Dialect) -> Executable:
    """Set the words and field terms of an item, if it is still what was read."""
    version = ITEMS.c.version == column_bind(ITEMS.c.version, "p")
    changing = update(ITEMS).where(of_item(ITEMS), version, *_is_as_read(ITEMS))
    return changing.values(column_binds(ITEMS, ["search_text", "field_terms"]))
