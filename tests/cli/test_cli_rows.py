"""The commands messages, tools and usage: rows, formats, selections, sums."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import Answer, Call
from sqlalchemy import update

from memalchemy import Database
from memalchemy.analysis import Analysis
from memalchemy.log import DELTAS

sys.path.append(str(Path(__file__).parent.parent / "analysis"))
from histories import History, rows_of

TABLE_OF = {"messages": "messages", "tools": "tool_calls", "usage": "usage"}
MAIN = {"messages": "messages", "tools": "calls", "usage": "answers"}


@pytest.fixture
def asked(file_url: str, call: Call) -> str:
    """A SQLite file with three threads of states and one conversation."""

    async def fill() -> None:
        async with Database(file_url) as db:
            history = History(db, 5)
            for thread in ("trip-1", "trip-2", "food-1"):
                await history.save_thread(thread)
            await history.append_thread("talk-1")

    asyncio.run(fill())
    return file_url


def stored(url: str, table: str, **selection: Any) -> list[Any]:
    async def read() -> list[Any]:
        async with Database(url) as db:
            return await rows_of(Analysis(db), table, **selection)

    return asyncio.run(read())


def documents(answer: Answer) -> Any:
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


@pytest.mark.parametrize("command", TABLE_OF)
def test_all_rows_are_printed_in_each_format(command: str, asked: str, call: Call) -> None:
    rows = stored(asked, TABLE_OF[command])
    expected = [
        {
            name: json.loads(value)
            if name == "arguments" and value
            else value.isoformat()
            if name == "time"
            else value
            for name, value in row.items()
        }
        for row in rows
    ]

    assert documents(call("--db", asked, command, "--json")) == expected
    lines = call("--db", asked, command, "--nl").out.splitlines()
    assert [json.loads(line) for line in lines] == expected
    (names, *written) = csv.reader(io.StringIO(call("--db", asked, command, "--csv").out))
    assert names == list(expected[0])
    assert len(written) == len(rows)


@pytest.mark.parametrize("command", TABLE_OF)
def test_a_table_for_people_ends_after_a_hundred_rows(command: str, asked: str, call: Call) -> None:
    answer = call("--db", asked, command)
    short = call("--db", asked, command, "--limit", "2")

    assert answer.code == short.code == 0
    assert "trip-2" in answer.out
    assert len(short.out.splitlines()) == 4
    assert "only the first 2; --limit shows more" in short.err
    assert len(documents(call("--db", asked, command, "--json", "--limit", "3"))) == 3


@pytest.mark.parametrize("command", TABLE_OF)
@pytest.mark.parametrize(
    ("options", "selection"),
    [
        (["--thread", "trip-1"], {"thread": "trip-1"}),
        (["--pattern", "trip-*"], {"pattern": "trip-*"}),
        (["--namespace", "conversation"], {"namespace": ("conversation",)}),
        (["--namespace", "/", "--prefix"], {"namespace": (), "below": True}),
        (["--framework", "langgraph"], {"framework": "langgraph"}),
        (["--metadata", "agent=clerk"], {"metadata": {"agent": "clerk"}}),
    ],
    ids=lambda given: str(given),
)
def test_options_select_as_arguments_of_python_do(
    command: str, options: list[str], selection: dict[str, Any], asked: str, call: Call
) -> None:
    found = documents(call("--db", asked, command, "--json", *options))

    assert len(found) == len(stored(asked, TABLE_OF[command], **selection))


def test_times_select(asked: str, call: Call) -> None:
    def number(*options: str) -> int:
        return len(documents(call("--db", asked, "messages", "--json", *options)))

    everything = number()
    early, late = number("--until", "2026-03-01T10:00"), number("--since", "2026-03-01T10:00")
    assert 0 < early < everything
    assert early + late == everything
    assert number("--since", "30d") == (0 if late else everything)
    answer = call("--db", asked, "messages", "--since", "yesterday")
    assert answer.code == 2
    assert "--since 'yesterday' is not a time" in answer.err


@pytest.mark.parametrize("command", TABLE_OF)
@pytest.mark.parametrize("by", ["thread", "agent", "day", "agent,day", "framework", "user"])
def test_sums_add_up_to_all_rows(command: str, by: str, asked: str, call: Call) -> None:
    rows = stored(asked, TABLE_OF[command])

    sums = documents(call("--db", asked, command, "--by", by, "--json"))

    assert sum(row[MAIN[command]] for row in sums) == len(rows)
    assert [list(row)[: by.count(",") + 1] for row in sums] == [by.split(",")] * len(sums)
    if command == "usage":
        tokens = sum(row["input_tokens"] for row in rows)
        assert sum(row["input_tokens"] for row in sums) == tokens
    if by == "day":
        assert sums == sorted(sums, key=lambda row: row["day"])


def test_sums_are_by_user_under_the_name_of_the_column_too(asked: str, call: Call) -> None:
    by_user, by_column = (
        documents(call("--db", asked, "usage", "--by", name, "--json"))
        for name in ("user", "user_id")
    )

    assert by_column == by_user != []


def test_tools_are_summed_by_tool_with_their_errors(asked: str, call: Call) -> None:
    sums = documents(call("--db", asked, "tools", "--by", "tool", "--json"))
    rows = stored(asked, "tool_calls")

    for row in sums:
        own = [one for one in rows if one["name"] == row["tool"]]
        assert row["calls"] == len(own)
        assert row["unanswered"] == sum(one["result"] is None for one in own)
    assert [row["calls"] for row in sums] == sorted((row["calls"] for row in sums), reverse=True)
    answer = call("--db", asked, "tools", "--by", "colour")
    assert answer.code == 2
    assert "not summed up by 'colour', but by thread, namespace" in answer.err


@pytest.mark.parametrize("options", [[], ["--by", "day"]], ids=["rows", "sums"])
def test_parquet_files_have_the_rows(
    options: list[str], asked: str, call: Call, tmp_path: Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "rows.parquet"

    answer = call("--db", asked, "usage", "--parquet", str(file), *options)

    assert answer.code == 0, answer.err
    expected = documents(call("--db", asked, "usage", "--json", *options))
    assert len(parquet.read_table(file).to_pylist()) == len(expected)
    assert [path.name for path in tmp_path.glob(".rows*")] == []
    both = call("--db", asked, "usage", "--parquet", str(file), "--json")
    assert (both.code, "not both" in both.err) == (2, True)
    nowhere = call("--db", asked, "usage", "--parquet", str(tmp_path / "no" / "x.parquet"))
    assert nowhere.code == 2


def test_what_cannot_be_read_is_named_and_the_exit_code_says_so(asked: str, call: Call) -> None:
    async def damage() -> None:
        async with Database(asked) as db, db.transaction() as tx:
            entries = (DELTAS.c.kind == "entry") & (DELTAS.c.seq == 1)
            await tx.execute(update(DELTAS).where(entries).values(payload=b"\x00no"))

    whole = stored(asked, "messages")
    asyncio.run(damage())

    answer = call("--db", asked, "messages", "--json")

    assert answer.code == 5
    assert len(json.loads(answer.out)) == len(whole) - 1
    assert "passed over: " in answer.err


def test_an_empty_database_has_no_rows(file_url: str, call: Call) -> None:
    assert call("--db", file_url, "upgrade").code == 0
    for command in TABLE_OF:
        assert documents(call("--db", file_url, command, "--json")) == []
        assert call("--db", file_url, command, "--csv").out == ""
        assert call("--db", file_url, command).code == 0
