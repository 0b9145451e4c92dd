"""Episodes: what an agent did, task by task, recalled by recency or by likeness.

`BaseEpisodeStore` is for stores of one's own, `EpisodeStore` keeps them in the database, and
`EpisodicMemory` is what an agent's loop calls. Knows no SQL.
"""

from __future__ import annotations

import asyncio
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from enum import StrEnum
from inspect import isawaitable
from typing import Any, final
from uuid import uuid4
from xml.sax.saxutils import escape, quoteattr

from pydantic import BaseModel, ConfigDict, Field, field_validator

from memalchemy.contracts import Seconds, StoreItem, check_limit
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.errors import EpisodeNotFoundError, TooLarge
from memalchemy.keys import MAX_ID_CHARACTERS, check_name, check_namespace, encode_id
from memalchemy.memory.finding import mode_of
from memalchemy.store import DELETE, Store
from memalchemy.store.embedding import Embedder
from memalchemy.store.settings import Namespace

PAGE = 100
MANY = 1000
BY_TIME = "by time"
"""Below an episode store's namespace, keys that sort by ``completed_at``, which is the caller's.
The store orders by key or by the last write, and its index of fields finds what is equal: for the
latest five it would read every episode.
"""
EMBEDDED = ("task", "result", "error")
_LAST = datetime.max.replace(tzinfo=UTC)
_DIGITS = 18
LONGEST_ID = MAX_ID_CHARACTERS - _DIGITS - 1
"""Characters of an episode's id, as stored: its time and a space stand before it in a key."""


class RecallMode(StrEnum):
    """How `BaseEpisodeStore.recall` chooses."""

    RECENT = "recent"
    SEARCH = "search"


class EpisodeFormatMode(StrEnum):
    """How an episode reads as text."""

    XML = "xml"
    CONCAT = "concat"


class MaxResultsExceededWarning(UserWarning):
    """A store's `_search` or `_read_recent` gave more than ``max_results``; the rest is dropped."""


