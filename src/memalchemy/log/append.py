"""Append rows to a log, at positions that `memalchemy.log.heads` allots.

A save is one statement of data-modifying CTEs where the database has them, and three in a
transaction elsewhere. It is three, too, where a payload is to be bound to its position (*apart*):
that has to be known before the row is sent. Saves of many logs, and entries without keys, are one
statement where rows can be sent as arrays. Payloads arrive as bytes: encoding is the caller's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    FromClause,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from memalchemy.contracts import UNSET, Unset
from memalchemy.database.known_heads import KNOWN_HEAD, SIGNED_FIRST, KnownHead
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
    ALLOTTED_COLUMNS,
    Allotted,
    allot,
    allot_in_known_head,
    allot_locked,
    allot_positions,
    known_head_binds,
    look,
    move_known_head,
    move_written_head,
    moved_values,
    new_head_values,
    revived_values,
    uncount_checkpoint,
    update_head,
    upsert_head,
    version_conflict,
)
from memalchemy.log.retention import beyond_retention
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    NAMES,
    THREADS,
    Log,
    column_binds,
    constants,
    of_log,
    row_key,
    signature_bind,
)
from memalchemy.log.written_heads import WrittenHead
from memalchemy.statements import Program, statement

STATE = ("kind", "base_seq", "depth", "radix", "codec", "checksum", "search_text", "payload")
ENTRY = (
    *("entry_key", "codec", "checksum", "search_text", "occurred_at", "stored_at"),
    "payload",
)
WRITE = ("entry_key", "label", "overwrites", "codec", "checksum", "stored_at", "payload")
"""The columns of a row of each kind; the others are the same in all rows, or empty."""

CHECKPOINT_COLUMNS = (
    "rests_on",
    "run_id",
    "meta",
    "raw_size",
    "stored_size",
    "occurred_at",
    "created_at",
)
_REPLACED_COLUMNS = (*CHECKPOINT_COLUMNS, "seq")
"""The columns of a checkpoint that a save under its id changes, whatever it names as parent."""


class Position(NamedTuple):
    """Position of a saved checkpoint, and the log's state right after the save."""

    seq: int
    version: int
    epoch: int
    previous_id: str | None
    checksum: int
    """The checksum of the row as stored: a state that is based on it names it."""


def _position(head: Allotted, checksum: int) -> Position:
    return Position(head.next_seq - 1, head.version, head.epoch, head.previous_id, checksum)


# --- Rows ----------------------------------------------------------------------------------------


_COLUMNS_BY_KIND = {"state": STATE, "entry": ENTRY, "write": WRITE}


def _row_values(of: str) -> dict[str, Any]:
    """Return the values of a row of ``deltas`` to insert, without ``seq``."""
    values = row_key(DELTAS) | column_binds(DELTAS, _COLUMNS_BY_KIND[of])
    return values if of == "state" else values | _fixed_values(of)


def _fixed_values(kind: str) -> dict[str, Any]:
    """Return the columns that are the same in all rows of a kind other than states."""
    return {"kind": constants(kind)[0], "depth": literal_column("0")}


def _checkpoint_values(previous: ColumnElement[Any]) -> dict[str, Any]:
    """Return the values of a row of ``checkpoints`` to insert, without ``seq`` and ``ordinal``.

    The parent is ``p_parent_id`` if it is given, else *previous*.
    """
    parent = _unless_itself(
        func.coalesce(bindparam("p_parent_id", type_=CHECKPOINTS.c.parent_id.type), previous)
    )
    values = row_key(CHECKPOINTS) | column_binds(
        CHECKPOINTS, ("checkpoint_id", *CHECKPOINT_COLUMNS)
    )
    return values | {"parent_id": parent}


