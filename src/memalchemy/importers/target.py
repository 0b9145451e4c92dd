"""`Target`: writes what an importer has read elsewhere into a database, and compares it.

An importer reads `Log`, `Thread` and `Item` records; all importers write them here. No progress is
stored: what an earlier import wrote is recognised, so an interrupted import continues when it is
run again, and a repeated one imports what is new.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Literal, NamedTuple

from memalchemy.checkpoints import Checkpointer
from memalchemy.codec.values import encode_value
from memalchemy.contracts import Entry, LogReading, NewItem, PendingWrite, StoreItem
from memalchemy.database import Database, HostConnection
from memalchemy.errors import (
    Conflict,
    Corrupt,
    NotFound,
    NotSerialisable,
    ThreadDeleted,
    TooLarge,
)
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

OnConflict = Literal["error", "skip", "replace"]
Status = Literal["imported", "resumed", "unchanged", "replaced", "skipped", "conflict", "bad"]
Kind = Literal["log", "thread", "item"]

BATCH = 500
"""Entries that are written, and read back, together."""
NO_LIMIT = 2**31 - 1
"""The largest limit that every database takes."""

_OF_CONFLICTS: dict[OnConflict, Status] = {
    "error": "conflict",
    "skip": "skipped",
    "replace": "replaced",
}
_DIFFERENT = "it exists and holds something else"
_FORKED = "it went on here and in the source"
_CHANGED = "another process changed it while it was imported"
_FAILURES = (Conflict, ThreadDeleted, NotSerialisable, TooLarge, ValueError)
"""Errors that end the import of one record, and not of the others."""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """Entry of a log, with the key by which a later import recognises it."""

    key: str
    value: Any
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class Log:
    """Entries of a log, in order: a session, a conversation.

    Args:
        items: makes the store items that are written after the entries, of their positions.
        unreadable: the number of entries that the source has and nobody can read.
        label: its name in messages, in place of the thread id.
    """

    namespace: tuple[str, ...]
    thread_id: str
    entries: Sequence[NewEntry]
    items: Callable[[Sequence[int]], Iterable[NewItem]] | None = None
    unreadable: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """State of a thread at one moment; ``parent_id`` may name one that is not there.

    ``writes`` are the pending writes of the step after it, ``writes_made_at`` is their ``made_at``,
    and ``options`` are others of `Checkpointer.save`.
    """

    checkpoint_id: str
    state: Any
    occurred_at: datetime | None
    parent_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    writes: Sequence[PendingWrite] = ()
    writes_made_at: datetime | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class WritesThere(NamedTuple):
    """Result of a comparison of the pending writes that a checkpoint has with those of the source.

    ``missing`` are those that have to be put, and ``went_on`` says that there are others.
    """

    missing: Sequence[PendingWrite] = ()
    went_on: bool = False


def _no_writes(there: Sequence[PendingWrite], given: Sequence[PendingWrite]) -> WritesThere | None:
    return WritesThere(went_on=bool(there))


@dataclass(frozen=True, slots=True)
class Thread:
    """Checkpoints of a thread, which are read one by one: together they may be large.

    Args:
        checkpoint_ids: their ids, oldest first.
        load: reads the checkpoint of an id; ``None`` if it is not readable.
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
    unreadable: int = 0
    label: str = ""
    below: Sequence[Thread] | None = None
    compare_writes: Callable[
        [Sequence[PendingWrite], Sequence[PendingWrite]], WritesThere | None
    ] = _no_writes
    on_save: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """Store items that belong together; each is compared and written for itself.

    Args:
        renewable: an item that an earlier import wrote gives way to a later one, and one that was
            written here since stays. The two are told apart by their metadata, so those of the
            items must be some that the framework's adapter does not write.
    """

    items: Sequence[NewItem]
    label: str
    unreadable: int = 0
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
        reason: why the *unreadable* parts are left out.
    """

    kind: Kind
    label: str
    value: Any
    read: Callable[[Database, str], Awaitable[Any]]
    write: Callable[[Database, str, Any], Awaitable[Any]]
    covers: Callable[[Any], bool] | None = None
    extends: Callable[[Any], bool] | None = None
    missing: Callable[[Any], int] | None = None
    unreadable: int = 0
    reason: str = ""


Record = Log | Thread | Items | Whole


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result for one record.

    The target had none of it (``imported``), its first part (``resumed``), all (``unchanged``), or
    something else, which was replaced (``replaced``) or stays (``skipped``, ``conflict``). ``bad``
    cannot be stored. ``written`` counts entries, checkpoints and items that were written and read
    back, or in a dry run would be; ``unreadable`` those that the source has and that are left out,
    for the ``reason``. ``pending_writes`` counts those that were written.
    """

    kind: Kind
    name: str
    status: Status
    written: int = 0
    pending_writes: int = 0
    unreadable: int = 0
    problem: str | None = None
    reason: str = "not readable"


