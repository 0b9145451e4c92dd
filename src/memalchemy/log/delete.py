"""Delete from one log: lock first, then look, in separate statements.

A deleted log leaves a tombstone. A state goes only when no checkpoint has it and no other state is
built on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    and_,
    bindparam,
    cast,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    update,
)

from memalchemy.codec.search_text import join_search_texts
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict
from memalchemy.keys import encode_id
from memalchemy.log.dependencies import find_dependent, without_required
from memalchemy.log.heads import Head, lock_log, lock_thread
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    STATES,
    THREADS,
    Log,
    column_binds,
    constants,
    of_log,
    same_log,
    write_key_range,
)
from memalchemy.rows import HEAD, STATE
from memalchemy.statements import ERASES, PROVES, REASONS, Program, removal, statement
from memalchemy.variants import varies

ORPHANED_AFTER = timedelta(days=1)
"""The age at which pending writes are removed if their checkpoint was never saved."""


@statement(changes=HEAD)
def move_epoch(dialect: Dialect) -> Executable:
    """Move a log's epoch, so that no cache trusts a base, nor a copy a row; set its head_id."""
    newest = (
        select(CHECKPOINTS.c.checkpoint_id)
        .where(of_log(CHECKPOINTS))
        .order_by(CHECKPOINTS.c.seq.desc())
        .limit(1)
        .scalar_subquery()
    )
    return (
        update(THREADS)
        .where(of_log(THREADS))
        .values(
            epoch=THREADS.c.epoch + 1,
            version=THREADS.c.version + 1,
            head_id=newest,
        )
    )


# --- States and writes that nothing needs --------------------------------------------------------


@statement()
def sweep_states(dialect: Dialect) -> Executable:
    """Delete the states that no checkpoint is rebuilt from, over any number of bases."""
    named = (
        select(DELTAS.c.seq, DELTAS.c.base_seq)
        .join(CHECKPOINTS, and_(same_log(DELTAS, CHECKPOINTS), DELTAS.c.seq == CHECKPOINTS.c.seq))
        .where(of_log(CHECKPOINTS))
        .cte("alive", recursive=True, nesting=True)
    )
    base = DELTAS.alias("base")
    alive = named.union_all(
        select(base.c.seq, base.c.base_seq)
        .join(named, base.c.seq == named.c.base_seq)
        .where(of_log(base))
    )
    return delete(DELTAS).where(
        of_log(DELTAS),
        DELTAS.c.kind.in_(constants(*STATES)),
        DELTAS.c.seq.not_in(select(alive.c.seq)),
    )


@statement()
def sweep_writes(dialect: Dialect) -> Executable:
    """Delete pending writes of missing checkpoints that were stored before ``p_orphan_cutoff``."""
    names = select(CHECKPOINTS.c.checkpoint_id).where(of_log(CHECKPOINTS))
    old = DELTAS.c.stored_at < bindparam("p_orphan_cutoff", type_=DELTAS.c.stored_at.type)
    return delete(DELTAS).where(
        of_log(DELTAS), DELTAS.c.kind.in_(constants("write")), old, DELTAS.c.label.not_in(names)
    )


class Swept(NamedTuple):
    """The result of a sweep: the number of removed states, and whether the epoch was moved."""

    states: int
    moved_epoch: bool


def sweep(dialect: Dialect, log: Log, now: datetime) -> Program[tuple[Head, int] | None]:
    """Remove the states and pending writes of one log that nothing needs, under its lock.

    Returns the log's head as it was before, and its epoch now; ``None`` if there is no log.
    """
    rows = yield lock_log(dialect), log.binds()
    if not rows:
        return None
    head = Head._make(rows[0])
    swept = yield from sweep_locked(dialect, log, now)
    return head, head.epoch + swept.moved_epoch


def sweep_locked(
    dialect: Dialect, log: Log, now: datetime, *, changed: bool = False
) -> Program[Swept]:
    """Sweep a locked log, of which checkpoints were deleted or states rewritten if it *changed*."""
    states = yield sweep_states(dialect), log.binds()
    old = log.binds() | {"p_orphan_cutoff": now - ORPHANED_AFTER}
    writes = yield sweep_writes(dialect), old
    moves = bool(states.touched or writes.touched or changed)
    if moves:
        yield move_epoch(dialect), log.binds()
    return Swept(states.touched, moves)


