"""Statements of the analysis: the heads of logs, with what tells that a log has changed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Executable, Integer, bindparam, case, literal_column, select

from memalchemy.dialects import Dialect, in_namespace
from memalchemy.log.entries import heads_that_hold, holds
from memalchemy.log.listing import newest_first
from memalchemy.log.tables import NAMES, THREADS, live
from memalchemy.protection.proven_reads import HeadProof, unless
from memalchemy.statements import after_key, statement

HEAD = (
    *("log_id", "thread_id", "namespace", "head_id", "created_at", "updated_at", "forked_from"),
    *("meta", "epoch", "version", "next_seq"),
)

_BY_NAME = NAMES[1:]


def _heads(order: str, **_: object) -> HeadProof:
    return heads_that_hold("some", by_time=order == "newest")


@statement(
    proves=_heads,
    order=("newest", "name"),
    scope=("tenant", "below", "namespace"),
    which=("all", "prefix", "thread"),
    since=(False, True),
    after=(False, True),
)
def list_marked_heads(
    dialect: Dialect, order: str, scope: str, which: str, since: bool, after: bool, proven: bool
) -> Executable | None:
    """Select a page of the heads of logs that hold something, last written first, or by name.

    The *scope* is the tenant, a namespace and those under it (``below``), or a namespace. *which*
    is all threads, those with an id from ``p_low`` to before ``p_high`` (``prefix``), or one.
    *since*: only logs that were written at ``p_since`` or later. By name, all of a scope are read.
    """
    if order == "name" and (which != "all" or since):
        return None
    id_ = THREADS.c.thread_id
    tenant = THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type)
    here = tenant if scope == "tenant" else in_namespace(THREADS, below=scope == "below")
    where: list[ColumnElement[bool]] = [here, *unless(proven, live(), holds("some"))]
    if which == "prefix":
        low, high = (bindparam(name, type_=id_.type) for name in ("p_low", "p_high"))
        where += [id_ >= low, id_ < high]
    elif which == "thread":
        where.append(id_ == bindparam("k_thread_id", type_=id_.type))
    if since:
        times = {"p_since": THREADS.c.updated_at, "p_active_since": THREADS.c.active_at}
        later = [time >= bindparam(name, type_=time.type) for name, time in times.items()]
        where += unless(proven, *later)
    one, none = (literal_column(number, Integer) for number in ("1", "0"))
    has_entries = case((holds("entries"), one), else_=none).label("has_entries")
    query: Any = select(*(THREADS.c[name] for name in HEAD), has_entries).where(*where)
    if order == "newest":
        return newest_first(query, dialect, _BY_NAME, after, proven)  # type: ignore[no-any-return]
    if after:
        query = query.where(after_key(dialect, THREADS, _BY_NAME))
    names = [THREADS.c[name] for name in _BY_NAME]
    return query.order_by(*names).limit(bindparam("p_limit"))  # type: ignore[no-any-return]
