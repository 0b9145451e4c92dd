"""Which parameters of a public class take several ids, and what happens to one string there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

SEVERAL = re.compile(
    r"\b(Sequence|Iterable|Collection|list|List|AbstractSet|Set|set|frozenset)\["
    r"(str|int|tuple|Namespace|Sequence|bytes|None)\b"
)
INSIDE = re.compile(r"\[[^\[\]]*\]")


def takes_several(annotation: object) -> bool:
    """Whether an annotation is that of a list of ids, keys or places, and of no single one."""
    spelt = str(annotation).strip("'")
    if spelt == "Batch":
        return True
    if not SEVERAL.search(spelt):
        return False
    outside = spelt
    while INSIDE.search(outside):
        outside = INSIDE.sub("", outside)
    return not {"str", "Any", "bytes"} & {one.strip() for one in outside.split("|")}


def parameters(classes: Iterable[type]) -> Iterator[tuple[type, str, str]]:
    """Each class with a public method, or ``__init__``, and a parameter that takes several."""
    for cls in classes:
        for name, method in inspect.getmembers(cls, inspect.isroutine):
            if name.startswith("_") and name != "__init__":
                continue
            try:
                signature = inspect.signature(method)
            except ValueError:
                continue
            for parameter in signature.parameters.values():
                if takes_several(parameter.annotation):
                    yield cls, name, parameter.name


def spelt(case: tuple[type, str, str]) -> str:
    cls, name, parameter = case
    return f"{cls.__name__}.{name}({parameter})"


async def refuses_one(made: Any, cls: type, name: str, parameter: str, one: Any) -> None:
    """Calling *name* with *one* for a parameter that takes several is a TypeError that says so."""
    method = cls if name == "__init__" else getattr(made, name)
    signature = inspect.signature(method)
    given: dict[str, Any] = {}
    more: list[Any] = []
    for other in signature.parameters.values():
        if other.name == parameter:
            given[other.name] = one
        elif other.kind is other.VAR_POSITIONAL:
            more = ["x"]
        elif other.kind is not other.VAR_KEYWORD and other.default is other.empty:
            given[other.name] = made[other.name] if name == "__init__" else filler(other)
    positional = [
        given.pop(other.name)
        for other in signature.parameters.values()
        if other.kind is other.POSITIONAL_ONLY and other.name in given
    ]
    with pytest.raises(TypeError, match=r"\b(list|tuple)\b"):
        await finished(method, *positional, *more, **given)


async def finished(method: Any, *arguments: Any, **named: Any) -> None:
    """Call a method of any kind, and wait for its first answer."""
    result = method(*arguments, **named)
    if inspect.isawaitable(result):
        await result
    elif hasattr(result, "__anext__"):
        await anext(result)
    elif hasattr(result, "__next__"):
        next(result)


def filler(parameter: inspect.Parameter) -> Any:
    """Something to give for another parameter."""
    annotation = str(parameter.annotation)
    if parameter.name == "namespace" or annotation == "Namespace":
        return ("a",)
    if takes_several(annotation):
        return []
    if annotation.startswith(("int", "float")):
        return 1
    if annotation.startswith("RunnableConfig"):
        return {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c"}}
    if annotation.startswith(("Mapping", "dict")):
        return {}
    return "x"
