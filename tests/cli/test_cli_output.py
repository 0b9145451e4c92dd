"""Output of all commands: tables, formats for programs, JSON errors, colours, completion."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import Answer, Call, environment, lines, on_terminal, process, thread

from memalchemy import Checkpointer, Database
from waiting import A_WHILE

DOCS = Path(__file__).parents[2] / "docs" / "command-line.md"
REFERENCE = DOCS.parent / "reference" / "cli.md"
SOURCE = Path(__file__).parents[2] / "src" / "memalchemy"
UUID = "3f0c9a52-66d4-4c1d-9a0b-709ba80223d1"
CHECKPOINT = "1f0c9a52-66d4-6c1d-bfff-709ba80223d1"
NAMESPACES = ("langgraph/researcher", "langgraph/reviewer")


def save(url: str, thread_id: str, checkpoint_id: str, namespace: str = "", **more: Any) -> None:
    async def work() -> None:
        async with Database(url) as db:
            parts = [part for part in namespace.split("/") if part]
            await Checkpointer(db, namespace=parts).save({"a": 1}, thread_id, checkpoint_id, **more)

    asyncio.run(work())


@pytest.fixture
def graph(file_url: str) -> str:
    """A thread of two checkpoints with long ids and metadata, in each of two namespaces."""
    metadata = {"source": "loop", "writes": "a long text that has to wrap " * 8}
    for namespace in NAMESPACES:
        save(file_url, UUID, CHECKPOINT, namespace, metadata=metadata)
        save(file_url, UUID, f"{CHECKPOINT}-b", namespace, metadata=metadata)
    return file_url


def seen(*arguments: str, columns: int, **variables: str) -> Answer:
    """Run a command on a terminal, without colours unless *variables* say otherwise."""
    env = environment(**({"TERM": "xterm-256color", "NO_COLOR": "1"} | variables))
    answer = on_terminal(columns, *arguments, env=env)
    assert answer.code == 0, answer.err
    return answer


# --- Tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [200, 100, 80, 40, 20])
def test_no_width_cuts_an_id(columns: int, graph: str) -> None:
    threads = seen("threads", "--db", graph, columns=columns).out
    history = seen(
        "history", UUID, "--namespace", NAMESPACES[0], "--db", graph, columns=columns
    ).out

    assert threads.count(UUID) == 2
    assert [name for name in NAMESPACES if f"{name}" in threads.split()] == list(NAMESPACES)
    assert {CHECKPOINT, f"{CHECKPOINT}-b"} <= set(history.split())
    assert "…" not in threads


def test_columns_are_left_out_by_their_use_and_named(graph: str) -> None:
    wide, middle, narrow = (
        seen("threads", "--db", graph, columns=columns) for columns in (140, 90, 64)
    )

    assert "written (UTC)" in wide.out
    assert "not shown" not in wide.err
    assert "stored" not in middle.out
    assert "written (UTC)" in middle.out
    assert "narrow: stored, checkpoints, written (UTC)\n" in narrow.err
    assert narrow.out.splitlines()[0].split() == ["thread", "namespace"]
    assert "entries" not in narrow.err  # it had no value


def test_text_wraps_after_columns_are_left_out(graph: str) -> None:
    arguments = ("history", UUID, "--namespace", NAMESPACES[0], "--db", graph)

    wrapped = seen(*arguments, columns=90).out.splitlines()

    assert max(map(len, wrapped)) <= 90
    assert len(wrapped) > 4
    assert "full size" not in wrapped[0]
    assert "metadata" in wrapped[0]


def test_a_wide_terminal_shows_all_columns_on_one_line_each(filled: str) -> None:
    heading, rule, *rows = seen(
        "history", "airline-1", "--db", filled, columns=120
    ).out.splitlines()

    assert heading.split("  ")[0] == "checkpoint"
    assert set(rule) == {"─"}
    assert len(rows) == 8


@pytest.mark.parametrize("variables", [{}, {"COLUMNS": "40"}])
def test_nothing_is_cut_or_left_out_in_a_pipe(graph: str, variables: dict[str, str]) -> None:
    ended = process(
        *("history", UUID, "--namespace", NAMESPACES[0], "--db", graph),
        env=environment(**variables),
    )

    heading, _, *rows = ended.stdout.splitlines()
    assert len(rows) == 2
    assert "full size" in heading
    for row in rows:
        assert row.endswith('that has to wrap "}')
    assert "not shown" not in ended.stderr


@pytest.mark.parametrize(
    ("style", "first", "second"),
    [
        ("simple", r"thread +namespace .*", "─+"),
        ("plain", r"thread +namespace .*", r"(airline|retail)-1 .*"),
        ("grid", "┌.*┐", r"│ thread +│.*│"),
        ("markdown", r"\| thread +\| namespace .*\|", r"\|-+\|.*-\|"),
        ("github", r"\| thread +\| namespace .*\|", r"\|-+\|.*-\|"),
    ],
)
def test_fmt_is_the_look_of_tables(
    style: str, first: str, second: str, filled: str, call: Call
) -> None:
    found = call("threads", "--fmt", style, "--db", filled).out.splitlines()

    assert re.fullmatch(first, found[0])
    assert re.fullmatch(second, found[1])
    assert found[-1].strip()


def test_a_bar_in_a_markdown_cell_does_not_end_it(file_url: str, call: Call) -> None:
    save(file_url, "a|b", "1")

    *_, row = call("threads", "--fmt", "markdown", "--db", file_url).out.splitlines()

    assert row.startswith(r"| a\|b ")


# --- Formats for programs ------------------------------------------------------------------------


def test_nl_prints_a_document_per_line(filled: str, call: Call) -> None:
    many, one = (call(*a, "--db", filled) for a in (("threads", "--nl"), ("stats", "--nl")))

    documents = [json.loads(line) for line in many.out.splitlines()]
    assert documents == call("threads", "--json", "--db", filled).json
    assert json.loads(one.out)["checkpoints"] == 12
    assert one.out.count("\n") == 1


@pytest.mark.parametrize(("option", "dialect"), [("--csv", "excel"), ("--tsv", "excel-tab")])
def test_csv_and_tsv_have_the_fields_of_the_documents(
    option: str, dialect: str, filled: str, call: Call
) -> None:
    save(filled, 'odd,"\t\n', "1", metadata={"a": [1, None]})
    listed = call("history", 'odd,"\t\n', "--json", "--db", filled).json

    text = call("history", 'odd,"\t\n', option, "--db", filled).out

    (row,) = csv.DictReader(io.StringIO(text), dialect=dialect)
    (document,) = listed
    assert list(row) == list(document)
    assert row["thread_id"] == 'odd,"\t\n'
    assert row["parent_id"] == ""
    assert row["branch"] == "false"
    assert json.loads(row["metadata"]) == {"a": [1, None]}
    assert int(row["raw_size"]) == document["raw_size"]


def test_csv_of_nothing_is_empty(filled: str, call: Call) -> None:
    assert call("threads", "--pattern", "none", "--csv", "--db", filled).out == ""
    assert call("threads", "--pattern", "none", "--nl", "--db", filled).out == ""


def test_csv_cannot_control_a_terminal(file_url: str) -> None:
    save(file_url, "\x1b[2Jevil", "1")

    assert "\x1b" not in seen("threads", "--csv", "--db", file_url, columns=80).out
    assert "\x1b" in process("threads", "--csv", "--db", file_url).stdout


@pytest.mark.parametrize("option", ["--json", "--nl", "--csv", "--tsv"])
def test_every_format_keeps_text_for_people_off_stdout(
    option: str, filled: str, call: Call
) -> None:
    deleted = call("delete", "airline-1", option, "--db", filled)

    assert deleted.code == 0
    assert "deleted airline-1" not in deleted.out
    assert "airline-1" in deleted.out


@pytest.mark.parametrize(
    "options",
    [("--json", "--csv"), ("--nl", "--tsv"), ("--json", "--fmt", "plain"), ("--nl", "--json")],
)
def test_formats_that_contradict_each_other_are_refused(
    options: tuple[str, ...], filled: str, call: Call
) -> None:
    after = call("threads", *options, "--db", filled)
    apart = call(options[0], "threads", *options[1:], "--db", filled)

    for answer in (after, apart):
        assert (answer.code, answer.out) == (2, "")
        assert "contradict" in answer.err


# --- Errors as JSON ------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--json", "--nl"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("threads", "--nope"),
        ("show",),
        ("nope",),
        ("store",),
        (),
        ("threads", "--limit", "many"),
        ("threads", "--limit", "0"),
        ("threads", "--fmt", "nope"),
        ("index", "build"),
    ],
)
def test_wrong_usage_is_a_json_document(option: str, arguments: tuple[str, ...]) -> None:
    ended = process(*arguments, option)

    (error,) = json.loads(ended.stderr).values()
    assert (error["code"], error["exit_code"]) == ("MA-USAGE", 2)
    assert error["message"]
    assert (ended.returncode, ended.stdout) == (2, "")


def test_wrong_usage_before_the_command_is_a_json_document() -> None:
    assert json.loads(process("--json", "--nope", "threads").stderr)["error"]["exit_code"] == 2


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("threads", "--nope"), "memalchemy threads"),
        (("show",), "memalchemy show"),
        (("nope",), "memalchemy"),
        (("--nope", "threads"), "memalchemy"),
        (("threads", "--limit", "many"), "memalchemy threads"),
        (("index", "build", "--nope"), "memalchemy index build"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], command: str) -> None:
    ended = process(*arguments)

    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error [MA-USAGE]: ")
    assert line.endswith(f" See `{command} --help`")


def test_no_command_at_all_is_the_help() -> None:
    assert process().stderr.lstrip().startswith("Usage: memalchemy ")


def test_what_only_looks_like_the_option_changes_no_error() -> None:
    ended = process("store", "put", "--nope", "--", "--json")

    assert ended.returncode == 2
    assert ended.stderr.startswith("error [MA-USAGE]: ")


def test_an_output_that_cannot_be_written_is_a_json_document(filled: str) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "memalchemy", "export", "--all", "--json", "--db", filled],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=2 * A_WHILE,
        )

    assert ended.returncode == 2
    assert json.loads(ended.stderr.splitlines()[0])["error"]["code"] == "MA-OUTPUT"


# --- Colours -------------------------------------------------------------------------------------


def test_a_terminal_has_colours_also_with_an_empty_no_color(filled: str) -> None:
    assert "\x1b[" in seen("search", "flights", "--db", filled, columns=80, NO_COLOR="").out


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (("--no-color",), {}),
        ((), {"NO_COLOR": "1"}),
        ((), {"NO_COLOR": "0"}),
        ((), {"NO_COLOR": "yes", "FORCE_COLOR": "1"}),
        ((), {"TERM": "dumb"}),
    ],
)
def test_without_colours_there_is_no_escape_sequence_at_all(
    arguments: tuple[str, ...], variables: dict[str, str], filled: str
) -> None:
    for command in (("search", "flights"), ("verify",), ("stats",)):
        answer = seen(
            *command, *arguments, "--db", filled, columns=80, **({"NO_COLOR": ""} | variables)
        )
        assert "\x1b" not in answer.out
        assert answer.out.strip()


def test_force_color_colours_a_pipe(filled: str) -> None:
    ended = process("search", "flights", "--db", filled, env=environment(FORCE_COLOR="1"))

    assert "\x1b[" in ended.stdout
    assert "\x1b" not in process("search", "flights", "--db", filled).stdout


# --- Logs ----------------------------------------------------------------------------------------


def test_a_first_use_logs_nothing_and_verbose_shows_the_logs(url: str) -> None:
    quiet = process("upgrade", "--db", url)
    assert (quiet.returncode, quiet.stderr) == (0, "")

    loud = process("downgrade", "base", "--verbose", "--db", url)
    assert loud.returncode == 0
    assert "INFO alembic." in loud.stderr
    assert "INFO" not in loud.stdout


FIRST_USE = """
import asyncio, logging, sys
from memalchemy import Database
logging.basicConfig(level=logging.INFO)
async def main():
    await Database(sys.argv[1], migrate="off").migrate()
