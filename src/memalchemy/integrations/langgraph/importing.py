"""Import from the tables of LangGraph's own savers and stores.

A thread is a record of `memalchemy.importers.target`, with the logs of its checkpoint namespaces;
items go through `memalchemy.Store`. Everything is compared before it is written and read back. No
progress is stored: what an earlier import wrote is recognised.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES

from memalchemy.contracts import NewItem, StoreItem
from memalchemy.database import Database
from memalchemy.errors import Corrupt
from memalchemy.importers.target import (
    ImportedThread,
    ImportOutcome,
    ImportTarget,
    NewCheckpoint,
    OnConflict,
    Status,
)
from memalchemy.importers.unreadable import UNREADABLE, Unusable, describe_problem
from memalchemy.integrations.langgraph import _records as records
from memalchemy.integrations.langgraph._pending_writes import compare_writes
from memalchemy.integrations.langgraph._source_tables import RAW, Source, StoredItem, open_source
from memalchemy.integrations.langgraph.saver import LOG_OPTIONS
from memalchemy.store import Store

_METHODS = {(module, name) for module, name, _ in SAFE_MSGPACK_METHODS}


@dataclass(slots=True)
class ImportReport:
    """The results of an import, or of a dry run.

    ``checkpoints`` are the new ones, the unchanged ones, those of threads in conflict, and those
    that cannot be read or stored; ``items`` are these and the ``expired`` ones, which are not
    imported. ``writes`` and ``vectors`` are those that were written: an unchanged checkpoint may
    have got pending writes that it lacked. ``thread_statuses`` counts the threads by the status
    that `memalchemy.importers.target.ImportOutcome` describes. ``problems`` names what could not be
    imported, and ``skipped`` the conflicts that were to be skipped; data under the same name in the
    target stays as it is.
    """

    checkpoints: int = 0
    items: int = 0
    threads: int = 0
    new_checkpoints: int = 0
    unchanged_checkpoints: int = 0
    conflicting_checkpoints: int = 0
    bad_checkpoints: int = 0
    writes: int = 0
    new_items: int = 0
    unchanged_items: int = 0
    conflicting_items: int = 0
    bad_items: int = 0
    vectors: int = 0
    expired: int = 0
    done: int = 0
    """Checkpoints and items that were processed."""
    thread_statuses: dict[Status, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    classes: list[tuple[str, str]] = field(default_factory=list)
    """Modules and names of the classes, other than LangGraph's and Python's own, of which the
    source has objects. A strict saver reads them as dicts."""

    def allow_list(self) -> str:
        """Return the argument of `MemalchemySaver` that allows `classes` and no others."""
        return f"serde=JsonPlusSerializer(allowed_msgpack_modules={self.classes!r})"


async def import_langgraph(
    url: str,
    db: Database,
    *,
    schema: str | None = None,
    prefix: str = "",
    on_conflict: OnConflict = "error",
    dry_run: bool = False,
    index_text: bool = True,
    progress: Callable[[ImportReport], object] | None = None,
) -> ImportReport:
    """Import what LangGraph's savers and stores have at *url* into *db*.

    *url* is that of the database, or the path of a SQLite file.

    This includes all threads with their checkpoint namespaces, checkpoints, parents and pending
    writes, and all items of the store with their times, lifetimes and vectors. Values are copied as
    bytes, so your classes are not needed, and what an `EncryptedSerializer` wrote on PostgreSQL
    stays encrypted. Each checkpoint is read back and compared with LangGraph's own reading.

    The source is not changed. Before its first write, each thread is compared with the target as a
    whole, with its namespaces and pending writes. One that *db* has already, and that may have gone
    on there, is left; one of which the first part is there is completed. One that went on in both
    places, or holds something else, is a conflict, and the import goes on with the next thread. So
    an interrupted import continues when it is run again, and a repeated one imports what is new.

    Args:
        schema: the schema of LangGraph's tables (PostgreSQL).
        prefix: put before every thread id.
        on_conflict: ``"error"`` and ``"skip"`` leave a thread or item in conflict as it is, and
            differ in where the report names it; ``"replace"`` replaces it. A thread is deleted with
            its checkpoint namespaces and imported in one transaction.
        dry_run: write nothing.
        progress: called after each checkpoint that is written, each thread, and each page of items.

    Raises:
        DriverMissing: ``langgraph-checkpoint-sqlite`` or ``-postgres`` is not installed.
        NotFound: there are no tables of LangGraph's.
        Corrupt: *db* returns something else than was written.
    """
    async with open_source(url, schema=schema) as source:
        report = ImportReport()
        report.checkpoints, report.items = await source.count()
        target = ImportTarget(
            db, prefix=prefix, on_conflict=on_conflict, dry_run=dry_run, index_text=index_text
        )
        work = _Import(source, target, report, progress)
        async with target:
            await work.threads()
            await work.items()
        report.classes = sorted(source.serde.classes - SAFE_MSGPACK_TYPES - _METHODS)
    return report


@dataclass(slots=True)
class _Import:
    source: Source
    target: ImportTarget
    report: ImportReport
    progress: Callable[[ImportReport], object] | None
    _gone: set[tuple[str, str, str]] = field(default_factory=set)
    """Checkpoints that were deleted from the source meanwhile."""

    def advance(self, done: int = 1) -> None:
        self.report.done += done
        if self.progress is not None:
            self.progress(self.report)

    async def threads(self) -> None:
        report, total = self.report, 0
        for thread_id, names in groupby(await self.source.logs(), key=lambda log: log[0]):
            namespaces = [checkpoint_ns for _, checkpoint_ns in names]
            below = [one for one in namespaces if one and isinstance(one, str)]
            if not isinstance(thread_id, str):
                report.threads += 1
                self._note_lost_checkpoint(f"thread {thread_id!r} has an id that is no text")
                continue
            for one in namespaces:
                if not isinstance(one, str):
                    self._note_lost_checkpoint(
                        f"thread {thread_id!r}: namespace {one!r} is no text"
                    )
            root, *logs = [await self._log_of_namespace(thread_id, ns) for ns in ("", *below)]
            count = sum(len(log.checkpoint_ids) for log in (root, *logs))
            done = report.done
            self._gone.clear()
            outcome = await self.target.write(replace(root, below=logs))
            report.threads += 1
            count -= len(self._gone)
            total += count
            self._count_outcome(outcome, count)
            self.advance(done + count - report.done)
        report.checkpoints = total

    def _note_lost_checkpoint(self, problem: str) -> None:
        self.report.bad_checkpoints += 1
        self.report.problems.append(problem)

    def _count_outcome(self, outcome: ImportOutcome, checkpoints: int) -> None:
        report = self.report
        bad = sum(_is_of_checkpoint(one) for one in outcome.left_out)
        left = max(0, checkpoints - outcome.written - bad)
        report.bad_checkpoints += min(bad, checkpoints - outcome.written)
        report.thread_statuses.setdefault(outcome.status, 0)
        report.thread_statuses[outcome.status] += 1
        report.new_checkpoints += outcome.written
        report.writes += outcome.pending_writes
        if outcome.status in ("conflict", "skipped"):
            report.conflicting_checkpoints += left
        elif outcome.status == "bad":
            report.bad_checkpoints += left
        else:
            report.unchanged_checkpoints += left
        if outcome.problem is not None:
            problems = report.skipped if outcome.status == "skipped" else report.problems
            problems.append(f"thread {outcome.name!r}: {outcome.problem}")
        report.problems += [f"thread {outcome.name!r}: left out: {one}" for one in outcome.left_out]

    async def _log_of_namespace(self, thread_id: str, checkpoint_ns: str) -> ImportedThread:
        """Return the log of a checkpoint namespace, which has the checkpoints sorted by id."""

        async def load(checkpoint_id: str) -> NewCheckpoint | None:
            place = thread_id, checkpoint_ns, checkpoint_id
            found = await self.source.checkpoint(*place)
            if found is None:
                self._gone.add(place)
                return None
            state = records.to_state(RAW, checkpoint_ns, found.checkpoint, found.metadata, {})
            _check_state(checkpoint_id, state, found)
            parent_id = _parent_id(found)
            known = records.filterable(found.metadata, checkpoint_ns)
            writes, left_out = await self.source.pending(*place)
            return NewCheckpoint(
                checkpoint_id,
                state,
                records.time_of(found.checkpoint),
                parent_id,
                records.without_false_counters(known, state),
                writes,
                records.time_of_id(checkpoint_id),
                records.save_options(found.metadata, state, parent_id),
                left_out,
            )

        ids = await self.source.checkpoint_ids(thread_id, checkpoint_ns)
        named = [one for one in ids if isinstance(one, str)]
        return ImportedThread(
            records.namespace_of(checkpoint_ns),
            thread_id,
            named,
            load,
            left_out=["a checkpoint: has an id that is no text"] * (len(ids) - len(named)),
            options=LOG_OPTIONS,
            compare_writes=compare_writes,
            on_save=self.advance,
        )

    async def items(self) -> None:
        store, report, on_conflict = Store(self.target.db), self.report, self.target.on_conflict
        seen = 0
        async for page, left_out in self.source.items():
            seen += len(page) + len(left_out)
            report.bad_items += len(left_out)
            report.problems += [f"item {one}" for one in left_out]
            now = datetime.now(UTC)
            alive = [one for one in page if one.expires_at is None or one.expires_at > now]
            report.expired += len(page) - len(alive)
            there, alive = await self._find_items(store, alive)
            new = []
            for one in alive:
                found = there.get(_name_of_item(one))
                if found is not None and _is_same_item(found, one):
                    report.unchanged_items += 1
                elif found is None or on_conflict == "replace":
                    new.append(one)
                else:
                    report.conflicting_items += 1
                    problems = report.skipped if on_conflict == "skip" else report.problems
                    problems.append(f"item {_path_of_item(one)!r}: another is there already")
            if new and self.target.dry_run:
                async with self.target.rehearsal() as db:
                    new = await self._put_items(Store(db), new)
            elif new:
                new = await self._put_items(store, new)
                await self._compare_items(store, new)
            report.new_items += len(new)
            report.vectors += sum(len(v) for one in new for v in one.vectors.values())
            self.advance(len(page) + len(left_out))
        report.items = seen

    async def _find_items(
        self, store: Store, items: list[StoredItem]
    ) -> tuple[dict[Any, StoreItem], list[StoredItem]]:
        """Return those of the items that are there, and those whose names can be stored."""
        try:
            return dict(await store.get_items(map(_name_of_item, items), refresh=False)), items
        except UNREADABLE as error:
            if len(items) == 1:
                self._note_left_item(items[0], error)
                return {}, []
        there: dict[Any, StoreItem] = {}
        readable: list[StoredItem] = []
        for one in items:
            found, same = await self._find_items(store, [one])
            there |= found
            readable += same
        return there, readable

    def _note_left_item(self, item: StoredItem, error: Exception) -> None:
        self.report.bad_items += 1
        self.report.problems.append(f"item {_path_of_item(item)!r}: {describe_problem(error)}")

    async def _put_items(self, store: Store, items: list[StoredItem]) -> list[StoredItem]:
        """Write those of the items that can be stored, and return them."""
        try:
            await store.put_batch(_new_item(one) for one in items)
        except UNREADABLE as error:
            if len(items) > 1:
                return [kept for one in items for kept in await self._put_items(store, [one])]
            self._note_left_item(items[0], error)
            return []
        return items

    async def _compare_items(self, store: Store, items: list[StoredItem]) -> None:
        back = await store.get_items(map(_name_of_item, items), refresh=False)
        for one in items:
            name = _name_of_item(one)
            same = name in back and _is_same_item(back[name], one)
            for path, vectors in one.vectors.items():
                for part, vector in enumerate(vectors):
                    stored = await store.get_embedding(*name, field=path, part=part)
                    same = same and stored == array("f", vector).tolist()
            if not same and (one.expires_at is None or one.expires_at > datetime.now(UTC)):
                raise Corrupt(
                    f"the item {one.key!r} in {'/'.join(one.namespace)} reads back as something "
                    "else than was written"
                )


def _parent_id(one: CheckpointTuple) -> str | None:
    """Return the id of a checkpoint's parent; one that was saved over itself has none."""
    if one.parent_config is None:
        return None
    parent_id: str = one.parent_config["configurable"]["checkpoint_id"]
    return None if parent_id == one.checkpoint["id"] else parent_id


