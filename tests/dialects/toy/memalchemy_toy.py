"""A third party's dialect in one file: SQLite's SQL under another name.

The directory of this file stands on `sys.path` as an installed package does, with its entry point
beside it. ``pytest --databases toy tests/behaviour`` runs the behavioural suite on it.
"""

from __future__ import annotations

import sqlite3
from typing import Any, ClassVar

from sqlalchemy.engine import URL

from memalchemy.dialects import Dialect, Failure, Target
from memalchemy.dialects.sqlite import (
    SQLite,
    SQLiteMaintenance,
    SQLiteStatements,
    SQLiteTextIndexes,
    SQLiteVectors,
)
from memalchemy.errors import UnknownURL

_SQLITE = SQLite()


class ToyMaintenance(SQLiteMaintenance):
    """SQLite's, with a version of its own."""

    server_version: ClassVar[str] = "SELECT sqlite_version() || ' as a toy'"


class Toy(Dialect):
    """A database in a file: ``toy:///path/to/file``."""

    name: ClassVar[str] = "toy"
    sqlalchemy_name: ClassVar[str] = "sqlite"
    single_writer: ClassVar[bool] = True
    dynamic_types: ClassVar[bool] = True
    driver_errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)

    statements = SQLiteStatements()
    text = SQLiteTextIndexes()
    vectors = SQLiteVectors()
    maintenance = ToyMaintenance()

    def read_url(self, url: URL, driver: str) -> Target:
        if driver or url.host or url.query or not url.database:
            raise UnknownURL("a toy is a file: toy:///path/to/file")
        shown = f"toy:///{url.database}"
        return Target(self.name, URL.create("sqlite", database=url.database), shown, url.database)

    def in_transaction(self, raw: Any) -> bool:
        return _SQLITE.in_transaction(raw)

    def abandon(self, raw: Any) -> bool:
        return _SQLITE.abandon(raw)

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        return _SQLITE.classify(error)
