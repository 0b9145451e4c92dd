"""The nearest of 100,000 vectors, in SQLite and in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from benchmarks import vectors_postgres, vectors_sqlite
from benchmarks.corpus import vectors
from benchmarks.measure import Finding
from benchmarks.workload import Message

COUNT = 100_000
QUERIES = 40


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    matrix, queries = vectors(COUNT, seed=2), vectors(QUERIES, seed=3)
    async for finding in vectors_sqlite.measure(matrix, queries, directory, rounds):
        yield finding
    async for finding in vectors_postgres.measure(matrix, queries, new_database(), rounds):
        yield finding
