"""`ImportTarget`: writes what an importer has read elsewhere into a database, and compares it.

An importer reads `ImportedLog`, `ImportedThread` and `Items` records; all importers write them
here. No progress is stored: what an earlier import wrote is recognised, so an interrupted import
continues when it is run again, and a repeated one imports what is new.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count, groupby
from typing import Any, Literal, NamedTuple, Self

from memalchemy.checkpoints import Checkpointer
from memalchemy.codec.values import encode_value
from memalchemy.contracts import (
    MAX_LIMIT,
    Entry,
    LogReading,
    NewItem,
    PendingWrite,
    StoreItem,
    check_time,
)
from memalchemy.database import Database, HostConnection
from memalchemy.errors import (
    Conflict,
    Corrupt,
    MemalchemyError,
    ThreadDeleted,
)
from memalchemy.importers.log_times import LogTimes, date_logs
from memalchemy.importers.unreadable import UNREADABLE, Unusable, describe_problem
from memalchemy.keys import check_entry_key
from memalchemy.store import Store
from memalchemy.threads import ThreadLog
from memalchemy.threads.entry_rows import entry_binds

OnConflict = Literal["error", "skip", "replace"]
Status = Literal["imported", "resumed", "unchanged", "replaced", "skipped", "conflict", "bad"]
Kind = Literal["log", "thread", "item"]

BATCH = 500
"""Entries that are written, and read back, together."""

_OF_CONFLICTS: dict[OnConflict, Status] = {
    "error": "conflict",
    "skip": "skipped",
    "replace": "replaced",
}
_DIFFERENT = "it exists and holds something else"
_FORKED = "it went on here and in the source"
_CHANGED = "another process changed it while it was imported"
_FAILURES = (Conflict, ThreadDeleted, *UNREADABLE)
"""Errors that end the import of one record, and not of the others."""
_NOTHING_LEFT = "nothing of it can be read and stored"
_LOSSY = "would read back as something else"
_REHEARSALS = 200
"""Records that are tried in one database in memory, before another one takes its place."""


@dataclass(frozen=True, slots=True)
class ImportedEntry:
    """Entry of a log, with the key by which a later import recognises it."""

    key: str
    value: Any
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class ImportedLog:
    """Entries of a log, in order: a session, a conversation.

    Args:
        items: makes the store items that are written after the entries, of their positions.
        left_out: names of entries that the source has and nobody can read, each with the reason.
        label: its name in messages, in place of the thread id.
    """

    namespace: tuple[str, ...]
    thread_id: str
    entries: Sequence[ImportedEntry]
    items: Callable[[Sequence[int]], Iterable[NewItem]] | None = None
    left_out: Sequence[str] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """State of a thread at one moment; ``parent_id`` may name one that is not there.

    ``writes`` are the pending writes of the step after it, ``writes_made_at`` is their ``made_at``,
    and ``options`` are others of `Checkpointer.save`. ``left_out`` names the writes that nobody can
    read.
    """

    checkpoint_id: str
    state: Any
    occurred_at: datetime | None
    parent_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    writes: Sequence[PendingWrite] = ()
    writes_made_at: datetime | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    left_out: Sequence[str] = ()


class WritesThere(NamedTuple):
    """Result of a comparison of the pending writes that a checkpoint has with those of the source.

    ``missing`` are those that have to be put, and ``went_on`` says that there are others.
    """

    missing: Sequence[PendingWrite] = ()
    went_on: bool = False


def _no_writes(there: Sequence[PendingWrite], given: Sequence[PendingWrite]) -> WritesThere | None:
    return WritesThere(went_on=bool(there))


@dataclass(frozen=True, slots=True)
class ImportedThread:
    """Checkpoints of a thread, which are read one by one: together they may be large.

    Args:
        checkpoint_ids: their ids, oldest first.
        load: reads the checkpoint of an id; ``None`` if it is not there any more. An error of
            `UNREADABLE` leaves it out.
        options: those of its `Checkpointer`.
        below: the logs of the same thread in namespaces below, which are imported, replaced or left
            together with it. ``None``: what is in namespaces below is no part of it.
        compare_writes: compares the pending writes of a checkpoint that is there with those of the
            source; ``None`` if they contradict each other.
        on_save: called after each checkpoint that was saved, or in a dry run would be.
    """

    namespace: tuple[str, ...]
    thread_id: str
    checkpoint_ids: Sequence[str]
    load: Callable[[str], Awaitable[NewCheckpoint | None]]
    options: Mapping[str, Any] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    label: str = ""
    below: Sequence[ImportedThread] | None = None
    compare_writes: Callable[
        [Sequence[PendingWrite], Sequence[PendingWrite]], WritesThere | None
    ] = _no_writes
    on_save: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """Store items that belong together; each is compared and written for itself.

    Args:
        left_out: as for `ImportedLog`.
        renewable: an item that an earlier import wrote gives way to a later one, and one that was
            written here since stays. The two are told apart by their metadata, so those of the
            items must be some that the framework's adapter does not write.
    """

    items: Sequence[NewItem]
    label: str
    left_out: Sequence[str] = ()
    renewable: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """Value that an adapter or a native class reads and writes as a whole, such as a fact.

    Args:
        value: what *read* returns once it is written.
        read: returns what the target has in its place, ``None`` if nothing. It and *write* are
            called with the database and with what is put before every thread id.
        write: stores the value in place of what *read* returned, which is its third argument. It
            raises `Conflict` if that is not there any more.
        covers: returns whether what is there has the value and went on since, as a conversation
            does that was continued. Without it, only an equal value is the same.
        extends: returns whether the value is what is there and more: the source went on since an
            earlier import. Without it, every value that differs is a conflict.
        missing: counts what *write* adds to what is there, for `Outcome.written`; 1 without it.
        left_out: as for `ImportedLog`.
        unreadable: the number of parts that are left out besides, for the *reason*.
        logs: returns the logs in which the value is stored, with the times of its content. It is
            called with the database and with what is put before every thread id.
        parts: names of the parts that the value is made of, such as the events of a session.
        with_parts: returns the record with those of its parts at some indexes alone. If a record
            cannot be stored, the parts that are to blame are found by it, and left out.
    """

    kind: Kind
    label: str
    value: Any
    read: Callable[[Database, str], Awaitable[Any]]
    write: Callable[[Database, str, Any], Awaitable[Any]]
    covers: Callable[[Any], bool] | None = None
    extends: Callable[[Any], bool] | None = None
    missing: Callable[[Any], int] | None = None
    left_out: Sequence[str] = ()
    unreadable: int = 0
    reason: str = ""
    logs: Callable[[Database, str], Iterable[LogTimes]] | None = None
    parts: Sequence[str] = ()
    with_parts: Callable[[Sequence[int]], Whole] | None = None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Record that the source has and nobody can read: it is left out, and named."""

    kind: Kind
    label: str
    problem: str
    left_out: Sequence[str] = ()


