"""pgvector's operators on the mapped column of vectors, in queries of the host's own."""

from __future__ import annotations

import random
from typing import Any

import pytest
from sqlalchemy import Connection, select, text
from sqlalchemy.dialects import oracle, postgresql, sqlite
from sqlalchemy.exc import CompileError

from memalchemy import Database, Store
from memalchemy.dialects import vector_index_name
from memalchemy.schema import EmbeddingRow
from memalchemy.search.indexes import build_index

OPERATORS = {"cosine_distance": "cosine", "l2_distance": "l2", "max_inner_product": "dot"}
SIZE, LENGTH = 8, 300


def nearest(operator: str, wanted: list[float], tenant: str = "default") -> Any:
    distance = getattr(EmbeddingRow.vector, operator)(wanted)
    return (
        select(EmbeddingRow.key)
        .where(EmbeddingRow.dimensions == len(wanted), EmbeddingRow.tenant == tenant)
        .order_by(distance)
        .limit(5)
    )


@pytest.fixture
async def filled(db: Database) -> Store:
    """Items with vectors of one size, and one of another."""
    if db.dialect.name != "postgresql":
        pytest.skip("the operators are pgvector's")
    chance = random.Random(7)
    store = Store(db)
    for n in range(LENGTH):
        await store.put(("v",), f"k{n}", n, embedding=[chance.uniform(-1, 1) for _ in range(SIZE)])
    await store.put(("v",), "short", 0, embedding=[1.0, 0.0])
    return store


@pytest.mark.parametrize(("operator", "metric"), OPERATORS.items())
async def test_an_operator_finds_what_a_search_finds_and_uses_its_index(
    filled: Store, owner_url: str, operator: str, metric: str
) -> None:
    wanted = [0.5, -0.25, 0.75, 0.1, -0.9, 0.3, 0.2, -0.4]
    store = Store(filled.db, metric=metric)
    found = await store.search(("v",), embedding=wanted, limit=5)
    async with Database(owner_url) as owner:
        await build_index(owner, dimensions=SIZE, metric=metric)
    query = nearest(operator, wanted, filled.db.tenant)

    def look(connection: Connection) -> tuple[list[str], str]:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        connection.execute(text("SET LOCAL enable_sort = off"))
        keys = list(connection.scalars(query))
        literal = query.compile(connection, compile_kwargs={"literal_binds": True})
        plan = connection.execute(text(f"EXPLAIN {literal}".replace(":", r"\:"))).scalars()
        return keys, "\n".join(plan)

    async with filled.db.transaction() as connection:
        keys, plan = await connection.run_sync(look)
    assert keys == [hit.key for hit in found]
    assert vector_index_name(metric, SIZE) in plan


@pytest.mark.parametrize("operator", OPERATORS)
def test_sqlite_says_that_it_has_no_operators(operator: str) -> None:
    with pytest.raises(CompileError, match=r"Store\.search"):
        str(nearest(operator, [1.0, 2.0]).compile(dialect=sqlite.dialect()))


@pytest.mark.parametrize("operator", OPERATORS)
def test_oracle_compares_the_column_itself(operator: str) -> None:
    sql = str(nearest(operator, [1.0, 2.0]).compile(dialect=oracle.dialect()))

    assert "HALFVEC" not in sql.upper()


def test_an_operator_of_a_column_compares_exactly() -> None:
    other = EmbeddingRow.vector.cosine_distance(EmbeddingRow.vector)
    long = EmbeddingRow.vector.cosine_distance([0.0] * 4001)

    for expression in (other, long):
        assert (
            "HALFVEC" not in str(select(expression).compile(dialect=postgresql.dialect())).upper()
        )
