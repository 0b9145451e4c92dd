"""A process that opens and closes many databases holds no more afterwards than after a few."""

from __future__ import annotations

from pathlib import Path

import pytest
from workers.memory_growth import growth

from servers import Postgres

FEW, MORE = 5, 20
"""The databases before the first count, and those between the first and the second."""
BLOCKS = 300
"""The blocks of memory of the interpreter that may be new for each database: a statement that only
some runs of a program send may first be built after the first count. A SQLAlchemy dialect that is
kept for each database has 900 and more.
"""


def expect_no_growth(kind: str, url: str) -> None:
    before, after = growth(kind, url, FEW, MORE)
    left = {
        name: count - before["objects"].get(name, 0)
        for name, count in after["objects"].items()
        if name.startswith(("memalchemy", "sqlalchemy.engine", "sqlalchemy.dialects"))
        and count > before["objects"].get(name, 0)
    }
    assert left == {}
    assert (after["blocks"] - before["blocks"]) / MORE < BLOCKS
    assert (after["threads"], after["files"]) == (before["threads"], before["files"])


@pytest.mark.parametrize(
    "kind",
    [
        *("closed", "loops", "encrypted", "signed", "tenants", "dropped", "engine"),
        *("sync", "sync-dropped"),
    ],
)
def test_files_leave_nothing(kind: str, tmp_path: Path) -> None:
    expect_no_growth(kind, f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("kind", ["closed", "dropped", "sync"])
def test_databases_in_memory_leave_nothing(kind: str) -> None:
    expect_no_growth(kind, "sqlite://")


@pytest.mark.parametrize(
    ("driver", "kind"),
    [
        *(("asyncpg", kind) for kind in ("closed", "loops", "dropped", "engine", "migrated")),
        *(("psycopg", kind) for kind in ("closed", "sync", "migrated")),
    ],
)
def test_databases_of_a_server_leave_nothing(
    postgres: Postgres, name: str, driver: str, kind: str
) -> None:
    expect_no_growth(kind, postgres.url(name, driver="psycopg" if driver == "psycopg" else ""))
