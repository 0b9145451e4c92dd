"""Disk space: `measure` says what takes it, `reclaim` gives back what deleted rows have left.

Both work on what is stored, without decoding it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import (
    Executable,
    Table,
    and_,
    bindparam,
    case,
    distinct,
    func,
    not_,
    or_,
    select,
)

from memalchemy.contracts import Advice, Progress
from memalchemy.database import MAINTENANCE, Database
from memalchemy.database.sqlite.shrink import file_pages, file_step, pause_for_others, shrink_file
from memalchemy.dialects import TEXT_INDEXES, Dialect
from memalchemy.events import Event, operation
from memalchemy.keys import INTERNAL_RANGE, decode_namespace
from memalchemy.log.entries import is_entry, is_not_empty
from memalchemy.log.scan import run_query
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, constants, live, same_log
from memalchemy.log.text_index_sweep import is_aside
from memalchemy.proofs import COUNTED
from memalchemy.schema import Base
from memalchemy.search.scope import EMBEDDINGS, ITEMS, expired_item, live_item
from memalchemy.statements import Program, program_of, statement

__all__ = [
    "Advice",
    "Framework",
    "Growth",
    "Kind",
    "Piece",
    "Reclaimed",
    "Share",
    "Space",
    "measure",
    "reclaim",
]

TABLES: dict[str, Table] = dict(Base.metadata.tables)

TEXT_INDEX_PREFIXES = (*TEXT_INDEXES, "ix_deltas_search_text", "ix_store_items_search")
"""The names of text indexes, with which the names of their parts begin."""

VECTOR_NUMBER_BYTES = 4

ITEM_KINDS = ("item", "item text", "vector")
"""The kinds of rows that are no part of a log."""

GROWTH_DAYS = (1, 7, 30)
"""Numbers of days for which `Growth` is measured."""

DEAD_SHARE = 0.1
"""The share of dead rows from which on shrinking the file of a table is worth its lock."""

WORTH_BYTES = 1024 * 1024
"""The bytes of a table from which on shrinking its file is worth its lock."""


# --- Measure -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """A table or index of the database, with the rows of all tenants.

    Attributes:
        owner: the table that it is, or is an index of.
        kind: ``table``, ``index`` or ``text index``.
    """

    name: str
    owner: str
    kind: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Kind:
    """The rows of one kind that a tenant has.

    Attributes:
        name: of logs ``snapshot``, ``delta``, ``entry`` or ``write``, and ``search text``, which is
            kept beside any of them; of stores ``item``, ``item text`` (the words by which items are
            found) or ``vector``.
    """

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Framework:
    """The live logs of a framework: those whose namespace begins with its name.

    Attributes:
        name: the first part of the namespace; empty for the root, which holds own threads.
        raw_bytes: the bytes that its states would take if each was stored whole, and those of its
            entries and pending writes, as they are.
        stored_bytes: the bytes that are stored of the same, without search text.
    """

    name: str
    threads: int
    checkpoints: int
    entries: int
    raw_bytes: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Growth:
    """The rows of a tenant's logs that were stored in the last days and are still there.

    Attributes:
        bytes: their payloads, without search text.
    """

    days: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Share:
    """The payloads and the search text of one log of a tenant."""

    thread_id: str
    namespace: tuple[str, ...]
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Space:
    """The space that a tenant takes, and that the whole database takes.

    Attributes:
        items: the items of its stores that have not expired.
        expired: those that have, stored answers of the HTTP server too: `Store.sweep` removes them.
        raw_bytes: the sum of that of *frameworks*: the bytes that its live states would take if
            each was stored whole, and those of entries and pending writes, as they are.
        stored_bytes: the sum of that of *frameworks*: the bytes that are stored of the same.
        frameworks: the tenant's live logs by framework, the largest first.
        kinds: the tenant's rows by kind, the largest first.
        growth: what was stored in the last day, the last 7 days and the last 30.
        largest: the tenant's largest logs, the largest first.
        logs: the number of the tenant's logs.
        pieces: the tables and indexes of the database, the largest first; empty where the database
            does not say.
        estimated: whether *pieces* are estimated from the lengths of values, because the database
            does not count its pages.
        free_bytes: the empty pages of the file; ``None`` on a server.
        file_bytes: the size of the file; ``None`` on a server, and in memory.
    """

    threads: int
    checkpoints: int
    full_checkpoints: int
    items: int
    expired: int
    raw_bytes: int
    stored_bytes: int
    frameworks: tuple[Framework, ...]
    kinds: tuple[Kind, ...]
    growth: tuple[Growth, ...]
    largest: tuple[Share, ...]
    logs: int
    pieces: tuple[Piece, ...]
    estimated: bool
    free_bytes: int | None
    file_bytes: int | None

    @property
    def total_bytes(self) -> int | None:
        """The file, or without one the tables and indexes, of all tenants; ``None`` if unknown."""
        if self.file_bytes is not None:
            return self.file_bytes
        return sum(piece.bytes for piece in self.pieces) if self.pieces else None

    @property
    def content_bytes(self) -> int:
        """Payloads, values, vectors and search text of the tenant."""
        return sum(kind.bytes for kind in self.kinds)

    @property
    def rest_bytes(self) -> int:
        """Bytes of the logs that are not among the largest."""
        logs = sum(kind.bytes for kind in self.kinds if kind.name not in ITEM_KINDS)
        return logs - sum(share.bytes for share in self.largest)


async def measure(db: Database, *, largest: int = 10) -> Space:
    """Measure the space that the tenant of *db* takes, and its whole database.

    Reads the lengths of all rows and no payload, with at most twelve queries, whatever the number
    of threads.

    Args:
        largest: the number of logs to name, 1 to 1000.
    """
    if not 1 <= largest <= 1000:
        raise ValueError(f"largest is 1 to 1000, not {largest}")
    now = datetime.now(UTC)
    binds = {"k_tenant": db.tenant, "p_now": now, "p_limit": largest}
    since = {f"p_since_{days}": now - timedelta(days=days) for days in GROWTH_DAYS}
    own_items = {"p_internal": INTERNAL_RANGE[0], "p_internal_end": INTERNAL_RANGE[1]}
    d = db.dialect
    threads = await run_query(db, count_live_threads(d), binds)
    (checkpoints,) = await run_query(db, measure_checkpoints(d), binds)
    held = _sum_by_framework(await run_query(db, measure_namespaces(d), binds))
    kinds = await run_query(db, measure_kinds(d), binds)
    (growth,) = await run_query(db, measure_growth(d), binds | since)
    logs = await run_query(db, measure_largest_logs(d), binds)
    (items,) = await run_query(db, measure_items(d), binds | own_items)
    (expired,) = await run_query(db, count_expired(d), binds)
    (vectors,) = await run_query(db, measure_vectors(d), binds)
    pieces, estimated = await _measure_pieces(db)
    pages = (
        await run_query(db, file_pages(d), {}) if d.maintenance.step("pages") is not None else None
    )
    return Space(
        threads=threads[0][0],
        checkpoints=checkpoints.checkpoints,
        full_checkpoints=int(checkpoints.whole),
        items=int(items.live),
        expired=expired.expired,
        raw_bytes=sum(one.raw_bytes for one in held),
        stored_bytes=sum(one.stored_bytes for one in held),
        frameworks=held,
        kinds=tuple(sorted(_list_kinds(kinds, items, vectors), key=lambda kind: -kind.bytes)),
        growth=tuple(
            Growth(
                days,
                int(getattr(growth, f"rows_{days}")),
                int(getattr(growth, f"bytes_{days}")),
            )
            for days in GROWTH_DAYS
        ),
        largest=tuple(
            Share(row.thread_id, decode_namespace(row.namespace), row.entries, int(row.held))
            for row in logs
        ),
        logs=logs[0].logs if logs else 0,
        pieces=pieces,
        estimated=estimated,
        free_bytes=None if pages is None else pages[0].freelist_count * pages[0].page_size,
        file_bytes=db.file_bytes,
    )


def _sum_by_framework(namespaces: Any) -> tuple[Framework, ...]:
    """Return the sums of a tenant's namespaces by their first part."""
    found: dict[str, list[int]] = {}
    for row in namespaces:
        name = next(iter(decode_namespace(row.namespace)), "")
        sums = (row.logs, row.checkpoints, row.entries, row.raw_size, row.stored_size)
        held = found.get(name, [0] * len(sums))
        found[name] = [before + int(more) for before, more in zip(held, sums, strict=True)]
    made = (Framework(name, *sums) for name, sums in found.items())
    return tuple(sorted(made, key=lambda one: (-one.stored_bytes, one.name)))


