"""Public records, capabilities, and the protocol of a checkpointer."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NotRequired, Protocol, Self, TypedDict, runtime_checkable

from typing_extensions import TypeVar

from memalchemy.errors import InvalidArgument
from memalchemy.errors import StoreCapabilityError as StoreCapabilityError


class Unset(enum.Enum):
    """Type of `UNSET`."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""An argument that was not given, where ``None`` means something."""


class ChangeResult(enum.Enum):
    """Result of a caller's change that is not a new value."""

    LEAVE = "leave"
    DELETE = "delete"

    def __repr__(self) -> str:
        return self.name


LEAVE: Final = ChangeResult.LEAVE
"""Leave the state or the item as it is, or absent."""
DELETE: Final = ChangeResult.DELETE
"""Remove the item, if it is there."""

Seconds = float | int | timedelta
"""A duration: seconds, or a `timedelta`."""

State = TypeVar("State", default=dict[str, Any])
"""Type of a loaded state: the ``state_type`` of the `Checkpointer`, or a dict without one."""

MigrateMode = Literal["auto", "upgrade", "check", "off"]
"""Handling of the schema on first use: see `memalchemy.Database`."""

Durability = Literal["full", "normal"]
"""Promise of a commit in a power cut: see `memalchemy.Database`."""

CheckpointOrder = Literal["position", "id"]
"""Order of checkpoints: as they were saved, or by their ids."""

ItemOrder = Literal["newest", "key"]
"""Order of listed items: last written first, or by namespace and key."""

SearchMode = Literal["text", "vector", "hybrid"]
"""Ranking of `Store.search`: by words, by vectors, or by both."""

Match = Literal["any", "all"]
"""The words of a query that a search by words finds: some of them, or only all together."""

Metric = Literal["cosine", "dot", "l2"]
"""Measure of the similarity of two vectors."""


class _CheckpointFields(TypedDict):
    thread_id: str
    checkpoint_id: str
    parent_id: str | None
    seq: int
    metadata: dict[str, Any]
    created_at: datetime
    raw_size: int
    stored_size: int
    occurred_at: datetime


class CheckpointRecord(_CheckpointFields):
    """The fields of a `CheckpointInfo` as a dict: `Checkpointer.get_metadata` and listings."""

    namespace: tuple[str, ...]


class CheckpointMatch(CheckpointRecord):
    """Checkpoint that `Checkpointer.query_by_metadata` found, with its state if asked for."""

    data: NotRequired[dict[str, Any]]


class CheckpointHit(CheckpointMatch):
    """Checkpoint that `Checkpointer.search` found, with ``score`` (0 to 1) and ``snippet``."""

    score: float
    snippet: str


class CheckpointWithData(CheckpointRecord):
    """Checkpoint that `Checkpointer.search_data` found, with its state as it is stored."""

    data: dict[str, Any]


class StorageStats(TypedDict):
    """Number and sizes of a thread's checkpoints: `Checkpointer.get_storage_stats`."""

    total_checkpoints: int
    total_size: int
    compressed_size: int
    compression_ratio: float
    full_checkpoints: int
    delta_checkpoints: int


class ExportedCheckpoint(_CheckpointFields):
    """Checkpoint in an export: its state as JSON, with tags for the values that JSON lacks."""

    tenant: str
    namespace: list[str]
    state: dict[str, Any]


class ExportedEntry(TypedDict):
    """Entry of a log in an export: its value as JSON, with tags for the values that JSON lacks."""

    tenant: str
    namespace: list[str]
    thread_id: str
    position: int
    key: str | None
    occurred_at: datetime
    stored_at: datetime
    value: Any


ExportRecord = ExportedCheckpoint | ExportedEntry
"""Record of `Checkpointer.export`."""


class ReplicaHealth(TypedDict):
    """Health of a read replica. Of one that cannot be used only ``url`` and ``error`` are known."""

    url: str
    usable: bool
    error: str | None
    dialect: NotRequired[str]
    server_version: NotRequired[str | None]
    revision: NotRequired[str | None]
    head: NotRequired[str]
    checked_out: NotRequired[int]


