"""The pydantic schemas of queries, bodies and answers.

They check what comes and make the OpenAPI document; answers are not run through them. Unknown names
are refused. Ids may hold any code point, which pydantic's own ``str`` does not allow.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)

from memalchemy.contracts import ItemOrder, Match, SearchMode, check_time
from memalchemy.http import wire
from memalchemy.http.server._limits import MAX_RESULTS, Limits
from memalchemy.keys import MAX_ENTRY_KEY_CHARACTERS, MAX_ID_CHARACTERS
from memalchemy.search.vectors import check_vector
from memalchemy.store.embedding import vector_rows


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is not a text")
    return value


def _check_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("is not an object")
    return value


def _parse_number(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch("-?[0-9]{1,20}", value):
        raise ValueError("is not a whole number")
    if isinstance(value, float) and value.is_integer():
        return int(value)  # to JSON 3.0 is an integer
    return value


def _parse_time(value: Any) -> datetime:
    try:
        found = datetime.fromisoformat(_check_text(value))
    except ValueError:
        raise ValueError("is not a time of ISO 8601") from None
    if found.tzinfo is None:
        raise ValueError("has no time zone")
    return found


def _parse_flag(value: Any) -> bool:
    if value not in (True, False, "true", "false"):
        raise ValueError("is true or false")
    return value in (True, "true")


def _check_at_most_results(value: int, info: ValidationInfo[Limits]) -> int:
    limits = info.context
    if value > limits.results:
        raise ValueError(f"is at most {limits.results:,} on this server")
    return value


def _check_length_of_list(value: list[Any], info: ValidationInfo[Limits]) -> list[Any]:
    _check_at_most_results(len(value), info)
    return value


def _check_vector(value: list[float]) -> list[float]:
    check_vector(value)
    return value


def _check_embedding(value: Any) -> Any:
    try:
        vector_rows(value, "")
    except TypeError as error:
        raise ValueError(str(error)) from None
    return value


def _check_time_of_item(value: datetime) -> datetime:
    return check_time(value, "a time").astimezone(UTC)


Text = Annotated[str, PlainValidator(_check_text), WithJsonSchema({"type": "string"})]
Id = Annotated[
    str,
    PlainValidator(_check_text),
    WithJsonSchema({"type": "string", "maxLength": MAX_ID_CHARACTERS}),
]
EntryKey = Annotated[
    str,
    PlainValidator(_check_text),
    WithJsonSchema({"type": "string", "maxLength": MAX_ENTRY_KEY_CHARACTERS}),
]
NAMESPACE = {"type": "string", "minLength": 1, "pattern": "^[^~]+$"}
"""The documented form of a namespace. A ``~`` may also stand in it, as ``~0``."""
Namespace = Annotated[str, PlainValidator(_check_text), WithJsonSchema(NAMESPACE)]
Tree = Annotated[
    dict[str, Any],
    PlainValidator(_check_object),
    WithJsonSchema({"type": "object", "additionalProperties": True}),
]
Value = Annotated[Any, WithJsonSchema({"description": "Any JSON, with tags for what JSON lacks."})]
ItemFilter = Annotated[
    Tree,
    AfterValidator(wire.decode_filter),
    Field(description="Its operands are any JSON, with tags for what JSON lacks."),
]
Vector = Annotated[
    list[float], Field(min_length=1, max_length=16_000), AfterValidator(_check_vector)
]
VECTOR = {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 16_000}
"""The documented form of a vector."""
VECTORS = {"anyOf": [VECTOR, {"type": "array", "items": VECTOR, "minItems": 1}]}
Embedding = Annotated[
    Any,
    PlainValidator(_check_embedding),
    WithJsonSchema(
        {
            "anyOf": [*VECTORS["anyOf"], {"type": "object", "additionalProperties": VECTORS}],
            "description": "A vector; or vectors by field, or lists of them.",
        }
    ),
]
Flag = Annotated[bool, PlainValidator(_parse_flag), WithJsonSchema({"type": "boolean"})]
Limit = Annotated[
    int,
    Field(ge=0, le=MAX_RESULTS),
    BeforeValidator(_parse_number),
    AfterValidator(_check_at_most_results),
]
PageSize = Annotated[
    int, Field(ge=0, le=500), BeforeValidator(_parse_number), AfterValidator(_check_at_most_results)
]
ExpectedVersion = Annotated[int, Field(gt=-(2**63), lt=2**63), BeforeValidator(_parse_number)]
KeepCount = Annotated[int, Field(ge=1, lt=2**31), BeforeValidator(_parse_number)]
Days = Annotated[float, Field(ge=0, lt=365_000)]
Seconds = Annotated[float, Field(gt=0, lt=365_000 * 86_400, description="Seconds.")]
LogVersion = Annotated[int, Field(ge=0, lt=2**63), BeforeValidator(_parse_number)]
Position = Annotated[int, Field(ge=0, lt=10**18), BeforeValidator(_parse_number)]
Time = Annotated[
    datetime,
    PlainValidator(_parse_time),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
ExpectedTime = Annotated[
    Time,
    AfterValidator(_check_time_of_item),
    Field(description="With expected_version: 409 unless the item was created then."),
]
Parts = Annotated[list[str], Field(description="The parts of a namespace.")]
Many = AfterValidator(_check_length_of_list)
Share = Annotated[float, Field(ge=0, le=1)]


class Schema(BaseModel):
    """An object of JSON: no unknown names, and no conversion of types."""

    model_config = ConfigDict(extra="forbid", strict=True, validate_default=True)


class NamingNamespaces(Schema):
    """A body that names namespaces, for which the token of the request must be good, too."""

    def namespaces(self) -> list[tuple[str, ...]]:
        raise NotImplementedError


class Query(BaseModel):
    """The parameters of a URL, each of which comes as a text."""

    model_config = ConfigDict(extra="forbid", validate_default=True)


# --- Queries -------------------------------------------------------------------------------------


class ListQuery(Query):
    cursor: Annotated[
        Text | None, Field(description="The next of the page before, for the page behind it.")
    ] = None


class ListCheckpointsQuery(ListQuery):
    limit: Limit = 10


class HistoryQuery(ListQuery):
    limit: PageSize = 100
    before: Annotated[Id | None, Field(description="Only checkpoints older than this one.")] = None


class ListThreadsQuery(ListQuery):
    limit: Limit = 100
    pattern: Annotated[Text, Field(description="A glob over the whole id: *, ?, [a-z].")] = "*"
    offset: Annotated[
        Limit, Field(description="The number of threads to leave out at the beginning.")
    ] = 0


class NewestCheckpointsQuery(ListQuery):
    limit: Limit = 100


class DiffQuery(Query):
    a: Id
    b: Id


class ListKeysQuery(ListQuery):
    limit: Limit = 100
    prefix: Id | None = None


class ListItemsQuery(ListQuery):
    limit: Limit = 100
    below: Annotated[Flag, Field(description="Namespaces below this one, too.")] = False
    order: ItemOrder = "newest"


class ListLogsQuery(ListQuery):
    limit: Limit = 100
    pattern: Annotated[Text, Field(description="A glob over the whole id: *, ?, [a-z].")] = "*"


class ListEntriesQuery(ListQuery):
    limit: Limit = 100
    after: Annotated[Position | None, Field(description="Only entries beyond this one.")] = None
    before: Annotated[Position | None, Field(description="Only entries ahead of this one.")] = None
    since: Annotated[Time | None, Field(description="Occurred then or later.")] = None
    until: Annotated[Time | None, Field(description="Occurred earlier than that.")] = None
    newest_first: Flag = False


class ListAllLogsQuery(ListQuery):
    thread_id: Annotated[Id | None, Field(description="Only those of this thread.")] = None
    limit: Limit = 100
    pattern: Annotated[Text, Field(description="A glob over the whole id: *, ?, [a-z].")] = "*"
    below: Annotated[Flag, Field(description="Those of frameworks and logs of entries, too.")] = (
        False
    )


class ItemVectorQuery(Query):
    field: Annotated[Text, Field(description="Without one, the vector of the whole value.")] = ""
    part: Annotated[Position, Field(description="Counts from 0.")] = 0
    model: Text | None = None


class ChangeLogQuery(Query):
    expected_version: LogVersion | None = None


class NamespaceQuery(Query):
    below: Annotated[Flag, Field(description="Namespaces below this one, too.")] = False


class ListNamespacesQuery(ListQuery):
    prefix: Annotated[Namespace | None, Field(description="A namespace, such as users/ada.")] = None
    limit: Limit = 100


class ListNamespacesOfThreadQuery(ListQuery):
    limit: Limit = 100


class DeleteItemQuery(Query):
    expected_version: ExpectedVersion | None = None
    expected_created_at: ExpectedTime | None = None


# --- Bodies --------------------------------------------------------------------------------------


class SaveBody(Schema):
    state: Tree
    checkpoint_id: Annotated[Id | None, Field(description="Made up if not given.")] = None
    thread_id: Annotated[Id | None, Field(description="If given, that of the path.")] = None
    created_at: Annotated[
        str | None, Field(description="Accepted and not used: order is that of saving.")
    ] = None
    metadata: Tree | None = None
    parent_id: Annotated[Id | None, Field(description="Branch off this checkpoint.")] = None
    expected_parent: Annotated[
        Id | None,
        Field(description="409 unless this is the newest; null: unless there is none."),
    ] = None
    ttl: Seconds | None = None
    occurred_at: Annotated[Time | None, Field(description="If not now.")] = None


class ForkBody(Schema):
    checkpoint_id: Id | None = None
    new_thread_id: Id | None = None


class CountThreadsBody(Schema):
    pattern: Annotated[Text, Field(description="A glob over the whole id: *, ?, [a-z].")] = "*"


class CheckpointIdsBody(Schema):
    checkpoint_ids: Annotated[list[Id], Many]


class ThreadMetadataBody(Schema):
    metadata: Tree


class CopyBody(Schema):
    dest_thread_id: Id


def _schema_with_required(name: str, kind: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"type": kind}}}


class PruneBody(Schema):
    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                _schema_with_required("keep_last", "integer"),
                _schema_with_required("keep_every", "integer"),
                _schema_with_required("older_than", "number"),
            ]
        }
    )

    thread_id: Id | None = None
    keep_last: KeepCount | None = None
    keep_every: KeepCount | None = None
    older_than: Annotated[Seconds | None, Field(description="Seconds.")] = None
    all_namespaces: bool = False
    dry_run: bool = False


class VacuumBody(Schema):
    older_than_days: Days | None = 30
    all_namespaces: bool = False
    dry_run: bool = False


class ForgetBody(Schema):
    """Exactly one of the two."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                _schema_with_required("thread_id", "string"),
                _schema_with_required("metadata", "object"),
            ]
        }
    )

    thread_id: Id | None = None
    metadata: Annotated[Tree | None, Field(json_schema_extra={"minProperties": 1})] = None


