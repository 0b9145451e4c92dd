"""Locking, sweeping, deleting: lock first, then look, in separate statements."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import (
    Executable,
    and_,
    bindparam,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    update,
)

from memalchemy.codec.text import MAX_TEXT
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict
from memalchemy.log.resting import find_resting
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    LOG_KEY,
    STATES,
    THREADS,
    Log,
    binds,
    key_range,
    of_log,
    of_thread,
    same_log,
    words,
)
from memalchemy.statements import Program, statement

WAITING = timedelta(days=1)
"""The age at which pending writes are removed if their checkpoint has no name."""


class Head(NamedTuple):
    """A row of ``threads`` as a program sees it under its lock."""

    namespace: str
    next_seq: int
    epoch: int
    head_id: str | None
    expires_at: datetime | None
    deleted_at: datetime | None
    version: int

    def is_live(self, now: datetime) -> bool:
        return self.deleted_at is None and not self.is_expired(now)

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


_HEAD = [THREADS.c[name] for name in Head._fields]


@statement()
def read_head(d: Dialect) -> Executable:
    """The head of a log, as it is."""
    return select(*_HEAD).where(of_log(THREADS))


@statement()
def lock_log(d: Dialect) -> Executable:
    """Lock one log."""
    return d.lock(THREADS, of_log(THREADS), _HEAD)


@statement()
def lock_thread(d: Dialect) -> Executable:
    """Lock all logs of a thread."""
    return d.lock(THREADS, of_thread(THREADS), _HEAD)


@statement()
def move_epoch(d: Dialect) -> Executable:
    """Tell every cache that a base of this log may be gone, and find its newest name again."""
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
            epoch=THREADS.c.epoch + bindparam("p_moved", type_=THREADS.c.epoch.type),
            version=THREADS.c.version + 1,
            head_id=newest,
        )
    )


@statement()
def sweep_dead(d: Dialect) -> Executable:
    """Delete states that no name leads to, over any number of bases."""
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
        .where(*(base.c[name] == bindparam(f"k_{name}") for name in LOG_KEY))
    )
    return delete(DELTAS).where(
        of_log(DELTAS), DELTAS.c.kind.in_(words(*STATES)), DELTAS.c.seq.not_in(select(alive.c.seq))
    )


@statement()
def sweep_writes(d: Dialect) -> Executable:
    """Delete pending writes, put before ``p_waiting``, of checkpoints without a name."""
    names = select(CHECKPOINTS.c.checkpoint_id).where(of_log(CHECKPOINTS))
    waiting = DELTAS.c.stored_at < bindparam("p_waiting", type_=DELTAS.c.stored_at.type)
    return delete(DELTAS).where(
        of_log(DELTAS), DELTAS.c.kind.in_(words("write")), waiting, DELTAS.c.label.not_in(names)
    )


def sweep(d: Dialect, log: Log, now: datetime) -> Program[tuple[Head, int] | None]:
    """Remove dead states of one log, under its lock; its head before and its epoch after."""
    rows = yield lock_log(d), log.binds()
    if not rows:
        return None
    head = Head._make(rows[0])
    swept = yield from sweep_locked(d, log, now, renamed=False)
    return head, head.epoch + (swept > 0)


def sweep_locked(
    d: Dialect, log: Log, now: datetime, *, renamed: bool, rewritten: bool = False
) -> Program[int]:
    """`sweep` for a caller that holds the lock, and has removed names or rewritten states."""
    swept = yield sweep_dead(d), log.binds()
    yield sweep_writes(d), log.binds() | {"p_waiting": now - WAITING}
    moved = swept.touched > 0 or rewritten
    if moved or renamed:
        yield move_epoch(d), log.binds() | {"p_moved": int(moved)}
    return swept.touched


@statement(table=("checkpoints", "deltas", "entries"), scope=("log", "thread"))
def empty(d: Dialect, table: str, scope: str) -> Executable:
    """Delete the rows of a log, or of all logs of a thread; or of those the entries."""
    target = CHECKPOINTS if table == "checkpoints" else DELTAS
    gone = delete(target).where(of_log(target) if scope == "log" else of_thread(target))
    return gone.where(DELTAS.c.kind.in_(words("entry"))) if table == "entries" else gone


@statement()
def remove_head(d: Dialect) -> Executable:
    """Delete the head of a log for good, leaving no tombstone."""
    return delete(THREADS).where(of_log(THREADS))


@statement(scope=("log", "thread"))
def bury(d: Dialect, scope: str) -> Executable:
    """Turn the head of a log, or those of a thread, into tombstones: ids and the epoch alone."""
    return (
        update(THREADS)
        .where(
            of_log(THREADS) if scope == "log" else of_thread(THREADS),
            THREADS.c.deleted_at.is_(None),
        )
        .values(
            deleted_at=bindparam("p_now"),
            epoch=THREADS.c.epoch + 1,
            version=THREADS.c.version + 1,
            last_ordinal=literal_column("0"),
            head_id=null(),
            previous_id=null(),
            meta=bindparam("p_meta", type_=THREADS.c.meta.type),
            forked_thread=null(),
            forked_seq=null(),
            expires_at=null(),
        )
    )


def delete_thread(d: Dialect, log: Log, now: datetime) -> Program[bool]:
    """Delete all logs of a thread, leaving tombstones; whether a live one was there."""
    rows = yield lock_thread(d), log.binds()
    return (yield from _bury_locked(d, log, [Head._make(row) for row in rows], "thread", now))


def delete_log(d: Dialect, log: Log, now: datetime) -> Program[bool]:
    """Delete one log, leaving a tombstone; whether it was there. The thread's others stay."""
    rows = yield lock_log(d), log.binds()
    return (yield from _bury_locked(d, log, [Head._make(row) for row in rows], "log", now))