def _list_kinds(log_kinds: Any, items: Any, vectors: Any) -> Iterator[Kind]:
    for row in log_kinds:
        yield Kind(row.kind, row.entries, int(row.payload_bytes))
    for name, rows, held in (
        (
            "search text",
            sum(row.texts for row in log_kinds),
            sum(int(row.text_bytes) for row in log_kinds),
        ),
        ("item", items.entries, items.value_bytes),
        ("item text", items.texts, items.text_bytes),
        ("vector", vectors.entries, VECTOR_NUMBER_BYTES * int(vectors.numbers)),
    ):
        if rows:
            yield Kind(name, int(rows), int(held))


async def _measure_pieces(db: Database) -> tuple[tuple[Piece, ...], bool]:
    """Return the tables and indexes, and whether their sizes are estimated."""
    d = db.dialect
    exact = d.maintenance.counts_pages() is None or bool(
        (await run_query(db, counts_pages(d), {}))[0][0]
    )
    if d.maintenance.sizes(exact) is None:
        return (), False
    rows = await run_query(db, sizes(d, exact=exact), {"p_schema": db.schema})
    pieces = sorted(map(_to_piece, rows), key=lambda piece: (-piece.bytes, piece.name))
    return tuple(pieces), not exact


def _to_piece(row: Any) -> Piece:
    kind = "text index" if row.name.startswith(TEXT_INDEX_PREFIXES) else row.kind
    owner = row.owner
    for index, table in TEXT_INDEXES.items():
        owner = table if row.name.startswith(index) else owner
    return Piece(row.name, owner, kind, int(row.bytes))


