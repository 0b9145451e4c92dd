"""`MemalchemyCheckpointer`: the states of locus' agents and graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from locus.core.protocols import CheckpointerCapabilities
from locus.core.state import AgentState
from locus.memory import registry
from locus.memory.checkpointer import BaseCheckpointer
from pydantic import ValidationError

from memalchemy import Checkpointer, NotFound, Retention
from memalchemy.contracts import MAX_LIMIT, CheckpointRecord, Seconds
from memalchemy.database import HostConnection
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations._stored_forms import not_of_the_form, reason_of
from memalchemy.integrations._values import storable
from memalchemy.integrations.locus._adapter import LocusAdapter

INDEXED_FIELDS = ("messages", "reasoning_steps", "errors", "metadata")
"""Fields of an agent's state whose words are searchable; a graph's state is in the metadata. The
other fields are settings, the same in every state, and results of tools, which the messages repeat.
"""

SUPERSEDED_SAVES = "_locus_iteration_checkpoints"
"""Key in the state's metadata under which an agent lists the saves of a turn that its last save
makes superfluous; it deletes them afterwards.
"""


class MemalchemyCheckpointer(LocusAdapter, BaseCheckpointer):
    """Stores every state of the threads of an agent or a graph in a SQL database.

    ``Agent(checkpointer=…)`` and ``StateGraph.compile(checkpointer=…)`` save after each iteration
    and each step. Unlike in locus' own checkpointers, order is the order of the saves and never a
    clock's, each save is stored as a whole or not at all and takes the room of what is new in it,
    and a failure is an exception.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several uses of one thread id apart, below ``locus``. Threads of other
            frameworks with the same id are other threads, which no method here deletes.
        index_text: make the words that each save adds findable with `search`.
        retention: rules that every save enforces.
        ttl: how long a thread lives after its last save, in seconds or as a timedelta.

    ``native`` is the `memalchemy.Checkpointer` underneath, with history, diffs, pruning and
    transactions, on the same states. The methods that locus has without ``await`` may be called
    from any thread.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
        retention: Retention | None = None,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.native: Checkpointer[AgentState] = Checkpointer(
            self.db,
            namespace=self.namespace,
            state_type=AgentState,
            index_text=INDEXED_FIELDS if index_text else False,
            retention=retention,
            ttl=ttl,
        )
        self._index_text = index_text
        self._superseded: dict[str, frozenset[str]] = {}

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """All capabilities; without `search` if no words are stored, or none may be."""
        known = asdict(self.native.capabilities)
        return CheckpointerCapabilities(
            **known | {"search": known["search"] and self._index_text},
        )

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Save *state* as the newest of its thread, and return its id.

        Without a *checkpoint_id* it is a new UUID of 32 hexadecimal digits, as locus documents.

        A checkpoint with that id is replaced. *ttl* takes precedence over that of the checkpointer.
        With *connection* the save is part of a transaction, of ``db.transaction()`` or the host's.

        Raises:
            NotSerialisable, TooLarge: nothing was written.
        """
        self._note_superseded(thread_id, state)
        return await self.native.save(
            canonical(state),
            thread_id,
            checkpoint_id or uuid4().hex,
            metadata,
            ttl=ttl,
            connection=connection,
        )

    async def load(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> AgentState | None:
        """Return the state of a checkpoint, the newest without an id; ``None`` if it is absent."""
        found: AgentState | None
        try:
            found = await self.native.load(thread_id, checkpoint_id, connection=connection)
        except ValidationError as error:
            raise not_of_the_form("state of locus", reason_of(error)) from None
        if found is not None:
            self._note_superseded(thread_id, found)
        return found

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """Return the ids of the thread's checkpoints, newest first."""
        return await self.native.list_checkpoints(thread_id, limit)

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete a checkpoint, or without an id the thread; return ``True`` if it was there.

        Other frameworks' data under the thread's id stays; ``native.delete`` deletes that, too.
        When an agent deletes the iterations of a finished turn, `search` finds their words at the
        checkpoint that stays.
        """
        if checkpoint_id is None:
            self._superseded.pop(thread_id, None)
            return await self.native.delete(thread_id, all_namespaces=False)
        known = self._superseded.get(thread_id, frozenset())
        was_there = await self.native.delete(
            thread_id, checkpoint_id, superseded=checkpoint_id in known
        )
        if left := known - {checkpoint_id}:
            self._superseded[thread_id] = left
        else:
            self._superseded.pop(thread_id, None)
        return was_there

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Return ``True`` if the checkpoint is there, or without an id, if the thread has any."""
        return await self.native.exists(thread_id, checkpoint_id)

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Return the checkpoints whose save added words of *query*, best first.

        Each is a dict as `get_metadata` returns it, with ``score`` (0 to 1), ``snippet``, and the
        state as a dict under ``data``.
        """
        if not self.capabilities.search:
            raise NotImplementedError(
                f"{type(self).__name__} does not support 'search': no words are stored, or none "
                "can be read; see checkpointer.capabilities.search"
            )
        return _with_time_strings(await self.native.search(query, limit, data=True))

    async def search_data(
        self, path: str, value: Any, limit: int = 100, *, among: int | None = 1000
    ) -> list[dict[str, Any]]:
        """Return threads whose newest state has *value* under *path*, the last saved first.

        *path* is a key such as ``agent_id``. The *among* threads that were saved last are read.
        Each result is a dict as `query_by_metadata` returns it.
        """
        return _with_time_strings(await self.native.search_data(path, value, limit, among=among))

    async def query_by_metadata(
        self, key: str, value: Any, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return checkpoints whose metadata has *value* under *key*, newest first.

        Each is a dict as `get_metadata` returns it, with the state as a dict under ``data``.
        """
        return _with_time_strings(await self.native.query_by_metadata(key, value, limit, data=True))

    async def get_metadata(
        self, thread_id: str, checkpoint_id: str | None = None
    ) -> dict[str, Any] | None:
        """Describe a checkpoint, the newest without an id; ``None`` if there is none.

        The keys are thread_id, checkpoint_id, parent_id, seq, metadata, raw_size and stored_size in
        bytes, and created_at and updated_at, as in locus texts in ISO 8601, UTC.
        """
        found = await self.native.get_metadata(thread_id, checkpoint_id)
        return None if found is None else _with_time_strings([found])[0]

    async def list_with_metadata(self, limit: int = 100) -> list[dict[str, Any]]:
        """Describe the newest checkpoints of all threads, newest first, as `get_metadata` does."""
        return _with_time_strings(await self.native.list_with_metadata(limit))

    async def list_threads(
        self, limit: int = 100, pattern: str = "*", *, offset: int = 0
    ) -> list[str]:
        """Return the threads that have a checkpoint, the last saved first.

        *pattern* is a glob; *offset* skips that many threads.
        """
        return await self.native.list_threads(limit, pattern, offset=offset)

    async def vacuum(self, older_than_days: int = 30) -> int:
        """Delete threads that were not saved for so many days; return the checkpoints deleted."""
        return await self.native.vacuum(older_than_days)

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Copy a thread with its ids and order; return ``False`` if there is nothing to copy.

        Raises:
            Conflict: the destination is not empty.
        """
        try:
            await self.native.fork(source_thread_id, new_thread_id=dest_thread_id)
        except NotFound:
            return False
        return True

    # --- Methods of locus' MemoryCheckpointer without await ---------------------------------------

    def get_thread_ids(self) -> list[str]:
        """Return all thread ids, the last saved first."""
        return self.wait(self.list_threads(MAX_LIMIT))

    def get_checkpoint_count(self, thread_id: str | None = None) -> int:
        """Count the checkpoints of a thread, or without an id of all threads."""
        return self.wait(self._count_checkpoints(thread_id))

    def clear(self) -> None:
        """Delete all threads of this tenant and namespace."""
        self.wait(self._delete_all())

    def _note_superseded(self, thread_id: str, state: AgentState) -> None:
        if ids := state.metadata.get(SUPERSEDED_SAVES):
            self._superseded[thread_id] = frozenset(ids)

    async def _count_checkpoints(self, thread_id: str | None) -> int:
        if thread_id is None:
            return len(await self.native.list_with_metadata(MAX_LIMIT))
        stats = await self.native.get_storage_stats(thread_id)
        return int(stats["total_checkpoints"])

    async def _delete_all(self) -> None:
        for thread_id in await self.list_threads(MAX_LIMIT):
            await self.delete(thread_id)


def canonical(state: AgentState) -> dict[str, Any]:
    """Return the stored form of *state*, with sets as sorted lists.

    locus lists a set in the order of the process' hashes: another process would see a change. The
    application's metadata keep the types that memalchemy stores, of which locus' JSON has fewer.
    """
    mapping = state.to_checkpoint()
    mapping["metadata"] = storable(state.metadata, "/metadata")
    for name, value in mapping.items():
        if isinstance(value, list) and isinstance(getattr(state, name, None), (set, frozenset)):
            mapping[name] = sorted(value)
    return mapping


def _with_time_strings(found: Sequence[CheckpointRecord]) -> list[dict[str, Any]]:
    """Add the times that locus' callers read; replacing a checkpoint renews both."""
    told: list[dict[str, Any]] = []
    for one in found:
        saved = one["created_at"].isoformat()
        told.append({**one, "created_at": saved, "updated_at": saved})
    return told


def register(name: str = "memalchemy") -> None:
    """Register the checkpointer with locus' ``get_checkpointer``, as ``"memalchemy:URL"``."""

    def make(config_hint: str | None = None, **options: Any) -> MemalchemyCheckpointer:
        return MemalchemyCheckpointer(config_hint, **options)

    registry.register_checkpointer(name, make)
