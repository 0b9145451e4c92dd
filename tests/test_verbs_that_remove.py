"""The verbs that remove are few, each means one thing, and the glossary says which.

Functions and methods of the package that begin with another such verb are refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import memalchemy
from pages import ROOT
from source_trees import parsed

PACKAGE = Path(memalchemy.__file__).parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()

DEFINED = ("clear", "delete", "drop", "forget", "prune", "purge", "reclaim", "sweep", "vacuum")
"""Verbs that remove, as docs/glossary.md defines them."""

OTHERS = re.compile(
    r"_*(remove|erase|discard|destroy|wipe|clean|evict|expunge|eliminate|scrub|unlink"
    r"|cleanup)(_|$)"
)
"""Beginnings of names that would say the same in another word."""

EXCEPTIONS: dict[str, str] = {
    "adapters.py: remove": "takes a declaration out of a list",
    "dialects/registry.py: remove": "takes a dialect out of a list",
    "http/client/_thread_log.py: remove": "public: entries by their positions",
    "threads/thread_log.py: remove": "public: entries by their positions",
    "integrations/a2a/task_event_stream.py: destroy": "the name that A2A gives it",
    "statements.py: remove": "a removal of any kind",
    "store/store.py: remove": "a removal of any kind",
    "integrations/lauren_ai/facts.py: remove": "the change of a list of owners",
}
"""Other names, each with the reason why it stays."""


def other_verbs(module: str, code: str) -> Iterator[str]:
    """Yield the functions of a module that remove by another verb."""
    for node in ast.walk(parsed(code)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and OTHERS.match(node.name):
            yield f"{module}: {node.name}"


def test_functions_remove_by_the_verbs_of_the_glossary() -> None:
    found = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in other_verbs(path.relative_to(PACKAGE).as_posix(), path.read_text())
    }

    assert found - EXCEPTIONS.keys() == set()
    assert EXCEPTIONS.keys() - found == set(), "exceptions that nothing needs any more"


def test_the_glossary_defines_each_verb() -> None:
    for verb in DEFINED:
        assert f"**{verb.capitalize()}**: to " in GLOSSARY, verb


def test_another_verb_is_found_in_functions_and_methods() -> None:
    code = (
        "def erase(): ...\nclass Log:\n    async def _remove_rows(self): ...\n"
        "def delete_rows(): ...\ndef removal(): ...\ndef erased_binds(): ..."
    )

    assert set(other_verbs("log/a.py", code)) == {"log/a.py: erase", "log/a.py: _remove_rows"}
