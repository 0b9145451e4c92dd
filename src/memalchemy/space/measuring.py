"""Where the bytes are: by table and index, by kind of row, by thread. A fixed number of queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Executable, and_, bindparam, case, distinct, func, not_, or_, select

from memalchemy.database import READ, Database
from memalchemy.dialects import TEXT_INDEXES, Dialect
from memalchemy.keys import decode_namespace
from memalchemy.log.entries import has_anything
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, live, same_log, words
from memalchemy.search.scope import EMBEDDINGS, HOUSE, ITEMS, live_item
from memalchemy.statements import Answer, Program, statement

_TEXT_INDEXES = (*TEXT_INDEXES, "ix_deltas_search_text", "ix_store_items_search")
"""Their names, or how the names of their parts begin."""

FLOAT = 4
"""Bytes of a number of a vector."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A table or index in the database, with the rows of all tenants. *kind* is ``table``,
    ``index`` or ``text index``, *owner* the table that it is or is of.
    """

    name: str
    owner: str
    kind: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Kind:
    """What a tenant's rows of one kind hold: *name* is ``snapshot``, ``delta``, ``entry``,
    ``write``, or ``search text``, which is kept beside any of them; ``item``, ``item text`` (the
    words that a store's items are found by) or ``vector``.
    """

    name: str
    rows: int
    bytes: int


OF_ITEMS = ("item", "item text", "vector")
"""The kinds that are no part of a log."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one log of a tenant holds, payloads and search text."""

    thread_id: str
    namespace: tuple[str, ...]
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Space:
    """What a tenant has stored, and what the database it is in takes.

    ``raw_bytes`` is what its live states would take stored whole, ``stored_bytes`` what is stored
    of them; ``items`` are those of its stores that have not expired. ``kinds`` and ``largest``
    (logs, largest first) are of the tenant's rows, ``pieces`` (largest first) of the whole
    database; they are ``estimated`` from the lengths of values where the database does not count
    its pages, and empty where it tells nobody. ``free_bytes`` are pages without anything in them,
    ``file_bytes`` the file; ``None`` on a server.
    """

    threads: int
    checkpoints: int
    full_checkpoints: int
    items: int
    raw_bytes: int
    stored_bytes: int
    kinds: tuple[Kind, ...]
    largest: tuple[Share, ...]
    logs: int
    pieces: tuple[Piece, ...]
    estimated: bool
    free_bytes: int | None
    file_bytes: int | None

    @property
    def content_bytes(self) -> int:
        """Payloads, values, vectors and search text of the tenant."""
        return sum(kind.bytes for kind in self.kinds)

    @property
    def rest_bytes(self) -> int:
        """What the logs hold that are not among the largest."""
        logs = sum(kind.bytes for kind in self.kinds if kind.name not in OF_ITEMS)
        return logs - sum(share.bytes for share in self.largest)


@statement()
def count_threads(d: Dialect) -> Executable:
    """How many live threads a tenant has, with a checkpoint or an entry."""
    return select(func.count(distinct(THREADS.c.thread_id))).where(
        THREADS.c.tenant == bindparam("k_tenant"), live(), has_anything()
    )


@statement()
def measure_names(d: Dialect) -> Executable:
    """Sizes of a tenant's live checkpoints."""
    snapshots = case((DELTAS.c.kind.in_(words("snapshot")), 1), else_=0)
    return (
        select(
            func.count().label("checkpoints"),
            func.coalesce(func.sum(snapshots), 0).label("whole"),
            func.coalesce(func.sum(CHECKPOINTS.c.raw_size), 0).label("raw_bytes"),
            func.coalesce(func.sum(CHECKPOINTS.c.stored_size), 0).label("stored_bytes"),
        )
        .select_from(CHECKPOINTS)
        .join(DELTAS, and_(same_log(DELTAS, CHECKPOINTS), DELTAS.c.seq == CHECKPOINTS.c.seq))
        .join(THREADS, same_log(THREADS, CHECKPOINTS))
        .where(CHECKPOINTS.c.tenant == bindparam("k_tenant"), live())
    )


def _lengths(d: Dialect) -> tuple[Any, Any]:
    payload = func.sum(d.statements.byte_length(DELTAS.c.payload))
    return payload, func.coalesce(func.sum(d.statements.byte_length(DELTAS.c.search_text)), 0)


@statement()
def measure_kinds(d: Dialect) -> Executable:
    """What a tenant's rows hold, by kind."""
    payload, words_ = _lengths(d)
    return (
        select(
            DELTAS.c.kind,
            func.count().label("entries"),
            payload.label("payload_bytes"),
            func.count(DELTAS.c.search_text).label("texts"),
            words_.label("text_bytes"),
        )
        .where(DELTAS.c.tenant == bindparam("k_tenant"))
        .group_by(DELTAS.c.kind)
        .order_by(DELTAS.c.kind)
    )


@statement()
def measure_logs(d: Dialect) -> Executable:
    """The logs of a tenant that hold most, and how many logs there are."""
    payload, words_ = _lengths(d)
    held = (
        select(DELTAS.c.log_id, func.count().label("entries"), (payload + words_).label("held"))
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


@statement()
def measure_items(d: Dialect) -> Executable:
    """What a tenant's items hold; those of memalchemy's own do not count."""
    own = and_(ITEMS.c.namespace >= _path("p_house"), ITEMS.c.namespace < _path("p_house_end"))
    words_ = func.coalesce(func.sum(d.statements.byte_length(ITEMS.c.search_text)), 0)
    fields = func.coalesce(func.sum(d.statements.byte_length(ITEMS.c.field_terms)), 0)
    found = or_(ITEMS.c.search_text.is_not(None), ITEMS.c.field_terms.is_not(None))
    return select(
        func.count().label("entries"),
        func.coalesce(func.sum(case((live_item(), 1), else_=0)), 0).label("live"),
        func.coalesce(func.sum(d.statements.byte_length(ITEMS.c.value)), 0).label("value_bytes"),
        func.coalesce(func.sum(case((found, 1), else_=0)), 0).label("texts"),
        (words_ + fields).label("text_bytes"),
    ).where(ITEMS.c.tenant == bindparam("k_tenant"), not_(own))


def _path(name: str) -> Any:
    return bindparam(name, type_=ITEMS.c.namespace.type)


@statement()
def measure_vectors(d: Dialect) -> Executable:
    """How many vectors a tenant has, and how many numbers are in them."""
    numbers = func.coalesce(func.sum(EMBEDDINGS.c.dimensions), 0).label("numbers")
    return select(func.count().label("entries"), numbers).where(
        EMBEDDINGS.c.tenant == bindparam("k_tenant")
    )


@statement()
def counts_pages(d: Dialect) -> Executable | None:
    """A number that is zero where the database does not count the pages of its tables."""
    return d.maintenance.counts_pages()


@statement(exact=(True, False))
def sizes(d: Dialect, exact: bool) -> Executable | None:
    """What each table and index takes."""
    return d.maintenance.sizes(exact)


@statement()
def file_pages(d: Dialect) -> Executable | None:
    """The pages of a file: all, the free ones, their size, and whether it can shrink by steps."""
    return d.maintenance.step("pages")


async def measure(db: Database, *, largest: int = 10) -> Space:
    """Where the bytes of *db*'s tenant, and of its whole database, are.

    Reads every row's length but no payload, in at most nine queries, whatever the number of
    threads; *largest* is how many logs are named.
    """
    if not 1 <= largest <= 1000:
        raise ValueError(f"largest is 1 to 1000, not {largest}")
    binds = {"k_tenant": db.tenant, "p_now": datetime.now(UTC), "p_limit": largest}
    house = {"p_house": HOUSE + "a", "p_house_end": HOUSE + "{"}
    d = db.dialect
    threads = await _ask(db, count_threads(d), binds)
    (names,) = await _ask(db, measure_names(d), binds)
    kinds = await _ask(db, measure_kinds(d), binds)
    logs = await _ask(db, measure_logs(d), binds)
    (items,) = await _ask(db, measure_items(d), binds | house)
    (vectors,) = await _ask(db, measure_vectors(d), binds)
    pieces, estimated = await _pieces(db)
    pages = await _ask(db, file_pages(d), {}) if d.maintenance.step("pages") is not None else None
    shown = [Kind(row.kind, row.entries, int(row.payload_bytes)) for row in kinds]
    texts = sum(row.texts for row in kinds)
    if texts:
        shown.append(Kind("search text", texts, sum(int(row.text_bytes) for row in kinds)))
    shown += [
        Kind(name, int(rows), int(held))
        for name, rows, held in (
            ("item", items.entries, items.value_bytes),
            ("item text", items.texts, items.text_bytes),
            ("vector", vectors.entries, FLOAT * int(vectors.numbers)),
        )
        if rows
    ]
    return Space(
        threads=threads[0][0],
        checkpoints=names.checkpoints,
        full_checkpoints=int(names.whole),
        items=int(items.live),
        raw_bytes=int(names.raw_bytes),
        stored_bytes=int(names.stored_bytes),
        kinds=tuple(shown),
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


async def _pieces(db: Database) -> tuple[tuple[Piece, ...], bool]:
    d = db.dialect
    exact = d.maintenance.counts_pages() is None or bool(
        (await _ask(db, counts_pages(d), {}))[0][0]
    )
    rows = await _ask(db, sizes(d, exact=exact), {"p_schema": db.schema})
    found = [_piece(row) for row in rows]
    return tuple(sorted(found, key=lambda piece: (-piece.bytes, piece.name))), not exact


def _piece(row: Any) -> Piece:
    kind = "text index" if row.name.startswith(_TEXT_INDEXES) else row.kind
    owner = row.owner
    for name, table in TEXT_INDEXES.items():
        owner = table if row.name.startswith(name) else owner
    return Piece(row.name, owner, kind, int(row.bytes))


async def _ask(db: Database, query: Executable, binds: dict[str, Any]) -> Answer:
    def program() -> Program[Answer]:
        return (yield query, binds)

    return await db.run(program, READ)
