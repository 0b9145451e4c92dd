"""Pending writes: rows of a log that belong to a checkpoint, which may be saved before or after.

A row has the writes of one call. Nothing is replaced: in the order of positions a row's writes
stand behind the earlier ones, or overwrite them. ``label`` is the checkpoint's id; the key begins
with it too, so that an index has a checkpoint's writes together.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Executable, FromClause, and_, select

from memalchemy.dialects import Dialect
from memalchemy.errors import ThreadDeleted
from memalchemy.keys import encode_id
from memalchemy.log.delete import forget_log
from memalchemy.log.heads import Head, read_head
from memalchemy.log.tables import (
    DELTAS,
    MAX_ID_IN_KEY,
    THREADS,
    Log,
    bind_rows_of_logs,
    constants,
    live,
    routed,
    same_log,
    write_key_range,
)
from memalchemy.statements import Program, statement

COLUMNS = (
    *("seq", "overwrites", "codec", "checksum", "payload"),
    *("entry_key", "stored_at", "signature"),
)


def is_write(table: Any = DELTAS) -> ColumnElement[bool]:
    """Return the condition that a row has pending writes."""
    return table.c.kind.in_(constants("write"))  # type: ignore[no-any-return]


def is_hashed(checkpoint_id: str) -> bool:
    """Return whether a checkpoint's writes have hashed keys, which no statement can make."""
    return len(encode_id(checkpoint_id)) > MAX_ID_IN_KEY


def new_key(checkpoint_id: str) -> str:
    """Return a key that no other call has, so that a row sent again is refused."""
    return write_key_range(checkpoint_id)["p_low"] + secrets.token_hex(8)


def forget_expired_log(dialect: Dialect, log: Log, values: Mapping[str, Any]) -> Program[None]:
    """Forget the log that has refused a row of writes, if it has expired.

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
    yield from forget_log(dialect, log, lambda found: found.is_expired(values["p_now"]))


def join_listed_checkpoints(dialect: Dialect) -> tuple[FromClause, ColumnElement[bool]]:
    """Return the checkpoints that ``p_keys`` lists, and the condition that a row is one's write."""
    named = dialect.statements.rows_from_list("p_keys", ("log_id", "label", "low", "high"))
    of_it = and_(
        same_log(DELTAS, named),
        DELTAS.c.entry_key >= named.c.low,
        DELTAS.c.entry_key < named.c.high,
        DELTAS.c.label == named.c.label,
    )
    return named, of_it


@statement(proves=("write", "log"))
def read_writes_of_checkpoints(dialect: Dialect) -> Executable:
    """Select the writes of some checkpoints, in the order they were put; see `bind_writes_of`.

    A log that has expired, or was deleted, has none; binds ``p_now``.
    """
    named, of_it = join_listed_checkpoints(dialect)
    is_alive = and_(same_log(THREADS, named), live(), *routed(dialect, THREADS))
    rows, _ = dialect.statements.join_by_key(named, THREADS, is_alive)
    return (
        select(DELTAS.c.log_id, DELTAS.c.label, *(DELTAS.c[name] for name in COLUMNS))
        .select_from(rows.join(DELTAS, of_it))
        .where(is_write(), *routed(dialect, DELTAS))
        .order_by(DELTAS.c.seq)
    )


def bind_writes_of(
    dialect: Dialect, checkpoints: Sequence[tuple[Log, str]]
) -> Iterator[dict[str, Any]]:
    """Yield the binds of `read_writes_of_checkpoints` for checkpoints of any logs, by their ids."""
    rows: list[tuple[Log, *tuple[str, ...]]] = [
        (log, *_write_keys(one)) for log, one in checkpoints
    ]
    return bind_rows_of_logs(dialect, "p_keys", rows)


def bind_write_keys(dialect: Dialect, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield lists of the keys of writes of some checkpoints, as many as the checkpoints take."""
    return dialect.statements.list_batches("p_keys", [_write_keys(one) for one in ids])


def _write_keys(checkpoint_id: str) -> tuple[str, ...]:
    """Return the label of a checkpoint's writes and the range of their keys, as stored."""
    return tuple(map(encode_id, (checkpoint_id, *write_key_range(checkpoint_id).values())))
