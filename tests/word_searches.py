"""The public places that search by words, found by their signatures: each takes ``match``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import memalchemy
import memalchemy.collections
import memalchemy.conversations
import memalchemy.http
import memalchemy.inspection
import memalchemy.memory
import memalchemy.memory.managers
import memalchemy.sync
from memalchemy.http import blocking

PACKAGES: tuple[ModuleType, ...] = (
    memalchemy,
    memalchemy.collections,
    memalchemy.conversations,
    memalchemy.http,
    memalchemy.inspection,
    memalchemy.memory,
    memalchemy.memory.managers,
    memalchemy.sync,
    blocking,
)

NO_WORDS = {
    "Inspector.threads": "a part of an id",
    "BaseMemoryManager.retrieve_relevant": "without a search, it returns the last saved",
    "NoopMemoryManager.retrieve_relevant": "it remembers nothing",
}
"""Methods with a query that looks for no words, with the reasons."""


def classes_of(packages: tuple[ModuleType, ...] = PACKAGES) -> dict[str, type]:
    """Return the public classes by their names; those of `memalchemy.sync` have others."""
    found: dict[str, type] = {}
    for package in packages:
        for name in package.__all__:
            one = getattr(package, name)
            if inspect.isclass(one):
                prefix = package.__name__.removeprefix("memalchemy").removeprefix(".")
                is_blocking = package in (memalchemy.sync, blocking)
                found[f"{prefix}.{name}" if is_blocking else name] = one
    return found


def methods_with_a_query(packages: tuple[ModuleType, ...] = PACKAGES) -> Iterator[tuple[str, Any]]:
    """Yield the public methods that have a parameter ``query``, by their names."""
    for class_name, one in classes_of(packages).items():
        for name, method in inspect.getmembers(one, inspect.isfunction):
            if not name.startswith("_") and "query" in inspect.signature(method).parameters:
                yield f"{class_name}.{name}", method


def searches_words(name: str) -> bool:
    """Return whether the method of that name searches by words."""
    return ".".join(name.rsplit(".", 2)[-2:]) not in NO_WORDS
