"""Pending writes: rows of a log that belong to a checkpoint, which may be named before or after.

A row is one call's writes, as bytes that others made. Nothing is replaced: in the order of
positions a row's writes stand behind those that are there, or go before them (``status`` 1).
`label` is the checkpoint's id; the key begins with it too, so that an index has a checkpoint's
writes together.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    and_,
    bindparam,
    delete,
    insert,
    literal,
    or_,
    select,
    update,
)

from memalchemy.dialects import Dialect
from memalchemy.dialects.lists import lists
from memalchemy.dialects.reach import within
from memalchemy.errors import ThreadDeleted, UniqueViolation
from memalchemy.keys import encode_id
from memalchemy.log.appending import DELTA_COLUMNS, put_delta
from memalchemy.log.removing import Head, lock_log, read_head, remove_log, sweep_locked
from memalchemy.log.resting import without_held
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    LOG_KEY,
    SHORT,
    THREADS,
    Log,
    binds,
    key_range,
    of_log,
    unexpired,
    words,
)
from memalchemy.statements import Program, statement


def is_write(table: Any = DELTAS) -> ColumnElement[bool]:
    return table.c.kind.in_(words("write"))  # type: ignore[no-any-return]


def is_hashed(checkpoint_id: str) -> bool:
    """Whether the keys of its writes are not made of its id, and a statement cannot make them."""
    return len(encode_id(checkpoint_id)) > SHORT


def new_key(checkpoint_id: str) -> str:
    """A key that no other call has: sent again, a row is refused instead of put twice."""
    return key_range(checkpoint_id)["p_low"] + secrets.token_hex(8)


# --- Putting -------------------------------------------------------------------------------------


def _later() -> dict[str, Any]:
    updated = bindparam("p_updated_at", type_=THREADS.c.updated_at.type)
    return {"next_seq": THREADS.c.next_seq + 1, "updated_at": updated}


def _born() -> dict[str, Any]:
    key = {name: bindparam(f"k_{name}", type_=THREADS.c[name].type) for name in LOG_KEY}
    now = bindparam("p_updated_at", type_=THREADS.c.created_at.type)
    constant = {
        "next_seq": literal(2, THREADS.c.next_seq.type),
        "version": literal(1, THREADS.c.version.type),
        "created_at": now,
        "updated_at": now,
    }
    return key | constant | binds(THREADS, ["epoch", "meta", "expires_at"])


def _may_reach() -> ColumnElement[bool]:
    """A tombstone stays one: what a new life has written waits below it for that life's save."""
    made = bindparam("p_made_at", type_=THREADS.c.deleted_at.type)
    return and_(unexpired(), or_(THREADS.c.deleted_at.is_(None), THREADS.c.deleted_at < made))


_SEQ = (THREADS.c.next_seq - 1).label("seq")


def _reach(d: Dialect) -> Any:
    return d.upsert(THREADS, _born(), LOG_KEY, _later(), where=_may_reach()).returning(_SEQ)


@statement()
def put_write(d: Dialect) -> Executable | None:
    """Put a row of writes in one statement, making the log if it is not there."""
    if not d.single_statement_save:
        return None
    head = _reach(d).cte("head")
    key = {name: bindparam(f"k_{name}", type_=DELTAS.c[name].type) for name in LOG_KEY}
    values = key | binds(DELTAS, DELTA_COLUMNS) | {"seq": head.c.seq}
    source = select(*(value.label(name) for name, value in values.items())).select_from(head)
    put = insert(DELTAS).from_select(list(values), source).cte("put")
    return select(head.c.seq).add_cte(put)


@statement()
def reach(d: Dialect) -> Executable | None:
    """Allot a position for a row of writes, making the log if it is not there."""
    return _reach(d) if d.upserts else None


@statement()
def reach_again(d: Dialect) -> Executable | None:
    """`reach` without an upsert, first half: the head is there."""
    if d.upserts:
        return None
    where = [of_log(THREADS), _may_reach()]
    return update(THREADS).where(*where).values(_later()).returning(_SEQ)


@statement()
def reach_new(d: Dialect) -> Executable | None:
    """`reach` without an upsert, second half: it is not."""
    return None if d.upserts else insert(THREADS).values(_born()).returning(_SEQ)


def _reached(d: Dialect, values: Mapping[str, Any]) -> Program[Any]:
    if d.upserts:
        return (yield reach(d), values)
    for _ in range(2):
        if rows := (yield reach_again(d), values):
            return rows
        try:
            return (yield reach_new(d), values)
        except UniqueViolation:
            continue  # somebody else made it, or it is deleted or expired
    return []


def put(d: Dialect, values: Mapping[str, Any]) -> Program[bool]:
    """Put a row of writes; false if its log has expired, or was deleted since ``p_made_at``."""
    if d.single_statement_save:
        return bool((yield put_write(d), values))
    rows = yield from _reached(d, values)
    if rows:
        yield put_delta(d), dict(values) | {"p_seq": rows[0].seq}
    return bool(rows)


