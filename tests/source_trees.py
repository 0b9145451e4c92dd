"""The syntax trees of sources: many tests read the same files, which a process parses once."""

from __future__ import annotations

import ast
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    """Return the tree of a module's text. Others read it, too, so nobody changes it."""
    return ast.parse(source)
