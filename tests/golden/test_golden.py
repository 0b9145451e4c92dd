"""The statements that each database gets are the ones that people have reviewed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from golden import canonical, digest, digests, pretty, read, statements, unbroken, written

HERE = Path(__file__).parent
DATABASES = ("sqlite", "postgresql", "citus", "oracle")
AGAIN = "review the change, then run: MEMALCHEMY_GOLDEN=write pytest tests/golden"
SHOW = "python tests/golden/show.py --since main shows each text that differs"


@pytest.mark.parametrize("written_for", DATABASES)
def test_every_family_has_the_reviewed_text(written_for: str) -> None:
    file = HERE / f"{written_for}.sql"
    compiled = canonical(written_for)
    if os.environ.get("MEMALCHEMY_GOLDEN") == "write":
        file.write_text(written(compiled))
    golden = read(file.read_text())

    assert compiled.keys() - golden.keys() == set(), f"new statements; {AGAIN}"
    assert golden.keys() - compiled.keys() == set(), f"statements that are gone; {AGAIN}"
    for name, sql in compiled.items():
        assert sql == golden[name], f"{name} has changed; {AGAIN}"


@pytest.mark.parametrize("written_for", DATABASES)
def test_every_statement_has_the_digest_of_a_reviewed_one(written_for: str) -> None:
    file = HERE / f"{written_for}.digests"
    found = digests(written_for)
    if os.environ.get("MEMALCHEMY_GOLDEN") == "write":
        file.write_text("".join(f"{sum_} {name}\n" for name, sum_ in found.items()))
    lines = (line.split(" ", 1) for line in file.read_text().splitlines())
    reviewed = {name: sum_ for sum_, name in lines}

    assert found.keys() - reviewed.keys() == set(), f"new statements; {AGAIN}"
    assert reviewed.keys() - found.keys() == set(), f"statements that are gone; {AGAIN}"
    changed = [name for name, sum_ in found.items() if sum_ != reviewed[name]]
    assert changed == [], f"{SHOW}; {AGAIN}"


@pytest.mark.parametrize("written_for", DATABASES)
def test_reading_a_golden_file_is_reading_what_is_sent(written_for: str) -> None:
    for _, sql in statements(written_for):
        assert unbroken(pretty(sql)) == unbroken(sql)


@pytest.mark.parametrize("written_for", DATABASES)
def test_every_statement_has_a_name_of_its_own(written_for: str) -> None:
    names = [name for name, _ in statements(written_for)]
    assert sorted(set(names)) == sorted(names)


def test_a_digest_tells_texts_apart_and_not_how_they_are_broken() -> None:
    assert digest("SELECT a FROM b") == digest("SELECT a\nFROM b")
    assert digest("SELECT a FROM b") != digest("SELECT a FROM c")


def shown(*arguments: str) -> str:
    command = [sys.executable, str(HERE / "show.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_any_text_can_be_shown() -> None:
    told = shown("log.heads.lock_log", "--database", "postgresql")

    assert told.startswith("-- postgresql: log.heads.lock_log()\nSELECT")
    assert told.rstrip().endswith("FOR UPDATE OF threads")


def test_what_has_changed_since_a_commit_is_shown(tmp_path: Path) -> None:
    repository = Path(__file__).parents[2]
    is_clone = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True)
    if is_clone.returncode:
        pytest.skip("the tests are not in a clone")
    told = shown("log.heads", "--database", "sqlite", "--since", "HEAD")

    assert told in ("", "nothing differs\n") or told.startswith(("-- sqlite", "---"))
