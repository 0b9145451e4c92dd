"""Logs that Citus has spread over nodes by their keys.

Citus sends a statement to one node if every table in it, in each subquery, is compared with the key
of the log, and by a shorter way if it is about one table. So a save looks at its log in a statement
of its own, and not at all while the head is the one that this process has written. Logs of several
nodes are locked, and deleted from, one by one in one order for everybody: a transaction over
several nodes commits in two phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Executable,
    FromClause,
    Integer,
    Select,
    Table,
    Uuid,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
    update,
)

from memalchemy.dialects import Dialect
from memalchemy.log.append import (
    Position,
    append_checkpoint,
    appends_at_once,
    insert_checkpoint_behind,
    put_checkpoint,
    upsert_checkpoint,
)
from memalchemy.log.bulk_delete import (
    LOG_ID,
    count_prunable_apart,
    count_prunable_of,
    list_prunable,
    listed_logs,
    logs_above,
    max_logs_of_a_batch,
    prunable_logs,
)
from memalchemy.log.copy import copied_head, copy_head, insert_copied_head
from memalchemy.log.delete import bind_logs, is_of_listed_log, lock_logs_of_thread
from memalchemy.log.entries import is_entry
from memalchemy.log.heads import (
    HEAD_COLUMNS,
    Allotted,
    Head,
    allot,
    count_if_new,
    counted_checkpoint,
    has_base,
    has_parent,
    is_base,
    is_here,
    lock_log,
    lock_thread,
    update_head,
)
from memalchemy.log.listing import is_no_state, measure_logs
from memalchemy.log.memory import WrittenHead, shortens_saves, takes_turns
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    THREADS,
    Log,
    bind_rows_of_logs,
    of_log,
    of_thread,
    routed,
)
from memalchemy.proofs import COUNTED, REMOVED_BY_NAME
from memalchemy.rows import HEAD
from memalchemy.statements import Program, statement
from memalchemy.variants import CITUS

# --- Conditions ----------------------------------------------------------------------------------


@routed.on(CITUS)
def _routed(dialect: Dialect, *tables: Any) -> list[ColumnElement[bool]]:
    return [of_log(table) for table in tables]


@is_here.on(CITUS)
def _is_here(dialect: Dialect, table: Table) -> ColumnElement[bool]:
    return of_log(table)


@is_of_listed_log.on(CITUS)
def _is_of_listed_log(dialect: Dialect, table: Any) -> ColumnElement[bool]:
    return of_log(table)


@bind_logs.on(CITUS)
def _bind_logs(dialect: Dialect, logs: Iterable[Log]) -> Iterator[dict[str, Any]]:
    return ({"k_log_id": log.key} for log in logs)


@bind_rows_of_logs.on(CITUS)
def _bind_rows_of_logs(
    dialect: Dialect, parameter: str, rows: Sequence[tuple[Log, *tuple[str, ...]]]
) -> Iterator[dict[str, Any]]:
    by_log: dict[Log, list[tuple[Log, *tuple[str, ...]]]] = {}
    for row in rows:
        by_log.setdefault(row[0], []).append(row)
    for log, some in by_log.items():
        for listed in bind_rows_of_logs.general(dialect, parameter, some):
            yield {"k_log_id": log.key} | listed


@listed_logs.on(CITUS)
def _listed_logs(dialect: Dialect) -> FromClause:
    key = bindparam("k_log_id", type_=THREADS.c.log_id.type)
    return select(cast(key, Uuid).label("log_id")).subquery("listed")


# --- Saving --------------------------------------------------------------------------------------


@counted_checkpoint.on(CITUS)
def _counted_checkpoint(dialect: Dialect) -> ColumnElement[int]:
    """Return the number that `look_at_log` has counted."""
    return bindparam("p_new", type_=THREADS.c.last_ordinal.type)


@statement(proves="written log", only_on=CITUS, based=(True, False), parent=(True, False))
def look_at_log(dialect: Dialect, based: bool, parent: bool) -> Executable:
    """Look into a log before positions are allotted in it.

    The row has ``new`` as `count_if_new`; ``base`` and ``parent`` are 1 if they are there.
    """
    one, zero = literal_column("1", Integer), literal_column("0", Integer)
    columns = [count_if_new().label("new")]
    if based:
        columns.append(case((has_base(dialect), one), else_=zero).label("base"))
    if parent:
        columns.append(case((has_parent(dialect), one), else_=zero).label("parent"))
    return select(*columns).select_from(THREADS).where(of_log(THREADS))


def _look(
    dialect: Dialect, values: Mapping[str, Any], *, based: bool, parent: bool, counts: bool = True
) -> Program[dict[str, Any] | None]:
    """Return *values* with what `look_at_log` counts; ``None`` if the base or parent is missing.

    Citus sends the UPDATE of a head, which every save waits for, by a shorter way if it looks at no
    other table.

    Args:
        counts: count the checkpoint. Otherwise it is taken for a new one, and there is no *parent*.
    """
    if not counts:
        if based and not (yield find_base(dialect), values):
            return None
        return dict(values) | {"p_new": 1}
    rows = yield look_at_log(dialect, based=based, parent=parent), values
    found = rows[0] if rows else None
    if (based and not (found and found.base)) or (parent and not (found and found.parent)):
        return None
    return dict(values) | {"p_new": found.new if found else 1}


@statement(only_on=CITUS)
def find_base(dialect: Dialect) -> Executable:
    """Select 1 if the base of a new state exists and is the one that was read; see `has_base`.

    One table and its whole key: Citus plans it once and sends it by the shortest way.
    """
    return select(literal_column("1", Integer)).select_from(DELTAS).where(is_base(dialect))


@statement(only_on=CITUS, changes=HEAD)
def uncount_checkpoint(dialect: Dialect) -> Executable:
    """Take back that the checkpoint of a save was counted as a new one."""
    return update(THREADS).where(of_log(THREADS)).values(last_ordinal=THREADS.c.last_ordinal - 1)


@statement(proves="written log", only_on=CITUS, condition=("any", "newest"), changes=HEAD)
def move_written_head(dialect: Dialect, condition: str) -> Executable:
    """Allot the position of a new checkpoint, if the head is a `WrittenHead`.

    The epoch is compared, too: while it is the same, nothing that the head stands on was removed.
    """
    compared = (
        THREADS.c[name] == bindparam(f"h_{name}", type_=THREADS.c[name].type)
        for name in ("head_id", "next_seq", "updated_at")
    )
    move = update_head(dialect, "checkpoint", condition, based=True, looked=True)
    return move.where(*compared)  # type: ignore[no-any-return]


@allot.on(CITUS)
def _allot(
    dialect: Dialect, purpose: str, condition: str, based: bool, parent: bool
) -> Executable | None:
    if purpose == "entries":
        exists = condition == "version" and not (based or parent)
    else:
        exists = condition not in ("version", "alive")
    if not exists:
        return None
    return update_head(  # type: ignore[no-any-return]
        dialect, purpose, condition, based=based, parent=parent, looked=True
    )


@upsert_checkpoint.on(CITUS)
def _upsert_checkpoint(dialect: Dialect) -> Executable:
    # An existing checkpoint keeps its ordinal: a save that has not looked before finds out by that.
    written: Any = upsert_checkpoint.general(dialect)
    return written.returning(CHECKPOINTS.c.ordinal)  # type: ignore[no-any-return]


_BEHIND_WRITTEN = ("unchanged", "any"), ("unchanged", "newest")
"""Modes and conditions of `append_checkpoint` that a `WrittenHead` may shorten."""


@append_checkpoint.on(CITUS)
def _append_checkpoint(
    dialect: Dialect,
    values: Mapping[str, Any],
    *,
    mode: str,
    condition: str,
    retain: bool,
    needs_parent: bool = True,
    apart: bool = False,
    written: WrittenHead | None = None,
) -> Program[Position | None]:
    parent = needs_parent and values["p_parent_id"] is not None
    # The head of a signed log is signed with the number that is counted.
    counts_later = not (apart or parent)
    if counts_later and written is not None and (mode, condition) in _BEHIND_WRITTEN:
        move = move_written_head(dialect, condition=condition)
        found = yield move, {**values, **written.binds(), "p_new": 1}
        if found:
            head = Allotted._make(found[0])
            return (yield from insert_checkpoint_behind(dialect, head, values, retain=retain))
    looked = yield from _look(
        dialect, values, based=mode == "unchanged", parent=parent, counts=not counts_later
    )
    if looked is None:
        return None
    return (
        yield from append_checkpoint.general(
            dialect,
            looked,
            mode=mode,
            condition=condition,
            retain=retain,
            needs_parent=needs_parent,
        )
    )


@put_checkpoint.on(CITUS)
def _put_checkpoint(dialect: Dialect, head: Allotted, placed: Mapping[str, Any]) -> Program[None]:
    stored = yield upsert_checkpoint(dialect), placed
    if stored[0].ordinal != head.last_ordinal:
        yield uncount_checkpoint(dialect), placed  # it was there


@shortens_saves.on(CITUS)
def _shortens_saves(dialect: Dialect) -> bool:
    return True


@takes_turns.on(CITUS)
def _takes_turns(dialect: Dialect) -> bool:
    return True


@appends_at_once.on(CITUS)
def _appends_at_once(dialect: Dialect) -> bool:
    return True


# --- Threads of several logs ---------------------------------------------------------------------

lock_thread.not_on(CITUS)


@statement(unproven=REMOVED_BY_NAME, only_on=CITUS)
def find_heads_of_thread(dialect: Dialect) -> Executable:
    """Select the heads of all logs of a thread, to lock them one by one."""
    return select(*HEAD_COLUMNS).where(of_thread())


@lock_logs_of_thread.on(CITUS)
def _lock_logs_of_thread(dialect: Dialect, log: Log) -> Program[list[Head]]:
    found = yield find_heads_of_thread(dialect), log.head_binds()
    heads: list[Head] = []
    for key in sorted(Head._make(row).log.key for row in found):
        rows = yield lock_log(dialect), {"k_log_id": key}
        heads += (Head._make(row) for row in rows)
    return heads


# --- Copying -------------------------------------------------------------------------------------


@copy_head.on(CITUS)
def _copy_head(dialect: Dialect) -> Executable:
    # Citus wraps the error of a taken key in one of its own, and this returns no row instead.
    columns, rows = copied_head()
    return dialect.statements.upsert(
        THREADS,
        columns,
        ["log_id"],
        {"epoch": THREADS.c.epoch},
        source=rows,
        where=literal_column("false"),
    ).returning(THREADS.c.log_id)


@insert_copied_head.on(CITUS)
def _insert_copied_head(dialect: Dialect, values: Mapping[str, Any]) -> Program[bool]:
    return bool((yield copy_head(dialect), values))


# --- Many logs -----------------------------------------------------------------------------------


@max_logs_of_a_batch.on(CITUS)
def _max_logs_of_a_batch(dialect: Dialect) -> int:
    return 1  # locks of several nodes are waited for without a common order


@logs_above.on(CITUS)
def _logs_above(dialect: Dialect) -> CTE:
    """Return the tenant's logs in use below the root, which are sent to every node.

    Those of a thread are on several nodes, so no node can compare its logs with them by itself.
    """
    names = ("tenant", "thread_id", "namespace", "deleted_at", "updated_at")
    in_use = select(*(THREADS.c[name] for name in names)).where(
        THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type),
        THREADS.c.namespace != literal_column("'/'"),
        THREADS.c.deleted_at.is_(None),
        THREADS.c.updated_at >= bindparam("p_cutoff"),
    )
    return dialect.statements.materialized(in_use, "above")


@list_prunable.on(CITUS)
def _list_prunable(dialect: Dialect, scope: str, after: bool) -> Executable:
    return prunable_logs(scope, after)


@statement(proves="removed rows", unproven=COUNTED, only_on=CITUS)
def count_prunable(dialect: Dialect) -> Executable:
    """Select one log as `list_prunable` does elsewhere, with its numbers."""
    names: Select[Any] = select(*(THREADS.c[name] for name in ("log_id", *LOG_ID)))
    return count_prunable_of(dialect, names.where(of_log(THREADS)).cte("page"))


@count_prunable_apart.on(CITUS)
def _count_prunable_apart(dialect: Dialect) -> Executable:
    return count_prunable(dialect)


@measure_logs.on(CITUS)
def _measure_logs(dialect: Dialect) -> Executable:
    # Citus cannot compute a subquery of a row of the list.
    named = dialect.statements.rows_from_list("p_logs", ("log_id",))
    names: Any = select(named.c.log_id)
    none: ColumnElement[int] = literal_column("0", BigInteger)
    one: ColumnElement[int] = literal_column("1", BigInteger)

    def counted(table: Table, *values: ColumnElement[Any]) -> Any:
        columns = ("checkpoints", "raw_size", "stored_size", "other_size", "entries")
        labelled = (value.label(name) for name, value in zip(columns, values, strict=True))
        return select(table.c.log_id, *labelled).where(table.c.log_id.in_(names))

    logs = counted(THREADS, none, none, none, none, none)
    sizes = CHECKPOINTS.c.raw_size, CHECKPOINTS.c.stored_size
    checkpoints = counted(CHECKPOINTS, one, *sizes, none, none)
    payload = dialect.statements.byte_length(DELTAS.c.payload)
    is_one: ColumnElement[int] = case((is_entry(), one), else_=none)
    others = counted(DELTAS, none, none, none, payload, is_one).where(is_no_state())
    each = logs.union_all(checkpoints, others).subquery("each_row")
    sums = (func.sum(column).label(column.key) for column in each.c if column.key != "log_id")
    return select(each.c.log_id, *sums).group_by(each.c.log_id)
