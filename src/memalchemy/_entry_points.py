"""Objects that installed packages give under a name: entry points of a group."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memalchemy.errors import MemalchemyError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points(group: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a group by name: several, if several packages have the name.

    Packages that are installed later are seen if they are on a new path.
    """
    return _entry_points(group, tuple(sys.path))


@lru_cache(maxsize=8)
def _entry_points(group: str, _path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    from importlib import metadata

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in metadata.entry_points(group=group):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def load_entry_point(
    group: str, name: str, what: str, problem: Callable[[Any, str], str | None]
) -> Any:
    """Return the object that an installed package gives under *name*.

    Args:
        what: the kind of object, for errors.
        problem: returns what is wrong with an object of that name; ``None`` if nothing is.

    Raises:
        KeyError: no package has the name.
        MemalchemyError: several have it, or the object cannot be used; the message names them.
    """
    entries = entry_points(group)[name]
    packages = [entry.dist.name if entry.dist else "an unknown package" for entry in entries]
    if len(entries) > 1:
        raise MemalchemyError(
            f"the {what} {name!r} is in several packages: {', '.join(sorted(packages))}; "
            "uninstall all but one"
        )
    described = f"the {what} {name!r} of the package {packages[0]} ({entries[0].value})"
    try:
        loaded = entries[0].load()
    except Exception as error:
        raise MemalchemyError(
            f"{described} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if found := problem(loaded, name):
        raise MemalchemyError(f"{described} {found}")
    return loaded
