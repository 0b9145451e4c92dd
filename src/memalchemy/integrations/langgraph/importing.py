"""From LangGraph's own tables to `MemalchemySaver`'s and `MemalchemyStore`'s: read, written, read
back and compared, checkpoint by checkpoint and item by item.

Nothing is kept about an import: what is there already is seen to be the same, and passed over.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple

from memalchemy.contracts import NewItem, StoreItem
from memalchemy.database import Database
from memalchemy.errors import Conflict, Corrupt, NotSerialisable, ThreadDeleted, TooLarge
from memalchemy.integrations.langgraph import shapes
from memalchemy.integrations.langgraph.saver import MemalchemySaver
from memalchemy.integrations.langgraph.source import Raw, Source, StoredItem, Write, opened
from memalchemy.store import Store

ROOT = ("langgraph",)
RAW: Any = Raw()


@dataclass(slots=True)
class ImportReport:
    """What an import has done, or, of a dry run, would do.

    ``new`` and ``unchanged`` count checkpoints and items; ``writes`` and ``vectors`` those that
    were written. ``expired`` items are left where they are. ``problems`` names what could not be
    imported; what there is under the same name stays as it is.
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
    """Checkpoints and items that were looked at."""
    problems: list[str] = field(default_factory=list)


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
    """Bring what LangGraph's savers and stores have in the database at *url* over to *db*.

    All threads with all their checkpoint namespaces, checkpoints, parents and pending writes; all
    items of the store with their times, lifetimes and vectors. Values are taken as the bytes that
    they are, so no class of yours is needed, and what an `EncryptedSerializer` has written on
    PostgreSQL stays encrypted. Each checkpoint is read back through `MemalchemySaver` and compared
    with LangGraph's own reading.

    The source is not changed. What is in *db* already is passed over if it is the same, and named
    in the report if it is not: so an import that was interrupted goes on when it is run again, and
    one that is repeated brings what came since.

    Args:
        schema: that of LangGraph's tables (PostgreSQL).
        prefix: put before every thread id.
        dry_run: only look.
        progress: called after each checkpoint and each page of items.

    Raises:
        DriverMissing: ``langgraph-checkpoint-sqlite`` or ``-postgres`` is not installed.
        NotFound: there are no tables of LangGraph's.
        Corrupt: *db* gives back something else than was written.
    """
    async with opened(url, schema=schema) as source:
        report = ImportReport()
        report.checkpoints, report.items = await source.count()
        work = _Import(source, db, prefix, dry_run, index_text, report, progress)
        await work.threads()
        await work.items()
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

    def tell(self, done: int) -> None:
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
                        self.tell(len(ids) - at)
                        break
                    self.tell(1)

    async def checkpoint(
        self, saver: MemalchemySaver, thread_id: str, checkpoint_ns: str, checkpoint_id: str
    ) -> None:
        """Bring one checkpoint with its writes, or see that they are there."""
        theirs = await self.source.checkpoint(thread_id, checkpoint_ns, checkpoint_id)
        if theirs is None:
            return
        writes = await self.source.pending(thread_id, checkpoint_ns, checkpoint_id)
        target = self.prefix + thread_id
        config = shapes.config_of(target, checkpoint_ns, checkpoint_id)
        ours = await saver.aget_tuple(config)
        if ours is not None and not _same_checkpoint(ours, theirs):
            raise Conflict(f"there is another checkpoint {checkpoint_id!r} already")
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
        thread_id, checkpoint_ns = shapes.place_of(config)
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
                made_at=shapes.made_at(checkpoint_id),
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
                    self.report.problems.append(f"item {_place(one)!r}: there is another already")
            if new and not self.dry_run:
                new = await self._put_items(store, new)
                await self._compare(store, new)
            self.report.new_items += len(new)
            self.report.vectors += sum(len(v) for one in new for v in one.vectors.values())
            self.tell(len(page))

    async def _put_items(self, store: Store, items: list[StoredItem]) -> list[StoredItem]:
        """Write items together, or those of them that can be; which were."""
        try:
            await store.put_batch(_new_item(one) for one in items)
        except (NotSerialisable, TooLarge) as error:
            if len(items) > 1:
                return [kept for one in items for kept in await self._put_items(store, [one])]
            self.report.problems.append(f"item {_place(items[0])!r}: {error}")
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
    """Whether both readings of a checkpoint are the same but for its writes."""
    mine, other = dict(ours.checkpoint), dict(theirs.checkpoint)
    values: list[dict[str, Any]] = [mine.pop("channel_values", {}), other.pop("channel_values", {})]  # type: ignore[list-item]
    said, meant = ({name: RAW.dumps_typed(v) for name, v in one.items()} for one in values)
    same_place = _parent(ours) == _parent(theirs) and ours.metadata == theirs.metadata
    return same_place and mine == other and said == meant


def _missing(ours: CheckpointTuple, writes: list[Write]) -> list[Write]:
    """Which of *writes* are not there."""
    there = [(task, channel, RAW.dumps_typed(v)) for task, channel, v in ours.pending_writes or ()]
    missing = []
    for one in writes:
        kind, data = RAW.dumps_typed(RAW.loads_typed((one.value.format, one.value.data)))
        said = (one.task_id, one.channel, (kind, data))
        if said in there:
            there.remove(said)
        else:
            missing.append(one)
    return missing


def _name(one: StoredItem) -> tuple[tuple[str, ...], str]:
    return (*ROOT, *one.namespace), one.key


def _place(one: StoredItem) -> str:
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
