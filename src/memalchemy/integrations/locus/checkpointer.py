"""`MemalchemyCheckpointer`: the states of locus' agents and graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from locus.core.protocols import CheckpointerCapabilities
from locus.core.state import AgentState
from locus.memory import registry
from locus.memory.checkpointer import BaseCheckpointer

from memalchemy import Checkpointer, Database, NotFound, Retention
from memalchemy.contracts import Seconds
from memalchemy.database import HostConnection
from memalchemy.integrations.locus.place import Place

EVERY = 2**31 - 1

WORDS = ("messages", "reasoning_steps", "errors", "metadata")
"""What of an agent's state has words to be found by; a graph's is in the metadata. The rest is
settings, alike in every state, and what tools gave, which is in the messages too.
"""

STEPS = "_locus_iteration_checkpoints"
"""Where an agent notes, in the state's metadata, the saves that its turn's last one makes needless;
it deletes them after that.
"""


class MemalchemyCheckpointer(Place, BaseCheckpointer):
    """Keeps every state of an agent's or a graph's threads, in a SQL database.

    ``Agent(checkpointer=…)`` and ``StateGraph.compile(checkpointer=…)`` save after each iteration
    and each step. What differs from locus' own: order is that of the saves and never a clock's,
    each save is whole or absent and costs what is new in it, and failure is an exception.

    Args:
        db: a `Database`, which may hold anything else besides, or a URL. Without it the URL in
            ``MEMALCHEMY_URL``, and without that a database in memory, for this object alone.
        namespace: keeps uses of one thread id apart. ``locus`` stands before it: other frameworks'
            threads of the same id are others, and stay when one is deleted here.
        index_text: make what each save adds findable with `search`.
        retention: rules that every save keeps.
        ttl: how long a thread lives after its last save, in seconds or as a timedelta.

    ``native`` is the `memalchemy.Checkpointer` underneath, with its history, diffs, pruning and
    transactions; it gives and takes the same states. The methods that locus has without ``await``
    block until they are done, in any thread.
    """

    def __init__(
        self,
        db: Database | str | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
        retention: Retention | None = None,
        ttl: Seconds | None = None,
    ) -> None:
        self._settle(db, namespace)
        self.native = Checkpointer(
            self.db,
            namespace=self._namespace,
            state_type=AgentState,
            index_text=WORDS if index_text else False,
            retention=retention,
            ttl=ttl,
        )
        self._index_text = index_text
        self._steps: dict[str, frozenset[str]] = {}

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """Everything, but `search` where no words are stored, or none may be."""
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
        """Save *state* as the newest of its thread; return its id, made up if none is given.

        An id that is there is replaced. *ttl* is in place of the checkpointer's own; with
        *connection* the save is part of a transaction, of ``db.transaction()`` or the host's.

        Raises:
            NotSerialisable, TooLarge: nothing was written.
        """
        self._note_steps(thread_id, state)
        return await self.native.save(
            _canonical(state),
            thread_id,
            checkpoint_id,
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
        """The state of a checkpoint, the newest without an id; ``None`` if there is none."""
        found: AgentState | None = await self.native.load(
            thread_id, checkpoint_id, connection=connection
        )
        if found is not None:
            self._note_steps(thread_id, found)
        return found

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """The ids of the thread's checkpoints, newest first."""
        return await self.native.list_checkpoints(thread_id, limit)

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete a checkpoint, or without an id all of the thread's; whether there was one.

        What other frameworks keep under the thread's id stays: `Checkpointer.delete` of ``native``
        deletes that, too. What an iteration added that an agent deletes at the end of its turn is
        found by `search` at the checkpoint that stays.
        """
        if checkpoint_id is None:
            self._steps.pop(thread_id, None)
            return await self.native.delete(thread_id, all_namespaces=False)
        steps = self._steps.get(thread_id, frozenset())
        is_step = checkpoint_id in steps
        was_there = await self.native.delete(thread_id, checkpoint_id, superseded=is_step)
        if left := steps - {checkpoint_id}:
            self._steps[thread_id] = left
        else:
            self._steps.pop(thread_id, None)
        return was_there

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Whether the checkpoint is there; without an id, whether the thread has any."""
        return await self.native.exists(thread_id, checkpoint_id)

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Checkpoints whose save added words of *query*, best first, as `get_metadata` gives one,
        with ``score`` (0 to 1), ``snippet``, and the state as a dict under ``data``.
        """
        self._require_capability("search")
        return _told(await self.native.search(query, limit, data=True))

    async def search_data(
        self, path: str, value: Any, limit: int = 100, *, among: int | None = 1000
    ) -> list[dict[str, Any]]:
        """Threads whose newest state has *value* under *path*, a key such as ``agent_id``, the last
        saved first; as `query_by_metadata` gives one. Of the *among* threads saved last.
        """
        return _told(await self.native.search_data(path, value, limit, among=among))

    async def query_by_metadata(
        self, key: str, value: Any, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Checkpoints that have *value* under *key*, newest first, as `get_metadata` gives one,
        with the state as a dict under ``data``.
        """
        return _told(await self.native.query_by_metadata(key, value, limit, data=True))

    async def get_metadata(
        self, thread_id: str, checkpoint_id: str | None = None
    ) -> dict[str, Any] | None:
        """What is known of a checkpoint, the newest without an id; ``None`` if there is none.

        thread_id, checkpoint_id, parent_id, seq, metadata, raw_size and stored_size in bytes, and
        created_at and updated_at, which are text as in locus: ISO 8601, UTC.
        """
        found = await self.native.get_metadata(thread_id, checkpoint_id)
        return None if found is None else _told([found])[0]

    async def list_with_metadata(self, limit: int = 100) -> list[dict[str, Any]]:
        """The newest checkpoints of all threads, newest first, as `get_metadata` gives one."""
        return _told(await self.native.list_with_metadata(limit))

    async def list_threads(
        self, limit: int = 100, pattern: str = "*", *, offset: int = 0
    ) -> list[str]:
        """Threads that have a checkpoint, the last saved first.

        *pattern* is a glob, *offset* leaves out as many of the first.
        """
        return await self.native.list_threads(limit, pattern, offset=offset)

    async def vacuum(self, older_than_days: int = 30) -> int:
        """Delete threads that were not saved for so long; how many checkpoints went."""
        return await self.native.vacuum(older_than_days)

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Copy a thread; ids and order stay. ``False`` if there is nothing to copy.

        Raises:
            Conflict: the other thread holds something already.
        """
        try:
            await self.native.fork(source_thread_id, new_thread_id=dest_thread_id)
        except NotFound:
            return False
        return True

    # --- What locus' MemoryCheckpointer has without await -----------------------------------------

    def get_thread_ids(self) -> list[str]:
        """`list_threads`, all of them."""
        return self._bridge.wait(self.list_threads(EVERY))

    def get_checkpoint_count(self, thread_id: str | None = None) -> int:
        """How many checkpoints a thread has, 0 if it is not there; without an id, all threads."""
        return self._bridge.wait(self._count(thread_id))

    def clear(self) -> None:
        """Delete all threads of this tenant and namespace."""
        self._bridge.wait(self._clear())

    def _note_steps(self, thread_id: str, state: AgentState) -> None:
        if steps := state.metadata.get(STEPS):
            self._steps[thread_id] = frozenset(steps)

    async def _count(self, thread_id: str | None) -> int:
        if thread_id is None:
            return len(await self.native.list_with_metadata(EVERY))
        stats = await self.native.get_storage_stats(thread_id)
        return int(stats["total_checkpoints"])

    async def _clear(self) -> None:
        for thread_id in await self.list_threads(EVERY):
            await self.delete(thread_id)


def _canonical(state: AgentState) -> dict[str, Any]:
    """What is stored of *state*. Sets come as lists in the order of a process' hashes, and would
    look changed to every other process.
    """
    mapping = state.to_checkpoint()
    for name, value in mapping.items():
        if isinstance(value, list) and isinstance(getattr(state, name, None), (set, frozenset)):
            mapping[name] = sorted(value)
    return mapping


def _told(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records with the times that locus' callers look for. A save that replaces one renews both."""
    for one in found:
        saved = one["created_at"].isoformat()
        one |= {"created_at": saved, "updated_at": saved}
    return found


def register(name: str = "memalchemy") -> None:
    """Let locus' ``get_checkpointer`` find `MemalchemyCheckpointer`: ``"memalchemy:URL"``."""

    def make(config_hint: str | None = None, **options: Any) -> MemalchemyCheckpointer:
        return MemalchemyCheckpointer(config_hint, **options)

    registry.register_checkpointer(name, make)
