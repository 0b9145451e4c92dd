"""Pictures of the findings as SVG; colours follow the reader's light or dark scheme.

`draw` shows how far each finding stands from its target, on an axis of powers of two. Bars start at
the target. To the left the promise is kept with room to spare, to the right it is not. Met and
missed differ in the side, in the fill (plain, hatched) and in the word beside them, not only in
colour. `draw_pairs` shows what both sides took, on a linear axis from zero. Knows nothing but
findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import log2

from benchmarks.measure import TOLERANCE, Finding

WIDTH = 1180
NAMES, VALUES = 590, 250
"""Widths of the columns of names, left of the bars, and of values, right of them."""
ROW, HEAD = 21, 34
SPAN = 5
"""Powers of two on either side of the target; what is further away ends at the edge."""

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .head { font-weight: 600; font-size: 13px }
  .small { font-size: 11px; fill: #59636e }
  .missed-word { font-weight: 600 }
  .axis { stroke: #59636e; stroke-width: 1.5 }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .room { fill: #d1d9e0; opacity: .6 }
  .met { fill: #5746d8; stroke: #5746d8 }
  .missed { fill: url(#hatch); stroke: #c4432b }
  .hatch { stroke: #c4432b; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .axis { stroke: #9198a1 }
    .grid { stroke: #3d444d }
    .room { fill: #3d444d }
    .met { fill: #8b7cf7; stroke: #8b7cf7 }
    .missed { stroke: #ff8f73 }
    .hatch { stroke: #ff8f73 }
  }
"""

PAIRS, PAIR_LABELS, PAIR_VALUES = 760, 210, 90
"""Widths of the picture of pairs, of its labels, and of the values right of its bars."""

PAIRS_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .head { font-weight: 600; font-size: 14px }
  .small { font-size: 12px; fill: #59636e }
  .ours { fill: #5746d8 }
  .ours-word { font-weight: 600; fill: #4b3bc9 }
  .theirs { fill: #afb8c1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .ours { fill: #8b7cf7 }
    .ours-word { fill: #b0a5ff }
    .theirs { fill: #656d76 }
  }
"""


def draw(groups: Iterable[tuple[str, list[Finding]]]) -> str:
    """An SVG document of the findings that have a target."""
    rows: list[str] = []
    y = 52
    for title, findings in groups:
        judged = [finding for finding in findings if finding.target is not None]
        if not judged:
            continue
        rows.append(_text(12, y + 20, title, "head"))
        y += HEAD
        for finding in judged:
            rows += _row(finding, y)
            y += ROW
    height = y + 16
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">',
        '<title id="title">What was found, against what was promised</title>',
        f"<style>{STYLE}</style>",
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="6"/>'
        "</pattern></defs>",
    ]
    return "\n".join([*head, *_axis(height - 12), *rows, "</svg>"]) + "\n"


def draw_pairs(panels: Mapping[str, Sequence[tuple[str, Finding]]], names: tuple[str, str]) -> str:
    """An SVG of panels with a title each, in which every finding is two bars from zero.

    The bars of a panel share a linear axis; *names* are those of the two sides.
    """
    rows = [*_legend(names)]
    y = 44.0
    for title, findings in panels.items():
        rows.append(_text(16, y + 14, title, "head"))
        y += 26
        measured = [(label, measure(one.ours), measure(one.theirs)) for label, one in findings]
        longest = max(amount for _, *both in measured for amount, _ in both)
        for label, ours, theirs in measured:
            rows.append(_text(PAIR_LABELS - 12, y + 19, label, "", "end"))
            for (amount, words), kind, top in ((ours, "ours", y), (theirs, "theirs", y + 14)):
                length = max(amount / longest * (PAIRS - PAIR_LABELS - PAIR_VALUES), 1.5)
                rows.append(
                    f'<rect class="{kind}" x="{PAIR_LABELS}" y="{top:.1f}" width="{length:.1f}" '
                    'height="12" rx="1"/>'
                )
                rows.append(
                    _text(PAIR_LABELS + length + 7, top + 10.5, words, f"small {kind}-word")
                )
            y += 36
        y += 10
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {PAIRS} {y:.0f}" '
        f'width="{PAIRS}" height="{y:.0f}" role="img" aria-labelledby="title">',
        f'<title id="title">{escape(" and ".join(panels))}: {names[0]} beside {names[1]}</title>',
        f"<style>{PAIRS_STYLE}</style>",
    ]
    return "\n".join([*head, *rows, "</svg>"]) + "\n"


def measure(text: str) -> tuple[float, str]:
    """Return the number of a text such as ``AsyncSqliteSaver 405.53 MB``, and it with its unit.

    Raises:
        ValueError: there is no number of bytes or time in it.
    """
    found = re.search(r"([\d.,]+) (MB|ms)\b", text)
    if found is None:
        raise ValueError(f"no number with its unit in {text!r}")
    return float(found[1].replace(",", "")), found[0]


def _legend(names: tuple[str, str]) -> list[str]:
    lines = []
    for name, kind, x in ((names[0], "ours", 16), (names[1], "theirs", 150)):
        lines.append(f'<rect class="{kind}" x="{x}" y="14" width="12" height="12" rx="1"/>')
        lines.append(_text(x + 19, 24.5, name, ""))
    return lines


def _x(score: float) -> float:
    """Where a score stands: the target in the middle, better ones to its left."""
    power = max(-SPAN, min(SPAN, log2(score))) if score > 0 else -SPAN
    return NAMES + (power + SPAN) / (2 * SPAN) * (WIDTH - NAMES - VALUES)


def _axis(bottom: float) -> list[str]:
    tolerated = _x(1 + TOLERANCE) - _x(1)
    lines = [
        _text(12, 20, "Hatched bars are missed targets. A bar starts at its target.", "small"),
        f'<rect class="room" x="{_x(1):.1f}" y="46" width="{tolerated:.1f}" '
        f'height="{bottom - 46:.1f}"/>',
    ]
    for power in range(-SPAN, SPAN + 1):
        x = _x(2.0**power)
        kind = "axis" if power == 0 else "grid"
        lines.append(f'<line class="{kind}" x1="{x:.1f}" y1="46" x2="{x:.1f}" y2="{bottom:.1f}"/>')
        if power == 0:
            lines.append(_text(x, 40, "target", "small", "middle"))
        elif power in (-4, -2, 2, 4):
            how = "better" if power < 0 else "worse"
            lines.append(_text(x, 40, f"{2 ** abs(power)}× {how}", "small", "middle"))
    return lines


def _row(finding: Finding, y: float) -> list[str]:
    score = finding.score
    assert score is not None
    start, end = sorted((_x(1), _x(score)))
    kind = "met" if finding.is_met else "missed"
    return [
        _text(NAMES - 10, y + 13, finding.name, "", "end"),
        f'<rect class="{kind}" x="{start:.1f}" y="{y + 3}" width="{max(end - start, 2):.1f}" '
        'height="12"/>',
        _text(WIDTH - VALUES + 14, y + 13, f"{finding}", ""),
        _text(WIDTH - VALUES + 90, y + 13, f"{finding.target}", "small"),
        _text(WIDTH - 12, y + 13, kind, "missed-word" if kind == "missed" else "small", "end"),
    ]


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
    )
