"""Entries come into a log: positions are allotted under its head's lock, and filled in order.

An append without keys is one statement where the database has data-modifying CTEs. Payloads are
bytes that others made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    and_,
    bindparam,
    case,
    insert,
    literal,
    literal_column,
    null,
    select,
    update,
)

from memalchemy.contracts import UNSET, Unset
from memalchemy.dialects import Dialect
from memalchemy.dialects.lists import lists
from memalchemy.keys import encode_id
from memalchemy.log.appending import begun, put_delta
from memalchemy.log.entries import conflict, entries_changed, read_version, remove_entries, standing
from memalchemy.log.tables import (
    DELTAS,
    LOG_KEY,
    THREADS,
    Log,
    binds,
    live,
    of_log,
    unexpired,
    words,
)
from memalchemy.statements import Program, statement

ENTRY = ("entry_key", "raw_size", "codec", "checksum", "search_text", "occurred_at", "payload")
"""What of an entry's row is not the same for all; the rest is what no entry has."""


class Allotted(NamedTuple):
    """What a write leaves of a head."""

    next_seq: int
    version: int
    epoch: int


_RETURNED = tuple(THREADS.c[name] for name in Allotted._fields)


def _later() -> dict[str, Any]:
    """What an append makes of a head."""
    return {
        "next_seq": THREADS.c.next_seq + bindparam("p_count", type_=THREADS.c.next_seq.type),
        "version": THREADS.c.version + 1,
        **binds(THREADS, ["updated_at", "expires_at"]),
    }


def _born() -> dict[str, Any]:
    key = {name: bindparam(f"k_{name}", type_=THREADS.c[name].type) for name in LOG_KEY}
    now = bindparam("p_updated_at", type_=THREADS.c.updated_at.type)
    return (
        key
        | {"version": literal(1, THREADS.c.version.type), "created_at": now, "updated_at": now}
        | binds(THREADS, ["next_seq", "epoch", "meta", "expires_at"])
    )


def _reborn() -> dict[str, Any]:
    """`_later`, of a head that may be a tombstone: that starts a new life."""
    dead = THREADS.c.deleted_at.is_not(None)
    now = bindparam("p_updated_at", type_=THREADS.c.updated_at.type)
    return _later() | {
        "epoch": case((dead, THREADS.c.epoch + 1), else_=THREADS.c.epoch),
        "created_at": case((dead, now), else_=THREADS.c.created_at),
        "deleted_at": null(),
    }


def _may_begin(expected: str) -> ColumnElement[bool]:
    return (
        and_(unexpired(), THREADS.c.deleted_at.is_not(None)) if expected == "none" else unexpired()
    )


def _begin(d: Dialect, expected: str) -> Any:
    where = _may_begin(expected)
    return d.upsert(THREADS, _born(), LOG_KEY, _reborn(), where=where).returning(*_RETURNED)


def _at_version() -> Any:
    was = THREADS.c.version == bindparam("p_expected", type_=THREADS.c.version.type)
    return (
        update(THREADS).where(of_log(THREADS), live(), was).values(_later()).returning(*_RETURNED)
    )


@statement(expected=("any", "none", "version"))
def append_entries(d: Dialect, expected: str) -> Executable | None:
    """A whole append in one statement: allot the positions, and put the rows there in order.

    No row if the log is not as expected: nothing (``none``), or at ``p_expected`` (``version``).
    """
    if not (d.single_statement_save and d.groups_saves):
        return None
    head = (_at_version() if expected == "version" else _begin(d, expected)).cte("head")
    rows = d.arrays("e", {"back": THREADS.c.next_seq.type} | _types(ENTRY))
    values = (
        _constant()
        | {name: rows.c[name] for name in ENTRY}
        | {"seq": head.c.next_seq - rows.c.back}
    )
    source = select(*(value.label(name) for name, value in values.items())).select_from(
        rows.join(head, literal_column("true"))
    )
    put = insert(DELTAS).from_select(list(values), source).cte("put")
    return select(*(head.c[name] for name in Allotted._fields)).add_cte(put)


def _types(names: Sequence[str]) -> dict[str, Any]:
    return {name: DELTAS.c[name].type for name in names}


def _constant() -> dict[str, Any]:
    """What is the same of all rows of one append."""
    key = {name: bindparam(f"k_{name}", type_=DELTAS.c[name].type) for name in LOG_KEY}
    zero: dict[str, Any] = {
        name: literal_column("0") for name in ("depth", "since_bytes", "status")
    }
    return (
        key
        | zero
        | {"kind": words("entry")[0], "stored_at": binds(DELTAS, ["stored_at"])["stored_at"]}
    )


@statement()
def put_entries(d: Dialect) -> Executable | None:
    """Insert entries, sent as arrays, at positions that were allotted."""
    if not d.groups_saves:
        return None
    rows = d.arrays("e", _types((*ENTRY, "seq")))
    values = _constant() | {name: rows.c[name] for name in (*ENTRY, "seq")}
    return insert(DELTAS).from_select(
        list(values),
        select(*(value.label(name) for name, value in values.items())).select_from(rows),
    )


@statement(expected=("any", "none"))
def begin_log(d: Dialect, expected: str) -> Executable | None:
    """Allot positions, making the log if it is not there."""
    return _begin(d, expected) if d.upserts else None


