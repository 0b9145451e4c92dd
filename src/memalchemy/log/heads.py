"""The head of a log: read it, lock it, and allot positions under its lock.

The statements here are the only ones that allot positions of a log: for a checkpoint or many, for
entries, and for a row of pending writes. Besides them only what copies a log writes ``next_seq``:
`memalchemy.log.copy` within a database, `memalchemy.maintenance.copying` into another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    Table,
    and_,
    bindparam,
    case,
    literal,
    literal_column,
    null,
    or_,
    select,
    update,
)

from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict, Corrupt
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    NAMES,
    THREADS,
    Log,
    column_binds,
    live,
    name_binds,
    of_log,
    of_thread,
    same_log,
    truncate_to_second,
    unexpired,
)
from memalchemy.proofs import REFUSED, REMOVED_BY_NAME
from memalchemy.protection.known_heads import HEAD_MOVE, HeadMove, KnownHead
from memalchemy.rows import HEAD, KNOWN_HEAD
from memalchemy.statements import Program, statement
from memalchemy.variants import varies


class Head(NamedTuple):
    """Row of ``threads``."""

    namespace: str
    next_seq: int
    epoch: int
    head_id: str | None
    expires_at: datetime | None
    deleted_at: datetime | None
    version: int
    tenant: str
    thread_id: str

    @property
    def log(self) -> Log:
        return Log(self.tenant, self.thread_id, self.namespace)

    def is_live(self, now: datetime) -> bool:
        return self.deleted_at is None and not self.is_expired(now)

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def check_names(self, log: Log) -> None:
        """Raise `Corrupt` unless this is the head of *log*."""
        if self.log != log:
            raise Corrupt(
                f"the row of threads with the key of thread {log.thread_id!r} names another log"
            )


HEAD_COLUMNS = [THREADS.c[name] for name in Head._fields]


@statement(proves="removed rows", unproven=REFUSED)
def read_head(dialect: Dialect) -> Executable:
    """Select the head of a log, as it is."""
    return select(*HEAD_COLUMNS).where(of_log(THREADS))


@statement(proves="written log", unproven=REMOVED_BY_NAME)
def lock_log(dialect: Dialect) -> Executable:
    """Lock one log."""
    return dialect.statements.lock(THREADS, of_log(THREADS), HEAD_COLUMNS)


@statement(unproven=REMOVED_BY_NAME)
def lock_thread(dialect: Dialect) -> Executable:
    """Lock all logs of a thread."""
    return dialect.statements.lock(THREADS, of_thread(), HEAD_COLUMNS)


@statement(changes=HEAD)
def set_metadata(dialect: Dialect) -> Executable:
    """Replace the metadata of a live log."""
    return update(THREADS).where(of_log(THREADS), live()).values(**column_binds(THREADS, ["meta"]))


def set_thread_metadata(
    dialect: Dialect, log: Log, metadata: Mapping[str, Any], now: datetime
) -> Program[bool]:
    """Replace the metadata of a log; return whether it is live."""
    binds = log.binds() | {"p_meta": metadata, "p_now": now}
    return bool((yield set_metadata(dialect), binds).touched)


@statement(changes=HEAD)
def set_times(dialect: Dialect) -> Executable:
    """Set the times of a live log; that of its beginning is only ever set to an earlier one."""
    names = ("created_at", "updated_at", "active_at")
    given = column_binds(THREADS, names)
    began = THREADS.c.created_at
    earlier = case((began > given["created_at"], given["created_at"]), else_=began)
    return update(THREADS).where(of_log(THREADS), live()).values(given | {"created_at": earlier})


def date_log(
    dialect: Dialect, log: Log, began: datetime, ended: datetime, now: datetime
) -> Program[None]:
    """Date a log that was imported by what happened in it, and not by the import."""
    binds = log.binds() | {
        "p_created_at": began,
        "p_updated_at": ended,
        "p_active_at": truncate_to_second(ended),
        "p_now": now,
    }
    yield set_times(dialect), binds


# --- Allotting -----------------------------------------------------------------------------------

PURPOSES = ("checkpoint", "entries", "write")
"""The uses of positions.

A checkpoint moves the newest checkpoint and the number of checkpoints. Entries move the version
once, however many they are. A row of pending writes moves none of these.
"""

CONDITIONS = ("any", "none", "newest", "version", "alive")
"""The state in which a log must be.

