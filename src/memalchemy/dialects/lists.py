"""Keys that one statement names: as JSON, in values as long as a database takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson

from memalchemy.dialects.base import Dialect

LISTED = 500
"""How many keys one statement names, at most."""


def lists(d: Dialect, rows: Sequence[Sequence[str]], most: int = LISTED) -> Iterator[str]:
    """*rows* as values for `Dialect.listed`, as many as it takes: of *most* each, or fewer."""
    start = 0
    while start < len(rows):
        some = rows[start : start + most]
        if d.list_bytes is not None:
            some = some[: _fitting(some, d.list_bytes)]
        yield orjson.dumps(some).decode()
        start += len(some)


def _fitting(rows: Sequence[Sequence[str]], room: int) -> int:
    """How many of the first rows one value takes; one, however long it is."""
    for at, row in enumerate(rows):
        room -= len(orjson.dumps(row)) + 1
        if room < 0 and at:
            return at
    return len(rows)
