"""Curves of growth: their JSON, their table, and one SVG of them on logarithmic axes.

Imports nothing that measures, so that what is committed can be held to its JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log, log10
from typing import Any

from benchmarks import report

JSON, SVG = report.COMMITTED / "curves.json", report.COMMITTED / "curves.svg"
HTML = report.COMMITTED / "curves.html"
PAGE = report.ROOT / "docs" / "benchmarks.md"
MARKS = "<!-- curves:begin -->", "<!-- curves:end -->"

SUPERLINEAR = 1.1
"""Twice as much that takes more than 2 ** 1.1 times as long is more than linear, and no noise."""

WIDTH, PANEL, PLOT = 1180, 380, 240
"""Of the picture, of one of its panels, and the height of a plot."""
LEFT, TOP, LINE = 52, 44, 18
DASHES = ("", "7 3", "2 3", "10 3 2 3", "1 5", "14 4")


@dataclass(frozen=True)
class Curve:
    """What an operation takes as something grows."""

    along: str
    """What grows, such as ``checkpoints in a thread``."""
    name: str
    unit: str
    points: tuple[tuple[int, float], ...]
    """How much there is, and what the operation took then."""

    @property
    def exponent(self) -> float:
        """The steepest slope between neighbours: 0 is constant, 1 linear, 2 quadratic."""
        return max(
            log(later / earlier) / log(more / less)
            for (less, earlier), (more, later) in pairwise(self.points)
        )

    @property
    def is_superlinear(self) -> bool:
        return self.exponent > SUPERLINEAR


@dataclass(frozen=True)
class Curves:
    about: Mapping[str, Any]
    curves: tuple[Curve, ...]

    @property
    def superlinear(self) -> list[Curve]:
        return [one for one in self.curves if one.is_superlinear]

    def grouped(self) -> dict[str, list[Curve]]:
        """The curves by what grows."""
        names = dict.fromkeys(one.along for one in self.curves)
        return {along: [one for one in self.curves if one.along == along] for along in names}

    def as_json(self) -> str:
        found = {"about": self.about, "curves": [asdict(one) for one in self.curves]}
        return json.dumps(found, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Curves:
        found = json.loads(text)
        return cls(found["about"], tuple(_curve(one) for one in found["curves"]))


def _curve(given: dict[str, Any]) -> Curve:
    points = tuple((count, value) for count, value in given["points"])
    return Curve(**(given | {"points": points}))


def summary(found: Curves) -> str:
    steep = [f"{one.name} ({one.along}, exponent {one.exponent:.2f})" for one in found.superlinear]
    return f"Superlinear: {'; '.join(steep) or 'none'}."


def section(found: Curves) -> str:
    """The generated part of the guide."""
    return f"Measured {report.when(found.about)}. {summary(found)}"


def page(found: Curves) -> str:
    """The page of all curves, as HTML."""
    about = found.about
    parts = [
        f"<p>{report.when(about).replace('`', '').removeprefix('on ')}, {about['system']}, "
        f"{about['cpus']} CPUs, load average "
        f"{report.load_text(about['load_average_before'])} before and "
        f"{report.load_text(about['load_average_after'])} after the run of {about['seconds']} s; "
        f"Python {about['python']}, SQLite {about['sqlite']}. {escape(summary(found))}</p>",
    ]
    for along, curves in found.grouped().items():
        head = ["operation", *(f"{count:,}" for count, _ in curves[0].points), "exponent"]
        rows = []
        for one in curves:
            mark = " superlinear" if one.is_superlinear else ""
            values = [f"{_number(value)} {one.unit}" for _, value in one.points]
            rows.append([one.name, *values, f"{one.exponent:.2f}{mark}"])
        title = f"{along[0].upper()}{along[1:]}"
        parts += [f"<h2>{escape(title)}</h2>", report.html_table(head, rows)]
    title = "How times and bytes grow"
    return report.html_page(title, "../benchmarks.html", parts, picture=SVG.name)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def committed() -> Curves:
    """The curves that the documentation shows."""
    return Curves.from_json(JSON.read_text(encoding="utf-8"))


def write_committed(found: Curves) -> None:
    """Let the documentation show *found*: the JSON, the picture and the pages."""
    JSON.write_text(found.as_json(), encoding="utf-8")
    SVG.write_text(draw(found), encoding="utf-8")
    HTML.write_text(page(found), encoding="utf-8")
    guide = report.with_section(PAGE.read_text(encoding="utf-8"), section(found), MARKS)
    PAGE.write_text(guide, encoding="utf-8")


def draw(found: Curves) -> str:
    """An SVG document with a panel for each thing that grows."""
    groups = found.grouped()
    lines = max(len(curves) for curves in groups.values())
    height = TOP + PLOT + 52 + LINE * lines
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">',
        '<title id="title">What operations take as the database grows</title>',
        f"<style>{STYLE}</style>",
    ]
    for at, (along, curves) in enumerate(groups.items()):
        parts += _panel(at * (PANEL + 20), along, curves)
    return "\n".join([*parts, "</svg>"]) + "\n"


STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .head { font-weight: 600; font-size: 13px }
  .small { font-size: 11px; fill: #59636e }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .curve { stroke: #5746d8; stroke-width: 2; fill: none }
  .steep { stroke: #c4432b }
  .linear { stroke: #59636e; stroke-width: 1; stroke-dasharray: 1 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .grid { stroke: #3d444d }
    .curve { stroke: #8b7cf7 }
    .steep { stroke: #ff8f73 }
    .linear { stroke: #9198a1 }
  }
"""