WithData = Annotated[bool, Field(description="Each with its state, under data.")]


WordMatch = Annotated[
    Match, Field(description="Find what holds any of the words, or only what holds all.")
]


class SearchCheckpointsBody(Schema):
    query: Text
    limit: Limit = 10
    match: WordMatch = "any"
    data: WithData = False


class QueryByMetadataBody(Schema):
    key: Text
    value: Annotated[Any, WithJsonSchema({"description": "The value under the key."})]
    limit: Limit = 100
    data: WithData = False


class SearchDataBody(Schema):
    path: Annotated[Text, Field(description="A top-level key, or a JSON pointer: /user/name.")]
    value: Value
    limit: Limit = 100
    among: Annotated[
        Limit | None,
        Field(description="The number of threads to read, those saved last; null: all."),
    ] = 1000


class PutItemBody(Schema):
    value: Value
    metadata: Tree | None = None
    ttl: Seconds | None = None
    embedding: Embedding | None = None
    expected_version: Annotated[
        ExpectedVersion | None,
        Field(description="409 unless at this version; null: unless not there."),
    ] = None
    expected_created_at: ExpectedTime | None = None


class ChangeLogBody(Schema):
    expected_version: Annotated[
        LogVersion | None,
        Field(description="409 unless the log is at this version; 0: unless it is not there."),
    ] = None


