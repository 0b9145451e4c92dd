"""List logs and threads of a tenant: the most recently written first, by a glob over thread ids."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    Table,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
)

from memalchemy._unreadable_rows import UnreadableRows
from memalchemy.contracts import LogInfo, check_query
from memalchemy.database import Database, HostConnection
from memalchemy.dialects import Dialect, in_namespace, namespace_binds
from memalchemy.keys import check_thread_id, decode_namespace, encode_id, encode_namespace
from memalchemy.log.entries import (
    heads_that_hold,
    holds,
    is_entry,
    is_not_empty,
    listed_heads,
)
from memalchemy.log.scan import PAGE, batches, run_query, scan
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    NAMES,
    THREADS,
    Log,
    bind_rows_of_logs,
    constants,
    live,
    routed,
    same_log,
    truncate_to_second,
)
from memalchemy.proofs import COUNTED, FOUND, REMOVED_BY_NAME
from memalchemy.protection.proven_jobs import Damage
from memalchemy.protection.proven_reads import HEADS, HeadProof, unless
from memalchemy.statements import after_key, column_bind, statement


def newest_first(
    query: Any, dialect: Dialect, key: tuple[str, ...], after: bool, proven: bool
) -> Any:
    """Order *query* by the last write, newest first, and limit it; *after*: from behind a row on.

    ``active_at`` is ``updated_at`` to the second: the index gives that order, and the rows of one
    second are sorted. So the newest few are found without reading all. A *proven* form does not
    rely on that: a row whose time was edited is on some page all the same.
    """
    active, last, *names = (THREADS.c[name] for name in ("active_at", "updated_at", *key))
    if after:
        behind: ColumnElement[bool] = or_(
            last < column_bind(last, "p"),
            and_(last == column_bind(last, "p"), after_key(dialect, THREADS, key)),
        )
        if proven:
            behind = or_(active < column_bind(active, "p"), behind)
        query = query.where(active <= column_bind(active, "p"), behind)
    return query.order_by(active.desc(), last.desc(), *names).limit(bindparam("p_limit"))


def _heads(of: str, **_: object) -> HeadProof:
    return heads_that_hold(of, by_time=True)


@statement(proves=_heads, of=("checkpoints", "entries"), after=(True, False), prefix=(True, False))
def list_heads(dialect: Dialect, of: str, after: bool, prefix: bool, proven: bool) -> Executable:
    """Select a page of threads with a checkpoint, or with an entry, most recently written first."""
    columns = (THREADS.c[name] for name in ("thread_id", "updated_at", "head_id"))
    query = select(*columns).where(
        in_namespace(THREADS, below=False), *unless(proven, live(), holds(of))
    )
    if prefix:
        query = query.where(_is_in_id_range())
    return newest_first(query, dialect, ("thread_id",), after, proven)  # type: ignore[no-any-return]


def _is_in_id_range() -> ColumnElement[bool]:
    """Return the condition that a thread's id is from ``p_low`` to before ``p_high``."""
    key = THREADS.c.thread_id
    low, high = (bindparam(name, type_=key.type) for name in ("p_low", "p_high"))
    return and_(key >= low, key < high)


@statement(unproven=FOUND)
def list_ids_in_range(dialect: Dialect) -> Executable:
    """Select the first ids in a range, in their order, of a tenant's threads that hold anything."""
    query = select(THREADS.c.thread_id).distinct()
    here = THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type)
    return (
        query.where(here, _is_in_id_range(), live(), is_not_empty())
        .order_by(THREADS.c.thread_id)
        .limit(bindparam("p_limit"))
    )


@statement(proves=heads_that_hold("entries"))
def list_last_writes(dialect: Dialect, proven: bool) -> Executable:
    """Select the last write of each thread in ``p_thread_ids`` that has an entry."""
    named = dialect.statements.rows_from_list("p_thread_ids", ("thread_id",))
    ids: Any = select(named.c.thread_id)
    return select(THREADS.c.thread_id, THREADS.c.updated_at).where(
        in_namespace(THREADS, below=False),
        THREADS.c.thread_id.in_(ids),
        *unless(proven, live(), holds("entries")),
    )


