"""Import from the tables of LangGraph's own savers and stores.

Checkpoints go through `MemalchemySaver` and items through `memalchemy.Store`; each is read back and
compared. No progress is stored: what an earlier import wrote is recognised and skipped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES

from memalchemy.contracts import NewItem, StoreItem
from memalchemy.database import Database
from memalchemy.errors import Conflict, Corrupt, NotSerialisable, ThreadDeleted, TooLarge
from memalchemy.integrations.langgraph import _records as records
from memalchemy.integrations.langgraph._source import (
    RawSerializer,
    Source,
    StoredItem,
    Write,
    open_source,
)
from memalchemy.integrations.langgraph.saver import MemalchemySaver
from memalchemy.store import Store

RAW: Any = RawSerializer()
_METHODS = {(module, name) for module, name, _ in SAFE_MSGPACK_METHODS}


@dataclass(slots=True)
class ImportReport:
    """The results of an import, or of a dry run.

    ``new_…`` and ``unchanged_…`` count checkpoints and items; ``writes`` and ``vectors`` are those
    that were written. ``expired`` items are not imported. ``problems`` names what could not be
    imported; data under the same name in the target stays as it is.
    """

    checkpoints: int = 0
    items: int = 0
    threads: int = 0
    new_checkpoints: int = 0
    unchanged_checkpoints: int = 0
    writes: int = 0
    new_items: int = 0
    unchanged_items: int = 0
    vectors: int = 0
    expired: int = 0
    done: int = 0
    """Checkpoints and items that were processed."""
    problems: list[str] = field(default_factory=list)
    classes: list[tuple[str, str]] = field(default_factory=list)
    """Modules and names of the classes, other than LangGraph's and Python's own, of which the
    source has objects. A saver reads them as dicts unless its ``serde`` allows them."""

    def allow_list(self) -> str:
        """Return the argument of `MemalchemySaver` with which objects of `classes` come back."""
        return f"serde=JsonPlusSerializer(allowed_msgpack_modules={self.classes!r})"


async def import_langgraph(
    url: str,
    db: Database,
    *,
    schema: str | None = None,
    prefix: str = "",
    dry_run: bool = False,
    index_text: bool = True,
    progress: Callable[[ImportReport], object] | None = None,
) -> ImportReport:
    """Import what LangGraph's savers and stores have at *url* into *db*.

    *url* is that of the database, or the path of a SQLite file.

    This includes all threads with their checkpoint namespaces, checkpoints, parents and pending
    writes, and all items of the store with their times, lifetimes and vectors. Values are copied as
    bytes, so your classes are not needed, and what an `EncryptedSerializer` wrote on PostgreSQL
    stays encrypted. Each checkpoint is read back through `MemalchemySaver` and compared with
    LangGraph's own reading.

    The source is not changed. Data that *db* has already is skipped if it is equal, and reported if
    it is not: an interrupted import continues when it is run again, and a repeated one imports what
    is new.

    Args:
        schema: the schema of LangGraph's tables (PostgreSQL).
        prefix: put before every thread id.
        dry_run: write nothing.
        progress: called after each checkpoint and each page of items.

    Raises:
        DriverMissing: ``langgraph-checkpoint-sqlite`` or ``-postgres`` is not installed.
        NotFound: there are no tables of LangGraph's.
        Corrupt: *db* returns something else than was written.
    """
    async with open_source(url, schema=schema) as source:
        report = ImportReport()
        report.checkpoints, report.items = await source.count()
        work = _Import(source, db, prefix, dry_run, index_text, report, progress)
        await work.threads()
        await work.items()
        report.classes = sorted(source.serde.classes - SAFE_MSGPACK_TYPES - _METHODS)
    return report


@dataclass(slots=True)
class _Import:
    source: Source
    db: Database
    prefix: str
    dry_run: bool
    index_text: bool
    report: ImportReport
    progress: Callable[[ImportReport], object] | None

    def advance(self, done: int) -> None:
        self.report.done += done
        if self.progress is not None:
            self.progress(self.report)

    async def threads(self) -> None:
        saver = MemalchemySaver(self.db, serde=RAW, index_text=self.index_text)
        for thread_id, logs in groupby(await self.source.logs(), key=lambda log: log[0]):
            self.report.threads += 1
            for _, checkpoint_ns in logs:
                ids = await self.source.checkpoint_ids(thread_id, checkpoint_ns)
                for at, checkpoint_id in enumerate(ids):
                    try:
                        await self.checkpoint(saver, thread_id, checkpoint_ns, checkpoint_id)
                    except (Conflict, NotSerialisable, ThreadDeleted, TooLarge) as error:
                        where = f", namespace {checkpoint_ns!r}" if checkpoint_ns else ""
                        self.report.problems.append(f"thread {thread_id!r}{where}: {error}")
                        self.advance(len(ids) - at)
                        break
                    self.advance(1)

    async def checkpoint(
        self, saver: MemalchemySaver, thread_id: str, checkpoint_ns: str, checkpoint_id: str
    ) -> None:
        """Import a checkpoint with its writes, unless they are there."""
        theirs = await self.source.checkpoint(thread_id, checkpoint_ns, checkpoint_id)
        if theirs is None:
            return
        writes = await self.source.pending(thread_id, checkpoint_ns, checkpoint_id)
        target = self.prefix + thread_id
        config = records.config_of(target, checkpoint_ns, checkpoint_id)
        ours = await saver.aget_tuple(config)
        if ours is not None and not _same_checkpoint(ours, theirs):
            raise Conflict(f"another checkpoint {checkpoint_id!r} is there already")
        missing = writes if ours is None else _missing(ours, writes)
        if ours is not None and not missing:
            self.report.unchanged_checkpoints += 1
            return
        self.report.new_checkpoints += ours is None
        self.report.writes += len(missing)
        if self.dry_run:
            return
        if ours is None:
            parent: Any = {"thread_id": target, "checkpoint_ns": checkpoint_ns}
            if (parent_id := _parent(theirs)) is not None:
                parent["checkpoint_id"] = parent_id
            versions = theirs.checkpoint["channel_versions"]
            await saver.aput({"configurable": parent}, theirs.checkpoint, theirs.metadata, versions)
        await self._put_writes(saver, config, missing)
        back = await saver.aget_tuple(config)
        if back is None or not _same_checkpoint(back, theirs) or _missing(back, writes):
            raise Corrupt(
                f"checkpoint {checkpoint_id!r} of thread {target!r} reads back as something else "
                "than was written"
            )

    async def _put_writes(self, saver: MemalchemySaver, config: Any, writes: list[Write]) -> None:
        thread_id, checkpoint_ns = records.thread_and_ns(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        for (path, task), some in groupby(writes, key=lambda one: (one.task_path, one.task_id)):
            of_task = list(some)
            await saver.checkpointer(checkpoint_ns).put_writes(
                [(one.channel, one.value) for one in of_task],
                thread_id,
                checkpoint_id,
                task,
                task_path=path,
                indexes=[one.index for one in of_task],
                made_at=records.time_of_id(checkpoint_id),
            )

    async def items(self) -> None:
        store = Store(self.db)
        async for page in self.source.items():
            now = datetime.now(UTC)
            alive = [one for one in page if one.expires_at is None or one.expires_at > now]
            self.report.expired += len(page) - len(alive)
            there = await store.get_items(map(_name, alive), refresh=False)
            new = []
            for one in alive:
                found = there.get(_name(one))
                if found is None:
                    new.append(one)
                elif _same_item(found, one):
                    self.report.unchanged_items += 1
                else:
                    self.report.problems.append(f"item {_path(one)!r}: another is there already")
            if new and not self.dry_run:
                new = await self._put_items(store, new)
                await self._compare(store, new)
            self.report.new_items += len(new)
            self.report.vectors += sum(len(v) for one in new for v in one.vectors.values())
            self.advance(len(page))

    async def _put_items(self, store: Store, items: list[StoredItem]) -> list[StoredItem]:
        """Write those of the items that can be stored, and return them."""
        try:
            await store.put_batch(_new_item(one) for one in items)
        except (NotSerialisable, TooLarge) as error:
            if len(items) > 1:
                return [kept for one in items for kept in await self._put_items(store, [one])]
            self.report.problems.append(f"item {_path(items[0])!r}: {error}")
            return []
        return items

    async def _compare(self, store: Store, items: list[StoredItem]) -> None:
        back = await store.get_items(map(_name, items), refresh=False)
        for one in items:
            name = _name(one)
            same = name in back and _same_item(back[name], one)
            for path, vectors in one.vectors.items():
                for part, vector in enumerate(vectors):
                    stored = await store.get_embedding(*name, field=path, part=part)
                    same = same and stored == array("f", vector).tolist()
            if not same and (one.expires_at is None or one.expires_at > datetime.now(UTC)):
                raise Corrupt(
                    f"the item {one.key!r} in {'/'.join(one.namespace)} reads back as something "
                    "else than was written"
                )


def _parent(one: CheckpointTuple) -> str | None:
    return None if one.parent_config is None else one.parent_config["configurable"]["checkpoint_id"]


def _same_checkpoint(ours: CheckpointTuple, theirs: CheckpointTuple) -> bool:
    """Compare two readings of a checkpoint, without its writes."""
    return (
        _parent(ours) == _parent(theirs)
        and ours.metadata == theirs.metadata
        and _comparable(ours.checkpoint) == _comparable(theirs.checkpoint)
    )


def _comparable(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    values = checkpoint.get("channel_values") or {}
    packed = {channel: RAW.dumps_typed(value) for channel, value in values.items()}
    return {**checkpoint, "channel_values": packed}


def _missing(ours: CheckpointTuple, writes: list[Write]) -> list[Write]:
    """Return those of *writes* that *ours* lacks."""
    there = [(task, channel, RAW.dumps_typed(v)) for task, channel, v in ours.pending_writes or ()]
    missing = []
    for one in writes:
        packed = RAW.dumps_typed(RAW.loads_typed((one.value.format, one.value.data)))
        if (found := (one.task_id, one.channel, packed)) in there:
            there.remove(found)
        else:
            missing.append(one)
    return missing


def _name(one: StoredItem) -> tuple[tuple[str, ...], str]:
    return (records.ROOT, *one.namespace), one.key


def _path(one: StoredItem) -> str:
    return "/".join((*one.namespace, one.key))


def _new_item(one: StoredItem) -> NewItem:
    return NewItem(
        *_name(one),
        one.value,
        embedding=one.vectors or None,
        ttl=None if not one.ttl_minutes else one.ttl_minutes * 60,
        created_at=one.created_at,
        updated_at=one.updated_at,
        expires_at=one.expires_at,
    )


def _same_item(ours: StoreItem, theirs: StoredItem) -> bool:
    times = (ours.created_at, ours.updated_at) == (theirs.created_at, theirs.updated_at)
    return times and RAW.dumps_typed(ours.value) == RAW.dumps_typed(theirs.value)
