"""What travels: ids in paths, records and errors as JSON. Client and server both stand on this.

Pure: knows neither of the two, nor any library of HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn
from urllib.parse import quote_from_bytes, unquote_to_bytes

import orjson

from memalchemy import errors
from memalchemy.codec.values import from_jsonable, jsonable, pointer
from memalchemy.contracts import CheckpointInfo, Diff, StoreItem
from memalchemy.errors import MemalchemyError

JSON = "application/json"
PROBLEM = "application/problem+json"

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
}
"""What an error says beside its message."""

ARGUMENT = "MA-ARGUMENT"
"""The code of a `ValueError` or `TypeError` about an argument, which has no class of its own."""


def segment(text: str) -> str:
    """An id as one segment of a path: every character that could mean something is escaped."""
    if text in (".", ".."):  # which every client and proxy resolves
        return text.replace(".", "%2E")
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="")


def text_of(segment: str) -> str:
    """The inverse of `segment`.

    Raises:
        ValueError: what it holds is not UTF-8.
    """
    return unquote_to_bytes(segment).decode("utf-8", "surrogatepass")


def dumps(tree: Any) -> bytes:
    """A JSON document."""
    try:
        return orjson.dumps(tree)
    except TypeError:  # a lone surrogate, or an int of over 64 bits: JSON has them, orjson has not
        return json.dumps(tree, allow_nan=False, default=_default).encode()


def loads(document: bytes) -> Any:
    """Read a JSON document of anybody's.

    Raises:
        ValueError: it is none, or it is nested too deep.
    """
    try:
        return json.loads(document, parse_constant=_no_json)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _no_json(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _default(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def tree_of_state(state: Mapping[str, Any], fallback: Any = None) -> dict[str, Any]:
    """A state as a JSON object, with tags for the values that JSON lacks.

    Raises:
        NotSerialisable: it holds what cannot be stored.
    """
    for key in state:
        if type(key) is not str:
            raise errors.NotSerialisable("", f"has a key that is not a str: {type(key).__name__}")
    return {key: jsonable(value, pointer("", key), fallback) for key, value in state.items()}


def state_of_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `tree_of_state`.

    Raises:
        ValueError: it holds a tag that says nothing.
    """
    return {key: from_jsonable(value) for key, value in tree.items()}


_TIMES = ("created_at", "occurred_at")


def tree_of_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a checkpoint, as `Checkpointer.get_metadata` gives it, or a search."""
    tree = dict(info) | {name: info[name].isoformat() for name in _TIMES}
    return tree | {"data": tree_of_state(info["data"])} if "data" in info else tree


def info_of_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `tree_of_info`."""
    # A server of an earlier release knows one time.
    told = {"occurred_at": tree["created_at"], **tree}
    info = told | {name: datetime.fromisoformat(told[name]) for name in _TIMES}
    return info | {"data": state_of_tree(tree["data"])} if "data" in tree else info


def checkpoint_info(tree: Mapping[str, Any]) -> CheckpointInfo:
    """The same as a record."""
    known = info_of_tree(tree)
    return CheckpointInfo(**{name: known[name] for name in CheckpointInfo.__dataclass_fields__})


def tree_of_diff(diff: Diff) -> dict[str, Any]:
    """A `Diff`, its values with tags."""
    return {
        "added": {where: jsonable(value) for where, value in diff.added.items()},
        "removed": {where: jsonable(value) for where, value in diff.removed.items()},
        "changed": {
            where: {"a": jsonable(a), "b": jsonable(b)} for where, (a, b) in diff.changed.items()
        },
    }


def diff_of_tree(tree: Mapping[str, Any]) -> Diff:
    """The inverse of `tree_of_diff`."""
    return Diff(
        added={where: from_jsonable(value) for where, value in tree["added"].items()},
        removed={where: from_jsonable(value) for where, value in tree["removed"].items()},
        changed={
            where: (from_jsonable(both["a"]), from_jsonable(both["b"]))
            for where, both in tree["changed"].items()
        },
    )


def tree_of_item(item: StoreItem) -> dict[str, Any]:
    """An item of a store, its value with tags."""
    return {**item.to_dict(), "value": jsonable(item.value)}


def tree_of_error(error: MemalchemyError) -> dict[str, Any]:
    """What an error says beside its message."""
    found: dict[str, Any] = {}
    for kind, names in ATTRIBUTES.items():
        if isinstance(error, kind):
            found |= {name: _tree_of_attribute(getattr(error, name)) for name in names}
    return found


def _tree_of_attribute(value: Any) -> Any:
    if isinstance(value, StoreItem):
        return tree_of_item(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def error_of_problem(problem: Mapping[str, Any]) -> Exception | None:
    """The error that a server of memalchemy's told of; ``None`` if this is no such problem."""
    code, detail = problem.get("code"), str(problem.get("detail") or problem.get("title"))
    if code == ARGUMENT:
        return TypeError(detail) if problem.get("error") == "TypeError" else ValueError(detail)
    kind = CLASSES.get(code) if isinstance(code, str) else None
    if kind is None:
        return None
    # Their own __init__ make the message of what they are given; here it is made already.
    error = kind.__new__(kind)
    Exception.__init__(error, detail)
    for name in ATTRIBUTES.get(kind, ()):
        setattr(error, name, problem.get(name))
    if isinstance(error, errors.DatabaseUnreachable):
        error.maybe_applied, error.busy = bool(error.maybe_applied), bool(error.busy)
    if kind is errors.SchemaOutdated or kind is errors.SchemaTooNew:
        error.current = problem.get("current")  # type: ignore[attr-defined]
    return error
