"""The tables of a log, its key, and the conditions that pick its rows."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import BindParameter, ColumnElement, Table, and_, bindparam, literal_column, or_

from memalchemy.keys import encode_id, log_key
from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow

THREADS: Table = ThreadRow.__table__  # type: ignore[assignment]
CHECKPOINTS: Table = CheckpointRow.__table__  # type: ignore[assignment]
DELTAS: Table = DeltaRow.__table__  # type: ignore[assignment]
NAMES = ("tenant", "thread_id", "namespace")
"""The columns of ``threads`` that name a log. The others have its key, and the tenant."""
STATES = ("snapshot", "delta")
WRITE_PREFIX = "w/"
LONGEST_IN_KEY = 64
"""Characters of a checkpoint's id, as stored, that stand in the keys of its writes; a longer one is
hashed.
"""


class Log(NamedTuple):
    """Identify a log. ``namespace`` is encoded, see `memalchemy.keys`."""

    tenant: str
    thread_id: str
    namespace: str

    @property
    def key(self) -> UUID:
        return log_key(*self)

    def binds(self) -> dict[str, Any]:
        """The binds of `of_log`, and the tenant's."""
        return {"k_log_id": log_key(*self), "k_tenant": self.tenant}

    def names(self) -> dict[str, Any]:
        """The binds of a statement that may make the log's head."""
        return self.binds() | {"k_thread_id": self.thread_id, "k_namespace": self.namespace}


def new_epoch() -> int:
    """Random, so that a log born again under the same name never matches a stale cache."""
    return secrets.randbits(62)


def second_of(time: datetime) -> datetime:
    """The value of ``threads.active_at`` for an ``updated_at``."""
    return time.replace(microsecond=0)


def _bound(table: Table, name: str) -> BindParameter[Any]:
    return bindparam(f"k_{name}", type_=table.c[name].type)


def of_log(table: Any) -> ColumnElement[bool]:
    """The rows of one log; binds ``k_log_id``."""
    return table.c.log_id == bindparam("k_log_id", type_=THREADS.c.log_id.type)  # type: ignore[no-any-return]


def of_thread() -> ColumnElement[bool]:
    """The heads of all logs of one thread; binds ``k_tenant`` and ``k_thread_id``."""
    return and_(*(THREADS.c[name] == _bound(THREADS, name) for name in NAMES[:2]))


def same_log(a: Any, b: Any) -> ColumnElement[bool]:
    return a.c.log_id == b.c.log_id  # type: ignore[no-any-return]


def unexpired(table: Any = THREADS) -> ColumnElement[bool]:
    """Binds ``p_now``."""
    return or_(table.c.expires_at.is_(None), table.c.expires_at > bindparam("p_now"))


def live(table: Any = THREADS) -> ColumnElement[bool]:
    """Neither deleted nor expired; binds ``p_now``."""
    return and_(table.c.deleted_at.is_(None), unexpired(table))


def binds(table: Table, columns: Sequence[str]) -> dict[str, BindParameter[Any]]:
    # Column names are reserved as bind names in an INSERT, hence the prefix.
    return {name: bindparam(f"p_{name}", type_=table.c[name].type) for name in columns}


def row_key(table: Table) -> dict[str, BindParameter[Any]]:
    """The log and the tenant of a row to insert; binds those of `Log.binds`."""
    return {name: _bound(table, name) for name in ("log_id", "tenant")}


def names() -> dict[str, BindParameter[Any]]:
    """The key and the names of a head to insert; binds those of `Log.names`."""
    return {name: _bound(THREADS, name) for name in ("log_id", *NAMES)}


def words(*values: str) -> list[ColumnElement[str]]:
    """Constants of the schema, such as kinds, as SQL."""
    return [literal_column(f"'{value}'") for value in values]


def key_range(checkpoint_id: str) -> dict[str, str]:
    """The binds of the keys of a checkpoint's writes."""
    stored = encode_id(checkpoint_id)
    if len(stored) > LONGEST_IN_KEY:
        checkpoint_id = "#" + hashlib.blake2b(stored.encode(), digest_size=20).hexdigest()
    prefix = f"{WRITE_PREFIX}{checkpoint_id}"
    return {"p_low": prefix + "/", "p_high": prefix + "0"}  # the character after a slash
