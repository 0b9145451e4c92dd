"""Output of a command: tables for people, one JSON document for programs, notes on stderr."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalchemy.cli import ctrl_c
from memalchemy.cli.formatting import escape_controls, format_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID
    from rich.text import Text

_PIPE_WIDTH = 10_000
"""Width of a table that is piped: its lines are not folded."""

_BAR_WIDTH = 24


class Terminal:
    """Stdout and stderr of one command. With ``--json`` stdout takes one JSON document only."""

    def __init__(self, *, as_json: bool = False, no_color: bool = False) -> None:
        self._as_json = as_json
        self._no_color = no_color

    def print_json(self, value: Any) -> None:
        """Print *value* as a JSON document on stdout."""
        sys.stdout.write(format_json(value) + "\n")

    def print_raw(self, text: str) -> None:
        """Print text for another program on stdout as it is, such as SQL."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def print(self, text: str | Text = "", *, style: str | None = None) -> None:
        """Print text for people: on stdout, or with ``--json`` on stderr."""
        self._console(stderr=self._as_json).print(
            escape_controls(text, keep="\n") if isinstance(text, str) else text,
            style=style,
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def print_note(self, text: str) -> None:
        """Print a note or an error on stderr; it is no part of the answer."""
        sys.stderr.write(escape_controls(text) + "\n")

    def print_table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table for people, folded to the width of the terminal.

        A heading that begins with ``>`` aligns its column right. Numbers and times are not folded.
        """
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
        for column in columns:
            right = column.startswith(">")
            table.add_column(
                column.removeprefix(">"),
                justify="right" if right else "left",
                no_wrap=right or column.endswith("(UTC)"),
                overflow="fold",
            )
        console = self._console(stderr=self._as_json)
        ascii_only = console.options.ascii_only
        for row in rows:
            table.add_row(*(_cell(value, ascii_only=ascii_only) for value in row))
        console.print(table)

    @contextmanager
    def progress(self, description: str, total: int | None = None) -> Iterator[ProgressDisplay]:
        """Show a progress bar on stderr during the block; nothing where stderr is no terminal."""
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        console = self._console(stderr=True)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            Remaining(),
        )
        with Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        ) as progress:
            yield ProgressDisplay(progress, progress.add_task(description, total=total))

    def confirm(self, question: str) -> bool:
        """Ask on stderr; anything but yes is no, the end of the input included."""
        with ctrl_c.interrupt_blocking_read():
            sys.stderr.write(escape_controls(question) + " [y/N] ")
            sys.stderr.flush()
            _wait_for_input()
            return sys.stdin.readline().strip().lower() in ("y", "yes")

    def _console(self, *, stderr: bool) -> Console:
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        piped = not stream.isatty() and "COLUMNS" not in os.environ
        width = _PIPE_WIDTH if piped else None
        if self._no_color:
            return Console(file=stream, color_system=None, width=width)
        return Console(file=stream, width=width)


class ProgressDisplay:
    """The progress bar of a running command."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(self, done: int, total: int | None = None) -> None:
        """Show that *done* of *total* is done; without *total* the last one stays."""
        self._progress.update(self._task, completed=done, total=total)

    def advance(self) -> None:
        """Show that one more is done."""
        self._progress.advance(self._task)


@dataclass(frozen=True)
class Bar:
    """A cell of a table: a bar that fills the column if *value* is *largest*."""

    value: int
    largest: int

    def render(self, *, ascii_only: bool) -> RenderableType:
        """Return the bar of Rich, or hash signs where the output's encoding lacks its blocks."""
        from rich import bar

        largest = self.largest or 1
        if ascii_only:
            return "#" * round(_BAR_WIDTH * self.value / largest)
        return bar.Bar(size=largest, begin=0, end=self.value, width=_BAR_WIDTH, color="cyan")


def _cell(value: Any, *, ascii_only: bool) -> RenderableType:
    from rich.text import Text

    if isinstance(value, Bar):
        return value.render(ascii_only=ascii_only)
    if isinstance(value, Text):
        return value
    if isinstance(value, int):
        return Text(f"{value:,}")
    return Text("" if value is None else escape_controls(str(value)))


def _wait_for_input() -> None:
    """Wait until stdin has a line, in steps: a Ctrl-C just before a blocking read is lost."""
    if os.name == "posix" and hasattr(sys.stdin, "fileno"):
        with suppress(OSError):  # stdin is not a file, for example in a test
            while not select.select([sys.stdin], [], [], 0.2)[0]:
                pass
