"""Bounded cache for everything that a process may hold and can also do without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from cachetools import LRUCache

from memalchemy import _forks

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Least-recently-used cache that several threads may share and that a forked child may use.

    Args:
        max_size: the entries that are held at most; with *size_of*, the sum of their sizes.
        size_of: a function that gives the size of a value.
        max_value_size: the size from which a value is not held at all; *max_size* unless given.
    """

    def __init__(
        self,
        max_size: int,
        size_of: Callable[[V], int] | None = None,
        *,
        max_value_size: int | None = None,
    ) -> None:
        self.max_value_size = max_size if max_value_size is None else max_value_size
        self._entries: LRUCache[K, V] = LRUCache(max_size, size_of)
        self._lock = _forks.lock()

    @property
    def size(self) -> int:
        """Sum of the sizes of all values."""
        return int(self._entries.currsize)

    def get(self, key: K) -> V | None:
        """Return a value, which becomes the most recently used one; ``None`` if it is not held."""
        with self._lock:
            return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        """Hold *value* in place of an earlier one of *key*, unless it is too large."""
        with self._lock:
            self._entries.pop(key, None)
            if self._entries.getsizeof(value) <= self.max_value_size:
                self._entries[key] = value

    def drop(self, key: K) -> None:
        """Hold nothing under *key*."""
        with self._lock:
            self._entries.pop(key, None)

    def __contains__(self, key: K) -> bool:
        with self._lock:
            return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
