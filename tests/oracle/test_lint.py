"""No statement and no table falls into a known trap of Oracle; and the lint knows its traps."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import oracle

from golden import statements
from memalchemy import migrate
from memalchemy.schema import Base
from oracle.lint import ORACLE_KEY_BYTES, RULES, keys, lint_sql, lint_table

STATEMENTS = dict(statements("oracle"))
TABLES = Base.metadata.sorted_tables


def test_no_statement_falls_into_a_trap() -> None:
    trapped = {name: found for name, sql in STATEMENTS.items() if (found := lint_sql(sql))}

    assert len(STATEMENTS) > 500
    assert trapped == {}


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_a_table_falls_into_no_trap(table: sa.Table) -> None:
    assert lint_table(table) == []


def test_every_key_is_measured() -> None:
    measured = {name: columns for table in TABLES for name, columns in keys(table)}

    assert [c.name for c in measured["pk_checkpoints"]] == ["log_id", "seq"]
    assert [c.name for c in measured["uq_deltas_entry_key_oracle"]] == ["log_id", "entry_key"]
    assert len(measured) > 12


def test_the_script_of_the_migrations_falls_into_no_trap() -> None:
    script = migrate.offline("oracle")
    apart = {"a zoned time"}  # SYS_EXTRACT_UTC(SYSTIMESTAMP) is naive

    commands = [part.strip() for part in script.replace(";", "\n/").split("\n/") if part.strip()]
    assert len(commands) > 15
    for command in commands:
        assert set(lint_sql(command)) - apart == set(), command
    assert "VARCHAR2(" in script
    assert "VARCHAR2 " not in script
    assert ":ret" not in script


BAD = {
    "LIMIT is FETCH FIRST here": "SELECT a.b FROM a LIMIT 1",
    "a bare true or false": "SELECT a.b FROM a WHERE true",
    "IS goes with NULL only": "SELECT a.b FROM a WHERE a.b IS 1",
    "a number is not a condition": "SELECT a.b FROM a WHERE 1",
    "a condition is not a value": "SELECT a.b FROM a WHERE json_equal(a.b, :c) = 1",
    "FOR UPDATE with FETCH is ORA-02014": (
        "SELECT a.b FROM a FETCH FIRST 1 ROWS ONLY FOR UPDATE SKIP LOCKED"
    ),
    "FOR UPDATE OF takes columns": "SELECT a.b FROM a FOR UPDATE OF ",
    "UNION without ALL in a WITH clause": (
        "WITH c(b) AS (SELECT a.b FROM a UNION SELECT c.b FROM c) SELECT c.b FROM c"
    ),
    "WITH RECURSIVE": "WITH RECURSIVE c(b) AS (SELECT a.b FROM a) SELECT c.b FROM c",
    "a recursive WITH names its columns": (
        "WITH c AS (SELECT a.b FROM a UNION ALL SELECT c.b FROM c) SELECT c.b FROM c"
    ),
    "WITH inside of WITH is ORA-32034": (
        "WITH c AS (WITH d AS (SELECT a.b FROM a) SELECT d.b FROM d) SELECT c.b FROM c"
    ),
    "WITH before DELETE, UPDATE or INSERT": (
        "WITH c AS (SELECT a.b FROM a) DELETE FROM a WHERE a.b IN (SELECT c.b FROM c)"
    ),
    "an empty text is NULL": "SELECT a.b FROM a WHERE a.b = ''",
    "a LOB in GROUP BY": "SELECT count(*) FROM deltas GROUP BY deltas.search_text",
    "a LOB in ORDER BY": "SELECT deltas.seq FROM deltas ORDER BY deltas.seq, deltas.payload",
    "a LOB in DISTINCT": "SELECT DISTINCT checkpoints.seq, checkpoints.meta FROM checkpoints",
    "a LOB compared": "SELECT a.b FROM deltas WHERE deltas.search_text = :x",
    "a JSON path is a literal": "SELECT a.b FROM a WHERE JSON_EXISTS(a.c, :path)",
    "ERROR ON ERROR fails on a missing key": (
        "SELECT a.b FROM a WHERE JSON_VALUE(a.c, '$.k' ERROR ON ERROR) = :v"
    ),
    "a table's alias takes no AS": "SELECT x.b FROM a AS x",
    "several rows of VALUES": "INSERT INTO a (b) VALUES (:b1), (:b2)",
    "RETURNING needs INTO, and DML": "DELETE FROM a WHERE a.b = :b RETURNING a.b",
    "ON CONFLICT": "INSERT INTO a (b) VALUES (:b) ON CONFLICT DO NOTHING",
    "MERGE with a large bind is ORA-01461": "MERGE INTO a USING (SELECT :b b FROM dual) s ON (1=1)",
    "a cast by two colons": "SELECT a.b::text FROM a",
    "another database's operator": "SELECT a.b FROM a WHERE a.b % :two = :one",
    "another database's function": "SELECT group_concat(a.b) FROM a",
    "CONTAINS is a number": "SELECT a.b FROM a WHERE CONTAINS (a.b, :t)",
    "a reserved word as a name": "SELECT count(*) AS rows FROM a",
    "a bind without a name": "SELECT a.b FROM a WHERE a.b = ?",
    "a zoned time": "SELECT CURRENT_TIMESTAMP FROM dual",
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_finds_its_trap(rule: str) -> None:
    assert rule in lint_sql(BAD[rule])


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT x.rows FROM a x", "a reserved word as a name"),
        ("SELECT a.b FROM a WHERE a.b = :rows", "a reserved word as a name"),
        ("WITH rows AS (SELECT a.b FROM a) SELECT a.b FROM a", "a reserved word as a name"),
        ("SELECT level.b FROM a level", "a reserved word as a name"),
        ("SELECT a.b FROM (SELECT a.b FROM a) AS x WHERE a.b = :c", "a table's alias takes no AS"),
        ("SELECT a.b FROM a FOR UPDATE OF a", "FOR UPDATE OF takes columns"),
        ("SELECT a.b FROM deltas WHERE :x = deltas.payload", "a LOB compared"),
        ("SELECT e.b FROM e ORDER BY vector_distance(e.b, :v), e.vector", "a LOB in ORDER BY"),
        ("SELECT a.b FROM a WHERE a.b @> :c", "another database's operator"),
    ],
)
def test_a_rule_finds_its_trap_in_other_forms(sql: str, rule: str) -> None:
    assert rule in lint_sql(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST(a.b AS FLOAT) FROM a WHERE a.c IS NOT NULL",
        "UPDATE threads SET meta=:p_meta WHERE threads.tenant = :k_tenant",
        "SELECT a.b FROM a WHERE a.b = 'LIMIT 1 ? true AS rows'",
        "INSERT INTO a (b, c) VALUES (coalesce(:b, :d), :c) RETURNING a.b INTO :ret_0",
        "SELECT e.part FROM e ORDER BY vector_distance(e.vector, :v, COSINE), e.part",
        "SELECT a.b FROM a x WHERE contains(a.b, :t) > :zero FETCH FIRST :n ROWS ONLY",
    ],
)
def test_good_sql_passes(sql: str) -> None:
    assert lint_sql(sql) == []


def _table(*items: sa.schema.SchemaItem, name: str = "bad") -> sa.Table:
    return sa.Table(name, sa.MetaData(), *items)


WIDE = [sa.Column(name, sa.String(1000), primary_key=True) for name in ("a", "b", "c")]
BAD_TABLES: list[tuple[str, sa.Table]] = [
    ("bytes on Oracle", _table(*WIDE)),
    ("bytes on PostgreSQL", _table(*(c._copy() for c in WIDE))),
    ("a LOB, in its key", _table(sa.Column("a", sa.LargeBinary, unique=True))),
    ("String without a length", _table(sa.Column("a", sa.String))),
    ("longer than 1,000", _table(sa.Column("a", sa.String(1001)))),
    ("is a Boolean", _table(sa.Column("a", sa.Boolean))),
    ("is a DATE", _table(sa.Column("a", sa.DateTime))),
    ("has a time zone", _table(sa.Column("a", oracle.TIMESTAMP(timezone=True)))),
    ("bad.session is a reserved word", _table(sa.Column("session", sa.Integer))),
    ("level is a reserved word", _table(sa.Column("a", sa.Integer), name="level")),
    ("has the default ''", _table(sa.Column("a", sa.String(1), server_default=""))),
    (
        "needs an Identity",
        _table(sa.Column("a", sa.Integer, primary_key=True, autoincrement=True)),
    ),
    ("has no index", _table(sa.Column("a", sa.Integer, sa.ForeignKey("other.a")))),
    (
        "has ON UPDATE",
        _table(sa.Column("a", sa.Integer, sa.ForeignKey("other.a", onupdate="CASCADE"))),
    ),
    ("too long a name", _table(sa.Column("a", sa.Integer), sa.Index("x" * 64, "a"))),
]


@pytest.mark.parametrize(("complaint", "table"), BAD_TABLES, ids=[c for c, _ in BAD_TABLES])
def test_a_rule_finds_its_table(complaint: str, table: sa.Table) -> None:
    assert [found for found in lint_table(table) if complaint in found]


def test_a_key_over_an_expression_counts_its_columns() -> None:
    wide = sa.Column("wide", sa.String(ORACLE_KEY_BYTES // 4 + 1))
    case = sa.case((sa.column("a").is_not(None), sa.column("wide")))
    table = _table(sa.Column("a", sa.Integer), wide, sa.Index("x", case))

    assert [found for found in lint_table(table) if "x has a key of" in found]
