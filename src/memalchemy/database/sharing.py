"""What all objects on one `Database` share, such as a cache: made when it is first asked for."""

from __future__ import annotations

import weakref
from typing import Any, TypeVar

from memalchemy import _forks
from memalchemy.database import Database

T = TypeVar("T")

_lock = _forks.lock()
_shared: weakref.WeakKeyDictionary[object, dict[type, Any]] = weakref.WeakKeyDictionary()


def shared(db: Database, kind: type[T]) -> T:
    """The one *kind* of this `Database`, for all its tenants; it ends with the `Database`."""
    with _lock:
        of_db = _shared.setdefault(db.identity, {})
        if kind not in of_db:
            of_db[kind] = kind()
        found: T = of_db[kind]
        return found
