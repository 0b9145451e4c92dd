"""Append rows to a log, at positions that `memalchemy.log.heads` allots.

A save is three statements in a transaction: they allot the position, insert the state there, and
name it. `memalchemy.log.one_statement` has the databases that do it in one, and `memalchemy.log`
the other variants. Payloads arrive as bytes: encoding is the caller's work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
)

from memalchemy.contracts import UNSET, Unset
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict
from memalchemy.keys import encode_id
from memalchemy.log.entries import (
    delete_entries,
    lock_live_head,
    mark_entries_changed,
    read_version,
)
from memalchemy.log.heads import (
    Allotted,
    allot,
    allot_in_known_head,
    allot_locked,
    allot_positions,
    known_head_binds,
    version_conflict,
)
from memalchemy.log.memory import WrittenHead
from memalchemy.log.retention import beyond_retention
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    Log,
    column_binds,
    constants,
    of_log,
    row_key,
    signature_bind,
)
from memalchemy.protection.known_heads import HEAD_MOVE, HeadMove, KnownHead
from memalchemy.protection.proven_reads import NAMED_ENTRIES
from memalchemy.rows import CHECKPOINT, DELTA_KINDS, MANY_ENTRIES
from memalchemy.statements import Program, statement
from memalchemy.variants import varies

REPLACED_COLUMNS = (*CHECKPOINT.columns[1:], "seq")
"""The columns of a checkpoint that a save under its id changes, whatever it names as parent."""


class Position(NamedTuple):
    """Position of a saved checkpoint, and the log's state right after the save."""

    seq: int
    version: int
    epoch: int
    previous_id: str | None
    checksum: int
    """The checksum of the row as stored: a state that is based on it names it."""


def position_of(head: Allotted, checksum: int) -> Position:
    """Return the position of the row with *checksum* that was allotted last."""
    return Position(head.next_seq - 1, head.version, head.epoch, head.previous_id, checksum)


# --- Rows ----------------------------------------------------------------------------------------


def row_values(of: str) -> dict[str, Any]:
    """Return the values of a row of ``deltas`` to insert, without ``seq``."""
    values = row_key(DELTAS) | column_binds(DELTAS, DELTA_KINDS[of].columns)
    return values if of == "state" else values | fixed_values(of)


def fixed_values(kind: str) -> dict[str, Any]:
    """Return the columns that are the same in all rows of a kind other than states."""
    return {"kind": constants(kind)[0], "depth": literal_column("0")}


def checkpoint_values(previous: ColumnElement[Any]) -> dict[str, Any]:
    """Return the values of a row of ``checkpoints`` to insert, without ``seq`` and ``ordinal``.

    The parent is ``p_parent_id`` if it is given, else *previous*.
    """
    parent = _unless_itself(
        func.coalesce(bindparam("p_parent_id", type_=CHECKPOINTS.c.parent_id.type), previous)
    )
    values = row_key(CHECKPOINTS) | column_binds(CHECKPOINTS, CHECKPOINT.columns)
    return values | {"parent_id": parent}


