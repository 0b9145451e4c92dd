"""Erase for good: a tenant, a thread, a namespace of threads, or what has some metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Executable, and_, bindparam, delete, null, or_, select, update

from memalchemy._json_pointers import pointer
from memalchemy._unreadable_rows import UnreadableRows
from memalchemy.checkpoints import listing
from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.codec.field_terms import FieldTerms
from memalchemy.database import WRITE_ROWS, Database, HostConnection
from memalchemy.database.sqlite.shrink import overwrite_deleted_bytes
from memalchemy.dialects import Dialect, in_namespace, namespace_binds
from memalchemy.errors import Corrupt
from memalchemy.events import Event
from memalchemy.filters import Filter
from memalchemy.keys import INTERNAL_RANGE, encode_namespace
from memalchemy.log import Log, forget_log
from memalchemy.log.entries import is_entry
from memalchemy.log.listing import list_logs_of_thread
from memalchemy.log.scan import run_query, scan
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS
from memalchemy.log.text_index_sweep import sweep_indexes
from memalchemy.metadata import check_metadata, kind_of
from memalchemy.proofs import REMOVED_BY_NAME
from memalchemy.protection.proven_jobs import Damage, each_proven
from memalchemy.rows import HEAD
from memalchemy.search.kept_http_answers import forget_kept_answers
from memalchemy.search.scope import (
    EMBEDDINGS,
    ITEMS,
    LIVES,
    in_scope,
    of_item,
    scope_binds,
)
from memalchemy.statements import PROVES, REMOVES_TENANT, Program, removal, statement


async def forget(
    db: Database,
    cache: TipCache,
    *,
    tenant: str | None,
    thread_id: str | None,
    metadata: Mapping[str, Any] | None,
    path: str | None,
    connection: HostConnection | None,
    event: Event,
) -> int:
    """Erase what one of the four selects; return the number of checkpoints, entries and items.

    Args:
        path: an encoded namespace, of which the logs are erased, and of those below it.
    """
    d, damage = db.dialect, Damage()
    if tenant is not None:
        erased = await db.run(
            lambda: forget_tenant(d, tenant), WRITE_ROWS, connection=connection, event=event
        )
        cache.drop_tenant(tenant)
        db.forget_known_keys()
    elif path is not None:
        erased = await db.run(
            lambda: forget_logs_below(d, db.tenant, path),
            WRITE_ROWS,
            connection=connection,
            event=event,
        )
        cache.drop_below(db.tenant, path)
        await _forget_answers(db, connection, event)
    else:
        erased = 0
        why = "order" if metadata is None else "rows"
        if metadata is not None:
            await _note_unreadable_metadata(db, connection, damage)
        for found in await selected_threads(db, thread_id, metadata, connection, damage):
            with damage.noted():
                erased += await db.run(
                    partial(forget_thread, d, db.tenant, found, why=why),
                    WRITE_ROWS,
                    connection=connection,
                    event=event,
                )
            cache.drop_thread(db.tenant, found)
        if metadata is not None:
            erased += await _forget_items_with(db, metadata, connection, event, damage)
        await _forget_answers(db, connection, event)
    if connection is None:
        await overwrite_deleted_bytes(db, event)
    damage.raise_if_any(f"{erased:,} checkpoints, entries and items were erased")
    return erased


async def _forget_answers(db: Database, connection: HostConnection | None, event: Event) -> None:
    answers = partial(forget_kept_answers, db.dialect, db.tenant)
    await db.run(answers, WRITE_ROWS, connection=connection, event=event)


async def selected_threads(
    db: Database,
    thread_id: str | None,
    metadata: Mapping[str, Any] | None,
    connection: HostConnection | None,
    damage: Damage | None = None,
) -> list[str]:
    """Return the thread, or those that have each pair of *metadata*, their own or in a checkpoint.

    Threads whose ids cannot be read are noted as *damage*.
    """
    if thread_id is not None:
        return [thread_id]
    d = db.dialect
    found: list[set[str]] = []
    for key, value in check_metadata(metadata).items():
        kind = kind_of(value)
        binds = d.statements.json_equals_binds(key, value, kind) | {"k_tenant": db.tenant}
        statement = listing.list_threads_by_metadata(d, kind=kind)
        try:
            rows: Sequence[Any] = await run_query(db, statement, binds, connection)
        except UnreadableRows as error:
            if damage is None or not error.damaged:
                raise
            damage.note_rows(error)
            rows = [row for at, row in enumerate(error.rows) if at not in error.damaged]
        found.append({row.thread_id for row in rows})
    return sorted(set.intersection(*found))


async def _note_unreadable_metadata(
    db: Database, connection: HostConnection | None, damage: Damage
) -> None:
    """Note the threads whose metadata is no JSON object: nobody knows what they are about."""
    statement, binds = listing.list_threads_without_metadata(db.dialect), {"k_tenant": db.tenant}
    for row in await run_query(db, statement, binds, connection):
        damage.errors.append(
            Corrupt(f"thread {row.thread_id!r} in {row.namespace}: its metadata is no JSON object")
        )


async def _forget_items_with(
    db: Database,
    metadata: Mapping[str, Any],
    connection: HostConnection | None,
    event: Event,
    damage: Damage,
) -> int:
    """Erase the store's items that have *metadata*, until none is left; return their number."""
    erased = 0

    async def forget_these(items: Sequence[Mapping[str, Any]]) -> int:
        program = partial(forget_items, db.dialect, items)
        return await db.run(program, WRITE_ROWS, connection=connection, event=event)

    while items := [
        item async for item in _list_items_with_metadata(db, metadata, connection, damage)
    ]:
        gone = sum([done async for done in each_proven(items, forget_these, damage)])
        erased += gone
        if gone == len(items) or damage:
            break  # otherwise some were written meanwhile
    return erased


