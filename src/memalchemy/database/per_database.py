"""Objects that all features on one `Database` share, such as caches, made on first use."""

from __future__ import annotations

import weakref
from typing import Any, Protocol, TypeVar

from memalchemy import _fork_safe_locks


class Identified(Protocol):
    """A `Database`, as far as this goes."""

    @property
    def identity(self) -> object:
        """The object that all tenants of one `Database` have in common."""


T = TypeVar("T")

_lock = _fork_safe_locks.create_lock()
_objects: weakref.WeakKeyDictionary[object, dict[type, Any]] = weakref.WeakKeyDictionary()


def shared(db: Identified, kind: type[T]) -> T:
    """Return the one object of class *kind* for this `Database` and all its tenants.

    It lives as long as the `Database`.
    """
    with _lock:
        objects = _objects.setdefault(db.identity, {})
        if kind not in objects:
            objects[kind] = kind()
        found: T = objects[kind]
        return found
