"""Rows that SQLAlchemy cannot read, on a host's connection: they are named, and nothing is sent
twice that writes.
"""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, Table, select, text, update
from sqlalchemy.ext.asyncio import create_async_engine

from host_urls import async_url
from memalchemy import Corrupt, Database, Store
from memalchemy._unreadable_rows import UnreadableRows
from memalchemy.database.compiled import execute_with_sqlalchemy
from memalchemy.schema import Base

pytestmark = [
    pytest.mark.asyncio_only("the host's engine is asynchronous"),
    pytest.mark.unsigned_only("the row is edited"),
]

ITEMS: Table = Base.metadata.tables["store_items"]


@pytest.mark.parametrize("edit", ["meta = '[1]'", "updated_at = 'x'"])
async def test_the_error_names_the_row(db: Database, shared_url: str, edit: str) -> None:
    if shared_url == "sqlite://":
        pytest.skip("a host's engine cannot reach a database in memory that is not its own")
    if edit.endswith("'x'") and db.dialect.name != "sqlite":
        return  # its columns take values of their types alone
    store = Store(db)
    for key in ("bad", "good"):
        await store.put(("n",), key, 1)
    column = edit.split()[0]
    where = f"tenant = '{db.tenant}' AND key = 'bad'"
    await db.run_sync(lambda c: c.execute(text(f"UPDATE store_items SET {edit} WHERE {where}")))
    engine = create_async_engine(async_url(shared_url))
    async with engine.connect() as connection:
        with pytest.raises(Corrupt, match=rf"key 'bad'\): {column} is not what it should be"):
            await store.list_items(("n",), connection=connection)
    await engine.dispose()


@pytest.mark.parametrize("inner", [False, True], ids=["update", "query of an update"])
async def test_a_statement_that_writes_is_sent_once(db: Database, inner: bool) -> None:
    if inner and db.dialect.name != "postgresql":
        return  # it has no such queries
    await Store(db).put(("n",), "bad", 1)
    of_tenant = ITEMS.c.tenant == db.tenant
    write = update(ITEMS).where(of_tenant).values(version=ITEMS.c.version + 1)
    write = write.returning(ITEMS.c.meta)

    def work(connection: Connection) -> None:
        connection.execute(
            text(f"UPDATE store_items SET meta = '[1]' WHERE tenant = '{db.tenant}'")
        )
        statement = select(write.cte()) if inner else write
        with pytest.raises(UnreadableRows) as told:
            execute_with_sqlalchemy(connection, statement, {}, {})
        assert not told.value.damaged
        assert connection.scalar(select(ITEMS.c.version).where(of_tenant)) == 2

    await db.run_sync(work)
