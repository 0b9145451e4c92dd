"""Names that a package imports when they are asked for. Knows no package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def later(
    package: str, places: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of *package*, for the names that each of its modules has.

    Not for a type checker: it has imports of the names, and takes any name of what has these.
    """
    owner = sys.modules[package]
    where = {name: module for module, names in places.items() for name in names}

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=owner
            )
        value = getattr(import_module(f"{package}.{where[name]}"), name)
        setattr(owner, name, value)  # the next time nobody asks here
        return value

    return get, lambda: sorted({*vars(owner), *where})
