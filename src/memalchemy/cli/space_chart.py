"""A chart of the space that a tenant and its database take, drawn with matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memalchemy.cli.formatting import escape_controls, format_size, shorten
from memalchemy.cli.usage import UsageError
from memalchemy.errors import DriverMissing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from memalchemy.space import Space

TABLES = 12
"""Tables and indexes that have a bar of their own."""

GREY = "#767676"
"""Colour of the text: readable on a white and on a black page."""

REST = "rest"
COLOURS = {
    "table": "#3b82c4",
    "index": "#c47f17",
    "text index": "#a35fc0",
    "snapshot": "#3b82c4",
    "delta": "#2a9d75",
    "entry": "#2a9d75",
    "write": "#c47f17",
    "search text": "#a35fc0",
    "item": "#3b82c4",
    "item text": "#a35fc0",
    "vector": "#2a9d75",
    "thread": "#2a9d75",
    REST: "#8a8a8a",
}

FORMATS = ("svg", "png", "pdf")


class Bar(NamedTuple):
    """One bar; its kind decides its colour."""

    name: str
    bytes: int
    kind: str


def check_plot(file: Path) -> None:
    """Check that a chart can be drawn into *file*, before the database is measured.

    Raises:
        UsageError: the file's suffix is not that of a format.
        DriverMissing: matplotlib is not installed; the message names the extra.
    """
    if _format(file) not in FORMATS:
        raise UsageError(f"cannot draw {file}: give a file that ends with .png, .svg or .pdf")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise DriverMissing("matplotlib", "plot", what="package") from error


def save_plot(space: Space, title: str, file: Path) -> None:
    """Draw *space* into *file*, without a background."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    estimated = " (estimated)" if space.estimated else ""
    panels = {
        f"Tables and indexes, all tenants{estimated}": _tables(space),
        "Stored by kind": _kinds(space),
        f"Largest of {space.logs:,} threads": _threads(space),
    }
    panels = {heading: bars for heading, bars in panels.items() if bars}
    heights = [len(bars) + 2 for bars in panels.values()]
    settings: dict[Any, Any] = {
        "text.parse_math": False,  # a $ in a thread's id is a dollar sign
        "svg.fonttype": "none",  # text stays text
        "text.color": GREY,
        "axes.labelcolor": GREY,
        "ytick.color": GREY,
    }
    with rc_context(settings), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(9, 0.6 + 0.27 * sum(heights)), layout="constrained")
        figure.suptitle(escape_controls(title), fontweight="bold")
        if panels:
            axes = figure.subplots(
                len(panels), squeeze=False, gridspec_kw={"height_ratios": heights}
            )
            for axis, (heading, bars) in zip(axes.flat, panels.items(), strict=True):
                _draw_panel(axis, heading, bars)
        try:
            figure.savefig(file, format=_format(file), transparent=True)
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error.strerror}") from error


def _format(file: Path) -> str:
    return file.suffix.removeprefix(".").lower() or "svg"


def _draw_panel(axis: Axes, heading: str, bars: Sequence[Bar]) -> None:
    total = sum(bar.bytes for bar in bars) or 1
    colours = [COLOURS.get(bar.kind, COLOURS[REST]) for bar in bars]
    drawn = axis.barh(range(len(bars)), [bar.bytes for bar in bars], color=colours, height=0.65)
    axis.bar_label(
        drawn,
        labels=[f"{format_size(bar.bytes)}  {100 * bar.bytes / total:.0f} %" for bar in bars],
        padding=4,
    )
    axis.set_yticks(range(len(bars)), [escape_controls(shorten(bar.name, 44)) for bar in bars])
    axis.set_title(heading, loc="left", fontsize="medium", fontweight="bold")
    axis.invert_yaxis()
    axis.margins(x=0.2, y=0.02)
    axis.spines[:].set_visible(False)
    axis.tick_params(left=False, bottom=False, labelbottom=False)
    first_of_kind = {bar.kind: patch for bar, patch in zip(bars, drawn, strict=True)}
    first_of_kind.pop(REST, None)
    if 1 < len(first_of_kind) < len(bars):  # else the names of the bars say it
        axis.legend(
            first_of_kind.values(),
            first_of_kind,
            loc="lower right",
            frameon=False,
            fontsize="small",
        )


def _tables(space: Space) -> list[Bar]:
    tables = [piece for piece in space.pieces if piece.bytes]
    bars = [
        Bar(
            piece.name if piece.owner in piece.name else f"{piece.name} of {piece.owner}",
            piece.bytes,
            piece.kind,
        )
        for piece in tables[:TABLES]
    ]
    if smaller := tables[TABLES:]:
        bars.append(Bar(f"{len(smaller)} smaller ones", sum(one.bytes for one in smaller), REST))
    if space.free_bytes:
        bars.append(Bar("free pages", space.free_bytes, REST))
    return bars


def _kinds(space: Space) -> list[Bar]:
    return [Bar(f"{kind.name} · {kind.rows:,}", kind.bytes, kind.name) for kind in space.kinds]


def _threads(space: Space) -> list[Bar]:
    bars = []
    for share in space.largest:
        namespace = f" in {'/'.join(share.namespace)}" if share.namespace else ""
        name = f"{shorten(share.thread_id + namespace, 30)} · {share.rows:,}"
        bars.append(Bar(name, share.bytes, "thread"))
    others = space.logs - len(space.largest)
    if others > 0:
        bars.append(Bar(f"{others:,} others", space.rest_bytes, REST))
    return bars