def _unless_itself(parent: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return *parent*, or NULL if it is ``p_checkpoint_id``: naming itself asks for no parent."""
    own = bindparam("p_checkpoint_id", type_=CHECKPOINTS.c.checkpoint_id.type)
    return func.nullif(parent, own, type_=CHECKPOINTS.c.parent_id.type)


def replacement_values(given: Callable[[str], Any]) -> dict[str, Any]:
    """Return the columns that a save changes in a checkpoint whose id exists already.

    The state and the position are new: *given* returns the value of a column. The parent and the
    ordinal stay, unless a parent is given.
    """
    named = _unless_itself(
        func.coalesce(
            bindparam("p_parent_id", type_=CHECKPOINTS.c.parent_id.type), CHECKPOINTS.c.parent_id
        )
    )
    return {name: given(name) for name in REPLACED_COLUMNS} | {"parent_id": named}


@statement(of=tuple(DELTA_KINDS), writes=lambda of: DELTA_KINDS[of])
def insert_row(dialect: Dialect, of: str) -> Executable:
    """Insert a row of the log at the allotted position."""
    placed = column_binds(DELTAS, ["seq"]) | signature_bind(DELTAS)
    return insert(DELTAS).values(row_values(of) | placed)


@statement(proves="written log", writes=CHECKPOINT)
def upsert_checkpoint(dialect: Dialect) -> Executable:
    """Insert a checkpoint at the allotted position, or move the one of that id there."""
    seq = bindparam("p_seq", type_=CHECKPOINTS.c.seq.type)
    previous = bindparam("p_previous_id", type_=CHECKPOINTS.c.parent_id.type)
    values = checkpoint_values(previous) | column_binds(CHECKPOINTS, ["ordinal"]) | {"seq": seq}
    values |= signature_bind(CHECKPOINTS)
    inserted = partial(dialect.statements.excluded, CHECKPOINTS)
    return dialect.statements.upsert(
        CHECKPOINTS,
        values,
        ("log_id", "checkpoint_id"),
        replacement_values(inserted) | {"signature": inserted("signature")},
    )


# --- One checkpoint ------------------------------------------------------------------------------


@statement()
def delete_beyond_retention(dialect: Dialect) -> Executable:
    """Delete the checkpoints that retention does not keep; their states stay until a sweep."""
    return delete(CHECKPOINTS).where(beyond_retention(dialect))


@varies
def put_checkpoint(dialect: Dialect, head: Allotted, placed: Mapping[str, Any]) -> Program[None]:
    """Name the state that was inserted at the position of *head*."""
    yield upsert_checkpoint(dialect), placed


def insert_checkpoint_behind(
    dialect: Dialect, head: Allotted, values: Mapping[str, Any], *, retain: bool
) -> Program[Position]:
    """Insert a state and its checkpoint at the position that was allotted; keep retention."""
    placed = {
        **values,
        "p_seq": head.next_seq - 1,
        "p_previous_id": head.previous_id,
        "p_ordinal": head.last_ordinal,
    }
    yield insert_row(dialect, of="state"), placed
    position = position_of(head, placed["p_checksum"])
    yield from put_checkpoint(dialect, head, placed)
    if retain:
        yield delete_beyond_retention(dialect), placed
    return position


@varies
def append_checkpoint(
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
    """Save a checkpoint; return ``None``, and change nothing, if the log is not as required.

    Args:
        mode: ``create`` makes the log if it does not exist; ``existing`` requires the log;
            ``unchanged`` also requires its epoch and the base to be those that were read.
        condition: see `memalchemy.log.heads.CONDITIONS`.
        retain: delete the checkpoints that retention does not keep.
        needs_parent: require the parent, if one is named, to exist.
        apart: allot the position in a statement of its own, as the payload is to be bound to it.
        written: the head that this process has written, if the base is one of its checkpoint's.
    """
    parent = needs_parent and values["p_parent_id"] is not None
    if mode == "create":
        head = yield from allot_positions(dialect, "checkpoint", values, condition)
    else:
        based = mode == "unchanged"
        moving = allot(
            dialect, purpose="checkpoint", condition=condition, based=based, parent=parent
        )
        found = yield moving, values
        head = Allotted._make(found[0]) if found else None
    if head is None:
        return None
    return (yield from insert_checkpoint_behind(dialect, head, values, retain=retain))


@varies
def saves_to_known_heads(dialect: Dialect) -> bool:
    """Return whether there is `append_to_known_head`."""
    return True


@varies
def append_to_known_head(
    dialect: Dialect, values: Mapping[str, Any], known: KnownHead
) -> Program[Position | None]:
    """Save a new checkpoint in a signed log whose head is *known*.

    Returns ``None``, and changes nothing, if the head is another one, the checkpoint exists, or the
    base of its state is not the one that was read.
    """
    based = values["p_base_seq"] is not None
    # The same binds for each statement: the signer puts all signatures there before the first.
    placed = known_head_binds(known, values)
    found = yield allot_in_known_head(dialect, purpose="checkpoint", based=based), placed
    if not found:
        return None
    yield insert_row(dialect, of="state"), placed
    yield upsert_checkpoint(dialect), placed
    return position_of(Allotted._make(found[0]), placed["p_checksum"])


# --- Entries -------------------------------------------------------------------------------------


def shared_values() -> dict[str, Any]:
    """Return the columns that all entries of one append have in common."""
    return row_key(DELTAS) | fixed_values("entry") | column_binds(DELTAS, MANY_ENTRIES.shared)


@statement(proves=NAMED_ENTRIES)
def find_entry_keys(dialect: Dialect, proven: bool) -> Executable:
    """Find the positions of the entries whose keys ``p_keys`` lists; see `list_batches`."""
    named = dialect.statements.rows_from_list("p_keys", ("entry_key",))
    return select(DELTAS.c.entry_key, DELTAS.c.seq).where(
        of_log(DELTAS), DELTAS.c.entry_key.in_(select(named.c.entry_key))
    )


def condition_on(expected: int | Unset) -> str:
    """Return the condition on the head that an expected version stands for."""
    return "any" if expected is UNSET else "version" if expected else "none"


@varies
def appends_at_once(dialect: Dialect) -> bool:
    """Return whether entries without keys are appended by `append_entries`.

    Otherwise the lock under which their keys are looked up costs nothing more.
    """
    return False


@varies
def append_entries(
    dialect: Dialect,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    expected: int | Unset,
) -> Program[Allotted | None]:
    """Append entries without a look at their keys.

    Returns ``None``, and changes nothing, if the log has expired or is not at the version
    *expected*.
    """
    given = dict(values) | {"p_expected": expected, "p_count": len(rows)}
    condition = condition_on(expected)
    if condition == "version":
        answer = yield (
            allot(dialect, purpose="entries", condition=condition, based=False, parent=False),
            given,
        )
        head = Allotted._make(answer[0]) if answer else None
    else:
        head = yield from allot_positions(dialect, "entries", given, condition)
    if head is not None:
        first_seq = head.next_seq - len(rows)
        placed = [dict(row) | {"p_seq": first_seq + at} for at, row in enumerate(rows)]
        yield from insert_new_entries(dialect, given, placed)
    return head


@varies
def appends_to_known_heads(dialect: Dialect, *, sealed: bool) -> bool:
    """Return whether there is `append_signed_entries`, for a log that is encrypted or not.

    The head tells the sum of what is stored, which is encrypted after it where the entries are
    statements of their own.
    """
    return not sealed


@varies
def append_signed_entries(
    dialect: Dialect,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    known: KnownHead,
) -> Program[list[int] | None]:
    """Append entries without keys to a signed log whose head is *known*; return their positions.

    Returns ``None``, and changes nothing, if the head is another one.
    """
    count, first = len(rows), known.columns.next_seq
    placed = known_head_binds(known, {**values, "p_count": count}, "entries")
    whole = [{**values, **row, "p_seq": first + at} for at, row in enumerate(rows)]
    move: HeadMove = placed[HEAD_MOVE]
    placed[HEAD_MOVE] = move._replace(entries=whole)
    found = yield allot_in_known_head(dialect, purpose="entries", based=False), placed
    if not found:
        return None
    yield insert_row(dialect, of="entry"), whole[0] if count == 1 else whole
    return list(range(first, first + count))


def append_entries_locked(
    dialect: Dialect,
    log: Log,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    expected: int | Unset,
    after: int | None = None,
    new_keys: bool = False,
) -> Program[list[int]]:
    """Append entries under the log's lock; return their positions, in the order of *rows*.

    An entry whose key exists already is not inserted again: its position is the existing one. With
    *after*, the entries beyond that position are deleted first.

    Raises:
        Conflict, ThreadDeleted: the log is not at the version *expected*, or a key exists and all
            were to be *new_keys*; nothing was changed.
    """
    head = yield from lock_live_head(dialect, log, values, expected)
    beyond = log.binds() | {"p_after": after}
    removed = 0
    if head is not None and after is not None:
        removed = (yield delete_entries(dialect, which="beyond"), beyond).touched
    keys = list(dict.fromkeys(row["p_entry_key"] for row in rows if row["p_entry_key"] is not None))
    there: dict[str, int] = {}
    if head is not None:
        there = yield from _find_positions(dialect, log, keys)
    new = _without_known_keys(rows, there)
    _check_new(rows, new, new_keys)
    if not new and not removed:
        return [there[row["p_entry_key"]] for row in rows]
    given = dict(values) | {"p_count": len(new), "p_epoch_step": int(removed > 0)}
    now: Allotted | None
    if head is not None:
        answer = yield allot_locked(dialect), given
        now = Allotted._make(answer[0])
    else:
        now = yield from allot_positions(
            dialect, "entries", given, "any" if expected is UNSET else "none"
        )
        if now is None:
            found = yield read_version(dialect), given
            raise version_conflict(log, expected, found[0].version if found else 0)
        # Another writer may have created it since the look. An empty position does no harm.
        if after is not None and (yield delete_entries(dialect, which="beyond"), beyond).touched:
            yield mark_entries_changed(dialect), values
        there = yield from _find_positions(dialect, log, keys)
        new = _without_known_keys(rows, there)
        _check_new(rows, new, new_keys)
    first_seq = now.next_seq - given["p_count"]
    yield from insert_new_entries(
        dialect, values, [dict(row) | {"p_seq": first_seq + at} for at, row in enumerate(new)]
    )
    here = {id(row): first_seq + at for at, row in enumerate(new)}
    for row in new:
        if row["p_entry_key"] is not None:
            there[row["p_entry_key"]] = here[id(row)]
    return [
        here[id(row)] if row["p_entry_key"] is None else there[row["p_entry_key"]] for row in rows
    ]


def _check_new(
    rows: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], wanted: bool
) -> None:
    if wanted and len(new) < len(rows):
        known = {id(row) for row in new}
        key = next(row["p_entry_key"] for row in rows if id(row) not in known)
        raise Conflict(f"the log has an entry with the key {key!r}", current=key)


def _without_known_keys(
    rows: Sequence[Mapping[str, Any]], there: Mapping[str, int]
) -> list[Mapping[str, Any]]:
    """The rows to insert: those without a key, and the first with each key not in *there*."""
    seen = set(there)
    new = []
    for row in rows:
        key = row["p_entry_key"]
        if key is None or key not in seen:
            new.append(row)
            seen.add(key)
    return new


def _find_positions(dialect: Dialect, log: Log, keys: Sequence[str]) -> Program[dict[str, int]]:
    """Return the positions of the entries that have one of *keys*, by key."""
    found: dict[str, int] = {}
    for listed in dialect.statements.list_batches("p_keys", [(encode_id(key),) for key in keys]):
        answer = yield find_entry_keys(dialect), log.binds() | listed
        found |= {row.entry_key: row.seq for row in answer}
    return found


@varies
def insert_new_entries(
    dialect: Dialect, values: Mapping[str, Any], rows: list[dict[str, Any]]
) -> Program[None]:
    """Insert *rows*, which have positions."""
    if rows:
        whole = [dict(values) | row for row in rows]
        yield insert_row(dialect, of="entry"), whole[0] if len(whole) == 1 else whole


# --- Pending writes ------------------------------------------------------------------------------


@varies
def append_write(dialect: Dialect, values: Mapping[str, Any], apart: bool) -> Program[int | None]:
    """Insert a row of pending writes; *apart* from the statement that allots its position.

    Returns the position, or ``None`` if the log has expired, or was deleted since ``p_made_at``.
    """
    head = yield from allot_positions(dialect, "write", values)
    if head is None:
        return None
    yield insert_row(dialect, of="write"), dict(values) | {"p_seq": head.next_seq - 1}
    return head.next_seq - 1
