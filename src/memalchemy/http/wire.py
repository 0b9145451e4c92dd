"""Ids, records and errors as they travel. The client and the server share this module.

It knows neither of the two, nor any HTTP library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

import orjson

from memalchemy import errors
from memalchemy._bounds import parse_strict_json
from memalchemy._json_pointers import pointer
from memalchemy.codec.values import from_jsonable, jsonable
from memalchemy.contracts import CheckpointInfo, Diff, Entry, EntryHit, LogInfo, StoreItem
from memalchemy.conversations import MessageHit
from memalchemy.errors import InvalidArgument, MemalchemyError
from memalchemy.filters import Filter, field_equals, storable_operand

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"

VERSION_PATH = "/v1"
"""The path below which a server of memalchemy has its operations."""

CLASSES: dict[str, type[MemalchemyError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, MemalchemyError)
}
"""The error classes by their codes."""

ATTRIBUTES: dict[type[MemalchemyError], tuple[str, ...]] = {
    errors.Conflict: ("expected", "current"),
    errors.ThreadDeleted: ("thread_id",),
    errors.NotSerialisable: ("path",),
    errors.TooLarge: ("size", "limit"),
    errors.DatabaseUnreachable: ("maybe_applied", "busy"),
    errors.CapabilityMissing: ("capability",),
    errors.SchemaOutdated: ("current",),
    errors.SchemaTooNew: ("current",),
}
"""The attributes of each error class that travel beside its message."""


def quote_id(text: str) -> str:
    """Return an id as one segment of a path, with every special character percent-encoded."""
    if text in (".", ".."):  # clients and proxies resolve these segments
        return text.replace(".", "%2E")
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="")


def unquote_id(segment: str) -> str:
    """Return the id that `quote_id` encoded.

    Raises:
        ValueError: the segment is not percent-encoded UTF-8.
    """
    return unquote_to_bytes(segment).decode("utf-8", "surrogatepass")


def dumps(tree: Any) -> bytes:
    """Serialise a tree to a JSON document."""
    try:
        return orjson.dumps(tree)
    except TypeError:  # JSON allows lone surrogates and ints of over 64 bits, orjson does not
        return json.dumps(tree, allow_nan=False, default=_encode_datetime).encode()


def _encode_datetime(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def loads(document: bytes) -> Any:
    """Parse a JSON document from an untrusted source.

    Raises:
        ValueError: it is not JSON, or it is nested too deep.
    """
    try:
        return parse_strict_json(document)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def encode_state_tree(state: Mapping[str, Any], fallback: Any = None) -> dict[str, Any]:
    """Return a state as a JSON object, with tags for the values that JSON lacks.

    Raises:
        NotSerialisable: a value in it cannot be stored.
    """
    for key in state:
        if type(key) is not str:
            raise errors.NotSerialisable("", f"has a key that is not a str: {type(key).__name__}")
    return {key: jsonable(value, pointer("", key), fallback) for key, value in state.items()}


def decode_state_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state that `encode_state_tree` encoded.

    Raises:
        ValueError: a tag in it has no meaning.
    """
    return {key: from_jsonable(value) for key, value in tree.items()}