# --- Reclaim -------------------------------------------------------------------------------------

ProgressCallback = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """The result of `reclaim`.

    Attributes:
        before: bytes of the file, or of the tables with their indexes, before; ``None`` where the
            database does not say.
        after: the same afterwards.
        advice: what is left to do by hand.
    """

    before: int | None
    after: int | None
    advice: tuple[Advice, ...]


async def reclaim(
    db: Database, *, full: bool = False, progress: ProgressCallback | None = None
) -> Reclaimed:
    """Give the space of deleted rows back, of all tenants. Deletes nothing.

    SQLite: words of deleted rows are merged out of the text indexes, free pages are given back step
    by step, and the write-ahead log is emptied. A file that was not made by memalchemy shrinks only
    with *full*, which rewrites it: that needs as much room again, and writers wait meanwhile.

    PostgreSQL: VACUUM (ANALYZE), which frees space for new rows, and gives back what is free at the
    end of a table. *full* gives all back, and locks each table meanwhile.

    Oracle: advice only.

    Args:
        progress: called after every step with pages or tables as its ``done`` and ``total``.

    Raises:
        CapabilityMissing: VACUUM would go through PgBouncer in transaction mode.
    """
    with operation("database.reclaim") as event:
        if db.dialect.maintenance.step("pages") is not None:
            result = await _reclaim_file(db, full, progress, event)
        elif db.dialect.maintenance.step("tables") is not None:
            result = await _reclaim_tables(db, full, progress, event)
        else:
            result = await _name_commands(db, full)
        event.details |= {"before": result.before, "after": result.after}
    return result


async def _reclaim_file(
    db: Database, full: bool, progress: ProgressCallback | None, event: Event
) -> Reclaimed:
    d, before = db.dialect, db.file_bytes
    if before is None:
        why = "this is not a file that memalchemy opened: it is in memory, or of a host's engine"
        return Reclaimed(None, None, (Advice(why),))
    for index in TEXT_INDEXES:
        await _merge_text_index(db, index, event)
    if full:
        # auto_vacuum takes effect with the VACUUM that follows it.
        rewrite = partial(program_of, file_step(d, what="incremental"), file_step(d, what="whole"))
        await db.run(rewrite, MAINTENANCE)
    advice = await shrink_file(db, event, progress)
    return Reclaimed(before, db.file_bytes, tuple(advice))