class NewEntry(Schema):
    value: Value
    key: EntryKey | None = None
    occurred_at: Time | None = None


class AppendBody(ChangeLogBody):
    entries: list[NewEntry]
    new_keys: Annotated[bool, Field(description="409 if one of the keys is there.")] = False
    ttl: Seconds | None = None


class EditBody(ChangeLogBody):
    value: Value


class NewMessage(Schema):
    message: Annotated[Tree, Field(description="role, content and the rest, as OpenAI has it.")]
    key: EntryKey | None = None
    occurred_at: Time | None = None


class AddMessagesBody(ChangeLogBody):
    messages: list[NewMessage]
    ttl: Seconds | None = None


ChangesLog = ChangeLogBody | ChangeLogQuery


class ReplaceSuffixBody(ChangeLogBody):
    after: Annotated[Position, Field(description="Entries beyond it are replaced; 0: all.")]
    entries: list[NewEntry]
    ttl: Seconds | None = None


class RemoveEntriesBody(ChangeLogBody):
    positions: Annotated[list[Position], Many]


class FindEntriesBody(Schema):
    key: EntryKey
    thread_id: Id | None = None


class ThreadIdsBody(Schema):
    thread_ids: Annotated[list[Id], Many]


class ReadThreadsBody(ThreadIdsBody):
    newest: Annotated[bool, Field(description="Only the newest entry of each.")] = False


