"""Bounded cache for everything that a process may hold and can also do without."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from cachetools import Cache, LRUCache

from memalchemy import _fork_safe_locks

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
        self._lock = _fork_safe_locks.create_lock()

    @property
    def size(self) -> int:
        """Sum of the sizes of all values."""
        return int(self._entries.currsize)

    def get(self, key: K) -> V | None:
        """Return a value, which becomes the most recently used one; ``None`` if it is not held."""
        with self._lock:
            return self._entries.get(key)

    def get_or_put(self, key: K, create: Callable[[], V]) -> V:
        """Return a value; if none is held, hold the one that *create* returns."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                found = self._entries[key] = create()
            return found

    def put(self, key: K, value: V, *, unless: Callable[[V], bool] | None = None) -> None:
        """Hold *value* in place of an earlier one of *key*, unless it is too large.

        The size is taken anew, also of a value that is held already. If *unless* is given and true
        of the earlier value, that one stays.
        """
        with self._lock:
            if unless is not None:
                earlier = self._entries.get(key)
                if earlier is not None and unless(earlier):
                    value = earlier
            if self._entries.getsizeof(value) <= self.max_value_size:
                self._entries[key] = value
            else:
                self._entries.pop(key, None)

    def drop(self, key: K) -> None:
        """Hold nothing under *key*."""
        with self._lock:
            self._entries.pop(key, None)

    def drop_where(self, unwanted: Callable[[K, V], bool], *, wait: bool = True) -> bool:
        """Drop the entries of which *unwanted* is true.

        With ``wait=False`` nothing is dropped if the cache is in use at this moment. A finaliser
        needs that: the garbage collector may call it in the thread that uses the cache.

        Returns:
            Whether the entries were dropped.
        """
        if not self._lock.acquire(blocking=wait):
            return False
        try:
            # An LRUCache's own look-up would make each entry the most recently used one.
            look_up = partial(Cache.__getitem__, self._entries)
            for key in [key for key in self._entries if unwanted(key, look_up(key))]:
                del self._entries[key]
        finally:
            self._lock.release()
        return True

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()

    def __contains__(self, key: K) -> bool:
        with self._lock:
            return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
