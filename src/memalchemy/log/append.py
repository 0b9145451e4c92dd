"""Appending rows to a log, at positions that `memalchemy.log.heads` allots.

A save is one statement of data-modifying CTEs where the database has them, and three in a
transaction elsewhere. Saves of many logs, and entries without keys, are one statement where rows
can be sent as arrays. Payloads are bytes that others made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from memalchemy.dialects import Dialect
from memalchemy.keys import encode_id
from memalchemy.log.entries import entries_changed, read_version, remove_entries, standing
from memalchemy.log.heads import (
    ALLOTTED,
    Allotted,
    advance,
    allot,
    allot_locked,
    allotted,
    begin,
    born,
    conflict,
    moved,
    revived,
)
from memalchemy.log.retention import beyond_retention
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    NAMES,
    THREADS,
    Log,
    binds,
    of_log,
    row_key,
    words,
)
from memalchemy.statements import Program, statement

STATE = ("kind", "base_seq", "depth", "radix", "codec", "checksum", "search_text", "payload")
ENTRY = (
    *("entry_key", "codec", "checksum", "search_text", "occurred_at", "stored_at"),
    "payload",
)
WRITE = ("entry_key", "label", "overwrites", "codec", "checksum", "stored_at", "payload")
"""The columns of a row by what it is of; the others are the same for all, or empty."""

CHECKPOINT_COLUMNS = (
    "rests_on",
    "run_id",
    "meta",
    "raw_size",
    "stored_size",
    "occurred_at",
    "created_at",
)


class Position(NamedTuple):
    """The position of a saved checkpoint, and the log as of then."""

    seq: int
    version: int
    epoch: int
    previous_id: str | None


def _position(head: Allotted) -> Position:
    return Position(head.next_seq - 1, head.version, head.epoch, head.previous_id)


# --- Rows ----------------------------------------------------------------------------------------


_ROWS = {"state": STATE, "entry": ENTRY, "write": WRITE}


def _row_values(of: str) -> dict[str, Any]:
    values = row_key(DELTAS) | binds(DELTAS, _ROWS[of])
    return values if of == "state" else values | _constant(of)


def _constant(kind: str) -> dict[str, Any]:
    return {"kind": words(kind)[0], "depth": literal_column("0")}


def _checkpoint_values(previous: ColumnElement[Any]) -> dict[str, Any]:
    parent = _unless_itself(
        func.coalesce(bindparam("p_parent_id", type_=CHECKPOINTS.c.parent_id.type), previous)
    )
    values = row_key(CHECKPOINTS) | binds(CHECKPOINTS, ("checkpoint_id", *CHECKPOINT_COLUMNS))
    return values | {"parent_id": parent}


def _unless_itself(parent: ColumnElement[Any]) -> ColumnElement[Any]:
    """No parent for a checkpoint that is named as its own parent: so a caller asks for none."""
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


@statement(of=tuple(_ROWS))
def put_row(dialect: Dialect, of: str) -> Executable:
    """Insert a row of the log at the allotted position."""
    return insert(DELTAS).values(_row_values(of) | binds(DELTAS, ["seq"]))


@statement()
def put_checkpoint(dialect: Dialect) -> Executable | None:
    """Name the allotted position; an id that is there moves to it."""
    if not dialect.upserts:
        return None
    seq = bindparam("p_seq", type_=CHECKPOINTS.c.seq.type)
    previous = bindparam("p_previous_id", type_=CHECKPOINTS.c.parent_id.type)
    values = _checkpoint_values(previous) | binds(CHECKPOINTS, ["ordinal"]) | {"seq": seq}
    return dialect.statements.upsert(
        CHECKPOINTS, values, ("log_id", "checkpoint_id"), _replacement(seq)
    )


@statement()
def move_checkpoint(dialect: Dialect) -> Executable | None:
    """`put_checkpoint` without an upsert, first half."""
    if dialect.upserts:
        return None
    same = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    seq = bindparam("p_seq", type_=CHECKPOINTS.c.seq.type)
    return update(CHECKPOINTS).where(of_log(CHECKPOINTS), same).values(_replacement(seq))


@statement()
def new_checkpoint(dialect: Dialect) -> Executable | None:
    """`put_checkpoint` without an upsert, second half."""
    if dialect.upserts:
        return None
    previous = bindparam("p_previous_id", type_=CHECKPOINTS.c.parent_id.type)
    placed = binds(CHECKPOINTS, ["seq", "ordinal"])
    return insert(CHECKPOINTS).values(_checkpoint_values(previous) | placed)


def _select(values: Mapping[str, ColumnElement[Any]], source: FromClause) -> Select[Any]:
    return select(*(value.label(name) for name, value in values.items())).select_from(source)


# --- One checkpoint ------------------------------------------------------------------------------


@statement()
def forget_names(dialect: Dialect) -> Executable:
    """Remove the names that retention lets go; their rows stay until a sweep."""
    return delete(CHECKPOINTS).where(beyond_retention(dialect))


@statement(
    first=("allot", "based", "begin"),
    condition=("any", "none", "newest", "alive"),
    parent=(True, False),
    retain=(True, False),
)
def save(
    dialect: Dialect, first: str, condition: str, parent: bool, retain: bool
) -> Executable | None:
    """A whole save in one statement: allot, insert the row, name it, and keep retention."""
    if not dialect.single_statement_save or (
        first == "begin" and (condition == "newest" or parent)
    ):
        return None
    if condition == "alive" and first != "begin":
        return None  # it has to be there anyway
    if first == "begin":
        head = begin(dialect, "checkpoint", condition).cte("head")
    else:
        head = advance("checkpoint", condition, based=first == "based", parent=parent).cte("head")
    seq = head.c.next_seq - literal_column("1")
    rows = _row_values("state") | {"seq": seq}
    named = _checkpoint_values(head.c.previous_id)
    named |= {"seq": seq, "ordinal": head.c.last_ordinal}
    delta = (
        insert(DELTAS)
        .from_select(list(rows), dialect.text.limit_pending(_select(rows, head)))
        .cte("delta")
    )
    name = dialect.statements.upsert(
        CHECKPOINTS,
        named,
        ("log_id", "checkpoint_id"),
        _replacement(dialect.statements.excluded(CHECKPOINTS, "seq")),
        source=_select(named, head),
    ).cte("name")
    ctes = [delta, name]
    if retain:
        # Its snapshot is older than the lock: at worst a name goes with the next save instead.
        there = select(head.c.next_seq).exists()
        ctes.append(delete(CHECKPOINTS).where(beyond_retention(dialect), there).cte("retained"))
    return select(*(head.c[name] for name in Allotted._fields)).add_cte(*ctes)


def append_checkpoint(
    dialect: Dialect,
    values: Mapping[str, Any],
    *,
    first: str,
    condition: str,
    retain: bool,
    needs_parent: bool = True,
) -> Program[Position | None]:
    """Save a checkpoint. *first*: ``begin`` makes the log if need be, ``allot`` wants it there,
    ``based`` also wants its epoch unchanged; a parent that is named must be there if
    *needs_parent*.

    Returns ``None`` if the log is not as wanted; nothing was changed then.
    """
    parent = needs_parent and values["p_parent_id"] is not None
    if dialect.single_statement_save:
        variant = {"first": first, "condition": condition, "parent": parent, "retain": retain}
        rows = yield save(dialect, **variant), values
        return _position(Allotted._make(rows[0])) if rows else None
    if first == "begin":
        head = yield from allotted(dialect, "checkpoint", values, condition)
    else:
        found = yield (
            allot(
                dialect,
                purpose="checkpoint",
                condition=condition,
                based=first == "based",
                parent=parent,
            ),
            values,
        )
        head = Allotted._make(found[0]) if found else None
    if head is None:
        return None
    position = _position(head)
    placed = dict(values) | {
        "p_seq": position.seq,
        "p_previous_id": position.previous_id,
        "p_ordinal": head.last_ordinal,
    }
    yield put_row(dialect, of="state"), placed
    if dialect.upserts:
        yield put_checkpoint(dialect), placed
    else:
        moved_ = yield move_checkpoint(dialect), placed
        if not moved_.touched:
            yield new_checkpoint(dialect), placed
    if retain:
        yield forget_names(dialect), placed
    return position


# --- Checkpoints of many logs --------------------------------------------------------------------

_ROW: tuple[str, ...] = (
    *("log_id", "tenant", "checkpoint_id", "parent_id", "back", "base_checksum"),
    *dict.fromkeys((*STATE, *CHECKPOINT_COLUMNS)),
)
_LOG = ("log_id", *NAMES, "epoch", "count", "checkpoint_id", "now", "active_at", "expires_at")


def _types(columns: Iterable[str]) -> dict[str, Any]:
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


@statement(first=("based", "begin"))
def save_many(dialect: Dialect, first: str) -> Executable | None:
    """`save` for many rows; returns the head of each log that was as its rows assume."""
    if not dialect.groups_saves:
        return None
    rows, logs = (
        dialect.statements.rows_from_arrays("r", _types(_ROW)),
        dialect.statements.rows_from_arrays("l", _types(_LOG)),
    )
    new = _new_names(rows)
    head = (_advanced if first == "based" else _begun)(dialect, rows, logs, new).cte("head")
    seq = head.c.next_seq - rows.c.back
    joined = rows.join(head, rows.c.log_id == head.c.log_id)
    key: dict[str, ColumnElement[Any]] = {name: rows.c[name] for name in ("log_id", "tenant")}
    deltas = key | {name: rows.c[name] for name in STATE} | {"seq": seq}
    parent = func.coalesce(rows.c.parent_id, head.c.previous_id)
    named = key | {name: rows.c[name] for name in ("checkpoint_id", *CHECKPOINT_COLUMNS)}
    later = _count(new, rows, new.c.back < rows.c.back)
    named = named | {"parent_id": parent, "seq": seq, "ordinal": head.c.last_ordinal - later}
    delta = insert(DELTAS).from_select(list(deltas), _select(deltas, joined)).cte("delta")
    # An id that is there keeps its lineage and its number: nobody who names a parent is sent in a
    # group.
    replaced = {
        name: dialect.statements.excluded(CHECKPOINTS, name)
        for name in (*CHECKPOINT_COLUMNS, "seq")
    }
    name = dialect.statements.upsert(
        CHECKPOINTS, named, ("log_id", "checkpoint_id"), replaced, source=_select(named, joined)
    ).cte("name")
    return select(head).add_cte(delta, name)


def _new_names(rows: FromClause) -> CTE:
    """The rows whose checkpoint is not there yet, by their logs and their places in them."""
    there = and_(
        CHECKPOINTS.c.log_id == rows.c.log_id, CHECKPOINTS.c.checkpoint_id == rows.c.checkpoint_id
    )
    known = select(CHECKPOINTS.c.seq).where(there).correlate(rows).exists()
    return select(rows.c.log_id, rows.c.back).where(~known).cte("new")


def _count(new: CTE, of: FromClause, *where: ColumnElement[bool]) -> Any:
    """The number of new checkpoints of the log of a row of *of*."""
    same = new.c.log_id == of.c.log_id
    return select(func.count()).select_from(new).where(same, *where).correlate(of).scalar_subquery()


_RETURNED = (THREADS.c.log_id, *ALLOTTED)


def _advanced(dialect: Dialect, rows: FromClause, logs: FromClause, new: CTE) -> Any:
    # How many of a log's rows have the base that they name: one probe for each row, made once.
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
        .values(moved("checkpoint", dict(logs.c), _count(new, logs)))
        .returning(*_RETURNED)
    )


def _begun(dialect: Dialect, rows: FromClause, logs: FromClause, new: CTE) -> Any:
    values = {name: logs.c[name] for name in ("log_id", *NAMES)}
    values |= born("checkpoint", dict(logs.c), _count(new, logs))
    # As an upsert tried to insert them.
    excluded = {name: dialect.statements.excluded(THREADS, name) for name in values}
    given = excluded | {
        "count": excluded["version"],
        "checkpoint_id": excluded["head_id"],
        "now": excluded["updated_at"],
    }
    again = revived("checkpoint", given, excluded["last_ordinal"])
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
    return upsert.returning(*_RETURNED)


def append_checkpoints(
    dialect: Dialect, rows: Sequence[Mapping[str, Any]], *, first: str
) -> Program[list[Position | None]]:
    """Save checkpoints, each as `append_checkpoint` would without conditions of its own.

    No two have the same id in the same log, and none names a parent. The positions are in the order
    of *rows*; ``None`` for those of a log that is not as *first* wants it. Each log is saved whole
    or not at all, whatever becomes of the others.
    """
    if len(rows) == 1:
        position = yield from append_checkpoint(
            dialect, rows[0], first=first, condition="any", retain=False
        )
        return [position]
    by_log: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_log.setdefault(row["k_log_id"], []).append(row)
    given: dict[str, list[Any]] = {f"r_{name}": [] for name in _ROW}
    given |= {f"l_{name}": [] for name in _LOG}
    for of_one in by_log.values():
        last = of_one[-1]
        for name in _LOG:
            key = f"k_{name}" if name in ("log_id", *NAMES) else f"p_{name}"
            given[f"l_{name}"].append(len(of_one) if name == "count" else last[key])
        for place, row in enumerate(of_one):
            parent = of_one[place - 1]["p_checkpoint_id"] if place else None
            own = {"parent_id": parent, "back": len(of_one) - place}
            own |= {name: row[f"k_{name}"] for name in ("log_id", "tenant")}
            for name in _ROW:
                given[f"r_{name}"].append(own[name] if name in own else row[f"p_{name}"])
    answer = yield save_many(dialect, first=first), given
    heads = {head.log_id: head for head in answer}
    positions = {
        id(row): _position_in_group(heads.get(key), of_one, place)
        for key, of_one in by_log.items()
        for place, row in enumerate(of_one)
    }
    return [positions[id(row)] for row in rows]


def _position_in_group(
    head: Any, of_one: Sequence[Mapping[str, Any]], place: int
) -> Position | None:
    if head is None:
        return None
    back = len(of_one) - place
    previous = of_one[place - 1]["p_checkpoint_id"] if place else head.previous_id
    return Position(head.next_seq - back, head.version - back + 1, head.epoch, previous)


# --- Entries -------------------------------------------------------------------------------------

_OWN = tuple(name for name in ENTRY if name != "stored_at")
"""The columns that differ from entry to entry of one append."""


def _entry_types(columns: Sequence[str]) -> dict[str, Any]:
    return {name: DELTAS.c[name].type for name in columns}


def _common() -> dict[str, Any]:
    """The columns that all entries of one append have in common."""
    return row_key(DELTAS) | _constant("entry") | binds(DELTAS, ["stored_at"])


@statement(condition=("any", "none", "version"))
def put_new_entries(dialect: Dialect, condition: str) -> Executable | None:
    """A whole append in one statement: allot the positions, and put the rows there in order.

    No row if the log is not as the *condition* says.
    """
    if not (dialect.single_statement_save and dialect.groups_saves):
        return None
    changed = (
        advance("entries", condition)
        if condition == "version"
        else begin(dialect, "entries", condition)
    )
    head = changed.cte("head")
    rows = dialect.statements.rows_from_arrays(
        "e", {"back": THREADS.c.next_seq.type} | _entry_types(_OWN)
    )
    values = (
        _common() | {name: rows.c[name] for name in _OWN} | {"seq": head.c.next_seq - rows.c.back}
    )
    source = _select(values, rows.join(head, literal_column("true")))
    put = insert(DELTAS).from_select(list(values), source).cte("put")
    return select(*(head.c[name] for name in Allotted._fields)).add_cte(put)


@statement()
def put_entries(dialect: Dialect) -> Executable | None:
    """Insert entries, sent as arrays, at positions that were allotted."""
    if not dialect.groups_saves:
        return None
    rows = dialect.statements.rows_from_arrays("e", _entry_types((*_OWN, "seq")))
    values = _common() | {name: rows.c[name] for name in (*_OWN, "seq")}
    return insert(DELTAS).from_select(list(values), _select(values, rows))


@statement()
def find_keys(dialect: Dialect) -> Executable:
    """The positions of the entries with one of some keys; binds ``p_keys``, of `list_batches`."""
    named = dialect.statements.rows_from_list("p_keys", ("entry_key",))
    return select(DELTAS.c.entry_key, DELTAS.c.seq).where(
        of_log(DELTAS), DELTAS.c.entry_key.in_(select(named.c.entry_key))
    )


def _condition(expected: int | Unset) -> str:
    return "any" if expected is UNSET else "version" if expected else "none"


def append_entries(
    dialect: Dialect,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    expected: int | Unset,
) -> Program[Allotted | None]:
    """Append entries without keys, in one statement: only where `put_new_entries` is one.

    ``None`` if the log is not as *expected*, or expired; nothing was changed then.
    """
    count = len(rows)
    placed = [dict(row) | {"p_back": count - at} for at, row in enumerate(rows)]
    given = dict(values) | {"p_expected": expected, "p_count": count}
    query = put_new_entries(dialect, condition=_condition(expected))
    answer = yield query, given | _arrays(placed, ("back", *_OWN))
    return Allotted._make(answer[0]) if answer else None


def _arrays(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, Any]:
    return {f"e_{name}": [row[f"p_{name}"] for row in rows] for name in columns}


def place_entries(
    dialect: Dialect,
    log: Log,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    expected: int | Unset,
    after: int | None = None,
) -> Program[list[int]]:
    """Append entries under the log's lock; their positions.

    An entry whose key is there is not put again. With *after*, what lies beyond that position goes.

    Raises:
        Conflict, ThreadDeleted: the log is not as *expected*; nothing was changed.
    """
    head = yield from standing(dialect, log, values, expected)
    beyond = log.binds() | {"p_after": after}
    removed = 0
    if head is not None and after is not None:
        removed = (yield remove_entries(dialect, which="beyond"), beyond).touched
    keys = list(dict.fromkeys(row["p_entry_key"] for row in rows if row["p_entry_key"] is not None))
    there: dict[str, int] = {}
    if head is not None:
        there = yield from _find(dialect, log, keys)
    new = _new(rows, there)
    if not new and not removed:
        return [there[row["p_entry_key"]] for row in rows]
    given = dict(values) | {"p_count": len(new), "p_moved": int(removed > 0)}
    now: Allotted | None
    if head is not None:
        answer = yield allot_locked(dialect), given
        now = Allotted._make(answer[0])
    else:
        now = yield from allotted(dialect, "entries", given, "any" if expected is UNSET else "none")
        if now is None:
            found = yield read_version(dialect), given
            raise conflict(log, expected, found[0].version if found else 0)
        # Somebody may have begun it since we looked. A position that stays empty is no harm.
        if after is not None and (yield remove_entries(dialect, which="beyond"), beyond).touched:
            yield entries_changed(dialect), values
        there = yield from _find(dialect, log, keys)
        new = _new(rows, there)
    first = now.next_seq - given["p_count"]
    yield from _put(
        dialect, values, [dict(row) | {"p_seq": first + at} for at, row in enumerate(new)]
    )
    here = {id(row): first + at for at, row in enumerate(new)}
    for row in new:
        if row["p_entry_key"] is not None:
            there[row["p_entry_key"]] = here[id(row)]
    return [
        here[id(row)] if row["p_entry_key"] is None else there[row["p_entry_key"]] for row in rows
    ]


def _new(rows: Sequence[Mapping[str, Any]], there: Mapping[str, int]) -> list[Mapping[str, Any]]:
    """Those of *rows* that are to be put: without a key, or the first with a new one."""
    seen = set(there)
    new = []
    for row in rows:
        key = row["p_entry_key"]
        if key is None or key not in seen:
            new.append(row)
            seen.add(key)
    return new


def _find(dialect: Dialect, log: Log, keys: Sequence[str]) -> Program[dict[str, int]]:
    found: dict[str, int] = {}
    for listed in dialect.statements.list_batches("p_keys", [(encode_id(key),) for key in keys]):
        answer = yield find_keys(dialect), log.binds() | listed
        found |= {row.entry_key: row.seq for row in answer}
    return found


def _put(dialect: Dialect, values: Mapping[str, Any], rows: list[dict[str, Any]]) -> Program[None]:
    if not rows:
        return
    if dialect.groups_saves:
        yield put_entries(dialect), dict(values) | _arrays(rows, (*_OWN, "seq"))
        return
    whole = [dict(values) | row for row in rows]
    yield put_row(dialect, of="entry"), whole[0] if len(whole) == 1 else whole


# --- Pending writes ------------------------------------------------------------------------------


@statement()
def put_write(dialect: Dialect) -> Executable | None:
    """Put a row of pending writes in one statement, making the log if it is not there."""
    if not dialect.single_statement_save:
        return None
    head = begin(dialect, "write").cte("head")
    seq = (head.c.next_seq - literal_column("1")).label("seq")
    values = _row_values("write") | {"seq": seq}
    put = insert(DELTAS).from_select(list(values), _select(values, head)).cte("put")
    return select(seq).add_cte(put)


def append_write(dialect: Dialect, values: Mapping[str, Any]) -> Program[bool]:
    """Put a row of pending writes; false if its log has expired, or was deleted since
    ``p_made_at``.
    """
    if dialect.single_statement_save:
        return bool((yield put_write(dialect), values))
    head = yield from allotted(dialect, "write", values)
    if head is not None:
        yield put_row(dialect, of="write"), dict(values) | {"p_seq": head.next_seq - 1}
    return head is not None
