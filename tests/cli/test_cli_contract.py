"""Rules for all commands: help, documentation, options, errors, exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from commandline import Call, environment, lines, process, thread
from typer.main import get_command
from website import command_reference

from memalchemy import Conversation, Database, errors
from memalchemy.cli import exit_codes
from memalchemy.cli.app import app
from memalchemy.cli.options import CommonOptions
from rows import of_thread
from servers import Postgres
from waiting import A_WHILE

DOCS = command_reference.PAGE.read_text()
GUIDE = (command_reference.ROOT / "docs" / "command-line.md").read_text()


def commands(group: Any, above: str = "") -> dict[str, Any]:
    """Return all commands by their full names, such as ``store ls``."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        found |= commands(command, f"{above}{name} ") if inner else {above + name: command}
    return found


COMMANDS = commands(get_command(app))
COMMON_OPTIONS = {field.name for field in fields(CommonOptions)}
SERVERS: dict[str, list[str]] = {"serve": [], "inspect": ["--no-browser"]}
"""Commands that end when they are told to, with what their example lacks in a test."""
GROUPS = sorted({name.split()[0] for name in COMMANDS if " " in name})


def section(name: str) -> str:
    """Return the section of the documentation about a command."""
    match = re.search(rf"^### `{name}`$(.*?)(?=^###? |\Z)", DOCS, re.M | re.S)
    assert match, f"docs/reference/cli.md does not describe {name}"
    return match[1]


def example(name: str) -> list[str]:
    """Return the arguments of the example in a command's help."""
    line = COMMANDS[name].epilog.strip().splitlines()[-1]
    program, *arguments = shlex.split(line)
    assert program == "memalchemy"
    return arguments


def test_the_page_of_the_commands_is_generated_from_them() -> None:
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        command_reference.PAGE.write_text(command_reference.page())

    assert command_reference.PAGE.read_text() == command_reference.page()


def test_the_details_of_the_page_are_of_commands_that_there_are() -> None:
    notes = tomllib.loads(command_reference.NOTES.read_text())

    assert set(notes.pop("groups")) <= set(GROUPS)
    assert notes.pop("introduction")
    assert set(notes) <= set(COMMANDS)
    assert {key for one in notes.values() for key in one} <= {
        "elsewhere",
        "guide",
        "notes",
        "json",
        "like",
        "obvious",
    }


def test_the_documentation_describes_every_command_and_no_other() -> None:
    assert set(re.findall(r"^### `([\w -]+)`$", DOCS, re.M)) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_documentation_names_every_option(name: str) -> None:
    common = {option for parameter in COMMANDS[name].params for option in parameter.opts
              if parameter.name in COMMON_OPTIONS}  # fmt: skip
    own = {o for p in COMMANDS[name].params for o in p.opts if o.startswith("--")} - common
    described = section(name)
    if like := re.search(r"^Its options are those of \[`(\w+)`\]", described, re.M):
        described = section(like[1])
        assert [(p.opts, p.help) for p in COMMANDS[name].params] == [
            (p.opts, p.help) for p in COMMANDS[like[1]].params
        ]
    for option in own - {"--help", "--help-all"}:
        assert option in described, f"{option} of {name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_takes_the_common_options(name: str, call: Call) -> None:
    brief, whole = call(*name.split(), "--help"), call(*name.split(), "--help-all")

    assert (brief.code, whole.code) == (0, 0)
    assert f"memalchemy {name}" in brief.out or "Example" in brief.out
    assert len(COMMANDS[name].help) > 20
    for parameter in COMMANDS[name].params:
        assert parameter.name in COMMON_OPTIONS or parameter.help, f"{parameter.name} has no help"
        option = f"  {parameter.opts[-1]} "
        if parameter.name in COMMON_OPTIONS:
            assert option in whole.out
            assert option not in brief.out.split("Options:")[1]
        elif parameter.opts[0].startswith("--"):
            assert parameter.opts[0] in brief.out
    assert "--db URL, --tenant NAME, --json and 12 more: --help-all" in brief.out
    assert "--help-all lists them" not in whole.out