# --- Whole logs ----------------------------------------------------------------------------------


@varies
def bind_logs(dialect: Dialect, logs: Iterable[Log]) -> Iterator[dict[str, Any]]:
    """Yield the binds that list *logs*, in as many lists as they take; see `is_of_listed_log`."""
    return dialect.statements.list_batches("p_logs", [(log.key,) for log in logs])


@varies
def is_of_listed_log(dialect: Dialect, table: Any) -> ColumnElement[bool]:
    """Return the condition that a row is of one of the logs that `bind_logs` lists."""
    names = dialect.statements.rows_from_list("p_logs", ("log_id",))
    return table.c.log_id.in_(select(names.c.log_id))  # type: ignore[no-any-return]


_TABLES = {"checkpoints": CHECKPOINTS, "entries": DELTAS, "deltas": DELTAS, "threads": THREADS}


_LIVES = {"threads": ("log_id", "tenant", "created_at", "version", "next_seq")}
"""The columns that tell which state of which log was removed."""


@removal(_LIVES, table=tuple(_TABLES), why=REASONS)
def delete_rows(dialect: Dialect, table: str, why: str) -> Executable:
    """Delete the rows of the listed logs from a table; ``entries`` are a part of ``deltas``."""
    gone = delete(_TABLES[table]).where(is_of_listed_log(dialect, _TABLES[table]))
    gone = gone.execution_options(**{ERASES: True, PROVES: why})
    return gone.where(DELTAS.c.kind.in_(constants("entry"))) if table == "entries" else gone


@removal(_LIVES, changes=HEAD)
def leave_tombstones(dialect: Dialect) -> Executable:
    """Turn the heads of the listed logs into tombstones, which keep ids and the epoch alone."""
    return (
        update(THREADS)
        .where(is_of_listed_log(dialect, THREADS), THREADS.c.deleted_at.is_(None))
        .values(
            deleted_at=bindparam("p_now"),
            epoch=THREADS.c.epoch + 1,
            version=THREADS.c.version + 1,
            last_ordinal=literal_column("0"),
            head_id=null(),
            previous_id=null(),
            meta=bindparam("p_meta", type_=THREADS.c.meta.type),
            forked_from=null(),
            forked_seq=null(),
            expires_at=null(),
        )
    )


def delete_thread(dialect: Dialect, log: Log, now: datetime) -> Program[bool]:
    """Delete all logs of the thread of *log*, leaving tombstones; return whether any was live."""
    heads = yield from lock_logs_of_thread(dialect, log)
    return (yield from _replace_by_tombstones(dialect, heads, now))


@varies
def lock_logs_of_thread(dialect: Dialect, log: Log) -> Program[list[Head]]:
    """Lock all logs of the thread of *log*, and return their heads."""
    rows = yield lock_thread(dialect), log.head_binds()
    return [Head._make(row) for row in rows]


def delete_log(dialect: Dialect, log: Log, now: datetime) -> Program[bool]:
    """Delete one log, leaving a tombstone; return whether it was live. The thread's others stay."""
    rows = yield lock_log(dialect), log.binds()
    return (yield from _replace_by_tombstones(dialect, [Head._make(row) for row in rows], now))


def _replace_by_tombstones(dialect: Dialect, heads: Sequence[Head], now: datetime) -> Program[bool]:
    """Delete everything of locked logs but their tombstones; return whether any was live."""
    for listed in bind_logs(dialect, (head.log for head in heads)):
        yield delete_rows(dialect, table="checkpoints", why="order"), listed
        # Also of a tombstone: pending writes may wait there for a new life that never began.
        yield delete_rows(dialect, table="deltas", why="order"), listed
        yield leave_tombstones(dialect), listed | {"p_now": now, "p_meta": {}}
    return any(head.is_live(now) for head in heads)


def forget_log(
    dialect: Dialect,
    log: Log,
    only_if: Callable[[Head], bool] = lambda head: True,
    *,
    why: str = "head",
) -> Program[int]:
    """Remove one log for good, tombstone included; return the number of checkpoints and entries.

    *only_if* looks at the head under its lock: what made the log removable may be over by then.
    *why* is one of `REASONS`.
    """
    rows = yield lock_log(dialect), log.binds()
    if not rows or not only_if(Head._make(rows[0])):
        return 0
    return (yield from forget_locked_logs(dialect, [log], why=why))


