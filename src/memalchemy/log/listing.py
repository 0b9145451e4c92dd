"""Which threads there are: the heads of one namespace, most recently written first, by a glob."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Executable, and_, bindparam, func, literal_column, select

from memalchemy.database import Database, HostConnection
from memalchemy.dialects import Dialect
from memalchemy.keys import check_thread_id, decode_namespace, encode_id
from memalchemy.log.entries import holds_entries, is_entry
from memalchemy.log.tables import DELTAS, THREADS, live, same_log
from memalchemy.statements import Answer, Program, statement

PAGE = 500


def _holds(of: str) -> ColumnElement[bool]:
    return THREADS.c.head_id.is_not(None) if of == "checkpoints" else holds_entries()


@statement(of=("checkpoints", "entries"), after=(True, False), prefix=(True, False))
def list_heads(d: Dialect, of: str, after: bool, prefix: bool) -> Executable:
    """Threads with a checkpoint, or with an entry, most recently written first, in pages."""
    scope = (THREADS.c[name] == bindparam(f"k_{name}") for name in ("tenant", "namespace"))
    query = (
        select(THREADS.c.thread_id, THREADS.c.updated_at)
        .where(and_(*scope), live(), _holds(of))
        .order_by(THREADS.c.updated_at.desc(), THREADS.c.thread_id)
        .limit(bindparam("p_limit"))
    )
    if prefix:
        query = query.where(
            THREADS.c.thread_id >= bindparam("p_low"), THREADS.c.thread_id < bindparam("p_high")
        )
    if after:
        same = THREADS.c.updated_at == bindparam("p_updated_at")
        query = query.where(
            (THREADS.c.updated_at < bindparam("p_updated_at"))
            | and_(same, THREADS.c.thread_id > bindparam("p_thread_id"))
        )
    return query


@statement()
def list_named(d: Dialect) -> Executable:
    """When those of the threads in ``p_thread_ids`` that have an entry were last written."""
    named = d.listed("p_thread_ids", ("thread_id",))
    scope = (THREADS.c[name] == bindparam(f"k_{name}") for name in ("tenant", "namespace"))
    ids: Any = select(named.c.thread_id)
    return select(THREADS.c.thread_id, THREADS.c.updated_at).where(
        and_(*scope), THREADS.c.thread_id.in_(ids), live(), holds_entries()
    )


@statement(after=(True, False))
def list_old(d: Dialect, after: bool) -> Executable:
    """Threads of a namespace with an entry that occurred before ``p_cutoff``, by their ids."""
    scope = (THREADS.c[name] == bindparam(f"k_{name}") for name in ("tenant", "namespace"))
    early = DELTAS.c.occurred_at < bindparam("p_cutoff", type_=DELTAS.c.occurred_at.type)
    here = and_(same_log(DELTAS, THREADS), is_entry(), early)
    old = select(literal_column("1")).select_from(DELTAS).where(here).exists()
    query = select(THREADS.c.thread_id).where(and_(*scope), live(), old)
    if after:
        query = query.where(THREADS.c.thread_id > bindparam("p_thread_id"))
    return query.order_by(THREADS.c.thread_id).limit(bindparam("p_limit"))


@statement(scope=("tenant", "thread"))
def list_entry_logs(d: Dialect, scope: str) -> Executable:
    """Logs that have entries, in any namespace, most recently written first; and how many."""
    here = and_(same_log(DELTAS, THREADS), is_entry())
    count = select(func.count()).select_from(DELTAS).where(here).scalar_subquery()
    query = select(
        THREADS.c.thread_id,
        THREADS.c.namespace,
        THREADS.c.created_at,
        THREADS.c.updated_at,
        count.label("entries"),
    ).where(THREADS.c.tenant == bindparam("k_tenant"), live(), holds_entries())
    if scope == "thread":
        query = query.where(THREADS.c.thread_id == bindparam("k_thread_id"))
    order = (THREADS.c.updated_at.desc(), THREADS.c.thread_id, THREADS.c.namespace)
    return query.order_by(*order).limit(bindparam("p_limit"))


@statement(of=("checkpoints", "entries"), scope=("tenant", "thread"))
def list_namespaces(d: Dialect, of: str, scope: str) -> Executable:
    """The namespaces in which all threads of a tenant, or one, have checkpoints, or entries."""
    here = THREADS.c.tenant == bindparam("k_tenant")
    query = select(THREADS.c.namespace).distinct().where(here, live(), _holds(of))
    if scope == "thread":
        query = query.where(THREADS.c.thread_id == bindparam("k_thread_id"))
    return query.order_by(THREADS.c.namespace)


@dataclass(frozen=True, slots=True)
class EntryLog:
    """A log that has entries."""

    thread_id: str
    namespace: tuple[str, ...]
    entries: int
    created_at: datetime
    updated_at: datetime


async def entry_logs(
    db: Database, thread_id: str | None = None, *, limit: int = 100
) -> list[EntryLog]:
    """The logs of a tenant that have entries, or those of one thread, last written first."""
    rows = await _over_namespaces(db, list_entry_logs, thread_id, {"p_limit": limit})
    return [
        EntryLog(
            row.thread_id,
            decode_namespace(row.namespace),
            row.entries,
            row.created_at,
            row.updated_at,
        )
        for row in rows
    ]


async def entry_namespaces(
    db: Database, thread_id: str | None = None, *, connection: HostConnection | None = None
) -> list[tuple[str, ...]]:
    """The namespaces in which a tenant, or one thread, has entries, in their order as paths."""
    rows = await _over_namespaces(db, list_namespaces, thread_id, {}, connection, of="entries")
    return [decode_namespace(row.namespace) for row in rows]


async def checkpoint_namespaces(
    db: Database, thread_id: str, *, connection: HostConnection | None = None
) -> list[tuple[str, ...]]:
    """The namespaces in which a thread has checkpoints, in their order as paths."""
    rows = await _over_namespaces(db, list_namespaces, thread_id, {}, connection, of="checkpoints")
    return [decode_namespace(row.namespace) for row in rows]


async def _over_namespaces(
    db: Database,
    family: Any,
    thread_id: str | None,
    binds: dict[str, Any],
    connection: HostConnection | None = None,
    **variant: str,
) -> Answer:
    scope = "tenant" if thread_id is None else "thread"
    values = {"k_tenant": db.tenant, **binds}
    if thread_id is not None:
        values["k_thread_id"] = check_thread_id(thread_id)
    return await ask(db, family(db.dialect, scope=scope, **variant), values, connection)


@dataclass(frozen=True, slots=True)
class ThreadIds:
    """The ids of threads that hold something in a namespace.

    *of* is ``checkpoints`` or ``entries``; *pattern* a glob over the whole id, case-sensitive.
    """

    db: Database
    path: str
    of: str
    pattern: str

    async def first(self, limit: int, connection: HostConnection | None) -> list[str]:
        """The first *limit* of them, most recently written first; they may be a moment old."""
        return [row.thread_id for row in await first(self.pages(connection), limit)]

    async def count(self, connection: HostConnection | None) -> int:
        """How many they are; one that is written while they are counted may be passed over."""
        seen: set[str] = set()
        async with aclosing(self.pages(connection)) as pages:
            async for rows in pages:
                seen.update(row.thread_id for row in rows)
        return len(seen)

    def pages(self, connection: HostConnection | None) -> AsyncGenerator[list[Any]]:
        """Rows with their ``thread_id``, most recently written first, page by page."""
        scope = {"k_tenant": self.db.tenant, "k_namespace": self.path}
        within = range_of(self.pattern)

        async def page(after: bool, binds: dict[str, Any]) -> Answer:
            prefix = within is not None
            statement = list_heads(self.db.dialect, of=self.of, after=after, prefix=prefix)
            return await ask(self.db, statement, scope | binds, connection)

        return matching(page, self.pattern, within)


async def matching(
    page: Callable[[bool, dict[str, Any]], Awaitable[Answer]],
    pattern: str,
    within: tuple[str, str] | None,
) -> AsyncGenerator[list[Any]]:
    """The rows whose thread's id matches a glob, page by page as *page* reads them.

    It is told whether a page is one after another, and what to bind: where that one ended, and the
    range *within* which ids can match, if there is one.
    """
    matches = re.compile(fnmatch.translate(pattern)).match
    binds: dict[str, Any] = {"p_limit": PAGE}
    if within is not None:
        binds |= {"p_low": within[0], "p_high": within[1]}
    after = False
    while True:
        rows = await page(after, binds)
        yield [row for row in rows if matches(row.thread_id)]
        if len(rows) < PAGE:
            return
        after = True
        binds |= {f"p_{name}": value for name, value in rows[-1]._mapping.items()}


async def first(pages: AsyncGenerator[list[Any]], limit: int) -> list[Any]:
    """The first *limit* rows of some pages, of which no more are read."""
    found: list[Any] = []
    async with aclosing(pages):
        while len(found) < limit and (rows := await anext(pages, None)) is not None:
            found += rows
    return found[:limit]


async def ask(
    db: Database,
    statement: Executable,
    binds: Mapping[str, Any],
    connection: HostConnection | None,
) -> Answer:
    """What a statement finds now; it may be a moment old."""
    values = {"p_now": datetime.now(UTC), **binds}

    def program() -> Program[Answer]:
        return (yield statement, values)

    return await db.read(program, connection=connection, stale=True)


def range_of(pattern: str) -> tuple[str, str] | None:
    """The thread ids that can match a glob, as a range of what is stored: from, and up to before.

    ``None``: all of them. Only for prefixes that are stored as they are spelt.
    """
    prefix = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    if not prefix or encode_id(prefix) != prefix or prefix[-1] >= "\ud7ff":
        return None
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)
