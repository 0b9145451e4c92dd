"""The public names as text, a line each, and what a later text lacks of an earlier one.

Public is what the reference has (docs/stability.md), but for the adapters, whose classes have the
methods of their frameworks, and for synchronous classes, which are made from the others.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncAttrs

import memalchemy
from memalchemy.schema import Base

HERE = Path(__file__).parent
SNAPSHOT = HERE / "public_api.txt"
BUILTIN = (BaseException, ImportError, BaseModel, str, list, Base, AsyncAttrs)
"""Classes whose members Python, pydantic and SQLAlchemy describe."""
REFERENCE = HERE.parent / "docs" / "reference"


def of_release(release: str) -> Path:
    """Return the file of the names that a release has."""
    return HERE / f"public_api-{release}.txt"


def surface() -> str:
    """Return the names of the package, and those of its modules that the reference has."""
    return "".join(f"{line}\n" for name in public_names() for line in _described(name))


def public_names() -> list[str]:
    """Return the names of `memalchemy`, then those that the reference has of its modules."""
    pages = "\n".join(page.read_text() for page in sorted(REFERENCE.glob("*.md")))
    documented = set(re.findall(r"^::: memalchemy\.(\S+)", pages, re.M))
    below = (name for name in sorted(documented) if "." in name)
    elsewhere = ("integrations.", "sync.", "http.blocking.")
    return [*memalchemy.__all__, *(name for name in below if not name.startswith(elsewhere))]


def is_inherited(cls: type, member: str) -> bool:
    """Return whether a member is one of Python's of a library's own."""
    return any(member in vars(base) for base in BUILTIN if issubclass(cls, base))


def _described(name: str) -> Iterator[str]:
    module, _, attribute = name.rpartition(".")
    value = getattr(import_module(f"memalchemy.{module}".rstrip(".")), attribute)
    if not inspect.isclass(value):
        yield _line(name, value) if module else name
        return
    yield f"class {name}{_signature(value.__init__)}"
    yield from (f"  {field}" for field in getattr(value, "model_fields", ()))
    for member, _ in inspect.getmembers(value):
        if not member.startswith("_") and not is_inherited(value, member):
            yield f"  {_line(member, inspect.getattr_static(value, member))}"


def _line(name: str, value: Any) -> str:
    if not inspect.isfunction(value):
        return name
    marks = "deprecated " if hasattr(value, "__deprecated__") else ""
    marks += "async " if inspect.iscoroutinefunction(inspect.unwrap(value)) else ""
    return f"{marks}{name}{_signature(value)}"


def _signature(function: object) -> str:
    if not inspect.isfunction(function):
        return "()"
    given = inspect.signature(function)
    parameters = [
        one if one.default is one.empty else one.replace(default=Written(one.default))
        for one in given.parameters.values()
    ]
    return str(given.replace(parameters=parameters))


class Written:
    """A default as an expression of Python, the same in every process."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        value = self._value
        if isinstance(value, Enum):
            return f"{type(value).__name__}.{value.name}"
        if isinstance(value, (set, frozenset)):
            return f"{type(value).__name__}({sorted(value)})"
        if inspect.isclass(value):
            return value.__name__
        if isinstance(value, tuple):
            return f"({', '.join(map(repr, map(Written, value)))}{',' * (len(value) == 1)})"
        text = repr(value)
        return "..." if "<" in text else text


# --- What a later text lacks ---------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """A name of a surface: a function or a class with its parameters, or something else."""

    marks: frozenset[str] = frozenset()
    arguments: ast.arguments | None = None
    returns: ast.expr | None = None


@dataclass(frozen=True)
class Parameter:
    place: int | None
    """That among the positional ones."""
    by_name: bool
    default: str | None
    takes: frozenset[str]


LINE = re.compile(
    r"(?P<indent> *)(?P<marks>(?:(?:class|async|deprecated) )*)(?P<name>[\w.]+)(?P<rest>.*)"
)
ANYTHING = {"Any", "object"}


