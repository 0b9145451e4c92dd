"""Objects that all features on one `Database` share, such as caches, made on first use."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from memalchemy import _fork_safe_locks

if TYPE_CHECKING:
    from memalchemy.database import Database

T = TypeVar("T")

_lock = _fork_safe_locks.create_lock()
_objects: weakref.WeakKeyDictionary[object, dict[type, Any]] = weakref.WeakKeyDictionary()


def shared(db: Database, kind: type[T]) -> T:
    """Return the one object of class *kind* for this `Database` and all its tenants.

    It lives as long as the `Database`.
    """
    with _lock:
        objects = _objects.setdefault(db.identity, {})
        if kind not in objects:
            objects[kind] = kind()
        found: T = objects[kind]
        return found
