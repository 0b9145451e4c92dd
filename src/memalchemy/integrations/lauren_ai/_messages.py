"""Conversion of lauren-ai's messages to records that `memalchemy.Message` reads, and back.

lauren-ai's dataclasses are stored as plain fields, with their types beside them. Reading makes no
other classes than these.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from lauren_ai import (
    AudioContent,
    DocumentContent,
    ImageContent,
    ToolCall,
    ToolCallRecord,
    ToolExchange,
    ToolResultRecord,
)
from lauren_ai import (
    Message as LaurenMessage,
)

# lauren-ai exports no name of these parts of its messages.
from lauren_ai._transport import ContentBlock, RedactedThinkingBlock, ThinkingBlock

from memalchemy.messages import ROLES, UNKNOWN_ROLE, is_text_record
from memalchemy.state import Message

EXTRA_FIELDS = "lauren_ai"
"""Field of a record for the parts of a message that the other fields do not hold."""

_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        ToolExchange,
        ToolCallRecord,
        ToolResultRecord,
        LaurenMessage,
        ContentBlock,
        ToolCall,
        ThinkingBlock,
        RedactedThinkingBlock,
        ImageContent,
        AudioContent,
        DocumentContent,
    )
}
Types = list[tuple[str, list[str | int]]]
"""Names of `_CLASSES`, each with the path to its fields, inner ones first."""


def to_record(message: Any) -> dict[str, Any]:
    """Convert a message, lauren-ai's or a dict, to a record for `from_record`.

    Raises:
        TypeError: it is neither.
    """
    if is_text_record(message) and message["role"] in ROLES:
        found: dict[str, Any] = message  # the caller copies what it keeps
        return found
    types: Types = []
    plain = to_plain(message, types, [])
    if not isinstance(plain, dict):
        raise TypeError(f"a message is a dict or lauren-ai's Message, not {type(message).__name__}")
    try:
        record = Message.of(plain).to_record()
    except (TypeError, ValueError):  # only lauren-ai can read such a message
        role, content = plain.get("role"), plain.get("content")
        record = {"role": role if isinstance(role, str) and role else UNKNOWN_ROLE}
        if isinstance(content, str):
            record["content"] = content
    if record["role"] not in ROLES:
        record["role"] = UNKNOWN_ROLE  # the differing one is restored
    extra: dict[str, Any] = {}
    record.pop(EXTRA_FIELDS, None)
    added = [name for name in record if name not in plain]
    differing = {
        name: value
        for name, value in plain.items()
        if name == EXTRA_FIELDS or name not in record or not _is_same(record[name], value)
    }
    if differing:
        extra["fields"] = differing
    if added:
        extra["added"] = added
    if types:
        extra["types"] = types
    return {**record, EXTRA_FIELDS: extra} if extra else record


def from_record(record: dict[str, Any]) -> Any:
    """Convert a record of `to_record` back to the message; *record* is used up."""
    extra = record.pop(EXTRA_FIELDS, None)
    if not extra:
        return record
    for name in extra.get("added", ()):
        record.pop(name, None)
    return restore_types({**record, **extra.get("fields", {})}, extra.get("types", ()))


def to_plain(value: Any, types: Types, path: list[str | int]) -> Any:
    """Convert lauren-ai's objects in *value* to dicts, and note their types in *types*."""
    if isinstance(value, list):
        return [to_plain(one, types, [*path, at]) for at, one in enumerate(value)]
    if isinstance(value, tuple):
        return tuple(to_plain(one, types, [*path, at]) for at, one in enumerate(value))
    if isinstance(value, dict):
        return {key: to_plain(one, types, [*path, key]) for key, one in value.items()}
    if is_dataclass(value) and _CLASSES.get(type(value).__name__) is type(value):
        named = [(field, getattr(value, field.name)) for field in fields(value)]
        held = {f.name: one for f, one in named if one is not None or f.default is not None}
        plain = to_plain(held, types, path)
        types.append((type(value).__name__, path))
        return plain
    return value


def restore_types(value: Any, types: Any) -> Any:
    """Convert what `to_plain` returned back to the objects that it was given."""
    holder = {"": value}
    for name, path in types:
        _restore_at(holder, ["", *path], _CLASSES[name])
    return holder[""]


def _restore_at(container: Any, path: list[Any], cls: type[Any]) -> Any:
    """Make the dict at *path* a *cls*: in place in lists and dicts, in a new tuple in tuples."""
    key, *rest = path
    new = _restore_at(container[key], rest, cls) if rest else cls(**container[key])
    if isinstance(container, tuple):
        return (*container[:key], new, *container[key + 1 :])
    container[key] = new
    return container


def _is_same(one: Any, other: Any) -> bool:
    """Compare values and their types: ``True`` is not 1."""
    if type(one) is not type(other):
        return isinstance(one, str) and isinstance(other, str) and one == other
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)
