"""The statements that spread the tables fit them: every one is there, and every key allows it.

Neither Citus nor a partitioned Oracle runs here; this compares text with metadata and scripts. The
tests in tests/citus run the statements.
"""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa

from memalchemy import Database, migrate
from memalchemy.dialects import DIALECTS
from memalchemy.dialects.base import placement
from memalchemy.schema import Base
from oracle.lint import keys, lint_sql
from servers import Postgres

TEXT_INDEXES = {"ix_deltas_search_text", "ix_store_items_search"}
TABLES = {table.name: table for table in Base.metadata.sorted_tables}
CITUS = re.compile(
    r"SELECT create_distributed_table\('(?P<table>\S+)', '(?P<column>\w+)', "
    r"colocate_with => '(?P<group>\S+)'(?:, shard_count => (?P<shards>\d+))?\);"
)
PARTITIONS = re.compile(
    r"ALTER TABLE (?P<table>\w+) MODIFY PARTITION BY HASH \((?P<column>\w+)\) "
    r"PARTITIONS (?P<parts>\d+) UPDATE INDEXES \((?P<indexes>[^()]+)\);"
)


def citus(schema: str | None = None, *, shards: int | None = None) -> list[str]:
    return DIALECTS["postgresql"].maintenance.distribution_commands(schema, shards)


def oracle_partitions(schema: str | None = None, *, parts: int | None = None) -> list[str]:
    return DIALECTS["oracle"].maintenance.distribution_commands(schema, parts)


def read(pattern: re.Pattern[str], statements: list[str]) -> dict[str, re.Match[str]]:
    found = [pattern.fullmatch(statement) for statement in statements]
    return {match["table"]: match for match in found if match}


def created_on(dialect: str) -> dict[str, tuple[str, bool]]:
    """Every index that the migrations make: its table, and whether it is unique."""
    script = migrate.offline(dialect)
    pattern = r"CREATE (UNIQUE )?INDEX (\w+) ON (\w+)"
    return {name: (table, bool(unique)) for unique, name, table in re.findall(pattern, script)}


@pytest.mark.parametrize(("pattern", "make"), [(CITUS, citus), (PARTITIONS, oracle_partitions)])
def test_every_table_is_spread_by_a_column_of_its_own(
    pattern: re.Pattern[str], make: object
) -> None:
    spread = read(pattern, make())  # type: ignore[operator]

    assert set(spread) == set(TABLES)
    assert {name: spread[name]["column"] for name in TABLES} == {
        "threads": "log_id",
        "checkpoints": "log_id",
        "deltas": "log_id",
        "store_items": "namespace",
        "embeddings": "namespace",
    }
    for name, match in spread.items():
        assert match["column"] in TABLES[name].c


async def test_the_names_in_the_statements_are_those_of_the_tables(postgres: Postgres) -> None:
    schema = "My \"o'dd"
    name = postgres.create_database()
    async with Database(postgres.url(name), schema=schema, migrate="off") as db:
        await db.migrate()
    # Citus' function by its signature: PostgreSQL resolves the names and arguments.
    postgres.execute(
        "CREATE TABLE public.called (spread regclass, by_column text, colocated regclass);"
        "CREATE FUNCTION create_distributed_table(table_name regclass, distribution_column text, "
        "distribution_type text = 'hash', colocate_with text = 'default', shard_count int = NULL) "
        "RETURNS void LANGUAGE sql AS 'INSERT INTO public.called VALUES ($1, $2, "
        "CASE $4 WHEN ''none'' THEN $1 ELSE $4::regclass END)';"
        "CREATE FUNCTION create_reference_table(table_name regclass) "
        "RETURNS void LANGUAGE sql AS 'INSERT INTO public.called VALUES ($1)';"
        "CREATE TABLE public.dropped (roots regclass);"
        "CREATE FUNCTION truncate_local_data_after_distributing_table(function_name regclass) "
        "RETURNS void LANGUAGE sql AS 'INSERT INTO public.dropped VALUES ($1)'",
        name,
    )
    for statement in citus(schema, shards=4):
        postgres.execute(statement, name)

    (dropped,) = postgres.execute("SELECT count(DISTINCT roots) FROM public.dropped", name)
    assert dropped == (3,)
    called = "SELECT relname, by_column FROM public.called JOIN pg_class ON pg_class.oid = "
    spread = dict(postgres.execute(called + "spread", name))
    assert spread.pop(migrate.VERSION_TABLE) is None
    assert spread == {table.name: column for table, _, column in placement()}
    assert {group for group, _ in postgres.execute(called + "colocated", name)} == {
        "threads",
        "store_items",
    }
    postgres.drop_database(name)