asyncio.run(main())
"""


def test_a_migration_says_nothing_among_the_logs_of_the_application(url: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FIRST_USE, url], capture_output=True, text=True, timeout=2 * A_WHILE
    )

    assert (ended.returncode, ended.stderr) == (0, "")


# --- Completion ----------------------------------------------------------------------------------


def complete(
    *words: str, shell: str = "bash", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Complete the last of *words*."""
    line = " ".join(("memalchemy", *words))
    return process(
        env=environment(
            _MEMALCHEMY_COMPLETE=f"complete_{shell}",
            COMP_WORDS=line,
            COMP_CWORD=str(len(words)),
            _TYPER_COMPLETE_ARGS=line,
            _TYPER_COMPLETE_FISH_ACTION="get-args",
            **variables,
        )
    )


def test_commands_and_threads_are_completed(filled: str) -> None:
    assert complete("sh").stdout.split() == ["show"]
    for words in (("--db", filled, "show", "a"), ("tail", "--db", filled, "a")):
        assert complete(*words).stdout == "airline-1\n"
    assert complete("history", "r", MEMALCHEMY_URL=filled).stdout == "retail-1\n"
    assert set(complete("show", "", MEMALCHEMY_URL=filled).stdout.split()) == {
        "airline-1",
        "retail-1",
    }
    assert complete("show", "a", MEMALCHEMY_URL=filled, shell="zsh").stdout.count("airline-1") == 1
    assert complete("show", "a", MEMALCHEMY_URL=filled, shell="fish").stdout == "airline-1\n"


