"""Lazy imports: names of a package that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from memalchemy._deprecation import warn_of_deprecated


def lazy_exports(
    package: str,
    modules: Mapping[str, Iterable[str]],
    *,
    renamed: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of *package* for the names that its modules have.

    Hide the call from type checkers, which need imports of the names: they accept any name of a
    package that has ``__getattr__``.

    Args:
        modules: names by their modules, relative to the package: ``"module"`` is in the package,
            ``".module"`` beside it.
        renamed: the new names of those that had others in an earlier release. The old ones still
            work, warn, and are not listed.
    """
    owner = sys.modules[package]
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if renamed and name in renamed:
            new = renamed[name]
            warn_of_deprecated(f"{package}.{name} is deprecated. Use {package}.{new}.")
            return getattr(owner, new)
        if name not in module_of:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=owner
            )
        value = getattr(import_module(f".{module_of[name]}", package), name)
        setattr(owner, name, value)  # the next access does not get here
        return value

    return get, lambda: sorted({*vars(owner), *module_of})
