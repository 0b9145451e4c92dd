"""Replace files as a whole: the new content is written beside a file and then takes its name."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_DESCRIPTORS = re.compile(r"/dev/fd|/proc/[0-9]+(/task/[0-9]+)?/fd")
"""Directories whose entries are open files; a link there is not the name of a file."""

_BINARY: int = getattr(os, "O_BINARY", 0)
"""Flag of Windows, which writes other ends of lines without it."""


def follow_links(path: str | os.PathLike[str]) -> Path:
    """Return the path that symbolic links lead to, whether or not a file is there."""
    return Path(os.path.realpath(path))


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Return True of what is written to but cannot be replaced: a FIFO, a device, ``/dev/stdout``.

    Raises:
        OSError: it cannot be looked at.
    """
    if _descriptor(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def put_in_place(part: Path, path: Path) -> None:
    """Give *part* the name of *path*, and the owner and mode of a file that was there.

    *path* is no link (see `follow_links`).
    """
    take_access(part, path)
    os.replace(part, path)
    sync_directory(path.parent)


def take_access(part: Path, path: Path) -> None:
    """Give *part* the owner and mode of *path*, if that is there."""
    with suppress(FileNotFoundError):
        _copy_access(path.stat(), part)


@contextmanager
def open_to_replace(
    path: str | os.PathLike[str], *, mode: int = 0o666, sync: bool = False
) -> Iterator[BinaryIO]:
    """Open a file for writing, which replaces *path* when the block ends well.

    Symbolic links are followed and stay. A file that was there gives the new one its owner and
    mode, from before the first byte. A stream is opened itself; see `is_stream`.

    Args:
        path: Name of the file.
        mode: Mode of a file that was not there, of which the umask is taken away.
        sync: Force the file to disk before it takes its name.

    Raises:
        OSError: it cannot be written; a file that was there is as it was.
    """
    if is_stream(path):
        with _open_stream(path) as stream:
            yield stream
        return
    target = follow_links(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    old = target.stat() if target.exists() else None
    part = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | _BINARY
    made = os.open(part, flags, mode if old is None else 0o600)
    try:
        with os.fdopen(made, "wb") as file:
            if old is not None:
                _copy_access(old, part)
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        put_in_place(part, target)
    finally:
        part.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Make a rename survive a power cut, where a directory can be opened for that."""
    with suppress(OSError):
        opened = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _copy_access(old: os.stat_result, new: Path) -> None:
    if hasattr(os, "chown"):
        with suppress(PermissionError):  # the file is another user's
            os.chown(new, old.st_uid, old.st_gid)
    os.chmod(new, stat.S_IMODE(old.st_mode))


def _open_stream(path: str | os.PathLike[str]) -> BinaryIO:
    found = _descriptor(path)
    if found is not None and found.parent.parent.name in ("dev", str(os.getpid())):
        # Opened anew, a file would be truncated, and a socket be refused.
        return os.fdopen(os.dup(int(found.name)), "wb")
    return open(path, "wb")


def _descriptor(path: str | os.PathLike[str]) -> Path | None:
    """Return the entry for an open file that *path* leads to, such as ``/proc/7/fd/1``."""
    step = Path(path)
    for _ in range(40):  # as many links as Linux follows
        step = Path(os.path.realpath(step.parent)) / step.name
        if step.name.isdigit() and _DESCRIPTORS.fullmatch(str(step.parent)):
            return step
        try:
            step = step.parent / os.readlink(step)
        except OSError:  # it is no link
            return None
    return None
