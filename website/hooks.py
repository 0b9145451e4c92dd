"""Hooks of MkDocs: links to files outside of docs/ lead to the repository."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Return the page with each relative link that leaves docs/ replaced by the file's address."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def replaced(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        if path == "docs" or path.startswith("docs/"):
            return link[0]
        return f"]({config.repo_url}/blob/main/{path}{link[2] or ''})"

    return LINK.sub(replaced, markdown)