def _bury_locked(
    d: Dialect, log: Log, heads: list[Head], scope: str, now: datetime
) -> Program[bool]:
    if all(head.deleted_at is not None for head in heads):
        # Writes of a life that did not begin may wait there.
        yield empty(d, table="deltas", scope=scope), log.binds()
        return False
    yield empty(d, table="checkpoints", scope=scope), log.binds()
    yield empty(d, table="deltas", scope=scope), log.binds()
    yield bury(d, scope=scope), log.binds() | {"p_now": now, "p_meta": {}}
    return any(head.is_live(now) for head in heads)


def remove_log(
    d: Dialect, log: Log, only_if: Callable[[Head], bool] = lambda head: True
) -> Program[int]:
    """Remove one log for good, tombstone included; how many checkpoints and entries it had.

    *only_if* looks at the head under its lock: what made the log removable may be over by then.
    """
    rows = yield lock_log(d), log.binds()
    if not rows or not only_if(Head._make(rows[0])):
        return 0
    gone = (yield empty(d, table="checkpoints", scope="log"), log.binds()).touched
    gone += (yield empty(d, table="entries", scope="log"), log.binds()).touched
    yield empty(d, table="deltas", scope="log"), log.binds()
    yield remove_head(d), log.binds()
    return gone


@statement()
def remove_name(d: Dialect) -> Executable:
    """Delete one checkpoint's name, unless another checkpoint of the log rests on it."""
    same = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    resting = CHECKPOINTS.alias("resting")
    on_it = select(resting.c.seq).where(
        same_log(resting, CHECKPOINTS), resting.c.rests_on == CHECKPOINTS.c.checkpoint_id
    )
    unneeded = ~on_it.correlate(CHECKPOINTS).exists()
    return (
        delete(CHECKPOINTS).where(of_log(CHECKPOINTS), same, unneeded).returning(CHECKPOINTS.c.seq)
    )


