"""The command sql: answers in each format, limits, the cache, and exit codes."""

from __future__ import annotations

import asyncio
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

pytest.importorskip("duckdb")

ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r"
UNSTOPPABLE = "select list_sum(range(200000000))"
"""DuckDB does not interrupt what a function does with one row."""


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