@statement(proves=HEADS, after=(True, False))
def list_threads_older(dialect: Dialect, after: bool, proven: bool) -> Executable:
    """Select threads of a namespace with an entry that occurred before ``p_cutoff``, by id."""
    early = DELTAS.c.occurred_at < bindparam("p_cutoff", type_=DELTAS.c.occurred_at.type)
    here = and_(same_log(DELTAS, THREADS), is_entry(), early)
    old = select(literal_column("1")).select_from(DELTAS).where(here).exists()
    query = select(THREADS.c.thread_id).where(
        in_namespace(THREADS, below=False), *unless(proven, live()), old
    )
    if after:
        query = query.where(THREADS.c.thread_id > bindparam("p_thread_id"))
    return query.order_by(THREADS.c.thread_id).limit(bindparam("p_limit"))


@statement(proves=heads_that_hold("entries", by_time=True), scope=("tenant", "thread"))
def list_entry_logs(dialect: Dialect, scope: str, proven: bool) -> Executable:
    """Select logs with entries, in any namespace, most recently written first; count entries."""
    here = and_(same_log(DELTAS, THREADS), is_entry())
    count = select(func.count()).select_from(DELTAS).where(here).scalar_subquery()
    query = select(
        THREADS.c.thread_id,
        THREADS.c.namespace,
        THREADS.c.created_at,
        THREADS.c.updated_at,
        count.label("entries"),
    ).where(THREADS.c.tenant == bindparam("k_tenant"), *unless(proven, live(), holds("entries")))
    if scope == "thread":
        query = query.where(THREADS.c.thread_id == bindparam("k_thread_id"))
    return newest_first(query, dialect, NAMES[1:], False, proven)  # type: ignore[no-any-return]


@statement(proves=heads_that_hold, of=("checkpoints", "entries", "some"))
def list_namespaces(dialect: Dialect, of: str, proven: bool) -> Executable:
    """Select the namespaces in which a thread has checkpoints, or entries, or some of these."""
    of_thread = (THREADS.c[name] == bindparam(f"k_{name}") for name in NAMES[:2])
    query = select(THREADS.c.namespace).where(*of_thread, *unless(proven, live(), holds(of)))
    if not proven:  # what proves a row is of each log alone
        query = query.distinct()
    return query.order_by(THREADS.c.namespace)


@statement(proves="copied log", unproven=REMOVED_BY_NAME)
def list_logs_below(dialect: Dialect) -> Executable:
    """Select the logs of a thread in a namespace and below it, tombstones included."""
    thread = THREADS.c.thread_id == bindparam("k_thread_id")
    return (
        select(THREADS.c.namespace, THREADS.c.head_id, THREADS.c.deleted_at)
        .where(in_namespace(THREADS, below=True), thread)
        .order_by(THREADS.c.namespace)
    )


@statement(proves=heads_that_hold("checkpoints"), after=(False, True))
def list_namespaces_of_thread(dialect: Dialect, after: bool, proven: bool) -> Executable:
    """Select a page of the namespaces, from one on down, in which a thread has a checkpoint."""
    thread = THREADS.c.thread_id == bindparam("k_thread_id")
    query = select(THREADS.c.namespace).where(
        in_namespace(THREADS, below=True), thread, *unless(proven, live(), holds("checkpoints"))
    )
    if after:
        query = query.where(after_key(dialect, THREADS, ("namespace",)))
    return query.order_by(THREADS.c.namespace).limit(bindparam("p_limit"))


@statement(proves=("copied log", "log"), unproven=REMOVED_BY_NAME)
def list_logs_of_thread(dialect: Dialect) -> Executable:
    """Select the logs of a thread in all namespaces, tombstones included."""
    of_thread = (THREADS.c[name] == bindparam(f"k_{name}") for name in NAMES[:2])
    return (
        select(THREADS.c.namespace, THREADS.c.deleted_at)
        .where(*of_thread)
        .order_by(THREADS.c.namespace)
    )


@statement(proves="log")
def list_logs_of_threads(dialect: Dialect) -> Executable:
    """Select the logs of the threads ``p_thread_ids`` lists, in any namespace, tombstones too."""
    named = dialect.statements.rows_from_list("p_thread_ids", ("thread_id",))
    tenant = THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type)
    return (
        select(THREADS.c.thread_id, THREADS.c.namespace)
        .where(tenant, THREADS.c.thread_id.in_(select(named.c.thread_id)))
        .order_by(THREADS.c.thread_id, THREADS.c.namespace)
    )


@statement(unproven=COUNTED)
def read_lengths(dialect: Dialect) -> Executable:
    """Select the next positions of the logs that ``p_logs`` lists."""
    return (
        select(THREADS.c.log_id, THREADS.c.next_seq)
        .select_from(listed_heads(dialect))
        .where(*routed(dialect, THREADS))
    )


