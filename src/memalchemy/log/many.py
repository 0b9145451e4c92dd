"""Removing from many logs at once: lock those that are free, then look, then remove a bounded lot.

A batch is a list of logs, bound as one value, and a number of rows: the statements are as many for
a hundred logs as for one. A log that somebody is saving into is passed over, never waited for. What
a batch leaves is whole: names go oldest first, and states only when no name leads to them, those
built on others before what they are built on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    FromClause,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from memalchemy.dialects import Dialect
from memalchemy.keys import encode_id
from memalchemy.log.tables import CHECKPOINTS, DELTAS, STATES, THREADS, Log, live, same_log, words
from memalchemy.statements import Program, statement

LOGS, ROWS = 100, 2_000
"""In one transaction: at most so many logs, and about so many rows; one log may hold more."""

SCOPES = ("namespace", "tenant", "log", "thread")
_ID = ("thread_id", "namespace")
_TABLES = {"checkpoints": CHECKPOINTS, "deltas": DELTAS, "threads": THREADS}


class Found(NamedTuple):
    """A log that something is to be removed from."""

    log: Log
    rows: int
    """About how many rows of it there are."""
    going: int
    """How many checkpoints the rules let go."""


class Removed(NamedTuple):
    """What one batch did."""

    logs: list[Log]
    """Those that were free, and still there."""
    checkpoints: int
    more: bool
    """Whether it ended at its number of rows, and not because nothing was left."""


def list_binds(tenant: str, logs: Iterable[Log]) -> dict[str, Any]:
    """The binds that name a list of logs."""
    names = [[encode_id(log.thread_id), log.namespace] for log in logs]
    return {"k_tenant": tenant, "p_logs": json.dumps(names, ensure_ascii=False)}


def batches(d: Dialect, found: Sequence[Found]) -> Iterator[list[Found]]:
    """*found* in lots for one transaction each."""
    lot: list[Found] = []
    rows = length = 0
    for one in found:
        size = len(list_binds("", [one.log])["p_logs"].encode())
        full = len(lot) == LOGS or rows + one.rows > ROWS
        if lot and (full or length + size > (d.list_bytes or length + size)):
            yield lot
            lot, rows, length = [], 0, 0
        lot.append(one)
        rows, length = rows + one.rows, length + size
    if lot:
        yield lot


def _listed(d: Dialect, table: Any) -> ColumnElement[bool]:
    names = d.listed("p_logs", _ID)
    return and_(
        table.c.tenant == bindparam("k_tenant"),
        tuple_(*(table.c[name] for name in _ID)).in_(select(*(names.c[name] for name in _ID))),
    )


def stale() -> ColumnElement[bool]:
    """Idle since ``p_cutoff``, expired, or a tombstone past its day."""
    return or_(
        and_(THREADS.c.deleted_at.is_(None), THREADS.c.updated_at < bindparam("p_cutoff")),
        THREADS.c.expires_at <= bindparam("p_now"),
        THREADS.c.deleted_at < bindparam("p_buried"),
    )


_WANTED = {"live": live, "stale": stale}


def _within(scope: str, after: bool) -> list[ColumnElement[bool]]:
    """The heads of a tenant, or of a namespace, thread or log of it; behind a log, if there is one
    to go on from, in the order of the primary key.
    """
    named = {"namespace": ("namespace",), "tenant": (), "log": _ID, "thread": ("thread_id",)}
    found: list[ColumnElement[bool]] = [
        THREADS.c[name] == bindparam(f"k_{name}") for name in ("tenant", *named[scope])
    ]
    if after:
        # As an index can read it: a row-wise comparison is not SQL everywhere.
        behind = or_(
            THREADS.c.thread_id > bindparam("p_thread_id"),
            THREADS.c.namespace > bindparam("p_namespace"),
        )
        found += [THREADS.c.thread_id >= bindparam("p_thread_id"), behind]
    return found


@statement(which=tuple(_WANTED), scope=SCOPES)
def count_logs(d: Dialect, which: str, scope: str) -> Executable:
    """How many logs there are to go through."""
    return select(func.count()).select_from(THREADS).where(*_within(scope, False), _WANTED[which]())


def _ranked(of: FromClause) -> Any:
    """The checkpoints of the logs *of*, each with the number of those that are newer."""
    number = func.row_number().over(
        partition_by=[CHECKPOINTS.c[name] for name in _ID], order_by=CHECKPOINTS.c.seq.desc()
    )
    return (
        select(
            *(CHECKPOINTS.c[name] for name in (*_ID, "seq", "created_at")),
            (number - literal_column("1")).label("newer"),
        )
        .select_from(CHECKPOINTS)
        .join(of, and_(*(CHECKPOINTS.c[name] == of.c[name] for name in _ID)))
        .where(CHECKPOINTS.c.tenant == bindparam("k_tenant"))
        .subquery("ranked")
    )


def _goes(ranked: Any) -> ColumnElement[bool]:
    """Whether every rule lets a checkpoint go; the newest never. Binds as `beyond_retention`."""
    return and_(
        ranked.c.newer > bindparam("p_keep"),
        ranked.c.seq % bindparam("p_every", type_=CHECKPOINTS.c.seq.type) != literal_column("0"),
        ranked.c.created_at < bindparam("p_cutoff"),
    )


def _needless(log: Any) -> ColumnElement[bool]:
    """Whether a log has a state that has no name and that no other is built on."""
    child = DELTAS.alias("child")
    named = and_(same_log(CHECKPOINTS, DELTAS), CHECKPOINTS.c.seq == DELTAS.c.seq)
    built = and_(same_log(child, DELTAS), child.c.base_seq == DELTAS.c.seq)
    return (
        select(DELTAS.c.seq)
        .where(
            DELTAS.c.tenant == bindparam("k_tenant"),
            *(DELTAS.c[name] == log.c[name] for name in _ID),
            DELTAS.c.kind.in_(words(*STATES)),
            ~select(CHECKPOINTS.c.seq).where(named).exists(),
            ~select(child.c.seq).where(built).exists(),
        )
        .exists()
    )


@statement(scope=SCOPES, after=(True, False))
def list_prunable(d: Dialect, scope: str, after: bool) -> Executable:
    """A page of live logs: how many checkpoints each has, how many go, and whether it has states
    that nothing needs.
    """
    page = (
        select(*(THREADS.c[name] for name in _ID))
        .where(*_within(scope, after), live(), THREADS.c.head_id.is_not(None))
        .order_by(*(THREADS.c[name] for name in _ID))
        .limit(bindparam("p_limit"))
        .cte("page")
    )
    ranked = _ranked(page)
    one: ColumnElement[int] = literal_column("1")
    counted = (
        select(
            *(page.c[name] for name in _ID),
            func.count(ranked.c.seq).label("names"),
            func.coalesce(func.sum(case((_goes(ranked), one), else_=literal_column("0"))), 0).label(
                "going"
            ),
        )
        .select_from(page)
        .outerjoin(ranked, and_(*(ranked.c[name] == page.c[name] for name in _ID)))
        .group_by(*(page.c[name] for name in _ID))
        .subquery("counted")
    )
    needless = case((_needless(counted), one), else_=literal_column("0"))
    return select(
        *(counted.c[name] for name in (*_ID, "names", "going")), needless.label("needless")
    ).order_by(*(counted.c[name] for name in _ID))


@statement(scope=SCOPES, after=(True, False))
def list_stale(d: Dialect, scope: str, after: bool) -> Executable:
    """A page of logs to remove for good, with about how many rows each has."""
    count = (
        select(func.count())
        .select_from(CHECKPOINTS)
        .where(same_log(CHECKPOINTS, THREADS))
        .scalar_subquery()
    )
    return (
        select(*(THREADS.c[name] for name in _ID), THREADS.c.next_seq, count.label("going"))
        .where(*_within(scope, after), stale())
        .order_by(*(THREADS.c[name] for name in _ID))
        .limit(bindparam("p_limit"))
    )


@statement(which=tuple(_WANTED))
def find_listed(d: Dialect, which: str) -> Executable:
    """Those of a list of logs that are still as wanted."""
    return select(*(THREADS.c[name] for name in _ID)).where(_listed(d, THREADS), _WANTED[which]())


@statement(which=tuple(_WANTED), wait=(True, False))
def lock_listed(d: Dialect, which: str, wait: bool) -> Executable:
    """Lock those of a list of logs that are still as wanted, and, without *wait*, free."""
    return d.lock(
        THREADS,
        and_(_listed(d, THREADS), _WANTED[which]()),
        [THREADS.c[name] for name in _ID],
        skip_locked=not wait,
    )


@statement()
def forget_listed(d: Dialect) -> Executable:
    """Remove names that the rules let go from a list of logs: ``p_limit`` of them, oldest first."""
    ranked = _ranked(d.listed("p_logs", _ID))
    key = (*_ID, "seq")
    going = (
        select(*(ranked.c[name] for name in key))
        .where(_goes(ranked))
        .order_by(*(ranked.c[name] for name in key))
        .limit(bindparam("p_limit"))
    )
    return delete(CHECKPOINTS).where(
        CHECKPOINTS.c.tenant == bindparam("k_tenant"),
        tuple_(*(CHECKPOINTS.c[name] for name in key)).in_(going),
    )


@statement()
def sweep_listed(d: Dialect) -> Executable:
    """Delete states that no name leads to from a list of logs: ``p_limit`` of them, newest first.

    What is built on a state is newer than it, so none is left without what it is built on.
    """
    named = (
        select(*(DELTAS.c[name] for name in (*_ID, "seq", "base_seq")))
        .join(CHECKPOINTS, and_(same_log(DELTAS, CHECKPOINTS), DELTAS.c.seq == CHECKPOINTS.c.seq))
        .where(_listed(d, CHECKPOINTS))
        .cte("alive", recursive=True, nesting=True)
    )
    base, doomed = DELTAS.alias("base"), DELTAS.alias("doomed")
    same = [base.c[name] == named.c[name] for name in _ID]
    alive = named.union_all(
        select(*(base.c[name] for name in (*_ID, "seq", "base_seq")))
        .join(named, and_(*same, base.c.seq == named.c.base_seq))
        .where(base.c.tenant == bindparam("k_tenant"))
    )
    needed = alive.alias("needed")
    key = (*_ID, "seq")
    dead = (
        select(*(doomed.c[name] for name in key))
        .select_from(doomed)
        .outerjoin(needed, and_(*(needed.c[name] == doomed.c[name] for name in key)))
        .where(_listed(d, doomed), doomed.c.kind.in_(words(*STATES)), needed.c.seq.is_(None))
        .order_by(doomed.c.seq.desc())
        .limit(bindparam("p_limit"))
    )
    return delete(DELTAS).where(
        DELTAS.c.tenant == bindparam("k_tenant"),
        tuple_(*(DELTAS.c[name] for name in key)).in_(dead),
    )


@statement()
def move_listed(d: Dialect) -> Executable:
    """`move_epoch` for a list of logs whose newest name has stayed."""
    return (
        update(THREADS)
        .where(_listed(d, THREADS))
        .values(
            epoch=THREADS.c.epoch + bindparam("p_moved", type_=THREADS.c.epoch.type),
            version=THREADS.c.version + 1,
        )
    )


@statement(table=tuple(_TABLES))
def empty_listed(d: Dialect, table: str) -> Executable:
    """Delete the rows of a list of logs."""
    return delete(_TABLES[table]).where(_listed(d, _TABLES[table]))


def _lock(
    d: Dialect, logs: list[Log], values: dict[str, Any], *, which: str, wait: bool
) -> Program[list[Log]]:
    tenant = logs[0].tenant
    rows = yield lock_listed(d, which=which, wait=wait), values | list_binds(tenant, logs)
    return [Log(tenant, row.thread_id, row.namespace) for row in rows]


def prune_listed(
    d: Dialect, logs: list[Log], rules: dict[str, Any], *, wait: bool
) -> Program[Removed]:
    """Remove names that *rules* let go, and, when no more go, the states nobody needs then.

    *rules* are the binds of `beyond_retention`, and ``p_now``.
    """
    locked = yield from _lock(d, logs, rules, which="live", wait=wait)
    if not locked:
        return Removed([], 0, False)
    values = rules | list_binds(logs[0].tenant, locked) | {"p_limit": ROWS}
    gone = (yield forget_listed(d), values).touched
    # To find what is alive costs as much as there are names, so they go first, lot by lot.
    swept = 0 if gone == ROWS else (yield sweep_listed(d), values).touched
    if gone or swept:
        yield move_listed(d), values | {"p_moved": int(swept > 0)}
    return Removed(locked, gone, ROWS in (gone, swept))


def remove_listed(
    d: Dialect, logs: list[Log], values: dict[str, Any], *, wait: bool
) -> Program[Removed]:
    """Remove stale logs for good, tombstones included. *values* are the binds of `stale`."""
    # They were stale when they were listed; whether they still are shows under the lock.
    locked = yield from _lock(d, logs, values, which="stale", wait=wait)
    if not locked:
        return Removed([], 0, False)
    listed = list_binds(logs[0].tenant, locked)
    gone = yield empty_listed(d, table="checkpoints"), listed
    yield empty_listed(d, table="deltas"), listed
    yield empty_listed(d, table="threads"), listed
    return Removed(locked, gone.touched, False)