async def _merge_text_index(db: Database, index: str, event: Event) -> None:
    """Merge a whole text index step by step, which removes the words of deleted rows."""
    d = db.dialect
    if d.maintenance.step(f"start {index}") is None:
        return

    def merge(verb: str) -> Program[int]:
        if (yield from is_aside(d, index)):
            return 0
        (before,) = yield merge_step(d, what="changes"), None
        yield merge_step(d, what=f"{verb} {index}"), None
        (after,) = yield merge_step(d, what="changes"), None
        return int(after.changes - before.changes)

    verb = "start"
    while True:
        started = time.perf_counter()
        # Fewer than two changes mean that there was nothing left to merge.
        if await db.run(partial(merge, verb), MAINTENANCE, event=event) < 2:
            return
        verb = "merge"
        await pause_for_others(started)


async def _reclaim_tables(
    db: Database, full: bool, progress: ProgressCallback | None, event: Event
) -> Reclaimed:
    d = db.dialect

    async def vacuum(name: str, *, full: bool) -> None:
        statement = vacuum_table(d, table=name, full=full)
        await db.run(partial(program_of, statement), MAINTENANCE, event=event)

    before = await _read_tables(db, event)
    advice: list[Advice] = []
    for number, (name, table) in enumerate(before.items(), 1):
        commands = tuple(d.maintenance.shrink_commands(name, db.schema, full))
        if not table.owned:
            why = f"only its owner may vacuum {name}: {table.dead:,} dead rows, {table.live:,} live"
            advice.append(Advice(why, commands, name, table.dead))
            continue
        await vacuum(name, full=full)
        if progress is not None:
            progress(Progress(number, len(before)))
    after = await _read_tables(db, event)
    vacuumed = sorted((before.keys() - {one.table for one in advice}) & after.keys())
    # A session may tell the server of rows that it has removed ten seconds later: they are counted
    # then, though the vacuum has had them.
    late = [name for name in vacuumed if _has_as_many_dead(before[name], after[name])]
    for name in late:
        await vacuum(name, full=False)
    if late:
        after = await _read_tables(db, event)
    for name in vacuumed:
        advice += _advice_after_vacuum(d, db.schema, before[name], after[name], full)
    return Reclaimed(_total_bytes(before), _total_bytes(after), tuple(advice))


def _has_as_many_dead(before: Any, after: Any) -> bool:
    """Return whether a vacuum has left the dead rows of a table, as the server counts them."""
    return bool(after.dead and after.dead >= before.dead)


def _advice_after_vacuum(
    dialect: Dialect, schema: str | None, before: Any, after: Any, full: bool
) -> list[Advice]:
    """Return the advice on what a vacuum has left of a table, and how to give it back."""
    if _has_as_many_dead(before, after):
        why = f"{after.name} still has {after.dead:,} dead rows: an open transaction may see them"
        commands = tuple(dialect.maintenance.shrink_commands(after.name, schema, full))
        return [Advice(why, commands, after.name, after.dead)]
    many_were_dead = before.dead > DEAD_SHARE * (before.live + before.dead)
    is_long = after.bytes > max((1 - DEAD_SHARE) * before.bytes, WORTH_BYTES)
    if not full and many_were_dead and is_long:
        why = (
            f"{before.dead:,} dead rows of {after.name} made room for new ones; its file shrinks "
            "only when it is rewritten, which locks it meanwhile"
        )
        commands = tuple(dialect.maintenance.shrink_commands(after.name, schema, True))
        return [Advice(why, commands, after.name, after.dead)]
    return []


async def _read_tables(db: Database, event: Event) -> dict[str, Any]:
    rows = await run_query(db, read_tables(db.dialect), {"p_schema": db.schema}, event=event)
    return {row.name: row for row in rows}


def _total_bytes(tables: dict[str, Any]) -> int:
    return sum(int(table.bytes) for table in tables.values())


async def _name_commands(db: Database, full: bool) -> Reclaimed:
    """Name the commands for a database that an application cannot shrink."""
    pieces, _ = await _measure_pieces(db)
    total = sum(piece.bytes for piece in pieces) if pieces else None
    advice = tuple(
        Advice(f"to shrink {name}, its owner runs", tuple(commands), name)
        for name in TABLES
        if (commands := db.dialect.maintenance.shrink_commands(name, db.schema, full))
    )
    if not advice:
        why = f"memalchemy knows no way to give space back on {db.dialect}: use the database's own"
        advice = (Advice(why),)
    return Reclaimed(total, total, advice)


