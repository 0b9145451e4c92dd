"""A backup of a SQLite database: its pages as of one moment, checked, on disk, under its name.

Knows files and SQLite's backup interface; which database, and who writes to it, is not known here.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from memalchemy._files import follow_links, is_stream, put_in_place, sync_directory
from memalchemy.dialects.sqlite_text_tables import names_text_index
from memalchemy.errors import Conflict, Corrupt

Progress = Callable[[int, int], object]
"""Called with the pages that are done and the pages there are."""

STEP_PAGES = 1024


def back_up(source: sqlite3.Connection, file: Path, progress: Progress) -> int:
    """Copy *source* into the empty *file*, check the copy and force it to disk; its bytes."""
    database = source.execute("PRAGMA database_list").fetchone()[2]
    with closing(sqlite3.connect(file, isolation_level=None)) as target:
        # Without a transaction of its own the copy would start again at each write of others.
        source.execute("BEGIN")
        try:
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            source.backup(
                target,
                pages=STEP_PAGES,
                progress=lambda _, left, pages: progress(pages - left, pages),
            )
        finally:
            source.execute("ROLLBACK")
        # One file, without a log beside it: it can be moved, and read where nothing can be written.
        target.execute("PRAGMA journal_mode = DELETE")
        found = [row[0] for row in target.execute("PRAGMA integrity_check")]
        # A damaged text index is no reason to have no backup: it can be made of the rows again.
        faults = [one for one in found if one != "ok" and not names_text_index(one)]
        if faults or target.execute("PRAGMA foreign_key_check").fetchone():
            raise Corrupt(
                "the backup does not pass SQLite's integrity check, so it was removed: the file "
                "itself is damaged. What can be read of it comes into a new file by `memalchemy "
                "copy --from DAMAGED --to NEW`."
            )
    with file.open("rb+") as written:
        os.fsync(written.fileno())
    if database:
        shutil.copymode(database, file)
    return file.stat().st_size


@contextmanager
def complete_or_absent(name: str, *, force: bool) -> Iterator[Path]:
    """An empty file beside *name* to write into, which takes that name when the block ends well.

    Raises:
        Conflict: *name* is there and not *force*, or a database under that name is in use.
    """
    file = follow_links(name)
    for journal in (f"{file}-wal", f"{file}-journal"):
        # SQLite would play it into the backup, whose it is not.
        if Path(journal).exists():
            raise Conflict(
                f"{journal} is there: {name} is in use, or was not closed well; nothing was "
                "written. Choose another name, or close what uses it.",
                current=journal,
            )
    if file.exists() and not force:
        raise _name_taken(file)
    if is_stream(name):
        raise Conflict(
            f"{name} is no file, and SQLite writes to files alone; nothing was written.",
            current=name,
        )
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)  # of a process with this number that was killed
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        yield part
        if force:
            put_in_place(part, file)
        else:
            _take_name(part, file)
    finally:
        for left in (part, part.with_name(f"{part.name}-journal")):
            left.unlink(missing_ok=True)


def _take_name(part: Path, file: Path) -> None:
    """Rename, but never over another file, even one that came into being just now."""
    try:
        os.link(part, file)
        sync_directory(file.parent)
    except FileExistsError:
        raise _name_taken(file) from None
    except OSError:  # a file system without hard links
        if file.exists():
            raise _name_taken(file) from None
        put_in_place(part, file)


def _name_taken(file: Path) -> Conflict:
    return Conflict(
        f"{file} is there already; nothing was written. Choose another name, or --force "
        "(force=True) to replace it when the backup is complete.",
        current=str(file),
    )