def _unless_itself(parent: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return *parent*, or NULL if it is ``p_checkpoint_id``: naming itself asks for no parent."""
    own = bindparam("p_checkpoint_id", type_=CHECKPOINTS.c.checkpoint_id.type)
    return func.nullif(parent, own, type_=CHECKPOINTS.c.parent_id.type)


def _replacement_values(given: Callable[[str], Any]) -> dict[str, Any]:
    """Return the columns that a save changes in a checkpoint whose id exists already.

    The state and the position are new: *given* returns the value of a column. The parent and the
    ordinal stay, unless a parent is given.
    """
    named = _unless_itself(
        func.coalesce(
            bindparam("p_parent_id", type_=CHECKPOINTS.c.parent_id.type), CHECKPOINTS.c.parent_id
        )
    )
    return {name: given(name) for name in _REPLACED_COLUMNS} | {"parent_id": named}


@statement(of=tuple(_COLUMNS_BY_KIND))
def insert_row(dialect: Dialect, of: str) -> Executable:
    """Insert a row of the log at the allotted position."""
    placed = column_binds(DELTAS, ["seq"]) | signature_bind(DELTAS)
    return insert(DELTAS).values(_row_values(of) | placed)


@statement()
def upsert_checkpoint(dialect: Dialect) -> Executable | None:
    """Insert a checkpoint at the allotted position, or move the one of that id there."""
    if not dialect.upserts:
        return None
    seq = bindparam("p_seq", type_=CHECKPOINTS.c.seq.type)
    previous = bindparam("p_previous_id", type_=CHECKPOINTS.c.parent_id.type)
    values = _checkpoint_values(previous) | column_binds(CHECKPOINTS, ["ordinal"]) | {"seq": seq}
    values |= signature_bind(CHECKPOINTS)
    inserted = partial(dialect.statements.excluded, CHECKPOINTS)
    written = dialect.statements.upsert(
        CHECKPOINTS,
        values,
        ("log_id", "checkpoint_id"),
        _replacement_values(inserted) | {"signature": inserted("signature")},
    )
    # A checkpoint that was there keeps its ordinal, which tells a save that has not looked before.
    return written.returning(CHECKPOINTS.c.ordinal) if dialect.distributed else written


@statement()
def update_checkpoint(dialect: Dialect) -> Executable | None:
    """Move an existing checkpoint: the first half of `upsert_checkpoint` without an upsert."""
    if dialect.upserts:
        return None
    same = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    given = column_binds(CHECKPOINTS, _REPLACED_COLUMNS)
    values = _replacement_values(given.__getitem__) | signature_bind(CHECKPOINTS)
    return update(CHECKPOINTS).where(of_log(CHECKPOINTS), same).values(values)


@statement()
def insert_checkpoint(dialect: Dialect) -> Executable | None:
    """Insert a new checkpoint: the second half of `upsert_checkpoint` without an upsert."""
    if dialect.upserts:
        return None
    previous = bindparam("p_previous_id", type_=CHECKPOINTS.c.parent_id.type)
    placed = column_binds(CHECKPOINTS, ["seq", "ordinal"]) | signature_bind(CHECKPOINTS)
    return insert(CHECKPOINTS).values(_checkpoint_values(previous) | placed)


def _select(values: Mapping[str, ColumnElement[Any]], source: FromClause) -> Select[Any]:
    """Select *values* from *source*, each under its name."""
    return select(*(value.label(name) for name, value in values.items())).select_from(source)


# --- One checkpoint ------------------------------------------------------------------------------


@statement()
def delete_beyond_retention(dialect: Dialect) -> Executable:
    """Delete the checkpoints that retention does not keep; their states stay until a sweep."""
    return delete(CHECKPOINTS).where(beyond_retention(dialect))


@statement(
    mode=("existing", "unchanged", "create"),
    condition=("any", "none", "newest", "alive"),
    parent=(True, False),
    retain=(True, False),
)
def save_checkpoint(
    dialect: Dialect, mode: str, condition: str, parent: bool, retain: bool
) -> Executable | None:
    """Save a checkpoint in one statement: allot, insert state and checkpoint, keep retention."""
    if not dialect.single_statement_save or (
        mode == "create" and (condition == "newest" or parent)
    ):
        return None
    if condition == "alive" and mode != "create":
        return None  # the other modes require a live log anyway
    if mode == "create":
        head = upsert_head(dialect, "checkpoint", condition).cte("head")
    else:
        head = update_head("checkpoint", condition, based=mode == "unchanged", parent=parent).cte(
            "head"
        )
    return _insert_behind(dialect, head, retain=retain)


@statement(based=(True, False))
def save_to_known_head(dialect: Dialect, based: bool) -> Executable | None:
    """Save a new checkpoint, signed, in one statement, if the head of its log is the known one."""
    if not dialect.single_statement_save:
        return None
    return _insert_behind(
        dialect, move_known_head("checkpoint", based=based).cte("head"), signed=True
    )


def _insert_behind(
    dialect: Dialect, head: CTE, *, retain: bool = False, signed: bool = False
) -> Select[Any]:
    """Insert a state and its checkpoint at the position that *head* has allotted."""
    seq = head.c.next_seq - literal_column("1")
    rows = _row_values("state") | {"seq": seq}
    named = _checkpoint_values(head.c.previous_id)
    named |= {"seq": seq, "ordinal": head.c.last_ordinal}
    if signed:
        type_ = CHECKPOINTS.c.signature.type
        rows |= signature_bind(DELTAS)
        named["signature"] = bindparam("p_name_signature", type_=type_)
    delta = (
        insert(DELTAS)
        .from_select(list(rows), dialect.text.limit_pending(_select(rows, head)))
        .cte("delta")
    )
    name = dialect.statements.upsert(
        CHECKPOINTS,
        named,
        ("log_id", "checkpoint_id"),
        _replacement_values(partial(dialect.statements.excluded, CHECKPOINTS)),
        source=_select(named, head),
    ).cte("name")
    ctes = [delta, name]
    if retain:
        # Its snapshot is older than the lock: at worst a checkpoint goes at the next save.
        there = select(head.c.next_seq).exists()
        ctes.append(delete(CHECKPOINTS).where(beyond_retention(dialect), there).cte("retained"))
    return select(*(head.c[name] for name in Allotted._fields)).add_cte(*ctes)


_BEHIND_WRITTEN = ("unchanged", "any"), ("unchanged", "newest")
"""Modes and conditions of `append_checkpoint` that a `WrittenHead` may shorten."""


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
        apart: allot the position in a statement of its own.
        written: the head that this process has written, if the base is one of its checkpoint's.
    """
    parent = needs_parent and values["p_parent_id"] is not None
    if dialect.single_statement_save and not apart:
        variant = {"mode": mode, "condition": condition, "parent": parent, "retain": retain}
        rows = yield save_checkpoint(dialect, **variant), values
        return _position(Allotted._make(rows[0]), values["p_checksum"]) if rows else None
    # The head of a signed log is signed with the number that is counted.
    counts_later = dialect.distributed and not (apart or parent)
    head = None
    if counts_later and written is not None and (mode, condition) in _BEHIND_WRITTEN:
        move = move_written_head(dialect, condition=condition)
        found = yield move, {**values, **written.binds(), "p_new": 1}
        head = Allotted._make(found[0]) if found else None
    if head is None and dialect.distributed:
        based = mode == "unchanged"
        looked = yield from look(
            dialect, values, based=based, parent=parent, counts=not counts_later
        )
        if looked is None:
            return None
        values = looked
    if head is None and mode == "create":
        head = yield from allot_positions(dialect, "checkpoint", values, condition)
    elif head is None:
        found = yield (
            allot(
                dialect,
                purpose="checkpoint",
                condition=condition,
                based=mode == "unchanged",
                parent=parent,
            ),
            values,
        )
        head = Allotted._make(found[0]) if found else None
    if head is None:
        return None
    placed = {
        **values,
        "p_seq": head.next_seq - 1,
        "p_previous_id": head.previous_id,
        "p_ordinal": head.last_ordinal,
    }
    yield insert_row(dialect, of="state"), placed
    position = _position(head, placed["p_checksum"])
    if dialect.upserts:
        stored = yield upsert_checkpoint(dialect), placed
        if counts_later and stored[0].ordinal != head.last_ordinal:
            yield uncount_checkpoint(dialect), placed  # it was there
    else:
        replaced = yield update_checkpoint(dialect), placed
        if not replaced.touched:
            yield insert_checkpoint(dialect), placed
    if retain:
        yield delete_beyond_retention(dialect), placed
    return position


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
    if dialect.single_statement_save:
        found = yield save_to_known_head(dialect, based=based), placed
    else:
        found = yield allot_in_known_head(dialect, purpose="checkpoint", based=based), placed
        if found:
            yield insert_row(dialect, of="state"), placed
            yield upsert_checkpoint(dialect), placed
    return _position(Allotted._make(found[0]), placed["p_checksum"]) if found else None


# --- Checkpoints of many logs --------------------------------------------------------------------

_ROW_COLUMNS: tuple[str, ...] = (
    *("log_id", "tenant", "checkpoint_id", "parent_id", "back", "base_checksum"),
    *dict.fromkeys((*STATE, *CHECKPOINT_COLUMNS)),
)
_HEAD_COLUMNS = (
    "log_id",
    *NAMES,
    "epoch",
    "count",
    "checkpoint_id",
    "now",
    "active_at",
    "expires_at",
)


def _column_types(columns: Iterable[str]) -> dict[str, Any]:
    """Return the types of columns that are sent as arrays."""
    ours = {
        "back": THREADS.c.next_seq,
        "count": THREADS.c.next_seq,
        "base_checksum": DELTAS.c.checksum,
        "now": THREADS.c.updated_at,
    }
    tables = (DELTAS, CHECKPOINTS, THREADS)
    return {
        name: ours[name].type
        if name in ours
        else next(table.c[name].type for table in tables if name in table.c)
        for name in columns
    }


@statement(mode=("unchanged", "create"))
def save_checkpoints(dialect: Dialect, mode: str) -> Executable | None:
    """Save many checkpoints in one statement; return the heads of the logs that were as needed."""
    if not dialect.groups_saves:
        return None
    rows, logs = (
        dialect.statements.rows_from_arrays("r", _column_types(_ROW_COLUMNS)),
        dialect.statements.rows_from_arrays("l", _column_types(_HEAD_COLUMNS)),
    )
    new = _new_checkpoints(rows)
    head = (_update_heads if mode == "unchanged" else _upsert_heads)(dialect, rows, logs, new).cte(
        "head"
    )
    seq = head.c.next_seq - rows.c.back
    joined = rows.join(head, rows.c.log_id == head.c.log_id)
    key: dict[str, ColumnElement[Any]] = {name: rows.c[name] for name in ("log_id", "tenant")}
    deltas = key | {name: rows.c[name] for name in STATE} | {"seq": seq}
    parent = func.coalesce(rows.c.parent_id, head.c.previous_id)
    named = key | {name: rows.c[name] for name in ("checkpoint_id", *CHECKPOINT_COLUMNS)}
    later = _count_new(new, rows, new.c.back < rows.c.back)
    named = named | {"parent_id": parent, "seq": seq, "ordinal": head.c.last_ordinal - later}
    delta = insert(DELTAS).from_select(list(deltas), _select(deltas, joined)).cte("delta")
    # An existing id keeps its parent and ordinal: no save that names a parent is sent in a group.
    replaced = {name: dialect.statements.excluded(CHECKPOINTS, name) for name in _REPLACED_COLUMNS}
    name = dialect.statements.upsert(
        CHECKPOINTS, named, ("log_id", "checkpoint_id"), replaced, source=_select(named, joined)
    ).cte("name")
    return select(head).add_cte(delta, name)


def _new_checkpoints(rows: FromClause) -> CTE:
    """Return the log and the place of each row whose checkpoint does not exist yet."""
    there = and_(
        CHECKPOINTS.c.log_id == rows.c.log_id, CHECKPOINTS.c.checkpoint_id == rows.c.checkpoint_id
    )
    known = select(CHECKPOINTS.c.seq).where(there).correlate(rows).exists()
    return select(rows.c.log_id, rows.c.back).where(~known).cte("new")


def _count_new(new: CTE, of: FromClause, *where: ColumnElement[bool]) -> Any:
    """Count the new checkpoints of the log of a row of *of*."""
    same = new.c.log_id == of.c.log_id
    return select(func.count()).select_from(new).where(same, *where).correlate(of).scalar_subquery()


_RETURNED_COLUMNS = (THREADS.c.log_id, *ALLOTTED_COLUMNS)


def _update_heads(dialect: Dialect, rows: FromClause, logs: FromClause, new: CTE) -> Any:
    # The number of a log's rows whose base is there: one probe for each row, made once.
    """Advance the heads of logs whose epoch and bases are those that were read."""
    there = and_(
        DELTAS.c.log_id == rows.c.log_id,
        DELTAS.c.seq == rows.c.base_seq,
        DELTAS.c.checksum == rows.c.base_checksum,
    )
    probe = select(DELTAS.c.seq).where(there).correlate(rows).scalar_subquery()
    based = select(rows.c.log_id, func.count(probe).label("based")).group_by(rows.c.log_id)
    sound = based.cte("sound")
    return (
        update(THREADS)
        .where(
            THREADS.c.log_id == logs.c.log_id,
            sound.c.log_id == logs.c.log_id,
            sound.c.based == logs.c["count"],
            THREADS.c.deleted_at.is_(None),
            or_(THREADS.c.expires_at.is_(None), THREADS.c.expires_at > logs.c.now),
            THREADS.c.epoch == logs.c.epoch,
        )
        .values(moved_values("checkpoint", dict(logs.c), _count_new(new, logs)))
        .returning(*_RETURNED_COLUMNS)
    )


def _upsert_heads(dialect: Dialect, rows: FromClause, logs: FromClause, new: CTE) -> Any:
    """Advance the heads of logs, and create those that do not exist."""
    values = {name: logs.c[name] for name in ("log_id", *NAMES)}
    values |= new_head_values("checkpoint", dict(logs.c), _count_new(new, logs))
    # The values that the upsert tried to insert.
    excluded = {name: dialect.statements.excluded(THREADS, name) for name in values}
    given = excluded | {
        "count": excluded["version"],
        "checkpoint_id": excluded["head_id"],
        "now": excluded["updated_at"],
    }
    again = revived_values("checkpoint", given, excluded["last_ordinal"])
    alive = or_(THREADS.c.expires_at.is_(None), THREADS.c.expires_at > given["now"])
    same = (THREADS.c[name] == excluded[name] for name in NAMES)
    upsert = dialect.statements.upsert(
        THREADS,
        values,
        ["log_id"],
        again,
        source=_select(values, logs),
        where=and_(alive, *same),
    )
    return upsert.returning(*_RETURNED_COLUMNS)


def append_checkpoints(
    dialect: Dialect, rows: Sequence[Mapping[str, Any]], *, mode: str
) -> Program[list[Position | None]]:
    """Save checkpoints of several logs in one statement, without conditions and retention.

    The statement binds lists: ``l_`` with a value for each log, ``r_`` with one for each row;
    ``back`` is the place of a checkpoint among those of its log, counted from the last. *mode* is
    that of `append_checkpoint`. No two may have the same id in the same log, and none may name a
    parent. Each log is saved whole or not at all, whatever becomes of the others.

    Returns:
        The positions in the order of *rows*; ``None`` for the rows of a log that is not as *mode*
        requires.
    """
    if len(rows) == 1:
        position = yield from append_checkpoint(
            dialect, rows[0], mode=mode, condition="any", retain=False
        )
        return [position]
    by_log: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_log.setdefault(row["k_log_id"], []).append(row)
    given: dict[str, list[Any]] = {f"r_{name}": [] for name in _ROW_COLUMNS}
    given |= {f"l_{name}": [] for name in _HEAD_COLUMNS}
    for rows_of_log in by_log.values():
        last = rows_of_log[-1]
        for name in _HEAD_COLUMNS:
            key = f"k_{name}" if name in ("log_id", *NAMES) else f"p_{name}"
            given[f"l_{name}"].append(len(rows_of_log) if name == "count" else last[key])
        for place, row in enumerate(rows_of_log):
            parent = rows_of_log[place - 1]["p_checkpoint_id"] if place else None
            own = {"parent_id": parent, "back": len(rows_of_log) - place}
            own |= {name: row[f"k_{name}"] for name in ("log_id", "tenant")}
            for name in _ROW_COLUMNS:
                given[f"r_{name}"].append(own[name] if name in own else row[f"p_{name}"])
    answer = yield save_checkpoints(dialect, mode=mode), given
    heads = {head.log_id: head for head in answer}
    positions = {
        id(row): _position_in_group(heads.get(key), rows_of_log, place)
        for key, rows_of_log in by_log.items()
        for place, row in enumerate(rows_of_log)
    }
    return [positions[id(row)] for row in rows]


def _position_in_group(
    head: Any, rows_of_log: Sequence[Mapping[str, Any]], place: int
) -> Position | None:
    """Return the position of the row at *place* among the rows of its log."""
    if head is None:
        return None
    back = len(rows_of_log) - place
    previous = rows_of_log[place - 1]["p_checkpoint_id"] if place else head.previous_id
    checksum = rows_of_log[place]["p_checksum"]
    return Position(head.next_seq - back, head.version - back + 1, head.epoch, previous, checksum)


# --- Entries -------------------------------------------------------------------------------------

_OWN_COLUMNS = tuple(name for name in ENTRY if name != "stored_at")
"""The columns that differ from entry to entry of one append."""


def _entry_types(columns: Sequence[str]) -> dict[str, Any]:
    """Return the types of columns of entries that are sent as arrays."""
    return {name: DELTAS.c[name].type for name in columns}


def _shared_values() -> dict[str, Any]:
    """Return the columns that all entries of one append have in common."""
    return row_key(DELTAS) | _fixed_values("entry") | column_binds(DELTAS, ["stored_at"])


@statement(condition=("any", "none", "version"))
def allot_and_insert_entries(dialect: Dialect, condition: str) -> Executable | None:
    """Append entries in one statement: allot their positions and insert them there, in order.

    No row comes back if the log is not as the *condition* says.
    """
    if not (dialect.single_statement_save and dialect.groups_saves):
        return None
    changed = (
        update_head("entries", condition)
        if condition == "version"
        else upsert_head(dialect, "entries", condition)
    )
    return _insert_entries_behind(dialect, changed.cte("head"), _OWN_COLUMNS)


@statement()
def append_entries_to_known_head(dialect: Dialect) -> Executable | None:
    """Append entries, signed, in one statement, if the head of their log is the known one."""
    if not (dialect.single_statement_save and dialect.groups_saves):
        return None
    head = move_known_head("entries").cte("head")
    return _insert_entries_behind(dialect, head, (*_OWN_COLUMNS, "signature"))


def _insert_entries_behind(dialect: Dialect, head: CTE, own: Sequence[str]) -> Select[Any]:
    """Insert entries, sent as arrays of the columns *own*, where *head* has allotted positions."""
    rows = dialect.statements.rows_from_arrays(
        "e", {"back": THREADS.c.next_seq.type} | _entry_types(own)
    )
    values = (
        _shared_values()
        | {name: rows.c[name] for name in own}
        | {"seq": head.c.next_seq - rows.c.back}
    )
    source = _select(values, rows.join(head, literal_column("true")))
    put = insert(DELTAS).from_select(list(values), source).cte("put")
    return select(*(head.c[name] for name in Allotted._fields)).add_cte(put)


@statement()
def insert_entries(dialect: Dialect) -> Executable | None:
    """Insert entries, sent as arrays, at positions that were allotted."""
    if not dialect.groups_saves:
        return None
    own = (*_OWN_COLUMNS, "seq", "signature")
    rows = dialect.statements.rows_from_arrays("e", _entry_types(own))
    values = _shared_values() | {name: rows.c[name] for name in own}
    return insert(DELTAS).from_select(list(values), _select(values, rows))


@statement()
def find_entry_keys(dialect: Dialect) -> Executable:
    """Find the positions of the entries whose keys ``p_keys`` lists; see `list_batches`."""
    named = dialect.statements.rows_from_list("p_keys", ("entry_key",))
    return select(DELTAS.c.entry_key, DELTAS.c.seq).where(
        of_log(DELTAS), DELTAS.c.entry_key.in_(select(named.c.entry_key))
    )


def _condition(expected: int | Unset) -> str:
    """Return the condition on the head that an expected version stands for."""
    return "any" if expected is UNSET else "version" if expected else "none"


def append_entries(
    dialect: Dialect,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    expected: int | Unset,
) -> Program[Allotted | None]:
    """Append entries without a look at their keys: in one statement where there is such a one.

    Returns ``None``, and changes nothing, if the log has expired or is not at the version
    *expected*.
    """
    count = len(rows)
    placed = [dict(row) | {"p_back": count - at} for at, row in enumerate(rows)]
    given = dict(values) | {"p_expected": expected, "p_count": count}
    if not (dialect.single_statement_save and dialect.groups_saves):
        return (yield from _append_entries_apart(dialect, given, rows, expected))
    query = allot_and_insert_entries(dialect, condition=_condition(expected))
    answer = yield query, given | _arrays(placed, ("back", *_OWN_COLUMNS))
    return Allotted._make(answer[0]) if answer else None


def _append_entries_apart(
    dialect: Dialect,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    expected: int | Unset,
) -> Program[Allotted | None]:
    """Do as `append_entries` in two statements: allot the positions, then insert the entries."""
    condition = _condition(expected)
    if condition == "version":
        answer = yield (
            allot(dialect, purpose="entries", condition=condition, based=False, parent=False),
            values,
        )
        head = Allotted._make(answer[0]) if answer else None
    else:
        head = yield from allot_positions(dialect, "entries", values, condition)
    if head is not None:
        first_seq = head.next_seq - len(rows)
        placed = [dict(row) | {"p_seq": first_seq + at} for at, row in enumerate(rows)]
        yield from _insert_new_entries(dialect, values, placed)
    return head


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
    own = [{**row, "p_seq": first + at, "p_back": count - at} for at, row in enumerate(rows)]
    if dialect.single_statement_save:
        arrays = _arrays(own, ("back", "seq", *_OWN_COLUMNS))
        found = yield append_entries_to_known_head(dialect), placed | arrays
    else:
        whole = [{**values, **row, KNOWN_HEAD: known} for row in own]
        placed[SIGNED_FIRST] = whole
        move = allot_in_known_head(dialect, purpose="entries", based=False)
        found = yield move, placed
        if found:
            yield insert_row(dialect, of="entry"), whole[0] if count == 1 else whole
    return list(range(first, first + count)) if found else None


def _arrays(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, Any]:
    """Return the binds of `rows_from_arrays`: the values of each column in an array."""
    return {f"e_{name}": [row[f"p_{name}"] for row in rows] for name in columns}


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
    yield from _insert_new_entries(
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


def _insert_new_entries(
    dialect: Dialect, values: Mapping[str, Any], rows: list[dict[str, Any]]
) -> Program[None]:
    """Insert *rows*, which have positions, as arrays or one by one."""
    if not rows:
        return
    if dialect.groups_saves:
        unsigned = {"e_signature": [None] * len(rows)}
        own = _arrays(rows, (*_OWN_COLUMNS, "seq"))
        yield insert_entries(dialect), dict(values) | own | unsigned
        return
    whole = [dict(values) | row for row in rows]
    yield insert_row(dialect, of="entry"), whole[0] if len(whole) == 1 else whole


# --- Pending writes ------------------------------------------------------------------------------


@statement()
def allot_and_insert_write(dialect: Dialect) -> Executable | None:
    """Insert a row of pending writes in one statement; create the log if it does not exist."""
    if not dialect.single_statement_save:
        return None
    head = upsert_head(dialect, "write").cte("head")
    seq = (head.c.next_seq - literal_column("1")).label("seq")
    values = _row_values("write") | {"seq": seq}
    put = insert(DELTAS).from_select(list(values), _select(values, head)).cte("put")
    return select(seq).add_cte(put)


def append_write(dialect: Dialect, values: Mapping[str, Any], apart: bool) -> Program[int | None]:
    """Insert a row of pending writes; *apart* from the statement that allots its position.

    Returns the position, or ``None`` if the log has expired, or was deleted since ``p_made_at``.
    """
    if dialect.single_statement_save and not apart:
        rows = yield allot_and_insert_write(dialect), values
        return int(rows[0].seq) if rows else None
    head = yield from allot_positions(dialect, "write", values)
    if head is None:
        return None
    yield insert_row(dialect, of="write"), dict(values) | {"p_seq": head.next_seq - 1}
    return head.next_seq - 1
