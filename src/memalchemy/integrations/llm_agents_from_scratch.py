"""`MemalchemyMemoryStore`: where llm-agents-from-scratch's `Memory` keeps episodes.

Knows `EpisodeStore`; no SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any, Self

from llm_agents_from_scratch.base.memory_store import BaseMemoryStore
from llm_agents_from_scratch.data_structures import Episode, RecallMode, Task, TaskResult
from llm_agents_from_scratch.errors import EpisodeNotFoundError

from memalchemy import Database, EpisodeStore, errors
from memalchemy.contracts import Seconds
from memalchemy.keys import check_namespace
from memalchemy.memory import episodes
from memalchemy.store.embedding import Embedder

OWN = "llm_agents_from_scratch"
"""In the metadata of a stored episode: what this framework's episodes have besides."""


class MemalchemyMemoryStore(BaseMemoryStore):
    """Episodes in a SQL database: whole or absent, one of each id, seen by every process.

    Args:
        db: a `Database`, which may hold anything else besides, or a URL.
        max_results: how many `recall` gives at most.
        recall_mode: by likeness to the task, or by recency.
        namespace: whose they are, such as ``("team", "ada")``; those of another are never seen.
        embedder: a function of a list of texts that gives a vector for each; it may be a coroutine.
            Likeness is then of words and meaning, without it of words.
        ttl: how long an episode is kept, in seconds or as a timedelta.

    Keyword arguments of `recall` are those of `memalchemy.Store.search`: ``filter``, ``threshold``,
    ``mode`` … In an encrypted database that holds nothing readable to look in, it gives the latest.

    ``native`` is the `memalchemy.EpisodeStore` underneath.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        db: Database | str,
        max_results: int = 5,
        recall_mode: RecallMode = RecallMode.SEARCH,
        *,
        namespace: Iterable[str] = (),
        embedder: Embedder | None = None,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(max_results=max_results, recall_mode=RecallMode(recall_mode))
        self._is_own = not isinstance(db, Database)
        self.native = EpisodeStore(
            db if isinstance(db, Database) else Database(db),
            namespace=("llm-agents", *check_namespace(namespace), "episodes"),
            max_results=max_results,
            embedder=embedder,
            ttl=ttl,
        )

    def __repr__(self) -> str:
        return f"MemalchemyMemoryStore({self.native.store.db!r})"

    async def write(self, episode: Episode) -> None:
        """Keep an episode; one of the same ``id_`` is replaced.

        Raises:
            NotSerialisable, TooLarge: it cannot be stored; nothing was written.
        """
        await self.native.write(_stored(episode))

    async def update(self, episode: Episode) -> None:
        """Replace the episode of the same ``id_``.

        Raises:
            EpisodeNotFoundError: there is none.
        """
        with _their_error():
            await self.native.update(_stored(episode))

    async def delete(self, id_: str) -> None:
        """Remove an episode.

        Raises:
            EpisodeNotFoundError: there is none of that id.
        """
        with _their_error():
            await self.native.delete(id_)

    async def get(self, id_: str) -> Episode | None:
        """The episode of that id, or ``None``."""
        found = await self.native.get(id_)
        return None if found is None else _read(found)

    async def count(self) -> int:
        """How many episodes there are."""
        return await self.native.count()

    async def summary(self) -> str:
        """How many there are, where, and the newest and the oldest, for a person."""
        first, *rest = (await self.native.summary()).splitlines()
        told = first.replace("EpisodeStore", type(self).__name__, 1)
        return "\n".join([f"{told} | {self.native.store.db!r}", *rest])

    async def close(self) -> None:
        """Close the connections of a database that was opened here from a URL."""
        if self._is_own:
            await self.native.store.db.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _read_recent(self, n: int) -> list[Episode]:
        return [_read(one) for one in await self.native.recent(n)]

    async def _search(self, query: str, **kwargs: Any) -> list[Episode]:
        self.native.max_results = self.max_results  # which whoever has this object may change
        return [_read(one) for one in await self.native.recall(query, **kwargs)]


def _stored(episode: Episode) -> episodes.Episode:
    own: dict[str, Any] = {"task_id": episode.task.id_}
    if episode.result is not None and episode.result.task_id != episode.task.id_:
        own["result_task_id"] = episode.result.task_id
    if episode.completed_at.tzinfo is None:
        own["completed_at"] = episode.completed_at
    error: Any = episode.error  # which may be an exception; it is stored as what it says
    return episodes.Episode(
        id_=episode.id_,
        task=episode.task.instruction,
        rollout=episode.rollout,
        result=None if episode.result is None else episode.result.content,
        error=error,
        metadata={**episode.metadata, OWN: own},
        # Without a zone it is this machine's local time: the framework takes datetime.now().
        completed_at=episode.completed_at.astimezone(UTC),
    )


def _read(found: episodes.Episode) -> Episode:
    metadata = dict(found.metadata)
    own = metadata.pop(OWN, {})
    task_id = own.get("task_id", found.id_)
    result = None
    if found.result is not None:
        result = TaskResult(task_id=own.get("result_task_id", task_id), content=found.result)
    return Episode(
        id_=found.id_,
        task=Task(id_=task_id, instruction=found.task),
        rollout=found.rollout,
        result=result,
        error=found.error,
        metadata={name: str(said) for name, said in metadata.items()},
        completed_at=own.get("completed_at", found.completed_at),
    )


@contextmanager
def _their_error() -> Iterator[None]:
    try:
        yield
    except errors.EpisodeNotFoundError as error:
        raise EpisodeNotFoundError(str(error)) from error
