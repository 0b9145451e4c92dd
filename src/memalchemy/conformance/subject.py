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
        write: stores *text* under *id*, as the framework would: ``write(adapter, id, text)``. It
            returns the object that it has given to the adapter, which a check then changes: what is
            stored may not change with it.
        read: returns the texts under an id, oldest first, and an empty list if there is nothing.
            It asserts that the objects which it reads are the framework's own.
        delete: deletes all that is stored under an id.
        appends: a write adds to what is there. Otherwise it replaces it, and `read` returns one.
        objects: returns what the adapter returns of an id, as it is. A check changes it: what is
            read next may not change with it.
        namespaced: makes the adapter in a namespace: ``namespaced(db, ("team", "a"))``. Without it
            *open* is called with ``namespace=``, if it takes that.
        conflicts: errors by which the framework says that another has written under the id at the
            same time; the write is then repeated.
        refusals: errors by which the adapter refuses an id that the framework does not take.
    """

    open: Callable[[Any], A]
    write: Callable[[A, str, str], Awaitable[Any]]
    read: Callable[[A, str], Awaitable[list[str]]]
    delete: Callable[[A, str], Awaitable[Any]]
    appends: bool = True
    objects: Callable[[A, str], Awaitable[Any]] | None = None
    namespaced: Callable[[Any, tuple[str, ...]], A] | None = None
    conflicts: tuple[type[Exception], ...] = ()
    refusals: tuple[type[Exception], ...] = (ValueError, TypeError)
