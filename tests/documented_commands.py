"""The commands that a page names, and whether the programs take them."""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from alembic.config import CommandLine
from benchmarks import __main__ as benchmarks
from typer._click import exceptions as refusals
from typer.core import TyperGroup
from typer.main import get_command

from memalchemy.cli.app import app
from pages import ROOT

FENCE = re.compile(r"^```(\w*)[^\n`]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
SHELL = {"", "bash", "sh", "console", "shell"}
ENDS = {"|", "||", "&&", ";", "&", ">", ">>", "<"}


@dataclass(frozen=True)
class Named:
    """One command of a page, as a list of words."""

    words: tuple[str, ...]
    whole: bool
    """It stands in a block, to be pasted; in a sentence a command may lack what it needs."""

    def __str__(self) -> str:
        return shlex.join(self.words)


def commands_of(page: Path) -> list[Named]:
    """All of the programs below, from blocks for a shell and from sentences."""
    text = page.read_text()
    found = []
    for language, block in FENCE.findall(text):
        if language in SHELL:
            found += [Named(words, True) for words in _commands(block)]
    for code in INLINE.findall(FENCE.sub("", text)):
        found += [Named(words, False) for words in _commands(" ".join(code.split()))]
    return found


def _commands(script: str) -> Iterator[tuple[str, ...]]:
    for line in script.replace("\\\n", " ").splitlines():
        if not re.search(rf"(^|[\s;|&])({'|'.join(PROGRAMS)}|python -m memalchemy)($|\s)", line):
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in ENDS:
                words.append(word)
                continue
            if (command := _of_a_program(words)) is not None:
                yield command
            words = []


def _of_a_program(words: list[str]) -> tuple[str, ...] | None:
    if words and words[0].startswith("_MEMALCHEMY_COMPLETE="):
        return None  # it prints a script for a shell, and takes no command
    while words and re.fullmatch(r"[A-Z_]+=.*|\$", words[0]):
        words = words[1:]
    if len(words) > 5 and all(re.fullmatch(r"[\d*]+", word) for word in words[:5]):
        words = words[5:]  # when cron runs it
    if words[:3] == ["python", "-m", "memalchemy"]:
        words = words[2:]
    return tuple(words) if words and words[0] in PROGRAMS else None


_tree = cache(lambda: get_command(app))


def _memalchemy(named: Named, config: pytest.Config) -> str | None:
    # Parsed by the program's own tree, and not run.
    command: Any = _tree()
    words, parent = list(named.words[1:]), None
    if words == ["COMMAND", "--help"]:
        return None
    if words in (["--install-completion"], ["--show-completion"]):
        return None  # parsing them is running them
    try:
        while True:
            context = command.make_context(command.name, words, parent=parent)
            rest = [*context._protected_args, *context.args]
            if not isinstance(command, TyperGroup):
                return None
            if not rest:
                return "it lacks a command" if named.whole else None
            _, chosen, words = command.resolve_command(context, rest)
            command, parent = chosen, context
    except refusals.NoArgsIsHelpError:
        return "it lacks a command" if named.whole else None
    except refusals.MissingParameter as error:
        return error.format_message() if named.whole else None
    except refusals.UsageError as error:
        return error.format_message()
    except typer.Exit:
        return None  # --help


def _alembic(named: Named, config: pytest.Config) -> str | None:
    return _parsed(CommandLine("alembic").parser.parse_args, list(named.words[1:]))


def _nox(named: Named, config: pytest.Config) -> str | None:
    words = list(named.words[1:])
    ours = words[words.index("--") + 1 :] if "--" in words else []
    words = words[: words.index("--")] if "--" in words else words
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", dest="sessions", nargs="+", choices=sorted(nox_sessions()))
    parser.add_argument("-l", action="store_true")
    if (wrong := _parsed(parser.parse_args, words)) is not None:
        return wrong
    sessions = {*(parser.parse_args(words).sessions or ())}
    if {"bench", "bench-check"} & sessions:
        return _parsed(benchmarks._parse, ours)
    if "wheel" in sessions:
        wheel = argparse.ArgumentParser()
        wheel.add_argument("--tag")
        return _parsed(wheel.parse_args, ours)
    return _pytest(Named(("pytest", *ours), named.whole), config)


def nox_sessions() -> set[str]:
    """The names of the sessions in noxfile.py."""
    found = set()
    for node in ast.parse((ROOT / "noxfile.py").read_text()).body:
        for decorator in getattr(node, "decorator_list", []):
            assert isinstance(node, ast.FunctionDef)
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            names = [k.value.value for k in keywords if k.arg == "name"]
            found.add(names[0] if names else node.name)
    return found


def _pytest(named: Named, config: pytest.Config) -> str | None:
    for word in named.words[1:]:
        if word.startswith("-"):
            try:
                config.getoption(word)
            except ValueError:
                if word not in ("-k", "-v", "-q", "-x", "-n"):
                    return f"pytest has no option {word}"
        elif "/" in word and not (ROOT / word).exists():
            return f"there is no {word}"
    return None


def _pip(named: Named, config: pytest.Config) -> str | None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for word in named.words:
        extras = re.fullmatch(r"(?:memalchemy|\.)\[(.*)\]", word)
        for extra in extras[1].split(",") if extras else []:
            if extra not in project["optional-dependencies"]:
                return f"there is no extra {extra!r}"
        if extras and not word.startswith("."):
            return "there is no release yet: pages install from a clone, '.[extra]'"
    return None


def _parsed(parse: Callable[[list[str]], object], words: list[str]) -> str | None:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            parse(words)
        except SystemExit as ended:
            return said.getvalue() if ended.code else None
    return None


PROGRAMS: dict[str, Callable[[Named, pytest.Config], str | None]] = {
    "memalchemy": _memalchemy,
    "alembic": _alembic,
    "nox": _nox,
    "pytest": _pytest,
    "pip": _pip,
}


def refused(named: Named, config: pytest.Config) -> str | None:
    """Why its program does not take a command; ``None`` if it does."""
    return PROGRAMS[named.words[0]](named, config)