@pytest.mark.parametrize(
    "place", ["sqlite:////nowhere/a.db", "nonsense", "postgresql://me:secret@127.0.0.1:1/d", ""]
)
def test_completion_is_silent_where_there_is_no_database(place: str) -> None:
    ended = complete("show", "a", MEMALCHEMY_URL=place)

    assert (ended.stdout.strip(), ended.stderr) == ("", "")


def test_completion_creates_no_file(file_url: str) -> None:
    complete("show", "a", MEMALCHEMY_URL=file_url)

    assert not Path(file_url.removeprefix("sqlite:///")).exists()


def test_completion_does_not_wait_for_a_database_that_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/d"
        ended = complete("show", "a", MEMALCHEMY_URL=f"{place}?connect_timeout=600")

    assert (ended.stdout.strip(), ended.stderr) == ("", "")


def test_completion_offers_no_id_that_a_shell_would_run(filled: str, call: Call) -> None:
    evil = [thread(f"z{text}") for text in ("$(id)", "`id`", "'a'", "a b", "a;b", 'a"', "a:b")]
    call("import", "-", "--db", filled, stdin=lines(*evil, thread("zürich/1@x")))

    assert complete("show", "z", MEMALCHEMY_URL=filled, shell="zsh").stdout.strip() == (
        """_arguments '*: :(("zürich/1@x"))'"""
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_line_prints_the_script_of_a_shell(shell: str) -> None:
    assert f"_MEMALCHEMY_COMPLETE=source_{shell} memalchemy" in DOCS.read_text()
    ended = process(env=environment(_MEMALCHEMY_COMPLETE=f"source_{shell}"))

    assert ended.returncode == 0
    assert f"_MEMALCHEMY_COMPLETE=complete_{shell}" in ended.stdout


# --- The environment and other databases ---------------------------------------------------------


def test_the_documentation_lists_every_environment_variable() -> None:
    used = {
        name
        for file in SOURCE.rglob("*.py")
        for name in re.findall(r"\bMEMALCHEMY_[A-Z_]+\b", file.read_text())
    }
    for_tests = {"MEMALCHEMY_REGENERATE", "MEMALCHEMY_GOLDEN"}
    listed = re.findall(r"\[env:\s+(MEMALCHEMY_[A-Z_]+)", REFERENCE.read_text())

    assert {*listed} == used - for_tests


def test_copy_says_which_database_lacks_the_schema(
    filled: str, url: str, call: Call, tmp_path: Path
) -> None:
    import sqlite3

    empty = tmp_path / "empty.db"
    with sqlite3.connect(empty) as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()

    source = call("copy", "--from", f"sqlite:///{empty}", "--to", f"sqlite:///{tmp_path}/new.db")
    assert source.code == 1
    assert f"the source, sqlite:///{empty}: " in source.err
    if url.startswith("postgresql"):
        target = call("copy", "--from", filled, "--to", url)
        assert target.code == 1
        assert "the target, postgresql" in target.err
