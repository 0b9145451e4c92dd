"""A node that takes no writes is left when the server's name leads to another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy import CapabilityMissing, Checkpointer, Database, Store
from memalchemy.maintenance import tenants
from servers import Postgres, give_rights

pytestmark = pytest.mark.asyncio_only("what is under the synchronous face is the same")

APPLICATION = "ma_failover"
WAYS = ("asyncpg", "psycopg", "asyncpg walled", "psycopg walled", "asyncpg host", "psycopg host")
POOL = 5


class Name:
    """The name of a server, which leads new connections to a replica or to the primary."""

    def __init__(self, server: Postgres, database: str) -> None:
        self.server, self.database = server, database

    def leads_to_a_replica(self) -> None:
        self.server.execute(
            f"ALTER DATABASE {self.database} SET default_transaction_read_only = on"
        )

    def leads_to_the_primary(self) -> None:
        self._set("RESET default_transaction_read_only")

    def _set(self, setting: str) -> None:
        self.server.execute(f"ALTER DATABASE {self.database} {setting}")


@pytest.fixture
def name(postgres: Postgres) -> Name:
    return Name(postgres, postgres.create_database())


@pytest.fixture(params=WAYS)
async def db(
    request: pytest.FixtureRequest, postgres: Postgres, name: Name
) -> AsyncIterator[Database]:
    driver, *more = request.param.split()
    url, owner = postgres.url(name.database, driver=driver), Database(postgres.url(name.database))
    await owner.migrate()
    if more == ["walled"]:
        await tenants.enforce(owner)
        give_rights(postgres, APPLICATION, name.database)
        url = postgres.url(name.database, driver=driver, user=APPLICATION)
    await owner.close()
    engine = create_async_engine(url) if more == ["host"] else None
    name.leads_to_a_replica()
    async with Database(engine or url) as made:
        yield made
        assert (await made.health())["checked_out"] == 0
    if engine is not None:
        await engine.dispose()
    postgres.drop_database(name.database)


async def _read_with_all(db: Database) -> None:
    """Fill the pool with connections to where the name leads now."""

    async def read() -> None:
        async with db.transaction() as tx:
            await tx.execute(text("SELECT pg_sleep(0.01)"))

    await asyncio.gather(*(read() for _ in range(POOL)))


async def _in_transaction(db: Database) -> None:
    async with db.transaction() as tx:
        await Store(db).put(("n",), "k", 1, connection=tx)


WRITES: dict[str, Callable[[Database], Awaitable[Any]]] = {
    "save": lambda db: Checkpointer(db).save({"a": 1}, "thread"),
    "put": lambda db: Store(db).put(("n",), "k", 1),
    "put_batch": lambda db: Store(db).put_batch([(("n",), "a", 1), (("n",), "b", 1)]),
    "many puts": lambda db: asyncio.gather(
        *(Store(db).put(("n",), str(number), 1) for number in range(3 * POOL))
    ),
    "delete": lambda db: Store(db).delete(("n",), "k"),
    "transaction": _in_transaction,
    "many transactions": lambda db: asyncio.gather(*(_in_transaction(db) for _ in range(POOL))),
    "run_sync": lambda db: db.run_sync(
        lambda c: c.execute(text("UPDATE store_items SET version = 1 WHERE false"))
    ),
    "check": lambda db: db.check(),
}


@pytest.mark.parametrize("write", WRITES)
async def test_connections_to_a_node_that_takes_no_writes_are_given_up(
    db: Database, name: Name, write: str
) -> None:
    await _read_with_all(db)
    with pytest.raises(CapabilityMissing, match="takes no writes"):
        await WRITES["put" if write == "run_sync" else write](db)
    await _read_with_all(db)
    name.leads_to_the_primary()
    await WRITES[write](db)
    for one in WRITES.values():
        await one(db)


async def test_reads_go_on_and_a_check_says_that_writes_would_fail(db: Database) -> None:
    assert await Store(db).get(("n",), "k") is None
    for _ in range(3):
        with pytest.raises(CapabilityMissing, match="takes no writes"):
            await db.check()
    url = db._backend.url
    async with Database(url, read_only=True) as reading:
        await reading.check()


async def test_a_host_goes_on_after_the_savepoint_that_could_not_write(db: Database) -> None:
    async with db.transaction() as tx:
        assert await tx.scalar(text("SELECT 1")) == 1
        with suppress(CapabilityMissing):
            async with tx.begin_nested():
                await Store(db).put(("n",), "k", 1, connection=tx)
        assert await tx.scalar(text("SELECT 2")) == 2
