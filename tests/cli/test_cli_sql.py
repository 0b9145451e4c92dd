"""The command sql: answers in each format, limits, the cache, and exit codes."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import Call, process

from memalchemy import Checkpointer, Database, Store
from memalchemy.codec.encryption import generate_key

sys.path.append(str(Path(__file__).parent.parent / "analysis"))
from histories import History

duckdb = pytest.importorskip("duckdb")

ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r"
UNSTOPPABLE = "select list_sum(range(200000000))"
"""DuckDB does not interrupt what a function does with one row."""


VALUES = {
    "BIGINT": "9223372036854775807",
    "BIGNUM": "repeat('9', 5000)::bignum",
    "BIT": "'101'::bit",
    "BLOB": "'\\xFF'::blob",
    "BOOLEAN": "true",
    "DATE": "date '2026-11-01'",
    "DATE, infinite": "date '-infinity'",
    "DATE, before Christ": "date '0044-03-15 (BC)'",
    "DECIMAL": "1.50::decimal(38, 20)",
    "DOUBLE": "1.5::double",
    "DOUBLE, infinite": "'-inf'::double",
    "DOUBLE, no number": "'nan'::double",
    "ENUM": "'a'::enum('a', 'b')",
    "FLOAT": "'inf'::float",
    "GEOMETRY": "'POINT(1 2)'::geometry",
    "HUGEINT": "1::hugeint << 100",
    "INTEGER": "1",
    "INTERVAL": "interval '1 day 2 hours'",
    "INTERVAL, negative": "interval '-1 second'",
    "JSON": "'{\"a\": 1}'::json",
    "SMALLINT": "1::smallint",
    "TIME": "time '10:00'",
    "TIME, at midnight": "time '24:00:00'",
    "TIME WITH TIME ZONE": "'10:00:00+02'::timetz",
    "TIME_NS": "time_ns '10:00:00.123456789'",
    "TIMESTAMP": "timestamp '2026-11-01 10:00'",
    "TIMESTAMP, infinite": "timestamp 'infinity'",
    "TIMESTAMP WITH TIME ZONE": "timestamptz '2026-11-01 10:00+02'",
    "TIMESTAMP_MS": "timestamp_ms '2026-11-01'",
    "TIMESTAMP_NS": "timestamp_ns '2026-11-01'",
    "TIMESTAMP_S": "timestamp_s '2026-11-01'",
    "TINYINT": "1::tinyint",
    "UBIGINT": "18446744073709551615",
    "UHUGEINT": "340282366920938463463374607431768211455",
    "UINTEGER": "1::uinteger",
    "USMALLINT": "1::usmallint",
    "UTINYINT": "1::utinyint",
    "UUID": "'00000000-0000-0000-0000-000000000001'::uuid",
    "VARCHAR": "chr(27) || chr(8238) || 'a'",
    "NULL": "null",
}
"""An SQL value of each type of DuckDB that holds no other."""
NESTED = {
    "LIST": "[{0}, null]",
    "ARRAY": "array_value({0}, null)",
    "STRUCT": "{{'a': {0}}}",
    "TUPLE": "row({0}, 1)",
    "MAP": "map{{'a': {0}}}",
    "UNION": "union_value(a := {0})",
    "VARIANT": "({0})::variant",
}
"""SQL of a value of each type of DuckDB that holds another."""
KEYS = ("BLOB", "BOOLEAN", "DATE", "DECIMAL", "INTERVAL", "TIME", "TIMESTAMP", "UUID")
"""Types that are tried as keys of a map, too."""
WRITTEN = {
    "BIT": "101",
    "BLOB": "/w==",
    "DATE": "2026-11-01",
    "DECIMAL": "1.50000000000000000000",
    "DOUBLE, infinite": "-inf",
    "DOUBLE, no number": "nan",
    "ENUM": "a",
    "HUGEINT": 2**100,
    "INTERVAL": "1 day, 2:00:00",
    "INTERVAL, negative": "-1 day, 23:59:59",
    "NULL": None,
    "TIME": "10:00:00",
    "TIME, at midnight": "24:00:00",
    "TIMESTAMP": "2026-11-01T10:00:00",
    "UUID": "00000000-0000-0000-0000-000000000001",
    "LIST of INTERVAL": ["1 day, 2:00:00", None],
    "STRUCT of TIME": {"a": "10:00:00"},
    "UNION of INTERVAL": "1 day, 2:00:00",
    "key BLOB": {"/w==": 1},
    "key INTERVAL": {"1 day, 2:00:00": 1},
    "key TIMESTAMP": {"2026-11-01T10:00:00": 1},
}
"""Values as a program is given them."""


@pytest.fixture
def asked(file_url: str, call: Call) -> str:
    async def fill() -> None:
        async with Database(file_url) as db:
            history = History(db, 5)
            await history.save_thread("trip-1")
            await history.append_thread("talk-1")
            await Store(db).put(("a",), "k", {"x": 1})

    asyncio.run(fill())
    return file_url


def test_answers_come_in_each_format(asked: str, call: Call, tmp_path: Path) -> None:
    query = "select role, count(*) as n, count(*) from messages group by role order by role"

    answer = call("--db", asked, "sql", query, "--json")
    assert answer.code == 0, answer.err
    rows = answer.json
    assert [row["role"] for row in rows] == ["assistant", "tool", "user"]
    assert list(rows[0]) == ["role", "n", "count_star()"]
    lines = call("--db", asked, "sql", query, "--nl").out.splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert call("--db", asked, "sql", query, "--csv").out.startswith("role,n,count_star()\n")
    table = call("--db", asked, "sql", query)
    assert ("assistant" in table.out, "3 rows" in table.err) == (True, True)
    twice = call("--db", asked, "sql", "select 1 as a, 2 as a", "--json")
    assert twice.json == [{"a": 1, "a_2": 2}]
    written = call("--db", asked, "sql", query, "--parquet", str(tmp_path / "a.parquet"))
    assert (written.code, "3 rows" in written.out) == (0, True)
    file = tmp_path / "query.sql"
    file.write_text(query)
    assert call("--db", asked, "sql", f"@{file}", "--json").json == rows
    assert call("--db", asked, "sql", "-", "--json", stdin=query).json == rows


def known_types() -> set[str]:
    """Return the types that the installed DuckDB has."""
    rows = duckdb.sql("select distinct logical_type from duckdb_types()").fetchall()
    return {name for (name,) in rows}


def values_of_all_types() -> dict[str, str]:
    """Return SQL of a value of each type: alone, in each type that holds others, and as a key."""
    known = known_types()
    alone = {name: sql for name, sql in VALUES.items() if name.partition(",")[0] in known}
    inside = {
        f"{outer} of {name}": shape.format(sql)
        for outer, shape in NESTED.items()
        for name, sql in alone.items()
        if outer in known
    }
    return alone | inside | {f"key {name}": f"map{{{alone[name]}: 1}}" for name in KEYS}


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def test_the_values_are_of_all_types_of_duckdb() -> None:
    tried = {name.partition(",")[0] for name in (*VALUES, *NESTED)}

    assert known_types() - tried <= {"TYPE", "TIMESTAMPTZ_NS"}  # which Python does not get


def test_values_of_all_types_are_printed_in_each_format(asked: str, call: Call) -> None:
    values = values_of_all_types()
    query = "select " + ", ".join(f'{sql} as "{name}"' for name, sql in values.items())

    def ask(*output: str) -> str:
        answer = call("--db", asked, "sql", query, *output)
        assert answer.code == 0, answer.err
        return answer.out

    (row,) = json.loads(ask("--json"), parse_constant=refuse_constant)
    assert list(row) == list(values)
    assert json.loads(ask("--nl"), parse_constant=refuse_constant) == row
    names, cells = csv.reader(io.StringIO(ask("--csv")))
    assert (names, len(cells)) == (list(values), len(values))
    assert [cells[names.index(name)] for name in ("TIME", "NULL")] == ["10:00:00", ""]
    assert "1 day, 2:00:00" in ask()
    written = {name: row[name] for name in WRITTEN}
    assert written == WRITTEN


def test_a_time_with_a_zone_is_shown_in_utc(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    times = "timestamptz '2026-11-01 10:00+02' as a, timestamptz '10000-01-01 01:00+00' as b"

    done = process("--db", asked, "sql", f"select {times}")

    assert done.returncode == 0, done.stderr
    assert "2026-11-01 08:00:00" in done.stdout


@pytest.mark.parametrize("value", [VALUES["INTERVAL"], "union_value(a := 1)"])
def test_a_type_that_parquet_lacks_is_refused(
    value: str, asked: str, call: Call, tmp_path: Path
) -> None:
    file = tmp_path / "a.parquet"
    answer = call("--db", asked, "sql", f"select {value} as x", "--parquet", str(file))

    assert (answer.code, "cast the column" in answer.err) == (2, True)
    assert list(tmp_path.glob("*parquet*")) == []


def test_options_narrow_what_is_read_and_names_in_texts_are_seen(asked: str, call: Call) -> None:
    def number(query: str, *options: str) -> int:
        answer = call("--db", asked, "sql", query, "--json", *options)
        assert answer.code == 0, answer.err
        (row,) = answer.json
        return int(row["n"])

    everything = number("select count(*) n from messages")
    of_log = number("select count(*) n from messages", "--namespace", "conversation")
    assert 0 < of_log < everything
    assert number("select count(*) n from messages", "--since", "2999-01-01") == 0
    assert number("select count(*) n from MESSAGES, items") == everything
    assert number("select count(*) n from query_table('mess' || 'ages')") == everything


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("selec 1", 2, "Parser Error"),
        ("drop table messages", 2, "only queries are run"),
        ("select * from read_text('/etc/passwd')", 2, "file system operations are disabled"),
        (ENDLESS, 3, "longer than 1 seconds"),
    ],
)
def test_what_is_refused_says_why(
    query: str, code: int, words: str, asked: str, call: Call
) -> None:
    answer = call("--db", asked, "sql", query, "--timeout", "1s")

    assert (answer.code, answer.out) == (code, "")
    assert words in answer.err


def test_memory_is_limited_for_what_duckdb_does_not_count(asked: str) -> None:
    done = process("--db", asked, "sql", UNSTOPPABLE, "--memory", "100MB", "--timeout", "60s")

    assert done.returncode == 3
    assert "needs more memory" in done.stderr


@pytest.mark.parametrize("output", [(), ("--json",)])
def test_a_long_text_is_printed_and_one_too_long_is_an_error(
    asked: str, output: tuple[str, ...]
) -> None:
    def ask(words: int) -> subprocess.CompletedProcess[str]:
        return process("--db", asked, "sql", f"select repeat('word ', {words}) t", *output)

    printed, refused = ask(2_000_000), ask(500_000_000)

    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.count("word") == 2_000_000
    assert refused.returncode == 3
    assert "needs more memory" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_cache_is_brought_up_to_date(asked: str, call: Call, tmp_path: Path) -> None:
    cache = tmp_path / "agent.duckdb"
    query = (
        "sql",
        "select count(distinct thread) n from messages",
        "--cache",
        str(cache),
        "--json",
    )
    assert call("--db", asked, *query).json == [{"n": 2}]

    async def change() -> None:
        async with Database(asked) as db:
            await Checkpointer(db).delete("trip-1")

    asyncio.run(change())
    assert call("--db", asked, *query).json == [{"n": 1}]
    narrowed = call("--db", asked, *query, "--since", "7d")
    assert (narrowed.code, "select in SQL" in narrowed.err) == (2, True)
    other = call("--db", asked, "--tenant", "other", *query)
    assert (other.code, "not a cache of this database" in other.err) == (4, True)


def test_the_cache_of_an_encrypted_database_needs_a_word(
    file_url: str, call: Call, tmp_path: Path
) -> None:
    key = tmp_path / "keys"
    key.write_text(generate_key() if isinstance(generate_key(), str) else generate_key().decode())

    async def fill() -> None:
        async with Database(file_url, keys=key.read_text()) as db:
            await Checkpointer(db).save({"messages": [{"role": "user", "content": "x"}]}, "t")

    asyncio.run(fill())
    cache = str(tmp_path / "agent.duckdb")
    query = (
        "--db",
        file_url,
        "--keys-file",
        str(key),
        "sql",
        "select text from messages",
        "--json",
    )

    assert call(*query).json == [{"text": "x"}]
    refused = call(*query, "--cache", cache)
    assert (refused.code, "is encrypted" in refused.err) == (4, True)
    assert call(*query, "--cache", cache, "--plaintext-cache").json == [{"text": "x"}]
    alone = call(*query, "--plaintext-cache")
    assert (alone.code, "--cache" in alone.err) == (2, True)
