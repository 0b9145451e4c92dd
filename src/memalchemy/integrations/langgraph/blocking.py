"""The synchronous family of `MemalchemySaver`: the other one, over a `Bridge`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from memalchemy.sync.bridge import Bridge
from memalchemy.sync.face import LazyIterator


class Blocking:
    """Methods that wait. May be called in any thread, one that runs an event loop too."""

    _bridge: Bridge

    def close(self) -> None:
        """Close the database, if it was given as a URL; a later use opens it anew."""
        self._bridge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `aget_tuple`."""
        found: CheckpointTuple | None = self._bridge.wait(self.aget_tuple(config))
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
        return LazyIterator(found, self._bridge.wait)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `aput`."""
        saving = self.aput(config, checkpoint, metadata, new_versions)
        stored: RunnableConfig = self._bridge.wait(saving)
        return stored

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See `aput_writes`."""
        self._bridge.wait(self.aput_writes(config, writes, task_id, task_path))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `aget_delta_channel_history`."""
        return self._bridge.wait(self.aget_delta_channel_history(config=config, channels=channels))

    def delete_thread(self, thread_id: str) -> None:
        """See `adelete_thread`."""
        self._bridge.wait(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `adelete_for_runs`."""
        self._bridge.wait(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `acopy_thread`."""
        self._bridge.wait(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `aprune`."""
        self._bridge.wait(self.aprune(thread_ids, strategy=strategy))

    aget_tuple: Any
    alist: Any
    aput: Any
    aput_writes: Any
    aget_delta_channel_history: Any
    adelete_thread: Any
    adelete_for_runs: Any
    acopy_thread: Any
    aprune: Any