def forget_locked_logs(dialect: Dialect, logs: Sequence[Log], *, why: str = "head") -> Program[int]:
    """Do as `forget_log` for logs that the caller has locked."""
    gone = 0
    for listed in bind_logs(dialect, logs):
        gone += (yield delete_rows(dialect, table="checkpoints", why=why), listed).touched
        gone += (yield delete_rows(dialect, table="entries", why=why), listed).touched
        yield delete_rows(dialect, table="deltas", why=why), listed
        yield delete_rows(dialect, table="threads", why=why), listed
    return gone


# --- One checkpoint ------------------------------------------------------------------------------


@statement(proves="removed rows")
def delete_checkpoint_row(dialect: Dialect) -> Executable:
    """Delete one checkpoint's row, unless another checkpoint of the log rests on it."""
    same = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    resting = CHECKPOINTS.alias("resting")
    on_it = select(resting.c.seq).where(
        same_log(resting, CHECKPOINTS), resting.c.rests_on == CHECKPOINTS.c.checkpoint_id
    )
    unneeded = ~on_it.correlate(CHECKPOINTS).exists()
    return (
        delete(CHECKPOINTS).where(of_log(CHECKPOINTS), same, unneeded).returning(CHECKPOINTS.c.seq)
    )


@statement(proves="removed rows")
def delete_unneeded_state(dialect: Dialect) -> Executable:
    """Delete one state if no checkpoint has it and no other state is built on it."""
    seq = bindparam("p_seq", type_=DELTAS.c.seq.type)
    child = DELTAS.alias("child")
    named = select(CHECKPOINTS.c.seq).where(of_log(CHECKPOINTS), CHECKPOINTS.c.seq == seq)
    built_on = select(child.c.seq).where(of_log(child), child.c.base_seq == seq)
    return (
        delete(DELTAS)
        .where(of_log(DELTAS), DELTAS.c.seq == seq, DELTAS.c.kind.in_(constants(*STATES)))
        .where(~named.exists(), ~built_on.exists())
        .returning(DELTAS.c.base_seq)
    )


@statement()
def delete_writes(dialect: Dialect) -> Executable:
    """Delete the pending writes of one checkpoint; binds ``p_low`` and ``p_high`` of their keys."""
    key = DELTAS.c.entry_key
    low, high = (bindparam(name, type_=key.type) for name in ("p_low", "p_high"))
    of_it = DELTAS.c.label == bindparam("p_checkpoint_id", type_=DELTAS.c.label.type)
    return delete(DELTAS).where(
        of_log(DELTAS), DELTAS.c.kind.in_(constants("write")), key >= low, key < high, of_it
    )


@statement(proves="removed rows")
def read_search_text(dialect: Dialect) -> Executable:
    """Select the search text of a state, and that of the next checkpoint of its log."""
    seq = bindparam("p_seq", type_=DELTAS.c.seq.type)
    following = (
        select(func.min(CHECKPOINTS.c.seq))
        .where(of_log(CHECKPOINTS), CHECKPOINTS.c.seq > seq)
        .scalar_subquery()
    )
    return (
        select(DELTAS.c.seq, DELTAS.c.search_text)
        .where(of_log(DELTAS), or_(DELTAS.c.seq == seq, DELTAS.c.seq == following))
        .order_by(DELTAS.c.seq)
    )


@statement(proves="removed rows")
def read_search_texts(dialect: Dialect) -> Executable:
    """Select the search texts of the states of a log at the positions that ``p_keys`` lists."""
    listed = dialect.statements.rows_from_list("p_keys", ("seq",))
    places = select(cast(listed.c.seq, BigInteger))
    return (
        select(DELTAS.c.seq, DELTAS.c.search_text)
        .where(of_log(DELTAS), DELTAS.c.seq.in_(places))
        .order_by(DELTAS.c.seq.desc())
    )


@statement(changes=STATE)
def replace_search_text(dialect: Dialect) -> Executable:
    """Replace the search text of a state."""
    here = DELTAS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type)
    return update(DELTAS).where(of_log(DELTAS), here).values(column_binds(DELTAS, ["search_text"]))


