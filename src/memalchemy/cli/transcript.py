"""Messages, steps and writes of a thread as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memalchemy.cli.formatting import (
    count,
    escape_controls,
    format_json,
    format_size,
    format_time,
    shorten,
)
from memalchemy.cli.parsers import format_namespace
from memalchemy.cli.tables import Column, Excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memalchemy.cli.terminal import Terminal

LINES = 12
CHARACTERS = 1_200
"""Lines and characters of a text that are printed; a longer text is folded."""

_STYLES = {"user": "bold cyan", "assistant": "bold green", "tool": "bold yellow"}

TABLE = (
    Column("index", "number", drop=2),
    Column("happened (UTC)", "time", drop=1),
    Column("role", "id"),
    Column("text"),
)
"""The columns of `table_rows`."""


class TranscriptPrinter:
    """Prints records of `memalchemy.inspection`, each below a line of its own.

    What was stored is other people's text: it is indented on every line, so that it cannot pass for
    a line of this program's, and has no characters that a terminal acts on.

    Args:
        full: print long texts in full.
    """

    def __init__(self, terminal: Terminal, *, full: bool) -> None:
        self._terminal = terminal
        self._full = full
        self._namespace: list[str] | None = None
        self._answer: Any = None
        self.folded: int = 0
        """The number of texts that were folded."""

    def print_message(self, message: dict[str, Any]) -> None:
        """Print a message, or another entry of a log."""
        role = message["role"]
        name = message["name"] if message["name"] != role else None
        self._print_heading(
            f"[{message['index']}] {role or 'entry'}",
            *((f"({name})",) if name else ()),
            format_time(message["occurred_at"]),
            style=_STYLES.get(role, "bold"),
        )
        if not role:
            self._print_value(message["value"])
            return
        if message["thought"]:
            self._print_text(message["thought"], style="dim", before="thinks: ")
        self._print_text(message["text"])
        for call in message["calls"]:
            self._print_text(_format_call(call))
        for result in message["results"]:
            self._print_line(f"{_format_result(result)}:")
            self._print_text(result["text"], indent=8)

    def print_record(self, record: dict[str, Any], *, name_namespace: bool) -> None:
        """Print a record of `Activity`; with *name_namespace* where the namespace changes.

        Writes that say nothing to people are left out, such as LangGraph's names of nodes to run
        next, and a task's repetitions of the answer that it takes.
        """
        if record["kind"] == "write" and (_is_silent(record) or self._repeats_answer(record)):
            return
        if name_namespace and record["namespace"] != self._namespace:
            self._namespace = record["namespace"]
            self._terminal.print(
                escape_controls(f"==> {format_namespace(self._namespace)} <=="), style="dim"
            )
        stamp = format_time(record["occurred_at"])
        if record["kind"] == "step":
            self._print_heading(
                f"step {record['checkpoint_id']}",
                stamp,
                format_size(record["raw_bytes"]),
                shorten(record["metadata"], 80) if record["metadata"] else "",
                style="bold blue",
            )
            if hidden := record["added"] - len(record["messages"]):
                self._print_line(f"… {count(hidden, 'earlier message')} of this step")
        elif record["kind"] in ("write", "interrupt"):
            asks = "was answered" if record.get("answered") else "waits for an answer"
            what = record["channel"] if record["kind"] == "write" else asks
            self._print_heading(
                f"{record['kind']} {what}",
                stamp,
                f"task {record['task_id']}, after {record['checkpoint_id']}",
                style="bold magenta" if record["kind"] == "interrupt" else "dim",
            )
            if record["kind"] == "interrupt":
                self._print_value(record["value"])
            else:
                self._print_line(shorten(record["value"], 100), style="dim")
        for message in record.get("messages", ()):
            self.print_message(message)
        self.print_waiting(record.get("waiting", ()))

    def _repeats_answer(self, record: dict[str, Any]) -> bool:
        """Return whether a task that goes on writes down the answer that was printed last."""
        from memalchemy.inspection.writes import NULL_TASK, RESUME

        value = record["value"]
        if record["channel"] != RESUME:
            return False
        if record["task_id"] == NULL_TASK:
            self._answer = [value]
            return False
        return isinstance(value, list) and value[-1:] == self._answer

    def print_waiting(self, interrupts: Iterable[dict[str, Any]]) -> None:
        """Print what a state waits for."""
        for interrupt in interrupts:
            self._print_heading("waits for an answer", style="bold magenta")
            self._print_value(interrupt["value"])

    def _print_heading(self, first: str, *rest: str, style: str) -> None:
        from rich.text import Text

        text = Text(escape_controls(first), style)
        for part in filter(None, rest):
            text.append(f"  {escape_controls(part)}", "dim")
        self._terminal.print(text)

    def _print_line(self, text: str, *, style: str | None = None) -> None:
        self._terminal.print_block(" ".join(text.split("\n")), indent=4, style=style)

    def _print_value(self, value: Any) -> None:
        self._print_text(value if isinstance(value, str) else format_json(value))

    def _print_text(
        self, text: str, *, indent: int = 4, style: str | None = None, before: str = ""
    ) -> None:
        text = before + text.replace("\r\n", "\n").rstrip("\n")
        if not text:
            return
        shown = text if self._full else fold(text)
        self._terminal.print_block(shown, indent=indent, style=style)
        if left := len(text) - len(shown):
            self.folded += 1
            self._terminal.print_block(
                f"… {count(left, 'more character')} folded; --full shows all", indent=indent,
                style="dim",
            )  # fmt: skip


def _is_silent(write: dict[str, Any]) -> bool:
    """Return whether the adapter of its namespace declares that a write says nothing to people."""
    from memalchemy.adapters import views_of

    silent = [one for view in views_of(write["namespace"]) for one in view.silent_channels]
    return str(write["channel"]).startswith(tuple(silent))


def fold(text: str) -> str:
    """Return the beginning of a text that is printed of it; the text itself if it is short."""
    shown = "\n".join(text[:CHARACTERS].split("\n")[:LINES])
    return text if len(text) - len(shown) < CHARACTERS // 10 and text.count("\n") < LINES else shown


def table_rows(messages: Iterable[dict[str, Any]]) -> Iterable[tuple[Any, ...]]:
    """Yield the rows of a table of messages; its columns are `TABLE`."""
    for message in messages:
        pieces = [
            message["thought"] and f"thinks: {message['thought']}",
            message["text"],
            *map(_format_call, message["calls"]),
            *(f"{_format_result(result)}: {result['text']}" for result in message["results"]),
        ]
        text = "\n".join(filter(None, pieces))
        stamp = format_time(message["occurred_at"])
        excerpt = Excerpt(text if message["role"] else message["value"])
        yield str(message["index"]), stamp, message["role"], excerpt


def _format_call(call: dict[str, Any]) -> str:
    arguments = "" if call["arguments"] is None else format_json(call["arguments"], indent=None)
    return f"calls {call['name'] or 'a tool'} {arguments}".rstrip()


def _format_result(result: dict[str, Any]) -> str:
    what = "error" if result["error"] else "result"
    return f"{what} of {result['name'] or result['id'] or 'a tool'}"
