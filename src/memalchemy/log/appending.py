"""Appending to a log: a position is allotted under the head's lock, filled and named.

One statement of data-modifying CTEs where the database has them, three in a transaction where it
has an upsert, and update, insert, retry where it has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from memalchemy.dialects import Dialect
from memalchemy.errors import UniqueViolation
from memalchemy.log.resting import HELD, held
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    LOG_KEY,
    THREADS,
    binds,
    live,
    of_log,
    same_log,
    unexpired,
)
from memalchemy.statements import Program, statement


class Position(NamedTuple):
    """What an append returns: the position it was allotted, and the log as of then."""

    seq: int
    version: int
    epoch: int
    previous_id: str | None


EXPECTED = ("any", "head", "none")
BEGINS = ("any", "none", "alive")
"""``alive``: a log that was deleted does not begin again."""


def _as_expected(expected: str) -> list[ColumnElement[bool]]:
    if expected == "head":
        return [THREADS.c.head_id == bindparam("p_expected")]
    if expected == "alive":
        return [THREADS.c.deleted_at.is_(None)]
    return [THREADS.c.head_id.is_(None)] if expected == "none" else []


_RETURNED = (
    (THREADS.c.next_seq - literal_column("1")).label("seq"),
    THREADS.c.version,
    THREADS.c.epoch,
    THREADS.c.previous_id,
    THREADS.c.last_ordinal.label("ordinal"),
)


def _counted() -> ColumnElement[int]:
    """1 for a new checkpoint, 0 for one that is replaced.

    On PostgreSQL the look at its id is as old as the statement, not as the lock: of two saves that
    race with the same new id both are counted, and no checkpoint has the lower number.
    """
    known = CHECKPOINTS.alias("known")
    bound = {f"k_{name}": known.c[name] for name in LOG_KEY}
    bound["p_checkpoint_id"] = known.c.checkpoint_id
    same = (column == bindparam(name, type_=column.type) for name, column in bound.items())
    there = select(literal_column("1")).where(*same).exists()
    return case((there, literal_column("0")), else_=literal_column("1"))


def _advance(based: bool, expected: str, parent: bool) -> ReturningUpdate[Any]:
    conditions = [of_log(THREADS), live(), *_as_expected(expected)]
    if based:
        conditions.append(THREADS.c.epoch == bindparam("p_epoch"))
        # The epoch stays the same where a standby that lagged has taken over, or an older copy was
        # restored: the base may be among what was lost.
        base = and_(
            same_log(DELTAS, THREADS),
            DELTAS.c.seq == bindparam("p_base_seq", type_=DELTAS.c.base_seq.type),
            DELTAS.c.checksum == bindparam("p_base_checksum", type_=DELTAS.c.checksum.type),
        )
        conditions.append(select(literal_column("1")).where(base).exists())
    if parent:
        named = CHECKPOINTS.c.checkpoint_id == bindparam("p_parent_id")
        conditions.append(
            select(literal_column("1")).where(same_log(CHECKPOINTS, THREADS), named).exists()
        )
    return (
        update(THREADS)
        .where(*conditions)
        .values(moved(1, _one(), _counted()))
        .returning(*_RETURNED)
    )


def _birth_values() -> dict[str, Any]:
    now = bindparam("p_now", type_=THREADS.c.created_at.type)
    return {
        **{name: bindparam(f"k_{name}", type_=THREADS.c[name].type) for name in LOG_KEY},
        "next_seq": literal(2, THREADS.c.next_seq.type),
        "version": literal(1, THREADS.c.version.type),
        "last_ordinal": literal(1, THREADS.c.last_ordinal.type),
        # A checkpoint's metadata is its own: the thread's would outlive it.
        "meta": literal({}, THREADS.c.meta.type),
        "head_id": bindparam("p_checkpoint_id", type_=THREADS.c.head_id.type),
        "created_at": now,
        "updated_at": now,
        **binds(THREADS, ["epoch", "expires_at"]),
    }


def _one() -> dict[str, Any]:
    """What `moved` and `reborn` take, for one save: the binds of its row."""
    now = bindparam("p_now", type_=THREADS.c.updated_at.type)
    head = bindparam("p_checkpoint_id", type_=THREADS.c.head_id.type)
    expires = bindparam("p_expires_at", type_=THREADS.c.expires_at.type)
    return {"head_id": head, "created_at": now, "updated_at": now, "expires_at": expires}


def moved(saves: Any, new: Mapping[str, Any], counted: Any) -> dict[str, Any]:
    """What so many saves make of a head; *new* has its ``head_id, updated_at, expires_at``.

    *counted* is how many of them are of a new checkpoint.
    """
    return {
        "next_seq": THREADS.c.next_seq + saves,
        "version": THREADS.c.version + saves,
        "last_ordinal": THREADS.c.last_ordinal + counted,
        "previous_id": THREADS.c.head_id,
        "head_id": new["head_id"],
        "updated_at": new["updated_at"],
        "expires_at": new["expires_at"],
    }


def reborn(saves: Any, new: Mapping[str, Any], counted: Any) -> dict[str, Any]:
    """`moved`, of a head that may be a tombstone: that starts a new life, at ``created_at``."""
    deleted = THREADS.c.deleted_at.is_not(None)
    return moved(saves, new, counted) | {
        "epoch": case((deleted, THREADS.c.epoch + 1), else_=THREADS.c.epoch),
        "created_at": case((deleted, new["created_at"]), else_=THREADS.c.created_at),
        "deleted_at": null(),
    }


def _begin(d: Dialect, expected: str) -> Any:
    where = and_(unexpired(), *_as_expected(expected))
    # In the values, not in the SET: SQLAlchemy leaves the schema out of a subquery there.
    born = _birth_values() | {"last_ordinal": _counted()}
    again = reborn(1, _one(), d.excluded(THREADS, "last_ordinal"))
    return d.upsert(THREADS, born, LOG_KEY, again, where=where).returning(*_RETURNED)


@statement(based=(True, False), expected=EXPECTED, parent=(True, False))
def advance(d: Dialect, based: bool, expected: str, parent: bool) -> Executable:
    """Allot the next position of a log that is there; no row if it is not as expected."""
    return _advance(based, expected, parent)


@statement(expected=BEGINS)
def begin(d: Dialect, expected: str) -> Executable | None:
    """Allot the next position, making the log if it is not there."""
    return _begin(d, expected) if d.upserts else None


@statement(expected=BEGINS)
def begin_again(d: Dialect, expected: str) -> Executable | None:
    """`begin` without an upsert, first half: the log is there."""
    if d.upserts:
        return None
    where = [of_log(THREADS), unexpired(), *_as_expected(expected)]
    again = reborn(1, _one(), _counted())
    return update(THREADS).where(*where).values(again).returning(*_RETURNED)


@statement()
def begin_new(d: Dialect) -> Executable | None:
    """`begin` without an upsert, second half: it is not."""
    return None if d.upserts else insert(THREADS).values(_birth_values()).returning(*_RETURNED)


BEGIN = (begin, begin_again, begin_new)


DELTA_COLUMNS = (
    "kind",
    "entry_key",
    "parent_seq",
    "base_seq",
    "depth",
    "since_bytes",
    "raw_size",
    "codec",
    "checksum",
    "label",
    "sort_key",
    "status",
    "search_text",
    "occurred_at",
    "stored_at",
    "payload",
)
CHECKPOINT_COLUMNS = (
    "run_id",
    "meta",
    "raw_size",
    "stored_size",
    "occurred_at",
    "created_at",
    "rests_on",
)


def _delta_values() -> dict[str, Any]:
    key = {name: bindparam(f"k_{name}", type_=DELTAS.c[name].type) for name in LOG_KEY}
    return key | binds(DELTAS, DELTA_COLUMNS)


def _checkpoint_values(previous: ColumnElement[Any]) -> dict[str, Any]:
    key = {name: bindparam(f"k_{name}", type_=CHECKPOINTS.c[name].type) for name in LOG_KEY}
    parent = _unless_itself(
        func.coalesce(bindparam("p_parent_id", type_=CHECKPOINTS.c.parent_id.type), previous)
    )
    return key | binds(CHECKPOINTS, ("checkpoint_id", *CHECKPOINT_COLUMNS)) | {"parent_id": parent}


def _unless_itself(parent: ColumnElement[Any]) -> ColumnElement[Any]:
    """No parent: so a checkpoint that is named as its own has none."""
    own = bindparam("p_checkpoint_id", type_=CHECKPOINTS.c.checkpoint_id.type)
    return func.nullif(parent, own, type_=CHECKPOINTS.c.parent_id.type)


def _replacement(seq: Any) -> dict[str, Any]:
    """An id that is there: the new state, the newest position; its lineage and number stay."""
    named = _unless_itself(
        func.coalesce(
            bindparam("p_parent_id", type_=CHECKPOINTS.c.parent_id.type), CHECKPOINTS.c.parent_id
        )
    )
    return binds(CHECKPOINTS, CHECKPOINT_COLUMNS) | {"parent_id": named, "seq": seq}


@statement()
def put_delta(d: Dialect) -> Executable:
    """Insert a row of the log at the allotted position."""
    return insert(DELTAS).values(_delta_values() | binds(DELTAS, ["seq"]))


@statement()
def put_checkpoint(d: Dialect) -> Executable | None:
    """Name the allotted position; an id that is there moves to it."""
    if not d.upserts:
        return None
    seq = bindparam("p_seq", type_=CHECKPOINTS.c.seq.type)
    previous = bindparam("p_previous_id", type_=CHECKPOINTS.c.parent_id.type)
    values = _checkpoint_values(previous) | binds(CHECKPOINTS, ["ordinal"]) | {"seq": seq}
    return d.upsert(CHECKPOINTS, values, (*LOG_KEY, "checkpoint_id"), _replacement(seq))


@statement()
def move_checkpoint(d: Dialect) -> Executable | None:
    """`put_checkpoint` without an upsert, first half."""
    if d.upserts:
        return None
    same = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    seq = bindparam("p_seq", type_=CHECKPOINTS.c.seq.type)
    return update(CHECKPOINTS).where(of_log(CHECKPOINTS), same).values(_replacement(seq))


@statement()
def new_checkpoint(d: Dialect) -> Executable | None:
    """`put_checkpoint` without an upsert, second half."""
    if d.upserts:
        return None
    previous = bindparam("p_previous_id", type_=CHECKPOINTS.c.parent_id.type)
    placed = binds(CHECKPOINTS, ["seq", "ordinal"])
    return insert(CHECKPOINTS).values(_checkpoint_values(previous) | placed)


def beyond_retention(d: Dialect) -> ColumnElement[bool]:
    """Checkpoints that every rule lets go, and that none rests on that stays. Binds
    ``p_checkpoint_id`` (one that stays), ``p_rests_on`` (what that one rests on), ``p_keep`` (how
    many of the others stay), ``p_every``, ``p_cutoff``.
    """
    kept, below = CHECKPOINTS.alias("kept"), CHECKPOINTS.alias("below")
    rested = [*(kept.c[name] for name in LOG_KEY), kept.c.rests_on.label("checkpoint_id")]
    by_others = select(*rested).where(
        *(kept.c[name] == bindparam(f"k_{name}") for name in LOG_KEY),
        kept.c.rests_on.is_not(None),
        ~_beyond(kept),
    )
    # A single statement does not see the name that it puts.
    by_this = select(*(below.c[name] for name in HELD)).where(
        *(below.c[name] == bindparam(f"k_{name}") for name in LOG_KEY),
        below.c.checkpoint_id == bindparam("p_rests_on", type_=below.c.checkpoint_id.type),
    )
    rested_on = by_others.union_all(by_this).subquery("rested_on")
    stay = held(d, select(rested_on))
    names = select(stay.c.checkpoint_id).add_cte(stay, nest_here=True)
    let_go = and_(of_log(CHECKPOINTS), _beyond(CHECKPOINTS))
    return and_(let_go, CHECKPOINTS.c.checkpoint_id.not_in(names))


def _beyond(table: Any) -> ColumnElement[bool]:
    newest = CHECKPOINTS.alias("newest")
    limit = (
        select(newest.c.seq)
        .where(
            *(newest.c[name] == bindparam(f"k_{name}") for name in LOG_KEY),
            newest.c.checkpoint_id != bindparam("p_checkpoint_id"),
        )
        .order_by(newest.c.seq.desc())
        .limit(1)
        .offset(bindparam("p_keep"))
        .scalar_subquery()
    )
    return and_(
        table.c.checkpoint_id != bindparam("p_checkpoint_id"),
        table.c.seq <= limit,
        table.c.ordinal % bindparam("p_every", type_=CHECKPOINTS.c.ordinal.type) != 0,
        table.c.occurred_at < bindparam("p_cutoff"),
    )


@statement()
def forget_names(d: Dialect) -> Executable:
    """Remove the names that retention lets go; their rows stay until a sweep."""
    return delete(CHECKPOINTS).where(beyond_retention(d))


@statement(
    first=("advance", "based", "begin"),
    expected=(*EXPECTED, "alive"),
    parent=(True, False),
    retain=(True, False),
)
def save(d: Dialect, first: str, expected: str, parent: bool, retain: bool) -> Executable | None:
    """A whole save in one statement: allot, insert the row, name it, and keep retention."""
    if not d.single_statement_save or (first == "begin" and (expected == "head" or parent)):
        return None
    if expected == "alive" and first != "begin":
        return None  # it has to be there anyway
    head = (
        _begin(d, expected) if first == "begin" else _advance(first == "based", expected, parent)
    ).cte("head")

    def from_head(values: Mapping[str, Any]) -> Select[Any]:
        return select(*(value.label(name) for name, value in values.items())).select_from(head)

    rows = _delta_values() | {"seq": head.c.seq}
    names = _checkpoint_values(head.c.previous_id)
    names |= {"seq": head.c.seq, "ordinal": head.c.ordinal}
    delta = insert(DELTAS).from_select(list(rows), d.merging(from_head(rows))).cte("delta")
    name = d.upsert(
        CHECKPOINTS,
        names,
        (*LOG_KEY, "checkpoint_id"),
        _replacement(d.excluded(CHECKPOINTS, "seq")),
        source=from_head(names),
    ).cte("name")
    ctes = [delta, name]
    if retain:
        # Its snapshot is older than the lock: at worst a name goes with the next save instead.
        ctes.append(
            delete(CHECKPOINTS)
            .where(beyond_retention(d), select(head.c.seq).exists())
            .cte("retained")
        )
    return select(*(head.c[name] for name in Position._fields)).add_cte(*ctes)


def append(
    d: Dialect,
    values: Mapping[str, Any],
    *,
    first: str,
    expected: str,
    retain: bool,
    needs_parent: bool = True,
) -> Program[Position | None]:
    """Save a checkpoint. *first*: ``begin`` makes the log if need be, ``advance`` wants it there,
    ``based`` also wants its epoch unchanged; a parent that is named must be there if
    *needs_parent*.

    Returns ``None`` if the log is not as wanted; nothing was changed then.
    """
    parent = needs_parent and values["p_parent_id"] is not None
    if d.single_statement_save:
        variant = {"first": first, "expected": expected, "parent": parent, "retain": retain}
        rows = yield save(d, **variant), values
        return Position._make(rows[0]) if rows else None
    if first == "begin":
        rows = yield from begun(d, BEGIN, values, expected)
    else:
        based = first == "based"
        rows = yield advance(d, based=based, expected=expected, parent=parent), values
    if not rows:
        return None
    position, ordinal = Position._make(rows[0][:4]), rows[0].ordinal
    placed = dict(values) | {
        "p_seq": position.seq,
        "p_previous_id": position.previous_id,
        "p_ordinal": ordinal,
    }
    yield put_delta(d), placed
    if d.upserts:
        yield put_checkpoint(d), placed
    else:
        moved = yield move_checkpoint(d), placed
        if not moved.touched:
            yield new_checkpoint(d), placed
    if retain:
        yield forget_names(d), placed
    return position


def begun(
    d: Dialect, families: Sequence[Any], values: Mapping[str, Any], expected: str
) -> Program[Any]:
    """Allot in a log that may not be there, by one of a family's statements with an upsert, or by
    the two that do its work where there is none. No row: it is not as *expected*.
    """
    begins, again, new = families
    if d.upserts:
        return (yield begins(d, expected=expected), values)
    for _ in range(2):
        rows = yield again(d, expected=expected), values
        if rows:
            return rows
        try:
            return (yield new(d), values)
        except UniqueViolation:
            continue  # somebody else began it, or it is not as expected: look again
    return []
