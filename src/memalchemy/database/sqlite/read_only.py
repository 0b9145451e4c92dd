"""Open a SQLite file that may not be written, and whose directory may not be written either.

A reader of a file in WAL mode needs the files ``-wal`` and ``-shm`` beside it. SQLite creates them
where they are missing, and a reader that may not write cannot remove them again. Where they are
missing nobody writes, so the file is read alone (``immutable=1``), without a lock. A writer may
come at any time; therefore nothing that was read counts until a look at the files has shown that
none has. Where one has, everything is read again through its ``-wal`` and ``-shm``, with locks.
"""

from __future__ import annotations

import os
import sqlite3
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from memalchemy._retry import retry_while_busy
from memalchemy.database.sqlite import forks
from memalchemy.database.sqlite.connections import SQLiteConnection
from memalchemy.errors import DatabaseUnreachable

TICK = 0.05
"""Seconds that two changes of a file are surely apart if its times tell them apart."""


@dataclass(frozen=True)
class _Resting:
    """Identity, size and times of a file that no writer has open."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


def resting(path: str) -> _Resting | None:
    """Return how the file at *path* is, if no other file is needed to read it; ``None`` otherwise.

    A writer in WAL mode has a ``-wal`` from before its first write until it has closed the file;
    one in a rollback mode has a ``-journal`` while it writes.

    Raises:
        OSError: the file cannot be looked at.
    """
    found = os.stat(path)
    if os.path.exists(f"{path}-journal"):
        return None
    try:
        log = os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        pass
    else:
        # A reader that could not remove it may have left an empty one; a writer also has a -shm.
        if log or os.path.exists(f"{path}-shm"):
            return None
    return _Resting(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def open_read_only(path: str, *, timeout: float) -> SQLiteConnection:
    """Return a connection to the file at *path* that writes nothing and creates nothing.

    Two files are an exception: beside a ``-wal`` that a crashed process has left, SQLite needs a
    ``-shm``, and creates it.

    `SQLiteConnection.is_current` of the connection says whether what was read is to be believed.

    Raises:
        DatabaseUnreachable: the file, or the log beside it, cannot be read.
    """
    state: _Resting | None = None

    def attempt() -> SQLiteConnection:
        nonlocal state
        connection = state = None
        try:
            state = _settled(path)
            connection = _connect(path, immutable=state is not None)
            connection.is_current = partial(_is_still, path, state)
            connection.execute("PRAGMA schema_version").fetchone()  # reads the file
            return connection
        except (sqlite3.Error, OSError):
            if connection is not None:
                connection.close()
            raise

    try:
        # A writer may have come or gone between the look and the opening.
        return retry_while_busy(attempt, timeout, lambda error: _is_passing(error, path, state))
    except (sqlite3.Error, OSError) as error:
        raise _unreadable(path, error) from error


def unsettled() -> DatabaseUnreachable:
    """Return the error of a read during which writers came and went."""
    return DatabaseUnreachable(
        "the file was written while it was being read without locks, so nothing that was read is "
        "returned; read it again",
        busy=True,
    )


def _settled(path: str) -> _Resting | None:
    """Return `resting`, once a further change of the file would show in its times."""
    state = resting(path)
    while state is not None:
        age = time.time() - max(state.modified, state.changed) / 1e9
        if not 0 <= age < TICK:
            break
        time.sleep(TICK - age)
        state = resting(path)
    return state


def _is_still(path: str, state: _Resting | None) -> bool:
    """Return whether the file rests as it did; with ``None`` it is read with locks."""
    try:
        return state is None or resting(path) == state
    except OSError:  # it was removed
        return False


def _connect(path: str, *, immutable: bool) -> SQLiteConnection:
    name = quote(Path(path).absolute().as_posix())
    return forks.open_file(
        path,
        f"file:{name if name.startswith('/') else f'/{name}'}?mode=ro"
        + ("&immutable=1" if immutable else ""),
        uri=True,
    )


_UNREADABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def is_locked(error: Exception) -> bool:
    """Return whether an error of sqlite3 says that another connection has a lock."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _is_passing(error: Exception, path: str, state: _Resting | None) -> bool:
    """Return whether opening the file again, which rested as *state* says, may succeed."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _UNREADABLE:
        # A writer makes -wal and -shm after it has opened the file, and removes them at its end.
        try:
            return resting(path) != state
        except OSError:
            return False
    return is_locked(error)


def _unreadable(path: str, error: Exception) -> Exception:
    """Return the error of memalchemy's that says what to do; others are translated elsewhere."""
    if isinstance(error, OSError):
        return DatabaseUnreachable(
            f"cannot read {path} ({error.strerror}). Check the rights of the file and of the "
            "directories above it."
        )
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code not in _UNREADABLE:
        return error
    needed = next((f for f in ("-wal", "-journal") if os.path.exists(f"{path}{f}")), None)
    if needed is None or not os.access(path, os.R_OK):
        return DatabaseUnreachable(
            f"cannot read {path}. Check the rights of the file and of the directories above it."
        )
    return DatabaseUnreachable(
        f"{path}{needed} belongs to the database and cannot be read where it is: a process that "
        "wrote it was killed, and nothing may be written beside it. Copy the file together with "
        f"{os.path.basename(path)}{needed} into a directory that may be written, and read the "
        "copy; or open the database once where it may be written."
    )
