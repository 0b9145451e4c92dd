"""Messages of lauren-ai as records that `memalchemy.Message` reads, and back as they were.

lauren-ai's own dataclasses are stored as plain fields, with what they were beside them; no other
class is ever made from what is stored. Knows no storage.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from lauren_ai import ToolCallRecord, ToolExchange, ToolResultRecord, _transport
from lauren_ai._transport import _multimodal

from memalchemy.messages import is_text_record
from memalchemy.state import Message

OWN = "lauren_ai"
"""A field of a record: what of the message the other fields do not say."""

_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        ToolExchange,
        ToolCallRecord,
        ToolResultRecord,
        _transport.Message,
        _transport.ContentBlock,
        _transport.ToolCall,
        _transport.ThinkingBlock,
        _transport.RedactedThinkingBlock,
        _multimodal.ImageContent,
        _multimodal.AudioContent,
        _multimodal.DocumentContent,
    )
}
Types = list[tuple[str, list[str | int]]]
"""Which of `_CLASSES` stood where: names, each with the keys that lead there, the inner first."""


def record_of(message: Any) -> dict[str, Any]:
    """A message of lauren-ai's, or a dict, as a record that `message_of` makes it from.

    Raises:
        TypeError: it is neither.
    """
    # Most are a role and texts, their own record; who keeps it copies it.
    if is_text_record(message):
        found: dict[str, Any] = message
        return found
    types: Types = []
    plain = plain_of(message, types, [])
    if not isinstance(plain, dict):
        raise TypeError(f"a message is a dict or lauren-ai's Message, not {type(message).__name__}")
    try:
        record = Message.of(plain).to_record()
    except (TypeError, ValueError):  # no message to anybody else: all of it is lauren-ai's own
        role, content = plain.get("role"), plain.get("content")
        record = {"role": role if isinstance(role, str) and role else "unknown"}
        if isinstance(content, str):
            record["content"] = content
    own: dict[str, Any] = {}
    record.pop(OWN, None)
    added = [name for name in record if name not in plain]
    differing = {
        name: value
        for name, value in plain.items()
        if name == OWN or name not in record or not _same(record[name], value)
    }
    if differing:
        own["fields"] = differing
    if added:
        own["added"] = added
    if types:
        own["types"] = types
    return {**record, OWN: own} if own else record


def message_of(record: dict[str, Any]) -> Any:
    """What `record_of` was given; *record* itself is given up for it."""
    own = record.pop(OWN, None)
    if not own:
        return record
    for name in own.get("added", ()):
        record.pop(name, None)
    return typed({**record, **own.get("fields", {})}, own.get("types", ()))


def plain_of(value: Any, types: Types, path: list[str | int]) -> Any:
    """*value* without lauren-ai's classes, which are written to *types*."""
    if isinstance(value, list):
        return [plain_of(one, types, [*path, at]) for at, one in enumerate(value)]
    if isinstance(value, tuple):
        return tuple(plain_of(one, types, [*path, at]) for at, one in enumerate(value))
    if isinstance(value, dict):
        return {key: plain_of(one, types, [*path, key]) for key, one in value.items()}
    if is_dataclass(value) and _CLASSES.get(type(value).__name__) is type(value):
        named = [(field, getattr(value, field.name)) for field in fields(value)]
        held = {f.name: one for f, one in named if one is not None or f.default is not None}
        made = plain_of(held, types, path)
        types.append((type(value).__name__, path))
        return made
    return value


def typed(value: Any, types: Any) -> Any:
    """What `plain_of` was given, of what it gave."""
    holder = {"": value}
    for name, path in types:
        _replace(holder, ["", *path], _CLASSES[name])
    return holder[""]


def _replace(place: Any, path: list[Any], cls: type[Any]) -> Any:
    """*place* with what is at *path* made a *cls*; lists and dicts in place, tuples anew."""
    key, *rest = path
    new = _replace(place[key], rest, cls) if rest else cls(**place[key])
    if isinstance(place, tuple):
        return (*place[:key], new, *place[key + 1 :])
    place[key] = new
    return place


def _same(one: Any, other: Any) -> bool:
    """Equal, and of the same kinds: True is not 1."""
    if type(one) is not type(other):
        return isinstance(one, str) and isinstance(other, str) and one == other
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