@statement(unproven=FOUND)
def list_all_threads(dialect: Dialect) -> Executable:
    """Select every thread of a tenant, tombstones included."""
    return (
        select(THREADS.c.thread_id)
        .where(THREADS.c.tenant == bindparam("k_tenant"))
        .distinct()
        .order_by(THREADS.c.thread_id)
    )


async def all_threads(
    db: Database, connection: HostConnection | None = None, damage: Damage | None = None
) -> list[str]:
    """Return the ids of all threads of a tenant, in order, deleted and expired ones included.

    Ids that cannot be read are noted as *damage*.
    """
    binds = {"k_tenant": db.tenant}
    rows: Sequence[Any]
    try:
        rows = await run_query(db, list_all_threads(db.dialect), binds, connection)
    except UnreadableRows as error:
        if damage is None or not error.damaged:
            raise
        damage.note_rows(error)
        rows = [row for at, row in enumerate(error.rows) if at not in error.damaged]
    return [row.thread_id for row in rows]


async def logs_of_threads(
    db: Database, thread_ids: Sequence[str], connection: HostConnection | None = None
) -> list[Log]:
    """Return all logs of some threads, by thread and namespace, whatever the logs say.

    Deleted and empty logs are among them, and those that are not what was signed.
    """
    ids, found = [(encode_id(one),) for one in thread_ids], list[Log]()
    for listed in db.dialect.statements.list_batches("p_thread_ids", ids):
        binds = {"k_tenant": db.tenant} | listed
        for row in await run_query(db, list_logs_of_threads(db.dialect), binds, connection):
            found.append(Log(db.tenant, row.thread_id, row.namespace))
    return found


async def split_into_batches(
    db: Database, logs: Sequence[Log], connection: HostConnection | None
) -> Iterator[list[Log]]:
    """Split logs into batches that hold at most a page of rows; a longer log is one by itself."""
    lengths: dict[Any, int] = {}
    for listed in bind_rows_of_logs(db.dialect, "p_logs", [(log,) for log in logs]):
        rows = await run_query(db, read_lengths(db.dialect), listed, connection)
        lengths |= {row.log_id: row.next_seq for row in rows}
    return batches(logs, lambda log: lengths.get(log.key, 0), most_rows=PAGE, most=PAGE)


async def threads_by_prefix(db: Database, prefix: str, *, limit: int) -> list[str]:
    """Return the first ids of a tenant's threads that begin with *prefix*, in their order.

    The threads have a checkpoint or an entry, in any namespace; a replica may give them.
    """
    id_range = range_of_prefix(prefix)
    if id_range is None:
        return []
    binds = {"k_tenant": db.tenant, "p_limit": limit, "p_low": id_range[0], "p_high": id_range[1]}
    rows = await run_query(db, list_ids_in_range(db.dialect), binds, replica_ok=True)
    return [row.thread_id for row in rows]


async def namespaces_of_thread(
    db: Database,
    path: str,
    thread_id: str,
    *,
    limit: int | None = None,
    after: tuple[str, ...] | None = None,
    connection: HostConnection | None = None,
) -> list[tuple[str, ...]]:
    """Return the namespaces in which a thread has a checkpoint, sorted as paths, at most *limit*.

    They are those from the one stored as *path* on down, or of them those behind *after*.
    """
    binds = namespace_binds(db.tenant, path, below=True)
    binds["k_thread_id"] = check_thread_id(thread_id)
    if after is not None:
        binds["p_namespace"] = encode_namespace(after)

    def page(is_next: bool) -> Executable:
        return list_namespaces_of_thread(db.dialect, after=is_next or after is not None)

    size = PAGE if limit is None else min(limit, PAGE)
    rows = await take_first_rows(
        scan(db, page, binds, ("namespace",), connection, size=size), limit
    )
    return [decode_namespace(row.namespace) for row in rows]


async def threads_older(
    db: Database, path: str, cutoff: datetime, damage: Damage
) -> AsyncGenerator[list[str]]:
    """Yield pages of the ids of threads of a namespace with an entry from before *cutoff*, by id.

    Heads that cannot be read or proven are noted as *damage*.
    """

    def page(after: bool) -> Executable:
        return list_threads_older(db.dialect, after=after)

    binds = namespace_binds(db.tenant, path, below=False) | {"p_cutoff": cutoff}
    pages = scan(db, page, binds, ("thread_id",), size=100, damage=damage)
    async with aclosing(pages):
        async for rows in pages:
            yield [row.thread_id for row in rows]