@statement(expected=("any", "none"))
def begin_log_again(d: Dialect, expected: str) -> Executable | None:
    """`begin_log` without an upsert, first half: the head is there."""
    if d.upserts:
        return None
    again = update(THREADS).where(of_log(THREADS), _may_begin(expected)).values(_reborn())
    return again.returning(*_RETURNED)


@statement()
def begin_log_new(d: Dialect) -> Executable | None:
    """`begin_log` without an upsert, second half: it is not."""
    return None if d.upserts else insert(THREADS).values(_born()).returning(*_RETURNED)


BEGIN = (begin_log, begin_log_again, begin_log_new)


@statement()
def allot(d: Dialect) -> Executable:
    """Allot positions of a log that is locked; the epoch moves by ``p_moved``."""
    moved = THREADS.c.epoch + bindparam("p_moved", type_=THREADS.c.epoch.type)
    values = _later() | {"epoch": moved}
    return update(THREADS).where(of_log(THREADS)).values(values).returning(*_RETURNED)


@statement()
def find_keys(d: Dialect) -> Executable:
    """Where the entries with one of some keys are; binds ``p_keys``, of `lists`."""
    named = d.listed("p_keys", ("entry_key",))
    return select(DELTAS.c.entry_key, DELTAS.c.seq).where(
        of_log(DELTAS), DELTAS.c.entry_key.in_(select(named.c.entry_key))
    )


def append(
    d: Dialect, values: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], expected: int | Unset
) -> Program[Allotted | None]:
    """Append entries without keys, in one statement: only where `append_entries` is one.

    ``None`` if the log is not as *expected*, or expired; nothing was changed then.
    """
    which = "any" if expected is UNSET else "version" if expected else "none"
    count = len(rows)
    placed = [dict(row) | {"p_back": count - at} for at, row in enumerate(rows)]
    given = dict(values) | {"p_expected": expected, "p_count": count, "p_next_seq": count + 1}
    answer = yield append_entries(d, expected=which), given | _arrays(placed, ("back", *ENTRY))
    return Allotted._make(answer[0]) if answer else None


def _arrays(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    return {f"e_{name}": [row[f"p_{name}"] for row in rows] for name in names}


def place(
    d: Dialect,
    log: Log,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    expected: int | Unset,
    after: int | None = None,
) -> Program[list[int]]:
    """Append entries to a log that was looked at, in a transaction; their positions.

    An entry whose key is there is not put again. With *after*, what lies beyond that position goes.

    Raises:
        Conflict, ThreadDeleted: the log is not as *expected*; nothing was changed.
    """
    head = yield from standing(d, log, values, expected)
    removed = 0
    if head is not None and after is not None:
        removed = (
            yield remove_entries(d, which="beyond"), log.binds() | {"p_after": after}
        ).touched
    keys = list(dict.fromkeys(row["p_entry_key"] for row in rows if row["p_entry_key"] is not None))
    there: dict[str, int] = {}
    if head is not None:
        there = yield from _find(d, log, keys)
    new = _new(rows, there)
    if not new and not removed:
        return [there[row["p_entry_key"]] for row in rows]
    given = dict(values) | {
        "p_count": len(new),
        "p_next_seq": len(new) + 1,
        "p_moved": int(removed > 0),
    }
    if head is not None:
        answer = yield allot(d), given
    else:
        which = "any" if expected is UNSET else "none"
        answer = yield from begun(d, BEGIN, given, which)
        if not answer:
            now = yield read_version(d), given
            raise conflict(log, expected, now[0].version if now else 0)
        # Somebody may have begun it since we looked. A position that stays empty is no harm.
        if (
            after is not None
            and (yield remove_entries(d, which="beyond"), log.binds() | {"p_after": after}).touched
        ):
            yield entries_changed(d), values
        there = yield from _find(d, log, keys)
        new = _new(rows, there)
    first = Allotted._make(answer[0]).next_seq - given["p_count"]
    yield from _put(d, values, [dict(row) | {"p_seq": first + at} for at, row in enumerate(new)])
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


def _find(d: Dialect, log: Log, keys: Sequence[str]) -> Program[dict[str, int]]:
    found: dict[str, int] = {}
    for listed in lists(d, [(encode_id(key),) for key in keys]):
        answer = yield find_keys(d), log.binds() | {"p_keys": listed}
        found |= {row.entry_key: row.seq for row in answer}
    return found


def _put(d: Dialect, values: Mapping[str, Any], rows: list[dict[str, Any]]) -> Program[None]:
    if not rows:
        return
    if d.groups_saves:
        yield put_entries(d), dict(values) | _arrays(rows, (*ENTRY, "seq"))
        return
    whole = [_NOTHING | dict(values) | row for row in rows]
    yield put_delta(d), whole[0] if len(whole) == 1 else whole


_NOTHING = {
    "p_kind": "entry",
    "p_parent_seq": None,
    "p_base_seq": None,
    "p_depth": 0,
    "p_since_bytes": 0,
    "p_label": None,
    "p_sort_key": None,
    "p_status": 0,
}
"""What an entry has of the columns that are for states and writes."""
