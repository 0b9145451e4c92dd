"""The README of the package, for the page of an index, where relative links lead nowhere.

A hook of hatchling: `[tool.hatch.metadata.hooks.custom]` in pyproject.toml names this file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?\[[^\]]*\])\((?![a-z]+:|#)([^)]+)\)")


class PackageReadme(MetadataHookInterface):
    """Sets the field `readme`, whose links are those of README.md on the host of the sources."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the field to *metadata*."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(text, metadata["urls"]["Source"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, repository: str) -> str:
    """Return *text* with links to the repository in place of relative ones."""

    def absolute(link: re.Match[str]) -> str:
        view = "raw" if link[1].startswith("!") else "blob"
        return f"{link[1]}({repository}/{view}/main/{link[2]})"

    return RELATIVE.sub(absolute, text)