# --- Statements ----------------------------------------------------------------------------------


@statement(unproven=COUNTED)
def count_live_threads(dialect: Dialect) -> Executable:
    """Count the live threads of a tenant that have a checkpoint or an entry."""
    return select(func.count(distinct(THREADS.c.thread_id))).where(
        THREADS.c.tenant == bindparam("k_tenant"), live(), is_not_empty()
    )


@statement(unproven=COUNTED)
def measure_checkpoints(dialect: Dialect) -> Executable:
    """Count a tenant's live checkpoints, and those that are stored whole."""
    snapshots = case((DELTAS.c.kind.in_(constants("snapshot")), 1), else_=0)
    return (
        select(
            func.count().label("checkpoints"),
            func.coalesce(func.sum(snapshots), 0).label("whole"),
        )
        .select_from(CHECKPOINTS)
        .join(DELTAS, _same_row(CHECKPOINTS))
        .join(THREADS, same_log(THREADS, CHECKPOINTS))
        .where(CHECKPOINTS.c.tenant == bindparam("k_tenant"), live())
    )


def _sums_of_bytes(dialect: Dialect) -> tuple[Any, Any]:
    """Return the sums of the bytes of payloads and of search text."""
    payload = func.sum(dialect.statements.byte_length(DELTAS.c.payload))
    return payload, func.coalesce(func.sum(dialect.statements.byte_length(DELTAS.c.search_text)), 0)


@statement(unproven=COUNTED)
def measure_kinds(dialect: Dialect) -> Executable:
    """Sum the sizes of a tenant's rows of logs by kind."""
    payload, text = _sums_of_bytes(dialect)
    return (
        select(
            DELTAS.c.kind,
            func.count().label("entries"),
            payload.label("payload_bytes"),
            func.count(DELTAS.c.search_text).label("texts"),
            text.label("text_bytes"),
        )
        .where(DELTAS.c.tenant == bindparam("k_tenant"))
        .group_by(DELTAS.c.kind)
        .order_by(DELTAS.c.kind)
    )


@statement(unproven=COUNTED)
def measure_namespaces(dialect: Dialect) -> Executable:
    """Sum what a tenant's live logs hold, by namespace: their states, entries and pending writes.

    The ``raw_size`` of a state is its size if it was stored whole, that of other rows the size of
    their payload.
    """
    return sum_logs(dialect, THREADS).where(is_not_empty())  # type: ignore[no-any-return]


def sum_logs(dialect: Dialect, logs: Any) -> Any:
    """Return the query of `measure_namespaces` over *logs*, which are rows of ``threads``."""
    length = dialect.statements.byte_length(DELTAS.c.payload)
    sizes = {
        name: func.coalesce(func.sum(func.coalesce(CHECKPOINTS.c[name], length)), 0)
        for name in ("raw_size", "stored_size")
    }
    return (
        select(
            logs.c.namespace,
            func.count(distinct(logs.c.log_id)).label("logs"),
            func.count(CHECKPOINTS.c.seq).label("checkpoints"),
            func.coalesce(func.sum(case((is_entry(), 1), else_=0)), 0).label("entries"),
            *(size.label(name) for name, size in sizes.items()),
        )
        .select_from(
            logs.join(DELTAS, same_log(DELTAS, logs)).outerjoin(CHECKPOINTS, _same_row(CHECKPOINTS))
        )
        .where(logs.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type), live(logs))
        .group_by(logs.c.namespace)
    )


@statement(unproven=COUNTED)
def measure_growth(dialect: Dialect) -> Executable:
    """Sum the rows of a tenant's logs that were stored since some times, one for `GROWTH_DAYS`."""
    stored_at = func.coalesce(DELTAS.c.stored_at, CHECKPOINTS.c.created_at)
    length = dialect.statements.byte_length(DELTAS.c.payload)
    sums = []
    for days in GROWTH_DAYS:
        is_new = stored_at >= bindparam(f"p_since_{days}", type_=CHECKPOINTS.c.created_at.type)
        sums += [
            func.coalesce(func.sum(case((is_new, what), else_=0)), 0).label(f"{name}_{days}")
            for name, what in (("rows", 1), ("bytes", length))
        ]
    return (
        select(*sums)
        .select_from(DELTAS.outerjoin(CHECKPOINTS, _same_row(CHECKPOINTS)))
        .where(DELTAS.c.tenant == bindparam("k_tenant"))
    )