class Health(TypedDict):
    """Health of a database: `memalchemy.Database.health`.

    ``revision`` is that of its schema, ``head`` the one of this release; ``checked_out`` is the
    number of connections in use. ``pgvector`` says whether PostgreSQL stores vectors in pgvector's
    type; it is missing on other databases and before the schema exists.
    """

    url: str
    dialect: str
    server_version: str | None
    revision: str | None
    head: str
    checked_out: int
    pgvector: NotRequired[bool]
    replica: NotRequired[ReplicaHealth]


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A checkpoint, without its state.

    ``seq`` is its position in the thread's log: order comes from it, never from a clock.
    ``parent_id`` is the checkpoint that its state was derived from (it may be deleted by now).
    ``raw_size`` is the encoded state in bytes, ``stored_size`` what this step takes in the
    database. ``occurred_at`` is when the step happened, ``created_at`` when it was stored here: an
    import stores what happened earlier. Both are aware UTC.
    """

    thread_id: str
    checkpoint_id: str
    parent_id: str | None
    seq: int
    metadata: dict[str, Any]
    created_at: datetime
    raw_size: int
    stored_size: int
    occurred_at: datetime
    namespace: tuple[str, ...] = ()

    def as_dict(self) -> CheckpointRecord:
        """Return the fields as a dict, the one shape that metadata queries return."""
        # All but the metadata are immutable, and `asdict` copies each of them.
        found: Any = {name: getattr(self, name) for name in self.__slots__}
        record: CheckpointRecord = found | {"metadata": deepcopy(self.metadata)}
        return record


@dataclass(frozen=True, slots=True)
class LogInfo:
    """Log, which is a thread in one namespace, without its content.

    ``newest_id`` is the id of its newest checkpoint; ``None`` if it has none. ``stored_size`` is
    what its states, entries and pending writes take in the database, in bytes, and ``raw_size``
    what they would take if each state was stored whole: entries and writes count in both, as they
    are. Times are aware UTC; ``updated_at`` is the time of the last write. ``forked_from`` is the
    thread that a fork was copied from, until that one is forgotten. ``metadata`` is the log's own,
    as `Checkpointer.set_thread_metadata` set it.
    """

    thread_id: str
    namespace: tuple[str, ...]
    checkpoints: int
    entries: int
    newest_id: str | None
    raw_size: int
    stored_size: int
    created_at: datetime
    updated_at: datetime
    forked_from: str | None
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Packed:
    """Value that was encoded elsewhere, stored as it is; *format* names the encoding.

    In the format ``"msgpack"`` its words can be searched, and deltas are small. The content of an
    extension is read as MessagePack too, as frameworks write their objects.
    """

    format: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """Write of a task for the step after a checkpoint: see `Checkpointer.put_writes`.

    ``index`` is its place among the task's writes.
    """

    task_id: str
    index: int
    channel: str
    value: Any
    task_path: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A checkpoint with its state and its pending writes, as of one moment.

    ``parent_id`` is ``None`` if the parent has been deleted. ``writes`` are in the order of
    (task_path, task_id, index).
    """

    checkpoint_id: str
    parent_id: str | None
    state: dict[str, Any]
    writes: list[PendingWrite]


