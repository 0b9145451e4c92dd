"""Each search by words says whether what it finds holds any of the words, or all."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from memalchemy.cli.app import app
from memalchemy.http.inspector._routes import ENDPOINTS as PAGES
from memalchemy.http.operations import OPERATIONS, Operation
from memalchemy.http.server import _schemas as schemas
from memalchemy.inspection import Inspector
from word_searches import NO_WORDS, methods_with_a_query, searches_words

METHODS = dict(methods_with_a_query())


def test_there_are_searches_to_look_at() -> None:
    assert len(METHODS) >= 20
    assert {one for one in NO_WORDS if one not in METHODS} == set()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_with_a_query_takes_match_or_passes_it_on(name: str) -> None:
    parameters = inspect.signature(METHODS[name]).parameters
    passes_on = any(one.kind is one.VAR_KEYWORD for one in parameters.values())

    if not searches_words(name):
        assert "match" not in parameters
    elif not passes_on:
        match = parameters["match"]
        assert match.kind is match.KEYWORD_ONLY
        assert match.default == "any"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_a_route_with_a_query_takes_match(operation: Operation) -> None:
    for given in filter(None, (operation.query, operation.body)):
        fields = getattr(schemas, given).model_fields
        assert ("match" in fields) == ("query" in fields)


@pytest.mark.parametrize("name", PAGES)
def test_a_route_of_the_inspector_with_a_query_takes_match(name: str) -> None:
    taken = dict(PAGES[name].parameters)

    # The query of the box for SQL is no method of the inspector's, and looks for no words.
    has_words = "q" in taken and name != "sql" and searches_words(f"Inspector.{name}")
    assert ("match" in taken) == has_words
    if has_words:
        assert "match" in inspect.signature(getattr(Inspector, name)).parameters


def _commands(of: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, one in of.commands.items():
        if hasattr(one, "commands"):
            yield from _commands(one, f"{name} ")
        else:
            yield f"{path}{name}", one


COMMANDS = dict(_commands(typer.main.get_command(app)))
del COMMANDS["sql"]  # its query is SQL


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_with_a_query_takes_match(name: str) -> None:
    options = {one.name: one for one in COMMANDS[name].params}

    assert ("match" in options) == ("query" in options)
    if "match" in options:
        assert options["match"].opts == ["--match"]
        assert options["match"].default == "any"
