"""A chart of the space that a tenant and its database take, drawn with matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memalchemy.cli.formatting import escape_controls, format_size, shorten
from memalchemy.cli.usage_errors import UsageError
from memalchemy.errors import DriverMissing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from memalchemy.space import Space

TABLES = 12
"""Tables and indexes that have a bar of their own."""

FRAMEWORKS = 12
"""Frameworks that have a bar of their own."""

GREY = "#767676"
"""Colour of the text: readable on a white and on a black page."""

REST = "#8a8a8a"
"""Colour of what is no kind of its own."""

PALETTE = (
    *("#3b82c4", "#e08a1e", "#2a9d75", "#a35fc0"),
    *("#d1495b", "#17a2b8", "#8c6d46", "#b0a51b"),
)
"""Colours that differ from each other also for people who do not see all of them."""

COLOURS = {
    kind: PALETTE[at]
    for kinds in (
        ("snapshot", "delta", "entry", "search text", "write", "item", "item text", "vector"),
        ("table", "index", "text index"),
    )
    for at, kind in enumerate(kinds)
}
"""Colours of the kinds of rows, and of the kinds of tables."""

FORMATS = ("png", "svg")


class Bar(NamedTuple):
    """Bar of a chart."""

    name: str
    bytes: int
    colour: str = REST
    kind: str = ""
    """The kind that the legend names the colour by."""


def check_plot(file: Path) -> None:
    """Check that a chart can be drawn into *file*, before the database is measured.

    Raises:
        UsageError: the file's suffix is not that of a format.
        DriverMissing: matplotlib is not installed; the message names the extra.
    """
    if _image_format(file) not in FORMATS:
        raise UsageError(f"cannot draw {file}: the name of the file must end with .png or .svg")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise DriverMissing("matplotlib", "plot", what="package") from error


def save_plot(space: Space, title: str, file: Path, *, tables: bool = False) -> None:
    """Draw *space* into *file*, without a background; with *tables* also tables and indexes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    estimated = " (estimated)" if space.estimated else ""
    colours = _framework_colours(space)
    panels = {
        "By framework, without search text": _bars_of_frameworks(space, colours),
        "By kind": _bars_of_kinds(space),
        f"Largest of {space.logs:,} threads": _bars_of_threads(space, colours),
    }
    if tables:
        panels[f"Tables and indexes, all tenants{estimated}"] = _bars_of_tables(space)
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
            figure.savefig(file, format=_image_format(file), transparent=True)
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error.strerror}") from error


def _image_format(file: Path) -> str:
    return file.suffix.removeprefix(".").lower()


def _draw_panel(axis: Axes, heading: str, bars: Sequence[Bar]) -> None:
    total = sum(bar.bytes for bar in bars) or 1
    colours = [bar.colour for bar in bars]
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
    first_of_kind.pop("", None)
    if first_of_kind:
        # Beside the heading, where no bar is; the layout keeps room for it.
        axis.legend(
            first_of_kind.values(),
            [escape_controls(kind) for kind in first_of_kind],
            loc="lower right",
            bbox_to_anchor=(1, 1),
            borderaxespad=0,
            ncols=len(first_of_kind),
            frameon=False,
            fontsize="small",
        )


def _bars_of_tables(space: Space) -> list[Bar]:
    tables = [piece for piece in space.pieces if piece.bytes]
    bars = [
        Bar(
            piece.name if piece.owner in piece.name else f"{piece.name} of {piece.owner}",
            piece.bytes,
            COLOURS[piece.kind],
            piece.kind,
        )
        for piece in tables[:TABLES]
    ]
    if smaller := tables[TABLES:]:
        bars.append(Bar(f"{len(smaller)} smaller ones", sum(one.bytes for one in smaller)))
    if space.free_bytes:
        bars.append(Bar("free pages", space.free_bytes))
    return bars


def _bars_of_kinds(space: Space) -> list[Bar]:
    return [
        Bar(f"{kind.name} · {kind.rows:,}", kind.bytes, COLOURS[kind.name]) for kind in space.kinds
    ]


def _framework_colours(space: Space) -> dict[str, str]:
    """Return the colours of the largest frameworks; the others are grey."""
    return dict(zip((one.name for one in space.frameworks), PALETTE, strict=False))


def _bars_of_frameworks(space: Space, colours: Mapping[str, str]) -> list[Bar]:
    shown = space.frameworks[:FRAMEWORKS]
    bars = [
        Bar(
            f"{shorten(one.name or '/', 30)} · {one.threads:,}",
            one.stored_bytes,
            colours.get(one.name, REST),
        )
        for one in shown
    ]
    if others := space.frameworks[FRAMEWORKS:]:
        bars.append(Bar(f"{len(others):,} others", sum(one.stored_bytes for one in others)))
    return bars


def _bars_of_threads(space: Space, colours: Mapping[str, str]) -> list[Bar]:
    bars = []
    for share in space.largest:
        namespace = f" in {'/'.join(share.namespace)}" if share.namespace else ""
        name = f"{shorten(share.thread_id + namespace, 30)} · {share.rows:,}"
        framework = next(iter(share.namespace), "")
        bars.append(Bar(name, share.bytes, colours.get(framework, REST)))
    others = space.logs - len(space.largest)
    if others > 0:
        bars.append(Bar(f"{others:,} others", space.rest_bytes))
    return bars