def _same_row(table: Table) -> Any:
    return and_(same_log(table, DELTAS), table.c.seq == DELTAS.c.seq)


@statement(unproven=COUNTED)
def measure_largest_logs(dialect: Dialect) -> Executable:
    """Select the largest logs of a tenant, and the number of its logs."""
    payload, text = _sums_of_bytes(dialect)
    held = (
        select(DELTAS.c.log_id, func.count().label("entries"), (payload + text).label("held"))
        .where(DELTAS.c.tenant == bindparam("k_tenant"))
        .group_by(DELTAS.c.log_id)
        .subquery("held")
    )
    names = (THREADS.c.thread_id, THREADS.c.namespace)
    return (
        select(*names, held.c.entries, held.c.held, func.count().over().label("logs"))
        .join(THREADS, same_log(THREADS, held))
        .order_by(held.c.held.desc(), *names)
        .limit(bindparam("p_limit"))
    )


@statement(unproven=COUNTED)
def measure_items(dialect: Dialect) -> Executable:
    """Sum the sizes of a tenant's items, without those that memalchemy keeps for itself."""
    own = and_(
        ITEMS.c.namespace >= _namespace_bind("p_internal"),
        ITEMS.c.namespace < _namespace_bind("p_internal_end"),
    )
    text = func.coalesce(func.sum(dialect.statements.byte_length(ITEMS.c.search_text)), 0)
    fields = func.coalesce(func.sum(dialect.statements.byte_length(ITEMS.c.field_terms)), 0)
    has_text = or_(ITEMS.c.search_text.is_not(None), ITEMS.c.field_terms.is_not(None))
    return select(
        func.count().label("entries"),
        func.coalesce(func.sum(case((live_item(), 1), else_=0)), 0).label("live"),
        func.coalesce(func.sum(dialect.statements.byte_length(ITEMS.c.value)), 0).label(
            "value_bytes"
        ),
        func.coalesce(func.sum(case((has_text, 1), else_=0)), 0).label("texts"),
        (text + fields).label("text_bytes"),
    ).where(ITEMS.c.tenant == bindparam("k_tenant"), not_(own))


def _namespace_bind(name: str) -> Any:
    return bindparam(name, type_=ITEMS.c.namespace.type)


@statement()
def count_expired(dialect: Dialect) -> Executable:
    """Count a tenant's items that have expired, with those that memalchemy keeps for itself."""
    return select(func.count().label("expired")).where(expired_item())


@statement(unproven=COUNTED)
def measure_vectors(dialect: Dialect) -> Executable:
    """Count a tenant's vectors and the numbers in them."""
    numbers = func.coalesce(func.sum(EMBEDDINGS.c.dimensions), 0).label("numbers")
    return select(func.count().label("entries"), numbers).where(
        EMBEDDINGS.c.tenant == bindparam("k_tenant")
    )


@statement()
def counts_pages(dialect: Dialect) -> Executable | None:
    """Select a number that is zero where the database does not count the pages of its tables."""
    return dialect.maintenance.counts_pages()


@statement(exact=(True, False))
def sizes(dialect: Dialect, exact: bool) -> Executable | None:
    """Select the sizes of tables and indexes, as the database counts them or estimated."""
    return dialect.maintenance.sizes(exact)


MERGE_STEPS = (
    "changes",
    *(f"{verb} {index}" for verb in ("start", "merge") for index in TEXT_INDEXES),
)


@statement(what=MERGE_STEPS)
def merge_step(dialect: Dialect, what: str) -> Executable | None:
    """Step of merging a text index: count changes; merge some of its segments."""
    return dialect.maintenance.step(what)


@statement()
def read_tables(dialect: Dialect) -> Executable | None:
    """Select live and dead rows of the tables, their bytes, and whether the role owns them."""
    return dialect.maintenance.step("tables")


@statement(table=tuple(TABLES), full=(True, False))
def vacuum_table(dialect: Dialect, table: str, full: bool) -> Executable | None:
    """VACUUM of one table."""
    return dialect.maintenance.vacuum(TABLES[table], full)
