"""Pending writes: rows of a log that belong to a checkpoint, which may be named before or after.

A row is one call's writes, as bytes that others made. Nothing is replaced: in the order of
positions a row's writes stand behind those that are there, or overwrite them. ``label`` is the
checkpoint's id; the key begins with it too, so that an index has a checkpoint's writes together.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Executable, and_, bindparam, select

from memalchemy.dialects import Dialect
from memalchemy.errors import ThreadDeleted
from memalchemy.keys import encode_id
from memalchemy.log.delete import remove_log
from memalchemy.log.heads import Head, read_head
from memalchemy.log.tables import DELTAS, LONGEST_IN_KEY, Log, key_range, of_log, words
from memalchemy.statements import Program, statement

COLUMNS = ("seq", "overwrites", "codec", "checksum", "payload")


def is_write(table: Any = DELTAS) -> ColumnElement[bool]:
    return table.c.kind.in_(words("write"))  # type: ignore[no-any-return]


def is_hashed(checkpoint_id: str) -> bool:
    """Tell if the keys of a checkpoint's writes are made of a hash, which no statement can make."""
    return len(encode_id(checkpoint_id)) > LONGEST_IN_KEY


def new_key(checkpoint_id: str) -> str:
    """A key that no other call has: sent again, a row is refused instead of put twice."""
    return key_range(checkpoint_id)["p_low"] + secrets.token_hex(8)


def make_room(dialect: Dialect, log: Log, values: Mapping[str, Any]) -> Program[None]:
    """Remove a log that has expired, which refused a row of writes.

    Raises:
        ThreadDeleted: the log was deleted.
        Corrupt: the key is another log's.
    """
    rows = yield read_head(dialect), log.binds()
    if not rows:
        return
    head = Head._make(rows[0])
    head.check_names(log)
    if head.deleted_at is not None:
        raise ThreadDeleted(log.thread_id)
    yield from remove_log(dialect, log, lambda found: found.is_expired(values["p_now"]))


@statement()
def read_writes(dialect: Dialect) -> Executable:
    """The writes of a checkpoint, in the order they were put; binds `key_range`."""
    key = DELTAS.c.entry_key
    low, high = (bindparam(name, type_=key.type) for name in ("p_low", "p_high"))
    of_it = DELTAS.c.label == bindparam("p_checkpoint_id", type_=DELTAS.c.label.type)
    return (
        select(*(DELTAS.c[name] for name in COLUMNS))
        .where(of_log(DELTAS), is_write(), key >= low, key < high, of_it)
        .order_by(DELTAS.c.seq)
    )


@statement()
def read_writes_listed(dialect: Dialect) -> Executable:
    """The writes of some checkpoints, in the order they were put; binds `listed_ranges`."""
    named = dialect.statements.rows_from_list("p_keys", ("label", "low", "high"))
    return (
        select(DELTAS.c.label, *(DELTAS.c[name] for name in COLUMNS))
        .join(
            named,
            and_(
                DELTAS.c.entry_key >= named.c.low,
                DELTAS.c.entry_key < named.c.high,
                DELTAS.c.label == named.c.label,
            ),
        )
        .where(of_log(DELTAS), is_write())
        .order_by(DELTAS.c.seq)
    )


def listed_ranges(dialect: Dialect, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The binds of `read_writes_listed` for checkpoints, in as many lists as they take."""
    ranges = ((one, *key_range(one).values()) for one in ids)
    return dialect.statements.list_batches(
        "p_keys", [tuple(map(encode_id, each)) for each in ranges]
    )
