"""Output of a command: tables for people, documents for programs, notes on stderr."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from memalchemy.cli import ctrl_c
from memalchemy.cli.formatting import (
    DataFormat,
    TableStyle,
    escape_controls,
    format_data,
    format_json,
)
from memalchemy.cli.tables import Column, TableLayout
from memalchemy.cli.usage_errors import NotConfirmed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.text import Text


class Terminal:
    """Stdout and stderr of one command.

    With a *data_format* stdout takes documents only, and text for people goes to stderr.
    """

    def __init__(
        self,
        *,
        data_format: DataFormat | None = None,
        table_style: TableStyle | None = None,
        no_color: bool = False,
    ) -> None:
        self._data_format = data_format
        self._table_style = table_style or TableStyle.SIMPLE
        # https://no-color.org. Rich would leave bold.
        self._no_color = no_color or bool(os.environ.get("NO_COLOR"))

    def print_data(self, value: Any, *, header: bool = True) -> None:
        """Print a document, or a list of documents, on stdout in the format for programs.

        Without *header* they continue a list whose beginning was printed.
        """
        data_format = self._data_format or DataFormat.JSON
        text = format_data(value, data_format, header=header)
        if data_format in (DataFormat.CSV, DataFormat.TSV) and sys.stdout.isatty():
            text = escape_controls(text, keep="\n\t")
        sys.stdout.write(text)

    def print_json(self, value: Any) -> None:
        """Print *value* as JSON on stdout, for people."""
        sys.stdout.write(format_json(value) + "\n")

    def print_line(self, value: Any) -> None:
        """Print a document on a line of stdout."""
        sys.stdout.write(format_json(value, indent=None) + "\n")

    @contextmanager
    def documents(self) -> Iterator[DocumentList]:
        """Print a list of documents on stdout in the format for programs, piece by piece."""
        printed = DocumentList(self, self._data_format or DataFormat.JSON)
        yield printed
        printed.finish()

    def flush(self) -> None:
        """Hand over what was printed, for a reader that waits for it."""
        sys.stdout.flush()

    def print_raw(self, text: str) -> None:
        """Print text for another program on stdout as it is, such as SQL."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def print(self, text: str | Text = "", *, style: str | None = None) -> None:
        """Print text for people: on stdout, or on stderr where stdout takes documents."""
        self._console(stderr=self._data_format is not None).print(
            escape_controls(text, keep="\n") if isinstance(text, str) else text,
            style=style,
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def print_block(self, text: str | Text, *, indent: int, style: str | None = None) -> None:
        """Print text for people, every line of it indented, also those that a terminal wraps.

        A `Text` is one line, without control characters.
        """
        from rich.text import Text

        console = self._console(stderr=self._data_format is not None)
        room = max(console.width - indent, 1)
        lines = (
            [text]
            if isinstance(text, Text)
            else [
                Text(escape_controls(line), style or "") for line in text.expandtabs(4).split("\n")
            ]
        )
        for whole in lines:
            is_wide = console.file.isatty() and whole.cell_len > room
            for piece in whole.wrap(console, room) if is_wide else [whole]:
                piece.rstrip()
                console.print(Text(" " * indent) + piece if piece else "", soft_wrap=True)

    def print_note(self, text: str) -> None:
        """Print a note or an error on stderr; it is no part of the answer."""
        sys.stderr.write(escape_controls(text) + "\n")

    def print_table(self, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table for people; see `TableLayout`. A piped table is as wide as it has to be.

        On stderr, a note names the columns that a terminal is too narrow for.
        """
        console = self._console(stderr=self._data_format is not None)
        layout = TableLayout(
            console,
            columns,
            rows,
            style=self._table_style,
            width=console.width if console.file.isatty() else None,
        )
        console.width = max(layout.width, 1)
        with console.capture() as capture:
            console.print(layout.table, crop=False)
        # Rich fills lines with spaces, and surrounds a Markdown table with two lines of them.
        lines = [line.rstrip() for line in capture.get().splitlines()]
        console.file.write("".join(f"{line}\n" for line in lines if line))
        if left_out := ", ".join(name for name in layout.left_out if name):
            self.print_note(f"not shown, because the terminal is narrow: {left_out}")

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
        is_shown = sys.stderr.isatty()
        progress = Progress(*columns, console=console, transient=True)
        # Before 14.3 Rich ends a bar with an empty line, though it was disabled: none is begun.
        with progress if is_shown else nullcontext():
            yield ProgressDisplay(progress, progress.add_task(description, total=total))

    def require_consent(self, question: str, done: str) -> None:
        """Ask on stderr; anything but yes is no, the end of the input included.

        Raises:
            NotConfirmed: the answer is no. The message says that nothing was *done*.
        """
        with ctrl_c.ctrl_c_raises():
            sys.stderr.write(escape_controls(question) + " [y/N] ")
            sys.stderr.flush()
            _wait_for_input()
            answer = sys.stdin.readline()
        if not sys.stdin.isatty():
            sys.stderr.write("\n")  # which whoever types an answer ends it with
        if answer.strip().lower() not in ("y", "yes"):
            raise NotConfirmed(
                f"nothing was {done}, as the answer was not yes; --yes does it without a question"
            )

    def _console(self, *, stderr: bool) -> Console:
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        return Console(file=stream, color_system=None if self._no_color else "auto")


def print_error(code: str, message: str, exit_code: int, *, as_json: bool) -> None:
    """Print an error as one line on stderr, or as a JSON document."""
    if as_json:
        error = {"code": code, "message": message, "exit_code": exit_code}
        sys.stderr.write(format_json({"error": error}, indent=None) + "\n")
    else:
        sys.stderr.write(f"error [{code}]: {escape_controls(message)}\n")


class DocumentList:
    """A list of documents that is printed piece by piece."""

    def __init__(self, terminal: Terminal, data_format: DataFormat) -> None:
        self._terminal = terminal
        self._is_json = data_format is DataFormat.JSON
        self._is_begun = False

    def add(self, documents: Sequence[Any]) -> None:
        """Print documents, which have the same fields as those before them."""
        if not documents:
            return
        if self._is_json:
            inner = format_json(list(documents)).removeprefix("[\n").removesuffix("\n]")
            sys.stdout.write((",\n" if self._is_begun else "[\n") + inner)
        else:
            self._terminal.print_data(list(documents), header=not self._is_begun)
        self._is_begun = True

    def finish(self) -> None:
        """Print the end of the list."""
        if self._is_json:
            sys.stdout.write("\n]\n" if self._is_begun else "[]\n")


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


def _wait_for_input() -> None:
    """Wait until stdin has a line, in steps: a Ctrl-C just before a blocking read is lost."""
    if os.name == "posix" and hasattr(sys.stdin, "fileno"):
        with suppress(OSError):  # stdin is not a file, for example in a test
            while not select.select([sys.stdin], [], [], 0.2)[0]:
                pass
