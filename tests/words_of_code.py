"""The words of a file's code: its names and texts, without comments and docstrings."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from source_trees import parsed


def code_of(path: Path) -> Iterator[str]:
    """The names and texts in a file's code, one after another."""
    text = path.read_text()
    if path.suffix not in (".py", ".pyi"):
        yield re.sub(r"/\*.*?\*/|<!--.*?-->|^\s*//[^\n]*|\s//\s[^\n]*", "", text, flags=re.S | re.M)
        return
    documented = {
        (node.value.lineno, node.value.col_offset)
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT and token.start not in documented:
            yield token.string
