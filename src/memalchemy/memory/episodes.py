"""Episodes: tasks that an agent did, recalled by recency or by similarity.

`EpisodeStore` keeps them in the database, `BaseEpisodeStore` is the base class of other stores, and
`EpisodicMemory` is what an agent's loop calls.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, final
from uuid import uuid4
from xml.sax.saxutils import escape, quoteattr

from pydantic import BaseModel, ConfigDict, Field, field_validator

from memalchemy._foreign_rows import foreign_item, warn_of_foreign_items
from memalchemy._together import together
from memalchemy._transactions import transaction_of
from memalchemy.contracts import (
    Match,
    SearchHit,
    Seconds,
    StoreItem,
    check_limit,
    check_match,
)
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.errors import EpisodeNotFoundError, TooLarge
from memalchemy.keys import MAX_ID_CHARACTERS, check_name, check_namespace, encode_id
from memalchemy.memory._encryption import search_mode
from memalchemy.memory._relevance import relevant_hits
from memalchemy.memory._user_functions import awaited
from memalchemy.store import DELETE, Store
from memalchemy.store.embedding import Embedder
from memalchemy.store.settings import Namespace

RECENT_PAGE = 100
OLDEST_PAGE = 1000

BY_TIME = "by time"
"""Last part of the namespace with keys that sort by ``completed_at``, the latest first.

The store orders items by key or by their last write, and ``completed_at`` is set by the caller:
without these keys the latest five episodes could be found only by reading all of them.
"""

EMBEDDED = ("task", "result", "error")

_LATEST = datetime.max.replace(tzinfo=UTC)
_DIGITS = 18
MAX_ID = MAX_ID_CHARACTERS - _DIGITS - 1
"""Characters of an episode's id as stored; in a time key its time and a blank stand before it."""


class RecallMode(StrEnum):
    """Criterion of `BaseEpisodeStore.recall`."""

    RECENT = "recent"
    SEARCH = "search"


class EpisodeFormatMode(StrEnum):
    """Format of an episode as text."""

    XML = "xml"
    CONCAT = "concat"


class MaxResultsExceededWarning(UserWarning):
    """Warning that a store gave more than ``max_results`` episodes; the rest was dropped."""


class Episode(BaseModel):
    """Task that an agent did, or failed at. ``completed_at`` is aware UTC; naive times are UTC.

    *task*, *result* and *error* are texts. Of an object with ``instruction`` or ``content`` that
    text is taken, of an exception its class and message.
    """

    # Errors of validation may be logged, and must not quote what was said.
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, hide_input_in_errors=True)

    id_: str = Field(default_factory=lambda: str(uuid4()), min_length=1)
    task: str
    rollout: str = ""
    result: str | None = None
    error: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    completed_at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    @field_validator("task", "result", mode="before")
    @classmethod
    def _take_text(cls, given: Any) -> Any:
        for name in ("instruction", "content"):
            if isinstance(text := getattr(given, name, None), str):
                return text
        return given

    @field_validator("error", mode="before")
    @classmethod
    def _describe_exception(cls, given: Any) -> Any:
        return f"{type(given).__name__}: {given}" if isinstance(given, BaseException) else given

    @field_validator("completed_at")
    @classmethod
    def _to_utc(cls, given: datetime) -> datetime:
        return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)

    def format(
        self,
        mode: EpisodeFormatMode | str = EpisodeFormatMode.XML,
        exclude: Collection[str] = ("id_", "rollout"),
    ) -> str:
        """Format the fields that hold something as text for a prompt.

        As XML, all texts are escaped: none of them ends an element or begins one.
        """
        mode = EpisodeFormatMode(mode)
        fields = [
            (name, value)
            for name, value in self.model_dump().items()
            if value and name not in exclude and name != "metadata"
        ]
        extra = {} if "metadata" in exclude else self.metadata
        if mode is EpisodeFormatMode.CONCAT:
            pairs = [*fields, *extra.items()]
            return "\n".join(
                f"{_indent(name)}: {_indent(_format_value(value))}" for name, value in pairs
            )
        lines = [f"    <{name}>{escape(_format_value(value))}</{name}>" for name, value in fields]
        lines += [
            f"    <metadata name={quoteattr(name)}>{escape(_format_value(value))}</metadata>"
            for name, value in extra.items()
        ]
        return "\n".join(("  <episode>", *lines, "  </episode>"))

    @property
    def headline(self) -> str:
        """Time of completion and the first words of the task."""
        first = self.task.splitlines()[0] if self.task else ""
        return f"{_format_value(self.completed_at)} | {first[:60]}"

    def __str__(self) -> str:
        return self.format()


