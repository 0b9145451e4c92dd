"""`MemalchemySaver`: a LangGraph checkpointer. What is stored is LangGraph's own bytes, packed.

A graph's thread is a log for each checkpoint namespace. This file is the asynchronous family and
the rules of LangGraph; ``shapes`` turns its records into states and back, ``blocking`` is the
synchronous family.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
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
from memalchemy.integrations.langgraph import shapes
from memalchemy.integrations.langgraph.blocking import Blocking
from memalchemy.keys import check_list
from memalchemy.sync.bridge import Bridge

PAGE = 20
RADIX, LEVEL = 32, 9
"""A state is much larger than what a step adds, and LangGraph takes long to make objects of it: to
store less is worth more than to read fewer rows.
"""


class MemalchemySaver(Blocking, BaseCheckpointSaver[str]):
    """Keeps the checkpoints of LangGraph graphs: ``builder.compile(checkpointer=…)``.

    Both families of methods are here: `graph.invoke` and `graph.ainvoke` work, from any thread and
    in any loop. A state is stored as a difference from another, messages are found by their words.

    Args:
        db: a `Database`, one of `memalchemy.sync`, or a URL. Closing the saver closes what it has
            opened, of a URL, and leaves a database that it was given open.
        serde: what turns values into bytes and back. Without it LangGraph's own, which makes
            objects of no classes but those it knows; yours are named in
            ``JsonPlusSerializer(allowed_msgpack_modules=[…])``. What an `EncryptedSerializer` has
            written cannot be searched.
        index_text: make what each step adds findable with `Checkpointer.search`.
        ttl: how long a thread lives after its last checkpoint, in seconds or as a timedelta.
    """

    def __init__(
        self,
        db: Database | str | Any,
        *,
        serde: SerializerProtocol | None = None,
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._bridge = Bridge(db, self)
        self.db = self._bridge.db
        self._options: dict[str, Any] = {
            "index_text": index_text,
            "ttl": ttl,
            "radix": RADIX,
            "compression_level": LEVEL,
        }
        self._checkpointers: OrderedDict[str, Checkpointer] = OrderedDict()

    def __repr__(self) -> str:
        return f"MemalchemySaver({self.db!r})"

    @classmethod
    def from_conn_string(
        cls, conn_string: str, *, serde: SerializerProtocol | None = None
    ) -> MemalchemySaver:
        """The saver of a URL, for ``with`` and ``async with``, as LangGraph's savers are made."""
        return cls(conn_string, serde=serde)

    def setup(self) -> None:
        """Bring the database's schema to this release's; a SQLite file needs no call for it."""
        self._bridge.wait(self.db.migrate())

    async def asetup(self) -> None:
        """`setup`."""
        await self.db.migrate()

    async def __aenter__(self) -> MemalchemySaver:
        await self.db.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._bridge.aclose()

    def checkpointer(self, checkpoint_ns: str = "") -> Checkpointer:
        """The native checkpointer of a checkpoint namespace: to search, list, measure and prune."""
        found = self._checkpointers.get(checkpoint_ns)
        if found is None:
            namespace = shapes.namespace_of(checkpoint_ns)
            found = Checkpointer(self.db, namespace=namespace, **self._options)
            self._checkpointers[checkpoint_ns] = found
            if len(self._checkpointers) > shapes.NAMESPACES:
                self._checkpointers.popitem(last=False)
        return found

    # --- Writing ---------------------------------------------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint as a child of the one that *config* names; one of its id is replaced.

        One with a `DeltaChannel` that is rebuilt from its parent's writes keeps that parent from
        being removed, whatever removes checkpoints.

        Raises:
            ThreadDeleted: *config* names a parent, and the thread has been deleted since.
            NotFound: a `DeltaChannel` is rebuilt from the parent, and that has been deleted since.
        """
        thread_id, checkpoint_ns = shapes.place_of(config)
        parent_id = get_checkpoint_id(config)
        checkpointer = self.checkpointer(checkpoint_ns)
        exact = get_checkpoint_metadata(config, metadata)
        unchanged = [c for c in checkpoint["channel_versions"] if c not in new_versions]
        kept = self._remembered(checkpointer, thread_id, parent_id, checkpoint, unchanged)
        # Before anything is awaited: a graph that goes on may change what it has passed.
        state = shapes.to_state(self.serde, checkpoint, exact, kept or {})
        known, occurred_at = shapes.filterable(exact), shapes.happened_at(checkpoint)
        versions = dict(checkpoint["channel_versions"])
        if kept is None and parent_id is not None:
            parent = await checkpointer.snapshot(thread_id, parent_id)
            if parent is not None:
                there = shapes.kept(self.serde, parent.state, versions, unchanged)
                state |= {shapes.key_of(channel): value for channel, value in there.items()}
        lineage = None if parent_id == checkpoint["id"] else parent_id
        run_id = exact.get("run_id")
        await checkpointer.save(
            state,
            thread_id,
            checkpoint["id"],
            known,
            lineage=lineage,
            rests_on_parent=lineage is not None and shapes.rests_on_parent(exact, state),
            run_id=run_id if isinstance(run_id, str) and shapes.is_id(run_id) else None,
            occurred_at=occurred_at,
        )
        return shapes.config_of(thread_id, checkpoint_ns, checkpoint["id"])

    def _remembered(
        self,
        checkpointer: Checkpointer,
        thread_id: str,
        parent_id: str | None,
        checkpoint: Checkpoint,
        unchanged: Sequence[str],
    ) -> dict[str, Packed] | None:
        """The bytes of channels that are at the version that the parent has them at, by key.

        What this process does not remember is serialised again if it was given; if it was not, the
        parent has to be read, and this is ``None``.
        """
        if parent_id is None or not unchanged:
            return {}
        keys = [shapes.ENVELOPE, *map(shapes.key_of, unchanged)]
        if state := checkpointer.remembered(thread_id, parent_id, keys):
            return shapes.kept(self.serde, state, checkpoint["channel_versions"], unchanged)
        given = checkpoint["channel_values"]
        return {} if all(channel in given for channel in unchanged) else None

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote after a checkpoint, which may be saved later.

        Of writes in the same place the first stays; of those of a special channel, as an error or
        an interrupt, the last.

        Raises:
            ThreadDeleted: the thread has been deleted since the checkpoint came to be.
        """
        given = check_list(writes, "writes")
        thread_id, checkpoint_ns = shapes.place_of(config)
        checkpoint_id = str(config["configurable"]["checkpoint_id"])
        await self.checkpointer(checkpoint_ns).put_writes(
            [(channel, shapes.dumps(self.serde, value)) for channel, value in given],
            thread_id,
            checkpoint_id,
            task_id,
            task_path=task_path,
            indexes=[WRITES_IDX_MAP.get(channel, at) for at, (channel, _) in enumerate(given)],
            made_at=shapes.made_at(checkpoint_id),
        )

    # --- Reading ---------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that *config* names, or without an id that of the highest; one round trip.

        Pending writes are in the order of (task_path, task_id, idx).
        """
        thread_id, checkpoint_ns = shapes.place_of(config)
        checkpoint_id = get_checkpoint_id(config)
        found = await self.checkpointer(checkpoint_ns).snapshot(
            thread_id, checkpoint_id or None, newest_by="id"
        )
        return None if found is None else self._tuple(thread_id, checkpoint_ns, found)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, the highest id first: of a thread, in one namespace or in all; or of all
        threads. *filter*: those whose metadata has all of it, where ``None`` is what is not there.
        """
        given = {} if config is None else config["configurable"]
        thread_id = str(given["thread_id"]) if "thread_id" in given else None
        below = given.get("checkpoint_ns") is None
        wanted = None if config is None else get_checkpoint_id(config)
        infos = self.checkpointer(given.get("checkpoint_ns") or "").history(
            thread_id,
            before=(get_checkpoint_id(before) or None) if before else None,
            below=below,
            order="id",
        )
        left = limit
        batch: list[CheckpointInfo] = []
        size = 1
        async for info in infos:
            if left is not None and left <= 0:
                return
            if wanted and info.checkpoint_id != wanted:
                continue
            if not shapes.may_match(info.metadata, filter):
                continue
            batch.append(info)
            if len(batch) < (size if left is None else min(size, left)):
                continue
            async for found in self._tuples(batch, filter):
                yield found
                if left is not None:
                    left -= 1
                    if left <= 0:
                        return
            batch, size = [], min(2 * size, PAGE)
        async for found in self._tuples(batch, filter):
            if left is not None and left <= 0:
                return
            yield found
            left = None if left is None else left - 1

    async def _tuples(
        self,
        batch: Sequence[CheckpointInfo],
        wanted: Mapping[str, Any] | None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The tuples of some checkpoints, in their order, whose metadata is as *wanted*."""
        for place, thread_id, ids in shapes.by_log(batch):
            checkpoint_ns = shapes.checkpoint_ns_of(place)
            async for one in self.checkpointer(checkpoint_ns).snapshots(thread_id, ids):
                if shapes.matches(self.serde, one.state, wanted):
                    yield self._tuple(thread_id, checkpoint_ns, one)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What each channel was given on the way to a checkpoint, from the last stored value on."""
        collected: dict[str, list[PendingWrite]]
        collected = {channel: [] for channel in check_list(channels, "channels")}
        seeds: dict[str, Any] = {}
        if collected:
            thread_id, checkpoint_ns = shapes.place_of(config)
            checkpointer = self.checkpointer(checkpoint_ns)
            remaining = set(collected)
            path = await self._ancestors(checkpointer, thread_id, get_checkpoint_id(config))
            async for one in checkpointer.snapshots(thread_id, path):
                for write in reversed(one.writes):
                    if write.channel in remaining:
                        value = shapes.loads(self.serde, write.value)
                        collected[write.channel].append((write.task_id, write.channel, value))
                for channel in [c for c in remaining if shapes.has(one.state, c)]:
                    seeds[channel] = shapes.loads(self.serde, one.state[shapes.key_of(channel)])
                    remaining.discard(channel)
                if not remaining:
                    break
        found: dict[str, DeltaChannelHistory] = {}
        for channel, writes in collected.items():
            found[channel] = {"writes": writes[::-1]}
            if channel in seeds:
                found[channel]["seed"] = seeds[channel]
        return found

    async def _ancestors(
        self, checkpointer: Checkpointer, thread_id: str, checkpoint_id: str | None
    ) -> list[str]:
        """The ids of a checkpoint's parent, its parent, and so on."""
        parents: dict[str, str | None] = {}
        async for info in checkpointer.history(thread_id, order="id"):
            parents[info.checkpoint_id] = info.parent_id
        current = checkpoint_id or next(iter(parents), None)
        return shapes.path_from(parents, current)[1:]

    def _tuple(self, thread_id: str, checkpoint_ns: str, found: Snapshot) -> CheckpointTuple:
        checkpoint, metadata = shapes.from_state(self.serde, found.checkpoint_id, found.state)
        parent = found.parent_id
        return CheckpointTuple(
            config=shapes.config_of(thread_id, checkpoint_ns, found.checkpoint_id),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=None
            if parent is None
            else shapes.config_of(thread_id, checkpoint_ns, parent),
            pending_writes=[
                (one.task_id, one.channel, shapes.loads(self.serde, one.value))
                for one in found.writes
            ],
        )

    # --- Removing and copying --------------------------------------------------------------------

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the thread in all checkpoint namespaces; what others keep of that id stays."""
        await self.checkpointer().delete(str(thread_id), below=True)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of some runs, with their writes.

        Those that a later one needs, to rebuild a `DeltaChannel`, stay.

        Raises:
            TypeError: *run_ids* is one string.
        """
        runs = [str(one) for one in check_list(run_ids, "run_ids")]
        for (thread_id, place), ids in (await self.checkpointer().find_runs(runs)).items():
            checkpointer = self.checkpointer(shapes.checkpoint_ns_of(place))
            await checkpointer.delete_checkpoints(thread_id, ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its writes, in all checkpoint namespaces, in one transaction.

        Raises:
            Conflict: the target holds something already.
        """
        source, target = str(source_thread_id), str(target_thread_id)
        await self.checkpointer().copy_thread(source, target, below=True)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of some threads (``"delete"``), or all but the latest of each
        namespace (``"keep_latest"``) and those that it needs to rebuild a `DeltaChannel`. The calls
        of subgraphs go whose root checkpoint goes; a subgraph with a memory of its own stays.

        Each thread is pruned in a transaction.

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

    async def _keep_latest(self, thread_id: str, tx: HostConnection) -> None:
        names: dict[str, list[CheckpointInfo]] = {}
        for place in await self.checkpointer().namespaces(thread_id, connection=tx):
            checkpoint_ns = shapes.checkpoint_ns_of(place)
            checkpointer = self.checkpointer(checkpoint_ns)
            infos = checkpointer.history(thread_id, order="id", connection=tx)
            names[checkpoint_ns] = [info async for info in infos]
        for checkpoint_ns, (_, *earlier) in names.items():
            gone = [info.checkpoint_id for info in earlier]
            await self.checkpointer(checkpoint_ns).delete_checkpoints(
                thread_id, gone, connection=tx
            )
        left = {
            info.checkpoint_id
            async for info in self.checkpointer().history(thread_id, order="id", connection=tx)
        }
        # A call may be saved before the checkpoint that it began from, which is not gone then.
        went = {info.checkpoint_id for info in names.get("", ())} - left
        for checkpoint_ns, (latest, *_) in names.items():
            if shapes.root_of_call(checkpoint_ns, latest.metadata) in went:
                await self.checkpointer(checkpoint_ns).delete(
                    thread_id, all_namespaces=False, connection=tx
                )

    def get_next_version(self, current: str | int | float | None, channel: None) -> str:
        """The next version of a channel: greater, and on another branch another."""
        return shapes.next_version(current)
