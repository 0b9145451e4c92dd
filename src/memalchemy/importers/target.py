"""`Target`: writes what an importer has read elsewhere into a database, and compares it.

An importer reads `Log`, `Thread` and `Item` records; all importers write them here. No progress is
stored: what an earlier import wrote is recognised, so an interrupted import continues when it is
run again, and a repeated one imports what is new.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from memalchemy.checkpoints import Checkpointer
from memalchemy.codec.values import encode_value
from memalchemy.contracts import Entry, LogReading, NewItem, StoreItem
from memalchemy.database import Database
from memalchemy.errors import Conflict, Corrupt, NotSerialisable, ThreadDeleted, TooLarge
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
_CHANGED = "another process changed it while it was imported"


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
    """State of a thread at one moment; ``parent_id`` may name one that is not there."""

    checkpoint_id: str
    state: Any
    occurred_at: datetime
    parent_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Thread:
    """Checkpoints of a thread, which are read one by one: together they may be large.

    Args:
        checkpoint_ids: their ids, oldest first.
        load: reads the checkpoint of an id; ``None`` if it is not readable.
        options: those of its `Checkpointer`.
    """

    namespace: tuple[str, ...]
    thread_id: str
    checkpoint_ids: Sequence[str]
    load: Callable[[str], Awaitable[NewCheckpoint | None]]
    options: Mapping[str, Any] = field(default_factory=dict)
    unreadable: int = 0
    label: str = ""


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
    for the ``reason``.
    """

    kind: Kind
    name: str
    status: Status
    written: int = 0
    unreadable: int = 0
    problem: str | None = None
    reason: str = "not readable"


class Target:
    """Database that is imported into.

    Before its first write, each record is compared with what is there. One of which exactly the
    first part is there is completed; one that is all there, and may have gone on since, is left;
    and one that is anything else is a conflict. All that is written is read back and compared.

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
        except (Conflict, ThreadDeleted):
            return replace(outcome, status="conflict", problem=_CHANGED)
        except (NotSerialisable, TooLarge, ValueError) as error:
            return replace(outcome, problem=f"cannot be stored: {error}")

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
        there: int | None,
    ) -> list[int]:
        """Write the missing entries in batches, read each back, and return all positions."""
        positions = [entry.position for entry in reading.entries[: there or 0]]
        replacing = there is None
        for start in range(there or 0, len(entries), BATCH):
            some = entries[start : start + BATCH]
            values = [entry.value for entry in some]
            options: dict[str, Any] = {
                "keys": [entry.key for entry in some],
                "occurred_at": [entry.occurred_at for entry in some],
                "expected_version": reading.version,
            }
            if replacing:
                positions += await log.replace_suffix(thread_id, 0, values, **options)
                replacing = False
            else:
                positions += await log.append(thread_id, values, **options)
            reading = await log.read(thread_id, reading)
            written = reading.entries[-len(some) :]
            if [entry.position for entry in written] != positions[-len(some) :]:
                raise Conflict(_CHANGED)
            if _count_there(written, some) != len(some):
                raise _read_back(f"log {thread_id!r}")
        return positions

    # --- Threads of checkpoints ------------------------------------------------------------------

    async def _write_thread(self, given: Thread, outcome: Outcome) -> Outcome:
        options = {"index_text": self.index_text, **given.options}
        if not self.index_text:
            options["index_text"] = False
        checkpointer = Checkpointer(self.db, namespace=given.namespace, **options)
        thread_id = self.prefix + given.thread_id
        stored = {*await checkpointer.list_checkpoints(thread_id, NO_LIMIT)}
        there = [one for one in given.checkpoint_ids if one in stored]
        differs = False
        for checkpoint_id in there:
            one = await given.load(checkpoint_id)
            differs |= one is not None and not await _is_there(checkpointer, thread_id, one)
        missing = len(there) < len(given.checkpoint_ids)
        went_on = len(stored) > len(there)  # with what is missing, there would be two newest ones
        status = self._status(
            None if differs or (missing and went_on) else len(there), len(given.checkpoint_ids)
        )
        outcome = replace(outcome, status=status)
        if status in ("skipped", "conflict"):
            return replace(outcome, problem=_DIFFERENT)
        if status == "replaced":
            if not self.dry_run:
                await checkpointer.delete(thread_id, all_namespaces=False)
            stored = set()
        written = unreadable = 0
        for checkpoint_id in given.checkpoint_ids:
            if checkpoint_id in stored:
                continue
            one = await given.load(checkpoint_id)
            if one is None:
                unreadable += 1
                continue
            written += 1
            if not self.dry_run:
                await _save(checkpointer, thread_id, one)
        return replace(outcome, written=written, unreadable=given.unreadable + unreadable)

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
                    raise _read_back(f"item {item.key!r} in {'/'.join(item.namespace)}")
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
            raise _read_back(given.label)
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


async def _save(checkpointer: Checkpointer, thread_id: str, given: NewCheckpoint) -> None:
    """Save a checkpoint as the newest, and read it back."""
    await checkpointer.save(
        given.state,
        thread_id,
        given.checkpoint_id,
        given.metadata,
        lineage=given.parent_id,
        occurred_at=given.occurred_at,
    )
    if not await _is_there(checkpointer, thread_id, given):
        raise _read_back(f"checkpoint {given.checkpoint_id!r} of thread {thread_id!r}")


async def _is_there(checkpointer: Checkpointer, thread_id: str, given: NewCheckpoint) -> bool:
    """Return whether a checkpoint is there as it was given."""
    found = await checkpointer.snapshot(thread_id, given.checkpoint_id)
    return found is not None and _is_same(found.state, given.state)


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


def _read_back(what: str) -> Corrupt:
    return Corrupt(f"{what} reads back as something else than was written")
