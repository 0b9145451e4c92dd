"""Many saves in one statement, for databases that can: group commit on a server.

Saves that wait at the same moment are sent together: their rows as arrays, one round trip, one
commit. Each log is saved whole or not at all, whatever becomes of the others; several saves of one
log take positions in the order in which they came, each the parent of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    FromClause,
    and_,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    update,
)

from memalchemy.dialects import Dialect
from memalchemy.log.appending import (
    CHECKPOINT_COLUMNS,
    DELTA_COLUMNS,
    Position,
    moved,
    reborn,
)
from memalchemy.log.tables import CHECKPOINTS, DELTAS, LOG_KEY, THREADS, Log
from memalchemy.statements import Program, statement

_ROW: tuple[str, ...] = (
    *(*LOG_KEY, "checkpoint_id", "parent_id", "back", "base_checksum"),
    *dict.fromkeys((*DELTA_COLUMNS, *CHECKPOINT_COLUMNS)),
)
_LOG = (*LOG_KEY, "epoch", "saves", "head_id", "now", "expires_at")


def _types(names: Iterable[str]) -> dict[str, Any]:
    ours = {
        "back": THREADS.c.next_seq,
        "saves": THREADS.c.next_seq,
        "base_checksum": DELTAS.c.checksum,
        "now": THREADS.c.updated_at,
    }
    tables = (DELTAS, CHECKPOINTS, THREADS)
    return {
        name: ours[name].type
        if name in ours
        else next(table.c[name].type for table in tables if name in table.c)
        for name in names
    }


@statement(first=("based", "begin"))
def save_many(d: Dialect, first: str) -> Executable | None:
    """`save` for many rows; returns the head of each log that was as its rows assume."""
    if not d.groups_saves:
        return None
    rows, logs = d.arrays("r", _types(_ROW)), d.arrays("l", _types(_LOG))
    new = _new_names(rows)
    head = (_advanced if first == "based" else _begun)(d, rows, logs, new).cte("head")
    seq = head.c.next_seq - rows.c.back
    joined = rows.join(head, and_(*(rows.c[name] == head.c[name] for name in LOG_KEY)))
    key: dict[str, ColumnElement[Any]] = {name: rows.c[name] for name in LOG_KEY}
    deltas = key | {name: rows.c[name] for name in DELTA_COLUMNS} | {"seq": seq}
    parent = func.coalesce(rows.c.parent_id, head.c.previous_id)
    names = key | {name: rows.c[name] for name in ("checkpoint_id", *CHECKPOINT_COLUMNS)}
    later = _count(new, rows, new.c.back < rows.c.back)
    names = names | {"parent_id": parent, "seq": seq, "ordinal": head.c.last_ordinal - later}
    delta = insert(DELTAS).from_select(list(deltas), _select(deltas, joined)).cte("delta")
    # An id that is there keeps its lineage and its number: nobody who names a parent is sent in a
    # group.
    replaced = {name: d.excluded(CHECKPOINTS, name) for name in (*CHECKPOINT_COLUMNS, "seq")}
    name = d.upsert(
        CHECKPOINTS, names, (*LOG_KEY, "checkpoint_id"), replaced, source=_select(names, joined)
    ).cte("name")
    return select(head).add_cte(delta, name)


_RETURNED = (
    *(THREADS.c[name] for name in LOG_KEY),
    THREADS.c.next_seq,
    THREADS.c.version,
    THREADS.c.epoch,
    THREADS.c.previous_id,
    THREADS.c.last_ordinal,
)


def _new_names(rows: FromClause) -> CTE:
    """The rows whose checkpoint is not there yet, by their logs and their places in them."""
    there = and_(
        *(CHECKPOINTS.c[name] == rows.c[name] for name in LOG_KEY),
        CHECKPOINTS.c.checkpoint_id == rows.c.checkpoint_id,
    )
    known = select(CHECKPOINTS.c.seq).where(there).correlate(rows).exists()
    columns = [rows.c[name] for name in (*LOG_KEY, "back")]
    return select(*columns).where(~known).cte("new")


def _count(new: CTE, of: FromClause, *where: ColumnElement[bool]) -> Any:
    """How many new checkpoints the log of a row of *of* gets."""
    same = (new.c[name] == of.c[name] for name in LOG_KEY)
    return (
        select(func.count()).select_from(new).where(*same, *where).correlate(of).scalar_subquery()
    )


def _select(values: Mapping[str, ColumnElement[Any]], source: FromClause) -> Any:
    return select(*(value.label(name) for name, value in values.items())).select_from(source)


def _advanced(d: Dialect, rows: FromClause, logs: FromClause, new: CTE) -> Any:
    # How many of a log's rows have the base that they name: one probe for each row, made once.
    there = and_(
        *(DELTAS.c[name] == rows.c[name] for name in LOG_KEY),
        DELTAS.c.seq == rows.c.base_seq,
        DELTAS.c.checksum == rows.c.base_checksum,
    )
    probe = select(DELTAS.c.seq).where(there).correlate(rows).scalar_subquery()
    key = [rows.c[name] for name in LOG_KEY]
    based = select(*key, func.count(probe).label("based"))
    sound = based.group_by(*key).cte("sound")
    return (
        update(THREADS)
        .where(
            *(THREADS.c[name] == logs.c[name] for name in LOG_KEY),
            *(sound.c[name] == logs.c[name] for name in LOG_KEY),
            sound.c.based == logs.c.saves,
            THREADS.c.deleted_at.is_(None),
            or_(THREADS.c.expires_at.is_(None), THREADS.c.expires_at > logs.c.now),
            THREADS.c.epoch == logs.c.epoch,
        )
        .values(
            moved(
                logs.c.saves,
                dict(logs.c.items()) | {"updated_at": logs.c.now},
                _count(new, logs),
            )
        )
        .returning(*_RETURNED)
    )


def _begun(d: Dialect, rows: FromClause, logs: FromClause, new: CTE) -> Any:
    born: dict[str, ColumnElement[Any]] = {
        name: logs.c[name] for name in (*LOG_KEY, "epoch", "head_id", "expires_at")
    }
    born |= {
        "next_seq": logs.c.saves + literal_column("1"),
        "version": logs.c.saves,
        "last_ordinal": _count(new, logs),
        "meta": literal({}, THREADS.c.meta.type),
        "created_at": logs.c.now,
        "updated_at": logs.c.now,
    }
    given = {name: d.excluded(THREADS, name) for name in born}
    there = reborn(given["version"], given, given["last_ordinal"])
    alive = or_(THREADS.c.expires_at.is_(None), THREADS.c.expires_at > given["updated_at"])
    source = _select(born, logs)
    return d.upsert(THREADS, born, LOG_KEY, there, source=source, where=alive).returning(*_RETURNED)


def append_many(
    d: Dialect, rows: Sequence[Mapping[str, Any]], *, first: str
) -> Program[list[Position | None]]:
    """Save checkpoints, each as `append` would without conditions of its own.

    No two have the same id in the same log, and none names a parent. The positions are in the order
    of *rows*; ``None`` for those of a log that is not as *first* wants it (see `append`).
    """
    by_log: dict[Log, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_log.setdefault(Log.of(row), []).append(row)
    binds: dict[str, list[Any]] = {f"r_{name}": [] for name in _ROW}
    binds |= {f"l_{name}": [] for name in _LOG}
    for log, of_log in by_log.items():
        last = of_log[-1]
        mine = {"epoch": last["p_epoch"], "saves": len(of_log), "head_id": last["p_checkpoint_id"]}
        mine |= {"now": last["p_now"], "expires_at": last["p_expires_at"]}
        for name, value in (log._asdict() | mine).items():
            binds[f"l_{name}"].append(value)
        for place, row in enumerate(of_log):
            parent = of_log[place - 1]["p_checkpoint_id"] if place else None
            placed = log._asdict() | {"parent_id": parent, "back": len(of_log) - place}
            for name in _ROW:
                binds[f"r_{name}"].append(placed[name] if name in placed else row[f"p_{name}"])
    answer = yield save_many(d, first=first), binds
    heads = {Log(head.tenant, head.thread_id, head.namespace): head for head in answer}
    positions = {
        id(row): _position(heads.get(log), of_log, place)
        for log, of_log in by_log.items()
        for place, row in enumerate(of_log)
    }
    return [positions[id(row)] for row in rows]


def _position(head: Any, of_log: Sequence[Mapping[str, Any]], place: int) -> Position | None:
    if head is None:
        return None
    back = len(of_log) - place
    previous = of_log[place - 1]["p_checkpoint_id"] if place else head.previous_id
    return Position(head.next_seq - back, head.version - back + 1, head.epoch, previous)
