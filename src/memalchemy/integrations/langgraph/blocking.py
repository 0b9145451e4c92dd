"""The synchronous family of `MemalchemySaver`: the other one, on a loop in a thread of its own."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from memalchemy.database import Database
from memalchemy.sync.face import Face, LazyIterator, wait
from memalchemy.sync.loop import Caller, Loop

T = TypeVar("T")


class Blocking:
    """Methods that wait. May be called in any thread, one that runs an event loop too."""

    db: Database
    _loop: Loop

    def _connect(self, db: Any) -> Database:
        """Take a database as it is given, and its loop if it has one."""
        if isinstance(db, str):
            db = Database(db)
        if isinstance(db, Face) and isinstance(db._async, Database):
            self._loop = db._loop
            return db._async
        if not isinstance(db, Database):
            given, name = type(db).__qualname__, type(self).__name__
            raise TypeError(f"{name} takes a memalchemy.Database or a URL, not {given}")
        self._loop = Loop(partial(db.identity.close, in_thread=False))  # type: ignore[attr-defined]
        return db

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return wait(self._loop, None, work, Caller())

    def close(self) -> None:
        """Close the connections that the methods without ``await`` have opened, and their thread.

        A later use opens anew.
        """
        self._loop.close(self.db.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `aget_tuple`."""
        found: CheckpointTuple | None = self._wait(self.aget_tuple(config))
        return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """See `alist`; read as it is used."""
        found = self.alist(config, filter=filter, before=before, limit=limit)
        return LazyIterator(found, lambda work: self._wait(work))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `aput`."""
        stored: RunnableConfig = self._wait(self.aput(config, checkpoint, metadata, new_versions))
        return stored

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See `aput_writes`."""
        self._wait(self.aput_writes(config, writes, task_id, task_path))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `aget_delta_channel_history`."""
        return self._wait(self.aget_delta_channel_history(config=config, channels=channels))

    def delete_thread(self, thread_id: str) -> None:
        """See `adelete_thread`."""
        self._wait(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `adelete_for_runs`."""
        self._wait(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `acopy_thread`."""
        self._wait(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `aprune`."""
        self._wait(self.aprune(thread_ids, strategy=strategy))

    aget_tuple: Any
    alist: Any
    aput: Any
    aput_writes: Any
    aget_delta_channel_history: Any
    adelete_thread: Any
    adelete_for_runs: Any
    acopy_thread: Any
    aprune: Any
