"""Private names of other libraries that the sources use, found in their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import ModuleType

from pages import ROOT
from source_trees import parsed

PUBLIC = {"_asdict", "_exit", "_fields", "_make", "_mapping", "_replace"}
"""Public names of named tuples and of SQLAlchemy's `Row`, whose underscore keeps columns apart."""

SOURCES = [
    *sorted((ROOT / "src" / "memalchemy").rglob("*.py")),
    *sorted((ROOT / "migrations").rglob("*.py")),
]
ASKERS = {"getattr", "hasattr", "setattr", "delattr"}


def private_uses() -> set[tuple[str, str]]:
    """The file and the name of each private name that is used outside of the module that has it.

    An object's own type is not known here, so a module that has such a name itself may use it on
    any object.
    """
    return {
        (path.relative_to(ROOT).as_posix().removeprefix("src/memalchemy/"), name)
        for path in SOURCES
        for name in private_names(parsed(path.read_text()))
    }


def private_names(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a module uses and does not define."""
    own = set(_defined(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if name not in own:
                yield from _private(name)
            case ast.keyword(arg=str(name)) if name not in own:
                yield from _private(name)
            case ast.Call(func=ast.Name(id=asker), args=[_, ast.Constant(str(name)), *_]):
                if asker in ASKERS and name not in own:
                    yield from _private(name)
            case ast.ImportFrom(module=module, names=names, level=0):
                parts = str(module).split(".")
                if parts[0] != "memalchemy":
                    for part in [*parts, *(one.name for one in names)]:
                        yield from _private(part)
            case ast.Import(names=names):
                for one in names:
                    parts = one.name.split(".")
                    if parts[0] != "memalchemy":
                        for part in parts:
                            yield from _private(part)


def _private(name: str) -> Iterator[str]:
    is_dunder = name.startswith("__") and name.endswith("__")
    if name.startswith("_") and name.strip("_") and not is_dunder and name not in PUBLIC:
        yield name


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name


def private_overrides(module: ModuleType) -> set[tuple[str, str]]:
    """The class and the name of each private method that replaces one of another library."""
    return {
        (cls.__name__, name)
        for cls in vars(module).values()
        if isinstance(cls, type) and cls.__module__ == module.__name__
        for name, method in vars(cls).items()
        if getattr(method, "__module__", None) == module.__name__
        for found in _private(name)
        if any(found in vars(base) for base in cls.__mro__ if not _is_ours(base))
    }


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "memalchemy"


def example(text: str) -> set[str]:
    """The private names that a piece of source uses."""
    return set(private_names(parsed(text)))
