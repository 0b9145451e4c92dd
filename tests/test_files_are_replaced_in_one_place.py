"""Files take the place of others in `memalchemy._files` alone, which follows links."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from source_trees import parsed

SOURCE = Path(__file__).parents[1] / "src" / "memalchemy"

EXCEPTIONS = {
    ("_files.py", "replace"),
    # The name of the old database, on a file system without hard links.
    ("maintenance/restore.py", "rename"),
}


def renames(source: str) -> list[str]:
    """Return the calls of a module that give a file another name.

    `Path.replace` is told from the methods of texts and times by its one argument.
    """
    found = []
    for node in ast.walk(parsed(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, of = node.func.attr, ast.unparse(node.func.value)
        is_path = len(node.args) == 1 and not node.keywords and name in ("rename", "replace")
        is_module = of in ("os", "shutil") and name in ("rename", "renames", "replace", "move")
        if is_path or is_module:
            found.append(name)
    return found


def test_no_other_module_replaces_files() -> None:
    found = {
        (file.relative_to(SOURCE).as_posix(), name)
        for file in SOURCE.rglob("*.py")
        for name in renames(file.read_text())
    }

    assert found == EXCEPTIONS


@pytest.mark.parametrize("line", ["part.replace(file)", "os.rename(a, b)", "shutil.move(a, b)"])
def test_a_rename_is_seen(line: str) -> None:
    assert len(renames(line)) == 1


def test_texts_and_times_are_not_files() -> None:
    assert renames("text.replace('a', 'b'); time.replace(tzinfo=None)") == []
