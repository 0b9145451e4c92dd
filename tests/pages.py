"""Runs the pages of the documentation: every Python block of one, in order, with its output."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

from website import hooks

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python(?: async)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN = re.compile(r"^```(python|python async|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ANCHOR = re.compile(r'<(?:a|details open) id="([^"]+)">')
"""An anchor in HTML, such as one of a row of a table."""


class WrongOutput(AssertionError):
    """A block prints something else than the ``output`` fence after it."""


async def run_page(page: Path, *, sync: bool = False) -> None:
    """Run its blocks as one module that may await at its top; a script has a loop of its own.

    The text of an ``output`` fence is what the blocks between it and the one before print, where
    ``…`` stands for anything. With *sync* the blocks are those of the tab without await.
    """
    names: dict[str, object] = {"__name__": page.stem}
    printed = io.StringIO()
    for kind, block in RUN.findall(page.read_text()):  # noqa: ASYNC240 - nobody else waits
        if kind == "output":
            _compare(block, printed.getvalue())
            printed = io.StringIO()
        elif not (sync and kind == "python async"):
            code = hooks.without_await(block) if sync else block
            with contextlib.redirect_stdout(printed):
                await _run(code, page, names)


async def _run(code: str, page: Path, names: dict[str, object]) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compiled = compile(code, str(page), "exec", flags=flags, dont_inherit=True)
    if "asyncio.run(" in code:
        await asyncio.to_thread(eval, compiled, names)
        return
    result = eval(compiled, names)
    if inspect.iscoroutine(result):
        await result


def _compare(wanted: str, printed: str) -> None:
    parts = (re.escape(part) for part in wanted.rstrip().split("…"))
    if not re.fullmatch(".*".join(parts), printed.rstrip(), re.DOTALL):
        raise WrongOutput(f"the page says\n{wanted}\nand its blocks print\n{printed}")


def with_rows(page: str, header: str, rows: Sequence[tuple[str, ...]], new: str = "") -> str:
    """The page with these *rows* in the one table whose header begins so.

    A row keeps what the page says in its other cells, and a new row has *new* there.
    """
    pattern = rf"^{re.escape(header)}[^\n]*\n\|[-|]+\n((?:\|[^\n]*\n)*)"
    (table,) = re.finditer(pattern, page, re.MULTILINE)
    width = len(rows[0])
    others = {}
    for line in table[1].splitlines():
        first, *rest = line.removeprefix("| ").removesuffix(" |").split(" | ")
        others[first] = " | ".join(rest[width - 1 :])
    lines = (f"| {' | '.join([*row, others.get(row[0], new)])} |\n" for row in rows)
    return page[: table.start(1)] + "".join(lines) + page[table.end(1) :]


def regenerates() -> bool:
    """Whether this run writes the parts of pages that are made from the code."""
    return bool(os.environ.get("MEMALCHEMY_REGENERATE"))


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
