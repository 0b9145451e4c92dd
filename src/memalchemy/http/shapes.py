"""The shapes of queries, bodies and answers: they check what comes, and make the OpenAPI document.

A name that is not known is refused, never passed over. Ids may hold any code point, which
pydantic's own ``str`` may not.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema

from memalchemy.keys import MAX_ID_CHARACTERS

MOST = 100_000
"""Results that one answer holds, at most; `limits.Limits` lowers it."""


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("is not a text")
    return value


def _object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError("is not an object")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch("-?[0-9]{1,20}", value):
        raise ValueError("is not a whole number")
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 3.0 is an integer of JSON
    return value


def _flag(value: Any) -> Any:
    if value not in (True, False, "true", "false"):
        raise ValueError("is true or false")
    return value in (True, "true")


Text = Annotated[str, PlainValidator(_text), WithJsonSchema({"type": "string"})]
Id = Annotated[
    str,
    PlainValidator(_text),
    WithJsonSchema({"type": "string", "maxLength": MAX_ID_CHARACTERS}),
]
NAMESPACE = {"type": "string", "minLength": 1, "pattern": "^[^~]+$"}
"""As documented; a ``~`` may be there too, as ``~0``, and says ``~``."""
Namespace = Annotated[str, PlainValidator(_text), WithJsonSchema(NAMESPACE)]
Tree = Annotated[
    dict[str, Any],
    PlainValidator(_object),
    WithJsonSchema({"type": "object", "additionalProperties": True}),
]
Value = Annotated[Any, WithJsonSchema({"description": "Any JSON, with tags for what JSON lacks."})]
Vector = Annotated[list[float], Field(min_length=1, max_length=16_000)]
Flag = Annotated[bool, PlainValidator(_flag), WithJsonSchema({"type": "boolean"})]
Limit = Annotated[int, Field(ge=0, le=MOST), BeforeValidator(_number)]
PageSize = Annotated[int, Field(ge=0, le=500), BeforeValidator(_number)]
Expectation = Annotated[int, Field(ge=1, lt=2**63), BeforeValidator(_number)]
Kept = Annotated[int, Field(ge=1, lt=2**31), BeforeValidator(_number)]
Days = Annotated[float, Field(ge=0, lt=365_000)]
Life = Annotated[float, Field(gt=0, lt=365_000 * 86_400, description="Seconds.")]


class Shape(BaseModel):
    """What is told is what is meant: no other names, no other types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Query(BaseModel):
    """Parameters in a URL, where everything is a text."""

    model_config = ConfigDict(extra="forbid")


# --- Queries -------------------------------------------------------------------------------------


class Listing(Query):
    limit: Limit = 10


class Paging(Query):
    limit: PageSize = 100
    before: Annotated[Id | None, Field(description="Only checkpoints older than this one.")] = None


class Threads(Query):
    limit: Limit = 100
    pattern: Annotated[Text, Field(description="A glob over the whole id: *, ?, [a-z].")] = "*"
    offset: Annotated[Limit, Field(description="How many of the first to leave out.")] = 0


class Newest(Query):
    limit: Limit = 100


class Between(Query):
    a: Id
    b: Id


class Keys(Query):
    limit: Limit = 100
    prefix: Id | None = None
    after: Id | None = None


class Items(Query):
    limit: Limit = 100
    below: Annotated[Flag, Field(description="Namespaces below this one, too.")] = False
    order: Literal["newest", "key"] = "newest"


class Below(Query):
    below: Annotated[Flag, Field(description="Namespaces below this one, too.")] = False


class Namespaces(Query):
    prefix: Annotated[Namespace | None, Field(description="A namespace, such as users/ada.")] = None
    after: Namespace | None = None
    limit: Limit = 100


class Expected(Query):
    expected_version: Expectation | None = None


# --- Bodies --------------------------------------------------------------------------------------


class Save(Shape):
    state: Tree
    checkpoint_id: Annotated[Id | None, Field(description="Made up if not given.")] = None
    thread_id: Annotated[Id | None, Field(description="If given, that of the path.")] = None
    created_at: Annotated[
        str | None, Field(description="Taken and not used: order is that of saving.")
    ] = None
    metadata: Tree | None = None
    parent_id: Annotated[Id | None, Field(description="Branch off this checkpoint.")] = None
    expected_parent: Annotated[
        Id | None,
        Field(description="409 unless this is the newest; null: unless there is none."),
    ] = None
    ttl: Life | None = None


class Fork(Shape):
    checkpoint_id: Id | None = None
    new_thread_id: Id | None = None


