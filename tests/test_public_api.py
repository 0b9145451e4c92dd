"""The public surface: small, documented, and changed only on purpose."""

from __future__ import annotations

import ast
import inspect
import os
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import memalchemy
import memalchemy.analysis
import memalchemy.collections
import memalchemy.conformance
import memalchemy.context
import memalchemy.conversations
import memalchemy.http
import memalchemy.inspection
import memalchemy.memory
import memalchemy.memory.managers
from memalchemy import errors
from pages import regenerates, with_rows

PACKAGES = [
    memalchemy,
    memalchemy.analysis,
    memalchemy.collections,
    memalchemy.conformance,
    memalchemy.context,
    memalchemy.conversations,
    memalchemy.http,
    memalchemy.inspection,
    memalchemy.memory,
    memalchemy.memory.managers,
]

_BUILTIN = (BaseException, ImportError, BaseModel, str)
SNAPSHOT = Path(__file__).parent / "public_api.txt"


def _surface() -> str:
    lines = []
    for name in memalchemy.__all__:
        value = getattr(memalchemy, name)
        if not inspect.isclass(value):
            lines.append(name)
            continue
        lines.append(f"class {name}{_signature(value.__init__)}")
        lines += [f"  {field}" for field in getattr(value, "model_fields", ())]
        for member, _ in inspect.getmembers(value):
            builtin = any(member in vars(base) for base in _BUILTIN if issubclass(value, base))
            if member.startswith("_") or builtin:
                continue
            where = inspect.getattr_static(value, member)
            if inspect.isfunction(where):
                prefix = "async " if inspect.iscoroutinefunction(where) else ""
                lines.append(f"  {prefix}{member}{_signature(where)}")
            else:
                lines.append(f"  {member}")
    return "\n".join(lines) + "\n"


def _signature(function: object) -> str:
    if not inspect.isfunction(function):
        return "()"
    return str(inspect.signature(function))


def test_the_public_api_is_the_one_that_was_reviewed() -> None:
    surface = _surface()
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        SNAPSHOT.write_text(surface)

    assert surface == SNAPSHOT.read_text()


def test_all_is_sorted_and_complete() -> None:
    assert sorted(memalchemy.__all__, key=_natural) == memalchemy.__all__
    for name in memalchemy.__all__:
        assert getattr(memalchemy, name) is not None


def _natural(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_every_public_method_has_a_docstring() -> None:
    for name in memalchemy.__all__:
        value = getattr(memalchemy, name)
        if not inspect.isclass(value):
            continue
        assert value.__doc__, name
        for member, function in inspect.getmembers(value, inspect.isfunction):
            inherited = any(member in vars(base) for base in _BUILTIN if issubclass(value, base))
            if not member.startswith("_") and not inherited:
                assert function.__doc__, f"{name}.{member}"


def test_every_error_has_a_code_of_its_own_and_a_line_in_the_documentation() -> None:
    page = Path(__file__).parents[1] / "docs" / "errors.md"
    classes = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value)
        and issubclass(value, errors.MemalchemyError)
        and value is not errors.MemalchemyError
    ]

    assert len({cls.code for cls in classes}) == len(classes)
    rows = [(f"`{cls.code}` `{cls.__name__}`",) for cls in classes]
    written = with_rows(page.read_text(), "| code and class |", rows, new=" | ")
    if regenerates():
        page.write_text(written)
    assert page.read_text() == written
    assert " |  |" not in written, "a line lacks when it is raised"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_package_has_the_names_that_it_lists_and_refuses_a_misspelt_one(package: Any) -> None:
    assert {*package.__all__} <= {*dir(package)}
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match=f"'{package.__name__}' has no attribute") as refused:
        _ = package.Misspelt
    assert (refused.value.name, refused.value.obj) == ("Misspelt", package)


def test_what_is_imported_later_is_what_a_type_checker_is_told() -> None:
    for package in (memalchemy, memalchemy.conversations, memalchemy.http, memalchemy.memory):
        source = Path(str(package.__file__)).read_text()
        [block] = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
        told = {
            (node.module, name.name)
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        }
        [assigned] = block.orelse
        places = ast.literal_eval(assigned.value.args[1])  # type: ignore[attr-defined]
        root = package.__name__
        assert told == {
            (resolve_name(f".{module}", root), name)
            for module, names in places.items()
            for name in names
        }