class Episode(BaseModel):
    """One task that was done, or that failed. ``completed_at`` is aware, and UTC if it was naive.

    *task*, *result* and *error* are texts; an object with ``instruction``, one with ``content``,
    and an exception are taken for theirs.
    """

    # What was said stays out of an error: it may be logged.
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    id_: str = Field(default_factory=lambda: str(uuid4()), min_length=1)
    task: str
    rollout: str = ""
    result: str | None = None
    error: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    completed_at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    @field_validator("task", "result", mode="before")
    @classmethod
    def _text(cls, given: Any) -> Any:
        for name in ("instruction", "content"):
            if isinstance(text := getattr(given, name, None), str):
                return text
        return given

    @field_validator("error", mode="before")
    @classmethod
    def _said(cls, given: Any) -> Any:
        return f"{type(given).__name__}: {given}" if isinstance(given, BaseException) else given

    @field_validator("completed_at")
    @classmethod
    def _aware(cls, given: datetime) -> datetime:
        return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)

    def format(
        self,
        mode: EpisodeFormatMode | str = EpisodeFormatMode.XML,
        exclude: Collection[str] = ("id_", "rollout"),
    ) -> str:
        """The fields that hold something, as text for a prompt.

        As XML, what the episode holds is escaped: no text in it ends an element or begins one.
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
            return "\n".join(f"{_line(name)}: {_line(_shown(value))}" for name, value in pairs)
        lines = [f"    <{name}>{escape(_shown(value))}</{name}>" for name, value in fields]
        lines += [
            f"    <metadata name={quoteattr(name)}>{escape(_shown(value))}</metadata>"
            for name, value in extra.items()
        ]
        return "\n".join(("  <episode>", *lines, "  </episode>"))

    @property
    def headline(self) -> str:
        """When it was completed, and how its task begins."""
        first = self.task.splitlines()[0] if self.task else ""
        return f"{_shown(self.completed_at)} | {first[:60]}"

    def __str__(self) -> str:
        return self.format()


class BaseEpisodeStore(ABC):
    """A store of episodes. A subclass keeps and finds them; `recall` is the same for all."""

    def __init__(
        self, max_results: int = 5, recall_mode: RecallMode | str = RecallMode.SEARCH
    ) -> None:
        if type(max_results) is not int or max_results < 1:
            raise ValueError(f"max_results is a whole number from 1 on, not {max_results!r}")
        self.max_results = max_results
        self.recall_mode = RecallMode(recall_mode)

    @abstractmethod
    async def write(self, episode: Episode) -> None:
        """Keep an episode; one of the same ``id_`` is replaced."""

    @abstractmethod
    async def _read_recent(self, n: int) -> list[Episode]:
        """At most *n* episodes, the latest ``completed_at`` first."""

    @abstractmethod
    async def _search(self, query: str, **more: Any) -> list[Episode]:
        """At most ``max_results`` episodes that are like *query*, the likest first."""

    @final
    async def recall(self, query: str, **more: Any) -> list[Episode]:
        """At most ``max_results`` episodes, by recency or by likeness to *query*.

        *more* goes to the search; by recency neither it nor *query* matters.
        """
        if self.recall_mode is RecallMode.RECENT:
            asked, found = "_read_recent", await self._read_recent(self.max_results)
        else:
            asked, found = "_search", await self._search(query, **more)
        if len(found) > self.max_results:
            warnings.warn(
                f"{type(self).__name__}.{asked} gave {len(found)} episodes, and max_results is "
                f"{self.max_results}: the rest was dropped",
                MaxResultsExceededWarning,
                stacklevel=2,
            )
        return found[: self.max_results]

    @abstractmethod
    async def update(self, episode: Episode) -> None:
        """Replace the episode of the same ``id_``.

        Raises:
            EpisodeNotFoundError: there is none.
        """

    @abstractmethod
    async def delete(self, id_: str) -> None:
        """Remove an episode.

        Raises:
            EpisodeNotFoundError: there is none of that id.
        """

    @abstractmethod
    async def count(self) -> int:
        """How many episodes there are."""

    @abstractmethod
    async def summary(self) -> str:
        """What there is, in a few lines for a person."""


class EpisodeStore(BaseEpisodeStore):
    """Episodes in the database: whole or absent, one of each id, seen by every process.

    Args:
        db: where to keep them.
        namespace: whose they are: those of another are never seen.
        max_results: how many `recall` gives at most.
        recall_mode: by likeness, or by recency.
        embedder: as for `Store`: likeness is then of words and meaning, without it of words.
        ttl: how long an episode is kept.

    In an encrypted database that holds nothing readable to look in, `recall` gives the latest.
    Every method but `recall` takes ``connection=``, as those of `Store`; `recall` passes it on.
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
        self.store = Store(db, embedder=embedder, index=EMBEDDED if embedder else None, ttl=ttl)
        self.namespace = check_namespace(namespace)
        self._times = (*self.namespace, BY_TIME)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store.db!r}, namespace={self.namespace!r})"

    async def write(self, episode: Episode, *, connection: HostConnection | None = None) -> None:
        """Keep an episode; one of the same ``id_`` is replaced.

        Raises:
            TooLarge: its ``id_`` has over 236 characters.
        """
        await self._put(_checked(episode), connection)

    async def update(self, episode: Episode, *, connection: HostConnection | None = None) -> None:
        """Replace the episode of the same ``id_``.

        Raises:
            EpisodeNotFoundError: there is none.
        """
        await self._put(_checked(episode), connection, must_be_there=True)

    async def get(self, id_: str, *, connection: HostConnection | None = None) -> Episode | None:
        """The episode of that id, or ``None``."""
        value = await self.store.get(self.namespace, id_, connection=connection)
        return None if value is None else _episode(id_, value)

    async def recent(
        self, limit: int = 5, *, connection: HostConnection | None = None
    ) -> list[Episode]:
        """At most *limit* episodes, the latest ``completed_at`` first, whatever the mode."""
        limit = check_limit(limit)
        found: list[Episode] = []
        after: str | None = None
        while len(found) < limit:
            keys = await self.store.list_keys(
                self._times, max(PAGE, limit), after=after, connection=connection
            )
            ids = [_id_of(key) for key in keys]
            places = [(self.namespace, id_) for id_ in ids]
            values = await self.store.get_batch(places, connection=connection)
            for key, id_ in zip(keys, ids, strict=True):
                value = values.get((self.namespace, id_))
                if value is not None and _time_key(one := _episode(id_, value)) == key:
                    found.append(one)
            if len(keys) < max(PAGE, limit):
                break
            after = keys[-1]
        return found[:limit]

    async def oldest(self, *, connection: HostConnection | None = None) -> Episode | None:
        """The episode with the earliest ``completed_at``, or ``None``.

        Reads the keys of all episodes, a thousand in a round trip, and one episode.
        """
        last: str | None = None
        while keys := await self.store.list_keys(
            self._times, MANY, after=last, connection=connection
        ):
            last = keys[-1]
        return None if last is None else await self.get(_id_of(last), connection=connection)

    async def delete(self, id_: str, *, connection: HostConnection | None = None) -> None:
        """Remove an episode.

        Raises:
            EpisodeNotFoundError: there is none of that id.
        """

        async with self._together(connection) as tx:
            await self._change(id_, DELETE, None, tx, must_be_there=True)

    async def count(self, *, connection: HostConnection | None = None) -> int:
        """How many episodes there are."""
        return await self.store.count(self.namespace, connection=connection)

    async def summary(self, *, connection: HostConnection | None = None) -> str:
        """How many there are, and the newest."""
        lines = [f"{type(self).__name__}: {await self.count(connection=connection)} episodes"]
        if newest := await self.recent(1, connection=connection):
            lines.append(f"  newest: {newest[0].headline}")
        return "\n".join(lines)

    async def _read_recent(self, n: int) -> list[Episode]:
        return await self.recent(n)

    async def _search(self, query: str, **more: Any) -> list[Episode]:
        """*more* are arguments of `Store.search`: ``filter``, ``threshold``, ``connection`` …"""
        mode, most = mode_of(self.store), self.max_results
        if mode is None and more.keys() <= {"connection"}:
            return await self.recent(most, **more)
        if mode is None and more.keys() <= {"connection", "filter"}:
            hits = await self.store.search(self.namespace, limit=most, **more)
            return [_episode(hit.key, hit.value) for hit in hits]
        wanted = {"mode": mode or "text", "limit": most, **more}
        hits = await self.store.search(self.namespace, query, **wanted)
        return [_episode(hit.key, hit.value) for hit in hits]

    async def _put(
        self,
        episode: Episode,
        connection: HostConnection | None,
        *,
        must_be_there: bool = False,
    ) -> None:
        if not isinstance(episode, Episode):
            raise TypeError(f"episode is an Episode, not {type(episode).__name__}")
        value = episode.model_dump(exclude={"id_", "metadata"})
        id_, now = _check_id(episode.id_), _time_key(episode)

        async with self._together(connection) as tx:
            new = value | {"metadata": episode.metadata}
            await self._change(id_, new, now, tx, must_be_there=must_be_there)
            # Also where it is there: it lasts as long as the episode does.
            await self.store.put(self._times, now, None, index=False, connection=tx)

    async def _change(
        self, id_: str, new: Any, now: str | None, tx: HostConnection, *, must_be_there: bool
    ) -> None:
        """Put an episode in place of what is there, whose time goes unless it is *now*."""
        before: str | None = None

        def replace(item: StoreItem | None) -> Any:
            nonlocal before
            if item is None and must_be_there:
                raise EpisodeNotFoundError(id_)
            before = None if item is None else _time_key(_episode(id_, item.value))
            return new

        await self.store.change(self.namespace, id_, replace, metadata=None, connection=tx)
        if before is not None and before != now:
            await self.store.delete(self._times, before, connection=tx)

    @asynccontextmanager
    async def _together(self, connection: HostConnection | None) -> AsyncIterator[HostConnection]:
        """One transaction, of the host's if there is one."""
        if connection is not None:
            yield connection
            return
        async with self.store.db.transaction() as tx:
            yield tx


