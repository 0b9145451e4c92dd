"""Print statements as a database gets them, or what has changed in them since a commit.

    python tests/golden/show.py log.heads                    # by a part of their names
    python tests/golden/show.py --database oracle --since main

A statement that has another name and the same text has not changed. It needs the environment of
the tests, and for ``--since`` a clone.
"""

from __future__ import annotations

import argparse
import difflib
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATABASES = ("sqlite", "postgresql", "citus", "oracle")


def main() -> None:
    given = _arguments()
    texts = _compiled(ROOT, given.databases)
    if given.since is None:
        for database, by_name in texts.items():
            for name, text in by_name.items():
                if given.part in name:
                    print(f"-- {database}: {name}\n{text}\n")
        return
    before = _compiled_at(given.since, given.databases)
    differ = False
    for database, now in texts.items():
        then = before[database]
        moved = {text for name, text in then.items() if name not in now} & {
            text for name, text in now.items() if name not in then
        }
        for name in dict.fromkeys((*then, *now)):
            old, new = then.get(name, ""), now.get(name, "")
            if given.part in name and old != new and not {old, new} & moved:
                differ = True
                title = f"{database}: {name}"
                lines = (old.splitlines(), new.splitlines(), title, title)
                print("\n".join(difflib.unified_diff(*lines, given.since, "now", lineterm="")))
    if not differ:
        print("nothing differs")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", nargs="?", default="", help="a part of the statements' names")
    parser.add_argument("--database", choices=DATABASES, help="one database (default: all)")
    parser.add_argument("--since", metavar="COMMIT", help="show what has changed since a commit")
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.databases = DATABASES if given.database is None else (given.database,)
    if given.compile:
        _compile(Path(given.compile), given.databases)
        sys.exit()
    return given


def _compiled_at(commit: str, databases: tuple[str, ...]) -> dict[str, dict[str, str]]:
    packed = subprocess.run(
        ["git", "archive", "--format=zip", commit, "src", "tests/golden"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    with tempfile.TemporaryDirectory() as directory:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            archive.extractall(directory)
        return _compiled(Path(directory), databases)


def _compiled(tree: Path, databases: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """The texts of a *tree* by database and name, from a process that imports that tree."""
    command = [sys.executable, __file__, "--compile", str(tree)]
    if len(databases) == 1:
        command += ["--database", databases[0]]
    path = os.pathsep.join([str(tree / "src"), str(tree / "tests")])
    told = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    found: dict[str, dict[str, str]] = json.loads(told.stdout)
    return found


def _compile(tree: Path, databases: tuple[str, ...]) -> None:
    """Write the texts of the package that is imported as JSON."""
    sys.path.insert(0, str(tree / "tests"))
    from golden import pretty, statements

    texts = {
        database: {name: pretty(sql) for name, sql in statements(database)}
        for database in databases
    }
    print(json.dumps(texts))


if __name__ == "__main__":
    main()
