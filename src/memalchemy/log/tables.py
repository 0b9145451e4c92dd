"""Tables of a log, its key, and the conditions that pick its rows."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Table,
    and_,
    bindparam,
    case,
    literal_column,
    or_,
    select,
    tuple_,
)

from memalchemy.dialects import Dialect
from memalchemy.keys import Log as Log
from memalchemy.keys import encode_id
from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow
from memalchemy.variants import varies

THREADS: Table = ThreadRow.__table__  # type: ignore[assignment]
CHECKPOINTS: Table = CheckpointRow.__table__  # type: ignore[assignment]
DELTAS: Table = DeltaRow.__table__  # type: ignore[assignment]
NAMES = ("tenant", "thread_id", "namespace")
"""The columns of ``threads`` that name a log. The other tables have its key and the tenant."""
CHECKPOINT_INFO = (
    "checkpoint_id",
    "parent_id",
    "seq",
    "meta",
    "created_at",
    "raw_size",
    "stored_size",
    "occurred_at",
)
"""The columns of ``checkpoints`` in a `CheckpointInfo`, in its order, after the log's names."""
CHECKPOINT_ROW = (*CHECKPOINT_INFO, "ordinal", "rests_on", "run_id", "signature")
"""The same, and those that prove a row."""
STATES = ("snapshot", "delta")
WRITE_PREFIX = "w/"
MAX_ID_IN_KEY = 64
"""Characters of a checkpoint's id, as stored, in the keys of its writes; a longer id is hashed."""


def new_epoch() -> int:
    """Return a random epoch, so that a log created again under its name matches no older cache."""
    return secrets.randbits(62)


def truncate_to_second(time: datetime) -> datetime:
    """Return the value of ``threads.active_at`` for an ``updated_at``."""
    return time.replace(microsecond=0)


def _key_bind(table: Table, name: str) -> BindParameter[Any]:
    return bindparam(f"k_{name}", type_=table.c[name].type)


def of_log(table: Any) -> ColumnElement[bool]:
    """Return the condition on the rows of one log; binds ``k_log_id``."""
    return table.c.log_id == bindparam("k_log_id", type_=THREADS.c.log_id.type)  # type: ignore[no-any-return]


@varies
def routed(dialect: Dialect, *tables: Any) -> list[ColumnElement[bool]]:
    """Return the conditions on tables that a statement joins to the rows of one log: none."""
    return []


@varies
def bind_rows_of_logs(
    dialect: Dialect, parameter: str, rows: Sequence[tuple[Log, *tuple[str, ...]]]
) -> Iterator[dict[str, Any]]:
    """Yield the binds of `rows_from_list` for *rows*, in as many lists as they take.

    The first column is the key of the log that each row begins with. The tables that are joined to
    the list are `routed`.
    """
    listed = [(log.key, *values) for log, *values in rows]
    return dialect.statements.list_batches(parameter, listed)


def of_thread() -> ColumnElement[bool]:
    """Condition on the heads of a thread's logs; binds ``k_tenant`` and ``k_thread_id``."""
    return and_(*(THREADS.c[name] == _key_bind(THREADS, name) for name in NAMES[:2]))


def same_log(a: Any, b: Any) -> ColumnElement[bool]:
    """Return the condition that joins rows of one log."""
    return a.c.log_id == b.c.log_id  # type: ignore[no-any-return]


def is_in_window(table: Any) -> ColumnElement[bool]:
    """Return the condition on positions from ``p_low`` to before ``p_high``."""
    low, high = (bindparam(name, type_=table.c.seq.type) for name in ("p_low", "p_high"))
    return and_(table.c.seq >= low, table.c.seq < high)


def is_not_in(table: Any, columns: Sequence[str], rows: Any) -> ColumnElement[bool]:
    """Return the condition that no row of *rows* has the values of a row of *table*.

    NULL is not among them. SQLite compares a tuple that NOT IN does not find with each row, in case
    one has a NULL; where a CASE begins, it need not.
    """
    found = tuple_(*(table.c[name] for name in columns)).in_(
        select(*(rows.c[name] for name in columns))
    )
    is_missing: ColumnElement[int] = case((found, literal_column("0")), else_=literal_column("1"))
    return is_missing != literal_column("0")


def unexpired(table: Any = THREADS) -> ColumnElement[bool]:
    """Return the condition that a log has not expired; binds ``p_now``."""
    return or_(table.c.expires_at.is_(None), table.c.expires_at > bindparam("p_now"))


def live(table: Any = THREADS) -> ColumnElement[bool]:
    """Return the condition that a log is neither deleted nor expired; binds ``p_now``."""
    return and_(table.c.deleted_at.is_(None), unexpired(table))


def column_binds(table: Table, columns: Sequence[str]) -> dict[str, BindParameter[Any]]:
    # Column names are reserved as bind names in an INSERT, hence the prefix.
    """Return a bind for each of some columns, ``p_`` and its name."""
    return {name: bindparam(f"p_{name}", type_=table.c[name].type) for name in columns}


def signature_bind(table: Table) -> dict[str, BindParameter[Any]]:
    """Return the bind of a row's signature, which is NULL unless the row is signed."""
    return {"signature": bindparam("p_signature", value=None, type_=table.c.signature.type)}


def row_key(table: Table) -> dict[str, BindParameter[Any]]:
    """Return binds for the log and the tenant of a row to insert: those of `Log.binds`."""
    return {name: _key_bind(table, name) for name in ("log_id", "tenant")}


def name_binds() -> dict[str, BindParameter[Any]]:
    """Return binds for the key and the names of a head to insert: those of `Log.head_binds`."""
    return {name: _key_bind(THREADS, name) for name in ("log_id", *NAMES)}


def constants(*values: str) -> list[ColumnElement[str]]:
    """Return constants of the schema, such as kinds, as SQL."""
    return [literal_column(f"'{value}'") for value in values]


def write_key_range(checkpoint_id: str) -> dict[str, str]:
    """Return the binds of the range of keys that a checkpoint's pending writes have."""
    stored = encode_id(checkpoint_id)
    if len(stored) > MAX_ID_IN_KEY:
        checkpoint_id = "#" + hashlib.blake2b(stored.encode(), digest_size=20).hexdigest()
    prefix = f"{WRITE_PREFIX}{checkpoint_id}"
    return {"p_low": prefix + "/", "p_high": prefix + "0"}  # the character after a slash