def lacks(earlier: str, later: str) -> list[str]:
    """Return a sentence for each name or parameter that was removed or takes less than before.

    What was deprecated in the earlier text may be gone.
    """
    old, new = read(earlier), read(later)
    found = []
    for name, was in old.items():
        if "deprecated" in was.marks:
            continue
        if name not in new:
            owner = name.rpartition(".")[0]
            if owner not in old or owner in new:
                found.append(f"{name} was removed")
            continue
        found += [f"{name}: {fault}" for fault in _narrowed(was, new[name])]
    return found


def read(text: str) -> dict[str, Name]:
    """Return the names of a surface, members as ``Class.member``."""
    names, owner = {}, ""
    for line in text.splitlines():
        parts = LINE.fullmatch(line)
        assert parts is not None, line
        name = parts["name"]
        if not parts["indent"]:
            owner = name
        else:
            name = f"{owner}.{name}"
        names[name] = _read(frozenset(parts["marks"].split()), parts["rest"])
    return names


def _read(marks: frozenset[str], rest: str) -> Name:
    if not rest:
        return Name(marks)
    [function] = ast.parse(f"def f{rest}: ...").body
    assert isinstance(function, ast.FunctionDef)
    return Name(marks, function.args, function.returns)


def _narrowed(was: Name, now: Name) -> Iterator[str]:
    for mark in ("class", "async"):
        if (mark in was.marks) != (mark in now.marks):
            yield f"is {'no longer' if mark in was.marks else 'now'} {mark}"
    if was.arguments is None:
        return
    if now.arguments is None:
        yield "can no longer be called"
        return
    old, new = _parameters(was.arguments), _parameters(now.arguments)
    takes_more = now.arguments.kwarg is not None
    for name, one in old.items():
        if name not in new:
            if not (takes_more and one.place is None):
                yield f"parameter {name} was removed"
            continue
        yield from (f"parameter {name} {fault}" for fault in _changes(one, new[name]))
    for name, one in new.items():
        if name not in old and one.default is None:
            yield f"parameter {name} is new and required"
    for stars, what in (("*", "vararg"), ("**", "kwarg")):
        had = getattr(was.arguments, what)
        if had and not getattr(now.arguments, what):
            yield f"{stars}{had.arg} was removed"
    more = _types(now.returns) - _types(was.returns)
    if more and not _types(was.returns) & {*ANYTHING, "None", ""}:
        yield f"may now return {', '.join(sorted(more))}"


def _changes(was: Parameter, now: Parameter) -> Iterator[str]:
    if was.place is not None and now.place != was.place:
        yield "has another place" if now.place is not None else "is now given by its name alone"
    if was.by_name and not now.by_name:
        yield "can no longer be given by its name"
    if was.default is not None and now.default != was.default:
        yield "is now required" if now.default is None else f"has another default: {now.default}"
    if (less := was.takes - now.takes) and not now.takes & {*ANYTHING, ""}:
        yield f"no longer takes {', '.join(sorted(less))}"


def _parameters(given: ast.arguments) -> dict[str, Parameter]:
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + given.defaults
    found = {}
    for place, (one, default) in enumerate(zip(positional, defaults, strict=True)):
        by_name = one not in given.posonlyargs
        found[one.arg] = Parameter(place, by_name, _text(default), _types(one.annotation))
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found[one.arg] = Parameter(None, True, _text(default), _types(one.annotation))
    return found


def _text(node: ast.expr | None) -> str | None:
    return None if node is None else ast.unparse(node)


def _types(annotation: ast.expr | None) -> frozenset[str]:
    """Return the members of a union, as they are written."""
    if annotation is None:
        return frozenset({""})
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _types(ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _types(annotation.left) | _types(annotation.right)
    return frozenset({ast.unparse(annotation)})
