"""What a tenant remembers, log by log: where each is, and how much is in it.

Reads heads in pages and measures those that are asked for: the number of queries does not depend on
the number of logs found, but for the pages.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Executable, Table, and_, bindparam, func, or_, select

from memalchemy.contracts import LogInfo
from memalchemy.database import Database, HostConnection
from memalchemy.dialects import Dialect
from memalchemy.dialects.lists import lists
from memalchemy.dialects.reach import reach, within
from memalchemy.keys import decode_namespace, encode_id
from memalchemy.log.entries import has_anything, is_entry
from memalchemy.log.listing import ask, first, matching, range_of
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, live
from memalchemy.statements import Answer, beyond, bound, statement

WHICH = ("all", "prefix", "thread")


@statement(which=WHICH, below=(False, True), after=(False, True))
def list_logs(d: Dialect, which: str, below: bool, after: bool) -> Executable:
    """Logs with a checkpoint or an entry, most recently written first, in pages.

    Of a namespace, with *below* also of those under it; *which* threads: those with an id from
    ``p_low`` up to before ``p_high``, or one.
    """
    columns = ("thread_id", "namespace", "head_id", "created_at", "updated_at")
    last, *key = (THREADS.c[name] for name in ("updated_at", "thread_id", "namespace"))
    query = select(*(THREADS.c[name] for name in columns)).where(
        within(THREADS, below), live(), has_anything()
    )
    if which == "prefix":
        low, high = (bindparam(name, type_=key[0].type) for name in ("p_low", "p_high"))
        query = query.where(key[0] >= low, key[0] < high)
    elif which == "thread":
        query = query.where(key[0] == bindparam("k_thread_id", type_=key[0].type))
    if after:
        behind = beyond(d, THREADS, ("thread_id", "namespace"))
        query = query.where(or_(last < bound(last, "p"), and_(last == bound(last, "p"), behind)))
    return query.order_by(last.desc(), *key).limit(bindparam("p_limit"))


@statement()
def measure_logs(d: Dialect) -> Executable:
    """How many checkpoints and entries some logs have, and the sizes of the checkpoints.

    Binds ``p_logs``, of `lists`: their threads and namespaces. Ids are given back as listed.
    """
    named = d.listed("p_logs", ("thread_id", "namespace"))

    def here(table: Table) -> ColumnElement[bool]:
        tenant = table.c.tenant == bindparam("k_tenant", type_=table.c.tenant.type)
        place = (table.c[name] == named.c[name] for name in ("thread_id", "namespace"))
        return and_(tenant, *place)

    def of_names(what: Any) -> Any:
        return select(what).select_from(CHECKPOINTS).where(here(CHECKPOINTS)).scalar_subquery()

    entries = select(func.count()).select_from(DELTAS).where(here(DELTAS), is_entry())
    return select(
        named.c.thread_id,
        named.c.namespace,
        of_names(func.count()).label("checkpoints"),
        of_names(func.coalesce(func.sum(CHECKPOINTS.c.raw_size), 0)).label("raw_size"),
        of_names(func.coalesce(func.sum(CHECKPOINTS.c.stored_size), 0)).label("stored_size"),
        entries.scalar_subquery().label("entries"),
    )


async def logs(
    db: Database,
    path: str,
    thread_id: str | None,
    *,
    below: bool,
    pattern: str,
    limit: int,
    connection: HostConnection | None,
) -> list[LogInfo]:
    """The first *limit* logs of the namespace stored as *path*, or with *below* from it on down,
    most recently written first: of threads whose id matches the glob *pattern*, or of one thread.
    """
    scope = reach(db.tenant, path, below)
    span, which = range_of(pattern), "all"
    if thread_id is not None:
        scope["k_thread_id"] = thread_id
        which, span, pattern = "thread", None, "*"
    elif span is not None:
        which = "prefix"

    async def page(after: bool, binds: dict[str, Any]) -> Answer:
        statement = list_logs(db.dialect, which=which, below=below, after=after)
        return await ask(db, statement, scope | binds, connection)

    heads = await first(matching(page, pattern, span), limit)
    sizes: dict[tuple[str, str], Any] = {}
    places = [(encode_id(head.thread_id), head.namespace) for head in heads]
    for listed in lists(db.dialect, places):
        binds = {"k_tenant": db.tenant, "p_logs": listed}
        for row in await ask(db, measure_logs(db.dialect), binds, connection):
            sizes[row.thread_id, row.namespace] = row
    return [
        LogInfo(
            thread_id=head.thread_id,
            namespace=decode_namespace(head.namespace),
            checkpoints=size.checkpoints,
            entries=size.entries,
            newest_id=head.head_id,
            raw_size=int(size.raw_size),
            stored_size=int(size.stored_size),
            created_at=head.created_at,
            updated_at=head.updated_at,
        )
        for head, size in ((head, sizes[place]) for head, place in zip(heads, places, strict=True))
        if size.checkpoints or size.entries  # else deleted meanwhile
    ]