# --- Logs of entries -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EntryLog:
    """Log that has entries."""

    thread_id: str
    namespace: tuple[str, ...]
    entries: int
    created_at: datetime
    updated_at: datetime


async def entry_logs(
    db: Database, thread_id: str | None = None, *, limit: int = 100
) -> list[EntryLog]:
    """Return the logs of a tenant, or of one thread, that have entries, last written first."""
    scope, binds = "tenant", {"k_tenant": db.tenant, "p_limit": limit}
    if thread_id is not None:
        scope, binds["k_thread_id"] = "thread", check_thread_id(thread_id)
    query = list_entry_logs(db.dialect, scope=scope)
    rows = await run_query(db, query, binds, replica_ok=True)
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
    db: Database, thread_id: str, *, connection: HostConnection | None = None
) -> list[tuple[str, ...]]:
    """Return the namespaces in which a thread has entries, sorted as paths."""
    return await namespaces_that_hold("entries", db, thread_id, connection)


async def checkpoint_namespaces(
    db: Database, thread_id: str, *, connection: HostConnection | None = None
) -> list[tuple[str, ...]]:
    """Return the namespaces in which a thread has checkpoints, sorted as paths."""
    return await namespaces_that_hold("checkpoints", db, thread_id, connection)


async def all_namespaces(
    db: Database, thread_id: str, *, connection: HostConnection | None = None
) -> list[tuple[str, ...]]:
    """Return the namespaces of all logs of a thread, sorted as paths, whatever the logs say.

    Deleted and empty logs are among them, and those that are not what was signed: for a deletion.
    """
    binds = {"k_tenant": db.tenant, "k_thread_id": check_thread_id(thread_id)}
    rows = await run_query(db, list_logs_of_thread(db.dialect), binds, connection)
    return [decode_namespace(row.namespace) for row in rows]


async def namespaces_that_hold(
    of: str, db: Database, thread_id: str, connection: HostConnection | None = None
) -> list[tuple[str, ...]]:
    """Return the namespaces in which a thread holds ``checkpoints``, ``entries`` or ``some``."""
    binds = {"k_tenant": db.tenant, "k_thread_id": check_thread_id(thread_id)}
    query = list_namespaces(db.dialect, of=of)
    rows = await run_query(db, query, binds, connection, replica_ok=True)
    return [decode_namespace(row.namespace) for row in rows]


# --- Threads by a glob ---------------------------------------------------------------------------


class ThreadMark(NamedTuple):
    """Place of a thread in a listing by the time of the last write."""

    updated_at: datetime
    thread_id: str


@dataclass(frozen=True, slots=True)
class ThreadListing:
    """Listing of the threads that hold something in a namespace.

    *of* is ``checkpoints`` or ``entries``; *pattern* a glob over the whole id, case-sensitive.
    """

    db: Database
    path: str
    of: str
    pattern: str

    async def first(self, limit: int, connection: HostConnection | None) -> list[str]:
        """Return the ids of the first *limit* threads, most recently written first.

        They may be a moment old, as a replica has them.
        """
        pages = self.pages(connection, min(limit, PAGE))
        return [row.thread_id for row in await take_first_rows(pages, limit)]

    async def page(
        self, limit: int, after: ThreadMark | None, connection: HostConnection | None
    ) -> list[ThreadMark]:
        """Return the first *limit* threads as `first` does, or those behind the mark *after*."""
        pages = self.pages(connection, min(limit, PAGE), after)
        found = await take_first_rows(pages, limit)
        return [ThreadMark(row.updated_at, row.thread_id) for row in found]

    async def count(self, connection: HostConnection | None) -> int:
        """Count the threads; one that is written while they are counted may be missed."""
        seen: set[str] = set()
        async with aclosing(self.pages(connection)) as pages:
            async for rows in pages:
                seen.update(row.thread_id for row in rows)
        return len(seen)

    def pages(
        self, connection: HostConnection | None, size: int = PAGE, begin: ThreadMark | None = None
    ) -> AsyncGenerator[list[Any]]:
        """Yield rows with a ``thread_id``, most recently written first, page by page.

        With *begin* only those behind it.
        """
        id_range = range_of_glob(self.pattern)

        def page(after: bool) -> Executable:
            return list_heads(
                self.db.dialect,
                of=self.of,
                after=after or begin is not None,
                prefix=id_range is not None,
            )

        binds = namespace_binds(self.db.tenant, self.path, below=False)
        if begin is not None:
            binds |= {
                "p_active_at": truncate_to_second(begin.updated_at),
                "p_updated_at": begin.updated_at,
                "p_thread_id": begin.thread_id,
            }
        return scan_matching(self.db, page, binds, self.pattern, id_range, connection, size=size)