@statement()
def remove_unneeded(d: Dialect) -> Executable:
    """Delete one state that neither has a name nor is a base."""
    seq = bindparam("p_seq", type_=DELTAS.c.seq.type)
    child = DELTAS.alias("child")
    named = select(CHECKPOINTS.c.seq).where(of_log(CHECKPOINTS), CHECKPOINTS.c.seq == seq)
    built_on = select(child.c.seq).where(
        *(child.c[name] == bindparam(f"k_{name}") for name in LOG_KEY), child.c.base_seq == seq
    )
    return (
        delete(DELTAS)
        .where(of_log(DELTAS), DELTAS.c.seq == seq, DELTAS.c.kind.in_(words(*STATES)))
        .where(~named.exists(), ~built_on.exists())
        .returning(DELTAS.c.base_seq, DELTAS.c.depth, DELTAS.c.status)
    )


@statement()
def remove_writes(d: Dialect) -> Executable:
    """Delete the pending writes of one checkpoint; binds ``p_low`` and ``p_high`` of their keys."""
    key = DELTAS.c.entry_key
    low, high = (bindparam(name, type_=key.type) for name in ("p_low", "p_high"))
    of_it = DELTAS.c.label == bindparam("p_checkpoint_id", type_=DELTAS.c.label.type)
    return delete(DELTAS).where(
        of_log(DELTAS), DELTAS.c.kind.in_(words("write")), key >= low, key < high, of_it
    )


@statement()
def read_words(d: Dialect) -> Executable:
    """The words that a state is found by, and those of the next checkpoint of its log."""
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


@statement()
def replace_words(d: Dialect) -> Executable:
    """Let a state be found by other words."""
    here = DELTAS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type)
    return update(DELTAS).where(of_log(DELTAS), here).values(binds(DELTAS, ["search_text"]))


def hand_over_words(d: Dialect, log: Log, seq: int) -> Program[None]:
    """Let the checkpoint after the state at *seq* be found by that one's words, too."""
    rows = yield read_words(d), log.binds() | {"p_seq": seq}
    if len(rows) < 2 or not rows[0].search_text:
        return
    both = " ".join(row.search_text for row in rows if row.search_text)
    if len(both) > MAX_TEXT:  # the newest are what is searched for most
        both = both[-MAX_TEXT:].partition(" ")[2]
    yield replace_words(d), log.binds() | {"p_seq": rows[1].seq, "p_search_text": both}


def _check_not_rested_on(d: Dialect, log: Log, checkpoint_id: str) -> Program[None]:
    resting = yield find_resting(d), log.binds() | {"p_checkpoint_id": checkpoint_id, "p_limit": 1}
    if resting:
        raise Conflict(
            f"checkpoint {resting[0].checkpoint_id!r} of thread {log.thread_id!r} rests on "
            f"{checkpoint_id!r} and cannot be rebuilt without it; nothing was deleted. Delete that "
            "one first, or the whole thread.",
            current=resting[0].checkpoint_id,
        )


def delete_checkpoint(
    d: Dialect, log: Log, checkpoint_id: str, now: datetime, *, superseded: bool = False
) -> Program[bool]:
    """Delete one checkpoint, and the states that only it needed; whether it was there.

    If it is *superseded*, the next one is found by its words from now on.

    Raises:
        Conflict: another rests on it; nothing was changed.
    """
    rows = yield lock_log(d), log.binds()
    if not rows or not Head._make(rows[0]).is_live(now):
        return False
    named = yield remove_name(d), log.binds() | {"p_checkpoint_id": checkpoint_id}
    if not named:
        yield from _check_not_rested_on(d, log, checkpoint_id)
        return False
    yield (
        remove_writes(d),
        log.binds() | {"p_checkpoint_id": checkpoint_id} | key_range(checkpoint_id),
    )
    seq: int | None = named[0].seq
    if superseded:
        yield from hand_over_words(d, log, named[0].seq)
    moved = False
    while seq is not None:
        gone = yield remove_unneeded(d), log.binds() | {"p_seq": seq}
        if not gone:
            break
        # A state at an odd depth is nobody's base, in any process, unless of another radix.
        moved = moved or gone[0].depth % 2 == 0 or gone[0].status != 0
        seq = gone[0].base_seq
    yield move_epoch(d), log.binds() | {"p_moved": int(moved)}
    return True
