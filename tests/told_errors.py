"""Where an error of a random call was raised: on purpose or not, and in one line of a report."""

from __future__ import annotations

import linecache
import traceback

OURS = "memalchemy/"


def told(error: BaseException, *, inside: str = "") -> str:
    """Return the type of *error*, the beginning of its text, and where it was raised.

    Args:
        inside: a part of the names of files: the last of these that the error passed is told in
            the place of the one that raised it. If it passed none, the answer is empty.
    """
    frames = traceback.extract_tb(error.__traceback__)
    last = next((one for one in reversed(frames) if inside in one.filename), None)
    if last is None:
        return ""
    where = f"{last.filename.rpartition(OURS)[-1]}:{last.lineno}"
    return f"{type(error).__name__}: {str(error)[:100]} at {where}"


def is_raised_on_purpose(error: BaseException) -> bool:
    """Return whether an error was raised by a ``raise`` of memalchemy's."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if OURS not in last.filename:
        return False
    lines = [linecache.getline(last.filename, number) for number in range(last.lineno or 1, 0, -1)]
    return any(line.lstrip().startswith("raise") for line in lines[:6])