def _hand_over_search_text(dialect: Dialect, log: Log, seq: int) -> Program[None]:
    """Add the search text of the state at *seq* to that of the checkpoint after it."""
    rows = yield read_search_text(dialect), log.binds() | {"p_seq": seq}
    if len(rows) < 2 or not rows[0].search_text:
        return
    both = join_search_texts(row.search_text for row in rows)
    yield replace_search_text(dialect), log.binds() | {"p_seq": rows[1].seq, "p_search_text": both}


def _check_no_dependents(dialect: Dialect, log: Log, checkpoint_id: str) -> Program[None]:
    """Raise `Conflict` if another checkpoint rests on *checkpoint_id*."""
    resting = yield (
        find_dependent(dialect),
        log.binds() | {"p_checkpoint_id": checkpoint_id, "p_limit": 1},
    )
    if resting:
        raise Conflict(
            f"checkpoint {resting[0].checkpoint_id!r} of thread {log.thread_id!r} rests on "
            f"{checkpoint_id!r} and cannot be rebuilt without it; nothing was deleted. Delete that "
            "one first, or delete the whole thread.",
            current=resting[0].checkpoint_id,
        )


def delete_checkpoint(
    dialect: Dialect, log: Log, checkpoint_id: str, now: datetime, *, superseded: bool = False
) -> Program[bool]:
    """Delete one checkpoint, and the states that only it needed; return whether it was there.

    If it is *superseded*, a search for its words finds the next checkpoint from now on.

    Raises:
        Conflict: another checkpoint rests on it; nothing was changed.
    """
    rows = yield lock_log(dialect), log.binds()
    if not rows or not Head._make(rows[0]).is_live(now):
        return False
    named = yield delete_checkpoint_row(dialect), log.binds() | {"p_checkpoint_id": checkpoint_id}
    if not named:
        yield from _check_no_dependents(dialect, log, checkpoint_id)
        return False
    yield (
        delete_writes(dialect),
        log.binds() | {"p_checkpoint_id": checkpoint_id} | write_key_range(checkpoint_id),
    )
    seq: int | None = named[0].seq
    if superseded:
        yield from _hand_over_search_text(dialect, log, named[0].seq)
    while seq is not None:
        gone = yield delete_unneeded_state(dialect), log.binds() | {"p_seq": seq}
        if not gone:
            break
        seq = gone[0].base_seq
    yield move_epoch(dialect), log.binds()
    return True


# --- Some checkpoints ----------------------------------------------------------------------------


@statement()
def delete_writes_of_checkpoints(dialect: Dialect) -> Executable:
    """Delete the pending writes of the checkpoints that ``p_keys`` lists; see `list_batches`."""
    named = dialect.statements.rows_from_list("p_keys", ("label",))
    here = DELTAS.c.label.in_(select(named.c.label))
    return delete(DELTAS).where(of_log(DELTAS), DELTAS.c.kind.in_(constants("write")), here)


@statement()
def delete_checkpoint_rows(dialect: Dialect) -> Executable:
    """Delete the rows of the checkpoints that ``p_keys`` lists; see `list_batches`."""
    named = dialect.statements.rows_from_list("p_keys", ("checkpoint_id",))
    here = CHECKPOINTS.c.checkpoint_id.in_(select(named.c.checkpoint_id))
    return delete(CHECKPOINTS).where(of_log(CHECKPOINTS), here)


def delete_checkpoints(dialect: Dialect, log: Log, ids: Sequence[str], now: Any) -> Program[int]:
    """Delete checkpoints with their pending writes, and the states that only they needed.

    Checkpoints that others rest on stay. Returns the number of deleted ones.
    """
    rows = yield lock_log(dialect), log.binds()
    if not rows or not Head._make(rows[0]).is_live(now):
        return 0
    ids = yield from without_required(dialect, log, ids)
    gone = 0
    for listed in dialect.statements.list_batches("p_keys", [(encode_id(one),) for one in ids]):
        yield delete_writes_of_checkpoints(dialect), log.binds() | listed
        gone += (yield delete_checkpoint_rows(dialect), log.binds() | listed).touched
    if gone:
        yield from sweep_locked(dialect, log, now, changed=True)
    return gone