@pytest.mark.parametrize("table", TABLES)
def test_every_primary_and_unique_key_has_the_column_in_it(table: str) -> None:
    column = next(column for t, _, column in placement() if t.name == table)
    unique = {
        *(str(c.name) for c in TABLES[table].constraints if isinstance(c, sa.UniqueConstraint)),
        *(str(index.name) for index in TABLES[table].indexes if index.unique),
        str(TABLES[table].primary_key.name),
    }
    measured = {name: [c.name for c in columns] for name, columns in keys(TABLES[table])}

    for name in unique:
        assert column in measured[name], name


def test_a_table_is_spread_after_those_it_refers_to_and_together_with_them() -> None:
    spread = read(CITUS, citus())
    order = list(spread)

    for name, table in TABLES.items():
        referred = {key.referred_table.name for key in table.foreign_key_constraints}
        assert all(order.index(other) < order.index(name) for other in referred)
        assert spread[name]["group"] == (referred.pop() if referred else "none")
        # A foreign key between shards holds only where both sides are in the same one.
        for key in table.foreign_key_constraints:
            pairs = {element.parent.name: element.column.name for element in key.elements}
            assert pairs[spread[name]["column"]] == spread[key.referred_table.name]["column"]


def test_the_number_of_shards_is_said_once_for_each_group() -> None:
    spread = read(CITUS, citus(shards=64))

    assert {name for name, match in spread.items() if match["shards"]} == {"threads", "store_items"}
    assert "shard_count" not in "".join(citus())


def test_a_schema_is_part_of_every_name_and_is_quoted() -> None:
    for statement in citus("My \"o'dd"):
        assert '(\'"My ""o\'\'dd".' in statement
    assert oracle_partitions("Agents")[0] == 'ALTER SESSION SET CURRENT_SCHEMA = "Agents";'
    assert oracle_partitions()[0].startswith("DROP INDEX")


def test_partitions_name_every_index_that_the_migrations_make() -> None:
    made = created_on("oracle")
    for name, match in read(PARTITIONS, oracle_partitions()).items():
        constraints = {
            str(c.name)
            for c in TABLES[name].constraints
            if isinstance(c, (sa.PrimaryKeyConstraint, sa.UniqueConstraint))
        }
        wanted = {i for i, (table, _) in made.items() if table == name} | constraints
        named = {part.split()[0] for part in match["indexes"].split(", ")}
        assert named == wanted - TEXT_INDEXES


def test_only_a_unique_index_over_expressions_stays_global() -> None:
    placed = dict(
        part.split()
        for match in read(PARTITIONS, oracle_partitions()).values()
        for part in match["indexes"].split(", ")
    )

    assert [name for name, place in placed.items() if place == "GLOBAL"] == [
        "uq_deltas_entry_key_oracle"
    ]
    assert set(placed.values()) == {"LOCAL", "GLOBAL"}


def test_the_text_indexes_are_made_again_as_the_migrations_make_them() -> None:
    script = " ".join(migrate.offline("oracle").split())
    made = re.findall(r"CREATE INDEX (\w+) ON \w+ \(\w+\) INDEXTYPE", script)
    statements = oracle_partitions()

    assert statements[: len(made)] == [f"DROP INDEX {name};" for name in made]
    for name, statement in zip(made, statements[-len(made) :], strict=True):
        assert f"INDEX {name} " in statement
        assert statement.removesuffix(";") in script


@pytest.mark.parametrize("statement", oracle_partitions("agents", parts=64))
def test_a_partitioning_statement_falls_into_no_trap(statement: str) -> None:
    assert lint_sql(statement.removesuffix(";")) == []


@pytest.mark.parametrize("parts", [-2, 0, 1, 7, 24])
def test_partitions_are_a_power_of_two(parts: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        oracle_partitions(parts=parts)
