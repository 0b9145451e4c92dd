"""Checks the site that MkDocs has built: `python -m website.check_site`.

MkDocs itself checks the links and anchors of the pages. This checks what it cannot know: that each
public name and method has an entry in the reference, that what a page loads is in the site, and
that the search works without a server.
"""

from __future__ import annotations

import re
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
PUBLIC = ROOT / "tests" / "public_api.txt"
LOADS = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src")}
MADE_FOR_OTHERS = {"canonical", "edit"}
"""Relations of links that a browser does not load."""
INHERITED = {f"memalchemy.SearchHits.{name}" for name in dir(list)}
"""Names that need no entry: Python describes them."""


class Loaded(HTMLParser):
    """The addresses that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the address of a tag that loads something."""
        given = dict(attrs)
        if given.get("rel") in MADE_FOR_OTHERS:
            return
        self.addresses += [
            value for name, value in attrs if value is not None and (tag, name) in LOADS
        ]


def main() -> int:
    """Print what is wrong with the site; return 1 if anything is."""
    wrong = [*missing_names(), *foreign_or_missing_files()]
    if not (SITE / "search" / "search_index.js").exists():
        wrong.append("the search has no index that works without a server")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(list(SITE.rglob('*.html')))} pages, {len(documented())} names, {len(wrong)} wrong")
    return 1 if wrong else 0


def documented() -> set[str]:
    """The names that have an entry, from the inventory that mkdocstrings writes."""
    content = (SITE / "objects.inv").read_bytes()
    body = zlib.decompress(content.split(b"\n", 4)[4]).decode()
    return {line.split(" ", 1)[0] for line in body.splitlines()}


def missing_names() -> list[str]:
    """Public classes, functions and methods without an entry."""
    there = documented()
    wanted, owner = [], ""
    for line in PUBLIC.read_text(encoding="utf-8").splitlines():
        name = re.sub(r"^(class|async) ", "", line.strip())
        name = re.split(r"[( ]", name, maxsplit=1)[0]
        if line.startswith("  "):
            wanted.append(f"memalchemy.{owner}.{name}")
        else:
            owner = name
            wanted.append(f"memalchemy.{name}")
    return [f"the reference lacks {name}" for name in wanted if name not in there | INHERITED]


def foreign_or_missing_files() -> list[str]:
    """Files that a page loads from another server, or that are not in the site."""
    wrong = []
    for page in sorted(SITE.rglob("*.html")):
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        for address in loaded.addresses:
            parts = urlsplit(address)
            name = page.relative_to(SITE)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                wrong.append(f"{name} loads {address}")
            elif page.name != "404.html" and not (page.parent / unquote(parts.path)).exists():
                wrong.append(f"{name} loads {address}, which is not there")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
