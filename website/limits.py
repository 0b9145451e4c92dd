"""Writes docs/reference/limits.md from the limits in the code: `python -m website.limits`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from memalchemy import filters
from memalchemy.codec import payloads, search_text, tokens, values
from memalchemy.keys import (
    MAX_ENTRY_KEY_CHARACTERS,
    MAX_ID_CHARACTERS,
    MAX_NAMESPACE_BYTES,
    MAX_TENANT_BYTES,
)
from memalchemy.metadata import MAX_METADATA_BYTES
from memalchemy.search import vectors
from memalchemy.store import embedding, item_reader

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "limits.md"
MB = 1024 * 1024
INTRODUCTION = """# Limits

A value over a limit raises the error before anything is written, and nothing is truncated. The
[HTTP server](http-server.md#limits) also limits requests.
"""


class Limit(NamedTuple):
    """A line of the page; *error* is the class that a value over the limit raises."""

    what: str
    limit: str
    error: str


LIMITS = (
    Limit(
        "id of a thread, checkpoint, parent, run or conversation; key of an item",
        f"{MAX_ID_CHARACTERS} characters of any text",
        "TooLarge",
    ),
    Limit("key of an entry", f"{MAX_ENTRY_KEY_CHARACTERS} characters", "TooLarge"),
    Limit("tenant", f"{MAX_TENANT_BYTES} bytes", "TooLarge"),
    Limit(
        "namespace",
        f"{MAX_NAMESPACE_BYTES} bytes as stored: its parts, and a slash for each",
        "TooLarge",
    ),
    Limit("metadata", f"{MAX_METADATA_BYTES:,} bytes of JSON", "TooLarge"),
    Limit(
        "a value in metadata", "no U+0000, no NaN, no integer of over 64 bits", "NotSerialisable"
    ),
    Limit("a state", f"{values.MAX_STATE_BYTES // MB} MB encoded", "TooLarge"),
    Limit(
        "a value of the store",
        f"{payloads.MAX_VALUE_BYTES // MB} MB encoded, and at most as much more in memory",
        "TooLarge",
    ),
    Limit(
        "containers in each other", f"at least {values.MAX_DEPTH} levels work", "NotSerialisable"
    ),
    Limit(
        "one answer of a list or search of the store",
        f"{item_reader.MAX_ANSWER_BYTES // MB} MB of values: give a smaller `limit`, and page",
        "TooLarge",
    ),
    Limit(
        "a vector",
        f"1 to {vectors.MAX_DIMENSIONS:,} dimensions; a length of {vectors.MIN_NORM:.0e} to "
        f"{vectors.MAX_NORM:.0e}".replace("e+", "e"),
        "ValueError",
    ),
    Limit(
        "model and field of a vector",
        f"{embedding.MAX_FIELD_CHARACTERS} characters",
        "ValueError",
    ),
    Limit(
        "a filter",
        f"{filters.MAX_CONDITIONS} conditions (`$in` with a list is one), {filters.MAX_PARTS:,} "
        f"parts, {filters.MAX_DEPTH} levels",
        "ValueError",
    ),
    Limit("a lifetime (`ttl=`)", "over zero, and under a thousand years", "InvalidArgument"),
    Limit(
        "words of an item, entry or step for searches",
        f"{search_text.MAX_TEXT:,} characters, and {tokens.MAX_TOKEN} a word. The rest is stored, "
        "but a search does not find it",
        "",
    ),
)


def page() -> str:
    """Return the text of docs/reference/limits.md."""
    rows = [
        f"| {one.what} | {one.limit} | {f'`{one.error}`' if one.error else 'none'} |"
        for one in LIMITS
    ]
    return "\n".join([INTRODUCTION, "| what | limit | error |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
