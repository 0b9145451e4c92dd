"""Delete from many logs at once: lock the free ones, then look, then delete some rows.

A batch is a list of short logs, bound as one value, or a window of positions of a long log: the
statements are as many for a hundred logs as for one, and look at no more rows than the batch has. A
log that somebody is saving into is skipped, never waited for. What a batch leaves is whole:
checkpoints go newest first, none that another rests on, and a state only when no checkpoint has it
and no other state is built on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from memalchemy.errors import Corrupt
from memalchemy.keys import encode_id
from memalchemy.log.delete import bind_logs, forget_locked_logs, is_of_listed_log
from memalchemy.log.dependencies import CHECKPOINT_KEY
from memalchemy.log.pending_writes import join_listed_checkpoints
from memalchemy.log.retention import rank_checkpoints
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    STATES,
    THREADS,
    WRITE_PREFIX,
    Log,
    constants,
    is_in_window,
    is_not_in,
    live,
    of_log,
    routed,
    same_log,
    write_key_range,
)
from memalchemy.proofs import COUNTED
from memalchemy.rows import HEAD
from memalchemy.statements import Program, statement
from memalchemy.variants import varies

MAX_LOGS, MAX_ROWS = 90, 2_000
"""Bounds of one transaction. The keys of 97 logs fit into one list on Oracle."""

_END = 2**62
"""A position behind all others."""
WHOLE = {"p_low": 0, "p_high": _END}
"""Binds of a window that has all positions."""

SCOPES = ("namespace", "tenant", "log", "thread")
LOG_ID = ("thread_id", "namespace")
"""The columns that name a log of a tenant."""
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
    rest: int | None = None
    """The position below which rows of the only log are left to look at."""


@varies
def max_logs_of_a_batch(dialect: Dialect) -> int:
    """Return the number of logs that one transaction deletes from at most."""
    return MAX_LOGS


def transaction_batches(
    dialect: Dialect, found: Sequence[RemovableLog]
) -> Iterator[list[RemovableLog]]:
    """Split *found* into batches of one transaction each."""
    most = max_logs_of_a_batch(dialect)
    lot: list[RemovableLog] = []
    rows = 0
    for one in found:
        if lot and (len(lot) == most or rows + one.rows > MAX_ROWS):
            yield lot
            lot, rows = [], 0
        lot.append(one)
        rows += one.rows
    if lot:
        yield lot


def log_list_binds(dialect: Dialect, logs: Sequence[Log]) -> dict[str, Any]:
    """Return the binds that list the logs of a batch: one list takes `MAX_LOGS`."""
    (listed,) = bind_logs(dialect, logs)
    return listed


# --- Finding logs --------------------------------------------------------------------------------


def is_stale(dialect: Dialect) -> ColumnElement[bool]:
    """Return the condition that a log is to be removed for good.

    It is idle since ``p_cutoff``, or expired, or a tombstone older than ``p_tombstone_cutoff``. A
    log is not idle while its thread is saved in a namespace above it: a graph may call a subgraph
    that has a memory of its own once in a while.
    """
    above = logs_above(dialect)
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


@varies
def logs_above(dialect: Dialect) -> Any:
    """Return the logs among which `is_stale` looks for those above a log."""
    return THREADS.alias("above")


def _is_wanted(dialect: Dialect, which: str) -> ColumnElement[bool]:
    return live() if which == "live" else is_stale(dialect)


WHICH = ("live", "stale")
"""Logs to delete from: those that are live, and those to remove for good."""


def _in_scope(scope: str, after: bool) -> list[ColumnElement[bool]]:
    """Return the conditions on the heads of a tenant, or of a namespace, thread or log of it.

    With *after*, only the heads behind a log, in the order of thread and namespace.
    """
    named = {"namespace": ("namespace",), "tenant": (), "log": LOG_ID, "thread": ("thread_id",)}
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


@statement(which=WHICH, scope=SCOPES)
def count_logs_to_delete(dialect: Dialect, which: str, scope: str) -> Executable:
    """Count the logs to go through."""
    wanted = _is_wanted(dialect, which)
    return select(func.count()).select_from(THREADS).where(*_in_scope(scope, False), wanted)


def _label_flags(*flags: ColumnElement[int] | str) -> list[Any]:
    """Label four flags of a position; see `_select_positions`."""
    names = ("named", "going", "state", "built_on")
    return [
        (literal_column(flag) if isinstance(flag, str) else flag).label(name)
        for name, flag in zip(names, flags, strict=True)
    ]


def _select_positions(dialect: Dialect, logs: FromClause, names: Select[Any]) -> Any:
    """Select each position of *logs*, with four flags for what is there.

    They are: a checkpoint, one to delete, a state, a state that another is built on. *names* has
    the rows for the first two. Rows are grouped and not joined: before PostgreSQL has statistics it
    takes a log for one row, and compares each row of a long log with each.
    """
    log = DELTAS.c.log_id
    state = DELTAS.c.kind.in_(constants(*STATES))
    here = DELTAS.join(logs, same_log(DELTAS, logs))
    one = routed(dialect, DELTAS)
    states = (
        select(log, DELTAS.c.seq, *_label_flags("0", "0", "1", "0"))
        .select_from(here)
        .where(state, *one)
    )
    bases = (
        select(log, DELTAS.c.base_seq.label("seq"), *_label_flags("0", "0", "0", "1"))
        .select_from(here)
        .where(DELTAS.c.base_seq.is_not(None), *one)
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


@statement(proves="removed rows", unproven=COUNTED, scope=SCOPES, after=(True, False))
def list_prunable(dialect: Dialect, scope: str, after: bool) -> Executable:
    """Select a page of live logs, with the numbers of what they hold and what a prune deletes.

    These are the checkpoints, those to delete, and the states that nothing needs.
    """
    return count_prunable_of(dialect, prunable_logs(scope, after).cte("page"))


def prunable_logs(scope: str, after: bool) -> Select[Any]:
    """Return the query for a page of live logs that have a checkpoint."""
    return (
        select(*(THREADS.c[name] for name in ("log_id", *LOG_ID)))
        .where(*_in_scope(scope, after), live(), THREADS.c.head_id.is_not(None))
        .order_by(*(THREADS.c[name] for name in LOG_ID))
        .limit(bindparam("p_limit"))
    )


@varies
def count_prunable_apart(dialect: Dialect) -> Executable | None:
    """Return the statement that counts one log of `list_prunable`, if that counts none itself."""
    return None


def count_prunable_of(dialect: Dialect, page: CTE) -> Executable:
    """Select the logs of *page* with the numbers of `list_prunable`."""
    one: ColumnElement[int] = literal_column("1")
    zero: ColumnElement[int] = literal_column("0")
    ranked = rank_checkpoints(dialect, page)
    going = case((ranked.is_let_go(), one), else_=zero)
    flagged = select(*(ranked.rows.c[name] for name in _ROW), *_label_flags("1", going, "0", "0"))
    at = _select_positions(dialect, page, flagged)
    needless = case((_is_unneeded(at), one), else_=zero)
    return (
        select(
            *(page.c[name] for name in LOG_ID),
            func.sum(at.c.named).label("names"),
            func.sum(at.c.going).label("going"),
            func.sum(needless).label("needless"),
        )
        .select_from(page.join(at, at.c.log_id == page.c.log_id))
        .group_by(page.c.log_id, *(page.c[name] for name in LOG_ID))
        .order_by(*(page.c[name] for name in LOG_ID))
        .add_cte(page, *ranked, nest_here=True)
    )


@statement(proves="removed rows", unproven=COUNTED, scope=SCOPES, after=(True, False))
def list_stale(dialect: Dialect, scope: str, after: bool) -> Executable:
    """Select a page of logs to remove for good, with about how many rows each has."""

    def count(table: Any, *where: ColumnElement[bool]) -> Any:
        rows = select(func.count()).select_from(table).where(same_log(table, THREADS), *where)
        return rows.scalar_subquery()

    going = count(CHECKPOINTS) + count(DELTAS, DELTAS.c.kind.in_(constants("entry")))
    return (
        select(*(THREADS.c[name] for name in LOG_ID), THREADS.c.next_seq, going.label("going"))
        .where(*_in_scope(scope, after), is_stale(dialect))
        .order_by(*(THREADS.c[name] for name in LOG_ID))
        .limit(bindparam("p_limit"))
    )


_TIMES = (*LOG_ID, "updated_at", "expires_at", "deleted_at")


@statement(proves="removed rows")
def read_batch(dialect: Dialect) -> Executable:
    """Select the logs of a batch that exist, with their times."""
    return select(*(THREADS.c[name] for name in _TIMES)).where(is_of_listed_log(dialect, THREADS))


@statement(proves="removed rows", wait=(True, False))
def lock_batch(dialect: Dialect, wait: bool) -> Executable:
    """Lock the logs of a batch that exist and, without *wait*, are free; select their times.

    The caller checks whether they are still to be deleted from (`is_wanted`): a condition that
    PostgreSQL takes for rare makes it look through all threads for each of the list.
    """
    columns = [THREADS.c[name] for name in ("log_id", "tenant", *_TIMES)]
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


@varies
def listed_logs(dialect: Dialect) -> FromClause:
    """Return the table of the logs that `memalchemy.log.delete.bind_logs` lists."""
    return dialect.statements.rows_from_list("p_logs", ("log_id",))


@statement(proves="removed rows")
def find_window(dialect: Dialect) -> Executable:
    """Select the lowest of the ``p_window`` highest positions of a log below ``p_high``.

    No row if there are fewer. The bind is one less than the number.
    """
    return (
        select(DELTAS.c.seq)
        .where(of_log(DELTAS), DELTAS.c.seq < bindparam("p_high", type_=DELTAS.c.seq.type))
        .order_by(DELTAS.c.seq.desc())
        .limit(1)
        .offset(bindparam("p_window", type_=DELTAS.c.seq.type))
    )


@statement(proves="removed rows")
def find_inverted(dialect: Dialect) -> Executable:
    """Select a checkpoint of a log that rests on a newer one: that one was saved once more."""
    below = CHECKPOINTS.alias("below")
    on_it = and_(same_log(below, CHECKPOINTS), below.c.checkpoint_id == CHECKPOINTS.c.rests_on)
    return (
        select(CHECKPOINTS.c.seq)
        .join(below, on_it)
        .where(of_log(CHECKPOINTS), CHECKPOINTS.c.rests_on.is_not(None))
        .where(CHECKPOINTS.c.seq < below.c.seq)
        .limit(1)
    )


@statement(proves="removed rows", unproven=COUNTED)
def list_ranked(dialect: Dialect) -> Executable:
    """Select the checkpoints of a batch, the newest of a log first, with two flags.

    They are: ``goes``, 1 if the rules do not keep it, and ``has_words``.
    """
    ctes = rank_checkpoints(dialect, listed_logs(dialect), in_window=True)
    ranked = ctes.rows
    one: ColumnElement[int] = literal_column("1")
    zero: ColumnElement[int] = literal_column("0")

    def is_here(table: Any) -> ColumnElement[bool]:
        return and_(same_log(table, ranked), table.c.seq == ranked.c.seq)

    return (
        select(
            *(ranked.c[name] for name in (*_ROW, "checkpoint_id")),
            CHECKPOINTS.c.parent_id,
            case((ctes.is_let_go(), one), else_=zero).label("goes"),
            case((DELTAS.c.search_text.is_not(None), one), else_=zero).label("has_words"),
        )
        .select_from(ranked)
        .join(CHECKPOINTS, is_here(CHECKPOINTS))
        .join(DELTAS, is_here(DELTAS))
        .where(*routed(dialect, CHECKPOINTS, DELTAS))
        .order_by(ranked.c.log_id, ranked.c.seq.desc())
        .add_cte(*ctes, nest_here=True)
    )


@statement(proves="removed rows", named=(True, False))
def delete_pruned_checkpoints(dialect: Dialect, named: bool) -> Executable:
    """Delete the checkpoints of a batch that the rules do not keep; *named*: return their keys."""
    ranked = rank_checkpoints(dialect, listed_logs(dialect), in_window=True)
    rows = select(*(ranked.rows.c[name] for name in _ROW)).where(ranked.is_let_go())
    gone = delete(CHECKPOINTS).where(
        _is_one_of_rows(dialect, CHECKPOINTS, rows, *ranked), *routed(dialect, CHECKPOINTS)
    )
    return gone.returning(*(CHECKPOINTS.c[name] for name in CHECKPOINT_KEY)) if named else gone


@statement(proves="removed rows")
def find_write(dialect: Dialect) -> Executable:
    """Select a row of pending writes of a batch of logs, whichever it is."""
    logs = listed_logs(dialect)
    key = DELTAS.c.entry_key
    low, high = (bindparam(name, type_=key.type) for name in ("p_first_key", "p_last_key"))
    return (
        select(DELTAS.c.seq)
        .select_from(DELTAS.join(logs, same_log(DELTAS, logs)))
        .where(key >= low, key < high, *routed(dialect, DELTAS))
        .limit(1)
    )


@statement()
def delete_pruned_writes(dialect: Dialect) -> Executable:
    """Delete the pending writes of the checkpoints that ``p_keys`` lists, with their logs."""
    named, of_it = join_listed_checkpoints(dialect)
    writes = (
        select(*(DELTAS.c[name] for name in _ROW))
        .select_from(DELTAS.join(named, of_it))
        .where(DELTAS.c.kind.in_(constants("write")), *routed(dialect, DELTAS))
    )
    return delete(DELTAS).where(_is_one_of_rows(dialect, DELTAS, writes), *routed(dialect, DELTAS))


def _is_one_of_rows(
    dialect: Dialect, table: Any, rows: Select[Any], *made: CTE
) -> ColumnElement[bool]:
    """Return the condition that a row is one of *rows*, which the planner computes once.

    *made* are the CTEs that *rows* need.
    """
    found = dialect.statements.computed_first(rows, "found")
    each = select(*(found.c[name] for name in _ROW)).add_cte(*made, nest_here=True)
    return tuple_(*(table.c[name] for name in _ROW)).in_(each)


@statement()
def delete_unneeded_states(dialect: Dialect) -> Executable:
    """Delete the states of a batch that no checkpoint is rebuilt from, over any number of bases.

    States above the window are there because they are needed.
    """
    logs = listed_logs(dialect)
    named = (
        select(*(CHECKPOINTS.c[name] for name in _ROW))
        .select_from(CHECKPOINTS.join(logs, same_log(CHECKPOINTS, logs)))
        .where(is_in_window(CHECKPOINTS), *routed(dialect, CHECKPOINTS))
    )
    low, high = (bindparam(name, type_=DELTAS.c.seq.type) for name in ("p_low", "p_high"))
    base = DELTAS.c.base_seq
    built_on = (
        select(DELTAS.c.log_id, base.label("seq"))
        .select_from(DELTAS.join(logs, same_log(DELTAS, logs)))
        .where(DELTAS.c.seq >= high, base >= low, base < high, *routed(dialect, DELTAS))
    )
    start = select(named.union_all(built_on).subquery("roots")).cte(
        "needed", recursive=True, nesting=True
    )
    rest = (
        select(DELTAS.c.log_id, base)
        .select_from(start)
        .join(DELTAS, and_(same_log(DELTAS, start), DELTAS.c.seq == start.c.seq))
        .where(base >= low, *routed(dialect, DELTAS))
    )
    needed = dialect.statements.recursive_union(start, rest, _ROW)
    return delete(DELTAS).where(
        is_of_listed_log(dialect, DELTAS),
        DELTAS.c.kind.in_(constants(*STATES)),
        is_in_window(DELTAS),
        is_not_in(DELTAS, _ROW, needed),
    )


@statement(changes=HEAD)
def move_epochs(dialect: Dialect) -> Executable:
    """Do as `move_epoch` for a batch of logs whose newest checkpoint has stayed."""
    return (
        update(THREADS)
        .where(is_of_listed_log(dialect, THREADS))
        .values(
            epoch=THREADS.c.epoch + 1,
            version=THREADS.c.version + 1,
        )
    )


def _lock_wanted(
    dialect: Dialect, logs: list[Log], values: dict[str, Any], *, which: str, wait: bool
) -> Program[list[Log]]:
    """Lock the logs that are still to be deleted from, and return them.

    Raises:
        Corrupt: a head has the names of another log.
    """
    rows = yield lock_batch(dialect, wait=wait), log_list_binds(dialect, logs)
    listed = {log.key: log for log in logs}
    for row in rows:
        log = listed[row.log_id]
        if (row.thread_id, row.namespace) != (log.thread_id, log.namespace):
            raise Corrupt(
                f"the head of the log {log.thread_id!r} in {log.namespace} names another: "
                f"thread {row.thread_id!r} in {row.namespace}; nothing of it was deleted"
            )
    return [listed[row.log_id] for row in rows if is_wanted(row, which, values)]


def prune_batch(
    dialect: Dialect,
    logs: list[Log],
    rules: dict[str, Any],
    below: int | None = None,
    *,
    wait: bool,
    before: Callable[[dict[str, Any]], Program[bool]] | None = None,
) -> Program[BatchResult]:
    """Delete checkpoints that *rules* do not keep, and the states that nothing needs then.

    *rules* are the binds of `beyond_retention`, and ``p_now``. Of a single log, only `MAX_ROWS`
    positions are looked at, those before *below*: see `BatchResult.rest`. *before* is a program
    that runs under the locks, with the binds of the batch; if it returns false, nothing is deleted.
    """
    locked = yield from _lock_wanted(dialect, logs, rules, which="live", wait=wait)
    if not locked:
        return BatchResult([], 0)
    high = _END if below is None else below
    low = None
    if len(locked) == 1:
        low = yield from _find_window(dialect, locked[0], high)
    values = rules | log_list_binds(dialect, locked) | {"p_low": low or 0, "p_high": high}
    if before is not None and not (yield from before(values)):
        return BatchResult([], 0)
    gone = yield from _delete_pruned(dialect, values)
    swept = (yield delete_unneeded_states(dialect), values).touched
    if gone or swept:
        yield move_epochs(dialect), values
    return BatchResult(locked, gone, low)


def _find_window(dialect: Dialect, log: Log, high: int) -> Program[int | None]:
    """Return the position at which a window that ends before *high* begins.

    ``None`` if it is all that is left. What rests on a newer checkpoint can only be told apart from
    what stays by looking at all.
    """
    binds = log.binds() | {"p_high": high, "p_window": MAX_ROWS - 1}
    rows = yield find_window(dialect), binds
    if not rows or (high == _END and (yield find_inverted(dialect), log.binds())):
        return None
    return int(rows[0].seq)


def _delete_pruned(dialect: Dialect, values: dict[str, Any]) -> Program[int]:
    """Delete checkpoints of a batch with their pending writes; return their number."""
    keys = {"p_first_key": f"{WRITE_PREFIX}", "p_last_key": f"{WRITE_PREFIX[:-1]}0"}
    if not (yield find_write(dialect), values | keys):
        return (yield delete_pruned_checkpoints(dialect, named=False), values).touched
    gone = yield delete_pruned_checkpoints(dialect, named=True), values
    of_gone = [
        (
            row.log_id,
            *map(encode_id, (row.checkpoint_id, *write_key_range(row.checkpoint_id).values())),
        )
        for row in gone
    ]
    for listed in dialect.statements.list_batches("p_keys", of_gone):
        yield delete_pruned_writes(dialect), values | listed
    return len(gone)


def forget_batch(
    dialect: Dialect, logs: list[Log], values: dict[str, Any], *, wait: bool
) -> Program[BatchResult]:
    """Remove stale logs for good, tombstones included. *values* are the binds of `is_stale`."""
    # They were stale when they were listed, which may be over: look again under the lock.
    locked = yield from _lock_wanted(dialect, logs, values, which="stale", wait=wait)
    gone = yield from forget_locked_logs(dialect, locked)
    return BatchResult(locked, gone)
