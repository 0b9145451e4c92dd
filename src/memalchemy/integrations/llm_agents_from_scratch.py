"""`MemalchemyMemoryStore`: the episodes of llm-agents-from-scratch's `Memory`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from typing import Any

from memalchemy import EpisodeStore, errors, memory
from memalchemy.contracts import Seconds
from memalchemy.integrations._base import Adapter, AnyDatabase, requires
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.store.embedding import Embedder

with requires(
    "llm-agents-from-scratch", extra="llm-agents-from-scratch", module="llm_agents_from_scratch"
):
    from llm_agents_from_scratch.base.memory_store import BaseMemoryStore
    from llm_agents_from_scratch.data_structures import Episode, RecallMode, Task, TaskResult
    from llm_agents_from_scratch.errors import EpisodeNotFoundError

EXTRA_FIELDS = "llm_agents_from_scratch"
"""Key in the metadata of a stored episode for the fields that only this framework has."""


class MemalchemyMemoryStore(Adapter, BaseMemoryStore):
    """A memory store in a SQL database, which any number of processes may share.

    A write is stored as a whole or not at all, and there is one episode for each id.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        max_results: how many episodes `recall` returns at most.
        recall_mode: recall the episodes that are most like the task, or the latest.
        namespace: keeps episodes apart, such as those of a user: ``("team", "ada")``.
        embedder: a function that returns a vector for each of a list of texts; it may be a
            coroutine function. With it, likeness goes by words and meaning, without it by words.
        ttl: how long an episode is kept, in seconds or as a timedelta.

    `recall` takes the keyword arguments of `memalchemy.Store.search`: ``filter``, ``threshold``,
    ``mode`` and so on. In an encrypted database without searchable words, it returns the latest
    episodes. ``native`` is the `memalchemy.EpisodeStore` underneath.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    root = "llm-agents"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        max_results: int = 5,
        recall_mode: RecallMode = RecallMode.SEARCH,
        *,
        namespace: Iterable[str] = (),
        embedder: Embedder | None = None,
        ttl: Seconds | None = None,
    ) -> None:
        BaseMemoryStore.__init__(self, max_results=max_results, recall_mode=RecallMode(recall_mode))
        Adapter.__init__(self, db, namespace=namespace)
        self.native: EpisodeStore = EpisodeStore(
            self.db,
            namespace=(*self.namespace, "episodes"),
            max_results=max_results,
            embedder=embedder,
            ttl=ttl,
        )

    def translate(self, error: Exception) -> Exception | None:
        """Return the framework's `EpisodeNotFoundError` for ours."""
        if isinstance(error, errors.EpisodeNotFoundError):
            return EpisodeNotFoundError(str(error))
        return None

    async def write(self, episode: Episode) -> None:
        """Store an episode; one with the same ``id_`` is replaced.

        Raises:
            NotSerialisable, TooLarge: it cannot be stored; nothing was written.
        """
        await self.native.write(_to_native(episode))

    async def update(self, episode: Episode) -> None:
        """Replace the episode with the same ``id_``.

        Raises:
            EpisodeNotFoundError: there is none.
        """
        with self.translated_errors():
            await self.native.update(_to_native(episode))

    async def delete(self, id_: str) -> None:
        """Delete an episode.

        Raises:
            EpisodeNotFoundError: there is none with that id.
        """
        with self.translated_errors():
            await self.native.delete(id_)

    async def get(self, id_: str) -> Episode | None:
        """Return the episode with that id, or ``None``."""
        found = await self.native.get(id_)
        return None if found is None else _from_native(found)

    async def count(self) -> int:
        """Count the episodes."""
        return await self.native.count()

    async def summary(self) -> str:
        """Describe the store for a person: size, database, newest and oldest episode."""
        return (await self.native.summary()).replace(
            type(self.native).__name__, type(self).__name__, 1
        )

    async def close(self) -> None:
        """Close the connections of a database that this object opened."""
        await self.aclose()

    async def _read_recent(self, n: int) -> list[Episode]:
        return [_from_native(one) for one in await self.native.recent(n)]

    async def _search(self, query: str, **kwargs: Any) -> list[Episode]:
        self.native.max_results = self.max_results  # a caller may have changed the attribute
        return [_from_native(one) for one in await self.native.recall(query, **kwargs)]


def _to_native(episode: Episode) -> memory.Episode:
    extra: dict[str, Any] = {"task_id": episode.task.id_}
    if episode.result is not None and episode.result.task_id != episode.task.id_:
        extra["result_task_id"] = episode.result.task_id
    if episode.completed_at.tzinfo is None:
        extra["completed_at"] = episode.completed_at
    error: Any = episode.error  # an exception is stored as its text
    return memory.Episode(
        id_=episode.id_,
        task=episode.task.instruction,
        rollout=episode.rollout,
        result=None if episode.result is None else episode.result.content,
        error=error,
        metadata={**episode.metadata, EXTRA_FIELDS: extra},
        # The framework uses datetime.now(): a time without a zone is local time.
        completed_at=episode.completed_at.astimezone(UTC),
    )


@StoredForm("episode of llm-agents-from-scratch")
def _from_native(found: memory.Episode) -> Episode:
    metadata = dict(found.metadata)
    extra = metadata.pop(EXTRA_FIELDS, {})
    task_id = extra.get("task_id", found.id_)
    result = None
    if found.result is not None:
        result = TaskResult(task_id=extra.get("result_task_id", task_id), content=found.result)
    return Episode(
        id_=found.id_,
        task=Task(id_=task_id, instruction=found.task),
        rollout=found.rollout,
        result=result,
        error=found.error,
        metadata={name: str(value) for name, value in metadata.items()},
        completed_at=extra.get("completed_at", found.completed_at),
    )


__all__ = ["MemalchemyMemoryStore"]
