"""Late binding: objects that a module uses, and that a module above it defines.

A module imports only from modules below it, and asks for an object of a module above it by a name.
`memalchemy/__init__.py`, which stands above all modules, says in which module each name is; the
object is imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

_places: dict[str, str] = {}


def wire(places: Mapping[str, str]) -> None:
    """Set the places of objects by their names, each as ``module:attribute``."""
    _places.update(places)


@cache
def wired(name: str) -> Any:
    """Return the object of that name."""
    module, _, attribute = _places[name].partition(":")
    return getattr(import_module(module), attribute)
