"""Entries of a log: reading, removing and editing them. `memalchemy.log.append` puts them in.

Whatever has to look first locks the head, then looks, in separate statements. Payloads are bytes
that others made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
)

from memalchemy.contracts import UNSET, Unset
from memalchemy.dialects import Dialect
from memalchemy.errors import ThreadDeleted
from memalchemy.log.delete import remove_log
from memalchemy.log.heads import Head, conflict, lock_log
from memalchemy.log.tables import (
    DELTAS,
    THREADS,
    Log,
    binds,
    live,
    of_log,
    same_log,
    words,
)
from memalchemy.statements import NAMELESS, Program, statement

EVERYTHING = 2**62
_VALUE = ("seq", "codec", "checksum", "payload")
_READ = (*_VALUE, "entry_key", "occurred_at", "stored_at")


def is_entry(table: Any = DELTAS) -> ColumnElement[bool]:
    return table.c.kind.in_(words("entry"))  # type: ignore[no-any-return]


# --- The head ------------------------------------------------------------------------------------


def standing(
    dialect: Dialect, log: Log, values: Mapping[str, Any], expected: int | Unset
) -> Program[Head | None]:
    """Lock a log: its head if it is live, and at the version that is expected.

    A head that has expired goes, with its rows.

    Raises:
        Conflict, ThreadDeleted: it is not as *expected*; nothing was changed.
        Corrupt: the key is another log's.
    """
    answer = yield lock_log(dialect), log.binds()
    head = Head._make(answer[0]) if answer else None
    if head is not None:
        head.check_names(log)
    if head is not None and head.is_expired(values["p_now"]):
        yield from remove_log(dialect, log)
        head = None
    alive = head is not None and head.deleted_at is None
    current = head.version if head is not None and alive else 0
    if expected is not UNSET and current != expected:
        if head is not None and not alive:
            raise ThreadDeleted(log.thread_id)
        raise conflict(log, expected, current)
    return head if alive else None


# --- Removing and editing -----------------------------------------------------------------------


@statement(which=("all", "beyond", "between"))
def remove_entries(dialect: Dialect, which: str) -> Executable:
    """Delete entries of a log: all, those beyond ``p_after``, or from ``p_low`` to ``p_high``."""
    seq = DELTAS.c.seq
    conditions: dict[str, list[ColumnElement[bool]]] = {
        "all": [],
        "beyond": [seq > bindparam("p_after", type_=seq.type)],
        "between": [
            seq >= bindparam("p_low", type_=seq.type),
            seq <= bindparam("p_high", type_=seq.type),
        ],
    }
    return delete(DELTAS).where(of_log(DELTAS), is_entry(), *conditions[which])


@statement()
def edit_entry(dialect: Dialect) -> Executable:
    """Give an entry another value; its position, key and times stay."""
    names = ("codec", "checksum", "search_text", "payload")
    here = DELTAS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type)
    return update(DELTAS).where(of_log(DELTAS), is_entry(), here).values(binds(DELTAS, names))


@statement()
def entries_changed(dialect: Dialect) -> Executable:
    """Tell every reader that what it holds of this log may not be there any more."""
    return (
        update(THREADS)
        .where(of_log(THREADS))
        .values(
            epoch=THREADS.c.epoch + 1,
            version=THREADS.c.version + 1,
            updated_at=bindparam("p_now", type_=THREADS.c.updated_at.type),
            active_at=bindparam("p_active_at", type_=THREADS.c.active_at.type),
        )
    )


def take_newest(
    dialect: Dialect, log: Log, values: Mapping[str, Any], expected: int | Unset
) -> Program[Any | None]:
    """Remove the newest entry; its row, or ``None`` if there is none."""
    head = yield from standing(dialect, log, values, expected)
    if head is None:
        return None
    answer = yield (
        read_entries(dialect, end="last", timed=False),
        _bounds(log, values) | {"p_limit": 1},
    )
    if not answer:
        return None
    at = answer[0].seq
    yield remove_entries(dialect, which="between"), log.binds() | {"p_low": at, "p_high": at}
    yield entries_changed(dialect), values
    return answer[0]


def change_one(
    dialect: Dialect,
    log: Log,
    values: Mapping[str, Any],
    row: Mapping[str, Any],
    expected: int | Unset,
) -> Program[bool]:
    """Give the entry at ``p_seq`` of *row* another value; whether it was there."""
    head = yield from standing(dialect, log, values, expected)
    if head is None or not (yield edit_entry(dialect), dict(row) | log.binds()).touched:
        return False
    yield entries_changed(dialect), values
    return True


def remove_some(
    dialect: Dialect,
    log: Log,
    values: Mapping[str, Any],
    ranges: Sequence[tuple[int, int]],
    expected: int | Unset,
) -> Program[int]:
    """Remove the entries of some ranges of positions, ends included; how many they were."""
    head = yield from standing(dialect, log, values, expected)
    gone = 0
    for low, high in ranges if head is not None else ():
        within = log.binds() | {"p_low": low, "p_high": high}
        gone += (yield remove_entries(dialect, which="between"), within).touched
    if gone:
        yield entries_changed(dialect), values
    return gone


def remove_all(
    dialect: Dialect, log: Log, values: Mapping[str, Any], expected: int | Unset = UNSET
) -> Program[int]:
    """Remove the entries of a log; how many they were."""
    head = yield from standing(dialect, log, values, expected)
    if head is None:
        return 0
    gone = (yield remove_entries(dialect, which="all"), log.binds()).touched
    if gone:
        yield entries_changed(dialect), values
    return gone


# --- Reading -------------------------------------------------------------------------------------


def _is_live() -> ColumnElement[bool]:
    return select(literal_column("1")).where(same_log(THREADS, DELTAS), live()).exists()


@statement(end=("first", "last"), timed=(True, False))
def read_entries(dialect: Dialect, end: str, timed: bool) -> Executable:
    """The first or last entries between two positions; *timed*, those that occurred in a time."""
    seq, at = DELTAS.c.seq, DELTAS.c.occurred_at
    query = (
        select(*(DELTAS.c[name] for name in _READ))
        .where(
            of_log(DELTAS),
            is_entry(),
            seq > bindparam("p_after", type_=seq.type),
            seq < bindparam("p_before", type_=seq.type),
            _is_live(),
        )
        .order_by(seq if end == "first" else seq.desc())
        .limit(bindparam("p_limit"))
    )
    if not timed:
        return query
    since, until = (bindparam(name, type_=at.type) for name in ("p_since", "p_until"))
    return query.where(at >= since, at < until)


@statement(whole=(True, False))
def read_news(dialect: Dialect, whole: bool) -> Executable:
    """A log's version and epoch, with its entries from ``p_after`` on; with all of them if its
    epoch is not ``p_epoch``. One row without an entry if there is none; no row if there is no log.

    Of entries that are not *whole* only what their values are made of: keys and times take longer
    to read than that. Their rows may be without names.
    """
    epoch, seq = THREADS.c.epoch, DELTAS.c.seq
    # A bound for the index, which a disjunction would not be.
    known = case(
        (epoch == bindparam("p_epoch", type_=epoch.type), bindparam("p_after", type_=seq.type)),
        else_=literal_column("-1", seq.type),
    )
    query = (
        select(THREADS.c.version, epoch, *(DELTAS.c[name] for name in (_READ if whole else _VALUE)))
        .select_from(THREADS)
        .outerjoin(DELTAS, and_(same_log(DELTAS, THREADS), is_entry(), seq >= known))
        .where(of_log(THREADS), live())
        .order_by(seq)
    )
    return query if whole else query.execution_options(**{NAMELESS: True})


@statement()
def count_entries(dialect: Dialect) -> Executable:
    """How many entries a log has."""
    return select(func.count()).select_from(DELTAS).where(of_log(DELTAS), is_entry(), _is_live())


@statement()
def read_version(dialect: Dialect) -> Executable:
    """The version of a log that is live."""
    return select(THREADS.c.version).where(of_log(THREADS), live())


def _bounds(log: Log, values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(values) | log.binds() | {"p_after": -1, "p_before": EVERYTHING}


def holds_entries() -> ColumnElement[bool]:
    """Whether a log has an entry; a condition on ``threads``."""
    here = and_(same_log(DELTAS, THREADS), is_entry())
    return select(literal_column("1")).select_from(DELTAS).where(here).exists()


def has_anything() -> ColumnElement[bool]:
    """Whether a log has a checkpoint or an entry; a condition on ``threads``."""
    return or_(THREADS.c.head_id.is_not(None), holds_entries())