class BaseEpisodeStore(ABC):
    """Base class of stores of episodes. A subclass stores and finds them; `recall` is given."""

    def __init__(
        self, max_results: int = 5, recall_mode: RecallMode | str = RecallMode.SEARCH
    ) -> None:
        if type(max_results) is not int or max_results < 1:
            raise ValueError(f"max_results must be a whole number from 1 on, not {max_results!r}")
        self.max_results = max_results
        self.recall_mode: RecallMode = RecallMode(recall_mode)

    @abstractmethod
    async def write(self, episode: Episode) -> None:
        """Store an episode; one with the same ``id_`` is replaced."""

    @abstractmethod
    async def _read_recent(self, n: int) -> list[Episode]:
        """Return at most *n* episodes, the latest ``completed_at`` first."""

    @abstractmethod
    async def _search(self, query: str, **more: Any) -> list[Episode]:
        """Return at most ``max_results`` episodes that are similar to *query*, the best first."""

    @final
    async def recall(self, query: str, **more: Any) -> list[Episode]:
        """Return at most ``max_results`` episodes, by recency or by similarity to *query*.

        *more* is passed to the search. By recency neither it nor *query* matters.
        """
        if self.recall_mode is RecallMode.RECENT:
            method, found = "_read_recent", await self._read_recent(self.max_results)
        else:
            method, found = "_search", await self._search(query, **more)
        if len(found) > self.max_results:
            warnings.warn(
                f"{type(self).__name__}.{method} gave {len(found)} episodes, and max_results is "
                f"{self.max_results}: the rest was dropped",
                MaxResultsExceededWarning,
                stacklevel=2,
            )
        return found[: self.max_results]

    @abstractmethod
    async def update(self, episode: Episode) -> None:
        """Replace the episode with the same ``id_``.

        Raises:
            EpisodeNotFoundError: there is none.
        """

    @abstractmethod
    async def delete(self, id_: str) -> None:
        """Remove an episode.

        Raises:
            EpisodeNotFoundError: there is none with that id.
        """

    @abstractmethod
    async def count(self) -> int:
        """Return the number of episodes."""

    @abstractmethod
    async def summary(self) -> str:
        """Describe the content of the store in a few lines for a person."""