def make_room(d: Dialect, log: Log, values: Mapping[str, Any]) -> Program[None]:
    """What to do after `put` has said no: remove what has expired.

    Raises:
        ThreadDeleted: the log was deleted.
    """
    rows = yield read_head(d), log.binds()
    if not rows:
        return
    head = Head._make(rows[0])
    if head.deleted_at is not None:
        raise ThreadDeleted(log.thread_id)
    yield from remove_log(d, log, lambda found: found.is_expired(values["p_now"]))


# --- Reading -------------------------------------------------------------------------------------

WRITE = ("seq", "status", "codec", "checksum", "payload")


def of_checkpoint(checkpoint_id: Any) -> ColumnElement[bool]:
    """The writes of a checkpoint of a log; binds `key_range`."""
    bound = [bindparam(name, type_=DELTAS.c.entry_key.type) for name in ("p_low", "p_high")]
    return and_(
        of_log(DELTAS),
        is_write(),
        DELTAS.c.entry_key >= bound[0],
        DELTAS.c.entry_key < bound[1],
        DELTAS.c.label == checkpoint_id,
    )


def _checkpoint() -> Any:
    return bindparam("p_checkpoint_id", type_=DELTAS.c.label.type)


@statement()
def read_writes(d: Dialect) -> Executable:
    """The writes of a checkpoint, in the order they were put."""
    columns = [DELTAS.c[name] for name in WRITE]
    return select(*columns).where(of_checkpoint(_checkpoint())).order_by(DELTAS.c.seq)


@statement()
def read_writes_listed(d: Dialect) -> Executable:
    """The writes of some checkpoints, in the order they were put; binds ``p_keys``, of `lists`."""
    named = d.listed("p_keys", ("label", "low", "high"))
    return (
        select(DELTAS.c.label, *(DELTAS.c[name] for name in WRITE))
        .join(
            named,
            and_(
                DELTAS.c.entry_key >= named.c.low,
                DELTAS.c.entry_key < named.c.high,
                DELTAS.c.label == named.c.label,
            ),
        )
        .where(of_log(DELTAS), is_write())
        .order_by(DELTAS.c.seq)
    )


def listed_ranges(d: Dialect, ids: Sequence[str]) -> list[str]:
    """What `read_writes_listed` binds for the checkpoints *ids*."""
    ranges = ((one, *key_range(one).values()) for one in ids)
    return list(lists(d, [tuple(map(encode_id, each)) for each in ranges]))


# --- Removing ------------------------------------------------------------------------------------


@statement()
def remove_writes_listed(d: Dialect) -> Executable:
    """Delete the writes of some checkpoints; binds ``p_keys``, of `lists`."""
    named = d.listed("p_keys", ("label",))
    here = DELTAS.c.label.in_(select(named.c.label))
    return delete(DELTAS).where(of_log(DELTAS), is_write(), here)


@statement()
def remove_names_listed(d: Dialect) -> Executable:
    """Delete the names of some checkpoints; binds ``p_keys``, of `lists`."""
    named = d.listed("p_keys", ("checkpoint_id",))
    here = CHECKPOINTS.c.checkpoint_id.in_(select(named.c.checkpoint_id))
    return delete(CHECKPOINTS).where(of_log(CHECKPOINTS), here)


def delete_checkpoints(d: Dialect, log: Log, ids: Sequence[str], now: Any) -> Program[int]:
    """Delete checkpoints with their writes, and the states that only they needed; how many.

    Those that others rest on stay.
    """
    rows = yield lock_log(d), log.binds()
    if not rows or not Head._make(rows[0]).is_live(now):
        return 0
    ids = yield from without_held(d, log, ids)
    gone = 0
    for listed in lists(d, [(encode_id(one),) for one in ids]):
        values = log.binds() | {"p_keys": listed}
        yield remove_writes_listed(d), values
        gone += (yield remove_names_listed(d), values).touched
    if gone:
        yield from sweep_locked(d, log, now, renamed=True)
    return gone


# --- Finding -------------------------------------------------------------------------------------


@statement()
def list_runs(d: Dialect) -> Executable:
    """The checkpoints that some runs have made below a namespace; binds ``p_keys``, of `lists`."""
    named = d.listed("p_keys", ("run_id",))
    return (
        select(CHECKPOINTS.c.thread_id, CHECKPOINTS.c.namespace, CHECKPOINTS.c.checkpoint_id)
        .where(within(CHECKPOINTS, below=True), CHECKPOINTS.c.run_id.in_(select(named.c.run_id)))
        .order_by(CHECKPOINTS.c.thread_id, CHECKPOINTS.c.namespace)
    )


@statement()
def list_below(d: Dialect) -> Executable:
    """The logs of a thread in a namespace and below it, tombstones included."""
    thread = THREADS.c.thread_id == bindparam("k_thread_id")
    return (
        select(THREADS.c.namespace, THREADS.c.head_id, THREADS.c.deleted_at)
        .where(within(THREADS, below=True), thread)
        .order_by(THREADS.c.namespace)
    )
