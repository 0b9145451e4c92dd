"""Giving space back: what deletions left behind goes to the file system, or a command is named.

A file shrinks in short steps, so that other writers get their turn in between. A server's tables
are vacuumed as far as the role may; what only their owner may do comes back as `Advice`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Executable, Table

from memalchemy.contracts import Progress
from memalchemy.database import MAINTENANCE, READ, Database
from memalchemy.dialects import TEXT_INDEXES, Dialect
from memalchemy.errors import CapabilityMissing
from memalchemy.events import Event, operation
from memalchemy.schema import Base
from memalchemy.space.measuring import file_pages, sizes
from memalchemy.statements import Answer, Program, statement

TABLES: dict[str, Table] = dict(Base.metadata.tables)
INCREMENTAL = 2
"""What SQLite calls a file that can shrink by steps."""
TRIES = 10
"""How often to try and empty a log that others are using."""
DEAD = 0.1
"""From this share of dead rows on, it is worth saying that a table's file can shrink."""

Watching = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class Advice:
    """What is left to do by hand: why, and the exact commands."""

    reason: str
    commands: tuple[str, ...] = ()
    table: str | None = None
    dead: int | None = None
    """Dead rows of the table, as the server counts them."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Bytes of the file, or of the tables with their indexes, before and after; and what is left to
    do. ``None`` where the database does not tell.
    """

    before: int | None
    after: int | None
    advice: tuple[Advice, ...]


_STEPS = (
    "changes",
    "give",
    "incremental",
    "whole",
    "patience",
    "log",
    *(f"{verb} {index}" for verb in ("start", "merge") for index in TEXT_INDEXES),
)


@statement(what=_STEPS)
def step(d: Dialect, what: str) -> Executable | None:
    """One step of giving a file's space back."""
    return d.maintenance.step(what)


@statement()
def read_tables(d: Dialect) -> Executable | None:
    """Live and dead rows of the tables, their bytes, and whether the role owns them."""
    return d.maintenance.step("tables")


@statement(table=tuple(TABLES), full=(True, False))
def vacuum_table(d: Dialect, table: str, full: bool) -> Executable | None:
    """Free what is dead in a table."""
    return d.maintenance.vacuum(TABLES[table], full)


async def reclaim(
    db: Database, *, full: bool = False, progress: Watching | None = None
) -> Reclaimed:
    """Give back the space that deleted rows have left; deletes nothing. For the whole database.

    A SQLite file: words of deleted rows are merged out of the text indexes, free pages are given
    back step by step, and the write-ahead log is emptied. A file that was not made by memalchemy
    shrinks only with *full*, which rewrites it: that needs as much room again, and writers wait.
    PostgreSQL: VACUUM (ANALYZE), which frees space for new rows and gives back what is free at the
    end of a table; *full* gives back all, and locks each table meanwhile. Oracle: advice only.

    *progress* is called after every step, with pages or tables as its ``done`` and ``total``.
    """
    tell = progress or (lambda _: None)
    with operation("database.reclaim") as event:
        if db.dialect.maintenance.step("pages") is not None:
            done = await _reclaim_file(db, full, tell, event)
        elif db.dialect.maintenance.step("tables") is not None:
            done = await _reclaim_tables(db, full, tell, event)
        else:
            done = await _advise(db, full)
        event.details |= {"before": done.before, "after": done.after}
    return done


# --- A file --------------------------------------------------------------------------------------


async def _reclaim_file(db: Database, full: bool, tell: Watching, event: Event) -> Reclaimed:
    d, before = db.dialect, db.file_bytes
    if before is None:
        return Reclaimed(
            None, None, (Advice("this is no file of memalchemy's own: memory, or a host's"),)
        )
    for index in TEXT_INDEXES:
        await _merge(db, index, event)
    if full:
        # What this sets holds from the rewriting on.
        await db.run(lambda: _all(step(d, what="incremental"), step(d, what="whole")), MAINTENANCE)
    advice = await _shrink(db, tell, event)
    return Reclaimed(before, db.file_bytes, tuple(advice))


async def erase_remains(db: Database, event: Event) -> tuple[Advice, ...]:
    """Leave nothing of deleted rows in a SQLite file: cut its free pages off, and empty the
    write-ahead log. What is left to do by hand is returned: nothing, most often.

    Nothing is done on a server, in memory, and on a host's connection.
    """
    if db.file_bytes is None or db.dialect.maintenance.step("pages") is None:
        return ()
    return tuple(await _shrink(db, lambda _: None, event))


async def _shrink(db: Database, tell: Watching, event: Event) -> list[Advice]:
    """Give the free pages of a file back, and empty its write-ahead log; what could not be done."""
    advice: list[Advice] = []
    pages = await _pages(db, event)
    if pages.auto_vacuum == INCREMENTAL:
        await _give(db, pages.freelist_count, tell, event)
    elif pages.freelist_count:
        advice.append(
            Advice(
                f"this file was not made for shrinking by steps, and {pages.freelist_count:,} of "
                f"its {pages.page_count:,} pages are free. Rewrite it once: that needs as much "
                "room on the disk again, and writers wait meanwhile.",
                ("memalchemy vacuum --full",),
            )
        )
    if not await _empty_log(db, event):
        advice.append(
            Advice(
                "the file is in use: its write-ahead log could not be emptied. It is as soon as "
                "nobody is in the middle of reading; or run this again then.",
                ("memalchemy vacuum",),
            )
        )
    return advice