``none``: it has no checkpoint, or no entry, ever or since it was deleted. ``newest``:
``p_expected`` is its newest checkpoint. ``version``: its version is ``p_expected``. ``alive``: it
is not deleted.
"""


class Allotted(NamedTuple):
    """The head of a log after positions were allotted; the last of them is ``next_seq - 1``."""

    next_seq: int
    version: int
    epoch: int
    previous_id: str | None
    last_ordinal: int


ALLOTTED_COLUMNS = tuple(THREADS.c[name] for name in Allotted._fields)


MOVED_WITH = {
    "epoch": THREADS.c.epoch.type,
    "count": THREADS.c.next_seq.type,
    "checkpoint_id": THREADS.c.head_id.type,
    "now": THREADS.c.updated_at.type,
    "active_at": THREADS.c.active_at.type,
    "expires_at": THREADS.c.expires_at.type,
}
"""The names and types of the values that a head is moved with."""


def head_binds() -> dict[str, ColumnElement[Any]]:
    """Return binds for the values that a head is moved with."""
    return {name: bindparam(f"p_{name}", type_=type_) for name, type_ in MOVED_WITH.items()}


def _has_checkpoint() -> ColumnElement[bool]:
    """Return the condition that the log has the checkpoint ``p_checkpoint_id``."""
    known = CHECKPOINTS.alias("known")
    same = known.c.checkpoint_id == bindparam("p_checkpoint_id", type_=known.c.checkpoint_id.type)
    return select(literal_column("1")).where(of_log(known), same).exists()


def count_if_new() -> ColumnElement[int]:
    """Return 1 if the checkpoint ``p_checkpoint_id`` is new in its log, 0 if it is replaced.

    On PostgreSQL the look at its id is as old as the statement, not as the lock: of two saves that
    race with the same new id both are counted, and no checkpoint has the lower number.
    """
    return case((_has_checkpoint(), literal_column("0")), else_=literal_column("1"))


@varies
def counted_checkpoint(dialect: Dialect) -> ColumnElement[int]:
    """Return the number of new checkpoints that a save makes: one, unless it replaces one."""
    return count_if_new()


def moved_values(
    purpose: str, given: Mapping[str, Any], counted: Any, head: Any = THREADS.c
) -> dict[str, Any]:
    """Return what the columns of a head become that allotting changes.

    This is the one place that says so: as SQL of binds, and as values of the values of a head.

    Args:
        given: what a head is moved with, by the names that `head_binds` has.
        counted: the number of new checkpoints.
        head: the columns as they were, or their values.
    """
    values = {
        "next_seq": head.next_seq + given["count"],
        "updated_at": given["now"],
        "active_at": given["active_at"],
    }
    if purpose == "write":
        return values
    values["expires_at"] = given["expires_at"]
    values["version"] = head.version + (given["count"] if purpose == "checkpoint" else 1)
    if purpose == "checkpoint":
        values["last_ordinal"] = head.last_ordinal + counted
        values["previous_id"] = head.head_id
        values["head_id"] = given["checkpoint_id"]
    return values


def revived_values(purpose: str, given: Mapping[str, Any], counted: Any) -> dict[str, Any]:
    """Return `moved_values` of a head that may be a tombstone, which comes to life again.

    A pending write does not bring it to life.
    """
    values = moved_values(purpose, given, counted)
    if purpose == "write":
        return values
    deleted = THREADS.c.deleted_at.is_not(None)
    return values | {
        "epoch": case((deleted, THREADS.c.epoch + 1), else_=THREADS.c.epoch),
        "created_at": case((deleted, given["now"]), else_=THREADS.c.created_at),
        "deleted_at": null(),
    }


def new_head_values(purpose: str, given: Mapping[str, Any], counted: Any) -> dict[str, Any]:
    """Return the columns of a new head, without its key and names."""
    is_checkpoint = purpose == "checkpoint"
    return {
        "next_seq": given["count"] + literal_column("1"),
        "version": given["count"] if is_checkpoint else literal(1, THREADS.c.version.type),
        "last_ordinal": counted if is_checkpoint else literal(0, THREADS.c.last_ordinal.type),
        "epoch": given["epoch"],
        "head_id": given["checkpoint_id"] if is_checkpoint else null(),
        "meta": literal({}, THREADS.c.meta.type),
        "created_at": given["now"],
        "updated_at": given["now"],
        "active_at": given["active_at"],
        "expires_at": given["expires_at"],
    }


def conditions_on_head(purpose: str, condition: str) -> list[ColumnElement[bool]]:
    """Return one of `CONDITIONS` as SQL."""
    expected = THREADS.c.head_id if condition == "newest" else THREADS.c.version
    if condition in ("newest", "version"):
        return [expected == bindparam("p_expected", type_=expected.type)]
    if condition == "alive":
        return [THREADS.c.deleted_at.is_(None)]
    if condition == "none" and purpose == "checkpoint":
        return [THREADS.c.head_id.is_(None)]
    if condition == "none":
        return [THREADS.c.deleted_at.is_not(None)]
    if purpose == "write":
        # Writes of a checkpoint that was made after the deletion are stored, and the log stays a
        # tombstone until that checkpoint is saved.
        made = bindparam("p_made_at", type_=THREADS.c.deleted_at.type)
        return [or_(THREADS.c.deleted_at.is_(None), THREADS.c.deleted_at < made)]
    return []


@varies
def is_here(dialect: Dialect, table: Table) -> ColumnElement[bool]:
    """Return the condition that a row is of the log of ``threads``."""
    return same_log(table, THREADS)


def has_base(dialect: Dialect) -> ColumnElement[bool]:
    """Return the condition that the base of a new state exists and is the one that was read.

    Binds ``p_base_seq`` and ``p_base_checksum``. The epoch alone does not tell: it stays the same
    where a standby that lagged has taken over, or an older copy was restored.
    """
    return select(literal_column("1")).where(is_base(dialect)).exists()


def is_base(dialect: Dialect) -> ColumnElement[bool]:
    """Return the condition on the row of ``deltas`` that `has_base` is about."""
    return and_(
        is_here(dialect, DELTAS),
        DELTAS.c.seq == bindparam("p_base_seq", type_=DELTAS.c.base_seq.type),
        DELTAS.c.checksum == bindparam("p_base_checksum", type_=DELTAS.c.checksum.type),
    )


def has_parent(dialect: Dialect) -> ColumnElement[bool]:
    """Return the condition that the checkpoint ``p_parent_id`` exists."""
    named = CHECKPOINTS.c.checkpoint_id == bindparam("p_parent_id")
    return select(literal_column("1")).where(is_here(dialect, CHECKPOINTS), named).exists()


def update_head(
    dialect: Dialect,
    purpose: str,
    condition: str = "any",
    *,
    based: bool = False,
    parent: bool = False,
    looked: bool = False,
) -> Any:
    """Return the UPDATE that allots positions of a live log that is as the *condition* says.

    Args:
        based: also require the epoch ``p_epoch`` and `has_base`.
        parent: also require `has_parent`.
        looked: a statement before has found the base and the parent, and counted the new
            checkpoint: what removes a base since then has moved the epoch.

    The statement returns `ALLOTTED_COLUMNS`, or no row.
    """
    conditions = [of_log(THREADS), live(), *conditions_on_head(purpose, condition)]
    if based:
        conditions.append(THREADS.c.epoch == bindparam("p_epoch"))
    if based and not looked:
        conditions.append(has_base(dialect))
    if parent and not looked:
        conditions.append(has_parent(dialect))
    values = moved_values(purpose, head_binds(), counted_checkpoint(dialect))
    return update(THREADS).where(*conditions).values(values).returning(*ALLOTTED_COLUMNS)


def upsert_head(dialect: Dialect, purpose: str, condition: str = "any") -> Any:
    """Return the upsert that allots positions of a log, and creates it if it does not exist.

    The statement returns no row if the log has expired, is not as the *condition* says, or if the
    key is another log's.
    """
    # The look at the id is in the values, not in the SET: SQLAlchemy leaves the schema out of a
    # subquery there.
    values = name_binds() | new_head_values(purpose, head_binds(), counted_checkpoint(dialect))
    again = revived_values(
        purpose, head_binds(), dialect.statements.excluded(THREADS, "last_ordinal")
    )
    same = (THREADS.c[name] == dialect.statements.excluded(THREADS, name) for name in NAMES)
    where = and_(unexpired(), *conditions_on_head(purpose, condition), *same)
    return dialect.statements.upsert(THREADS, values, ["log_id"], again, where=where).returning(
        *ALLOTTED_COLUMNS
    )


@statement(
    proves="written log",
    purpose=("checkpoint", "entries"),
    condition=CONDITIONS,
    based=(True, False),
    parent=(True, False),
    changes=HEAD,
)
def allot(
    dialect: Dialect, purpose: str, condition: str, based: bool, parent: bool
) -> Executable | None:
    """Allot positions of a log that exists."""
    if purpose == "entries" or condition in ("version", "alive"):
        return None
    return update_head(  # type: ignore[no-any-return]
        dialect, purpose, condition, based=based, parent=parent
    )


# --- A signed head that is known -----------------------------------------------------------------

_COMPARED = tuple(
    THREADS.c[name] for name in (*HEAD.signed, "signature") if name not in ("log_id", "deleted_at")
)
"""The columns of a live head by which it is compared with a known one: all that are signed."""


def move_known_head(dialect: Dialect, purpose: str, *, based: bool = False) -> Any:
    """Return the UPDATE that allots positions for a checkpoint or entries, and signs the head.

    It returns no row unless the live head is, in all columns that are signed, the one that
    `known_head_binds` binds, and the checkpoint is new. *based* is that of `update_head`.
    """
    binds = ((column, bindparam(f"h_{column.key}", type_=column.type)) for column in _COMPARED)
    conditions = [
        column.is_not_distinct_from(bind) if column.nullable else column == bind
        for column, bind in binds
    ]
    conditions += [of_log(THREADS), live()]
    if purpose == "checkpoint":
        conditions.append(~_has_checkpoint())
    if based:
        conditions += [THREADS.c.epoch == bindparam("p_epoch"), has_base(dialect)]
    values = moved_values(purpose, head_binds(), literal_column("1"))
    values["signature"] = bindparam("p_head_signature", type_=THREADS.c.signature.type)
    return update(THREADS).where(*conditions).values(values).returning(*ALLOTTED_COLUMNS)


_KNOWN_BINDS = tuple(f"{KNOWN_HEAD.prefix}_{name}" for name in HEAD.signed)
_values_moved_with = itemgetter(*(f"p_{name}" for name in MOVED_WITH))


def known_head_binds(
    known: KnownHead, values: Mapping[str, Any], purpose: str = "checkpoint"
) -> dict[str, Any]:
    """Return the binds of a write that moves a *known* head, and what its signer has to know."""
    head = known.columns
    given = dict(zip(MOVED_WITH, _values_moved_with(values), strict=True))
    moved = moved_values(purpose, given, 1, head)
    del moved["active_at"]  # which no signature covers
    leaves = head._replace(**moved)
    placed = dict(values)
    placed.update(zip(_KNOWN_BINDS, head, strict=True))
    placed["h_signature"] = known.signature
    placed["p_seq"] = head.next_seq
    placed["p_previous_id"] = head.head_id
    placed["p_ordinal"] = leaves.last_ordinal
    placed[HEAD_MOVE] = HeadMove(known, leaves)
    return placed


@statement(
    proves="written log", purpose=("checkpoint", "entries"), based=(True, False), writes=KNOWN_HEAD
)
def allot_in_known_head(dialect: Dialect, purpose: str, based: bool) -> Executable | None:
    """Allot positions in a signed log whose head is known, and sign the head."""
    if based and purpose == "entries":
        return None
    return move_known_head(dialect, purpose, based=based)  # type: ignore[no-any-return]


@statement(proves="written log", changes=HEAD)
def allot_locked(dialect: Dialect) -> Executable:
    """Allot positions for entries in a log that is locked; the epoch grows by ``p_epoch_step``."""
    epoch = THREADS.c.epoch + bindparam("p_epoch_step", type_=THREADS.c.epoch.type)
    values = moved_values("entries", head_binds(), None) | {"epoch": epoch}
    return update(THREADS).where(of_log(THREADS)).values(values).returning(*ALLOTTED_COLUMNS)


CREATING_CONDITIONS = {
    "checkpoint": ("any", "none", "alive"),
    "entries": ("any", "none"),
    "write": ("any",),
}
"""The conditions under which each purpose may make a log."""


@statement(proves="written log", purpose=PURPOSES, condition=CONDITIONS, writes=HEAD)
def allot_or_create(dialect: Dialect, purpose: str, condition: str) -> Executable | None:
    """Allot positions of a log, and create it if it does not exist."""
    if condition not in CREATING_CONDITIONS[purpose]:
        return None
    return upsert_head(dialect, purpose, condition)  # type: ignore[no-any-return]


@varies
def allot_positions(
    dialect: Dialect, purpose: str, values: Mapping[str, Any], condition: str = "any"
) -> Program[Allotted | None]:
    """Allot positions of a log that may not exist.

    Returns ``None`` if the log has expired or is not as the *condition* says. Binds
    `Log.head_binds` and ``p_count, p_epoch, p_checkpoint_id, p_now, p_active_at, p_expires_at``.
    """
    rows = yield allot_or_create(dialect, purpose=purpose, condition=condition), values
    return Allotted._make(rows[0]) if rows else None


# --- Errors ----------------------------------------------------------------------


def version_conflict(log: Log, expected: object, current: int) -> Conflict:
    """Return the error for a log that is not at the version *expected*; *current* 0 is no log."""
    found = f"at version {current}" if current else "not there"
    wanted = f"at version {expected}" if expected else "not to exist"
    return Conflict(
        f"the log of thread {log.thread_id!r} was expected {wanted}, and it is {found}; nothing "
        "was changed. Read what is new in it, and decide again.",
        expected=expected,
        current=current,
    )
