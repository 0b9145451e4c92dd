"""Copy a log, whole or up to a position: rows move inside the database, positions stay.

Encrypted payloads are bound to their log, so they are sealed anew for the copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    Insert,
    Select,
    Table,
    and_,
    bindparam,
    func,
    insert,
    literal,
    literal_column,
    null,
    or_,
    select,
    update,
)

from memalchemy.codec.encryption import Keyring
from memalchemy.codec.places import row_place
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict, Corrupt, KeyMissing, NotEncrypted, UniqueViolation, about
from memalchemy.log.delete import forget_log
from memalchemy.log.heads import Head, lock_log
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    STATES,
    THREADS,
    Log,
    column_binds,
    constants,
    new_epoch,
    of_log,
    truncate_to_second,
)
from memalchemy.proofs import REFUSED
from memalchemy.protection.signed_reads import check_nothing_missing
from memalchemy.rows import AS_STORED, DELTA, HEAD
from memalchemy.statements import Program, statement
from memalchemy.variants import varies

_TABLES: dict[str, Table] = {"checkpoints": CHECKPOINTS, "deltas": DELTAS}


@statement(table=("checkpoints", "deltas", "others", "writes"), writes=AS_STORED)
def copy_rows(dialect: Dialect, table: str) -> Executable:
    """Copy a log's rows up to ``p_until`` under another key.

    *table* is ``checkpoints`` or ``deltas``, or of the deltas ``writes``, the pending writes of the
    copied checkpoints, or ``others``, all other rows.
    """
    source = _TABLES.get(table, DELTAS)
    if table == "writes":
        return _insert_copies(source, *_select_copies(source, {}, [_is_kept_write()]))
    where = [source.c.seq <= bindparam("p_until", type_=source.c.seq.type)]
    if table == "others":
        where.append(DELTAS.c.kind.not_in(constants("write")))
    return _insert_copies(source, *_select_copies(source, {}, where))


def _is_kept_write() -> ColumnElement[bool]:
    """Return the condition that a row has pending writes of a checkpoint up to ``p_until``."""
    until = bindparam("p_until", type_=CHECKPOINTS.c.seq.type)
    kept = select(CHECKPOINTS.c.checkpoint_id).where(
        of_log(CHECKPOINTS), CHECKPOINTS.c.seq <= until
    )
    return and_(DELTAS.c.kind.in_(constants("write")), DELTAS.c.label.in_(kept))


@statement(proves="copied log")
def find_last_write(dialect: Dialect) -> Executable:
    """Select the position of the last pending write of a checkpoint up to ``p_until``."""
    return select(func.max(DELTAS.c.seq).label("seq")).where(of_log(DELTAS), _is_kept_write())


@statement(proves="copied log", writes=HEAD)
def copy_head(dialect: Dialect) -> Executable:
    """Copy a head with its own epoch and times, and with its origin: a thread and a position."""
    return _insert_copies(THREADS, *copied_head())


def copied_head() -> tuple[dict[str, Any], Select[Any]]:
    """Return the columns of a head that is copied, by name, and the query that selects them."""
    now = bindparam("p_now", type_=THREADS.c.created_at.type)
    until = CHECKPOINTS.c.seq <= bindparam("p_until", type_=CHECKPOINTS.c.seq.type)
    highest = select(func.coalesce(func.max(CHECKPOINTS.c.ordinal), literal_column("0")))
    return _select_copies(
        THREADS,
        {
            "next_seq": bindparam("p_next_seq", type_=THREADS.c.next_seq.type),
            "version": literal(1, THREADS.c.version.type),
            "last_ordinal": highest.where(of_log(CHECKPOINTS), until).scalar_subquery(),
            "epoch": bindparam("p_epoch", type_=THREADS.c.epoch.type),
            "head_id": bindparam("p_head_id", type_=THREADS.c.head_id.type),
            "previous_id": null(),
            "forked_from": THREADS.c.thread_id,
            "forked_seq": bindparam("p_until", type_=THREADS.c.forked_seq.type),
            "created_at": now,
            "updated_at": now,
            "active_at": bindparam("p_active_at", type_=THREADS.c.active_at.type),
            "deleted_at": null(),
            "thread_id": bindparam("p_thread_id", type_=THREADS.c.thread_id.type),
            "namespace": bindparam("p_namespace", type_=THREADS.c.namespace.type),
        },
        [],
    )


@statement(proves="copied log", unproven=REFUSED)
def read_position(dialect: Dialect) -> Executable:
    """Select the position of a checkpoint."""
    same = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    return select(CHECKPOINTS.c.seq).where(of_log(CHECKPOINTS), same)


@statement(proves="copied log")
def has_entry(dialect: Dialect) -> Executable:
    """Select one row if there is an entry at a position."""
    here = DELTAS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type)
    return select(DELTAS.c.seq).where(of_log(DELTAS), here, DELTAS.c.kind.in_(constants("entry")))


@statement(proves="copied log")
def find_newest_until(dialect: Dialect) -> Executable:
    """Select the newest checkpoint up to a position."""
    until = CHECKPOINTS.c.seq <= bindparam("p_until", type_=CHECKPOINTS.c.seq.type)
    return (
        select(CHECKPOINTS.c.checkpoint_id)
        .where(of_log(CHECKPOINTS), until)
        .order_by(CHECKPOINTS.c.seq.desc())
        .limit(1)
    )


@statement(proves="copied log")
def find_content(dialect: Dialect) -> Executable:
    """Select one row if a log has anything but states that no checkpoint has."""
    named = select(CHECKPOINTS.c.seq).where(of_log(CHECKPOINTS), CHECKPOINTS.c.seq == DELTAS.c.seq)
    is_state = DELTAS.c.kind.in_(constants(*STATES))
    return select(DELTAS.c.seq).where(of_log(DELTAS), or_(~is_state, named.exists())).limit(1)


def _select_copies(
    table: Table, changed: dict[str, Any], where: list[Any]
) -> tuple[dict[str, Any], Select[Any]]:
    """Return the columns of copies of the rows of *table* that *where* picks, and their query.

    The columns *changed* are others than the rows have.
    """
    columns = {c.name: changed.get(c.name, c) for c in table.columns}
    columns["log_id"] = bindparam("p_log_id", type_=table.c.log_id.type)
    if table is THREADS:
        columns["signature"] = null()  # rows keep theirs, to which they are held once more
    selected = select(*(value.label(name) for name, value in columns.items())).where(
        and_(of_log(table), *where)
    )
    return columns, selected


def _insert_copies(table: Table, columns: dict[str, Any], rows: Select[Any]) -> Insert:
    return insert(table).from_select(list(columns), rows)


@varies
def insert_copied_head(dialect: Dialect, values: Mapping[str, Any]) -> Program[bool]:
    """Copy a head; return ``False`` if there is one in its place.

    Raises:
        UniqueViolation: the same, where the database says so.
    """
    yield copy_head(dialect), values
    return True


def copy_log(
    dialect: Dialect,
    source: Log,
    target: Log,
    now: datetime,
    *,
    checkpoint_id: str | None = None,
    position: int | None = None,
    keyring: Keyring,
) -> Program[bool]:
    """Copy *source* to *target*; up to a checkpoint, or to the entry at a *position*, if given.

    Returns ``False`` if there is nothing to copy, or no such checkpoint or entry.

    Raises:
        Conflict: *target* is not empty; nothing was changed.
    """
    # Locked in the order of their keys, so that two opposite copies do not deadlock.
    heads: dict[Log, Head | None] = {}
    for log in sorted((source, target)):
        rows = yield lock_log(dialect), log.binds()
        heads[log] = Head._make(rows[0]) if rows else None
    old, new = heads[source], heads[target]
    if old is None or not old.is_live(now) or not (yield find_content(dialect), source.binds()):
        yield from check_nothing_missing(dialect, source, keyring.signing)
        return False
    until = old.next_seq
    if checkpoint_id is not None:
        named = yield read_position(dialect), source.binds() | {"p_checkpoint_id": checkpoint_id}
        if not named:
            return False
        until = named[0].seq
    head_id = old.head_id if checkpoint_id is None else checkpoint_id
    if position is not None:
        if not (yield has_entry(dialect), source.binds() | {"p_seq": position}):
            return False
        until = position
        newest = yield find_newest_until(dialect), source.binds() | {"p_until": position}
        head_id = newest[0].checkpoint_id if newest else None
    if new is not None and new.is_live(now) and (yield find_content(dialect), target.binds()):
        raise _target_in_use(target)
    if new is not None:
        yield from forget_log(dialect, target)
    whole = checkpoint_id is None and position is None
    last = until
    if not whole:  # pending writes of a checkpoint come behind it
        written = yield find_last_write(dialect), source.binds() | {"p_until": until}
        last = max(until, written[0].seq or 0)
    values = source.binds() | {
        "p_log_id": target.key,
        "p_thread_id": target.thread_id,
        "p_namespace": target.namespace,
        "p_until": until,
        "p_next_seq": old.next_seq if whole else last + 1,
        "p_head_id": head_id,
        "p_epoch": new_epoch(),
        "p_now": now,
        "p_active_at": truncate_to_second(now),
    }
    try:
        if not (yield from insert_copied_head(dialect, values)):
            raise _target_in_use(target)
        yield copy_rows(dialect, table="checkpoints"), values
        for table in ("deltas",) if whole else ("others", "writes"):
            yield copy_rows(dialect, table=table), values
    except UniqueViolation as error:
        raise _target_in_use(target) from error
    if keyring.encrypts:
        yield from _seal_anew(dialect, source, target, keyring)
    return True


SEALED_TOGETHER = 20
"""The number of rows that are held at once while they are sealed anew."""


@statement(proves="copied log")
def read_sealed(dialect: Dialect) -> Executable:
    """Select the next rows of a log behind ``p_after``, with their payloads."""
    names = ("seq", "kind", "label", "codec", "checksum", "payload")
    behind = DELTAS.c.seq > bindparam("p_after", type_=DELTAS.c.seq.type)
    return (
        select(*(DELTAS.c[name] for name in names))
        .where(of_log(DELTAS), behind)
        .order_by(DELTAS.c.seq)
        .limit(bindparam("p_limit"))
    )


@statement(changes=DELTA)
def replace_payload(dialect: Dialect) -> Executable:
    """Replace the payload of a row by another form of the same."""
    here = DELTAS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type)
    names = ("codec", "checksum", "payload")
    return update(DELTAS).where(of_log(DELTAS), here).values(column_binds(DELTAS, names))


def _seal_anew(dialect: Dialect, source: Log, target: Log, keyring: Keyring) -> Program[None]:
    """Open the payloads of *target*, which are sealed for *source*, and write them once more.

    Raises:
        Corrupt, KeyMissing, NotEncrypted: one of them is not what was stored in *source*.
    """
    after = -1
    while True:
        binds = target.binds() | {"p_after": after, "p_limit": SEALED_TOGETHER}
        rows = yield read_sealed(dialect), binds
        for row in rows:
            place = row_place(source.tenant, source.key, row.seq, row.kind, row.label)
            try:
                opened = keyring.decrypt(row.codec, row.checksum, bytes(row.payload), place)
            except (Corrupt, KeyMissing, NotEncrypted) as error:
                raise about(error, f"position {row.seq} of thread {source.thread_id!r}") from error
            own = {"p_seq": row.seq, "p_kind": row.kind, "p_label": row.label}
            binds = target.binds() | own
            binds |= {f"p_{name}": value for name, value in opened._asdict().items()}
            yield replace_payload(dialect), binds
        if len(rows) < SEALED_TOGETHER:
            return
        after = rows[-1].seq


def _target_in_use(target: Log) -> Conflict:
    """Return the error for a target that is not empty."""
    return Conflict(
        f"thread {target.thread_id!r} is not empty; copy to a new thread, or delete this one first",
        current=target.thread_id,
    )
