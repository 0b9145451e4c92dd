"""A write in a transaction does not deadlock with a revision that alters the tables of logs.

A revision locks `threads`, then `deltas`, then `checkpoints`, each until it commits. A write that
reads another of them first, and then waits for `threads`, would hold what the revision needs next:
the server would end one of the two, and nobody repeats the transaction of a host.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from write_operations import WRITES, Write, fill

from memalchemy import Database
from servers import Postgres, migrated_database
from waiting import until

pytestmark = [
    pytest.mark.asyncio_only("the locks are those of the same statements"),
    pytest.mark.own_keys,
    pytest.mark.own_signing_keys,
]

WITH_A_CONNECTION = [
    pytest.param(write, id=write.name) for write in WRITES if write.takes_connection
]


@pytest.fixture(scope="module")
def name(postgres: Postgres) -> Any:
    """A database that nobody else locks."""
    with migrated_database(postgres) as name:
        yield name


@pytest.fixture
async def revision(postgres: Postgres, name: str) -> AsyncIterator[asyncpg.Connection]:
    """A transaction that alters tables."""
    connection = await asyncpg.connect(postgres.url(name))
    try:
        yield connection
    finally:
        await connection.close()


async def waits_for_threads(revision: asyncpg.Connection) -> bool:
    query = "SELECT 1 FROM pg_locks WHERE relation = 'threads'::regclass AND NOT granted"
    return await revision.fetchval(query) is not None


@pytest.mark.parametrize("write", WITH_A_CONNECTION)
async def test_a_write_waits_for_threads_before_it_holds_what_a_revision_alters_next(
    postgres: Postgres, name: str, revision: asyncpg.Connection, write: Write
) -> None:
    url, tenant = postgres.url(name), f"t-{uuid.uuid4().hex[:16]}"
    async with Database(url, tenant=tenant) as db:
        await fill(db)
    async with Database(url, tenant=tenant) as db:

        async def in_a_transaction() -> None:
            async with db.transaction() as tx:
                await write.call(db, {"connection": tx})

        async with revision.transaction():
            await revision.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE")
            writing = asyncio.create_task(in_a_transaction())

            async def is_done_or_waits() -> bool:
                return writing.done() or await waits_for_threads(revision)

            await until(is_done_or_waits)
            for table in ("deltas", "checkpoints"):
                # Not NOWAIT: autovacuum may hold it, too, and gives way to who waits.
                await revision.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        await writing