def encode_filter(filter: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a filter as a JSON object, with tags for the operands that JSON lacks.

    Raises:
        TypeError, ValueError: it is none, as `Filter.parse` has it.
    """
    Filter.parse(filter)
    return None if filter is None else encode_state_tree(storable_operand(filter))


def decode_filter(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filter that `encode_filter` encoded.

    Raises:
        ValueError: a tag in it has no meaning, or it is no filter.
    """
    filter = decode_state_tree(tree)
    try:
        Filter.parse(filter)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return filter


def encode_searched_value(path: str, value: Any) -> Any:
    """Return a value to look for under a path of states, with tags for what JSON lacks.

    Raises:
        TypeError, ValueError: no filter compares with it, or there is no such path.
    """
    field_equals(path, value)
    return jsonable(storable_operand(value))


_TIMES = ("created_at", "occurred_at")


def encode_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Encode what `Checkpointer.get_metadata` or a search says of a checkpoint."""
    tree = dict(info) | {name: info[name].isoformat() for name in _TIMES}
    return tree | {"data": encode_state_tree(info["data"])} if "data" in info else tree


def decode_info(tree: Mapping[str, Any]) -> Any:
    """Return the mapping that `encode_info` encoded."""
    info = dict(tree) | {name: datetime.fromisoformat(tree[name]) for name in _TIMES}
    info["namespace"] = tuple(tree["namespace"])
    return info | {"data": decode_state_tree(tree["data"])} if "data" in tree else info


def decode_checkpoint_info(tree: Mapping[str, Any]) -> CheckpointInfo:
    """Return what `encode_info` encoded as a `CheckpointInfo`."""
    info = decode_info(tree)
    return CheckpointInfo(**{name: info[name] for name in CheckpointInfo.__dataclass_fields__})


def encode_diff(diff: Diff) -> dict[str, Any]:
    """Encode a `Diff`, its values with tags."""
    return {
        "added": {path: jsonable(value) for path, value in diff.added.items()},
        "removed": {path: jsonable(value) for path, value in diff.removed.items()},
        "changed": {
            path: {"a": jsonable(a), "b": jsonable(b)} for path, (a, b) in diff.changed.items()
        },
    }


def decode_diff(tree: Mapping[str, Any]) -> Diff:
    """Return the `Diff` that `encode_diff` encoded."""
    return Diff(
        added={path: from_jsonable(value) for path, value in tree["added"].items()},
        removed={path: from_jsonable(value) for path, value in tree["removed"].items()},
        changed={
            path: (from_jsonable(both["a"]), from_jsonable(both["b"]))
            for path, both in tree["changed"].items()
        },
    )


def encode_item(item: StoreItem) -> dict[str, Any]:
    """Encode an item of a store, its value with tags."""
    return {**item.to_dict(), "value": jsonable(item.value)}


def encode_entry(entry: Entry) -> dict[str, Any]:
    """Encode an entry of a log, or a hit of a search among them, its value with tags."""
    hit = entry if isinstance(entry, EntryHit) else None
    return {
        "position": entry.position,
        "value": jsonable(entry.value),
        "key": entry.key,
        "occurred_at": entry.occurred_at.isoformat(),
        "stored_at": entry.stored_at.isoformat(),
    } | ({"thread_id": hit.thread_id, "score": hit.score, "snippet": hit.snippet} if hit else {})


def decode_entry(tree: Mapping[str, Any]) -> Entry:
    """Return the `Entry` or `EntryHit` that `encode_entry` encoded."""
    fields: dict[str, Any] = {
        "position": tree["position"],
        "value": from_jsonable(tree["value"]),
        "key": tree["key"],
        "occurred_at": datetime.fromisoformat(tree["occurred_at"]),
        "stored_at": datetime.fromisoformat(tree["stored_at"]),
    }
    if "score" not in tree:
        return Entry(**fields)
    return EntryHit(
        **fields, thread_id=tree["thread_id"], score=tree["score"], snippet=tree["snippet"]
    )


def encode_log_info(info: LogInfo) -> dict[str, Any]:
    """Encode a `LogInfo`."""
    times = {name: getattr(info, name).isoformat() for name in ("created_at", "updated_at")}
    return {name: getattr(info, name) for name in LogInfo.__dataclass_fields__} | times


def decode_log_info(tree: Mapping[str, Any]) -> LogInfo:
    """Return the `LogInfo` that `encode_log_info` encoded."""
    fields = {name: tree[name] for name in LogInfo.__dataclass_fields__}
    times = {name: datetime.fromisoformat(tree[name]) for name in ("created_at", "updated_at")}
    return LogInfo(**fields | times | {"namespace": tuple(tree["namespace"])})


def encode_message(entry: Entry) -> dict[str, Any]:
    """Encode an entry whose value is the record of a message."""
    tree = encode_entry(entry)
    return {"message": tree.pop("value"), **tree}


def encode_message_hit(hit: MessageHit) -> dict[str, Any]:
    """Encode a hit of a search among messages."""
    return {
        "message": encode_state_tree(hit.message.to_record()),
        "thread_id": hit.thread_id,
        "position": hit.position,
        "key": hit.key,
        "occurred_at": hit.occurred_at.isoformat(),
        "score": hit.score,
        "snippet": hit.snippet,
    }


def decode_message_hit(tree: Mapping[str, Any]) -> MessageHit:
    """Return the `MessageHit` that `encode_message_hit` encoded."""
    from memalchemy.state import Message

    return MessageHit(
        Message.of(decode_state_tree(tree["message"])),
        tree["thread_id"],
        tree["position"],
        tree["key"],
        datetime.fromisoformat(tree["occurred_at"]),
        tree["score"],
        tree["snippet"],
    )


def encode_error(error: MemalchemyError) -> dict[str, Any]:
    """Encode the attributes of an error, without its message."""
    return {
        name: _encode_attribute(getattr(error, name))
        for kind, names in ATTRIBUTES.items()
        if isinstance(error, kind)
        for name in names
    }


def _encode_attribute(value: Any) -> Any:
    if isinstance(value, StoreItem):
        return encode_item(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def decode_error(problem: Mapping[str, Any]) -> Exception | None:
    """Return the error that a problem document of memalchemy's server describes.

    ``None`` if its code is not one of memalchemy's.
    """
    code, detail = problem.get("code"), str(problem.get("detail") or problem.get("title"))
    if code == InvalidArgument.code:
        return InvalidArgument(detail)
    kind = CLASSES.get(code) if isinstance(code, str) else None
    if kind is None:
        return None
    # The message is complete: the classes' own __init__ would build another one.
    error = kind.__new__(kind)
    Exception.__init__(error, detail)
    for name in ATTRIBUTES.get(kind, ()):
        setattr(error, name, problem.get(name))
    if isinstance(error, errors.DatabaseUnreachable):
        error.maybe_applied, error.busy = bool(error.maybe_applied), bool(error.busy)
    return error