async def _list_items_with_metadata(
    db: Database,
    metadata: Mapping[str, Any],
    connection: HostConnection | None,
    damage: Damage | None = None,
) -> AsyncIterator[dict[str, Any]]:
    """Yield the binds of `forget_item` for the items that have *metadata*."""
    d, tenant, root = db.dialect, db.tenant, encode_namespace(())
    equal = {pointer("", key): {"$eq": value} for key, value in metadata.items()}
    wanted = Filter.parse({"$metadata": equal})
    assert wanted is not None
    fields = [FieldTerms.of(field, values) for field, values in wanted.equalities()]
    narrowed = d.text.indexes_fields and bool(fields)
    binds: dict[str, Any] = dict(scope_binds(tenant, root, below=True))
    if narrowed:
        binds |= d.text.item_scope_binds(tenant, root, below=True, fields=fields)
    statement = partial(_list_items, d, narrowed)
    pages = scan(db, statement, binds, ("namespace", "key"), connection, damage=damage)
    async for rows in pages:
        for row in rows:
            if wanted.matches(None, row.meta):
                key = {"k_tenant": tenant, "k_namespace": row.namespace, "k_key": row.key}
                yield key | {"p_version": row.version}


def _list_items(dialect: Dialect, narrowed: bool, after: bool) -> Executable:
    return list_items_with_metadata(dialect, narrowed=narrowed, after=after)


# --- Statements and programs ---------------------------------------------------------------------

_ERASABLE = {
    "embeddings": EMBEDDINGS,
    "store_items": ITEMS,
    "entries": DELTAS,
    "deltas": DELTAS,
    "checkpoints": CHECKPOINTS,
    "threads": THREADS,
}


@statement(table=tuple(_ERASABLE))
def delete_rows_of_tenant(dialect: Dialect, table: str) -> Executable:
    """Delete every row of a tenant from a table; ``entries`` are a part of ``deltas``."""
    target: Any = _ERASABLE[table]
    gone = delete(target).where(target.c.tenant == bindparam("k_tenant"))
    gone = gone.execution_options(**{REMOVES_TENANT: True})
    return gone.where(is_entry()) if table == "entries" else gone


@statement()
def delete_internal_items(dialect: Dialect) -> Executable:
    """Delete the items of a tenant that memalchemy keeps for itself."""
    namespace = ITEMS.c.namespace
    low, high = (bindparam(name, type_=namespace.type) for name in ("p_internal", "p_internal_end"))
    own = and_(namespace >= low, namespace < high)
    gone = delete(ITEMS).where(ITEMS.c.tenant == bindparam("k_tenant"), own)
    return gone.execution_options(**{REMOVES_TENANT: True})


