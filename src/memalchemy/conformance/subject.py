"""`Subject`: how the checks use one kind of thing that an adapter stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

A = TypeVar("A")


@dataclass(frozen=True)
class Subject(Generic[A]):
    """One kind of thing that an adapter stores under an id: sessions, states, items, documents.

    Each function is given the adapter that `open` has made. Where the framework's methods are
    without ``await``, run them by `asyncio.to_thread`.

    Args:
        open: makes the adapter on a database, which may be anything that adapters take.
        write: stores *text* under *id*, as the framework would: ``write(adapter, id, text)``.
        read: returns the texts under an id, oldest first, and an empty list if there is nothing.
            It asserts that the objects which it reads are the framework's own.
        delete: deletes all that is stored under an id.
        appends: a write adds to what is there. Otherwise it replaces it, and `read` returns one.
    """

    open: Callable[[Any], A]
    write: Callable[[A, str, str], Awaitable[Any]]
    read: Callable[[A, str], Awaitable[list[str]]]
    delete: Callable[[A, str], Awaitable[Any]]
    appends: bool = True