@dataclass(frozen=True, slots=True)
class Diff:
    """Difference between two states. Keys are JSON pointers (RFC 6901).

    A pointer is in exactly one of the three. ``changed`` maps to ``(value in a, value in b)``.
    """

    added: dict[str, Any] = field(default_factory=dict)
    removed: dict[str, Any] = field(default_factory=dict)
    changed: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class Retention:
    """Rules of the checkpoints that a thread keeps. The newest always stays.

    A checkpoint is deleted when no given rule keeps it: it is not among the newest ``keep_last``;
    it is not every ``keep_every``-th that was saved of the thread (of 3: the third, the sixth and
    so on, whatever was deleted since); and it happened longer ago than ``older_than``.

    A `Checkpointer` deletes with each save, in the save's own statement, and the words of a
    checkpoint go with it. With ``apply_every`` it does so with one of so many saves, as
    `Checkpointer.prune` does: words that a remaining state holds are found there from then on. Up
    to ``apply_every - 1`` checkpoints more than the rules keep are there meanwhile.
    """

    keep_last: int | None = None
    keep_every: int | None = None
    older_than: Seconds | None = None
    apply_every: int = 1

    def __post_init__(self) -> None:
        for name in ("keep_last", "keep_every", "apply_every"):
            value = getattr(self, name)
            if isinstance(value, bool):
                raise TypeError(f"{name} is a whole number, not bool")
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InvalidArgument(f"{name} must be a whole number of at least 1, not {value!r}")
        if self.older_than is not None:
            age = to_timedelta(self.older_than)
            if not timedelta(0) < age < timedelta(days=365_000):
                raise InvalidArgument(
                    "older_than must be longer than zero, and under a thousand years"
                )
        if self.keep_last is None and self.keep_every is None and self.older_than is None:
            raise InvalidArgument("give at least one of keep_last, keep_every, older_than")


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a long operation: ``done`` of about ``total``.

    Prune and vacuum count logs (a log is a thread in one namespace): ``removed`` is the number of
    deleted checkpoints (of vacuum, entries too), ``busy`` that of the logs that were skipped
    because somebody was writing to them. Reclaim counts pages of a file, or tables.
    """

    done: int
    total: int
    removed: int = 0
    busy: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """A step that memalchemy could not take, with the commands for somebody who can.

    Attributes:
        reason: why it was not taken.
        commands: the commands to run, in this order.
        table: the table that it is about, if it is about one.
        dead: the number of dead rows of that table, as the server counts them.
    """

    reason: str
    commands: tuple[str, ...] = ()
    table: str | None = None
    dead: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointerCapabilities:
    """Features of a checkpointer.

    `memalchemy.Checkpointer` has all of them on every database, but for ``search`` in an encrypted
    one without readable words.
    """

    search: bool = False
    metadata_query: bool = False
    vacuum: bool = False
    branching: bool = False
    ttl: bool = False
    list_threads: bool = False
    list_with_metadata: bool = False
    persistent_checkpoint_ids: bool = False


@runtime_checkable
class CheckpointerProtocol(Protocol):
    """Part of a checkpointer that agent runtimes call. Argument names are contract."""

    @property
    def capabilities(self) -> CheckpointerCapabilities: ...

    async def save(
        self,
        state: Any,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str: ...

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> Any: ...

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]: ...

    def history(
        self, thread_id: str, *, limit: int | None = None, before: str | None = None
    ) -> AsyncIterator[CheckpointInfo]: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a thread's log.

    ``position`` is its place, from 1: order comes from it, never from a clock; a position that was
    taken away is not given out again. ``key`` is what it was appended with, if anything. Both
    clocks are kept, aware UTC: when it occurred, and when it was stored.
    """

    position: int
    value: Any
    key: str | None
    occurred_at: datetime
    stored_at: datetime


@dataclass(frozen=True, slots=True)
class EntryHit(Entry):
    """Entry that a search found.

    ``score`` is 0 to 1, higher is better: of the best, the share of the query it holds, rare words
    counting more; of others, in proportion. ``snippet`` is some of its text around the first
    match, as it was written.
    """

    thread_id: str
    score: float
    snippet: str


@dataclass(frozen=True, slots=True)
class LogReading:
    """Entries and version of a thread's log, as of one moment.

    ``entries``, oldest first, are those that are new to a reader; if ``complete``, they are all
    there are, and replace what the reader had. ``version`` is that of the log, 0 if it does not
    exist; ``epoch`` moves when an entry is removed or edited. ``position`` is that of the newest
    entry that the reader knows now, ``mark`` the checksum it was stored with.
    """

    entries: list[Entry]
    version: int
    epoch: int
    position: int
    complete: bool
    mark: int = 0


