"""docs/reference/http-server.md has every route and every limit of the server.

With ``MEMALCHEMY_REGENERATE=1`` the table of routes is written anew.
"""

from __future__ import annotations

import os
import re
from dataclasses import fields

from memalchemy.http import Limits
from memalchemy.http.operations import Operation
from memalchemy.http.server._application import OPERATIONS
from pages import ROOT

PAGE = ROOT / "docs" / "reference" / "http-server.md"
ROUTES = re.compile(r"(?<=<!-- routes -->\n).*?(?=<!-- end -->)", re.DOTALL)


def routes() -> str:
    """A row for each path, with the operations of its methods by their ids."""
    rows: dict[str, list[str]] = {}
    for one in OPERATIONS:
        rows.setdefault(one.path, []).append(_described(one))
    lines = [f"| `{path}` | {', '.join(operations)} |" for path, operations in rows.items()]
    return "\n".join(["| path | operations |", "|---|---|", *lines, ""])


def _described(one: Operation) -> str:
    admin = ", *admin*" if "admin" in one.access else ""
    return f"`{one.method}` {one.name}{admin}"


def test_the_page_has_every_route_and_no_other() -> None:
    text = PAGE.read_text()
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        PAGE.write_text(ROUTES.sub(lambda _: routes(), text))
        return
    found = ROUTES.search(text)

    assert found is not None
    assert found.group() == routes(), "MEMALCHEMY_REGENERATE=1 writes the table anew"


def test_the_page_has_the_default_of_every_limit() -> None:
    rows = re.findall(r"^\| `--[^|]* \| `(\w+)` \| ([\d,]+)( MiB)?", PAGE.read_text(), re.MULTILINE)
    written = {
        name: int(number.replace(",", "")) * (1024 * 1024 if unit else 1)
        for name, number, unit in rows
    }

    assert written == {field.name: field.default for field in fields(Limits)}
