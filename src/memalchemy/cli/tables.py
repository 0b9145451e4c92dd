"""Tables for people, laid out for the width that there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from memalchemy.cli.formatting import TableStyle, escape_controls, shorten

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_UNLIMITED = 1_000_000
"""Width in which every table fits."""

_TEXT_WIDTH = 16
"""Width of a column of text that is worth showing: below that, other columns are left out."""

_BAR_WIDTH = 24


@dataclass(frozen=True)
class Column:
    """A column of a table.

    *kind* says how it is laid out: text wraps where there is too little room, everything else stays
    on one line; numbers are aligned right. *drop* is the order in which columns are left out where
    there is too little room for them, the column with 1 first; a column without it stays.
    """

    heading: str
    kind: Literal["text", "id", "number", "time"] = "text"
    drop: int | None = None


@dataclass(frozen=True)
class BarCell:
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


class Excerpt:
    """A cell of a table: values on one line, which are shortened to *width* on a terminal only."""

    def __init__(self, *values: Any, width: int = 60) -> None:
        self._values = values
        self._width = width

    def render(self, *, whole: bool) -> str:
        """Return the values with arrows between them, each in full if *whole*."""
        width = None if whole else self._width // len(self._values)
        return " → ".join(shorten(value, width) for value in self._values)


class TableLayout:
    """A table for a console, and the headings of the columns that it has no room for.

    Where there is too little room, columns without a value are left out first, then the others in
    their order, until ids, numbers and times fit and text has some room to wrap. If nothing more
    can be left out, the table is wider than the console: its ids are neither cut nor wrapped.
    """

    def __init__(
        self,
        console: Console,
        columns: Sequence[Column],
        rows: Iterable[Sequence[Any]],
        *,
        style: TableStyle,
        width: int | None,
    ) -> None:
        self._console = console
        self._style = style
        self._columns = columns
        self._cells = [
            [self._render_cell(value, whole=width is None) for value in row] for row in rows
        ]
        shown = list(range(len(columns)))
        self.left_out: list[str] = []
        if width is not None and self._measure_width(shown) > width:
            while self._measure_width(shown, text_width=_TEXT_WIDTH) > width:
                if (dropped := self._next_column_to_drop(shown)) is None:
                    break
                shown.remove(dropped)
                if not self._is_empty_column(dropped):
                    self.left_out.append(columns[dropped].heading)
            self.width = max(width, self._measure_width(shown, text_width=_TEXT_WIDTH))
        else:
            self.width = self._measure_width(shown)
        self.table = self._build_table(shown)

    def _next_column_to_drop(self, shown: Sequence[int]) -> int | None:
        order = [
            (not self._is_empty_column(at), drop, at)
            for at in shown
            if (drop := self._columns[at].drop) is not None
        ]
        return min(order)[-1] if order else None

    def _is_empty_column(self, at: int) -> bool:
        from rich.text import Text

        cells = (row[at] for row in self._cells)
        return not any(cell.plain if isinstance(cell, Text) else cell for cell in cells)

    def _measure_width(self, shown: Sequence[int], text_width: int | None = None) -> int:
        from rich.measure import Measurement

        options = self._console.options.update(max_width=_UNLIMITED)
        table = self._build_table(shown, text_width)
        return Measurement.get(self._console, options, table).maximum

    def _build_table(self, shown: Sequence[int], text_width: int | None = None) -> Table:
        from rich import box
        from rich.table import Table

        markdown = (box.MARKDOWN, True)
        style, edge = {
            TableStyle.SIMPLE: (box.SIMPLE_HEAD, False),
            TableStyle.PLAIN: (None, False),
            TableStyle.GRID: (box.SQUARE, True),
            TableStyle.MARKDOWN: markdown,
            TableStyle.GITHUB: markdown,
        }[self._style]
        table = Table(
            box=style,
            pad_edge=edge,
            show_edge=edge,
            collapse_padding=not edge,
            padding=(0, 2, 0, 0) if style is None else (0, 1),
        )
        for at in shown:
            column = self._columns[at]
            is_text = column.kind == "text"
            table.add_column(
                column.heading,
                justify="right" if column.kind == "number" else "left",
                no_wrap=not is_text,
                overflow="fold",
                max_width=text_width if is_text else None,
            )
        for row in self._cells:
            table.add_row(*(row[at] for at in shown))
        return table

    def _render_cell(self, value: Any, *, whole: bool) -> RenderableType:
        from rich.text import Text

        ascii_only = self._console.options.ascii_only
        if isinstance(value, BarCell):
            return value.render(ascii_only=ascii_only)
        if isinstance(value, Excerpt):
            value = value.render(whole=whole)
        elif isinstance(value, int):
            value = f"{value:,}"
        text = (
            value
            if isinstance(value, Text)
            else Text("" if value is None else escape_controls(str(value)))
        )
        if self._style in (TableStyle.MARKDOWN, TableStyle.GITHUB):
            return Text(text.plain.replace("\\", "\\\\").replace("|", "\\|"))
        return text