class ItemRecord(TypedDict):
    """A `StoreItem` as JSON has it, its value as it is."""

    namespace: list[str]
    key: str
    value: Any
    metadata: dict[str, Any]
    created_at: str
    updated_at: str
    version: int
    expires_at: str | None


class ExportedItem(ItemRecord):
    """Item in an export: its value with tags, and ``vectors`` if they were asked for."""

    vectors: NotRequired[list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class StoreItem:
    """A value under (namespace, key), as it is now.

    ``version`` starts at 1 and grows by one with each write. Times are aware UTC; ``expires_at`` is
    ``None`` for an item that stays.
    """

    namespace: tuple[str, ...]
    key: str
    value: Any
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    version: int = 1
    expires_at: datetime | None = None

    def to_dict(self) -> ItemRecord:
        """The fields as JSON has them: the namespace a list, times in ISO 8601; the value as is."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "metadata": self.metadata,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "version": self.version,
            "expires_at": None if self.expires_at is None else self.expires_at.isoformat(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Create an item from the result of `to_dict`.

        ``metadata``, ``version`` and ``expires_at`` may be missing.
        """
        expires = data.get("expires_at")
        return cls(
            namespace=tuple(data["namespace"]),
            key=data["key"],
            value=data["value"],
            metadata=dict(data.get("metadata") or {}),
            created_at=datetime.fromisoformat(data["created_at"]),
            updated_at=datetime.fromisoformat(data["updated_at"]),
            version=data.get("version", 1),
            expires_at=None if expires is None else datetime.fromisoformat(expires),
        )


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item of a batch that has a lifetime or vectors of its own: `Store.put_batch`.

    ``embedding`` and ``ttl`` are as `Store.put` takes them; ``index`` too, where there is no
    ``embedding``. What is ``None`` is as the batch says. The times, aware, are for imported items:
    without them an item was written now, and expires when its ``ttl`` is over.
    """

    namespace: tuple[str, ...]
    key: str
    value: Any
    metadata: Mapping[str, Any] | None = None
    embedding: Any | None = None
    ttl: Seconds | None = None
    index: bool | Sequence[str] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SearchHit(StoreItem):
    """Item that a search found.

    ``score`` is 0 to 1, higher is better; ``None`` if there was no query, so that items are listed.
    """

    score: float | None = None


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Explanation of a search.

    ``strategy`` names how it was done (such as ``text``, ``exact vectors``, ``hnsw``), ``reason``
    says in a sentence why, ``details`` has counts.
    """

    strategy: str
    reason: str
    details: dict[str, Any] = field(default_factory=dict)


class SearchHits(list[SearchHit]):
    """Hits, best first. ``plans`` explains how they were found, if that was asked for.

    ``notices`` has the texts of the warnings of the search: see `AnsweredByWordsWarning`.
    """

    plans: tuple[SearchPlan, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SemanticSearchResult:
    """Item that a vector search found: ``score`` 0 to 1, higher is better, and the distance."""

    item: StoreItem
    score: float
    distance: float | None = None


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """The result of `Store.reembed`; of a dry run what would be done.

    Attributes:
        embedded: the items that were given vectors.
        vectors: the number of these vectors.
        removed: the number of vectors that these take the place of, and of those of the model that
            is replaced.
        textless: items without a vector, in which there is no text to embed.
        left: items that were not embedded: they cannot be read, the embedder refused them, or
            others changed them again and again meanwhile.
        damaged: those of *left* that are damaged or not what was signed.
        left_out: those of *left*, each with the reason, the first 1,000.
    """

    embedded: int = 0
    vectors: int = 0
    removed: int = 0
    textless: int = 0
    left: int = 0
    damaged: int = 0
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class StoreCapabilities:
    """Features of a store.

    `memalchemy.Store` has all of them on every database, but for searches in an encrypted one
    without readable words or vectors.
    """

    search: bool = False
    semantic_search: bool = False
    embedding_dimension: int | None = None
    ttl: bool = False
    list_namespaces: bool = False
    batch_operations: bool = False
    transactions: bool = False


def to_timedelta(duration: Seconds) -> timedelta:
    """Read a duration given as seconds or as a `timedelta`."""
    if isinstance(duration, timedelta):
        return duration
    if isinstance(duration, bool) or not isinstance(duration, (int, float)):
        raise TypeError(f"a duration is seconds or a timedelta, not {type(duration).__name__}")
    try:
        return timedelta(seconds=duration)
    except (OverflowError, ValueError) as error:
        raise InvalidArgument(f"{duration!r} seconds is not a duration") from error


def to_lifetime(ttl: Seconds, name: str = "ttl") -> timedelta:
    """Read a lifetime: longer than zero, shorter than a thousand years. Errors call it *name*."""
    life = to_timedelta(ttl)
    if not timedelta(0) < life < timedelta(days=365_000):
        raise InvalidArgument(f"{name} must be longer than zero and shorter than a thousand years")
    return life


MAX_LIMIT = 2**31 - 1
"""The largest number that a LIMIT takes."""


def check_limit(limit: int, name: str = "limit") -> int:
    """Return *limit* if it is a whole number of zero or more, but at most `MAX_LIMIT`."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"{name} is a whole number, not {type(limit).__name__}")
    if limit < 0:
        raise ValueError(f"{name} must not be negative: {limit}")
    return min(limit, MAX_LIMIT)


LARGEST = 2**63 - 1
"""The largest whole number that every database stores."""


def check_flag(value: bool, name: str) -> bool:
    """Return *value* if it is True or False; other values that count as one are refused."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {type(value).__name__}")
    return value


def check_callable(value: object, name: str, of: str) -> None:
    """Raise `TypeError` unless *value* is a function *of* something."""
    if not callable(value):
        raise TypeError(f"{name} is a function of {of}, not {type(value).__name__}")


def check_position(value: int, name: str, largest: int = LARGEST) -> int:
    """Return a whole number, cut off at *largest*, for comparisons with stored positions."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}")
    return max(-largest, min(value, largest))


def check_filter(name: str, value: object, *kinds: type) -> None:
    """Raise `InvalidArgument` if *value* is of none of the types that the filter *name* takes."""
    if not isinstance(value, kinds):
        wanted = kinds[0].__name__.lower()
        raise InvalidArgument(f"{name} is a {wanted}, not {type(value).__name__}")


def check_entry_position(position: object, name: str) -> int:
    """Return *position* if it is a whole number, as the position of an entry of a log is."""
    if isinstance(position, bool) or not isinstance(position, int):
        raise TypeError(f"{name} is a position, not {type(position).__name__}")
    return position


def check_log_version(version: object) -> int | Unset:
    """Return *version* if it is what ``expected_version`` of a write to a log takes."""
    if isinstance(version, Unset):
        return version
    if isinstance(version, bool) or not isinstance(version, int):
        raise TypeError(f"expected_version is a whole number, not {type(version).__name__}")
    if version < 0:
        raise ValueError("expected_version is 0 for a log that is not there, or above")
    return version


def check_time(value: datetime, name: str) -> datetime:
    """Return *value* if it is a datetime with a time zone that every database can store."""
    if not isinstance(value, datetime):
        raise TypeError(f"{name} is a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise ValueError(f"{name} is an aware datetime; this one has no time zone")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        moment = _FIRST
    # asyncpg stores the first and the last as infinite times, which no datetime is.
    if not _FIRST < moment < _LAST:
        raise ValueError(f"{name} is between the years 1 and 9999 in UTC, not {value.isoformat()}")
    return value


_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def check_query(value: str, name: str = "query") -> str:
    """Return *value* if it is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, not {type(value).__name__}")
    return value


MATCHES = ("any", "all")


def check_match(value: Match) -> Match:
    """Return *value* if it is ``any`` or ``all``."""
    if not isinstance(value, str) or value not in MATCHES:
        raise InvalidArgument(f"match is any or all, not {value!r}")
    return value


def plain_number(value: Any) -> Any:
    """Return Python's own number for a scalar of numpy; anything else as it is."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and hasattr(value, "dtype"):
        return value.item() if value.dtype.kind in "biuf" and not value.shape else value
    return value