class ForkLogBody(NamingNamespaces):
    position: Annotated[Position | None, Field(description="The last entry of the copy.")] = None
    new_thread_id: Id | None = None
    namespace: Annotated[Parts | None, Field(description="That of the copy.")] = None

    def namespaces(self) -> list[tuple[str, ...]]:
        return [] if self.namespace is None else [tuple(self.namespace)]


class RestoreBody(Schema):
    """Exactly one of the first two."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                _schema_with_required("snapshot", "object"),
                _schema_with_required("messages", "array"),
            ]
        }
    )

    snapshot: Annotated[Tree | None, Field(description="messages, summary, summarized.")] = None
    messages: Annotated[
        list[Tree] | None, Field(description="They keep the summary of those that are the same.")
    ] = None
    occurred_at: Annotated[Time | None, Field(description="Of new messages, if not now.")] = None


class SummaryBody(Schema):
    text: Annotated[Text | None, Field(description="null removes the summary.")]
    summarized: Annotated[
        Position, Field(description="The number of messages that it stands for.")
    ] = 0


class AmendBody(Schema):
    content: Annotated[
        Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {}}]})
    ]


class BeginExchangeBody(Schema):
    message: Annotated[Tree, Field(description="An assistant's message with tool calls.")]


class ResultsBody(Schema):
    results: Annotated[list[Tree], Field(description="Messages of the role tool.")]


class ItemName(Schema):
    namespace: Parts
    key: Id

    @property
    def name(self) -> tuple[tuple[str, ...], str]:
        return tuple(self.namespace), self.key


class ItemNamesBody(NamingNamespaces):
    keys: Annotated[list[ItemName], Many]

    def names(self) -> list[tuple[tuple[str, ...], str]]:
        return [one.name for one in self.keys]

    def namespaces(self) -> list[tuple[str, ...]]:
        return [tuple(one.namespace) for one in self.keys]


class VectorsBody(ItemNamesBody):
    model: Text | None = None


class NewItem(ItemName):
    value: Value
    metadata: Tree | None = None
    ttl: Seconds | None = None
    embedding: Embedding | None = None


class PutItemsBody(NamingNamespaces):
    items: Annotated[list[NewItem], Many]
    ttl: Annotated[Seconds | None, Field(description="Of items without one of their own.")] = None
    if_exists: Literal["replace", "skip", "fail"] = "replace"
    keep_vectors: bool = False

    def namespaces(self) -> list[tuple[str, ...]]:
        return [tuple(one.namespace) for one in self.items]


class DeleteMatchingBody(Schema):
    filter: Annotated[ItemFilter, Field(json_schema_extra={"minProperties": 1})]
    prefix: Annotated[bool, Field(description="Namespaces below this one, too.")] = False


class PutVectorBody(Schema):
    embedding: Embedding
    model: Text | None = None
    expected_version: ExpectedVersion | None = None


class SearchEntriesBody(Schema):
    query: Text
    limit: Limit = 10
    match: WordMatch = "any"
    thread_id: Id | None = None


class SearchMessagesBody(Schema):
    query: Text
    limit: Limit = 10
    match: WordMatch = "any"
    all_conversations: Annotated[
        bool, Field(description="Messages of every conversation in the namespace.")
    ] = False


class SearchItemsBody(Schema):
    query: Text | None = None
    prefix: bool = False
    mode: SearchMode = "text"
    match: WordMatch = "any"
    filter: ItemFilter | None = None
    limit: Limit = 10
    offset: Limit = 0
    threshold: Share | None = None
    embedding: Vector | None = None
    model: Text | None = None
    alpha: Share | None = None
    mmr: Share | None = None


# --- Answers -------------------------------------------------------------------------------------


class Page(Schema):
    next: Annotated[
        Text, Field(description="The cursor of the next page. Not there if this is the last one.")
    ] = ""


class Saved(Schema):
    checkpoint_id: Id


class CheckpointIdList(Page):
    checkpoints: list[Text]


class State(Schema):
    thread_id: Text
    state: Tree


class Checkpoint(State):
    checkpoint_id: Text


class CheckpointInfo(Schema):
    thread_id: Text
    namespace: list[Text]
    checkpoint_id: Text
    parent_id: Text | None
    seq: int
    metadata: Tree
    created_at: datetime
    raw_size: int
    stored_size: int
    occurred_at: datetime
    data: Annotated[Tree, Field(description="Its state, where a search asks for it.")] = {}


class CheckpointHit(CheckpointInfo):
    score: float
    snippet: str


class CheckpointInfoList(Page):
    checkpoints: list[CheckpointInfo]


class CheckpointHitList(Schema):
    checkpoints: list[CheckpointHit]


class ThreadIdList(Page):
    threads: list[Text]


class Deleted(Schema):
    deleted: bool


class Count(Schema):
    count: int


class Forked(Schema):
    thread_id: Text


class Copied(Schema):
    copied: bool


class LogState(Schema):
    version: int


class LogInfo(Schema):
    thread_id: Text
    namespace: list[Text]
    checkpoints: int
    entries: int
    newest_id: Text | None
    raw_size: int
    stored_size: int
    created_at: datetime
    updated_at: datetime
    forked_from: Text | None
    metadata: Annotated[Tree, Field(description="The thread's own.")]


class LogInfoList(Page):
    logs: list[LogInfo]


class Edited(Schema):
    edited: bool


class PositionList(Schema):
    positions: list[int]


class Entry(Schema):
    position: int
    value: Value
    key: Text | None
    occurred_at: datetime
    stored_at: datetime


class Popped(Schema):
    entry: Entry | None


class EntryList(Page):
    entries: list[Entry]


class EntryHit(Entry):
    thread_id: Text
    score: float
    snippet: str


class EntryOfThread(Entry):
    thread_id: Text


class EntryOfThreadList(Schema):
    entries: list[EntryOfThread]


class EntriesOfThread(Schema):
    thread_id: Text
    entries: list[Entry]


class EntriesOfThreadList(Schema):
    threads: list[EntriesOfThread]


class WrittenThread(Schema):
    thread_id: Text
    updated_at: datetime


class WrittenThreadList(Schema):
    threads: list[WrittenThread]


class Snapshot(Schema):
    snapshot: Annotated[Tree, Field(description="messages, summary, summarized.")]


class Restored(Schema):
    restored: bool


class Summary(Schema):
    text: Text | None


class Exchange(Schema):
    calls: Annotated[Tree, Field(description="The assistant's message.")]
    results: list[Tree]
    begun_at: datetime


class EntryHitList(Schema):
    entries: list[EntryHit]


class StoredMessage(Schema):
    position: int
    message: Tree
    key: Text | None
    occurred_at: datetime
    stored_at: datetime


class MessageList(Page):
    messages: list[StoredMessage]


class FoundMessage(Schema):
    message: Tree
    thread_id: Text
    position: int
    key: Text | None
    occurred_at: datetime
    score: float
    snippet: Text


class FoundMessageList(Schema):
    messages: list[FoundMessage]


class StorageStats(Schema):
    total_checkpoints: int
    total_size: int
    compressed_size: int
    compression_ratio: float
    full_checkpoints: int
    delta_checkpoints: int


class Change(Schema):
    a: Value
    b: Value


class Diff(Schema):
    added: dict[str, Value]
    removed: dict[str, Value]
    changed: dict[str, Change]


class Item(Schema):
    namespace: list[str]
    key: Text
    value: Value
    metadata: Tree
    created_at: datetime
    updated_at: datetime
    version: int
    expires_at: datetime | None


class ItemHit(Item):
    score: float | None


class ItemHitList(Schema):
    hits: list[ItemHit]
    notices: Annotated[
        list[Text], Field(description="What the search could not do, such as compare vectors.")
    ] = []


class ItemList(Page):
    items: list[Item]


class SomeItems(Schema):
    items: list[Item]


class Versions(Schema):
    versions: Annotated[list[int], Field(description="0 for an item that was skipped.")]


class ItemVector(Schema):
    embedding: list[float]


class VectorOfItem(ItemVector):
    namespace: list[str]
    key: Text


class VectorList(Schema):
    vectors: list[VectorOfItem]


class KeyList(Page):
    keys: list[Text]


class NamespaceList(Page):
    namespaces: list[list[str]]


class Version(Schema):
    version: int


class Health(Schema):
    status: Literal["live", "ready"]


class Capabilities(Schema):
    server: Literal["memalchemy"]
    version: str
    checkpointer: dict[str, bool]
    calls: Annotated[list[str], Field(description="The operation ids of this server.")]
    max_body_bytes: int
    encodings: Annotated[list[str], Field(description="Those that the body of a request may have.")]


class ProblemDocument(BaseModel):
    """RFC 9457. ``code`` and ``error`` name an error class of docs/errors.md."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
