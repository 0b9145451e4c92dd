"""Import of threads in OpenAI's format, from Python and with the command, on every database."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from commandline import Call, lines, thread

from memalchemy import Checkpointer, ThreadLog
from memalchemy.cli.commands.import_ import FRAMEWORKS
from memalchemy.importers.openai_chat import LineOutcome, import_threads


async def imported(checkpointer: Checkpointer, *threads: Any, **options: Any) -> list[LineOutcome]:
    given = lines(*threads).splitlines()
    return [outcome async for outcome in import_threads(checkpointer, given, **options)]


async def test_every_message_becomes_a_checkpoint(checkpointer: Checkpointer) -> None:
    given = thread("t", 5)
    (outcome,) = await imported(checkpointer, given)

    assert (outcome.status, outcome.checkpoints) == ("imported", 5)
    ids = await checkpointer.list_checkpoints("t")
    assert ids == ["000005", "000004", "000003", "000002", "000001"]
    for number, checkpoint_id in enumerate(reversed(ids), 1):
        state = await checkpointer.load("t", checkpoint_id)
        assert state == {"messages": given["messages"][:number]}


async def test_other_fields_become_metadata_of_each_checkpoint(checkpointer: Checkpointer) -> None:
    await imported(checkpointer, thread("t", 3, reward=0.5, tags=["a"]))

    found = await checkpointer.query_by_metadata("reward", 0.5)

    assert [row["metadata"] for row in found] == [{"reward": 0.5, "tags": ["a"]}] * 3


async def test_a_prefix_comes_before_every_id(checkpointer: Checkpointer) -> None:
    await imported(checkpointer, thread("a"), thread("b"), prefix="2024/")

    assert sorted(await checkpointer.list_threads()) == ["2024/a", "2024/b"]


async def test_outcomes_come_in_the_order_of_the_lines(checkpointer: Checkpointer) -> None:
    given = [thread(f"t{n}", 1 + (n * 7) % 5) for n in range(20)]

    outcomes = await imported(checkpointer, *given)

    assert [outcome.line for outcome in outcomes] == list(range(1, 21))
    assert sorted(await checkpointer.list_threads()) == sorted(t["thread_id"] for t in given)


async def test_a_second_import_writes_nothing(checkpointer: Checkpointer) -> None:
    await imported(checkpointer, thread("t"))

    (outcome,) = await imported(checkpointer, thread("t"))

    assert (outcome.status, outcome.checkpoints) == ("unchanged", 0)


async def test_a_thread_that_has_grown_is_completed(checkpointer: Checkpointer) -> None:
    await imported(checkpointer, thread("t", 3))

    (outcome,) = await imported(checkpointer, thread("t", 7))

    assert (outcome.status, outcome.checkpoints) == ("resumed", 4)
    assert len((await checkpointer.load("t"))["messages"]) == 7


@pytest.mark.parametrize("other", ["a state", "another id", "metadata", "longer", "types"])
async def test_a_thread_that_holds_anything_else_is_a_conflict_and_stays(
    other: str, checkpointer: Checkpointer
) -> None:
    given = thread("t", 4, flag=1)
    first = {"messages": given["messages"][:1]}
    if other == "a state":
        await checkpointer.save({"messages": [{"role": "user"}]}, "t", "000001", {"flag": 1})
    elif other == "another id":
        await checkpointer.save(first, "t", "mine", {"flag": 1})
    elif other == "metadata":
        await checkpointer.save(first, "t", "000001", {"flag": 2})
    elif other == "types":
        await checkpointer.save({"messages": tuple(first["messages"])}, "t", "000001", {"flag": 1})
    else:
        await imported(checkpointer, thread("t", 5, flag=1))
    before = await checkpointer.list_checkpoints("t")

    (refused,) = await imported(checkpointer, given)
    (skipped,) = await imported(checkpointer, given, on_conflict="skip")

    assert (refused.status, refused.checkpoints) == ("conflict", 0)
    assert (skipped.status, skipped.checkpoints) == ("skipped", 0)
    assert await checkpointer.list_checkpoints("t") == before


async def test_replace_replaces_the_existing_thread(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"mine": 1}, "t")

    (outcome,) = await imported(checkpointer, thread("t", 3), on_conflict="replace")

    assert (outcome.status, outcome.checkpoints) == ("replaced", 3)
    assert len(await checkpointer.list_checkpoints("t")) == 3


async def test_a_thread_that_is_in_the_file_twice_stays_whole(checkpointer: Checkpointer) -> None:
    outcomes = await imported(
        checkpointer, thread("t", 3), thread("t", 6), thread("t", 2), thread("u")
    )

    assert [outcome.status for outcome in outcomes] == [
        "imported",
        "resumed",
        "conflict",
        "imported",
    ]
    assert len(await checkpointer.list_checkpoints("t")) == 6


async def test_a_concurrent_save_ends_the_import_of_that_thread(
    checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Watched(Checkpointer):
        async def save(self, state: Any, thread_id: str, *args: Any, **more: Any) -> str:
            if len(state["messages"]) == 3:
                await checkpointer.save({"theirs": 1}, thread_id, "theirs")
            return await super().save(state, thread_id, *args, **more)

    (outcome,) = await imported(Watched(checkpointer.db), thread("t", 5))

    assert (outcome.status, outcome.checkpoints) == ("conflict", 2)
    assert await checkpointer.list_checkpoints("t") == ["theirs", "000002", "000001"]


BAD = {
    "not JSON": "{",
    "not an object": "[1]",
    "no id": '{"messages": [{"role": "user"}]}',
    "an id that is no text": '{"thread_id": 1, "messages": [{"role": "user"}]}',
    "no messages": '{"thread_id": "t"}',
    "empty messages": '{"thread_id": "t", "messages": []}',
    "a message without a role": '{"thread_id": "t", "messages": [{"role": "user"}, {"c": 1}]}',
    "an id that is too long": lines(thread("x" * 256)).strip(),
    "metadata that is too large": lines(thread("t", note="x" * 40_000)).strip(),
    "metadata that no database stores": lines(thread("t", note="\x00")).strip(),
    "nested too deeply": '{"thread_id": "t", "messages": [{"role": "user", "content": '
    + "[" * 300 + "]" * 300 + "}]}",
    "nested beyond reason": "[" * 200_000,
}  # fmt: skip


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
async def test_a_bad_line_is_named_and_writes_nothing(
    line: str, checkpointer: Checkpointer
) -> None:
    bad, good = await imported(checkpointer, "", line, thread("good"))

    assert (bad.line, bad.status, good.status) == (2, "bad", "imported")
    assert bad.problem
    assert await checkpointer.list_threads() == ["good"]


async def test_lines_of_export_are_called_what_they_are(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"messages": [{"role": "user", "content": "Hi"}]}, "t")
    await ThreadLog(checkpointer.db).append("t", [{"role": "user"}])
    exported = [one async for one in checkpointer.export(thread_id="t")]

    found = [
        one
        async for one in import_threads(
            checkpointer, [json.dumps(one, default=str) for one in exported]
        )
    ]

    assert len(found) == 2
    assert {one.status for one in found} == {"bad"}
    assert all("a line of `memalchemy export`" in str(one.problem) for one in found)


async def test_a_line_that_is_not_utf8_is_bad(checkpointer: Checkpointer) -> None:
    given = [b"\xff\xfe\n", b"\xef\xbb\xbf" + lines(thread("marked")).encode()]

    outcomes = [outcome async for outcome in import_threads(checkpointer, given)]

    assert [outcome.status for outcome in outcomes] == ["bad", "imported"]


async def test_any_text_that_json_can_hold_is_imported(checkpointer: Checkpointer) -> None:
    content = "half a pair \ud83d, null \x00, naïve, 日本語"
    given = {"thread_id": "t\ud83d", "messages": [{"role": "user", "content": content, "n": 2**70}]}

    (outcome,) = await imported(checkpointer, given)

    assert outcome.status == "imported"
    assert await checkpointer.load("t\ud83d") == {"messages": given["messages"]}


def test_the_command_reports_bad_lines(file_url: str, call: Call) -> None:
    given = lines(thread("a"), "{", thread("b"))

    answer = call("import", "-", "--json", "--db", file_url, stdin=given)

    assert answer.code == 4
    assert answer.json["threads"]["imported"] == 2
    assert answer.json["checkpoints"] == 8
    assert answer.json["problems"] == [
        {"line": 2, "thread_id": None, "problem": "is not JSON at column 2"}
    ]
    assert answer.err == "line 2: is not JSON at column 2\n"
    assert set(answer.json) == {
        "threads",
        "checkpoints",
        "raw_bytes",
        "stored_bytes",
        "seconds",
        "problems",
    }


def test_the_command_reports_the_sizes_that_stats_reports(file_url: str, call: Call) -> None:
    answer = call("import", "-", "--json", "--db", file_url, stdin=lines(thread("a"), thread("b")))
    stats = call("stats", "--json", "--db", file_url).json

    for key in ("checkpoints", "raw_bytes", "stored_bytes"):
        assert answer.json[key] == stats[key]


def test_an_import_that_finds_nothing_says_so(file_url: str, call: Call, tmp_path: Path) -> None:
    """A wrong path is not told from an empty place by "0 sessions" alone."""
    with sqlite3.connect(tmp_path / "theirs.db") as theirs:
        theirs.execute("CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TEXT)")
        theirs.execute(
            "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, "
            "message_data TEXT, created_at TEXT)"
        )
    theirs.close()
    place = f"sqlite:///{tmp_path}/theirs.db"

    of_file = call("--db", file_url, "import", "-", stdin="")
    of_framework = call("--db", file_url, "import", "openai-agents", "--from", place)

    assert (of_file.code, of_framework.code) == (0, 0), of_framework.err
    assert "the file has no lines" in of_file.err
    assert "openai-agents has stored nothing there" in of_framework.err
    assert "--from" in of_framework.err


def test_skipped_threads_are_no_failure(file_url: str, call: Call) -> None:
    call("import", "-", "--db", file_url, stdin=lines(thread("a", 3)))
    again = ("import", "-", "--json", "--db", file_url)

    assert call(*again, stdin=lines(thread("a", 2))).code == 4
    skipped = call(*again, "--on-conflict", "skip", stdin=lines(thread("a", 2)))
    assert (skipped.code, skipped.json["threads"]["skipped"]) == (0, 1)


def test_an_import_to_a_server_without_a_schema_names_the_command(url: str, call: Call) -> None:
    answer = call("import", "-", "--db", url, stdin=lines(thread("a")))

    if url.startswith("sqlite"):
        assert answer.code == 0
    else:
        assert answer.code == 1
        assert "memalchemy --db URL upgrade" in answer.err


def test_real_threads_are_imported_completely(
    request: pytest.FixtureRequest, file_url: str, call: Call
) -> None:
    path = request.config.getoption("--threads")
    if path is None:
        pytest.skip("no real threads: give --threads FILE or MEMALCHEMY_THREADS")
    with open(path, encoding="utf-8") as file:
        given = [json.loads(line) for line in file]

    answer = call("import", path, "--json", "--db", file_url)

    assert answer.code == 0
    assert answer.json["threads"]["imported"] == len(given)
    assert answer.json["checkpoints"] == sum(len(one["messages"]) for one in given)
    exported = [json.loads(x) for x in call("export", "--all", "--db", file_url).out.splitlines()]
    states = {(r["thread_id"], r["checkpoint_id"]): r["state"] for r in exported}
    for one in given:
        for number in range(1, len(one["messages"]) + 1):
            state = states[one["thread_id"], f"{number:06d}"]
            assert state == {"messages": one["messages"][:number]}


async def test_checkpoints_take_the_times_of_their_messages(
    checkpointer: Checkpointer,
) -> None:
    given = thread("t", 4)
    times = [1_600_000_000, "2020-10-01T12:00:00+02:00", "no time", True]
    for message, time in zip(given["messages"], times, strict=True):
        message["created_at"] = time
    await imported(checkpointer, given)

    told = [info.occurred_at async for info in checkpointer.history("t")][::-1]
    assert told[:2] == [
        datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC),
        datetime(2020, 10, 1, 10, tzinfo=UTC),
    ]
    assert all(abs(time - datetime.now(UTC)) < timedelta(minutes=5) for time in told[2:])
    assert await checkpointer.prune(older_than=timedelta(days=365)) == 2


def misspelt(name: str) -> list[str]:
    """Return *name* as people mistype it: a letter less, two swapped, other separators."""
    swapped = name[:2] + name[3] + name[2] + name[4:]
    return [name[:-1], swapped, name.replace("-", "_"), name.replace("_", "-"), name.upper()]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_mistyped_importer_is_guessed(name: str, call: Call, file_url: str) -> None:
    for wrong in {*misspelt(name)} - {*FRAMEWORKS}:
        for arguments in ((wrong,), (wrong, "--from", "somewhere.db")):
            answer = call("--db", file_url, "import", *arguments)
            assert answer.code == 2
            assert f"did you mean {name}?" in answer.err, answer.err
    assert not Path(file_url.removeprefix("sqlite:///")).exists()


def test_a_file_that_is_no_importer_is_only_missing(call: Call, file_url: str) -> None:
    answer = call("--db", file_url, "import", "threads.jsonl")

    assert answer.code == 2
    assert "did you mean" not in answer.err


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity"])
def test_a_number_that_no_json_can_say_again_is_refused(
    number: str, file_url: str, call: Call
) -> None:
    message = f'{{"role": "user", "content": "hello", "score": {number}}}'
    given = f'{{"thread_id": "t", "messages": [{message}]}}\n'

    answer = call("--db", file_url, "import", "-", stdin=given)

    assert answer.err.startswith("line 1: is not JSON")
    assert call("--db", file_url, "threads", "--json").json == []
    if number.endswith("400"):
        chosen = call("--db", file_url, "export", "--metadata", f"n={number}")
        assert (chosen.code, "too large for a float" in chosen.err) == (2, True)
