"""Logs where one statement does it all: data-modifying CTEs, and rows that are sent as arrays.

A save allots the position, inserts the state and the checkpoint behind it, and keeps retention.
Many saves are one statement, too, and so are all entries of an append. Where a payload is to be
bound to its position (*apart*) the general programs do it: the position has to be known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

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

from memalchemy.contracts import Unset
from memalchemy.dialects import Dialect
from memalchemy.log.append import (
    REPLACED_COLUMNS,
    Position,
    append_checkpoint,
    append_entries,
    append_signed_entries,
    append_to_known_head,
    append_write,
    appends_at_once,
    appends_to_known_heads,
    checkpoint_values,
    condition_on,
    insert_new_entries,
    position_of,
    replacement_values,
    row_values,
    shared_values,
)
from memalchemy.log.heads import (
    ALLOTTED_COLUMNS,
    MOVED_WITH,
    Allotted,
    allot_in_known_head,
    known_head_binds,
    move_known_head,
    moved_values,
    new_head_values,
    revived_values,
    update_head,
    upsert_head,
)
from memalchemy.log.memory import WrittenHead
from memalchemy.log.retention import beyond_retention
from memalchemy.log.tables import CHECKPOINTS, DELTAS, NAMES, THREADS, signature_bind
from memalchemy.protection.known_heads import KnownHead
from memalchemy.rows import CHECKPOINT, HEAD, KNOWN_HEAD, MANY_ENTRIES, MANY_STATES, STATE, WRITE
from memalchemy.statements import Program, statement
from memalchemy.variants import ONE_STATEMENT

allot_in_known_head.not_on(ONE_STATEMENT)


def _select_values(values: Mapping[str, ColumnElement[Any]], source: FromClause) -> Select[Any]:
    """Select *values* from *source*, each under its name."""
    return select(*(value.label(name) for name, value in values.items())).select_from(source)


# --- One checkpoint ------------------------------------------------------------------------------


@statement(
    proves="written log",
    only_on=ONE_STATEMENT,
    mode=("existing", "unchanged", "create"),
    condition=("any", "none", "newest", "alive"),
    parent=(True, False),
    retain=(True, False),
    writes=(HEAD, STATE, CHECKPOINT),
)
def save_checkpoint(
    dialect: Dialect, mode: str, condition: str, parent: bool, retain: bool
) -> Executable | None:
    """Save a checkpoint in one statement: allot, insert state and checkpoint, keep retention."""
    if mode == "create" and (condition == "newest" or parent):
        return None
    if condition == "alive" and mode != "create":
        return None  # the other modes require a live log anyway
    if mode == "create":
        head = upsert_head(dialect, "checkpoint", condition).cte("head")
    else:
        head = update_head(
            dialect, "checkpoint", condition, based=mode == "unchanged", parent=parent
        ).cte("head")
    return _insert_behind(dialect, head, retain=retain)


@statement(
    proves="written log",
    only_on=ONE_STATEMENT,
    based=(True, False),
    writes=(KNOWN_HEAD, STATE, CHECKPOINT),
)
def save_to_known_head(dialect: Dialect, based: bool) -> Executable:
    """Save a new checkpoint, signed, in one statement, if the head of its log is the known one."""
    head = move_known_head(dialect, "checkpoint", based=based).cte("head")
    return _insert_behind(dialect, head, signed=True)


def _insert_behind(
    dialect: Dialect, head: CTE, *, retain: bool = False, signed: bool = False
) -> Select[Any]:
    """Insert a state and its checkpoint at the position that *head* has allotted."""
    seq = head.c.next_seq - literal_column("1")
    rows = row_values("state") | {"seq": seq}
    named = checkpoint_values(head.c.previous_id)
    named |= {"seq": seq, "ordinal": head.c.last_ordinal}
    if signed:
        type_ = CHECKPOINTS.c.signature.type
        rows |= signature_bind(DELTAS)
        named["signature"] = bindparam("p_name_signature", type_=type_)
    delta = insert(DELTAS).from_select(list(rows), _select_values(rows, head)).cte("delta")
    name = dialect.statements.upsert(
        CHECKPOINTS,
        named,
        ("log_id", "checkpoint_id"),
        replacement_values(partial(dialect.statements.excluded, CHECKPOINTS)),
        source=_select_values(named, head),
    ).cte("name")
    ctes = [delta, name]
    if retain:
        # Its snapshot is older than the lock: at worst a checkpoint goes at the next save.
        there = select(head.c.next_seq).exists()
        ctes.append(delete(CHECKPOINTS).where(beyond_retention(dialect), there).cte("retained"))
    return select(*(head.c[name] for name in Allotted._fields)).add_cte(*ctes)


@append_checkpoint.on(ONE_STATEMENT)
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
    if apart:
        return (
            yield from append_checkpoint.general(
                dialect,
                values,
                mode=mode,
                condition=condition,
                retain=retain,
                needs_parent=needs_parent,
            )
        )
    parent = needs_parent and values["p_parent_id"] is not None
    query = save_checkpoint(dialect, mode=mode, condition=condition, parent=parent, retain=retain)
    rows = yield query, values
    return position_of(Allotted._make(rows[0]), values["p_checksum"]) if rows else None


@append_to_known_head.on(ONE_STATEMENT)
def _append_to_known_head(
    dialect: Dialect, values: Mapping[str, Any], known: KnownHead
) -> Program[Position | None]:
    placed = known_head_binds(known, values)
    based = values["p_base_seq"] is not None
    found = yield save_to_known_head(dialect, based=based), placed
    return position_of(Allotted._make(found[0]), placed["p_checksum"]) if found else None


# --- Checkpoints of many logs --------------------------------------------------------------------

_ROW_COLUMNS: tuple[str, ...] = (
    *("log_id", "tenant", "checkpoint_id", "parent_id", "back", "base_checksum"),
    *dict.fromkeys((*STATE.columns, *CHECKPOINT.columns[1:])),
)
_HEAD_COLUMNS = ("log_id", *NAMES, *MOVED_WITH)


def _column_types(columns: Iterable[str]) -> dict[str, Any]:
    """Return the types of columns that are sent as arrays."""
    ours = {"back": THREADS.c.next_seq.type, "base_checksum": DELTAS.c.checksum.type, **MOVED_WITH}
    tables = (DELTAS, CHECKPOINTS, THREADS)
    return {
        name: ours[name]
        if name in ours
        else next(table.c[name].type for table in tables if name in table.c)
        for name in columns
    }


@statement(
    proves="written log",
    only_on=ONE_STATEMENT,
    mode=("unchanged", "create"),
    writes=(HEAD, MANY_STATES, CHECKPOINT),
)
def save_checkpoints(dialect: Dialect, mode: str) -> Executable:
    """Save many checkpoints in one statement; return the heads of the logs that were as needed."""
    rows, logs = (
        dialect.statements.rows_from_arrays(MANY_STATES.prefix, _column_types(_ROW_COLUMNS)),
        dialect.statements.rows_from_arrays("l", _column_types(_HEAD_COLUMNS)),
    )
    new = _new_checkpoints(rows)
    head = (_update_heads if mode == "unchanged" else _upsert_heads)(dialect, rows, logs, new).cte(
        "head"
    )
    seq = head.c.next_seq - rows.c.back
    joined = rows.join(head, rows.c.log_id == head.c.log_id)
    key: dict[str, ColumnElement[Any]] = {name: rows.c[name] for name in ("log_id", "tenant")}
    deltas = key | {name: rows.c[name] for name in STATE.columns} | {"seq": seq}
    parent = func.coalesce(rows.c.parent_id, head.c.previous_id)
    named = key | {name: rows.c[name] for name in CHECKPOINT.columns}
    later = _count_new(new, rows, new.c.back < rows.c.back)
    named = named | {"parent_id": parent, "seq": seq, "ordinal": head.c.last_ordinal - later}
    delta = insert(DELTAS).from_select(list(deltas), _select_values(deltas, joined)).cte("delta")
    # An existing id keeps its parent and ordinal: no save that names a parent is sent in a group.
    replaced = {name: dialect.statements.excluded(CHECKPOINTS, name) for name in REPLACED_COLUMNS}
    name = dialect.statements.upsert(
        CHECKPOINTS,
        named,
        ("log_id", "checkpoint_id"),
        replaced,
        source=_select_values(named, joined),
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
        source=_select_values(values, logs),
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


def _entry_types(columns: Sequence[str]) -> dict[str, Any]:
    """Return the types of columns of entries that are sent as arrays."""
    return {name: DELTAS.c[name].type for name in columns}


@statement(
    proves="written log",
    only_on=ONE_STATEMENT,
    condition=("any", "none", "version"),
    writes=(HEAD, MANY_ENTRIES),
)
def allot_and_insert_entries(dialect: Dialect, condition: str) -> Executable:
    """Append entries in one statement: allot their positions and insert them there, in order.

    No row comes back if the log is not as the *condition* says.
    """
    changed = (
        update_head(dialect, "entries", condition)
        if condition == "version"
        else upsert_head(dialect, "entries", condition)
    )
    return _insert_entries_behind(dialect, changed.cte("head"), MANY_ENTRIES.own)


@statement(proves="written log", only_on=ONE_STATEMENT, writes=(KNOWN_HEAD, MANY_ENTRIES))
def append_entries_to_known_head(dialect: Dialect) -> Executable:
    """Append entries, signed, in one statement, if the head of their log is the known one."""
    head = move_known_head(dialect, "entries").cte("head")
    return _insert_entries_behind(dialect, head, (*MANY_ENTRIES.own, "signature"))


def _insert_entries_behind(dialect: Dialect, head: CTE, own: Sequence[str]) -> Select[Any]:
    """Insert entries, sent as arrays of the columns *own*, where *head* has allotted positions."""
    rows = dialect.statements.rows_from_arrays(
        MANY_ENTRIES.prefix, {"back": THREADS.c.next_seq.type} | _entry_types(own)
    )
    values = (
        shared_values()
        | {name: rows.c[name] for name in own}
        | {"seq": head.c.next_seq - rows.c.back}
    )
    source = _select_values(values, rows.join(head, literal_column("true")))
    put = insert(DELTAS).from_select(list(values), source).cte("put")
    return select(*(head.c[name] for name in Allotted._fields)).add_cte(put)


@statement(only_on=ONE_STATEMENT, writes=MANY_ENTRIES)
def insert_entries(dialect: Dialect) -> Executable:
    """Insert entries, sent as arrays, at positions that were allotted."""
    own = (*MANY_ENTRIES.own, "seq", "signature")
    rows = dialect.statements.rows_from_arrays(MANY_ENTRIES.prefix, _entry_types(own))
    values = shared_values() | {name: rows.c[name] for name in own}
    return insert(DELTAS).from_select(list(values), _select_values(values, rows))


def _array_binds(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, Any]:
    """Return the binds of `rows_from_arrays`: the values of each column in an array."""
    return {f"e_{name}": [row[f"p_{name}"] for row in rows] for name in columns}


@appends_at_once.on(ONE_STATEMENT)
def _appends_at_once(dialect: Dialect) -> bool:
    return True


@append_entries.on(ONE_STATEMENT)
def _append_entries(
    dialect: Dialect,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    expected: int | Unset,
) -> Program[Allotted | None]:
    count = len(rows)
    placed = [dict(row) | {"p_back": count - at} for at, row in enumerate(rows)]
    given = dict(values) | {"p_expected": expected, "p_count": count}
    query = allot_and_insert_entries(dialect, condition=condition_on(expected))
    answer = yield query, given | _array_binds(placed, ("back", *MANY_ENTRIES.own))
    return Allotted._make(answer[0]) if answer else None


@appends_to_known_heads.on(ONE_STATEMENT)
def _appends_to_known_heads(dialect: Dialect, *, sealed: bool) -> bool:
    return True


@append_signed_entries.on(ONE_STATEMENT)
def _append_signed_entries(
    dialect: Dialect,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    known: KnownHead,
) -> Program[list[int] | None]:
    count, first = len(rows), known.columns.next_seq
    placed = known_head_binds(known, {**values, "p_count": count}, "entries")
    own = [{**row, "p_seq": first + at, "p_back": count - at} for at, row in enumerate(rows)]
    arrays = _array_binds(own, ("back", "seq", *MANY_ENTRIES.own))
    found = yield append_entries_to_known_head(dialect), placed | arrays
    return list(range(first, first + count)) if found else None


@insert_new_entries.on(ONE_STATEMENT)
def _insert_new_entries(
    dialect: Dialect, values: Mapping[str, Any], rows: list[dict[str, Any]]
) -> Program[None]:
    if rows:
        unsigned = {"e_signature": [None] * len(rows)}
        own = _array_binds(rows, (*MANY_ENTRIES.own, "seq"))
        yield insert_entries(dialect), dict(values) | own | unsigned


# --- Pending writes ------------------------------------------------------------------------------


@statement(proves="written log", only_on=ONE_STATEMENT, writes=(HEAD, WRITE))
def allot_and_insert_write(dialect: Dialect) -> Executable:
    """Insert a row of pending writes in one statement; create the log if it does not exist."""
    head = upsert_head(dialect, "write").cte("head")
    seq = (head.c.next_seq - literal_column("1")).label("seq")
    values = row_values("write") | {"seq": seq}
    put = insert(DELTAS).from_select(list(values), _select_values(values, head)).cte("put")
    return select(seq).add_cte(put)


@append_write.on(ONE_STATEMENT)
def _append_write(dialect: Dialect, values: Mapping[str, Any], apart: bool) -> Program[int | None]:
    if apart:
        return (yield from append_write.general(dialect, values, apart))
    rows = yield allot_and_insert_write(dialect), values
    return int(rows[0].seq) if rows else None