def test_the_help_has_the_headings_of_the_documentation(call: Call) -> None:
    helped = call("--help").out.split("Commands:")[1].split("Exit codes:")[0]
    chapters = re.split(r"^## ", DOCS, flags=re.M)[1:]
    documented = {
        chapter.splitlines()[0]: re.findall(r"^### `([\w-]+)`$", chapter, re.M)
        for chapter in chapters
    }
    for title, names in documented.items():
        if names:
            under = helped.split(f"  {title}:\n")[1].split("\n\n")[0]
            assert re.findall(r"^    ([\w-]+) ", under, re.M) == names
    under = helped.split("  Groups of commands:\n")[1]
    assert sorted(re.findall(r"^    ([\w-]+) ", under, re.M)) == GROUPS
    assert call("--help-all").out.count("--keys-file FILE") == 1
    assert "--keys-file" not in call("--help").out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_every_command_runs(
    name: str,
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    if name.startswith(("index ", "tenants ")) and name != "tenants list":
        run_on_a_server(name, call, request.getfixturevalue("postgres"))
        return
    (tmp_path / "keys.txt").write_text(call("generate-key").out)
    (tmp_path / "app.py").write_text("def embed(texts):\n    return [[1.0] for text in texts]\n")
    (tmp_path / "threads.jsonl").write_text(lines(thread("airline-1", 8), thread("b", customer=42)))
    if name != "downgrade":  # its example is of an empty database
        call("--db", "sqlite:///agent.db", "import", "threads.jsonl")
        item = {"namespace": ["users", "ada", "memories"], "key": "likes", "value": "tea"}
        (tmp_path / "items.jsonl").write_text(lines(item))
        call("--db", "sqlite:///agent.db", "store", "import", "items.jsonl")
        asyncio.run(talk("sqlite:///agent.db"))
    else:
        call("--db", "sqlite:///agent.db", "upgrade")
    if name == "restore":
        assert call(*example("backup")).code == 0
    if name == "anchor":
        assert call(*example("sign")).code == 0
    if name in SERVERS:
        serve_until_told_to_stop(name, example(name))
        return

    answer = call(*example(name), stdin="y\n")

    assert answer.code == 0, answer.err


def serve_until_told_to_stop(name: str, arguments: list[str]) -> None:
    """Run the example of a command that serves, on a free port and without a browser."""
    arguments += ["--port", "0", *SERVERS[name]]
    command = [sys.executable, "-m", "memalchemy", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as server:
        assert server.stdout is not None
        printed = iter(server.stdout.readline, "")
        assert any("http://127.0.0.1:" in line for line in printed)
        server.terminate()
        assert server.wait(A_WHILE) == 0


async def talk(url: str) -> None:
    """Save a conversation for the examples of the log commands."""
    async with Database(url) as db:
        await Conversation(db, "support-42").add("Where is my gift card?", "On its way.")


def run_on_a_server(name: str, call: Call, postgres: Postgres) -> None:
    """Run the example of a command that works on a server only."""
    database = postgres.create_database()
    url = postgres.url(database)
    assert call("--db", url, "upgrade").code == 0
    if name == "index drop":
        assert call("--db", url, *example("index build")[2:]).code == 0

    answer = call("--db", url, *example(name)[2:])

    assert answer.code == 0, answer.err
    postgres.drop_database(database)


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_of_commands_explains_itself(name: str, call: Call) -> None:
    alone, asked = call(name), call(name, "--help")

    assert (alone.code, asked.code) == (2, 0)
    for command in COMMANDS:
        if command.startswith(f"{name} "):
            assert f"  {command.split()[1]} " in asked.out
    assert "..." not in asked.out.split("Commands:")[1]


def test_the_help_truncates_no_description(call: Call) -> None:
    listed = call("--help").out.split("Commands:")[1]

    assert "..." not in listed


def test_help_and_documentation_give_every_exit_code(call: Call) -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", GUIDE, re.M)}
    shown = {int(code) for code in re.findall(r"^  +(\d+)  ", call("--help").out, re.M)}

    assert documented == shown == set(exit_codes.MEANINGS)


def test_every_error_class_has_an_exit_code() -> None:
    def below(kind: type[errors.MemalchemyError]) -> set[type[errors.MemalchemyError]]:
        return {kind}.union(*(below(k) for k in kind.__subclasses__()))

    public = {k for k in below(errors.MemalchemyError) if k.__module__ == errors.__name__}

    assert public - {errors.MemalchemyError} - set(exit_codes.CODES) == set()


def test_the_common_options_stand_before_a_command_or_after_it(filled: str, call: Call) -> None:
    before = call("--db", filled, "--json", "threads")
    after = call("threads", "--db", filled, "--json")

    assert before == after
    assert before.code == 0


def test_the_database_can_come_from_the_environment(
    filled: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMALCHEMY_URL", filled)

    assert len(call("threads", "--json").json) == 2


def test_the_option_wins_over_the_environment(
    filled: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMALCHEMY_URL", "sqlite:////nowhere/at/all.db")

    assert call("threads", "--db", filled).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("threads",), 2, "MA-USAGE"),
        (("threads", "--db", "mysql://host/db"), 2, "MA-UNKNOWN-URL"),
        (("threads", "--db", "agent"), 2, "MA-UNKNOWN-URL"),
        (("threads", "--db", "sqlite://"), 2, "MA-USAGE"),
        (("threads", "--db", "sqlite:////nowhere/agent.db"), 3, "MA-UNREACHABLE"),
        (("threads", "--db", "postgresql://me:secret@127.0.0.1:1/d"), 3, "MA-UNREACHABLE"),
        (("threads", "--db", "FILE", "--schema", "s"), 2, "MA-USAGE"),
        (("history", "nobody", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("show", "nobody", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("show", "airline-1", "--at", "x", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("show", "airline-1", "--raw", "--messages", "--db", "FILE"), 2, "MA-USAGE"),
        (("tail", "nobody", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("tail", "airline-1", "--namespace", "x", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("stats", "nobody", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("diff", "airline-1", "000001", "x", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("export", "--db", "FILE"), 2, "MA-USAGE"),
        (("prune", "airline-1", "--db", "FILE"), 2, "MA-USAGE"),
        (("prune", "--keep-last", "3", "--db", "FILE"), 2, "MA-USAGE"),
        (("prune", "--all", "--older-than", "soon", "--db", "FILE"), 2, "MA-USAGE"),
        (("forget", "--metadata", "customer", "--db", "FILE"), 2, "MA-USAGE"),
        (("threads", "--tenant", "", "--db", "FILE"), 2, "MA-USAGE"),
        (("--tenant", "", "threads", "--db", "FILE"), 2, "MA-USAGE"),
        (("forget", "--whole-tenant", "", "--yes", "--db", "FILE"), 2, "MA-USAGE"),
        (("forget", "--thread", "nobody", "--yes", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("forget", "--metadata", "customer=0", "--yes", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("forget", "--whole-tenant", "nobody", "--yes", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("import", "/nowhere.jsonl", "--db", "FILE"), 2, "MA-USAGE"),
        (("upgrade", "--revision", "zz", "--db", "FILE"), 2, "MA-USAGE"),
        (("store", "get", "a", "nothing", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("store", "rm", "a", "nothing", "--db", "FILE"), 1, "MA-NOT-FOUND"),
        (("store", "rm", "a", "--db", "FILE"), 2, "MA-USAGE"),
        (("store", "ls", "a~b", "--db", "FILE"), 2, "MA-USAGE"),
        (("store", "ls", "", "--db", "FILE"), 2, "MA-USAGE"),
        (("store", "search", "a", "--db", "FILE"), 2, "MA-USAGE"),
        (("store", "import", "/nowhere.jsonl", "--db", "FILE"), 2, "MA-USAGE"),
        (("index", "show", "--db", "FILE"), 4, "MA-CAPABILITY-MISSING"),
        (("index", "build", "--dimensions", "3", "--db", "FILE"), 4, "MA-CAPABILITY-MISSING"),
        (("index", "drop", "some", "--db", "FILE"), 4, "MA-CAPABILITY-MISSING"),
    ],
)
def test_a_failure_is_one_line_and_a_code(
    arguments: tuple[str, ...], code: int, name: str, filled: str, call: Call
) -> None:
    given = [filled if a == "FILE" else a for a in arguments]
    text = call(*given)
    data = call(*given, "--json")

    assert (text.code, text.out) == (data.code, data.out) == (code, "")
    assert text.err.startswith(f"error [{name}]: ")
    error = json.loads(data.err)["error"]
    assert (error["code"], error["exit_code"]) == (name, code)
    assert text.err.count("\n") == data.err.count("\n") == 1
    assert "secret" not in text.err + data.err


@pytest.mark.parametrize(
    ("arguments", "helps"),
    [
        (("threads",), "--db sqlite:///agent.db"),
        (("threads", "--db", "agent"), "sqlite:///agent or ./agent"),
        (("threads", "--db", "none.db"), "memalchemy upgrade"),
        (("threads", "--db", "sqlite:////nowhere/agent.db"), "memalchemy upgrade"),
        (("history", "nobody", "--db", "FILE"), "memalchemy threads"),
        (("show", "airline-1", "--at", "x", "--db", "FILE"), "memalchemy history"),
        (("delete", "airline-1", "x", "--db", "FILE"), "memalchemy history"),
        (("prune", "airline-1", "--db", "FILE"), "--keep-last"),
        (("tail", "nobody", "--db", "FILE"), "memalchemy threads"),
        (("store", "get", "a", "nothing", "--db", "FILE"), "memalchemy store ls"),
        (("store", "put", "a", "k", "tea", "--db", "FILE"), "--text"),
    ],
)
def test_an_error_says_what_to_do(
    arguments: tuple[str, ...], helps: str, filled: str, call: Call
) -> None:
    assert helps in call(*(filled if a == "FILE" else a for a in arguments)).err


def test_inspecting_a_missing_file_does_not_create_it(file_url: str, call: Call) -> None:
    for arguments in (("threads",), ("check",), ("current",), ("downgrade", "base")):
        assert call(*arguments, "--db", file_url).code == 3
    assert not Path(file_url.removeprefix("sqlite:///")).exists()


def test_damage_has_an_exit_code_of_its_own(filled: str, call: Call) -> None:
    import sqlite3

    with sqlite3.connect(filled.removeprefix("sqlite:///")) as connection:
        connection.execute(f"UPDATE deltas SET payload = x'00' WHERE {of_thread('airline-1')}")
    connection.close()

    answer = call("show", "airline-1", "--db", filled)

    assert answer.code == 5
    assert answer.err.startswith("error [MA-CORRUPT]: ")


def test_piped_tables_have_no_colour(filled: str) -> None:
    ended = process("search", "flights", "--db", filled)

    assert "flights" in ended.stdout
    assert "\x1b" not in ended.stdout
