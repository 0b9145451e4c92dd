"""`MemalchemySaver`: a LangGraph checkpointer.

A thread of a graph is one log for each checkpoint namespace. The stored values are the bytes of
LangGraph's own serialiser; `_records` converts LangGraph's records to states and back.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import CheckpointInfo, Packed, Seconds, Snapshot
from memalchemy.database import Database, HostConnection
from memalchemy.errors import InvalidArgument
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations.langgraph import _records as records
from memalchemy.integrations.langgraph._adapter import LangGraphAdapter
from memalchemy.keys import check_list

MAX_NAMESPACES = 256
"""Checkpoint namespaces whose checkpointers are kept."""
MAX_BATCH = 100
"""Checkpoints that a listing reads together."""
LOG_OPTIONS = {"radix": 32, "compression_level": 9}
"""Options of the checkpointers of LangGraph's logs. A state is much larger than what a step adds,
and LangGraph spends long on reading it: storing fewer bytes is worth more than reading fewer rows.
"""


class MemalchemySaver(LangGraphAdapter, BaseCheckpointSaver[str]):
    """Stores the checkpoints of LangGraph graphs: ``builder.compile(checkpointer=…)``.

    It has the methods with and without ``await``, so `graph.invoke` and `graph.ainvoke` both work,
    in any thread and any event loop. A state is stored as a difference from another, and messages
    are searchable by their words.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        serde: the serialiser of values. By default LangGraph's own, as its own savers have it: it
            makes objects of any class that the data names, and warns of those that it does not
            know, unless ``LANGGRAPH_STRICT_MSGPACK=true`` is in the environment.
            ``JsonPlusSerializer(allowed_msgpack_modules=[Order])`` makes objects of those classes
            and of the known ones alone. Values that an `EncryptedSerializer` wrote are not
            searchable.
        strict: make objects only of classes that LangGraph knows to be safe, or that a graph
            compiled in its strict mode names. Objects of other classes are read as dicts of their
            fields.
        index_text: make what each step adds findable with `Checkpointer.search`.
        ttl: how long a thread lives after its last checkpoint, in seconds or as a timedelta.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        serde: SerializerProtocol | None = None,
        strict: bool = False,
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        if strict:
            if serde is not None:
                raise InvalidArgument("give serde= or strict=, not both: a serde has its own rules")
            serde = JsonPlusSerializer(allowed_msgpack_modules=None)
        LangGraphAdapter.__init__(self, db)
        BaseCheckpointSaver.__init__(self, serde=serde or JsonPlusSerializer())
        self._checkpointer_of = _cached_checkpointers(
            self.db,
            index_text=index_text,
            ttl=ttl,
            **LOG_OPTIONS,
        )

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,
        serde: SerializerProtocol | None = None,
        strict: bool = False,
    ) -> MemalchemySaver:
        """Make a saver for ``with`` or ``async with``, as LangGraph's savers are made.

        *pipeline* has no effect: a save is one round trip as it is.
        """
        return cls(conn_string, serde=serde, strict=strict)

    def checkpointer(self, checkpoint_ns: str = "") -> Checkpointer:
        """Return the native checkpointer of a namespace, to search, list, measure and prune it."""
        return self._checkpointer_of(records.namespace_of(checkpoint_ns))

    # --- Writing ---------------------------------------------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint as a child of the one that *config* names.

        A checkpoint with the same id is replaced. If a `DeltaChannel` is rebuilt from the parent's
        writes, nothing can remove the parent while this checkpoint exists.

        Raises:
            ThreadDeleted: *config* names a parent, and the thread was deleted since.
            NotFound: a `DeltaChannel` is rebuilt from the parent, and the parent was deleted since.
        """
        thread_id, checkpoint_ns = records.thread_and_ns(config)
        parent_id = get_checkpoint_id(config)
        checkpointer = self.checkpointer(checkpoint_ns)
        exact = get_checkpoint_metadata(config, metadata)
        unchanged = [c for c in checkpoint["channel_versions"] if c not in new_versions]
        cached = self._cached_values(checkpointer, thread_id, parent_id, checkpoint, unchanged)
        # Serialise before the first await: a running graph may change what it has passed.
        state = records.to_state(self.serde, checkpoint_ns, checkpoint, exact, cached or {})
        known = records.filterable(exact, checkpoint_ns)
        occurred_at = records.time_of(checkpoint)
        versions = dict(checkpoint["channel_versions"])
        if cached is None and parent_id is not None:
            parent = await checkpointer.snapshot(thread_id, parent_id)
            if parent is not None:
                found = records.unchanged_values(self.serde, parent.state, versions, unchanged)
                state |= {records.channel_key(channel): value for channel, value in found.items()}
        lineage = None if parent_id == checkpoint["id"] else parent_id
        await checkpointer.save(
            state,
            thread_id,
            checkpoint["id"],
            records.without_false_counters(known, state),
            lineage=lineage,
            occurred_at=occurred_at,
            **records.save_options(exact, state, lineage),
        )
        return records.config_of(thread_id, checkpoint_ns, checkpoint["id"])

    put = blocking(aput)

    def _cached_values(
        self,
        checkpointer: Checkpointer,
        thread_id: str,
        parent_id: str | None,
        checkpoint: Checkpoint,
        unchanged: Sequence[str],
    ) -> dict[str, Packed] | None:
        """Return the bytes of the unchanged channels from the cached state of the parent.

        Without a cached state, the channels are serialised again if the graph passed their values;
        if it did not, the parent has to be read: ``None``.
        """
        if parent_id is None or not unchanged:
            return {}
        keys = [records.ENVELOPE, *map(records.channel_key, unchanged)]
        if state := checkpointer.cached_values(thread_id, parent_id, keys):
            versions = checkpoint["channel_versions"]
            return records.unchanged_values(self.serde, state, versions, unchanged)
        given = checkpoint["channel_values"]
        return {} if all(channel in given for channel in unchanged) else None

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote after a checkpoint, which may itself be saved later.

        Of several writes with the same index the first stays; of those to a special channel, such
        as an error or an interrupt, the last.

        Raises:
            ThreadDeleted: the thread was deleted after the checkpoint was made.
        """
        given = check_list(writes, "writes")
        thread_id, checkpoint_ns = records.thread_and_ns(config)
        checkpoint_id = str(config["configurable"]["checkpoint_id"])
        await self.checkpointer(checkpoint_ns).put_writes(
            [(channel, records.dumps(self.serde, value)) for channel, value in given],
            thread_id,
            checkpoint_id,
            task_id,
            task_path=task_path,
            indexes=[WRITES_IDX_MAP.get(channel, at) for at, (channel, _) in enumerate(given)],
            made_at=records.time_of_id(checkpoint_id),
        )

    put_writes = blocking(aput_writes)

    # --- Reading ---------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that *config* names, or without an id the one with the highest id.

        This takes one round trip. Pending writes are sorted by (task_path, task_id, index).
        """
        thread_id, checkpoint_ns = records.thread_and_ns(config)
        checkpoint_id = get_checkpoint_id(config)
        found = await self.checkpointer(checkpoint_ns).snapshot(
            thread_id, checkpoint_id or None, newest_by="id"
        )
        return None if found is None else self._to_tuple(thread_id, checkpoint_ns, found)

    get_tuple = blocking(aget_tuple)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints of a thread or of all threads, the highest id first.

        *config* may name a thread, and one checkpoint namespace or all of them. *filter* selects by
        metadata, where ``None`` equals a missing name.
        """
        remaining = math.inf if limit is None else limit
        if remaining <= 0:
            return
        given = {} if config is None else config["configurable"]
        thread_id = str(given["thread_id"]) if "thread_id" in given else None
        checkpoint_id = None if config is None else get_checkpoint_id(config)
        infos = self.checkpointer(given.get("checkpoint_ns") or "").history(
            thread_id,
            limit=None if filter or checkpoint_id else limit,
            before=(get_checkpoint_id(before) or None) if before else None,
            below=given.get("checkpoint_ns") is None,
            order="id",
        )
        batch: list[CheckpointInfo] = []
        size = 1  # a caller often uses only the first
        async for info in infos:
            if checkpoint_id and info.checkpoint_id != checkpoint_id:
                continue
            if not records.may_match(info.metadata, filter):
                continue
            batch.append(info)
            if len(batch) < min(size, remaining):
                continue
            async for found in self._matching_tuples(batch, filter):
                yield found
                remaining -= 1
            if remaining <= 0:
                return
            batch, size = [], min(2 * size, MAX_BATCH)
        async for found in self._matching_tuples(batch, filter):
            yield found

    list = blocking(alist)

    async def _matching_tuples(
        self,
        batch: Sequence[CheckpointInfo],
        wanted: Mapping[str, Any] | None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield those checkpoints of a batch whose metadata matches, in their order."""
        async for info, one in self.checkpointer().snapshots_of(batch):
            if records.matches_metadata(self.serde, one.state, wanted):
                checkpoint_ns = records.checkpoint_ns_of(self.serde, info.namespace, one.state)
                yield self._to_tuple(info.thread_id, checkpoint_ns, one)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return each channel's last stored value, and its writes since, up to a checkpoint."""
        wanted = dict.fromkeys(check_list(channels, "channels"))
        if not wanted:
            return {}
        thread_id, checkpoint_ns = records.thread_and_ns(config)
        checkpointer = self.checkpointer(checkpoint_ns)
        target = get_checkpoint_id(config) or None
        path, seeds = await self._find_seeds(checkpointer, thread_id, target, wanted)
        writes = await checkpointer.get_writes_batch(thread_id, path)
        found: dict[str, DeltaChannelHistory] = {}
        for channel in wanted:
            at, seed = seeds.get(channel, (len(path), None))
            since: list[PendingWrite] = [
                (one.task_id, channel, records.loads(self.serde, one.value))
                for checkpoint_id in reversed(path[: at + 1])
                for one in writes.get(checkpoint_id, ())
                if one.channel == channel
            ]
            found[channel] = {"writes": since}
            if seed is not None:
                found[channel]["seed"] = records.loads(self.serde, seed)
        return found

    get_delta_channel_history = blocking(aget_delta_channel_history)

    async def _find_seeds(
        self,
        checkpointer: Checkpointer,
        thread_id: str,
        target: str | None,
        channels: Iterable[str],
    ) -> tuple[Sequence[str], Mapping[str, tuple[int, Packed]]]:
        """Find the newest stored value of each channel among the ancestors of *target*.

        Returns the ids of the ancestors, the parent first, as far back as those values are, and by
        channel the index of the ancestor that has the value, and the value. States are read only
        of checkpoints that may have one; where the chain of parents is broken, of all.
        """
        path: list[str] = []
        seeds: dict[str, tuple[int, Packed]] = {}
        unread: list[int] = []
        passed: list[int] = []
        remaining, size = set(channels), 1

        async def read(some: Sequence[int]) -> None:
            places = {path[at]: at for at in some}
            async for one in checkpointer.snapshots(thread_id, list(places)):
                for channel in [c for c in remaining if records.has_value(one.state, c)]:
                    seeds[channel] = (
                        places[one.checkpoint_id],
                        one.state[records.channel_key(channel)],
                    )
                    remaining.discard(channel)

        parent_id: str | None = None
        async with aclosing(self._iter_ancestors(checkpointer, thread_id, target)) as ancestors:
            async for info in ancestors:
                if not remaining:
                    break
                path.append(info.checkpoint_id)
                parent_id = info.parent_id
                may_have = not remaining <= records.rebuilt_channels(info.metadata)
                (unread if may_have else passed).append(len(path) - 1)
                if len(unread) >= size:
                    await read(unread)
                    unread, size = [], min(2 * size, MAX_BATCH)
        if remaining and unread:
            await read(unread)
        if remaining and parent_id is not None:
            await read(passed)
        if not remaining:
            del path[max((at for at, _ in seeds.values()), default=-1) + 1 :]
        return path, seeds

    async def _iter_ancestors(
        self, checkpointer: Checkpointer, thread_id: str, target: str | None
    ) -> AsyncGenerator[CheckpointInfo]:
        """Yield the parent of *target*, or else of the newest checkpoint, its parent, and so on."""
        seen: dict[str, CheckpointInfo] = {}
        current = target
        async for info in checkpointer.history(thread_id, order="id"):
            current = current or info.checkpoint_id
            seen[info.checkpoint_id] = info
            while current in seen:
                found = seen.pop(current)
                if found.checkpoint_id != target and target is not None:
                    yield found
                target = target or found.checkpoint_id
                if found.parent_id is None:
                    return
                current = found.parent_id

    def _to_tuple(self, thread_id: str, checkpoint_ns: str, found: Snapshot) -> CheckpointTuple:
        checkpoint, metadata = records.from_state(self.serde, found.checkpoint_id, found.state)
        parent = found.parent_id
        return CheckpointTuple(
            config=records.config_of(thread_id, checkpoint_ns, found.checkpoint_id),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=None
            if parent is None
            else records.config_of(thread_id, checkpoint_ns, parent),
            pending_writes=[
                (one.task_id, one.channel, records.loads(self.serde, one.value))
                for one in found.writes
            ],
        )

    # --- Deleting and copying --------------------------------------------------------------------

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread in all checkpoint namespaces; other frameworks' data of that id stays."""
        await self.checkpointer().delete(str(thread_id), below=True)

    delete_thread = blocking(adelete_thread)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs, with their writes.

        A checkpoint that a later one needs, to rebuild a `DeltaChannel`, stays.

        Raises:
            TypeError: *run_ids* is one string.
        """
        runs = [str(one) for one in check_list(run_ids, "run_ids")]
        for (thread_id, namespace), ids in (await self.checkpointer().find_runs(runs)).items():
            checkpointer = self._checkpointer_of(namespace)
            await checkpointer.delete_checkpoints(thread_id, ids)

    delete_for_runs = blocking(adelete_for_runs)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its writes, in all checkpoint namespaces, in one transaction.

        Raises:
            Conflict: the target is not empty.
        """
        source, target = str(source_thread_id), str(target_thread_id)
        await self.checkpointer().copy_thread(source, target, below=True)

    copy_thread = blocking(acopy_thread)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete checkpoints of threads, in one transaction for each thread.

        ``"delete"`` deletes all of them. ``"keep_latest"`` keeps the latest of each namespace and
        those that it needs to rebuild a `DeltaChannel`; a subgraph's call goes with the checkpoint
        of the root graph in which it began, also if that one was deleted before, and a subgraph
        with a memory of its own stays.

        Raises:
            TypeError: *thread_ids* is one string.
        """
        ids = [str(one) for one in check_list(thread_ids, "thread_ids")]
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy is 'keep_latest' or 'delete', not {strategy!r}")
        for thread_id in ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
            else:
                async with self.db.transaction() as tx:
                    await self._keep_latest(thread_id, tx)

    prune = blocking(aprune)

    async def _keep_latest(self, thread_id: str, tx: HostConnection) -> None:
        names: dict[tuple[str, ...], list[CheckpointInfo]] = {}
        for namespace in await self.checkpointer().namespaces(thread_id, connection=tx):
            checkpointer = self._checkpointer_of(namespace)
            infos = checkpointer.history(thread_id, order="id", connection=tx)
            names[namespace] = [info async for info in infos]
        for namespace, listed in names.items():
            await self._delete_earlier(self._checkpointer_of(namespace), thread_id, listed, tx)
        left = {
            info.checkpoint_id
            async for info in self.checkpointer().history(thread_id, order="id", connection=tx)
        }
        # A call may be saved before the checkpoint in which it began, whose id is the newest then.
        newest = max(left, default="")
        for namespace, (latest, *_) in names.items():
            root = records.root_of_call(namespace, latest.metadata)
            if root is not None and root not in left and root < newest:
                await self._checkpointer_of(namespace).delete(
                    thread_id, all_namespaces=False, connection=tx
                )

    async def _delete_earlier(
        self,
        checkpointer: Checkpointer,
        thread_id: str,
        infos: Sequence[CheckpointInfo],
        tx: HostConnection,
    ) -> None:
        """Delete all *infos* of a log but the first, which has the highest id."""
        latest, *earlier = [info.checkpoint_id for info in infos]
        async for last in checkpointer.history(thread_id, limit=1, connection=tx):
            if last.checkpoint_id == latest:
                # A prune also hands over the words that the latest still holds.
                await checkpointer.prune(thread_id, keep_last=1, connection=tx)
                return
        await checkpointer.delete_checkpoints(thread_id, earlier, connection=tx)

    def get_next_version(self, current: str | int | float | None, channel: None) -> str:
        """Return a channel's next version, which differs from those of other branches."""
        return records.next_version(current)


def _cached_checkpointers(
    db: Database, **options: Any
) -> Callable[[tuple[str, ...]], Checkpointer]:
    """Return a function from namespaces of logs to checkpointers, which keeps the last used."""

    @lru_cache(maxsize=MAX_NAMESPACES)
    def checkpointer(namespace: tuple[str, ...]) -> Checkpointer:
        return Checkpointer(db, namespace=namespace, **options)

    return checkpointer