class Copy(Shape):
    dest_thread_id: Id


def _given(name: str, kind: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"type": kind}}}


class Prune(Shape):
    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                _given("keep_last", "integer"),
                _given("keep_every", "integer"),
                _given("older_than", "number"),
            ]
        }
    )

    thread_id: Id | None = None
    keep_last: Kept | None = None
    keep_every: Kept | None = None
    older_than: Annotated[Life | None, Field(description="Seconds.")] = None
    all_namespaces: bool = False
    dry_run: bool = False


class Vacuum(Shape):
    older_than_days: Days | None = 30
    all_namespaces: bool = False
    dry_run: bool = False


class Forget(Shape):
    """One of the two, and not both."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [_given("thread_id", "string"), _given("metadata", "object")]}
    )

    thread_id: Id | None = None
    metadata: Annotated[Tree | None, Field(json_schema_extra={"minProperties": 1})] = None


WithData = Annotated[bool, Field(description="Each with its state, under data.")]


class Search(Shape):
    query: Text
    limit: Limit = 10
    data: WithData = False


class ByMetadata(Shape):
    key: Text
    value: Annotated[Any, WithJsonSchema({"description": "What stands under the key."})]
    limit: Limit = 100
    data: WithData = False


class ByData(Shape):
    path: Annotated[Text, Field(description="A top-level key, or a JSON pointer: /user/name.")]
    value: Value
    limit: Limit = 100
    among: Annotated[
        Limit | None,
        Field(description="How many of the threads saved last are looked at; null: all."),
    ] = 1000


class Put(Shape):
    value: Value
    metadata: Tree | None = None
    ttl: Life | None = None
    embedding: Vector | None = None
    expected_version: Annotated[
        Expectation | None, Field(description="409 unless at this version; null: unless not there.")
    ] = None


class Find(Shape):
    query: Text | None = None
    prefix: bool = False
    mode: Literal["text", "vector", "hybrid"] = "text"
    filter: Tree | None = None
    limit: Limit = 10
    offset: Limit = 0
    threshold: Annotated[float | None, Field(ge=0, le=1)] = None
    embedding: Vector | None = None
    model: Text | None = None
    alpha: Annotated[float | None, Field(ge=0, le=1)] = None
    mmr: Annotated[float | None, Field(ge=0, le=1)] = None


# --- Answers -------------------------------------------------------------------------------------


class Saved(Shape):
    checkpoint_id: Id


class Ids(Shape):
    checkpoints: list[Text]


class State(Shape):
    thread_id: Text
    state: Tree


class Checkpoint(State):
    checkpoint_id: Text


class Info(Shape):
    thread_id: Text
    checkpoint_id: Text
    parent_id: Text | None
    seq: int
    metadata: Tree
    created_at: datetime
    raw_size: int
    stored_size: int
    occurred_at: datetime
    data: Annotated[Tree, Field(description="Its state, where a search asks for it.")] = {}


class Hit(Info):
    score: float
    snippet: str


class Infos(Shape):
    checkpoints: list[Info]


class Hits(Shape):
    checkpoints: list[Hit]


class ThreadIds(Shape):
    threads: list[Text]


class Deleted(Shape):
    deleted: bool


class Count(Shape):
    count: int


class Forked(Shape):
    thread_id: Text


class Copied(Shape):
    copied: bool


class Stats(Shape):
    total_checkpoints: int
    total_size: int
    compressed_size: int
    compression_ratio: float
    full_checkpoints: int
    delta_checkpoints: int


class Changed(Shape):
    a: Value
    b: Value


class Difference(Shape):
    added: dict[str, Value]
    removed: dict[str, Value]
    changed: dict[str, Changed]


class Item(Shape):
    namespace: list[str]
    key: Text
    value: Value
    metadata: Tree
    created_at: datetime
    updated_at: datetime
    version: int
    expires_at: datetime | None


class Found(Item):
    score: float | None


class Founds(Shape):
    hits: list[Found]


class ItemList(Shape):
    items: list[Item]


class KeyList(Shape):
    keys: list[Text]


class NamespaceList(Shape):
    namespaces: list[list[str]]


class Version(Shape):
    version: int


class Health(Shape):
    status: Literal["live", "ready"]


class Capabilities(Shape):
    server: Literal["memalchemy"]
    version: str
    checkpointer: dict[str, bool]
    calls: Annotated[list[str], Field(description="Operation ids of this server.")]
    max_body_bytes: int


class ProblemDocument(BaseModel):
    """RFC 9457; ``code`` and ``error`` name the class of docs/errors.md."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
