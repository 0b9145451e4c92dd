"""Entries of a log: read, remove and edit them; `memalchemy.log.append` inserts them.

Whatever has to look first locks the head, then looks, in separate statements.
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
from memalchemy.dialects import Dialect, in_namespace
from memalchemy.errors import ThreadDeleted
from memalchemy.log.delete import forget_log
from memalchemy.log.heads import Head, lock_log, version_conflict
from memalchemy.log.tables import (
    DELTAS,
    THREADS,
    Log,
    column_binds,
    constants,
    live,
    of_log,
    routed,
    same_log,
)
from memalchemy.protection.proven_reads import (
    HEADS,
    CheckpointedHeads,
    HeadProof,
    HeadsOfSome,
    HeadsWithEntries,
    unless,
)
from memalchemy.rows import ENTRY, HEAD
from memalchemy.statements import NAMELESS, Program, statement

MAX_POSITION = 2**62
_VALUE_COLUMNS = ("seq", "codec", "checksum", "payload")
_ENTRY_COLUMNS = (*_VALUE_COLUMNS, "entry_key", "occurred_at", "stored_at", "signature")


def is_entry(table: Any = DELTAS) -> ColumnElement[bool]:
    """Return the condition that a row is an entry."""
    return table.c.kind.in_(constants("entry"))  # type: ignore[no-any-return]


# --- The head ------------------------------------------------------------------------------------


def lock_live_head(
    dialect: Dialect, log: Log, values: Mapping[str, Any], expected: int | Unset
) -> Program[Head | None]:
    """Lock a log; return its head, or ``None`` if the log does not exist or is a tombstone.

    A log that has expired is removed.

    Raises:
        Conflict, ThreadDeleted: the log is not at the version *expected*; nothing was changed.
        Corrupt: the key is another log's.
    """
    answer = yield lock_log(dialect), log.binds()
    head = Head._make(answer[0]) if answer else None
    if head is not None:
        head.check_names(log)
    if head is not None and head.is_expired(values["p_now"]):
        yield from forget_log(dialect, log)
        head = None
    alive = head is not None and head.deleted_at is None
    current = head.version if head is not None and alive else 0
    if expected is not UNSET and current != expected:
        if head is not None and not alive:
            raise ThreadDeleted(log.thread_id)
        raise version_conflict(log, expected, current)
    return head if alive else None


# --- Removing and editing -----------------------------------------------------------------------


@statement(which=("all", "beyond", "between"))
def delete_entries(dialect: Dialect, which: str) -> Executable:
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


@statement(changes=ENTRY)
def update_entry(dialect: Dialect) -> Executable:
    """Change the value of an entry; its position, key and times stay."""
    names = ("codec", "checksum", "search_text", "payload")
    here = DELTAS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type)
    return (
        update(DELTAS).where(of_log(DELTAS), is_entry(), here).values(column_binds(DELTAS, names))
    )


@statement(changes=HEAD)
def mark_entries_changed(dialect: Dialect) -> Executable:
    """Move a log's epoch and version: what readers hold of it may be gone or changed."""
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


def pop_newest(
    dialect: Dialect, log: Log, values: Mapping[str, Any], expected: int | Unset
) -> Program[Any | None]:
    """Remove the newest entry; return its row, or ``None`` if there is no entry."""
    head = yield from lock_live_head(dialect, log, values, expected)
    if head is None:
        return None
    answer = yield (
        read_entries(dialect, end="last", timed=False),
        dict(values) | all_binds(log) | {"p_limit": 1},
    )
    if not answer:
        return None
    at = answer[0].seq
    yield delete_entries(dialect, which="between"), log.binds() | {"p_low": at, "p_high": at}
    yield mark_entries_changed(dialect), values
    return answer[0]


