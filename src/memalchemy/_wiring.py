"""Objects that a module uses and one above it has: `memalchemy/__init__.py` says where they are.

A module imports only from those below it. What it needs of one above it, it asks for by a name. The
package itself stands above all its modules, and tells the place of each name; the object is
imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

_places: dict[str, str] = {}


def wire(places: Mapping[str, str]) -> None:
    """Tell the places of objects by their names, each as ``module:attribute``."""
    _places.update(places)


@cache
def wired(name: str) -> Any:
    """Return the object of that name."""
    module, _, attribute = _places[name].partition(":")
    return getattr(import_module(module), attribute)
