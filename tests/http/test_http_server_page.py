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
    """A line for each path with its methods, by the parts of the OpenAPI document."""
    parts: dict[str, dict[str, list[Operation]]] = {}
    for one in OPERATIONS:
        parts.setdefault(one.tag, {}).setdefault(one.path, []).append(one)
    blocks = [
        "\n".join([f"# {tag}", *(_line(*of_path) for of_path in sorted(paths.items()))])
        for tag, paths in parts.items()
    ]
    return "```text\n" + "\n\n".join(blocks) + "\n```\n"


def _line(path: str, operations: list[Operation]) -> str:
    methods = ",".join(one.method for one in operations)
    admin = "  (admin)" if any("admin" in one.access for one in operations) else ""
    return f"{methods:<20} {path}{admin}"


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
