"""Make a fork leave no trace of SQLite's locks in the child.

SQLite remembers for the whole process which files its connections have open and what they have
locked, because POSIX locks belong to a process and not to a connection. A forked child inherits
that record, and none of the locks. What it opens on such a file joins the record: it may find a
lock that nobody will ever give back, or read and write without any lock, so that the parent
removes the write-ahead log below it. SQLite has no call that clears the record
(https://www.sqlite.org/howtocorrupt.html, section 2.6); only the closing of all connections to the
file does.

So a fork waits for what is running on the connections of memalchemy and closes them; the parent
opens them again when it needs them. A file that is open all the same (a transaction that does not
end meanwhile, a connection of a host's engine) cannot be used in the child, which is told so.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
import weakref
from contextlib import suppress
from typing import Any, Protocol

from memalchemy.database.sqlite.connections import SQLiteConnection
from memalchemy.errors import DatabaseUnreachable

PATIENCE = 5.0
"""Seconds that a fork waits for the work on SQLite files, all of it together."""

_DESCRIPTORS = "/proc/self/fd"
"""Directory in which Linux lists the open files of a process, as links to their names."""

FileId = tuple[int, int]


class ConnectionKeeper(Protocol):
    """Keeps a connection open between its uses, during which it holds ``in_use``."""

    in_use: Any

    def close_idle(self) -> None:
        """Close the connection unless a transaction is open on it. Called by any thread."""


_opening: Any = threading.RLock()
"""Held while a connection to a file is opened, and by a fork."""

_keepers: weakref.WeakSet[ConnectionKeeper] = weakref.WeakSet()
_open: dict[int, weakref.ref[SQLiteConnection]] = {}
_held: list[Any] = []
_is_settled = False
_inherited: frozenset[FileId] = frozenset()
_left_to_the_parent: list[SQLiteConnection] = []
"""Inherited connections. Even closing one would touch the parent's locks and its transaction."""


def keep(keeper: ConnectionKeeper) -> None:
    """Let forks close the connection of *keeper*."""
    _keepers.add(keeper)


def open_file(path: str, name: str, **options: Any) -> SQLiteConnection:
    """Open the file at *path*, which SQLite is told as *name*; forks wait until it is closed.

    Raises:
        DatabaseUnreachable: see `refuse_inherited`.
    """
    with _opening:
        refuse_inherited(path)
        connection = sqlite3.connect(
            name,
            factory=SQLiteConnection,
            isolation_level=None,
            check_same_thread=False,
            **options,
        )
        with suppress(OSError):  # it was removed just now
            found = os.stat(path)
            connection.file = (found.st_dev, found.st_ino)
        key = id(connection)
        _open[key] = weakref.ref(connection, lambda _: _open.pop(key, None))
    return connection


def refuse_inherited(path: str) -> None:
    """Refuse a file that was open in the parent of this process when it was forked.

    Raises:
        DatabaseUnreachable: it was.
    """
    if not _inherited:
        return
    with suppress(OSError):
        found = os.stat(path)
        if (found.st_dev, found.st_ino) in _inherited:
            raise DatabaseUnreachable(
                f"this process was forked while {path} was open in its parent: a transaction had "
                "not ended, or an engine of the host's kept a connection. SQLite's record of the "
                "parent's locks came with the fork, and no connection of this process can be safe "
                "beside it. Nothing was done. Fork while no transaction is open and after "
                "engine.dispose(), or start the process anew (the methods spawn and forkserver of "
                "multiprocessing)."
            )


def _live_connections() -> list[SQLiteConnection]:
    return [found for known in list(_open.values()) if (found := known()) and found.is_open]


def settle() -> None:
    """Before a fork: end what is running and close connections. A second call does nothing.

    Whoever stops event loops for a fork calls it first, because transactions need theirs to end.
    """
    global _is_settled
    if _is_settled:
        return
    _is_settled = True
    end = time.monotonic() + PATIENCE
    for keeper in list(_keepers):
        if keeper.in_use.acquire(timeout=max(0.0, end - time.monotonic())):
            _held.append(keeper.in_use)
            keeper.close_idle()
    if _opening.acquire(timeout=max(0.0, end - time.monotonic())):
        _held.append(_opening)
    # What belongs to a loop of this thread cannot end before the fork.
    here = threading.get_ident()
    while time.monotonic() < end and any(c.loop_thread != here for c in _live_connections()):
        time.sleep(0.002)


def _after_fork_in_parent() -> None:
    global _is_settled
    _is_settled = False
    while _held:
        _held.pop().release()


def _after_fork_in_child() -> None:
    global _inherited, _opening
    _after_fork_in_parent()
    # If the fork did not get the lock, a thread has it that is not in this process.
    _opening = threading.RLock()
    left = _live_connections()
    _left_to_the_parent.extend(left)
    _open.clear()
    _inherited |= {c.file for c in left if c.file is not None} | _files_open_by_others()


def _files_open_by_others() -> set[FileId]:
    """Return the SQLite files that this process has open, by the files that SQLite opens beside
    them: one in WAL mode has a ``-shm``, another a ``-journal`` while it is written.
    """
    names: dict[str, FileId] = {}
    with suppress(OSError):
        for descriptor in os.listdir(_DESCRIPTORS):
            with suppress(OSError):  # that of the list itself is closed
                found = os.fstat(int(descriptor))
                if stat.S_ISREG(found.st_mode):
                    name = os.readlink(f"{_DESCRIPTORS}/{descriptor}").removesuffix(" (deleted)")
                    names[name] = (found.st_dev, found.st_ino)
    return {
        file for name, file in names.items() if f"{name}-shm" in names or f"{name}-journal" in names
    }


os.register_at_fork(
    before=settle,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
