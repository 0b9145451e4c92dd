"""The rebuilding of words: what rows lack is made from their payloads, batch by batch."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, Literal, NamedTuple

from sqlalchemy import Executable

from memalchemy.codec.field_terms import OTHERS, field_terms
from memalchemy.codec.payloads import decode_payload
from memalchemy.codec.places import item_place, row_place
from memalchemy.codec.search_text import is_of_first_version, item_search_text
from memalchemy.contracts import Progress
from memalchemy.database import WRITE_ROWS, Database, off_loop
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict, Corrupt, KeyMissing, MemalchemyError, NotEncrypted
from memalchemy.events import operation
from memalchemy.keys import check_namespace, check_thread_id, encode_namespace
from memalchemy.log import Log
from memalchemy.log.reencoding import note_reencoding
from memalchemy.log.scan import batches, run_query, scan
from memalchemy.maintenance.stored_tenants import list_tenants
from memalchemy.maintenance.words.lost_words import Kind, delete_notes, read_lost_words
from memalchemy.maintenance.words.report import NAMED, WordlessNamespace, WordsReport
from memalchemy.maintenance.words.statements import (
    TABLES,
    count_wordless,
    give_delta_words,
    give_item_words,
    list_wordless,
    read_entries_of_range,
    read_wordless_items,
)
from memalchemy.maintenance.words.states_of_log import StatesOfLog
from memalchemy.protection.proven_jobs import ERRORS, Damage, is_damage
from memalchemy.search.scope import key_lists
from memalchemy.statements import Program

PAGE = 500
"""The number of rows that are listed together."""

BATCH_ROWS = 100
"""The number of rows whose words are written together, in one transaction."""

_KINDS = ("states", "entries", "items")


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
                    await delete_notes(db, self._lost)
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