class EpisodeStore(BaseEpisodeStore):
    """Episodes in the database. A write is complete or absent, and every process sees it.

    Args:
        db: the database.
        namespace: the owner of the episodes; those of other namespaces are never seen.
        max_results: maximum number of episodes that `recall` returns.
        recall_mode: by similarity, or by recency.
        embedder: as of `Store`. Similarity is then of words and meaning, without it of words.
        ttl: how long an episode is kept, in seconds or as a timedelta.

    In an encrypted database that holds nothing readable to search, `recall` returns the latest.
    Every method but `recall` takes ``connection=``, as those of `Store`; `recall` passes it to the
    search.

    Raises, from any method that takes an id:
        Conflict: its item is no episode. Lists and searches leave such items out.
    """

    def __init__(
        self,
        db: Database,
        *,
        namespace: Namespace = ("episodes",),
        max_results: int = 5,
        recall_mode: RecallMode | str = RecallMode.SEARCH,
        embedder: Embedder | None = None,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(max_results, recall_mode)
        check_database(db, self)
        self.store: Store = Store(
            db, embedder=embedder, index=EMBEDDED if embedder else None, ttl=ttl
        )
        self.namespace: tuple[str, ...] = check_namespace(namespace)
        self._times = (*self.namespace, BY_TIME)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store.db!r}, namespace={self.namespace!r})"

    async def write(self, episode: Episode, *, connection: HostConnection | None = None) -> None:
        """Store an episode; one with the same ``id_`` is replaced.

        Raises:
            NotSerialisable, TooLarge: it cannot be stored, or its ``id_`` has over 236 characters.
        """
        await self._put_episode(episode, connection)

    async def update(self, episode: Episode, *, connection: HostConnection | None = None) -> None:
        """Replace the episode with the same ``id_``.

        Raises:
            EpisodeNotFoundError: there is none.
            NotSerialisable, TooLarge: it cannot be stored.
        """
        await self._put_episode(episode, connection, must_exist=True)

    async def get(self, id_: str, *, connection: HostConnection | None = None) -> Episode | None:
        """Return the episode with that id, or ``None``."""
        value = await self.store.get(self.namespace, id_, connection=connection)
        return None if value is None else self._to_episode(id_, value)

    async def recent(
        self, limit: int = 5, *, connection: HostConnection | None = None
    ) -> list[Episode]:
        """Return at most *limit* episodes, the latest ``completed_at`` first, whatever the mode."""
        limit = check_limit(limit)
        found: list[Episode] = []
        foreign = 0
        size = max(RECENT_PAGE, limit)
        time_keys = self.store.iter_keys(self._times, page_size=size, connection=connection)
        async with aclosing(time_keys):
            while len(found) < limit and (page := await _take_keys(time_keys, size)):
                places = [(self.namespace, _id_of(time_key)) for time_key in page]
                values = await self.store.get_batch(places, connection=connection)
                for time_key, place in zip(page, places, strict=True):
                    value = values.get(place)
                    if value is None:
                        continue
                    episode = _episode_or_none(place[1], value)
                    if episode is None:
                        foreign += 1
                    elif _time_key(episode) == time_key:  # or else it was written again meanwhile
                        found.append(episode)
        warn_of_foreign_items(foreign, "episodes")
        return found[:limit]

    async def oldest(self, *, connection: HostConnection | None = None) -> Episode | None:
        """Return the episode with the earliest ``completed_at``, or ``None``.

        It reads the keys of all episodes, a thousand in a round trip, and one episode.
        """
        last: str | None = None
        time_keys = self.store.iter_keys(self._times, page_size=OLDEST_PAGE, connection=connection)
        async for time_key in time_keys:
            last = time_key
        return None if last is None else await self.get(_id_of(last), connection=connection)

    async def delete(self, id_: str, *, connection: HostConnection | None = None) -> None:
        """Remove an episode.

        Raises:
            EpisodeNotFoundError: there is none with that id.
        """
        async with transaction_of(self.store.db, connection) as tx:
            await self._replace_episode(id_, DELETE, None, tx, must_exist=True)

    async def count(self, *, connection: HostConnection | None = None) -> int:
        """Return the number of episodes."""
        return await self.store.count(self.namespace, connection=connection)

    async def summary(self, *, connection: HostConnection | None = None) -> str:
        """Describe the store for a person: its size and database, the newest and oldest episode.

        It reads as `oldest` does.
        """
        count = await self.count(connection=connection)
        lines = [f"{type(self).__name__}: {count} episodes | {self.store.db!r}"]
        newest = await self.recent(1, connection=connection)
        lines += [f"  newest: {one.headline}" for one in newest]
        oldest = await self.oldest(connection=connection)
        lines += [f"  oldest: {oldest.headline}"] if oldest is not None else []
        return "\n".join(lines)

    async def _read_recent(self, n: int) -> list[Episode]:
        return await self.recent(n)

    async def _search(self, query: str, *, match: Match = "any", **more: Any) -> list[Episode]:
        """Search; *more* are arguments of `Store.search`: ``filter``, ``threshold`` and so on."""
        check_match(match)
        mode, limit = search_mode(self.store), self.max_results
        if mode is None and more.keys() <= {"connection"}:
            return await self.recent(limit, **more)
        if mode is None and more.keys() <= {"connection", "filter"}:
            hits: list[SearchHit] = await self.store.search(self.namespace, limit=limit, **more)
        elif mode is not None and more.keys() <= {"connection", "filter", "threshold"}:
            hits = await relevant_hits(
                self.store, [self.namespace], query, limit, match=match, **more
            )
        else:
            arguments = {"mode": mode or "text", "match": match, "limit": limit, **more}
            hits = await self.store.search(self.namespace, query, **arguments)
        found = [one for hit in hits if (one := _episode_or_none(hit.key, hit.value)) is not None]
        warn_of_foreign_items(len(hits) - len(found), "episodes")
        return found

    def _to_episode(self, id_: str, value: Any) -> Episode:
        episode = _episode_or_none(id_, value)
        if episode is None:
            raise foreign_item(self.namespace, id_, "episode")
        return episode

    async def _put_episode(
        self,
        episode: Episode,
        connection: HostConnection | None,
        *,
        must_exist: bool = False,
    ) -> None:
        if not isinstance(episode, Episode):
            raise TypeError(f"episode must be an Episode, not {type(episode).__name__}")
        value = episode.model_dump(exclude={"id_", "metadata"})
        id_, time_key = _check_id(episode.id_), _time_key(episode)
        async with transaction_of(self.store.db, connection) as tx:
            new = value | {"metadata": episode.metadata}
            await self._replace_episode(id_, new, time_key, tx, must_exist=must_exist)
            # Written even if it is there, so that it expires together with the episode.
            await self.store.put(self._times, time_key, None, index=False, connection=tx)

    async def _replace_episode(
        self, id_: str, new: Any, time_key: str | None, tx: HostConnection, *, must_exist: bool
    ) -> None:
        """Replace an episode, and remove its earlier time key unless it is *time_key*."""
        before: str | None = None

        def replace(item: StoreItem | None) -> Any:
            nonlocal before
            if item is None and must_exist:
                raise EpisodeNotFoundError(id_)
            before = None if item is None else _time_key(self._to_episode(id_, item.value))
            return new

        await self.store.change(self.namespace, id_, replace, metadata=None, connection=tx)
        if before is not None and before != time_key:
            await self.store.delete(self._times, before, connection=tx)


