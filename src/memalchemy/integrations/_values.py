"""Values of frameworks as values that memalchemy stores, whatever stands beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from memalchemy._json_pointers import pointer
from memalchemy.codec.values import MAX_DEPTH
from memalchemy.errors import NotSerialisable

_STORED = frozenset({str, int, float, bool, type(None), bytes, datetime, date, UUID, Decimal})


Fallback = Callable[[Any], Any]
"""A function that replaces a value which has no JSON form."""


def storable(value: Any, path: str = "", *, unknown: Fallback | None = None) -> Any:
    """Return *value*, with pydantic's JSON form in place of what memalchemy does not store.

    A value that memalchemy stores, such as NaN, bytes, a tuple or a datetime, stays as it is,
    whatever stands beside it or around it. Enums become their values; models, dataclasses and
    other mappings become dicts; other sequences become lists, those that are tuples become tuples.
    Keys that are no text become the text that JSON has for them. What has no JSON form becomes what
    *unknown* returns of it, if that is given.

    Raises:
        NotSerialisable: a value has no JSON form, is a secret, or is nested too deeply; or two keys
            become one. ``path`` says which, below *path*.
    """
    return _Converter(unknown).convert(value, path, 0)


def dumped(value: BaseModel, *, exclude_none: bool = True) -> Any:
    """Return the fields of a model with the types of Python; *exclude_none* leaves out ``None``.

    Raises:
        NotSerialisable: pydantic cannot dump it.
    """
    try:
        return value.model_dump(exclude_none=exclude_none, warnings=False)
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(value).__name__
        raise NotSerialisable("", f"is a {kind} that pydantic cannot dump: {error}") from error


@dataclass
class _Converter:
    unknown: Fallback | None

    def convert(self, value: Any, path: str, depth: int) -> Any:
        kind = type(value)
        if kind in _STORED or kind.__module__ == "numpy" or isinstance(value, PurePath):
            return value
        if depth > MAX_DEPTH:
            raise NotSerialisable(path, f"is nested over {MAX_DEPTH} levels deep")
        if isinstance(value, Enum):
            return self.convert(value.value, path, depth + 1)
        if isinstance(value, BaseModel):
            named = {name: getattr(value, name) for name in type(value).model_fields}
            return self._mapping(named | (value.model_extra or {}), path, depth)
        if isinstance(value, Mapping):
            return self._mapping(value, path, depth)
        if is_dataclass(value) and not isinstance(value, type):
            named = {field.name: getattr(value, field.name) for field in fields(value)}
            return self._mapping(named, path, depth)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if isinstance(value, Set):
            members = set(self._members(value, path, depth))
            return frozenset(members) if isinstance(value, frozenset) else members
        if isinstance(value, Sequence) and not isinstance(value, str):
            items = list(self._members(value, path, depth))
            return tuple(items) if isinstance(value, tuple) else items
        return self._json_form(value, path)

    def _members(self, value: Iterable[Any], path: str, depth: int) -> Iterator[Any]:
        for at, one in enumerate(value):
            yield self.convert(one, pointer(path, at), depth + 1)

    def _mapping(self, value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, one in value.items():
            name = key if type(key) is str else self._text_of_key(key, path)
            if name in found:
                raise NotSerialisable(path, f"has two keys that become one: {type(key).__name__}")
            found[name] = self.convert(one, pointer(path, name), depth + 1)
        return found

    def _text_of_key(self, key: Any, path: str) -> str:
        (name,) = self._json_form({key: None}, path)
        return str(name)

    def _json_form(self, value: Any, path: str) -> Any:
        kind = type(value).__name__
        if isinstance(value, SecretStr | SecretBytes):
            raise NotSerialisable(path, f"is a {kind}, whose JSON form is a row of asterisks")
        try:
            return to_jsonable_python(value)
        except (TypeError, ValueError, RecursionError) as error:
            if self.unknown is not None:
                return self.unknown(value)
            raise NotSerialisable(path, f"is a {kind}, which cannot be stored") from error