def edit_entry(
    dialect: Dialect,
    log: Log,
    values: Mapping[str, Any],
    row: Mapping[str, Any],
    expected: int | Unset,
) -> Program[bool]:
    """Change the value of the entry at ``p_seq`` of *row*; return false if there is no entry."""
    head = yield from lock_live_head(dialect, log, values, expected)
    if head is None or not (yield update_entry(dialect), dict(row) | log.binds()).touched:
        return False
    yield mark_entries_changed(dialect), values
    return True


def delete_ranges(
    dialect: Dialect,
    log: Log,
    values: Mapping[str, Any],
    ranges: Sequence[tuple[int, int]],
    expected: int | Unset,
) -> Program[int]:
    """Remove the entries in ranges of positions, ends included; return their number."""
    head = yield from lock_live_head(dialect, log, values, expected)
    gone = 0
    for low, high in ranges if head is not None else ():
        within = log.binds() | {"p_low": low, "p_high": high}
        gone += (yield delete_entries(dialect, which="between"), within).touched
    if gone:
        yield mark_entries_changed(dialect), values
    return gone


def clear_entries(
    dialect: Dialect, log: Log, values: Mapping[str, Any], expected: int | Unset = UNSET
) -> Program[int]:
    """Remove all entries of a log; return their number."""
    head = yield from lock_live_head(dialect, log, values, expected)
    if head is None:
        return 0
    gone = (yield delete_entries(dialect, which="all"), log.binds()).touched
    if gone:
        yield mark_entries_changed(dialect), values
    return gone


# --- Reading -------------------------------------------------------------------------------------


def _is_live() -> ColumnElement[bool]:
    """Return the condition that an entry's log is live."""
    return select(literal_column("1")).where(same_log(THREADS, DELTAS), live()).exists()


