"""A picture of where the bytes are, as SVG written by hand. It knows numbers and names only.

It has no background, and its grey has the contrast that small text needs on white and on black, so
it reads on a page of either kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from memalchemy.cli.terminal import safe, size

if TYPE_CHECKING:
    from memalchemy.space import Space

WIDTH, NAMES, NUMBERS = 860, 290, 110
ROW, BAR, GAP = 24, 15, 46
PIECES = 12
"""How many tables and indexes have a bar of their own."""
GREY = "#767676"
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
    "rest": "#8a8a8a",
}


class Bar(NamedTuple):
    """One bar: what it is, how many bytes, and the kind that gives it its colour."""

    name: str
    bytes: int
    kind: str


class Panel(NamedTuple):
    """Bars under a heading."""

    title: str
    bars: Sequence[Bar]


def draw(space: Space, title: str) -> str:
    """*space* as an SVG document."""
    guessed = " (estimated)" if space.estimated else ""
    panels = [
        Panel(f"Tables and indexes, all tenants{guessed}", [*_pieces(space)]),
        Panel("Stored by kind", [Bar(_rows(k.name, k.rows), k.bytes, k.name) for k in space.kinds]),
        Panel(f"Threads, the largest of {space.logs:,}", [*_logs(space)]),
    ]
    shown = [panel for panel in panels if panel.bars]
    height = 50 + sum(GAP + ROW * len(panel.bars) for panel in shown) + 20
    body = [_text(16, 28, title, size_=17, weight="600")]
    top = 50
    for panel in shown:
        body += _panel(panel, top)
        top += GAP + ROW * len(panel.bars)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n'
        f"<title>{_safe(title)}</title>\n" + "\n".join(body) + "\n</svg>\n"
    )


def _pieces(space: Space) -> Iterable[Bar]:
    pieces = [piece for piece in space.pieces if piece.bytes]
    for piece in pieces[:PIECES]:
        of = "" if piece.owner in piece.name else f" of {piece.owner}"
        yield Bar(f"{piece.name}{of}", piece.bytes, piece.kind)
    if smaller := pieces[PIECES:]:
        yield Bar(f"{len(smaller)} smaller ones", sum(piece.bytes for piece in smaller), "rest")
    if space.free_bytes:
        yield Bar("free pages (vacuum gives them back)", space.free_bytes, "rest")


def _logs(space: Space) -> Iterable[Bar]:
    for share in space.largest:
        where = f" in {'/'.join(share.namespace)}" if share.namespace else ""
        yield Bar(_rows(share.thread_id + where, share.rows), share.bytes, "delta")
    others = space.logs - len(space.largest)
    if others > 0:
        yield Bar(f"the other {others:,}", space.rest_bytes, "rest")


def _rows(name: str, rows: int) -> str:
    return f"{_short(name, 30)} · {rows:,}"


def _panel(panel: Panel, top: int) -> Iterable[str]:
    yield _text(16, top + 22, panel.title, weight="600")
    kinds = [kind for kind in dict.fromkeys(bar.kind for bar in panel.bars) if kind != "rest"]
    for number, kind in enumerate(kinds if len(kinds) > 1 else ()):
        left = NAMES + 12 + 130 * number
        yield f'<circle cx="{left + 5}" cy="{top + 18}" r="5" fill="{COLOURS.get(kind, GREY)}"/>'
        yield _text(left + 16, top + 22, kind)
    total = sum(bar.bytes for bar in panel.bars)
    most = max(bar.bytes for bar in panel.bars) or 1
    room = WIDTH - NAMES - NUMBERS - 32
    for number, bar in enumerate(panel.bars):
        middle = top + 34 + ROW * number + ROW // 2
        long = max(1.0, room * bar.bytes / most)
        share = f"{100 * bar.bytes / total:.0f} %" if total else ""
        yield _text(NAMES, middle + 4, _short(bar.name), anchor="end")
        yield (
            f'<rect x="{NAMES + 12}" y="{middle - BAR / 2:.1f}" width="{long:.1f}" height="{BAR}" '
            f'rx="2" fill="{COLOURS.get(bar.kind, COLOURS["rest"])}">'
            f"<title>{_safe(bar.name)}: {bar.bytes:,} bytes, {_safe(bar.kind)}</title></rect>"
        )
        yield _text(NAMES + 20 + long, middle + 4, f"{size(bar.bytes)}  {share}")


def _text(
    x: float, y: float, text: str, *, size_: int = 13, weight: str = "400", anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size_}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{GREY}">{_safe(text)}</text>'
    )


def _short(name: str, width: int = 40) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"


def _safe(text: str) -> str:
    return escape(safe(text))