Record = ImportedLog | ImportedThread | Items | Whole | Unreadable


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """Result for one record.

    The target had none of it (``imported``), its first part (``resumed``), all (``unchanged``), or
    something else, which was replaced (``replaced``) or stays (``skipped``, ``conflict``). ``bad``
    cannot be read, or not be stored. ``written`` counts entries, checkpoints and items that were
    written and read back, or in a dry run would be; ``unreadable`` those that the source has and
    that are left out. ``left_out`` names them, each with the reason; those that have no name are
    left out for the ``reason``. ``pending_writes`` counts those that were written.
    """

    kind: Kind
    name: str
    status: Status
    written: int = 0
    pending_writes: int = 0
    unreadable: int = 0
    problem: str | None = None
    reason: str = "not readable"
    left_out: tuple[str, ...] = ()


class ImportTarget:
    """Database that is imported into.

    Before its first write, each record is compared with what is there. One of which exactly the
    first part is there is completed; one that is all there, and may have gone on since, is left;
    and one that is anything else is a conflict. All that is written is read back and compared.
    Checkpoints that were removed, here or in the source, while later ones stayed are not missed.
    What cannot be read or stored is left out and named, and the rest of its record is imported.

    A dry run, and every `Whole`, is tried in an empty database in memory, so that a dry run says
    what an import does, and nothing is written of what would not read back. As a context manager
    (``async with Target(…) as target``) it keeps that database for many records.

    Args:
        db: the database, on any dialect.
        prefix: put before every thread id.
        on_conflict: ``"error"`` and ``"skip"`` leave what is there, and differ in the status that
            they report; ``"replace"`` replaces it.
        dry_run: write nothing.
        index_text: make what is imported searchable by its words.
    """

    def __init__(
        self,
        db: Database,
        *,
        prefix: str = "",
        on_conflict: OnConflict = "error",
        dry_run: bool = False,
        index_text: bool = True,
    ) -> None:
        if on_conflict not in ("error", "skip", "replace"):
            raise ValueError(f"on_conflict is 'error', 'skip' or 'replace', not {on_conflict!r}")
        self.db = db
        self.prefix = prefix
        self.on_conflict = on_conflict
        self.dry_run = dry_run
        self.index_text = index_text
        self._keeps = False
        self._held: Database | None = None
        self._rehearsals = count()

    async def write(self, record: Record) -> ImportOutcome:
        """Import a record, and return what became of it.

        Raises:
            Corrupt: the database returns something else than was written.
            MemalchemyError: of the database. What was written stays, and another import completes
                it.
        """
        if isinstance(record, Unreadable):
            return ImportOutcome(
                record.kind,
                record.label,
                "bad",
                unreadable=max(1, len(record.left_out)),
                problem=record.problem,
                left_out=tuple(record.left_out),
            )
        outcome = ImportOutcome(
            _kind_of(record), record.label, "bad", left_out=tuple(record.left_out)
        )
        if isinstance(record, Whole):
            outcome = replace(outcome, reason=record.reason or outcome.reason)
        done = await self._import_record(record, outcome)
        unreadable = done.unreadable + len(done.left_out)
        return replace(done, unreadable=unreadable + getattr(record, "unreadable", 0))

    async def _import_record(
        self, record: ImportedLog | ImportedThread | Items | Whole, outcome: ImportOutcome
    ) -> ImportOutcome:
        try:
            if isinstance(record, (ImportedLog, ImportedThread)) and not record.label:
                outcome = replace(outcome, name=self.prefix + record.thread_id)
            if isinstance(record, ImportedLog):
                return await self._write_log(record, outcome)
            if isinstance(record, ImportedThread):
                return await self._write_thread(record, outcome)
            if isinstance(record, Whole):
                return await self._write_whole(record, outcome)
            return await self._write_items(record, outcome)
        except _FAILURES as error:
            return _failed_outcome(outcome, error)

    async def __aenter__(self) -> Self:
        self._keeps = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._keeps = False
        await self._end_rehearsals()

    async def _end_rehearsals(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            await held.close()

    @asynccontextmanager
    async def rehearsal(self) -> AsyncIterator[Database]:
        """Open an empty database in memory, in which a record is tried."""
        number = next(self._rehearsals)
        if number % _REHEARSALS == 0:
            await self._end_rehearsals()
        if self._held is None:
            self._held = Database("sqlite://")
        try:
            yield self._held.for_tenant(f"rehearsal-{number}")
        finally:
            if not self._keeps:
                await self._end_rehearsals()

    # --- Logs ------------------------------------------------------------------------------------

    async def _write_log(self, given: ImportedLog, outcome: ImportOutcome) -> ImportOutcome:
        log = ThreadLog(self.db, namespace=given.namespace, index_text=self.index_text)
        thread_id = self.prefix + given.thread_id
        refused = {
            at: why for at, one in enumerate(given.entries) if (why := _refusal_of_entry(one))
        }
        if refused:
            outcome = replace(
                outcome,
                left_out=(
                    *outcome.left_out,
                    *(f"{given.entries[at].key}: {why}" for at, why in refused.items()),
                ),
            )
            if len(refused) == len(given.entries):
                return replace(outcome, problem=next(iter(refused.values())))
            kept = [one for at, one in enumerate(given.entries) if at not in refused]
            given = replace(given, entries=kept, items=_items_of_kept_entries(given.items, refused))
        reading = await log.read(thread_id)
        # The number of entries that are there already, from the first; None if others are.
        there = _count_there(reading.entries, given.entries)
        status = self._status_of_parts(there, len(given.entries))
        outcome = replace(outcome, status=status)
        if status in ("skipped", "conflict"):
            return replace(outcome, problem=_DIFFERENT)
        if refused and status == "replaced":  # by less than what was to be there
            return replace(outcome, status="bad", problem=next(iter(refused.values())))
        outcome = replace(outcome, written=len(given.entries) - (there or 0))
        if self.dry_run:
            return outcome
        if there is None:
            async with self.db.transaction() as tx:  # it is replaced as a whole, or stays
                positions = await self._write_entries(log, thread_id, given.entries, reading, 0, tx)
        else:
            positions = await self._write_entries(log, thread_id, given.entries, reading, there)
        if given.items is not None:
            empty = replace(outcome, left_out=())
            beside = await self._write_items(Items([*given.items(positions)], ""), empty)
            left_out = (*outcome.left_out, *beside.left_out)
            outcome = replace(outcome, problem=beside.problem, left_out=left_out)
        if outcome.written:
            times = [entry.occurred_at for entry in given.entries]
            await date_logs(self.db, LogTimes.of(given.namespace, thread_id, times))
        return outcome

    async def _write_entries(
        self,
        log: ThreadLog,
        thread_id: str,
        entries: Sequence[ImportedEntry],
        reading: LogReading,
        there: int,
        replacing: HostConnection | None = None,
    ) -> list[int]:
        """Write the missing entries in batches, read each back, and return all positions.

        With the transaction *replacing*, the first batch replaces what is there.
        """
        positions = [entry.position for entry in reading.entries[:there]]
        for start in range(there, len(entries), BATCH):
            some = entries[start : start + BATCH]
            values = [entry.value for entry in some]
            options: dict[str, Any] = {
                "keys": [entry.key for entry in some],
                "occurred_at": [entry.occurred_at for entry in some],
                "expected_version": reading.version,
                "connection": replacing,
            }
            if replacing is not None and start == 0:
                positions += await log.replace_suffix(thread_id, 0, values, **options)
            else:
                positions += await log.append(thread_id, values, **options)
            reading = await log.read(thread_id, reading, connection=replacing)
            written = reading.entries[-len(some) :]
            if [entry.position for entry in written] != positions[-len(some) :]:
                raise Conflict(_CHANGED)
            if _count_there(written, some) != len(some):
                raise _not_as_written(f"log {thread_id!r}")
        return positions

    # --- Threads of checkpoints ------------------------------------------------------------------

    async def _write_thread(self, given: ImportedThread, outcome: ImportOutcome) -> ImportOutcome:
        thread_id = self.prefix + given.thread_id
        logs, here = [_Readable(given)], [self._checkpointer_for(given, self.db)]
        nowhere: list[str] = []  # namespaces that no log can have
        for one in given.below or ():
            try:
                here.append(self._checkpointer_for(one, self.db))
            except UNREADABLE as error:
                nowhere.append(f"namespace {'/'.join(one.namespace)}: {describe_problem(error)}")
            else:
                logs.append(_Readable(one))
        plans = [
            await _plan_of_log(log, one, thread_id) for log, one in zip(logs, here, strict=True)
        ]
        outcome = replace(
            outcome,
            status=self._status_of_thread(plans),
            left_out=(*outcome.left_out, *nowhere),
        )
        if outcome.status in ("skipped", "conflict"):
            problems = [plan.problem for plan in plans if plan.problem is not None]
            outcome = replace(outcome, problem=problems[0] if problems else _FORKED)
            return _with_left_out(outcome, logs)
        if outcome.status == "replaced":
            plans = [_Plan(missing=log.given.checkpoint_ids) for log in logs]
        counts = _Counts()
        replaces = outcome.status == "replaced"
        try:
            if self.dry_run:
                await self._rehearse_plans(logs, thread_id, plans, counts, replaces=replaces)
            elif replaces:
                below = given.below is not None
                await self._replace_thread(logs, here, thread_id, plans, counts, below=below)
            else:
                await self._write_plans(logs, here, thread_id, plans, counts)
        except _FAILURES as error:
            if replaces:
                counts = _Counts()
            outcome = _failed_outcome(outcome, error)
        if counts.checkpoints and not self.dry_run:
            for log in logs:
                times = log.times.values()
                await date_logs(self.db, LogTimes.of(log.given.namespace, thread_id, times))
        outcome = _with_left_out(outcome, logs)
        is_new = outcome.status in ("imported", "unchanged") and not any(
            plan.exists for plan in plans
        )
        if outcome.left_out and is_new and not counts.checkpoints:
            outcome = replace(outcome, status="bad", problem=outcome.left_out[0])
        gone = sum(len(log.gone) for log in logs)
        return replace(
            outcome,
            written=counts.checkpoints,
            pending_writes=counts.writes,
            unreadable=gone,
        )

    def _checkpointer_for(self, given: ImportedThread, db: Database) -> Checkpointer:
        options = {"index_text": self.index_text, **given.options}
        if not self.index_text:
            options["index_text"] = False
        return Checkpointer(db, namespace=given.namespace, **options)

    def _status_of_thread(self, plans: Sequence[_Plan]) -> Status:
        missing = any(plan.missing or plan.writes for plan in plans)
        went_on = any(plan.went_on for plan in plans)  # with what is missing, it would be two
        if any(plan.problem for plan in plans) or (missing and went_on):
            return _OF_CONFLICTS[self.on_conflict]
        if not missing:
            return "unchanged"
        return "resumed" if any(plan.exists for plan in plans) else "imported"

    async def _rehearse_plans(
        self,
        logs: Sequence[_Readable],
        thread_id: str,
        plans: Sequence[_Plan],
        counts: _Counts,
        *,
        replaces: bool,
    ) -> None:
        async with self.rehearsal() as db:
            tried = [self._checkpointer_for(one.given, db) for one in logs]
            await self._write_plans(logs, tried, thread_id, plans, counts, replaces=replaces)
            if replaces and not counts.checkpoints:
                raise Unusable(_NOTHING_LEFT)

    async def _replace_thread(
        self,
        logs: Sequence[_Readable],
        checkpointers: Sequence[Checkpointer],
        thread_id: str,
        plans: Sequence[_Plan],
        counts: _Counts,
        *,
        below: bool,
    ) -> None:
        """Replace a thread as a whole, or leave it as it is."""
        async with self.db.transaction() as tx:
            await checkpointers[0].delete(
                thread_id, all_namespaces=False, below=below, connection=tx
            )
            await self._write_plans(
                logs, checkpointers, thread_id, plans, counts, tx, replaces=True
            )
            if not counts.checkpoints:
                raise Unusable(_NOTHING_LEFT)

    async def _write_plans(
        self,
        logs: Sequence[_Readable],
        checkpointers: Sequence[Checkpointer],
        thread_id: str,
        plans: Sequence[_Plan],
        counts: _Counts,
        connection: HostConnection | None = None,
        *,
        replaces: bool = False,
    ) -> None:
        for log, checkpointer, plan in zip(logs, checkpointers, plans, strict=True):
            await self._write_plan(
                log, checkpointer, thread_id, plan, counts, connection, replaces=replaces
            )

    async def _write_plan(
        self,
        log: _Readable,
        checkpointer: Checkpointer,
        thread_id: str,
        plan: _Plan,
        counts: _Counts,
        connection: HostConnection | None,
        *,
        replaces: bool,
    ) -> None:
        """Write what a log lacks: first pending writes of checkpoints that are there."""
        given = log.given
        for checkpoint_id, missing in plan.writes.items():
            one = await log.load(checkpoint_id)
            if one is None:
                continue
            if not self.dry_run:
                await _put_writes(checkpointer, thread_id, one, missing, connection)
                await _read_back(given, checkpointer, thread_id, one, connection)
            counts.writes += len(missing)
        first = not plan.exists
        for checkpoint_id in plan.missing:
            one = await log.load(checkpoint_id)
            if one is None:
                continue
            rests = one.options.get("rests_on_parent")
            if rests and one.parent_id in log.left_out:
                log.leave(checkpoint_id, Unusable("rests on a checkpoint that is left out"))
                continue
            if self.dry_run and plan.exists and rests:
                one = replace(one, options={**one.options, "rests_on_parent": False})
            try:
                # A deleted thread begins anew with a checkpoint that names no parent.
                parent_id = None if first and not rests else one.parent_id
                await _save_checkpoint(checkpointer, thread_id, one, parent_id, connection)
            except UNREADABLE as error:
                log.leave(checkpoint_id, error)
                if replaces:  # by less than what was to be there
                    raise
                continue
            await _read_back(given, checkpointer, thread_id, one, connection)
            first = False
            counts.checkpoints += 1
            counts.writes += len(one.writes)
            if given.on_save is not None:
                given.on_save()

    # --- Items -----------------------------------------------------------------------------------

    async def _write_items(self, given: Items, outcome: ImportOutcome) -> ImportOutcome:
        """Import each item for itself: one that differs does not keep the others back."""
        store = Store(self.db)
        left_out = list(outcome.left_out)
        there, readable = await _items_there(store, given.items, left_out)
        items = {(item.namespace, item.key): item for item in readable}
        missing, different = [], []
        for name, item in items.items():
            if name not in there or (given.renewable and _is_outdated(there[name], item)):
                missing.append(item)
            elif not (_is_same_or_later if given.renewable else _is_same_item)(there[name], item):
                different.append(item)
        status = self._status_of_parts(None if different else len(items) - len(missing), len(items))
        new = [*missing, *different] if status == "replaced" else missing
        problem = None
        if status in ("skipped", "conflict"):
            problem = f"{len(different):,} of {len(items):,} exist and hold something else"
        if self.dry_run:
            async with self.rehearsal() as db:
                written = await self._put_items(Store(db), new, left_out)
        else:
            written = await self._put_items(store, new, left_out)
        if left_out and status != "conflict" and len(items) == len(new) and not written:
            status, problem = "bad", left_out[0]
        return replace(
            outcome,
            status=status,
            written=len(written),
            problem=problem,
            left_out=tuple(left_out),
        )

    async def _put_items(
        self, store: Store, items: Sequence[NewItem], left_out: list[str]
    ) -> list[NewItem]:
        """Write those of the items that can be stored, and return them."""
        if not items:
            return []
        try:
            await store.put_batch(items, index=None if self.index_text else False)
        except UNREADABLE as error:
            if len(items) == 1:
                left_out.append(f"{_name_of(items[0])}: {describe_problem(error)}")
                return []
            half = len(items) // 2
            halves = items[:half], items[half:]
            return [one for some in halves for one in await self._put_items(store, some, left_out)]
        names = [(item.namespace, item.key) for item in items]
        back = await store.get_items(names, refresh=False)
        for name, item in zip(names, items, strict=True):
            if name not in back or not _is_same_item(back[name], item):
                raise _not_as_written(_name_of(item))
        return list(items)

    # --- Values of adapters ----------------------------------------------------------------------

    async def _write_whole(self, given: Whole, outcome: ImportOutcome) -> ImportOutcome:
        found = await _await_adapter(given.read(self.db, self.prefix))
        try:
            status = self._status_of_whole(given, found)
        except UNREADABLE:  # a part of it that is left out below
            status = "conflict"
        if status != "unchanged":
            kept, left_out = await self._without_unstorable_parts(given)
            outcome = replace(outcome, left_out=(*outcome.left_out, *left_out))
            if left_out:
                given, status = kept, self._status_of_whole(kept, found)
            if left_out and status == "replaced":
                return replace(outcome, problem=left_out[0])
        outcome = replace(outcome, status=status)
        if status in ("skipped", "conflict"):
            return replace(outcome, problem=_DIFFERENT)
        if status == "unchanged":
            return outcome
        before = found if status == "resumed" else None
        written = 1 if given.missing is None else given.missing(before)
        outcome = replace(outcome, written=written)
        if self.dry_run:
            return outcome
        await _await_adapter(given.write(self.db, self.prefix, found))
        if not _is_same(await _await_adapter(given.read(self.db, self.prefix)), given.value):
            raise _not_as_written(given.label)
        if given.logs is not None:
            await date_logs(self.db, given.logs(self.db, self.prefix))
        return outcome

    async def _without_unstorable_parts(self, given: Whole) -> tuple[Whole, list[str]]:
        """Return a record without the parts that cannot be stored, and the names of these.

        Raises:
            Unusable: it cannot be stored, whichever of its parts are left out.
        """
        problem = await self._problem_of(given)
        if problem is None:
            return given, []
        parts = given.with_parts
        if parts is None or not given.parts or await self._problem_of(parts([])) is not None:
            raise Unusable(problem)
        bad: dict[int, str] = {}
        pending = [range(len(given.parts))]
        while pending:
            some = pending.pop()
            why = await self._problem_of(parts(some))
            if why is not None and len(some) == 1:
                bad[some[0]] = why
            elif why is not None:
                half = len(some) // 2
                pending += [some[:half], some[half:]]
        kept = parts([at for at in range(len(given.parts)) if at not in bad])
        if not bad or await self._problem_of(kept) is not None:
            raise Unusable(problem)
        return kept, [f"{given.parts[at]}: {why}" for at, why in sorted(bad.items())]

    async def _problem_of(self, given: Whole) -> str | None:
        """Return why a record cannot be stored; ``None`` if it can."""
        async with self.rehearsal() as db:
            try:
                await _await_adapter(given.write(db, self.prefix, None))
                if _is_same(await _await_adapter(given.read(db, self.prefix)), given.value):
                    return None
            except (MemalchemyError, *UNREADABLE) as error:
                return describe_problem(error)
        return _LOSSY

    def _status_of_whole(self, given: Whole, found: Any) -> Status:
        if found is None:
            return "imported"
        if _is_same(found, given.value) or (given.covers is not None and given.covers(found)):
            return "unchanged"
        if given.extends is not None and given.extends(found):
            return "resumed"
        return _OF_CONFLICTS[self.on_conflict]

    def _status_of_parts(self, there: int | None, total: int) -> Status:
        """Return the status of a record of which *there* parts exist; ``None``: other parts do."""
        if there is None:
            return _OF_CONFLICTS[self.on_conflict]
        if there == total:
            return "unchanged"
        return "resumed" if there else "imported"


def _kind_of(record: ImportedLog | ImportedThread | Items | Whole) -> Kind:
    if isinstance(record, Whole):
        return record.kind
    if isinstance(record, ImportedLog):
        return "log"
    return "thread" if isinstance(record, ImportedThread) else "item"


def _count_there(entries: Sequence[Entry], given: Sequence[ImportedEntry]) -> int | None:
    """Count the entries that a log has; return ``None`` if it has anything else.

    A log that went on after it was imported has all of them.
    """
    same = all(
        entry.key == one.key
        and entry.occurred_at == one.occurred_at
        and _is_same(entry.value, one.value)
        for entry, one in zip(entries, given, strict=False)
    )
    return min(len(entries), len(given)) if same else None


@dataclass(slots=True)
class _Counts:
    checkpoints: int = 0
    writes: int = 0


class _Readable:
    """Checkpoints of a thread that can be read, and the names of those that are left out."""

    def __init__(self, given: ImportedThread) -> None:
        self.given = given
        self.left_out: dict[str, str] = {}
        self.gone: set[str] = set()
        """Checkpoints that are listed and not there any more."""
        self.times: dict[str, datetime | None] = {}
        self._writes: dict[str, Sequence[str]] = {}

    async def load(self, checkpoint_id: str) -> NewCheckpoint | None:
        """Return a checkpoint; ``None`` if it cannot be read, which is noted."""
        if checkpoint_id in self.left_out:
            return None
        try:
            found = await self.given.load(checkpoint_id)
        except UNREADABLE as error:
            self.leave(checkpoint_id, error)
            return None
        if found is None:
            self.gone.add(checkpoint_id)
            return None
        self.times[checkpoint_id] = found.occurred_at
        if found.left_out:
            self._writes[checkpoint_id] = found.left_out
        return found

    def leave(self, checkpoint_id: str, error: BaseException) -> None:
        """Note that a checkpoint is left out."""
        self.left_out[checkpoint_id] = describe_problem(error)
        self.times.pop(checkpoint_id, None)

    def names(self) -> Iterable[str]:
        """Return what is left out, each with the reason."""
        for checkpoint_id, why in self.left_out.items():
            yield f"checkpoint {checkpoint_id}: {why}"
        for checkpoint_id, writes in self._writes.items():
            yield from (f"checkpoint {checkpoint_id}, {one}" for one in writes)


@dataclass(slots=True)
class _Plan:
    """Difference between one log of a thread in the source and here.

    ``exists`` says that it has checkpoints, ``went_on`` that it has others behind those of the
    source, or other pending writes, and ``problem`` that it has something else in place of one.
    """

    missing: Sequence[str] = ()
    writes: dict[str, Sequence[PendingWrite]] = field(default_factory=dict)
    exists: bool = False
    went_on: bool = False
    problem: str | None = None


async def _plan_of_log(log: _Readable, checkpointer: Checkpointer, thread_id: str) -> _Plan:
    """Compare a log with the source, and return what it lacks."""
    given = log.given
    stored = await checkpointer.list_checkpoints(thread_id, MAX_LIMIT)
    if not stored:
        return _Plan(missing=given.checkpoint_ids)
    plan = _Plan(exists=True, went_on=stored[0] not in {*given.checkpoint_ids})
    there, missing = {*stored}, []
    for checkpoint_id in given.checkpoint_ids:
        one = await log.load(checkpoint_id)
        if one is None:
            log.gone -= there
            continue
        if checkpoint_id not in there:
            missing.append(checkpoint_id)
        else:
            missing.clear()  # what is missing before one that is there was removed here
            found = await checkpointer.snapshot(thread_id, checkpoint_id)
            if found is None or not _is_same(found.state, one.state):
                plan.problem = _DIFFERENT
                return plan
            writes = given.compare_writes(found.writes, one.writes)
            if writes is None:
                plan.problem = _FORKED
                return plan
            plan.went_on |= writes.went_on
            if writes.missing:
                plan.writes[checkpoint_id] = writes.missing
    plan.missing = missing
    return plan


async def _save_checkpoint(
    checkpointer: Checkpointer,
    thread_id: str,
    given: NewCheckpoint,
    parent_id: str | None,
    connection: HostConnection | None,
) -> None:
    """Save a checkpoint as the newest, with its pending writes."""
    await checkpointer.save(
        given.state,
        thread_id,
        given.checkpoint_id,
        given.metadata,
        lineage=parent_id,
        occurred_at=given.occurred_at,
        connection=connection,
        **given.options,
    )
    await _put_writes(checkpointer, thread_id, given, given.writes, connection)


async def _put_writes(
    checkpointer: Checkpointer,
    thread_id: str,
    given: NewCheckpoint,
    writes: Sequence[PendingWrite],
    connection: HostConnection | None,
) -> None:
    """Put writes in calls, those of a task that may be overwritten before its others.

    An interrupt that is followed by writes of its task was answered.
    """
    calls = groupby(writes, key=lambda one: (one.task_path, one.task_id, one.index < 0))
    for (path, task_id, _), some in calls:
        of_task = list(some)
        await checkpointer.put_writes(
            [(one.channel, one.value) for one in of_task],
            thread_id,
            given.checkpoint_id,
            task_id,
            task_path=path,
            indexes=[one.index for one in of_task],
            made_at=given.writes_made_at,
            connection=connection,
        )


async def _read_back(
    given: ImportedThread,
    checkpointer: Checkpointer,
    thread_id: str,
    wanted: NewCheckpoint,
    connection: HostConnection | None,
) -> None:
    """Compare a checkpoint with what was written.

    Raises:
        Corrupt: it is something else.
    """
    found = await checkpointer.snapshot(thread_id, wanted.checkpoint_id, connection=connection)
    if found is not None and _is_same(found.state, wanted.state):
        writes = given.compare_writes(found.writes, wanted.writes)
        if found.parent_id in (None, wanted.parent_id) and writes and not writes.missing:
            return
    raise _not_as_written(f"checkpoint {wanted.checkpoint_id!r} of thread {thread_id!r}")


def _failed_outcome(outcome: ImportOutcome, error: Exception) -> ImportOutcome:
    """Return the outcome of a record whose import an error has ended."""
    if isinstance(error, (Conflict, ThreadDeleted)):
        return replace(outcome, status="conflict", problem=_CHANGED)
    return replace(outcome, status="bad", problem=describe_problem(error))


def _with_left_out(outcome: ImportOutcome, logs: Sequence[_Readable]) -> ImportOutcome:
    own = [*outcome.left_out, *(one for log in logs[1:] for one in log.given.left_out)]
    return replace(outcome, left_out=(*own, *(one for log in logs for one in log.names())))


async def _await_adapter(adapter: Awaitable[Any]) -> Any:
    """Return what an adapter returns; raise the cause of a framework's own error instead of it."""
    try:
        return await adapter
    except (MemalchemyError, *UNREADABLE):
        raise
    except Exception as error:
        if isinstance(error.__cause__, UNREADABLE):
            raise error.__cause__ from error
        raise


def _refusal_of_entry(entry: ImportedEntry) -> str | None:
    """Return why an entry cannot be stored; ``None`` if it can."""
    try:
        check_entry_key(entry.key)
        check_time(entry.occurred_at, "occurred_at=")
        entry_binds(entry.value, indexes_text=True)
    except UNREADABLE as error:
        return describe_problem(error)
    return None


def _items_of_kept_entries(
    items: Callable[[Sequence[int]], Iterable[NewItem]] | None, refused: Mapping[int, str]
) -> Callable[[Sequence[int]], Iterable[NewItem]] | None:
    """Return *items* for the positions of the entries that are not *refused*.

    What belongs to a refused one gets the position of the entry after it.
    """
    if items is None:
        return None

    def of_kept(positions: Sequence[int]) -> Iterable[NewItem]:
        kept, total = list(positions), len(positions) + len(refused)
        left = [at for at in range(total) if at not in refused]
        places = dict(zip(left, kept, strict=True))
        found: list[int] = []
        after = kept[-1]
        for at in reversed(range(total)):
            after = places.get(at, after)
            found.append(after)
        return items(found[::-1])

    return of_kept


async def _items_there(
    store: Store, items: Sequence[NewItem], left_out: list[str]
) -> tuple[dict[tuple[tuple[str, ...], str], StoreItem], list[NewItem]]:
    """Return those of the items that are there, and those whose names can be stored."""
    try:
        found = await store.get_items([(one.namespace, one.key) for one in items], refresh=False)
    except UNREADABLE as error:
        if len(items) == 1:
            left_out.append(f"{_name_of(items[0])}: {describe_problem(error)}")
            return {}, []
        half = len(items) // 2
        there, readable = await _items_there(store, items[:half], left_out)
        more, others = await _items_there(store, items[half:], left_out)
        return there | more, readable + others
    return dict(found), list(items)


def _name_of(item: NewItem) -> str:
    return f"item {item.key!r} in {'/'.join(map(str, item.namespace))}"


def _is_same_item(item: StoreItem, given: NewItem) -> bool:
    times = [(item.created_at, given.created_at), (item.updated_at, given.updated_at)]
    if any(stored != wanted for stored, wanted in times if wanted is not None):
        return False
    return _is_same(item.value, given.value) and _is_same(
        dict(item.metadata or {}), dict(given.metadata or {})
    )


def _is_outdated(item: StoreItem, given: NewItem) -> bool:
    """Return whether an item is what an earlier import wrote, and the source has a later one."""
    return not _is_same_or_later(item, given) and item.metadata == dict(given.metadata or {})


def _is_same_or_later(item: StoreItem, given: NewItem) -> bool:
    """Return whether an item has the value that is given, or a later one."""
    later = given.updated_at is not None and item.updated_at > given.updated_at
    return later or _is_same(item.value, given.value)


def _is_same(one: Any, other: Any) -> bool:
    return encode_value(one) == encode_value(other)


def _not_as_written(what: str) -> Corrupt:
    return Corrupt(f"{what} reads back as something else than was written")
