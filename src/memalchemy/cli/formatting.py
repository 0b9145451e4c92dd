"""Values as text: sizes, times, counts, JSON, CSV, and highlighted search results.

Ids, metadata and search results are other people's text: `escape_controls` keeps a terminal from
obeying what they contain.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from memalchemy._json_types import to_json_types

if TYPE_CHECKING:
    from rich.text import Text


class DataFormat(StrEnum):
    """The formats in which results are printed for programs."""

    JSON = "json"
    NL = "nl"
    CSV = "csv"
    TSV = "tsv"


class TableStyle(StrEnum):
    """The looks of a table."""

    SIMPLE = "simple"
    PLAIN = "plain"
    GRID = "grid"
    MARKDOWN = "markdown"
    GITHUB = "github"


_DIRECTIONS_AND_BREAKS = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_CONTROLS = re.compile(f"[\x00-\x1f\x7f-\x9f{_DIRECTIONS_AND_BREAKS}\ud800-\udfff]")
_CONTROLS_IN_JSON = re.compile(f"[\x7f-\x9f{_DIRECTIONS_AND_BREAKS}\ud800-\udfff]")


def escape_controls(text: str, *, keep: str = "") -> str:
    """Make every character visible that a terminal would act on, except those in *keep*."""
    return _CONTROLS.sub(lambda match: match[0] if match[0] in keep else _escape(match), text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def format_json(value: Any, *, indent: int | None = 2) -> str:
    """Format *value* as JSON that is safe to print; see `to_json_types`."""
    text = json.dumps(to_json_types(value), ensure_ascii=False, indent=indent, allow_nan=False)
    return _CONTROLS_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def format_data(value: Any, data_format: DataFormat, *, header: bool = True) -> str:
    """Format a document, or a list of documents, for a program.

    ``nl`` writes a document per line. ``csv`` and ``tsv`` write a row per document below the names
    of its fields: text and numbers as they are, nothing for null, everything else as JSON. Without
    *header* the rows continue others, of the same fields.
    """
    if data_format is DataFormat.JSON:
        return format_json(value) + "\n"
    documents = value if isinstance(value, list) else [value]
    if data_format is DataFormat.NL:
        return "".join(format_json(one, indent=None) + "\n" for one in documents)
    rows: list[dict[str, Any]] = [to_json_types(one) for one in documents]
    names = list(dict.fromkeys(name for row in rows for name in row))
    written = io.StringIO()
    dialect = "excel-tab" if data_format is DataFormat.TSV else "excel"
    writer = csv.writer(written, dialect, lineterminator="\n")
    if names and header:
        writer.writerow(names)
    writer.writerows([_to_csv_field(row.get(name)) for name in names] for row in rows)
    return written.getvalue()


def _to_csv_field(value: Any) -> Any:
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool)):
        return value
    return format_json(value, indent=None)


def format_size(number: float) -> str:
    """Format a number of bytes, such as ``1.2 kB``."""
    if abs(number) < 1000:
        return f"{number:,.0f} B"
    for unit in ("kB", "MB"):
        number /= 1000
        if abs(number) < 1000:
            return f"{number:,.1f} {unit}"
    return f"{number / 1000:,.1f} GB"


def format_time(moment: datetime | str | None) -> str:
    """Format a time in UTC, which may be written in ISO 8601; ``None`` is unknown and empty."""
    if moment is None:
        return ""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Format a number with its noun, such as ``1 item`` or ``3 entries``."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def shorten(value: Any, width: int | None = 60) -> str:
    """Format *value* on one line, of at most *width* characters if it is given."""
    text = value if isinstance(value, str) else format_json(value, indent=None)
    text = " ".join(text.split())
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def highlight(text: str, query: str) -> Text:
    """Return the part of a text around the first word of *query*, with its words highlighted."""
    from memalchemy.codec.snippets import highlighted
    from memalchemy.codec.tokens import query_terms

    return style_hits(highlighted(text, query_terms(query)))


def style_hits(pieces: Iterable[Mapping[str, Any]]) -> Text:
    """Return the pieces of `codec.snippets.highlighted` on one line, with styles."""
    from rich.text import Text

    text = Text()
    for piece in pieces:
        shown = escape_controls(" ".join(f"|{piece['text']}|".split())[1:-1])
        text.append(shown, "bold yellow" if piece["hit"] else None)
    return text