def _check_state(checkpoint_id: str, state: Mapping[str, Any], theirs: CheckpointTuple) -> None:
    """Compare what a saver makes of a state with LangGraph's own reading of the checkpoint.

    Raises:
        Unusable: it is something else.
    """
    checkpoint, metadata = records.from_state(RAW, checkpoint_id, state)
    if metadata != theirs.metadata or _pack_channels(checkpoint) != _pack_channels(
        theirs.checkpoint
    ):
        raise Unusable("would read back as something else")


def _is_of_checkpoint(left_out: str) -> bool:
    """Return whether a name is that of a checkpoint, and not of one of its writes."""
    return not left_out.partition(": ")[0].partition(", write ")[1]


def _pack_channels(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    values = checkpoint.get("channel_values") or {}
    packed = {channel: RAW.dumps_typed(value) for channel, value in values.items()}
    return {**checkpoint, "channel_values": packed}


def _name_of_item(one: StoredItem) -> tuple[tuple[str, ...], str]:
    return (records.ROOT, *one.namespace), one.key


def _path_of_item(one: StoredItem) -> str:
    return "/".join((*one.namespace, one.key))


def _new_item(one: StoredItem) -> NewItem:
    return NewItem(
        *_name_of_item(one),
        one.value,
        embedding=one.vectors or None,
        ttl=None if not one.ttl_minutes else one.ttl_minutes * 60,
        created_at=one.created_at,
        updated_at=one.updated_at,
        expires_at=one.expires_at,
    )


def _is_same_item(ours: StoreItem, theirs: StoredItem) -> bool:
    times = (ours.created_at, ours.updated_at) == (theirs.created_at, theirs.updated_at)
    return times and RAW.dumps_typed(ours.value) == RAW.dumps_typed(theirs.value)
