"""Keys that one statement names: bound as JSON, in lists as long as a database takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from memalchemy.dialects.base import Dialect

LISTED = 500
"""How many keys one statement names, at most."""


def lists(
    d: Dialect, parameter: str, rows: Sequence[Sequence[Any]], most: int = LISTED
) -> Iterator[dict[str, Any]]:
    """The binds of `Dialect.listed` for *rows*, in as many lists as it takes: of *most* rows each,
    or fewer. A row has texts, and the key of a log as a UUID.
    """
    start = 0
    while start < len(rows):
        some = rows[start : start + most]
        if d.list_bytes is not None:
            some = some[: _fitting(some, d.list_bytes)]
        yield d.list_binds(parameter, some)
        start += len(some)


def _fitting(rows: Sequence[Sequence[Any]], room: int) -> int:
    """How many of the first rows one value takes; one, however long it is."""
    for at, row in enumerate(rows):
        room -= len(orjson.dumps(row)) + 1
        if room < 0 and at:
            return at
    return len(rows)