class _Axes:
    """Places on a panel's logarithmic axes."""

    def __init__(self, left: float, curves: Sequence[Curve]) -> None:
        counts = [count for one in curves for count, _ in one.points]
        values = [value for one in curves for _, value in one.points]
        self.decades_x = range(floor(log10(min(counts))), ceil(log10(max(counts))) + 1)
        self.decades_y = range(floor(log10(min(values))), ceil(log10(max(values))) + 1)
        self._left = left + LEFT

    def x(self, count: float) -> float:
        first, last = self.decades_x[0], self.decades_x[-1]
        return self._left + (log10(count) - first) / max(1, last - first) * (PANEL - LEFT - 10)

    def y(self, value: float) -> float:
        first, last = self.decades_y[0], self.decades_y[-1]
        return TOP + PLOT - (log10(value) - first) / max(1, last - first) * PLOT

    def line(self, kind: str, a: tuple[float, float], b: tuple[float, float]) -> str:
        (x1, y1), (x2, y2) = ((self.x(count), self.y(value)) for count, value in (a, b))
        return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _panel(left: float, along: str, curves: Sequence[Curve]) -> list[str]:
    axes = _Axes(left, curves)
    (first, last), (low, high) = ((d[0], d[-1]) for d in (axes.decades_x, axes.decades_y))
    parts = [
        _text(left + LEFT, 20, along, "head"),
        _text(left + LEFT, 36, "ms of CPU, and below the exponents", "small"),
    ]
    for power in axes.decades_x:
        parts.append(axes.line("grid", (10.0**power, 10.0**low), (10.0**power, 10.0**high)))
        parts.append(_text(axes.x(10.0**power), TOP + PLOT + 16, _short(power), "small", "middle"))
    for power in axes.decades_y:
        parts.append(axes.line("grid", (10.0**first, 10.0**power), (10.0**last, 10.0**power)))
        parts.append(
            _text(left + LEFT - 6, axes.y(10.0**power) + 4, f"{10.0**power:g}", "small", "end")
        )
    # One that doubles with what grows, from the lower left corner on.
    span = min(last - first, high - low)
    parts.append(
        axes.line(
            "linear", (10.0**first, 10.0**low), (10.0 ** (first + span), 10.0 ** (low + span))
        )
    )
    for at, one in enumerate(curves):
        kind = "curve steep" if one.is_superlinear else "curve"
        dash = f' stroke-dasharray="{DASHES[at % len(DASHES)]}"' if at % len(DASHES) else ""
        points = " ".join(f"{axes.x(count):.1f},{axes.y(value):.1f}" for count, value in one.points)
        parts.append(f'<polyline class="{kind}"{dash} points="{points}"/>')
        y = TOP + PLOT + 42 + LINE * at
        parts.append(
            f'<line class="{kind}"{dash} x1="{left + LEFT}" y1="{y - 4}" '
            f'x2="{left + LEFT + 36}" y2="{y - 4}"/>'
        )
        what = ", superlinear" if one.is_superlinear else ""
        unit = "" if one.unit == "ms" else f", {one.unit}"
        label = f"{one.name}{unit}: {one.exponent:.2f}{what}"
        parts.append(_text(left + LEFT + 44, y, label, ""))
    return parts


def _short(power: int) -> str:
    """A power of ten as a reader would write it."""
    for size, name in ((9, "G"), (6, "M"), (3, "k")):
        if power >= size:
            return f"{10 ** (power - size)}{name}"
    return f"{10**power}"


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
    )
