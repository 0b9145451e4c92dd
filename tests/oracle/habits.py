"""What the strict mode does to values: `pytest --strict-oracle tests/oracle/habits.py`.

Not collected by itself, because it holds in a process that has the strict mode only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, bindparam, delete, insert, literal, select, text, update
from sqlalchemy.exc import IntegrityError

from memalchemy import Checkpointer, Database
from memalchemy.errors import StatementFailed
from memalchemy.schema import StoreItemRow, ThreadRow
from oracle.test_binds import item

Work = Callable[[Connection], Any]


async def failing(db: Database, work: Work) -> str:
    """The database's own words about a statement that it refuses."""
    with pytest.raises(StatementFailed) as caught:
        await db.run_sync(work)
    return str(caught.value.__cause__)


@pytest.mark.parametrize("empty", ["", b""])
async def test_nothing_is_null(db: Database, empty: Any) -> None:
    found = await db.run_sync(
        lambda c: c.execute(
            text("SELECT CAST(:v AS TEXT) IS NULL").bindparams(bindparam("v", empty))
        ).scalar()
    )

    assert found


async def test_what_sql_computes_as_empty_is_read_as_null(db: Database) -> None:
    if not db.dialect.single_writer:
        pytest.skip("only SQLite's rows can be changed on their way out")
    assert await db.run_sync(lambda c: c.scalar(text("SELECT substr('a', 2)"))) is None


@pytest.mark.parametrize("column", ["value", "codec"])
async def test_an_empty_value_does_not_fit_where_one_must_be(db: Database, column: str) -> None:
    empty = b"" if column == "value" else ""
    row = item(tenant=db.tenant, **{column: empty})

    said = await failing(db, lambda c: c.execute(insert(StoreItemRow.__table__).values(row)))
    assert "null" in said.lower()


async def test_a_value_longer_than_its_column_is_refused(db: Database) -> None:
    row = item(tenant=db.tenant, codec="x" * 17)

    await failing(db, lambda c: c.execute(insert(StoreItemRow.__table__).values(row)))


async def test_a_long_text_is_for_large_columns_only(db: Database) -> None:
    long = "ü" * 2001
    row = item(tenant=db.tenant, search_text=long)
    await db.run_sync(lambda c: c.execute(insert(StoreItemRow.__table__).values(row)))
    looked_for = select(StoreItemRow.key).where(StoreItemRow.search_text == long)

    assert "ORA-01461" in await failing(db, lambda c: c.execute(looked_for))
    keyed = update(StoreItemRow).values(key="k").where(StoreItemRow.key == "k" * 4001)
    assert "ORA-01461" in await failing(db, lambda c: c.execute(keyed))


async def test_a_list_has_a_thousand_members_at_most(db: Database) -> None:
    def among(count: int) -> Work:
        ids = [literal(str(n)) for n in range(count)]
        return lambda c: c.execute(delete(ThreadRow).where(ThreadRow.thread_id.in_(ids)))

    await db.run_sync(among(1000))
    assert "ORA-01795" in await failing(db, among(1001))


async def test_the_programs_are_oracles(db: Database, checkpointer: Checkpointer) -> None:
    assert not db.dialect.upserts
    assert not db.dialect.single_statement_save
    await checkpointer.save({"a": 1}, "thread", "one", {"k": ""})

    assert [f["checkpoint_id"] for f in await checkpointer.query_by_metadata("k", "")] == ["one"]


async def test_a_statement_that_fails_leaves_its_transaction_alone(db: Database) -> None:
    put = insert(StoreItemRow.__table__).values(item(tenant=db.tenant))

    def twice(c: Connection) -> int:
        c.execute(put)
        with pytest.raises(IntegrityError):
            c.execute(put)
        return len(c.execute(select(StoreItemRow).where(StoreItemRow.tenant == db.tenant)).all())

    assert await db.run_sync(twice) == 1
