"""Every name, id or place that a command takes is refused if it is empty."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from commandline import Call, lines, thread

from memalchemy.cli.app import GROUPS, SECTIONS
from memalchemy.cli.command import MAY_BE_EMPTY, Command
from memalchemy.cli.context import Context

COMMANDS: dict[str, Command] = {
    **{one.name: one for some in SECTIONS.values() for one in some},
    **{f"{name} {one.name}": one for name, (_, some) in GROUPS.items() for one in some},
}


def parameters_of(command: Command) -> list[tuple[inspect.Parameter, Any, Any]]:
    """Return the parameters of a command, each with its type and what Typer is told of it."""
    types = get_type_hints(command.function, include_extras=True)
    return [
        (parameter, *get_args(types[name])[:2])
        for name, parameter in inspect.signature(command.function).parameters.items()
        if types[name] is not Context
    ]


def is_text(kind: Any) -> bool:
    return kind is str or str in get_args(kind)


def texts() -> list[tuple[str, str]]:
    """Return the arguments and options that are texts, each with its command."""
    return [
        (name, parameter.name)
        for name, command in COMMANDS.items()
        for parameter, kind, told in parameters_of(command)
        if is_text(kind) and told.metavar not in MAY_BE_EMPTY
    ]


def call_with_empty(name: str, empty: str) -> tuple[list[str], str]:
    """Return a call of a command of which one text is empty, and how that text is named."""
    call, shown = name.split(), ""
    for parameter, kind, told in parameters_of(COMMANDS[name]):
        is_argument = type(told).__name__ == "ArgumentInfo"
        option = f"--{parameter.name.replace('_', '-')}" if told.default is ... else told.default
        is_required = parameter.default is inspect.Parameter.empty
        given = "" if parameter.name == empty else "3" if kind is int else "something"
        if parameter.name == empty:
            shown = told.metavar if is_argument else option
        if is_argument and (is_required or not shown or parameter.name == empty):
            call += [given]
        elif is_required or parameter.name == empty:
            call += [option, given]
    return call, shown


@pytest.mark.parametrize(("name", "parameter"), texts())
def test_an_empty_name_is_refused_and_named(
    call: Call, name: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, shown = call_with_empty(name, parameter)

    answer = call("--db", "sqlite:///new.db", *arguments)

    assert answer.code == 2, answer.err
    assert f"{shown} is empty: is the variable set that it was to have?" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_most_commands_take_a_name() -> None:
    assert len({name for name, _ in texts()}) > 25


def test_an_empty_text_is_no_mistake(call: Call, file_url: str) -> None:
    given = lines(thread("airline-1", 8))

    assert call("--db", file_url, "import", "-", "--prefix", "", stdin=given).code == 0
