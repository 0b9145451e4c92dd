"""What a command prints: tables for people, one JSON document for programs, messages on stderr.

Ids, metadata and search hits are other people's text: nothing of it reaches a terminal that the
terminal would obey, and nothing of it is taken for markup.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import select
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from memalchemy.cli import ctrl_c
from memalchemy.contracts import Packed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_WIDE = 10_000


class Terminal:
    """Where one command's output goes."""

    def __init__(self, *, as_json: bool = False, no_color: bool = False) -> None:
        self.as_json = as_json
        self._no_color = no_color

    def document(self, value: Any) -> None:
        """Print *value* as the one JSON document of this command."""
        sys.stdout.write(pretty(value) + "\n")

    def say(self, line: str | Text = "", *, style: str | None = None) -> None:
        """A line for people: on stdout, and on stderr where stdout is for a program."""
        console = self._console(stderr=self.as_json)
        console.print(
            line if not isinstance(line, str) else safe(line, keep="\n"),
            style=style,
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def note(self, line: str) -> None:
        """A message that is not part of the answer."""
        sys.stderr.write(safe(line) + "\n")

    def raw(self, text: str) -> None:
        """Text that is itself the answer, such as SQL."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Rows under headings; a heading that starts with ``>`` is a column of numbers."""
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in columns:
            right = column.startswith(">")
            table.add_column(column.lstrip(">"), justify="right" if right else "left")
        for row in rows:
            table.add_row(*(_cell(value) for value in row))
        self._console(stderr=self.as_json).print(table)

    def progress(self) -> AbstractContextManager[Progress]:
        """A progress bar on stderr; nothing where stderr is not a terminal."""
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        console = self._console(stderr=True)
        return Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            Remaining(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def confirm(self, question: str) -> bool:
        """Ask on stderr; anything but yes, the end of input included, is no."""
        with ctrl_c.at_once():
            sys.stderr.write(safe(question) + " [y/N] ")
            sys.stderr.flush()
            _wait_for_input()
            return sys.stdin.readline().strip().lower() in ("y", "yes")

    def _console(self, *, stderr: bool) -> Console:
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        piped = not stream.isatty() and "COLUMNS" not in os.environ
        if self._no_color:
            return Console(file=stream, color_system=None, width=_WIDE if piped else None)
        return Console(file=stream, width=_WIDE if piped else None)


def _wait_for_input() -> None:
    """Return when stdin has a line. A Ctrl-C just before a blocking read would not end the read."""
    if os.name == "posix" and hasattr(sys.stdin, "fileno"):
        with suppress(OSError):  # not a file at all: a program gave its input
            while not select.select([sys.stdin], [], [], 0.2)[0]:
                pass


def safe(text: str, *, keep: str = "") -> str:
    """*text* with every character that a terminal would act on made visible."""
    return _UNSAFE.sub(lambda m: m[0] if m[0] in keep and keep else _escape(m), text)


def pretty(value: Any, *, indent: int | None = 2) -> str:
    """*value* as JSON that reads well and is safe to print."""
    text = json.dumps(readable(value), ensure_ascii=False, indent=indent, allow_nan=False)
    return _UNSAFE_IN_JSON.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def readable(value: Any) -> Any:
    """*value* in JSON's types, for reading: a date as text, bytes as base64, a set as a list; of
    what a framework has packed, what is in it, if it can be told.
    """
    if isinstance(value, dict):
        return {str(key): readable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [readable(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((readable(item) for item in value), key=lambda item: json.dumps(item))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    if isinstance(value, Packed):
        return _unpacked(value)
    if is_dataclass(value) and not isinstance(value, type):
        return readable(asdict(value))
    return value


def _unpacked(value: Packed) -> Any:
    from memalchemy.codec.foreign_msgpack import plain_tree

    found = plain_tree(value)
    if not isinstance(found, Packed):
        return readable(found)
    # Without bytes it is a format's way to say that there is nothing.
    return {"format": value.format, "data": readable(value.data)} if value.data else None


def size(number: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000 or unit == "GB":
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    raise AssertionError("unreachable")


def counted(number: int, one: str, many: str | None = None) -> str:
    """How many, with the word for *one* or for *many*, which else ends in an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def when(moment: datetime) -> str:
    """A time for people, in UTC."""
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def short(value: Any, width: int = 60) -> str:
    """*value* on one line of at most *width* characters."""
    text = value if isinstance(value, str) else pretty(value, indent=None)
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def _cell(value: Any) -> Text:
    from rich.text import Text

    if isinstance(value, Text):
        return value
    if isinstance(value, int):
        return Text(f"{value:,}")
    return Text("" if value is None else safe(str(value)))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")
