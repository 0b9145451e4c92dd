"""A process that has opened and closed a thousand databases is as large as after ten."""

from __future__ import annotations

from pathlib import Path

import pytest
from workers.memory_growth import growth

from servers import Postgres

FEW, MORE = 10, 990
BLOCKS = 5
"""The blocks of memory that may be new for each database: statements that were built late."""
RESIDENT = 6 * 2**20
"""The bytes that the process may grow by: on two drivers 2 MB were measured. The dialects that
SQLAlchemy keeps of closed engines, 128 at most, have 12 MB.
"""


def expect_no_growth(kind: str, url: str) -> None:
    before, after = growth(kind, url, FEW, MORE)
    assert (after["blocks"] - before["blocks"]) / MORE < BLOCKS
    assert after["resident"] - before["resident"] < RESIDENT
    assert (after["threads"], after["files"]) == (before["threads"], before["files"])


@pytest.mark.parametrize("kind", ["closed", "encrypted", "signed", "sync"])
def test_a_thousand_files_leave_nothing(kind: str, tmp_path: Path) -> None:
    expect_no_growth(kind, f"sqlite:///{tmp_path}")


def test_a_thousand_databases_in_memory_leave_nothing() -> None:
    expect_no_growth("closed", "sqlite://")


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_a_thousand_databases_of_a_server_leave_nothing(
    postgres: Postgres, name: str, driver: str
) -> None:
    expect_no_growth("closed", postgres.url(name, driver="psycopg" if driver == "psycopg" else ""))
