"""Delete from many logs at once: lock the free ones, then look, then delete some rows.

A batch is a list of logs, bound as one value, and a number of rows: the statements are as many for
a hundred logs as for one. A log that somebody is saving into is skipped, never waited for. What a
batch leaves is whole: checkpoints go newest first, none that another rests on, and a state only
when no checkpoint has it and no other state is built on it.
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
from memalchemy.log.delete import bind_logs, is_of_listed_log, remove_locked
from memalchemy.log.dependencies import CHECKPOINT_KEY
from memalchemy.log.retention import is_let_go, rank_checkpoints
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    STATES,
    THREADS,
    Log,
    constants,
    live,
    same_log,
)
from memalchemy.statements import Program, statement

MAX_LOGS, MAX_ROWS = 90, 2_000
"""Bounds of one transaction. A single log may have more rows. The keys of 97 logs fit into one list
on Oracle.
"""

SCOPES = ("namespace", "tenant", "log", "thread")
_ID = ("thread_id", "namespace")
_ROW = ("log_id", "seq")


class RemovableLog(NamedTuple):
    """Log that something is to be deleted from."""

    log: Log
    rows: int
    """An estimate of the number of its rows."""
    going: int
    """The number of checkpoints, or checkpoints and entries, to delete."""


class BatchResult(NamedTuple):
    """Result of one batch."""

    logs: list[Log]
    """The logs that were free and still to be deleted from."""
    removed: int
    """The number of checkpoints and entries that were removed."""
    more: bool
    """The batch ended at its number of rows, and not because nothing was left."""


def batches(found: Sequence[RemovableLog]) -> Iterator[list[RemovableLog]]:
    """Split *found* into batches of one transaction each."""
    lot: list[RemovableLog] = []
    rows = 0
    for one in found:
        if lot and (len(lot) == MAX_LOGS or rows + one.rows > MAX_ROWS):
            yield lot
            lot, rows = [], 0
        lot.append(one)
        rows += one.rows
    if lot:
        yield lot


def batch_binds(dialect: Dialect, logs: Sequence[Log]) -> dict[str, Any]:
    """Return the binds that list the logs of a batch: one list takes `MAX_LOGS`."""
    (listed,) = bind_logs(dialect, logs)
    return listed


# --- Finding logs --------------------------------------------------------------------------------


def is_stale() -> ColumnElement[bool]:
    """Return the condition that a log is to be removed for good.

    It is idle since ``p_cutoff``, or expired, or a tombstone older than ``p_tombstone_cutoff``. A
    log is not idle while its thread is saved in a namespace above it: a graph may call a subgraph
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
        THREADS.c.deleted_at < bindparam("p_tombstone_cutoff"),
    )


_WANTED = {"live": live, "stale": is_stale}