@statement(proves="removed item", narrowed=(False, True), after=(False, True))
def list_items_with_metadata(dialect: Dialect, narrowed: bool, after: bool) -> Executable | None:
    """Select a page of a tenant's items with their metadata, expired ones too, ordered by key.

    With *narrowed*, only those that an index finds by words of their fields; binds
    `item_scope_binds`.
    """
    if narrowed and not dialect.text.indexes_fields:
        return None
    namespace, key = ITEMS.c.namespace, ITEMS.c.key
    query = select(namespace, key, ITEMS.c.version, ITEMS.c.meta).where(in_scope(ITEMS, below=True))
    if narrowed:
        within = dialect.text.items_in_scope(below=True)
        query = query.join(within, and_(within.c.namespace == namespace, within.c.key == key))
    if after:
        path, name = (bindparam(f"p_{c.key}", type_=c.type) for c in (namespace, key))
        beyond = or_(namespace > path, and_(namespace == path, key > name))
        query = query.where(namespace >= path, beyond)  # the first is where an index can start
    return query.order_by(namespace, key).limit(bindparam("p_limit"))


@removal(LIVES, why=("rows", "order"))
def forget_item(dialect: Dialect, why: str = "rows") -> Executable:
    """Delete an item, and thereby its vectors, if it has the version that was read."""
    version = ITEMS.c.version == bindparam("p_version", type_=ITEMS.c.version.type)
    gone = delete(ITEMS).where(of_item(ITEMS), version)
    return gone.execution_options(**{PROVES: why})


def forget_items(dialect: Dialect, items: Sequence[Mapping[str, Any]]) -> Program[int]:
    """Delete items that still have the versions that were read; return their number."""
    erased = 0
    for item in items:
        erased += (yield forget_item(dialect), item).touched
    yield from sweep_indexes(dialect)
    return erased


@statement(changes=HEAD)
def clear_fork_origin(dialect: Dialect) -> Executable:
    """Remove the name of a thread from the logs that were forked from it."""
    return (
        update(THREADS)
        .where(
            THREADS.c.tenant == bindparam("k_tenant"),
            THREADS.c.forked_from == bindparam("k_thread_id"),
        )
        .values(forked_from=null(), forked_seq=null())
    )


def forget_thread(
    dialect: Dialect, tenant: str, thread_id: str, *, why: str = "order"
) -> Program[int]:
    """Remove all logs of a thread for good, tombstones too: an id can be personal data."""
    yield clear_fork_origin(dialect), {"k_tenant": tenant, "k_thread_id": thread_id}
    rows = yield list_logs_of_thread(dialect), {"k_tenant": tenant, "k_thread_id": thread_id}
    erased = 0
    for row in rows:
        erased += yield from forget_log(dialect, Log(tenant, thread_id, row.namespace), why=why)
    yield from sweep_indexes(dialect)
    return erased


@statement(unproven=REMOVED_BY_NAME)
def list_all_logs_below(dialect: Dialect) -> Executable:
    """Select the logs of all threads in a namespace and below it, tombstones included."""
    return (
        select(THREADS.c.thread_id, THREADS.c.namespace)
        .where(in_namespace(THREADS, below=True))
        .order_by(THREADS.c.thread_id, THREADS.c.namespace)
    )


def forget_logs_below(dialect: Dialect, tenant: str, path: str) -> Program[int]:
    """Remove all logs of an encoded namespace and below it for good, tombstones too."""
    rows = yield list_all_logs_below(dialect), namespace_binds(tenant, path, below=True)
    erased = 0
    for row in rows:
        log = Log(tenant, row.thread_id, row.namespace)
        erased += yield from forget_log(dialect, log, why="order")
    yield from sweep_indexes(dialect)
    return erased


def forget_tenant(dialect: Dialect, tenant: str) -> Program[int]:
    """Remove every row of a tenant; return the number of checkpoints, entries and items."""
    erased = 0
    yield (
        delete_internal_items(dialect),
        {
            "k_tenant": tenant,
            "p_internal": INTERNAL_RANGE[0],
            "p_internal_end": INTERNAL_RANGE[1],
        },
    )
    for table in _ERASABLE:
        gone = yield delete_rows_of_tenant(dialect, table=table), {"k_tenant": tenant}
        if table in ("checkpoints", "entries", "store_items"):
            erased += gone.touched
    yield from sweep_indexes(dialect)
    return erased
