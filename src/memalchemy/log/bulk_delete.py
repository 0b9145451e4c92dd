"""Deleting from many logs at once: lock those that are free, then look, then delete a bounded lot.

A batch is a list of logs, bound as one value, and a number of rows: the statements are as many for
a hundred logs as for one. A log that somebody is saving into is passed over, never waited for. What
a batch leaves is whole: names go newest first, none that another rests on, and a state only when it
has no name and no other is built on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    FromClause,
    Select,
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
from memalchemy.log.delete import is_listed, listed_logs, remove_locked
from memalchemy.log.dependencies import NAMED
from memalchemy.log.retention import goes, ranked
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    STATES,
    THREADS,
    Log,
    live,
    same_log,
    words,
)
from memalchemy.statements import Program, statement

LOGS, ROWS = 90, 2_000
"""In one transaction: at most so many logs, and about so many rows; one log may hold more. The keys
of 97 logs fit into one list on Oracle.
"""

SCOPES = ("namespace", "tenant", "log", "thread")
_ID = ("thread_id", "namespace")
_ROW = ("log_id", "seq")


class Found(NamedTuple):
    """A log that something is to be deleted from."""

    log: Log
    rows: int
    """About how many rows of it there are."""
    going: int
    """How many checkpoints, or entries, the rules let go."""


class Removed(NamedTuple):
    """The result of one batch."""

    logs: list[Log]
    """Those that were free, and still there."""
    removed: int
    """Checkpoints, and entries."""
    more: bool
    """Whether it ended at its number of rows, and not because nothing was left."""


def batches(found: Sequence[Found]) -> Iterator[list[Found]]:
    """*found* in lots for one transaction each."""
    lot: list[Found] = []
    rows = 0
    for one in found:
        if lot and (len(lot) == LOGS or rows + one.rows > ROWS):
            yield lot
            lot, rows = [], 0
        lot.append(one)
        rows += one.rows
    if lot:
        yield lot


def batch_binds(dialect: Dialect, logs: Sequence[Log]) -> dict[str, Any]:
    """The binds that name the logs of a batch: `LOGS` are never more than one list takes."""
    (listed,) = listed_logs(dialect, logs)
    return listed


# --- Finding logs --------------------------------------------------------------------------------


def stale() -> ColumnElement[bool]:
    """Idle since ``p_cutoff``, expired, or a tombstone past its day (``p_buried``).

    A log is not idle while its thread is saved in a namespace above it: a graph may call a subgraph
    that has a memory of its own once in a while.
    """
    above = THREADS.alias("above")
    start = func.substr(THREADS.c.namespace, 1, func.length(above.c.namespace))
    in_use: Select[Any] = select(literal_column("1")).where(
        *(above.c[name] == THREADS.c[name] for name in ("tenant", "thread_id")),
        above.c.namespace != THREADS.c.namespace,
        above.c.namespace != literal_column("'/'"),  # the root, which has nothing to do with others
        above.c.namespace == start,
        above.c.deleted_at.is_(None),
        above.c.updated_at >= bindparam("p_cutoff"),
    )
    idle = and_(THREADS.c.deleted_at.is_(None), THREADS.c.updated_at < bindparam("p_cutoff"))
    return or_(
        and_(idle, ~in_use.exists()),
        THREADS.c.expires_at <= bindparam("p_now"),
        THREADS.c.deleted_at < bindparam("p_buried"),
    )


_WANTED = {"live": live, "stale": stale}


def _within(scope: str, after: bool) -> list[ColumnElement[bool]]:
    """The heads of a tenant, or of a namespace, thread or log of it; behind a log, if there is one
    to go on from, in the order of thread and namespace.
    """
    named = {"namespace": ("namespace",), "tenant": (), "log": _ID, "thread": ("thread_id",)}
    found: list[ColumnElement[bool]] = [
        THREADS.c[name] == bindparam(f"k_{name}", type_=THREADS.c[name].type)
        for name in ("tenant", *named[scope])
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
def count_logs(dialect: Dialect, which: str, scope: str) -> Executable:
    """The number of logs to go through."""
    return select(func.count()).select_from(THREADS).where(*_within(scope, False), _WANTED[which]())


def _flags(*flags: ColumnElement[int] | str) -> list[Any]:
    names = ("named", "going", "state", "built_on")
    return [
        (literal_column(flag) if isinstance(flag, str) else flag).label(name)
        for name, flag in zip(names, flags, strict=True)
    ]


def _positions(logs: FromClause, names: Select[Any]) -> Any:
    """Each position of *logs*, with what is there: a name, one that goes, a state, a state that
    another is built on. *names* are the rows for the first two.

    By grouping and not by joins: before PostgreSQL has statistics it takes a log for one row, and
    compares each row of a long log with each.
    """
    log = DELTAS.c.log_id
    state = DELTAS.c.kind.in_(words(*STATES))
    here = DELTAS.join(logs, same_log(DELTAS, logs))
    states = select(log, DELTAS.c.seq, *_flags("0", "0", "1", "0")).select_from(here).where(state)
    bases = (
        select(log, DELTAS.c.base_seq.label("seq"), *_flags("0", "0", "0", "1"))
        .select_from(here)
        .where(DELTAS.c.base_seq.is_not(None))
    )
    each = names.union_all(states, bases).subquery("each_position")
    row = [each.c[name] for name in _ROW]
    flags = [each.c.named, each.c.going, each.c.state, each.c.built_on]
    return (
        select(*row, *(func.max(flag).label(flag.name) for flag in flags))
        .group_by(*row)
        .subquery("positions")
    )


def _needless(position: Any) -> ColumnElement[bool]:
    """There is a state that neither has a name nor is built on."""
    zero: ColumnElement[int] = literal_column("0")
    return and_(position.c.state != zero, position.c.named == zero, position.c.built_on == zero)


@statement(scope=SCOPES, after=(True, False))
def list_prunable(dialect: Dialect, scope: str, after: bool) -> Executable:
    """A page of live logs: the number of checkpoints of each, of those that go, and of states that
    nothing needs.
    """
    page = (
        select(*(THREADS.c[name] for name in ("log_id", *_ID)))
        .where(*_within(scope, after), live(), THREADS.c.head_id.is_not(None))
        .order_by(*(THREADS.c[name] for name in _ID))
        .limit(bindparam("p_limit"))
        .cte("page")
    )
    one: ColumnElement[int] = literal_column("1")
    zero: ColumnElement[int] = literal_column("0")
    names, stay = ranked(dialect, page)
    going = case((goes(names, stay), one), else_=zero)
    flagged = select(*(names.c[name] for name in _ROW), *_flags("1", going, "0", "0"))
    at = _positions(page, flagged)
    needless = case((_needless(at), one), else_=zero)
    return (
        select(
            *(page.c[name] for name in _ID),
            func.sum(at.c.named).label("names"),
            func.sum(at.c.going).label("going"),
            func.sum(needless).label("needless"),
        )
        .select_from(page.join(at, at.c.log_id == page.c.log_id))
        .group_by(page.c.log_id, *(page.c[name] for name in _ID))
        .order_by(*(page.c[name] for name in _ID))
        .add_cte(page, names, stay, nest_here=True)
    )


@statement(scope=SCOPES, after=(True, False))
def list_stale(dialect: Dialect, scope: str, after: bool) -> Executable:
    """A page of logs to remove for good, with about how many rows each has."""

    def count(table: Any, *where: ColumnElement[bool]) -> Any:
        rows = select(func.count()).select_from(table).where(same_log(table, THREADS), *where)
        return rows.scalar_subquery()

    going = count(CHECKPOINTS) + count(DELTAS, DELTAS.c.kind.in_(words("entry")))
    return (
        select(*(THREADS.c[name] for name in _ID), THREADS.c.next_seq, going.label("going"))
        .where(*_within(scope, after), stale())
        .order_by(*(THREADS.c[name] for name in _ID))
        .limit(bindparam("p_limit"))
    )


_STANDING = (*_ID, "updated_at", "expires_at", "deleted_at")


@statement()
def find_listed(dialect: Dialect) -> Executable:
    """Those of a batch of logs that are there, with their times."""
    return select(*(THREADS.c[name] for name in _STANDING)).where(is_listed(dialect, THREADS))


@statement(wait=(True, False))
def lock_listed(dialect: Dialect, wait: bool) -> Executable:
    """Lock those of a batch of logs that are there, and, without *wait*, free; with their times.

    Whether they are as wanted is for the caller to see: a condition that PostgreSQL takes for rare
    makes it look through all threads for each of the list.
    """
    columns = [THREADS.c[name] for name in _STANDING]
    return dialect.statements.lock(
        THREADS, is_listed(dialect, THREADS), columns, skip_locked=not wait
    )


def is_wanted(row: Any, which: str, values: Mapping[str, Any]) -> bool:
    """Tell if a log with such times is ``live``, or ``stale``."""
    expired = row.expires_at is not None and row.expires_at <= values["p_now"]
    if which == "live":
        return row.deleted_at is None and not expired
    if row.deleted_at is not None:
        return expired or bool(row.deleted_at < values["p_buried"])
    return expired or bool(row.updated_at < values["p_cutoff"])


# --- Deleting ------------------------------------------------------------------------------------


def _going(dialect: Dialect, columns: Sequence[str]) -> tuple[Select[Any], CTE, CTE]:
    """The rows that `forget_listed` removes, and two tables that have to be made for it."""
    names, stay = ranked(dialect, dialect.statements.rows_from_list("p_logs", ("log_id",)))
    rows = (
        select(*(names.c[name] for name in columns))
        .where(goes(names, stay))
        .order_by(names.c.log_id, names.c.seq.desc())
        .limit(bindparam("p_limit"))
    )
    return rows, names, stay


@statement()
def forget_listed(dialect: Dialect) -> Executable:
    """Remove names that the rules let go from a batch of logs: ``p_limit`` of them, newest first,
    so that at no time one is there without what it rests on.
    """
    return delete(CHECKPOINTS).where(_is_one_of(dialect, CHECKPOINTS, *_going(dialect, _ROW)))


@statement()
def forget_listed_writes(dialect: Dialect) -> Executable:
    """Delete the pending writes of the checkpoints whose names `forget_listed` removes next."""
    rows, *made = _going(dialect, NAMED)
    going = dialect.statements.materialized(rows, "going")
    whose = tuple_(DELTAS.c.log_id, DELTAS.c.label)
    found = select(*(going.c[name] for name in NAMED)).add_cte(*made, nest_here=True)
    return delete(DELTAS).where(DELTAS.c.kind.in_(words("write")), whose.in_(found))


def _is_one_of(dialect: Dialect, table: Any, rows: Select[Any], *made: CTE) -> ColumnElement[bool]:
    """A row is one of *rows*, which are found once, whatever the planner thinks of them, in tables
    that are *made* before.
    """
    found = dialect.statements.materialized(rows, "found")
    each = select(*(found.c[name] for name in _ROW)).add_cte(*made, nest_here=True)
    return tuple_(*(table.c[name] for name in _ROW)).in_(each)


@statement()
def sweep_listed(dialect: Dialect) -> Executable:
    """Delete states that neither have a name nor are built on, from a batch of logs: ``p_limit`` of
    them. Done again it deletes what those were built on.
    """
    logs = dialect.statements.rows_from_list("p_logs", ("log_id",))
    names = (
        select(*(CHECKPOINTS.c[name] for name in _ROW), *_flags("1", "0", "0", "0"))
        .select_from(CHECKPOINTS)
        .join(logs, same_log(CHECKPOINTS, logs))
    )
    at = _positions(logs, names)
    dead = select(*(at.c[name] for name in _ROW)).where(_needless(at)).limit(bindparam("p_limit"))
    return delete(DELTAS).where(_is_one_of(dialect, DELTAS, dead))


@statement()
def move_listed(dialect: Dialect) -> Executable:
    """`move_epoch` for a batch of logs whose newest name has stayed."""
    return (
        update(THREADS)
        .where(is_listed(dialect, THREADS))
        .values(
            epoch=THREADS.c.epoch + bindparam("p_moved", type_=THREADS.c.epoch.type),
            version=THREADS.c.version + 1,
        )
    )


def _lock(
    dialect: Dialect, logs: list[Log], values: dict[str, Any], *, which: str, wait: bool
) -> Program[list[Log]]:
    rows = yield lock_listed(dialect, wait=wait), batch_binds(dialect, logs)
    wanted = (row for row in rows if is_wanted(row, which, values))
    return [Log(logs[0].tenant, row.thread_id, row.namespace) for row in wanted]


def prune_listed(
    dialect: Dialect, logs: list[Log], rules: dict[str, Any], *, wait: bool
) -> Program[Removed]:
    """Remove names that *rules* let go, and the states nobody needs then.

    *rules* are the binds of `beyond_retention`, and ``p_now``.
    """
    locked = yield from _lock(dialect, logs, rules, which="live", wait=wait)
    if not locked:
        return Removed([], 0, False)
    values = rules | batch_binds(dialect, locked) | {"p_limit": ROWS}
    yield forget_listed_writes(dialect), values
    gone = (yield forget_listed(dialect), values).touched
    swept = 0
    # Of skip-deltas few layers lie over each other.
    while gone + swept < ROWS:
        layer = (yield sweep_listed(dialect), values).touched
        swept += layer
        if not layer:
            break
    if gone or swept:
        yield move_listed(dialect), values | {"p_moved": int(swept > 0)}
    return Removed(locked, gone, gone + swept >= ROWS)


def remove_listed(
    dialect: Dialect, logs: list[Log], values: dict[str, Any], *, wait: bool
) -> Program[Removed]:
    """Remove stale logs for good, tombstones included. *values* are the binds of `stale`."""
    # They were stale when they were listed; whether they still are shows under the lock.
    locked = yield from _lock(dialect, logs, values, which="stale", wait=wait)
    gone = yield from remove_locked(dialect, locked)
    return Removed(locked, gone, False)