def _in_scope(scope: str, after: bool) -> list[ColumnElement[bool]]:
    """Return the conditions on the heads of a tenant, or of a namespace, thread or log of it.

    With *after*, only the heads behind a log, in the order of thread and namespace.
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
    """Count the logs to go through."""
    return (
        select(func.count()).select_from(THREADS).where(*_in_scope(scope, False), _WANTED[which]())
    )


def _flags(*flags: ColumnElement[int] | str) -> list[Any]:
    """Label four flags of a position; see `_positions`."""
    names = ("named", "going", "state", "built_on")
    return [
        (literal_column(flag) if isinstance(flag, str) else flag).label(name)
        for name, flag in zip(names, flags, strict=True)
    ]


def _positions(logs: FromClause, names: Select[Any]) -> Any:
    """Select each position of *logs*, with four flags for what is there.

    They are: a checkpoint, one to delete, a state, a state that another is built on. *names* has
    the rows for the first two. Rows are grouped and not joined: before PostgreSQL has statistics it
    takes a log for one row, and compares each row of a long log with each.
    """
    log = DELTAS.c.log_id
    state = DELTAS.c.kind.in_(constants(*STATES))
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


def _is_unneeded(position: Any) -> ColumnElement[bool]:
    """Return the condition that a position has a state that no checkpoint and no state needs."""
    zero: ColumnElement[int] = literal_column("0")
    return and_(position.c.state != zero, position.c.named == zero, position.c.built_on == zero)


@statement(scope=SCOPES, after=(True, False))
def list_prunable(dialect: Dialect, scope: str, after: bool) -> Executable:
    """Select a page of live logs, with the numbers of what they hold and what a prune deletes.

    These are the checkpoints, those to delete, and the states that nothing needs.
    """
    page = (
        select(*(THREADS.c[name] for name in ("log_id", *_ID)))
        .where(*_in_scope(scope, after), live(), THREADS.c.head_id.is_not(None))
        .order_by(*(THREADS.c[name] for name in _ID))
        .limit(bindparam("p_limit"))
        .cte("page")
    )
    one: ColumnElement[int] = literal_column("1")
    zero: ColumnElement[int] = literal_column("0")
    names, stay = rank_checkpoints(dialect, page)
    going = case((is_let_go(names, stay), one), else_=zero)
    flagged = select(*(names.c[name] for name in _ROW), *_flags("1", going, "0", "0"))
    at = _positions(page, flagged)
    needless = case((_is_unneeded(at), one), else_=zero)
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
    """Select a page of logs to remove for good, with about how many rows each has."""

    def count(table: Any, *where: ColumnElement[bool]) -> Any:
        rows = select(func.count()).select_from(table).where(same_log(table, THREADS), *where)
        return rows.scalar_subquery()

    going = count(CHECKPOINTS) + count(DELTAS, DELTAS.c.kind.in_(constants("entry")))
    return (
        select(*(THREADS.c[name] for name in _ID), THREADS.c.next_seq, going.label("going"))
        .where(*_in_scope(scope, after), is_stale())
        .order_by(*(THREADS.c[name] for name in _ID))
        .limit(bindparam("p_limit"))
    )


_TIMES = (*_ID, "updated_at", "expires_at", "deleted_at")


@statement()
def read_batch(dialect: Dialect) -> Executable:
    """Select the logs of a batch that exist, with their times."""
    return select(*(THREADS.c[name] for name in _TIMES)).where(is_of_listed_log(dialect, THREADS))


@statement(wait=(True, False))
def lock_batch(dialect: Dialect, wait: bool) -> Executable:
    """Lock the logs of a batch that exist and, without *wait*, are free; select their times.

    The caller checks whether they are still to be deleted from (`is_wanted`): a condition that
    PostgreSQL takes for rare makes it look through all threads for each of the list.
    """
    columns = [THREADS.c[name] for name in _TIMES]
    return dialect.statements.lock(
        THREADS, is_of_listed_log(dialect, THREADS), columns, skip_locked=not wait
    )


def is_wanted(row: Any, which: str, values: Mapping[str, Any]) -> bool:
    """Return whether a log with the times of *row* is ``live``, or ``stale``."""
    expired = row.expires_at is not None and row.expires_at <= values["p_now"]
    if which == "live":
        return row.deleted_at is None and not expired
    if row.deleted_at is not None:
        return expired or bool(row.deleted_at < values["p_tombstone_cutoff"])
    return expired or bool(row.updated_at < values["p_cutoff"])


# --- Deleting ------------------------------------------------------------------------------------


def _checkpoints_to_delete(
    dialect: Dialect, columns: Sequence[str]
) -> tuple[Select[Any], CTE, CTE]:
    """Select the rows that `delete_pruned_checkpoints` deletes; return its two CTEs, too."""
    names, stay = rank_checkpoints(
        dialect, dialect.statements.rows_from_list("p_logs", ("log_id",))
    )
    rows = (
        select(*(names.c[name] for name in columns))
        .where(is_let_go(names, stay))
        .order_by(names.c.log_id, names.c.seq.desc())
        .limit(bindparam("p_limit"))
    )
    return rows, names, stay


@statement()
def delete_pruned_checkpoints(dialect: Dialect) -> Executable:
    """Delete checkpoints that the rules do not keep from a batch of logs, at most ``p_limit``.

    The newest go first, so that at no time a checkpoint exists without the one that it rests on.
    """
    return delete(CHECKPOINTS).where(
        _is_in(dialect, CHECKPOINTS, *_checkpoints_to_delete(dialect, _ROW))
    )


@statement()
def delete_pruned_writes(dialect: Dialect) -> Executable:
    """Delete the pending writes of the checkpoints that `delete_pruned_checkpoints` takes next.

    They are rows of ``deltas``, whose label is the id of their checkpoint.
    """
    rows, *needed_ctes = _checkpoints_to_delete(dialect, CHECKPOINT_KEY)
    going = dialect.statements.materialized(rows, "going")
    checkpoint_of_write = tuple_(DELTAS.c.log_id, DELTAS.c.label)
    keys = select(*(going.c[name] for name in CHECKPOINT_KEY))
    keys = keys.add_cte(*needed_ctes, nest_here=True)
    is_write = DELTAS.c.kind.in_(constants("write"))
    return delete(DELTAS).where(is_write, checkpoint_of_write.in_(keys))


def _is_in(dialect: Dialect, table: Any, rows: Select[Any], *made: CTE) -> ColumnElement[bool]:
    """Return the condition that a row is one of *rows*, which the planner computes once.

    *made* are the CTEs that *rows* need.
    """
    found = dialect.statements.materialized(rows, "found")
    each = select(*(found.c[name] for name in _ROW)).add_cte(*made, nest_here=True)
    return tuple_(*(table.c[name] for name in _ROW)).in_(each)


@statement()
def delete_unneeded_states(dialect: Dialect) -> Executable:
    """Delete states of a batch of logs that no checkpoint and no state needs, at most ``p_limit``.

    Repeated, it deletes the states that those were built on.
    """
    logs = dialect.statements.rows_from_list("p_logs", ("log_id",))
    names = (
        select(*(CHECKPOINTS.c[name] for name in _ROW), *_flags("1", "0", "0", "0"))
        .select_from(CHECKPOINTS)
        .join(logs, same_log(CHECKPOINTS, logs))
    )
    at = _positions(logs, names)
    dead = (
        select(*(at.c[name] for name in _ROW)).where(_is_unneeded(at)).limit(bindparam("p_limit"))
    )
    return delete(DELTAS).where(_is_in(dialect, DELTAS, dead))


@statement()
def move_epochs(dialect: Dialect) -> Executable:
    """Do as `move_epoch` for a batch of logs whose newest checkpoint has stayed."""
    return (
        update(THREADS)
        .where(is_of_listed_log(dialect, THREADS))
        .values(
            epoch=THREADS.c.epoch + bindparam("p_epoch_step", type_=THREADS.c.epoch.type),
            version=THREADS.c.version + 1,
        )
    )


def _lock_wanted(
    dialect: Dialect, logs: list[Log], values: dict[str, Any], *, which: str, wait: bool
) -> Program[list[Log]]:
    """Lock the logs that are still to be deleted from, and return them."""
    rows = yield lock_batch(dialect, wait=wait), batch_binds(dialect, logs)
    wanted = (row for row in rows if is_wanted(row, which, values))
    return [Log(logs[0].tenant, row.thread_id, row.namespace) for row in wanted]


def prune_batch(
    dialect: Dialect, logs: list[Log], rules: dict[str, Any], *, wait: bool
) -> Program[BatchResult]:
    """Delete checkpoints that *rules* do not keep, and the states that nothing needs then.

    *rules* are the binds of `beyond_retention`, and ``p_now``.
    """
    locked = yield from _lock_wanted(dialect, logs, rules, which="live", wait=wait)
    if not locked:
        return BatchResult([], 0, False)
    values = rules | batch_binds(dialect, locked) | {"p_limit": MAX_ROWS}
    yield delete_pruned_writes(dialect), values
    gone = (yield delete_pruned_checkpoints(dialect), values).touched
    swept = 0
    # Skip-deltas make the layers few.
    while gone + swept < MAX_ROWS:
        layer = (yield delete_unneeded_states(dialect), values).touched
        swept += layer
        if not layer:
            break
    if gone or swept:
        yield move_epochs(dialect), values | {"p_epoch_step": int(swept > 0)}
    return BatchResult(locked, gone, gone + swept >= MAX_ROWS)


def remove_batch(
    dialect: Dialect, logs: list[Log], values: dict[str, Any], *, wait: bool
) -> Program[BatchResult]:
    """Remove stale logs for good, tombstones included. *values* are the binds of `is_stale`."""
    # They were stale when they were listed, which may be over: look again under the lock.
    locked = yield from _lock_wanted(dialect, logs, values, which="stale", wait=wait)
    gone = yield from remove_locked(dialect, locked)
    return BatchResult(locked, gone, False)
