"""The statements that each database gets are the ones that people have reviewed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from golden import pretty, read, statements, unbroken, written

HERE = Path(__file__).parent
DATABASES = ("sqlite", "postgresql", "citus", "oracle")
AGAIN = "review the change, then run: MEMALCHEMY_GOLDEN=write pytest tests/golden"


@pytest.mark.parametrize("written_for", DATABASES)
def test_every_statement_is_the_reviewed_one(written_for: str) -> None:
    file = HERE / f"{written_for}.sql"
    if os.environ.get("MEMALCHEMY_GOLDEN") == "write":
        file.write_text(written(written_for))
    golden = read(file.read_text())
    compiled = {name: pretty(sql) for name, sql in statements(written_for)}

    assert compiled.keys() - golden.keys() == set(), f"new statements; {AGAIN}"
    assert golden.keys() - compiled.keys() == set(), f"statements that are gone; {AGAIN}"
    for name, sql in compiled.items():
        assert sql == golden[name], f"{name} has changed; {AGAIN}"


@pytest.mark.parametrize("written_for", DATABASES)
def test_reading_a_golden_file_is_reading_what_is_sent(written_for: str) -> None:
    for _, sql in statements(written_for):
        assert unbroken(pretty(sql)) == unbroken(sql)


@pytest.mark.parametrize("written_for", DATABASES)
def test_every_statement_has_a_name_of_its_own(written_for: str) -> None:
    names = [name for name, _ in statements(written_for)]
    assert sorted(set(names)) == sorted(names)
