"""Runs the pages of the documentation: every Python block of one, in order."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ANCHOR = re.compile(r'<(?:a|details open) id="([^"]+)">')
"""An anchor in HTML, such as one of a row of a table."""


async def run_page(page: Path) -> None:
    """Run its blocks as one module that may await at its top; a script has a loop of its own."""
    names: dict[str, object] = {"__name__": page.stem}
    for block in BLOCK.findall(page.read_text()):  # noqa: ASYNC240 - nobody else waits
        code = compile(
            block, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        if "asyncio.run(" in block:
            await asyncio.to_thread(eval, code, names)
            continue
        result = eval(code, names)
        if inspect.iscoroutine(result):
            await result


def broken_links(page: Path) -> list[str]:
    """Its links to files, and to headings of pages, that are not there."""
    broken = []
    for name, anchor in LINK.findall(FENCE.sub("", page.read_text())):
        target = page.parent / name if name else page
        if not target.exists():
            broken.append(name)
        elif anchor and anchor not in anchors_of(target):
            broken.append(f"{name}#{anchor}")
    return broken


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them, and those that it has in HTML."""
    text = FENCE.sub("", page.read_text())
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in plain} | {*ANCHOR.findall(text)}
