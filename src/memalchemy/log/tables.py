"""The tables of a log and the conditions that pick its rows."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, ColumnElement, Table, and_, bindparam, literal_column, or_

from memalchemy.keys import encode_id
from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow

THREADS: Table = ThreadRow.__table__  # type: ignore[assignment]
CHECKPOINTS: Table = CheckpointRow.__table__  # type: ignore[assignment]
DELTAS: Table = DeltaRow.__table__  # type: ignore[assignment]
LOG_KEY = ("tenant", "thread_id", "namespace")
STATES = ("snapshot", "delta")
MARK = "w/"
SHORT = 64
"""Characters of a checkpoint's id, as stored, that stand in the keys of its writes; a longer one is
hashed.
"""


class Log(NamedTuple):
    """Which log. ``namespace`` is encoded, see `memalchemy.keys`."""

    tenant: str
    thread_id: str
    namespace: str

    @classmethod
    def of(cls, binds: Mapping[str, Any]) -> Log:
        """The inverse of `binds`, from among others."""
        return cls(*(binds[f"k_{name}"] for name in LOG_KEY))

    def binds(self) -> dict[str, Any]:
        return {f"k_{name}": value for name, value in zip(LOG_KEY, self, strict=True)}


def new_epoch() -> int:
    """Random, so that a log born again under the same name never matches a stale cache."""
    return secrets.randbits(62)


def of_log(table: Table) -> ColumnElement[bool]:
    """The rows of one log; binds ``k_tenant``, ``k_thread_id``, ``k_namespace``."""
    return and_(*(table.c[name] == bindparam(f"k_{name}") for name in LOG_KEY))


def of_thread(table: Table) -> ColumnElement[bool]:
    """The rows of all logs of one thread."""
    return and_(*(table.c[name] == bindparam(f"k_{name}") for name in LOG_KEY[:2]))


def same_log(a: Any, b: Any) -> ColumnElement[bool]:
    return and_(*(a.c[name] == b.c[name] for name in LOG_KEY))


def unexpired(table: Any = THREADS) -> ColumnElement[bool]:
    """Binds ``p_now``."""
    return or_(table.c.expires_at.is_(None), table.c.expires_at > bindparam("p_now"))


def live(table: Any = THREADS) -> ColumnElement[bool]:
    """Neither deleted nor expired; binds ``p_now``."""
    return and_(table.c.deleted_at.is_(None), unexpired(table))


def binds(table: Table, columns: Sequence[str]) -> dict[str, BindParameter[Any]]:
    # Column names are reserved as bind names in an INSERT, hence the prefix.
    return {name: bindparam(f"p_{name}", type_=table.c[name].type) for name in columns}


def words(*values: str) -> list[ColumnElement[str]]:
    """Constants of the schema, such as kinds, as SQL."""
    return [literal_column(f"'{value}'") for value in values]


def key_range(checkpoint_id: str) -> dict[str, str]:
    """The binds of the keys of a checkpoint's writes."""
    stored = encode_id(checkpoint_id)
    if len(stored) > SHORT:
        checkpoint_id = "#" + hashlib.blake2b(stored.encode(), digest_size=20).hexdigest()
    prefix = f"{MARK}{checkpoint_id}"
    return {"p_low": prefix + "/", "p_high": prefix + "0"}  # the character after a slash