class Target:
    """Database that is imported into.

    Before its first write, each record is compared with what is there. One of which exactly the
    first part is there is completed; one that is all there, and may have gone on since, is left;
    and one that is anything else is a conflict. All that is written is read back and compared.
    Checkpoints that were removed, here or in the source, while later ones stayed are not missed.

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

    async def write(self, record: Record) -> Outcome:
        """Import a record, and return what became of it.

        Raises:
            Corrupt: the database returns something else than was written.
            MemalchemyError: of the database. What was written stays, and another import completes
                it.
        """
        name = record.label or (self.prefix + getattr(record, "thread_id", ""))
        outcome = Outcome(_kind_of(record), name, "bad", unreadable=record.unreadable)
        if isinstance(record, Whole) and record.reason:
            outcome = replace(outcome, reason=record.reason)
        try:
            if isinstance(record, Log):
                return await self._write_log(record, outcome)
            if isinstance(record, Thread):
                return await self._write_thread(record, outcome)
            if isinstance(record, Whole):
                return await self._write_whole(record, outcome)
            return await self._write_items(record, outcome)
        except _FAILURES as error:
            return _failed(outcome, error)

    # --- Logs ------------------------------------------------------------------------------------

    async def _write_log(self, given: Log, outcome: Outcome) -> Outcome:
        log = ThreadLog(self.db, namespace=given.namespace, index_text=self.index_text)
        thread_id = self.prefix + given.thread_id
        reading = await log.read(thread_id)
        # The number of entries that are there already, from the first; None if others are.
        there = _count_there(reading.entries, given.entries)
        status = self._status(there, len(given.entries))
        outcome = replace(outcome, status=status)
        if status in ("skipped", "conflict"):
            return replace(outcome, problem=_DIFFERENT)
        outcome = replace(outcome, written=len(given.entries) - (there or 0))
        if self.dry_run:
            return outcome
        if there is None:
            async with self.db.transaction() as tx:  # it is replaced as a whole, or stays
                positions = await self._write_entries(log, thread_id, given.entries, reading, 0, tx)
        else:
            positions = await self._write_entries(log, thread_id, given.entries, reading, there)
        if given.items is not None:
            beside = await self._write_items(Items([*given.items(positions)], ""), outcome)
            outcome = replace(outcome, problem=beside.problem)
        return outcome

    async def _write_entries(
        self,
        log: ThreadLog,
        thread_id: str,
        entries: Sequence[NewEntry],
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
                raise _corrupt(f"log {thread_id!r}")
        return positions

    # --- Threads of checkpoints ------------------------------------------------------------------

    async def _write_thread(self, given: Thread, outcome: Outcome) -> Outcome:
        thread_id = self.prefix + given.thread_id
        logs = [(one, self._checkpointer(one)) for one in (given, *(given.below or ()))]
        plans = [await _plan(log, checkpointer, thread_id) for log, checkpointer in logs]
        outcome = replace(outcome, status=self._status_of_thread(plans))
        if outcome.status in ("skipped", "conflict"):
            problems = [plan.problem for plan in plans if plan.problem is not None]
            return replace(outcome, problem=problems[0] if problems else _FORKED)
        counts = _Counts()
        try:
            if outcome.status == "replaced":
                async with self.db.transaction() as tx:  # it is replaced as a whole, or stays
                    if not self.dry_run:
                        await logs[0][1].delete(
                            thread_id,
                            all_namespaces=False,
                            below=given.below is not None,
                            connection=tx,
                        )
                    for log, checkpointer in logs:
                        whole = _Plan(missing=log.checkpoint_ids)
                        await self._write_plan(log, checkpointer, thread_id, whole, counts, tx)
            else:
                for (log, checkpointer), plan in zip(logs, plans, strict=True):
                    await self._write_plan(log, checkpointer, thread_id, plan, counts)
        except (*_FAILURES, NotFound) as error:
            if outcome.status == "replaced":
                counts = _Counts()
            outcome = _failed(outcome, error)
        return replace(
            outcome,
            written=counts.checkpoints,
            pending_writes=counts.writes,
            unreadable=given.unreadable + counts.unreadable,
        )

    def _checkpointer(self, given: Thread) -> Checkpointer:
        options = {"index_text": self.index_text, **given.options}
        if not self.index_text:
            options["index_text"] = False
        return Checkpointer(self.db, namespace=given.namespace, **options)

    def _status_of_thread(self, plans: Sequence[_Plan]) -> Status:
        missing = any(plan.missing or plan.writes for plan in plans)
        went_on = any(plan.went_on for plan in plans)  # with what is missing, it would be two
        if any(plan.problem for plan in plans) or (missing and went_on):
            return _OF_CONFLICTS[self.on_conflict]
        if not missing:
            return "unchanged"
        return "resumed" if any(plan.exists for plan in plans) else "imported"

    async def _write_plan(
        self,
        given: Thread,
        checkpointer: Checkpointer,
        thread_id: str,
        plan: _Plan,
        counts: _Counts,
        connection: HostConnection | None = None,
    ) -> None:
        """Write what a log lacks: first pending writes of checkpoints that are there."""
        counts.unreadable += plan.unreadable
        for checkpoint_id, missing in plan.writes.items():
            one = await given.load(checkpoint_id)
            if one is not None:
                if not self.dry_run:
                    await _put_writes(checkpointer, thread_id, one, missing, connection)
                    await _read_back(given, checkpointer, thread_id, one, connection)
                counts.writes += len(missing)
        first = not plan.exists
        for checkpoint_id in plan.missing:
            one = await given.load(checkpoint_id)
            if one is None:
                counts.unreadable += 1
                continue
            if not self.dry_run:
                # A deleted thread begins anew with a checkpoint that names no parent.
                rests = one.options.get("rests_on_parent")
                parent_id = None if first and not rests else one.parent_id
                await _save(checkpointer, thread_id, one, parent_id, connection)
                await _read_back(given, checkpointer, thread_id, one, connection)
            first = False
            counts.checkpoints += 1
            counts.writes += len(one.writes)
            if given.on_save is not None:
                given.on_save()

    # --- Items -----------------------------------------------------------------------------------

    async def _write_items(self, given: Items, outcome: Outcome) -> Outcome:
        """Import each item for itself: one that differs does not keep the others back."""
        store = Store(self.db)
        items = {(item.namespace, item.key): item for item in given.items}
        there = await store.get_items(items, refresh=False)
        missing, different = [], []
        for name, item in items.items():
            if name not in there or (given.renewable and _is_outdated(there[name], item)):
                missing.append(item)
            elif not (_went_on if given.renewable else _is_same_item)(there[name], item):
                different.append(item)
        status = self._status(None if different else len(items) - len(missing), len(items))
        new = [*missing, *different] if status == "replaced" else missing
        problem = None
        if status in ("skipped", "conflict"):
            problem = f"{len(different):,} of {len(items):,} exist and hold something else"
        if new and not self.dry_run:
            await store.put_batch(new, index=None if self.index_text else False)
            names = [(item.namespace, item.key) for item in new]
            back = await store.get_items(names, refresh=False)
            for name, item in zip(names, new, strict=True):
                if name not in back or not _is_same_item(back[name], item):
                    raise _corrupt(f"item {item.key!r} in {'/'.join(item.namespace)}")
        return replace(outcome, status=status, written=len(new), problem=problem)

    async def _write_whole(self, given: Whole, outcome: Outcome) -> Outcome:
        found = await given.read(self.db, self.prefix)
        status = self._status_of_whole(given, found)
        outcome = replace(outcome, status=status)
        if status in ("skipped", "conflict"):
            return replace(outcome, problem=_DIFFERENT)
        if status == "unchanged":
            return outcome
        kept = found if status == "resumed" else None
        written = 1 if given.missing is None else given.missing(kept)
        outcome = replace(outcome, written=written)
        if self.dry_run:
            return outcome
        await given.write(self.db, self.prefix, found)
        if not _is_same(await given.read(self.db, self.prefix), given.value):
            raise _corrupt(given.label)
        return outcome

    def _status_of_whole(self, given: Whole, found: Any) -> Status:
        if found is None:
            return "imported"
        if _is_same(found, given.value) or (given.covers is not None and given.covers(found)):
            return "unchanged"
        if given.extends is not None and given.extends(found):
            return "resumed"
        return _OF_CONFLICTS[self.on_conflict]

    def _status(self, there: int | None, total: int) -> Status:
        """Return what becomes of a record of which *there* parts exist; ``None``: others do."""
        if there is None:
            return _OF_CONFLICTS[self.on_conflict]
        if there == total:
            return "unchanged"
        return "resumed" if there else "imported"


def _kind_of(record: Record) -> Kind:
    if isinstance(record, Whole):
        return record.kind
    if isinstance(record, Log):
        return "log"
    return "thread" if isinstance(record, Thread) else "item"


def _count_there(entries: Sequence[Entry], given: Sequence[NewEntry]) -> int | None:
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
    unreadable: int = 0


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
    unreadable: int = 0


async def _plan(given: Thread, checkpointer: Checkpointer, thread_id: str) -> _Plan:
    """Compare a log with the source, and return what it lacks."""
    stored = await checkpointer.list_checkpoints(thread_id, NO_LIMIT)
    if not stored:
        return _Plan(missing=given.checkpoint_ids)
    plan = _Plan(exists=True, went_on=stored[0] not in {*given.checkpoint_ids})
    there, missing = {*stored}, []
    for checkpoint_id in given.checkpoint_ids:
        one = await given.load(checkpoint_id)
        if one is None:
            plan.unreadable += checkpoint_id not in there
        elif checkpoint_id not in there:
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


async def _save(
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
    given: Thread,
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
    raise _corrupt(f"checkpoint {wanted.checkpoint_id!r} of thread {thread_id!r}")


def _failed(outcome: Outcome, error: Exception) -> Outcome:
    """Return the outcome of a record whose import an error has ended."""
    if isinstance(error, (Conflict, ThreadDeleted)):
        return replace(outcome, status="conflict", problem=_CHANGED)
    return replace(outcome, status="bad", problem=f"cannot be stored: {error}")


def _is_same_item(item: StoreItem, given: NewItem) -> bool:
    times = [(item.created_at, given.created_at), (item.updated_at, given.updated_at)]
    if any(stored != wanted for stored, wanted in times if wanted is not None):
        return False
    return _is_same(item.value, given.value) and _is_same(
        dict(item.metadata or {}), dict(given.metadata or {})
    )


def _is_outdated(item: StoreItem, given: NewItem) -> bool:
    """Return whether an item is what an earlier import wrote, and the source has a later one."""
    return not _went_on(item, given) and item.metadata == dict(given.metadata or {})


def _went_on(item: StoreItem, given: NewItem) -> bool:
    """Return whether an item has the value that is given, or a later one."""
    later = given.updated_at is not None and item.updated_at > given.updated_at
    return later or _is_same(item.value, given.value)


def _is_same(one: Any, other: Any) -> bool:
    return encode_value(one) == encode_value(other)


def _corrupt(what: str) -> Corrupt:
    return Corrupt(f"{what} reads back as something else than was written")