async def _merge(db: Database, index: str, event: Event) -> None:
    """Merge a text index as a whole, a step at a time."""
    d = db.dialect
    verb = "start"
    while True:
        started = time.perf_counter()

        def program(verb: str = verb) -> Program[int]:
            (before,) = yield step(d, what="changes"), None
            yield step(d, what=f"{verb} {index}"), None
            (after,) = yield step(d, what="changes"), None
            return int(after.changes - before.changes)

        # Fewer than two changes mean that there was nothing to merge.
        if await db.run(program, MAINTENANCE, event=event) < 2:
            return
        verb = "merge"
        await _let_others(started)


async def _give(db: Database, free: int, tell: Watching, event: Event) -> None:
    left = free
    while left:
        started = time.perf_counter()
        await db.run(lambda: _all(step(db.dialect, what="give")), MAINTENANCE, event=event)
        now = (await _pages(db, event)).freelist_count
        tell(Progress(max(free - now, 0), free))
        if now >= left:
            return  # others free pages as fast, or nothing more can be moved
        left = now
        await _let_others(started)


async def _let_others(started: float) -> None:
    # SQLite's lock has no queue: who waits for it looks now and then, so leave it free as long.
    await asyncio.sleep(max(0.001, time.perf_counter() - started))


async def _empty_log(db: Database, event: Event) -> bool:
    d = db.dialect
    for _ in range(TRIES):
        started = time.perf_counter()
        emptied = step(d, what="patience"), step(d, what="log")
        (answer,) = await db.run(lambda emptied=emptied: _all(*emptied), MAINTENANCE, event=event)  # type: ignore[misc]
        if answer[0] == 0:
            return True
        await _let_others(started)
    return False


async def _pages(db: Database, event: Event) -> Any:
    (pages,) = await db.run(lambda: _all(file_pages(db.dialect)), MAINTENANCE, event=event)
    return pages


def _all(*statements: Executable) -> Program[Answer]:
    answer = Answer()
    for one in statements:
        answer = yield one, None
    return answer


# --- The tables of a server ----------------------------------------------------------------------


async def _reclaim_tables(db: Database, full: bool, tell: Watching, event: Event) -> Reclaimed:
    d = db.dialect
    before = await _tables(db, event)
    advice: list[Advice] = []
    for number, (name, table) in enumerate(before.items(), 1):
        commands = tuple(d.maintenance.shrink_commands(name, db.schema, full))
        if not table.owned:
            why = f"only its owner may vacuum {name}: {table.dead:,} dead rows, {table.live:,} live"
            advice.append(Advice(why, commands, name, table.dead))
            continue
        vacuum = vacuum_table(d, table=name, full=full)
        try:
            await db.run(lambda vacuum=vacuum: _all(vacuum), MAINTENANCE, event=event)  # type: ignore[misc]
        except CapabilityMissing as error:
            advice.append(Advice(str(error), commands, name, table.dead))
        tell(Progress(number, len(before)))
    after = await _tables(db, event)
    vacuumed = before.keys() - {one.table for one in advice}
    for name in sorted(vacuumed & after.keys()):
        advice += _still(d, db.schema, before[name], after[name], full)
    return Reclaimed(_bytes(before), _bytes(after), tuple(advice))


def _still(d: Dialect, schema: str | None, was: Any, now: Any, full: bool) -> list[Advice]:
    """What a vacuum has left of a table."""
    if now.dead and now.dead >= was.dead:
        why = f"{now.name} still has {now.dead:,} dead rows: an open transaction may see them"
        commands = tuple(d.maintenance.shrink_commands(now.name, schema, full))
        return [Advice(why, commands, now.name, now.dead)]
    if not full and was.dead > DEAD * (was.live + was.dead) and now.bytes > (1 - DEAD) * was.bytes:
        why = (
            f"{was.dead:,} dead rows of {now.name} made room for new ones; its file shrinks only "
            "when it is rewritten, which locks it meanwhile"
        )
        return [
            Advice(
                why,
                tuple(d.maintenance.shrink_commands(now.name, schema, True)),
                now.name,
                now.dead,
            )
        ]
    return []


async def _tables(db: Database, event: Event) -> dict[str, Any]:
    rows = await db.run(
        lambda: _bound(read_tables(db.dialect), {"p_schema": db.schema}), READ, event=event
    )
    return {row.name: row for row in rows}


def _bytes(tables: dict[str, Any]) -> int:
    return sum(int(table.bytes) for table in tables.values())


async def _advise(db: Database, full: bool) -> Reclaimed:
    query = sizes(db.dialect, exact=True)
    rows = await db.run(lambda: _bound(query, {"p_schema": db.schema}), READ)
    total = sum(int(row.bytes) for row in rows) if rows else None
    advice = tuple(
        Advice(f"to shrink {name}, its owner runs", tuple(commands), name)
        for name in TABLES
        if (commands := db.dialect.maintenance.shrink_commands(name, db.schema, full))
    )
    return Reclaimed(total, total, advice)


def _bound(query: Executable, binds: dict[str, Any]) -> Program[Answer]:
    return (yield query, binds)
