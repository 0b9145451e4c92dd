"""States: read once, kept for a while, and shown as trees."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from memalchemy._cache import BoundedCache
from memalchemy.adapters import Path, views_of
from memalchemy.checkpoints import Checkpointer, listing
from memalchemy.contracts import CheckpointInfo
from memalchemy.database import Database
from memalchemy.errors import NotFound
from memalchemy.inspection._log_heads import log_of
from memalchemy.inspection._records import Record
from memalchemy.inspection.tree import tree, value_at
from memalchemy.keys import decode_namespace
from memalchemy.log import Log
from memalchemy.log.scan import run_query
from memalchemy.protection.signed_reads import check_nothing_missing
from memalchemy.stored_messages import is_empty, merge_writes, messages_of, resolved

ANCESTORS = 2_000
"""Steps whose writes a state is completed from, at most."""


@dataclass(frozen=True)
class LoadedState:
    """A state that was read, with where its messages are."""

    state: Any
    size: int
    found: tuple[Path, list[Any]] | None


class States:
    """The states of a database's checkpoints; those that were read last are kept.

    Args:
        cache_bytes: the encoded size of the states that are kept, at most.
    """

    def __init__(self, db: Database, cache_bytes: int) -> None:
        self.db = db
        self._loaded: BoundedCache[Any, LoadedState] = BoundedCache(
            cache_bytes, lambda loaded: max(loaded.size, 1)
        )

    async def checkpoint(self, log: Log, at: str | None) -> CheckpointInfo | None:
        """Return a checkpoint without its state, by default the newest; ``None`` without any."""
        binds = log.binds()
        if at is None:
            statement: Any = listing.list_checkpoints(self.db.dialect, before=False)
            binds |= {"p_limit": 1}
        else:
            statement = listing.read_checkpoint(self.db.dialect)
            binds |= {"p_checkpoint_id": at}
        check = partial(check_nothing_missing, self.db.dialect, log, self.db.signing)
        rows = await run_query(self.db, statement, binds, check=check)
        return listing.info(self.db, rows[0]) if rows else None

    async def require_checkpoint(self, log: Log, at: str | None) -> CheckpointInfo:
        """Return a checkpoint, by default the newest, without its state.

        Raises:
            NotFound: there is no such checkpoint.
        """
        info = await self.checkpoint(log, at)
        if info is None:
            wanted = "any checkpoint" if at is None else f"checkpoint {at!r}"
            raise NotFound(f"thread {log.thread_id!r} does not have {wanted} in this namespace")
        return info

    async def load(self, log: Log, info: CheckpointInfo) -> LoadedState:
        """Return the state of a checkpoint.

        Raises:
            NotFound: it was deleted meanwhile.
        """
        key = (log, info.checkpoint_id, info.seq, info.created_at)
        loaded = self._loaded.get(key)
        if loaded is None:
            checkpointer = checkpointer_of(self.db, log)
            state = await checkpointer.load(log.thread_id, info.checkpoint_id)
            if state is None:
                raise NotFound(f"checkpoint {info.checkpoint_id!r} was deleted meanwhile")
            state = await self._with_channels_of_writes(log, info, state)
            found = await asyncio.to_thread(messages_of, state, info.namespace)
            loaded = LoadedState(state, info.raw_size, found)
            if loaded.size < self._loaded.max_value_size:
                self._loaded.put(key, loaded)
        return loaded

    async def load_listed(self, log: Log, ids: Iterable[str]) -> dict[str, LoadedState]:
        """Return the states of some checkpoints of a log by their ids, read together.

        Those that are gone are left out. Channels that earlier steps' writes make up are as they
        are stored: see `channels_of_writes`.
        """
        namespace = decode_namespace(log.namespace)
        found: dict[str, LoadedState] = {}
        snapshots = checkpointer_of(self.db, log).snapshots(log.thread_id, list(ids))
        async for one in snapshots:
            messages = await asyncio.to_thread(messages_of, one.state, namespace)
            found[one.checkpoint_id] = LoadedState(one.state, 0, messages)
        return found

    async def _with_channels_of_writes(self, log: Log, info: CheckpointInfo, state: Any) -> Any:
        """Return a state with those channels that earlier steps' writes make up."""
        if not isinstance(state, dict):
            return state
        declared = channels_of_writes(info)
        wanted = {name for name in declared if is_empty(state.get(name))}
        if not wanted:
            return state
        made: dict[str, list[Any]] = {name: [] for name in wanted}
        path = await self._list_ancestors(log, info)
        async for one in checkpointer_of(self.db, log).snapshots(log.thread_id, path):
            for write in reversed(one.writes):
                if write.channel in wanted:
                    made[write.channel].insert(0, resolved(write.value))
            for name in list(wanted):
                value = one.state.get(name)
                if value is not None and not is_empty(value):
                    made[name].insert(0, resolved(value))
                    wanted.discard(name)
            if not wanted:
                break
        return state | {name: merge_writes(pieces) for name, pieces in made.items()}

    async def _list_ancestors(self, log: Log, info: CheckpointInfo) -> list[str]:
        parents: dict[str, str | None] = {}
        history = checkpointer_of(self.db, log).history(log.thread_id, limit=2 * ANCESTORS)
        async for one in history:
            parents[one.checkpoint_id] = one.parent_id
        path: list[str] = []
        current: str | None = info.parent_id
        while current in parents and len(path) < ANCESTORS and current not in path[-1:]:
            assert current is not None
            path.append(current)
            current = parents.pop(current)
        return path


def channels_of_writes(info: CheckpointInfo) -> list[str]:
    """Return the channels of a state that earlier steps' writes make up."""
    views = views_of(info.namespace)
    return [name for view in views for name in view.channels_of_writes(info.metadata)]


def checkpointer_of(db: Database, log: Log) -> Checkpointer:
    """Return a checkpointer for the namespace of a log."""
    return Checkpointer(db, namespace=decode_namespace(log.namespace))


async def read_state_tree(
    states: States,
    thread_id: str,
    namespace: Iterable[str] = (),
    *,
    at: str | None = None,
    path: str = "",
    offset: int = 0,
) -> Record:
    """Return a value within a state, as a tree: everything of it, in pages of 100 children."""
    log = log_of(states.db, thread_id, namespace)
    info = await states.require_checkpoint(log, at)
    loaded = await states.load(log, info)
    node = await asyncio.to_thread(lambda: tree(value_at(loaded.state, path), offset=offset))
    return {"at": info.checkpoint_id, "path": path, "node": node}