def _checked(episode: object) -> Episode:
    if not isinstance(episode, Episode):
        raise TypeError(f"an Episode is expected, not {type(episode).__name__}")
    return episode


MetadataFunction = Callable[[Episode], str | Awaitable[str]]


class EpisodicMemory:
    """What an agent's loop calls: `recall` before a task, `record` after it.

    *metadata_fns* each give a text about an episode, such as a reflection, which is kept under
    their name in its metadata. They may be coroutines, or objects with an asynchronous call.
    """

    def __init__(
        self,
        store: BaseEpisodeStore,
        metadata_fns: Mapping[str, MetadataFunction] | None = None,
    ) -> None:
        self.store = store
        self.metadata_fns = dict(metadata_fns or {})

    async def recall(self, task: Any, **more: Any) -> str:
        """Episodes like *task*, a text or an object with ``instruction``, as text; ``""``: none."""
        query = str(getattr(task, "instruction", task))
        return "\n".join(map(str, await self.store.recall(query, **more)))

    async def record(self, episode: Episode) -> Episode:
        """Keep *episode* with what the functions say of it; the episode that was kept."""
        said = await asyncio.gather(*(_said(call, episode) for call in self.metadata_fns.values()))
        metadata = episode.metadata | dict(zip(self.metadata_fns, said, strict=True))
        kept = episode.model_copy(update={"metadata": metadata}, deep=True)
        await self.store.write(kept)
        return kept

    async def update(self, episode: Episode) -> None:
        """`BaseEpisodeStore.update`."""
        await self.store.update(episode)

    async def delete(self, id_: str) -> None:
        """`BaseEpisodeStore.delete`."""
        await self.store.delete(id_)

    async def summary(self) -> str:
        """`BaseEpisodeStore.summary`."""
        return await self.store.summary()


async def _said(call: MetadataFunction, episode: Episode) -> str:
    said = call(episode)
    return await said if isawaitable(said) else said


def _time_key(episode: Episode) -> str:
    """Sorts the latest first."""
    left = _LAST - episode.completed_at
    micros = (left.days * 86_400 + left.seconds) * 1_000_000 + left.microseconds
    return f"{micros:0{_DIGITS}} {episode.id_}"


def _id_of(time_key: str) -> str:
    return time_key.partition(" ")[2]


def _check_id(id_: str) -> str:
    """An id that fits into a key with a time before it."""
    if (size := len(encode_id(check_name(id_, "id_ of an episode")))) > LONGEST_ID:
        raise TooLarge("id_ of an episode", size, LONGEST_ID, "characters")
    return id_


def _episode(id_: str, value: Any) -> Episode:
    return Episode(id_=id_, **value)


def _shown(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)


def _line(text: str) -> str:
    return text.replace("\n", "\n  ")