MetadataFunction = Callable[[Episode], str | Awaitable[str]]
"""Function that gives a text about an episode; plain or a coroutine."""


class EpisodicMemory:
    """Episodic memory of an agent's loop: `recall` before a task, `record` after it.

    Args:
        store: a store of episodes.
        metadata_fns: functions that give a text about an episode, such as a reflection, by the
            name under which it is stored in the episode's metadata. They may be coroutines, or
            objects with an asynchronous ``__call__``.
    """

    def __init__(
        self,
        store: BaseEpisodeStore,
        metadata_fns: Mapping[str, MetadataFunction] | None = None,
    ) -> None:
        self.store = store
        self.metadata_fns: dict[str, MetadataFunction] = dict(metadata_fns or {})

    async def recall(self, task: Any, **more: Any) -> str:
        """Return episodes similar to *task* as text; ``""`` if there are none.

        *task* is a text, or an object with ``instruction``.
        """
        query = str(getattr(task, "instruction", task))
        return "\n".join(map(str, await self.store.recall(query, **more)))

    async def record(self, episode: Episode) -> Episode:
        """Store *episode* with the texts of the metadata functions; return the stored episode."""
        functions = self.metadata_fns.values()
        texts = await together(
            *(_call_metadata_function(function, episode) for function in functions)
        )
        metadata = episode.metadata | dict(zip(self.metadata_fns, texts, strict=True))
        stored = episode.model_copy(update={"metadata": metadata}, deep=True)
        await self.store.write(stored)
        return stored

    async def update(self, episode: Episode) -> None:
        """`BaseEpisodeStore.update`."""
        await self.store.update(episode)

    async def delete(self, id_: str) -> None:
        """`BaseEpisodeStore.delete`."""
        await self.store.delete(id_)

    async def summary(self) -> str:
        """`BaseEpisodeStore.summary`."""
        return await self.store.summary()


async def _call_metadata_function(function: MetadataFunction, episode: Episode) -> str:
    text: str = await awaited(function(episode))
    return text


async def _take_keys(keys: AsyncIterator[str], count: int) -> list[str]:
    """Return the next *count* keys, or those that are left."""
    taken: list[str] = []
    async for key in keys:
        taken.append(key)
        if len(taken) == count:
            break
    return taken


def _time_key(episode: Episode) -> str:
    """Return the key that sorts an episode by time, the latest first."""
    left = _LATEST - episode.completed_at
    micros = (left.days * 86_400 + left.seconds) * 1_000_000 + left.microseconds
    return f"{micros:0{_DIGITS}} {episode.id_}"


def _id_of(time_key: str) -> str:
    return time_key.partition(" ")[2]


def _check_id(id_: str) -> str:
    """Return an id that fits into a time key."""
    if (size := len(encode_id(check_name(id_, "id_ of an episode")))) > MAX_ID:
        raise TooLarge("id_ of an episode", size, MAX_ID, "characters")
    return id_


def _episode_or_none(id_: str, value: Any) -> Episode | None:
    """Return an episode from its stored value; ``None`` if something else has been stored."""
    try:
        return Episode(id_=id_, **value)
    except (TypeError, ValueError):
        return None


def _format_value(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")
