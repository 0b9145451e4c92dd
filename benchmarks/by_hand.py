"""Floors: one statement, written by hand, by the driver alone, on a connection set up as ours."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg

from memalchemy.dialects.sqlite import prepare_connection


def connect(path: Path | str) -> sqlite3.Connection:
    """A connection to a SQLite file, with the settings of ours and no transactions of its own."""
    connection = sqlite3.connect(path, isolation_level=None)
    prepare_connection(connection, synchronous="FULL")
    return connection


@asynccontextmanager
async def by_hand(place: Path | str) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """A function that takes a statement and its values, and fetches the rows.

    By sqlite3, without a thread, or by asyncpg, which prepares the statement once.
    """
    if isinstance(place, str):
        server = await asyncpg.connect(place)
        try:
            yield server.fetch
        finally:
            await server.close()
        return
    with closing(connect(place)) as file:

        async def fetch(sql: str, *values: Any) -> list[Any]:
            return file.execute(sql, values).fetchall()

        yield fetch
