"""The bytes of messages that were met before, and messages of bytes that were: LangGraph's own
serialiser makes them anew at each step, and takes longer over it than all else together.

What is remembered is a function of content, never of an object: a message that was changed in place
is another content, and what is given out shares nothing that can be changed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, TypeVar

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.base import SerializerProtocol

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KINDS = frozenset({AIMessage, HumanMessage, SystemMessage, ToolMessage})
"""Classes that are made of their fields alone, and that every serialiser may read."""
MAX_BYTES = 16 * 1024 * 1024

_KEYS = ormsgpack.OPT_NON_STR_KEYS
_EXACT = (
    _KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""Refuses all but plain values, so that equal bytes are equal values of the same types."""
_SCALARS = (str, bytes, int, float, type(None))  # and bool, which is an int


class Recent(Generic[K, V]):
    """A mapping that forgets what was not used for long; safe from several threads.

    In two halves: when the younger is full the elder is let go.
    """

    def __init__(self, max_bytes: int) -> None:
        self._half = max_bytes // 2
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
        if self._bytes + size > self._half:
            self._old, self._young, self._bytes = self._young, {}, 0
        if size <= self._half:
            self._young[key] = value, size
            self._bytes += size


class Made(NamedTuple):
    """What a message is made of: fields, and those of them that can be changed, as bytes."""

    kind: type[BaseMessage]
    fields: dict[str, Any]
    containers: tuple[tuple[str, bytes], ...]
    fields_set: set[str]

    @classmethod
    def of(cls, message: BaseMessage) -> Made | None:
        """``None``: it holds what a copy could not be made of."""
        if message.__pydantic_extra__ or message.__pydantic_private__ is not None:
            return None
        fields = message.__dict__.copy()
        try:
            packed = ormsgpack.packb(fields, option=_EXACT)
        except ormsgpack.MsgpackEncodeError:
            return None
        if ormsgpack.unpackb(packed, option=_KEYS) != fields:
            return None
        containers = tuple(
            (name, ormsgpack.packb(value, option=_EXACT))
            for name, value in fields.items()
            if not isinstance(value, _SCALARS)
        )
        plain = fields | dict.fromkeys(name for name, _ in containers)
        return cls(type(message), plain, containers, set(message.model_fields_set))

    def again(self) -> BaseMessage:
        """Another message, equal to the first."""
        fields = self.fields.copy()
        for name, packed in self.containers:
            fields[name] = ormsgpack.unpackb(packed, option=_KEYS)
        message = self.kind.__new__(self.kind)
        # What a model's own `__setattr__` would validate is as it was validated before.
        object.__setattr__(message, "__dict__", fields)
        object.__setattr__(message, "__pydantic_fields_set__", self.fields_set.copy())
        object.__setattr__(message, "__pydantic_extra__", {})
        object.__setattr__(message, "__pydantic_private__", None)
        return message


_written: Recent[tuple[type, bytes], Any] = Recent(MAX_BYTES)
_read: Recent[bytes, Made] = Recent(MAX_BYTES)


def dumps(serde: SerializerProtocol, value: Any) -> tuple[str, bytes]:
    """As ``serde.dumps_typed``."""
    if type(value) in (list, dict, *KINDS) and _is_known(serde):
        try:
            packed = ormsgpack.packb(value, default=_write, option=jsonplus._option)
        except ormsgpack.MsgpackEncodeError:
            return serde.dumps_typed(value)  # which says why, or has another way
        return "msgpack", packed
    return serde.dumps_typed(value)


def loads(serde: SerializerProtocol, form: str, data: bytes) -> Any:
    """As ``serde.loads_typed``."""
    if form != "msgpack" or not _is_known(serde):
        return serde.loads_typed((form, data))
    hook = serde._unpack_ext_hook  # type: ignore[attr-defined]

    def read(code: int, inner: bytes) -> Any:
        if code != jsonplus.EXT_PYDANTIC_V2:
            return hook(code, inner)
        made = _read.get(inner)
        if made is not None:
            return made.again()
        message = hook(code, inner)
        if type(message) in KINDS and (made := Made.of(message)) is not None:
            _read.put(inner, made, 4 * len(inner))
        return message

    return ormsgpack.unpackb(data, ext_hook=read, option=_KEYS)


def _write(value: Any) -> Any:
    kind = type(value)
    if kind not in KINDS or value.__pydantic_extra__:
        return jsonplus._msgpack_default(value)
    try:
        key = kind, ormsgpack.packb(value.__dict__, option=_EXACT)
    except ormsgpack.MsgpackEncodeError:
        return jsonplus._msgpack_default(value)
    found = _written.get(key)
    if found is None:
        found = jsonplus._msgpack_default(value)
        _written.put(key, found, 4 * len(key[1]))
    return found


def _is_known(serde: SerializerProtocol) -> bool:
    """Whether it is LangGraph's own serialiser, as it is known here."""
    return type(serde) is jsonplus.JsonPlusSerializer and not serde._custom_unpack_ext_hook