@statement(proves=("entry", "log"), end=("first", "last"), timed=(True, False))
def read_entries(dialect: Dialect, end: str, timed: bool) -> Executable:
    """Select the first or last entries between two positions.

    With *timed*, only those that occurred from ``p_since`` to before ``p_until``.
    """
    seq, at = DELTAS.c.seq, DELTAS.c.occurred_at
    query = (
        select(*(DELTAS.c[name] for name in _ENTRY_COLUMNS))
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


@statement(proves=("entry", "log"), signed_form="whole", whole=(True, False))
def read_changes(dialect: Dialect, whole: bool) -> Executable:
    """Select a log's version and epoch, with its entries from ``p_after`` on.

    All entries come if the epoch is not ``p_epoch``. Without an entry there is one row; without a
    log there is none. Unless *whole*, an entry has only the columns that its value is made of: its
    key and times take longer to read than those. Such rows may be without names.
    """
    epoch, seq = THREADS.c.epoch, DELTAS.c.seq
    # A bound for the index, which a disjunction would not be.
    known = case(
        (epoch == bindparam("p_epoch", type_=epoch.type), bindparam("p_after", type_=seq.type)),
        else_=literal_column("-1", seq.type),
    )
    query = (
        select(
            THREADS.c.version,
            epoch,
            *(DELTAS.c[name] for name in (_ENTRY_COLUMNS if whole else _VALUE_COLUMNS)),
        )
        .select_from(THREADS)
        .outerjoin(DELTAS, and_(same_log(DELTAS, THREADS), is_entry(), seq >= known))
        .where(of_log(THREADS), live())
        .order_by(seq)
    )
    return query if whole else query.execution_options(**{NAMELESS: True})


@statement(proves=(HEADS, "entry"), scope=("log", "namespace"))
def find_entries_of_key(dialect: Dialect, scope: str, proven: bool) -> Executable:
    """Select the entries with the key ``p_key``: of a log, or of each log of a namespace.

    For the second the index of keys is asked once for each log.
    """
    where = [of_log(DELTAS)] if scope == "log" else [in_namespace(THREADS, below=False)]
    key = DELTAS.c.entry_key == bindparam("p_key", type_=DELTAS.c.entry_key.type)
    return (
        select(THREADS.c.thread_id, *(DELTAS.c[name] for name in _ENTRY_COLUMNS))
        .select_from(THREADS)
        .join(DELTAS, same_log(DELTAS, THREADS))
        .where(*where, *unless(proven, live()), is_entry(), key)
        .order_by(THREADS.c.thread_id)
    )


@statement(proves=("entry", "log"), newest=(False, True))
def read_entries_of_threads(dialect: Dialect, newest: bool) -> Executable:
    """Select the entries of each thread in ``p_thread_ids``, the threads one after another.

    With *newest*, only the newest of each.
    """
    named = dialect.statements.rows_from_list("p_thread_ids", ("thread_id",))
    ids: Any = select(named.c.thread_id)
    joined = and_(same_log(DELTAS, THREADS), is_entry())
    if newest:
        each = DELTAS.alias("each_entry")
        last = select(func.max(each.c.seq)).where(same_log(each, THREADS), is_entry(each))
        joined = and_(joined, DELTAS.c.seq == last.scalar_subquery())
    return (
        select(THREADS.c.thread_id, *(DELTAS.c[name] for name in _ENTRY_COLUMNS))
        .select_from(THREADS)
        .join(DELTAS, joined)
        .where(in_namespace(THREADS, below=False), THREADS.c.thread_id.in_(ids), live())
        .order_by(THREADS.c.thread_id, DELTAS.c.seq)
    )


@statement(proves=("entry", "log"))
def read_entries_of_logs(dialect: Dialect) -> Executable:
    """Select all entries of the logs that ``p_logs`` lists, by thread, namespace and position."""
    here = and_(same_log(DELTAS, THREADS), is_entry())
    names = (THREADS.c.thread_id, THREADS.c.namespace)
    return (
        select(*names, *(DELTAS.c[name] for name in _ENTRY_COLUMNS))
        .select_from(listed_heads(dialect).join(DELTAS, here))
        .where(live(), *routed(dialect, THREADS, DELTAS))
        .order_by(*names, DELTAS.c.seq)
    )


def listed_heads(dialect: Dialect) -> Any:
    """Return the heads of the logs that ``p_logs`` lists; see `bind_rows_of_logs`."""
    named = dialect.statements.rows_from_list("p_logs", ("log_id",))
    return named.join(THREADS, same_log(THREADS, named))


@statement()
def count_entries(dialect: Dialect) -> Executable:
    """Count the entries of a log."""
    return select(func.count()).select_from(DELTAS).where(of_log(DELTAS), is_entry(), _is_live())


@statement(proves=HEADS)
def read_version(dialect: Dialect, proven: bool) -> Executable:
    """Select the version of a live log."""
    return select(THREADS.c.version).where(of_log(THREADS), *unless(proven, live()))


def all_binds(log: Log) -> dict[str, Any]:
    """Return the binds of `read_entries` that name a log and its first and last position."""
    return log.binds() | {"p_after": -1, "p_before": MAX_POSITION}


def has_entries() -> ColumnElement[bool]:
    """Return the condition on ``threads`` that a log has an entry."""
    here = and_(same_log(DELTAS, THREADS), is_entry())
    return select(literal_column("1")).select_from(DELTAS).where(here).correlate(THREADS).exists()


def is_not_empty() -> ColumnElement[bool]:
    """Return the condition on ``threads`` that a log has a checkpoint or an entry."""
    return or_(THREADS.c.head_id.is_not(None), has_entries())


def holds(of: str) -> ColumnElement[bool]:
    """Return the condition on ``threads`` that a log has ``checkpoints``, ``entries``, or some."""
    if of == "checkpoints":
        return THREADS.c.head_id.is_not(None)
    return has_entries() if of == "entries" else is_not_empty()


def heads_that_hold(of: str, *, by_time: bool = False) -> HeadProof:
    """Return the proof of heads, for listings of those that `holds` accepts."""
    if of == "checkpoints":
        return CheckpointedHeads(by_time=by_time)
    made = HeadsWithEntries if of == "entries" else HeadsOfSome
    return made(has_entries(), by_time=by_time)
