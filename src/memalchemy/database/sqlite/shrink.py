"""Shrinking a SQLite file: give its free pages back and empty its write-ahead log.

Both happen in short steps, so that other writers of the file get their turn in between.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy import Executable

from memalchemy.contracts import Advice, Progress
from memalchemy.database.database import Database
from memalchemy.database.intent import MAINTENANCE
from memalchemy.dialects import Dialect
from memalchemy.errors import MemalchemyError
from memalchemy.events import Event
from memalchemy.statements import program_of, statement

_log = logging.getLogger(__name__)

INCREMENTAL = 2
"""The value of ``auto_vacuum`` in a file that can shrink step by step."""

REWRITTEN_BYTES = 256 * 1024 * 1024
"""The size up to which erasing rewrites a file, which takes a second or two."""

LOG_ATTEMPTS = 10
"""The number of attempts to empty a write-ahead log that others are using."""


async def overwrite_deleted_bytes(db: Database, event: Event) -> None:
    """Rewrite a SQLite file without the bytes of deleted rows; log what could not be done.

    SQLite overwrites what it deletes (``secure_delete``), but a row that it has moved to another
    page stays in the unused part of the old one, and no deletion finds it there. A file that is
    larger than `REWRITTEN_BYTES` is not rewritten, because writers would wait for long.

    Does nothing on a server, in memory and on a host's engine.
    """
    size = db.file_bytes
    if size is None or db.dialect.maintenance.step("pages") is None:
        return
    advice = []
    if obstacle := await _rewrite_file(db, size, event):
        reason = (
            f"{obstacle}, and parts of deleted rows may be left in the unused part of its pages"
        )
        advice.append(Advice(reason, ("memalchemy vacuum --full",)))
    for left in [*advice, *await shrink_file(db, event)]:
        event.details["remains"] = True
        _log.warning(
            "the rows were erased, but the file may still hold what was in them: %s (%s)",
            left.reason,
            ", ".join(left.commands),
        )


async def _rewrite_file(db: Database, size: int, event: Event) -> str | None:
    """Rewrite a file; return the reason if it could not be done."""
    if size > REWRITTEN_BYTES:
        return f"the file has {size:,} bytes, too many to be rewritten while writers wait"
    try:
        rewrite = partial(program_of, file_step(db.dialect, what="whole"))
        await db.run(rewrite, MAINTENANCE, event=event)
    except MemalchemyError as error:
        return f"the file could not be rewritten ({error})"
    return None


async def shrink_file(
    db: Database, event: Event, progress: Callable[[Progress], object] | None = None
) -> list[Advice]:
    """Give the free pages of a file back and empty its log; return what could not be done.

    Args:
        progress: called after each step with the free pages that were given back, and all of them.
    """
    advice: list[Advice] = []
    pages = await _read_pages(db, event)
    if pages.auto_vacuum == INCREMENTAL:
        await _give_pages_back(db, pages.freelist_count, event, progress)
    elif pages.freelist_count:
        advice.append(
            Advice(
                f"this file was not made for shrinking by steps, and {pages.freelist_count:,} of "
                f"its {pages.page_count:,} pages are free. Rewrite it once: that needs as much "
                "room on the disk again, and writers wait meanwhile.",
                ("memalchemy vacuum --full",),
            )
        )
    if not await _empty_wal(db, event):
        advice.append(
            Advice(
                "the file is in use: its write-ahead log could not be emptied because somebody is "
                "reading. Run this again when the reader is done.",
                ("memalchemy vacuum",),
            )
        )
    return advice


async def _give_pages_back(
    db: Database, free: int, event: Event, progress: Callable[[Progress], object] | None
) -> None:
    give = partial(program_of, file_step(db.dialect, what="give"))
    left = free
    while left:
        started = time.perf_counter()
        await db.run(give, MAINTENANCE, event=event)
        now = (await _read_pages(db, event)).freelist_count
        if progress is not None:
            progress(Progress(max(free - now, 0), free))
        if now >= left:
            return  # others free pages as fast as they are given back, or no page can be moved
        left = now
        await pause_for_others(started)


async def _empty_wal(db: Database, event: Event) -> bool:
    """Empty the write-ahead log; return whether nobody kept it from that."""
    steps = [file_step(db.dialect, what=what) for what in ("patience", "log")]
    for _ in range(LOG_ATTEMPTS):
        started = time.perf_counter()
        (answer,) = await db.run(partial(program_of, *steps), MAINTENANCE, event=event)
        if answer[0] == 0:
            return True
        await pause_for_others(started)
    return False


async def pause_for_others(started: float) -> None:
    """Sleep as long as the step took that began at *started*, a `time.perf_counter`.

    SQLite's lock has no queue: a writer that waits for it looks at intervals whether it is free.
    """
    await asyncio.sleep(max(0.001, time.perf_counter() - started))


async def _read_pages(db: Database, event: Event) -> Any:
    program = partial(program_of, file_pages(db.dialect))
    (pages,) = await db.run(program, MAINTENANCE, event=event)
    return pages


# --- Statements ----------------------------------------------------------------------------------


@statement()
def file_pages(dialect: Dialect) -> Executable | None:
    """Query for the pages of a file: all, the free ones, their size, and ``auto_vacuum``."""
    return dialect.maintenance.step("pages")


@statement(what=("incremental", "whole", "give", "patience", "log"))
def file_step(dialect: Dialect, what: str) -> Executable | None:
    """Step of shrinking: auto_vacuum; VACUUM; give pages back; patience; empty the log."""
    return dialect.maintenance.step(what)
