"""Find the test modules that are nearest to a change: ``python tests/nearest.py [FILE ...]``.

Without files it goes by what git names: what differs from the last commit, or else that commit. A
test module is near to a source module by the imports that lead from what it imports itself, and by
the words that their names share. It is near to any other file if its text names that file.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import grimp

import tiers

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
LIMIT = 48
"""How many modules take a minute or so on two cores."""
FAR = 4
"""The number of imports from which on a module says nothing about another."""


def main(arguments: Sequence[str]) -> None:
    """Print the paths of the modules, the nearest first."""
    changed = arguments or changed_files()
    print(*(path.relative_to(ROOT) for path in nearest(changed)[:LIMIT]), sep="\n")


def changed_files() -> list[str]:
    """Return the files that differ from the last commit, or else those that it changed."""
    new = _git("ls-files", "--others", "--exclude-standard")
    return _git("diff", "--name-only", "HEAD") + new or _git("diff", "--name-only", "HEAD~1")


def _git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def nearest(changed: Sequence[str]) -> list[Path]:
    """Return the test modules that are near to any of the *changed* files, the nearest first."""
    imports = _imports()
    ranks: dict[Path, tuple[int, int]] = {}
    for test in modules():
        text = test.read_text()
        imported = imported_by(text)
        found = [rank(test, text, imported, Path(name), imports) for name in changed]
        if near := [one for one in found if one[0] < FAR]:
            ranks[test] = min(near)
    return sorted(ranks, key=lambda test: (ranks[test], test))


@cache
def _imports() -> grimp.ImportGraph:
    return grimp.build_graph("memalchemy", cache_dir=None)


def modules() -> list[Path]:
    """Return the test modules of the core and of CI."""
    return [path for path in TESTS.rglob("test_*.py") if tiers.tier_of(path) in ("core", "ci")]


def rank(
    test: Path, text: str, imported: frozenset[str], changed: Path, imports: grimp.ImportGraph
) -> tuple[int, int]:
    """Return how far *test* is from a changed file: steps, and words shared, negative."""
    shared = -len(words(test.relative_to(TESTS)) & words(changed))
    if test == ROOT / changed:
        return 0, -100
    if changed.parts[:1] == ("tests",) and changed.suffix == ".py":
        beside = changed.name == "conftest.py" and (ROOT / changed).parent in test.parents
        return (1 if beside or changed.stem in imported else FAR), shared
    if changed.parts[:1] == ("src",) and changed.suffix == ".py":
        return steps(imported, module_name(changed), imports), shared
    named = any(f'"{part}"' in text for part in changed.parts) or changed.name in text
    return (1 if named else FAR), shared


def steps(imported: frozenset[str], changed: str, imports: grimp.ImportGraph) -> int:
    """Return the number of imports between a test and the *changed* module."""
    if changed in imported:
        return 0
    if changed not in imports.modules:
        return FAR
    chains = (
        imports.find_shortest_chain(importer=one, imported=changed)
        for one in imported & imports.modules
    )
    return min((len(chain) - 1 for chain in chains if chain), default=FAR)


def module_name(path: Path) -> str:
    """Return the name by which a source file is imported."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def words(path: Path) -> set[str]:
    """Return the words in a file's name and in those of its directories, in the singular."""
    found = re.findall(r"[a-z]+", "/".join(path.with_suffix("").parts).lower())
    return {word.rstrip("s") for word in found} - {"test", "src", "memalchemy", "init"}


@cache
def imported_by(text: str) -> frozenset[str]:
    """Return the names of the modules that a test imports, or in which what it imports is made."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= set(_made_in(node.module, [alias.name for alias in node.names]))
    return frozenset(found - {"memalchemy"})


def _made_in(module: str, names: Sequence[str]) -> Iterator[str]:
    if module.split(".")[0] != "memalchemy":
        return
    there = importlib.import_module(module)
    for name in names:
        thing = getattr(there, name, None)
        yield getattr(thing, "__module__", None) or f"{module}.{name}"
        yield f"{module}.{name}"


if __name__ == "__main__":
    main(sys.argv[1:])