async def scan_matching(
    db: Database,
    page: Callable[[bool], Executable],
    binds: Mapping[str, Any],
    pattern: str,
    id_range: tuple[str, str] | None,
    connection: HostConnection | None,
    *,
    size: int,
) -> AsyncGenerator[list[Any]]:
    """Yield the rows whose thread id matches a glob, page by page; a replica may give them.

    *id_range* is the range of ids that can match, if there is one. Only where every id matches is a
    page as small as *size*.
    """
    matches = re.compile(fnmatch.translate(pattern)).match
    if id_range is not None:
        binds = {**binds, "p_low": id_range[0], "p_high": id_range[1]}

    def behind(row: Any) -> dict[str, Any]:
        active = {"p_active_at": truncate_to_second(row.updated_at)}
        names = [name for name in ("updated_at", *NAMES[1:]) if hasattr(row, name)]
        return active | {f"p_{name}": getattr(row, name) for name in names}

    size = size if pattern == "*" else PAGE
    pages = scan(db, page, binds, behind, connection, size=size, replica_ok=True)
    async with aclosing(pages):
        async for rows in pages:
            yield [row for row in rows if matches(row.thread_id)]


async def take_first_rows(pages: AsyncGenerator[Any], limit: int | None) -> list[Any]:
    """Return the first *limit* rows of *pages*, and read no page beyond them; ``None``: all."""
    found: list[Any] = []
    async with aclosing(pages):
        while limit is None or len(found) < limit:
            if (rows := await anext(pages, None)) is None:
                break
            found += rows
    return found[:limit]


def range_of_glob(pattern: str) -> tuple[str, str] | None:
    """Return the range of stored thread ids that can match a glob: the first, one past the last.

    ``None`` stands for all ids. There is a range only for a prefix that is stored as it is spelt.
    """
    return range_of_prefix(re.split(r"[*?\[]", check_query(pattern, "pattern"), maxsplit=1)[0])


def range_of_prefix(prefix: str) -> tuple[str, str] | None:
    """Return the range of stored ids that begin with *prefix*: the first, and one past the last.

    ``None`` if *prefix* is empty or is not stored as it is spelt: there is no such range.
    """
    if not prefix or encode_id(prefix) != prefix or prefix[-1] >= "\ud7ff":
        return None
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


# --- Logs with what they hold --------------------------------------------------------------------

WHICH = ("all", "prefix", "thread")


@statement(
    proves=heads_that_hold("some", by_time=True),
    which=WHICH,
    scope=("namespace", "below", "tenant"),
    after=(False, True),
)
def list_logs(dialect: Dialect, which: str, scope: str, after: bool, proven: bool) -> Executable:
    """Select a page of logs with a checkpoint or an entry, most recently written first.

    The *scope* is a namespace, a namespace and those under it (``below``), or the tenant. *which*
    is ``all`` threads, those with an id from ``p_low`` to before ``p_high`` (``prefix``), or one.
    """
    columns = (
        *("log_id", "thread_id", "namespace", "head_id", "created_at", "updated_at"),
        "forked_from",
        "meta",
    )
    place = (
        THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type)
        if scope == "tenant"
        else in_namespace(THREADS, below=scope == "below")
    )
    query = select(*(THREADS.c[name] for name in columns)).where(
        place, *unless(proven, live(), holds("some"))
    )
    if which == "prefix":
        query = query.where(_is_in_id_range())
    elif which == "thread":
        key = THREADS.c.thread_id
        query = query.where(key == bindparam("k_thread_id", type_=key.type))
    return newest_first(query, dialect, NAMES[1:], after, proven)  # type: ignore[no-any-return]


