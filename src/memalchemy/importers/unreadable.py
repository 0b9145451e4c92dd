"""Errors of records that cannot be read or stored, and their description without what they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json import JSONDecodeError
from typing import Any, TypeVar

from memalchemy.errors import MemalchemyError

T = TypeVar("T")

UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""Errors that code raises on a record of another shape than the library that wrote it promises.

They end the import of that record, or of one part of it, and never that of the others.
"""

_MAX_FIELD = 64


class Unusable(ValueError):
    """A record, or a field of it, is not what it should be. The message quotes none of it."""


def describe_problem(error: BaseException) -> str:
    """Describe the problem of a record from an error that it caused, without quoting the record."""
    if isinstance(error, Unusable):
        return str(error)
    if isinstance(error, MemalchemyError):
        return f"cannot be stored: {error}"
    if isinstance(error, JSONDecodeError):
        return "is not JSON"
    if isinstance(error, UnicodeError):
        return "is not UTF-8"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        return f"has no {error.args[0][:_MAX_FIELD]!r}"
    details = getattr(error, "errors", None)  # pydantic's, whose text quotes the record
    if callable(details):
        first = details(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part)[:_MAX_FIELD] for part in first["loc"])
        return f"is not valid: {field or 'it'}: {first['type']}"
    return f"has a value of another type or range than expected ({type(error).__name__})"


def read_or_leave(make: Callable[[], T], name: str, left_out: list[str]) -> T | None:
    """Return what *make* reads; ``None`` if it cannot be read, which is noted under its *name*."""
    try:
        return make()
    except UNREADABLE as error:
        left_out.append(f"{name}: {describe_problem(error)}")
        return None


def text_field(row: Mapping[str, Any], name: str) -> str:
    """Return a field that is a text.

    Raises:
        Unusable: it is something else, or it is missing.
    """
    found = row.get(name)
    if not isinstance(found, str):
        raise Unusable(f"has a {name!r} that is no text")
    return found
