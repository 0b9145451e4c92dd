"""Serialisation of LangGraph's values, with caches of messages.

At each step LangGraph's serialiser writes all messages of a state anew, and at each load it
validates all of them, which takes longer than everything else together. Here a message whose
content was met before is neither written nor validated again. The bytes and the values are the same
as the serialiser's, and whatever is not cached goes through its public methods.

Caches go by content, never by identity: a message that was changed in place is another content, and
messages that are returned share nothing mutable.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Generic, NamedTuple, TypeVar

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import EXT_PYDANTIC_V2, JsonPlusSerializer

from memalchemy._bounds import check_foreign, check_json, unpack_foreign

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

TESTED_RELEASES = ("4.3",)
"""Releases of langgraph-checkpoint whose serialiser writes what is written here. With any other,
nothing is cached, and the serialiser does all the work."""
MESSAGE_TYPES = frozenset({AIMessage, HumanMessage, SystemMessage, ToolMessage})
"""Classes that consist of their fields alone, and that every serialiser may read."""
MAX_BYTES = 16 * 1024 * 1024
"""The size of each of the two caches."""

READ_OPTIONS = ormsgpack.OPT_NON_STR_KEYS
WRITE_OPTIONS = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)
"""Options of LangGraph's serialiser."""
_EXACT_OPTIONS = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""Options that refuse all but plain values, so that equal bytes mean equal values and types."""
_IMMUTABLE = (str, bytes, int, float, type(None))


def dump_typed(serde: SerializerProtocol, value: Any) -> tuple[str, bytes]:
    """Return what ``serde.dumps_typed`` returns."""
    if type(value) in (list, dict, *MESSAGE_TYPES) and _is_cacheable(serde):
        try:
            packed = ormsgpack.packb(value, default=partial(_encode, serde), option=WRITE_OPTIONS)
        except ormsgpack.MsgpackEncodeError:
            pass  # the serialiser explains it, or has another format
        else:
            return "msgpack", packed
    return serde.dumps_typed(value)


def check(form: str, data: bytes) -> None:
    """Check that a value takes bounded memory and work to read; other formats are the host's.

    Raises:
        Oversized, Colliding: it does not.
    """
    if form == "msgpack":
        check_foreign(data)
    elif form == "json":
        check_json(data)


def load_typed(serde: SerializerProtocol, form: str, data: bytes) -> Any:
    """Return what ``serde.loads_typed`` returns."""
    if form != "msgpack" or not _is_cacheable(serde):
        check(form, data)
        return serde.loads_typed((form, data))
    return unpack_foreign(data, partial(_decode, serde))


class Cache(Generic[K, V]):
    """Cache of two generations, bounded by the sizes of its entries in bytes.

    An entry that is used moves to the younger generation; when that is full, it becomes the elder,
    and the elder is dropped. This needs no lock: an LRU cache behind a lock takes 1.2 µs for a
    look-up, as long as all else that is done for a message, where this takes 0.1.
    """

    def __init__(self, max_bytes: int) -> None:
        self._generation_bytes = max_bytes // 2
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}
        self._bytes = 0

    def get(self, key: K) -> V | None:
        found = self._young.get(key)
        if found is not None:
            return found[0]
        if (found := self._old.get(key)) is None:
            return None
        self.put(key, *found)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        if self._bytes + size > self._generation_bytes:
            self._old, self._young, self._bytes = self._young, {}, 0
        if size <= self._generation_bytes:
            self._young[key] = value, size
            self._bytes += size


class Template(NamedTuple):
    """The parts of which copies of a message are made; its mutable fields are there as bytes.

    A copy is made of the attributes that pydantic documents for a model. `BaseModel.model_copy`
    makes the same in 1.8 times as long, which is a quarter of the time that reading a state takes.
    """

    kind: type[BaseMessage]
    fields: dict[str, Any]
    mutable_fields: bytes
    fields_set: set[str]

    @classmethod
    def of(cls, message: BaseMessage) -> Template | None:
        """Make a template of *message*; ``None`` if it has values that bytes cannot restore."""
        if message.__pydantic_extra__ or message.__pydantic_private__ is not None:
            return None
        fields = message.__dict__
        try:
            packed = ormsgpack.packb(fields, option=_EXACT_OPTIONS)
        except ormsgpack.MsgpackEncodeError:
            return None
        if ormsgpack.unpackb(packed, option=READ_OPTIONS) != fields:
            return None
        mutable = {k: v for k, v in fields.items() if not isinstance(v, _IMMUTABLE)}
        return cls(
            type(message),
            fields | dict.fromkeys(mutable),
            ormsgpack.packb(mutable, option=_EXACT_OPTIONS),
            set(message.model_fields_set),
        )

    def copy(self) -> BaseMessage:
        """Return a new message, equal to the original."""
        mutable = ormsgpack.unpackb(self.mutable_fields, option=READ_OPTIONS)
        message = self.kind.__new__(self.kind)
        # A model's own `__setattr__` would validate the fields again.
        object.__setattr__(message, "__dict__", {**self.fields, **mutable})
        object.__setattr__(message, "__pydantic_fields_set__", self.fields_set.copy())
        object.__setattr__(message, "__pydantic_extra__", {})
        object.__setattr__(message, "__pydantic_private__", None)
        return message


_written: Cache[tuple[type, bytes], Any] = Cache(MAX_BYTES)
_read: Cache[bytes, Template] = Cache(MAX_BYTES)


def _encode(serde: SerializerProtocol, value: Any) -> Any:
    """Represent a value for which MessagePack has no type."""
    kind = type(value)
    if kind not in MESSAGE_TYPES or value.__pydantic_extra__:
        return _represent(serde, value)
    try:
        key = kind, ormsgpack.packb(value.__dict__, option=_EXACT_OPTIONS)
    except ormsgpack.MsgpackEncodeError:
        return _represent(serde, value)
    found = _written.get(key)
    if found is None:
        found = _represent(serde, value)
        _written.put(key, found, 4 * len(key[1]))
    return found


def _represent(serde: SerializerProtocol, value: Any) -> Any:
    """Return the extension, or the plain value, that the serialiser writes for *value*."""
    form, packed = serde.dumps_typed([value])
    if form != "msgpack":
        raise TypeError(f"{type(value).__name__} has no representation in MessagePack")
    (found,) = ormsgpack.unpackb(packed, ext_hook=ormsgpack.Ext, option=READ_OPTIONS)
    return found


def _decode(serde: SerializerProtocol, code: int, data: bytes) -> Any:
    """Read an extension."""
    if code == EXT_PYDANTIC_V2 and (template := _read.get(data)) is not None:
        return template.copy()
    value = serde.loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, data))))
    if type(value) in MESSAGE_TYPES and (template := Template.of(value)) is not None:
        _read.put(data, template, 4 * len(data))
    return value


def _is_tested(release: str) -> bool:
    return ".".join(release.split(".")[:2]) in TESTED_RELEASES


def _installed_release() -> str:
    try:
        return version("langgraph-checkpoint")
    except PackageNotFoundError:  # bundled without its metadata
        return ""


_caching = _is_tested(_installed_release())


def _is_cacheable(serde: SerializerProtocol) -> bool:
    """Return ``True`` for LangGraph's own serialiser in a tested release.

    A subclass, or a serialiser with a reading hook of the user's, has rules of its own. The hook
    has no public attribute; if the private one goes, nothing is cached.
    """
    return (
        _caching
        and type(serde) is JsonPlusSerializer
        and not getattr(serde, "_custom_unpack_ext_hook", True)
    )