@statement(unproven=COUNTED)
def measure_logs(dialect: Dialect) -> Executable:
    """Select the number of checkpoints and entries of listed logs, and their sizes.

    ``p_logs`` lists the logs; see `list_batches`. ``raw_size`` and ``stored_size`` are of states,
    ``other_size`` is of entries and pending writes: `log_sizes` adds them.
    """
    named = dialect.statements.rows_from_list("p_logs", ("log_id",))

    def of_checkpoints(what: Any) -> Any:
        here = CHECKPOINTS.c.log_id == named.c.log_id
        return select(what).select_from(CHECKPOINTS).where(here).scalar_subquery()

    def here(table: Table) -> ColumnElement[bool]:
        return table.c.log_id == named.c.log_id

    def of_rows(what: Any, condition: ColumnElement[bool]) -> Any:
        rows = select(what).select_from(DELTAS).where(here(DELTAS), condition)
        return rows.scalar_subquery()

    payload = dialect.statements.byte_length(DELTAS.c.payload)
    others = of_rows(func.coalesce(func.sum(payload), 0), is_no_state())
    sizes = {
        name: of_checkpoints(func.coalesce(func.sum(CHECKPOINTS.c[name]), 0))
        for name in ("raw_size", "stored_size")
    }
    return select(
        named.c.log_id,
        of_checkpoints(func.count()).label("checkpoints"),
        *(size.label(name) for name, size in sizes.items()),
        others.label("other_size"),
        of_rows(func.count(), is_entry()).label("entries"),
    )


def is_no_state() -> ColumnElement[bool]:
    """Return the condition that a row is an entry or has pending writes."""
    return DELTAS.c.kind.in_(constants("entry", "write"))


class LogSizes(NamedTuple):
    """The bytes of a log: with each state stored whole, and as they are stored."""

    raw: int
    stored: int


def log_sizes(row: Any) -> LogSizes:
    """Return the sizes in a row of `measure_logs`; both are of the same rows."""
    others = int(row.other_size)
    return LogSizes(int(row.raw_size) + others, int(row.stored_size) + others)


class LogMark(NamedTuple):
    """Place of a log in a listing by the time of the last write."""

    updated_at: datetime
    thread_id: str
    namespace: tuple[str, ...]


async def list_log_heads(
    db: Database,
    path: str,
    thread_id: str | None,
    *,
    below: bool,
    pattern: str,
    limit: int,
    after: LogMark | None = None,
    connection: HostConnection | None = None,
) -> list[Any]:
    """Return the heads of the first *limit* logs of a namespace, most recently written first.

    The namespace is the one stored as *path*, with *below* also those under it. The logs are those
    of threads whose id matches the glob *pattern*, or those of one thread; with *after* those
    behind that mark. `describe_logs` says what they hold.
    """
    binds = namespace_binds(db.tenant, path, below)
    scope = "namespace" if not below else "tenant" if path == "/" else "below"
    id_range, which = range_of_glob(pattern), "all"
    if thread_id is not None:
        binds["k_thread_id"] = thread_id
        which, id_range, pattern = "thread", None, "*"
    elif id_range is not None:
        which = "prefix"
    if after is not None:
        binds |= {
            "p_active_at": truncate_to_second(after.updated_at),
            "p_updated_at": after.updated_at,
            "p_thread_id": after.thread_id,
            "p_namespace": encode_namespace(after.namespace),
        }

    def page(is_next: bool) -> Executable:
        return list_logs(db.dialect, which=which, scope=scope, after=is_next or after is not None)

    found = scan_matching(db, page, binds, pattern, id_range, connection, size=min(limit, PAGE))
    return await take_first_rows(found, limit)


async def describe_logs(
    db: Database, heads: Sequence[Any], connection: HostConnection | None = None
) -> list[LogInfo]:
    """Return what some logs hold, without those that were deleted meanwhile."""
    sizes: dict[Any, Any] = {}
    for listed in db.dialect.statements.list_batches("p_logs", [(head.log_id,) for head in heads]):
        for row in await run_query(
            db, measure_logs(db.dialect), listed, connection, replica_ok=True
        ):
            sizes[row.log_id] = row
    return [
        LogInfo(
            thread_id=head.thread_id,
            namespace=decode_namespace(head.namespace),
            checkpoints=size.checkpoints,
            entries=size.entries,
            newest_id=head.head_id,
            raw_size=log_sizes(size).raw,
            stored_size=log_sizes(size).stored,
            created_at=head.created_at,
            updated_at=head.updated_at,
            forked_from=head.forked_from,
            metadata=head.meta,
        )
        for head, size in ((head, sizes[head.log_id]) for head in heads)
        if size.checkpoints or size.entries
    ]
