"""Commands that only read, on a file and in a directory that cannot be written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from commandline import Call

from unwritable import run_without_overrides, write_protected

READING = [
    ("threads",),
    ("history", "airline-1"),
    ("show", "airline-1"),
    ("show", "airline-1", "--raw"),
    ("tail", "airline-1"),
    ("search", "message"),
    ("stats",),
    ("stats", "airline-1"),
    ("export", "--all"),
    ("log", "ls"),
    ("search", "message", "--in", "entries"),
    ("store", "ls", "/"),
    ("store", "get", "/plans", "trip"),
    ("store", "search", "/plans", "lisbon"),
    ("store", "export", "/plans"),
    ("check",),
    ("current",),
    ("verify",),
    ("prune", "--all", "--keep-last", "1", "--dry-run"),
    ("vacuum", "--dry-run"),
]

WRITING = [
    ("store", "put", "/plans", "trip", '"Porto"'),
    ("delete", "airline-1"),
    ("fork", "airline-1"),
    ("prune", "--all", "--keep-last", "1"),
]


@pytest.fixture
def file(filled: str, call: Call) -> Path:
    assert call("--db", filled, "store", "put", "/plans", "trip", '"Lisbon"').code == 0
    return Path(filled.removeprefix("sqlite:///"))


def run(file: Path, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "memalchemy", "--db", f"sqlite:///{file}", *arguments]
    ended = run_without_overrides(*command)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_a_command_that_only_reads_works_where_nothing_may_be_written(
    file: Path, arguments: tuple[str, ...]
) -> None:
    with write_protected(file.parent):
        code, out, err = run(file, *arguments)

    assert code == 0, err
    assert out or err in ("0 logs\n", "0 hits\n")
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_a_command_that_writes_says_that_the_file_cannot_be_written(
    file: Path, arguments: tuple[str, ...]
) -> None:
    with write_protected(file.parent):
        code, _, err = run(file, *arguments)

    assert code == 3
    assert "cannot be written" in err or "may be written" in err


def test_a_copy_is_made_from_where_nothing_may_be_written(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    source = tmp_path / "source"
    source.mkdir()
    moved = file.rename(source / file.name)
    with write_protected(source):
        copied = run(moved, "copy", "--to", f"sqlite:///{target}/copy.db")
        backed_up = run(moved, "backup", f"{target}/backup.db")

    assert (copied[0], backed_up[0]) == (0, 0), copied[2] + backed_up[2]
    assert run(target / "copy.db", "threads")[1] == run(target / "backup.db", "threads")[1]


def test_mode_ro_in_the_url_refuses_a_write(filled: str, call: Call) -> None:
    answer = call("--db", f"{filled}?mode=ro", "delete", "airline-1")

    assert answer.code == 4
    assert answer.err.startswith("error [MA-READ-ONLY]: ")
    assert call("--db", f"{filled}?mode=ro", "threads").code == 0
