"""No two modules define public functions or classes of one name, unless they are one thing.

A reader who searches for a name finds one definition, or several sides of one thing: an operation
of the server and the method that it offers, a record and its model in the HTTP API.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest

import memalchemy
from memalchemy import contracts
from memalchemy.http.operations import OPERATIONS
from source_trees import parsed

PACKAGE = Path(memalchemy.__file__).parent
ROOMS = ("integrations", "cli")
"""Packages whose names are compared among themselves: a name of a framework is the framework's."""


class Definition(NamedTuple):
    """A public function or class of a module."""

    name: str
    module: str
    decorators: tuple[str, ...]

    @property
    def room(self) -> str:
        first = self.module.partition("/")[0]
        return first if first in ROOMS else ""


Kind = Callable[[Definition], bool]


def _is_endpoint(one: Definition) -> bool:
    return f"endpoints.add(operations.{one.name})" in one.decorators and one.name in {
        operation.name for operation in OPERATIONS
    }


def _is_http_model(one: Definition) -> bool:
    return one.module == "http/server/_schemas.py" and hasattr(contracts, one.name)


def _is_command(one: Definition) -> bool:
    return one.room == "cli" and any("command(" in text for text in one.decorators)


def _is_promise(one: Definition) -> bool:
    return one.module.startswith("conformance/") and any(
        "_CHECKS(" in text for text in one.decorators
    )


def _is_class_for_a_framework(one: Definition) -> bool:
    return one.room == "integrations" and one.name.startswith("Memalchemy")


def _is_filter_of_an_adapter(one: Definition) -> bool:
    return one.room == "integrations" and one.name == "native_filter"


def _is_face_of_an_importer(one: Definition) -> bool:
    importers = "integrations/_importers/"
    return one.module.startswith(importers) and one.name in ("count", "read")


def _is_start_of_a_process(one: Definition) -> bool:
    return one.name == "main"


ONE_SIDE: dict[str, Kind] = {
    "an endpoint has the name of its operation, which others carry out": _is_endpoint,
    "the HTTP API has a model of a record of memalchemy.contracts": _is_http_model,
}
"""Definitions that are the HTTP side of what another module defines under the same name."""

BOTH_SIDES: dict[str, Kind] = {
    "a command is named as people type it": _is_command,
    "one promise is checked of several contracts": _is_promise,
    "a class is named after the interface of its framework": _is_class_for_a_framework,
    "an adapter translates the filters of its framework": _is_filter_of_an_adapter,
    "every importer has the same two functions": _is_face_of_an_importer,
    "a process starts there": _is_start_of_a_process,
}
"""Definitions that share a name with others of the same kind."""

ONE_THING: dict[str, str] = {
    "Report": "public twice: the results of all checks, of stored data and of an implementation",
    "Summary": "the HTTP API has a model of the text of a summary",
    "of_log": "the same condition; the packages below log/ have it from protection/",
    "register": "what a user calls to make a framework know its adapter",
}
"""Other names of two modules, each with the reason why they are one thing."""


def definitions(module: str, code: str) -> Iterator[Definition]:
    """Yield the public functions and classes at the top of a module."""
    for node in parsed(code).body:
        is_definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if is_definition and not node.name.startswith("_"):
            decorators = tuple(ast.unparse(one) for one in node.decorator_list)
            yield Definition(node.name, module, decorators)


def are_one_thing(one: Definition, other: Definition) -> bool:
    """Return whether two definitions of one name are sides of one thing."""
    return any(kind(one) or kind(other) for kind in ONE_SIDE.values()) or any(
        kind(one) and kind(other) for kind in BOTH_SIDES.values()
    )


def shared(found: Iterable[Definition]) -> dict[str, set[str]]:
    """Return the names that several modules have for different things, with the modules."""
    by_name: dict[tuple[str, str], list[Definition]] = defaultdict(list)
    for one in found:
        by_name[one.room, one.name].append(one)
    names: dict[str, set[str]] = defaultdict(set)
    for (_, name), several in by_name.items():
        for one, other in combinations(several, 2):
            if one.module != other.module and not are_one_thing(one, other):
                names[name] |= {one.module, other.module}
    return dict(names)


@cache
def of_the_package() -> tuple[Definition, ...]:
    return tuple(
        one
        for path in sorted(PACKAGE.rglob("*.py"))
        if "versions" not in path.parts  # a wheel has the revisions, whose functions Alembic names
        for one in definitions(path.relative_to(PACKAGE).as_posix(), path.read_text())
    )


def test_no_two_things_share_a_name() -> None:
    found = shared(of_the_package())

    assert {name: found[name] for name in found.keys() - ONE_THING.keys()} == {}
    assert ONE_THING.keys() - found.keys() == set(), "reasons that nothing needs any more"


@pytest.mark.parametrize("reason", [*ONE_SIDE, *BOTH_SIDES])
def test_each_kind_of_names_that_may_be_shared_is_there(reason: str) -> None:
    kind = (ONE_SIDE | BOTH_SIDES)[reason]
    names: dict[str, set[str]] = defaultdict(set)
    of_kind = set()
    for one in of_the_package():
        names[one.name].add(one.module)
        if kind(one):
            of_kind.add(one.name)

    assert any(len(names[name]) > 1 for name in of_kind)


def test_a_name_of_two_things_is_found() -> None:
    one = [*definitions("log/a.py", "def check(): ...\ndef _private(): ...\nclass Log: ...")]
    other = [*definitions("store/b.py", "async def check(): ...\ndef _private(): ...")]
    of_cli = [*definitions("cli/c.py", "class Log: ...")]

    assert shared([*one, *other, *of_cli]) == {"check": {"log/a.py", "store/b.py"}}
    assert shared([*one, *of_cli]) == {}


def test_two_sides_of_one_thing_may_share_a_name() -> None:
    endpoint = "@endpoints.add(operations.diff)\nasync def diff(): ..."
    check = "@LOG_CHECKS('memalchemy.ThreadLog')\nasync def it_counts(log): ..."

    assert (
        shared(
            [
                *definitions("http/server/_checkpoints.py", endpoint),
                *definitions("checkpoints/diff.py", "def diff(): ..."),
                *definitions("conformance/log.py", check),
                *definitions("conformance/store.py", check),
            ]
        )
        == {}
    )
    assert shared(
        [
            *definitions("conformance/log.py", check),
            *definitions("log/append.py", "def it_counts(): ..."),
        ]
    ).keys() == {"it_counts"}
