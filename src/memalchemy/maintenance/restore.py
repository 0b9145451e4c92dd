"""Put a backup of a SQLite database in its place, and leave the file that was there beside it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from memalchemy._files import follow_links, put_in_place, take_access
from memalchemy.database import Database
from memalchemy.errors import Conflict, DatabaseUnreachable, InvalidArgument, SchemaOutdated

_PATIENCE_SECONDS = 5.0
"""The time that the programs which have the file open are waited for."""


@dataclass(frozen=True)
class RestoredFile:
    """The report of a restore: the size of the file, its revision, and where the old one is."""

    bytes: int
    revision: str
    replaced: Path | None
    needs_upgrade: bool


async def restore(
    target: Path, file: Path, *, progress: Callable[[int, int], None] | None = None
) -> RestoredFile:
    """Check the backup *file*, and put a copy of it in the place of the database *target*.

    The database that was there keeps its content under a name of its own beside it. Nothing is
    changed unless the copy passes SQLite's check and has memalchemy's schema.

    Raises:
        Conflict: a program has *target* open.
        InvalidArgument: the two are one file, or *file* holds no schema of memalchemy's.
        SchemaTooNew: a later release has written *file*.
        Corrupt: *file* is damaged.
        DatabaseUnreachable: *file* is not there, or is no database.
    """
    if not file.is_file():  # noqa: ASYNC240 - one look
        raise DatabaseUnreachable(f"there is no file {file}; nothing was changed")
    target = await asyncio.to_thread(follow_links, target)
    if target.exists() and target.samefile(file):
        raise InvalidArgument(f"{file} is the database itself; nothing was changed")
    copy = target.with_name(f".{target.name}.{os.getpid()}.restored")
    try:
        source = Database(file, migrate="off", read_only=True)
        try:
            revision, needs_upgrade = await _check_schema(source, file)
            size = await source.backup(copy, force=True, progress=progress)
        finally:
            await source.close()
        replaced = await asyncio.to_thread(_swap, target, copy)
    finally:
        copy.unlink(missing_ok=True)
    return RestoredFile(size, revision, replaced, needs_upgrade)


async def _check_schema(source: Database, file: Path) -> tuple[str, bool]:
    revision = await source.current()
    if revision is None:
        raise InvalidArgument(f"{file} holds no schema of memalchemy's; nothing was changed")
    try:
        await source.check()
    except SchemaOutdated:
        return revision, True
    return revision, False


def _swap(target: Path, copy: Path) -> Path | None:
    """Give *copy* the name of *target*; return the new name of what had it."""
    if not target.exists():
        put_in_place(copy, target)
        return None
    _fold_write_ahead_log(target)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    kept = target.with_name(f"{target.name}.before-restore-{moment}")
    take_access(copy, target)
    try:
        os.link(target, kept)  # so that the name always leads to a database
    except OSError:  # a file system without hard links
        target.rename(kept)
    put_in_place(copy, target)
    return kept


def _fold_write_ahead_log(target: Path) -> None:
    """Write the log beside a database into it; raise a `Conflict` if a program has it open."""
    try:
        with closing(
            sqlite3.connect(target, timeout=_PATIENCE_SECONDS, isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        raise Conflict(
            f"{target} is in use ({error}); nothing was changed. End the programs that have it "
            "open, and restore again",
            current=str(target),
        ) from error
    except sqlite3.DatabaseError:
        return  # it is damaged, which may be why it is restored; it is kept as it is
