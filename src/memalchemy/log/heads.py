"""The head of a log: read it, lock it, and allot positions under its lock.

The statements here are the only ones that allot positions of a log: for a checkpoint or many, for
entries, and for a row of pending writes. Nothing else writes ``next_seq``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    Table,
    and_,
    bindparam,
    case,
    insert,
    literal,
    literal_column,
    null,
    or_,
    select,
    update,
)

from memalchemy.codec.signed_rows import HEAD, SignedHead
from memalchemy.database.known_heads import KNOWN_HEAD, MOVED_HEAD, KnownHead
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict, Corrupt, UniqueViolation
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
from memalchemy.statements import Program, statement


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


_HEAD = [THREADS.c[name] for name in Head._fields]


@statement()
def read_head(dialect: Dialect) -> Executable:
    """Select the head of a log, as it is."""
    return select(*_HEAD).where(of_log(THREADS))


@statement()
def lock_log(dialect: Dialect) -> Executable:
    """Lock one log."""
    return dialect.statements.lock(THREADS, of_log(THREADS), _HEAD)


@statement()
def find_heads_of_thread(dialect: Dialect) -> Executable | None:
    """Select the heads of all logs of a thread, where `lock_thread` is not a statement."""
    return select(*_HEAD).where(of_thread()) if dialect.distributed else None


@statement()
def lock_thread(dialect: Dialect) -> Executable | None:
    """Lock all logs of a thread."""
    if dialect.distributed:
        return None
    return dialect.statements.lock(THREADS, of_thread(), _HEAD)


@statement()
def set_metadata(dialect: Dialect) -> Executable:
    """Replace the metadata of a live log."""
    return update(THREADS).where(of_log(THREADS), live()).values(**column_binds(THREADS, ["meta"]))


def set_thread_metadata(
    dialect: Dialect, log: Log, metadata: Mapping[str, Any], now: datetime
) -> Program[bool]:
    """Replace the metadata of a log; return whether it is live."""
    binds = log.binds() | {"p_meta": metadata, "p_now": now}
    return bool((yield set_metadata(dialect), binds).touched)


@statement()
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


def _head_binds() -> dict[str, ColumnElement[Any]]:
    """Return binds for the values that a head is moved with."""
    types = {
        "count": THREADS.c.next_seq.type,
        "epoch": THREADS.c.epoch.type,
        "checkpoint_id": THREADS.c.head_id.type,
        "now": THREADS.c.updated_at.type,
        "active_at": THREADS.c.active_at.type,
        "expires_at": THREADS.c.expires_at.type,
    }
    return {name: bindparam(f"p_{name}", type_=type_) for name, type_ in types.items()}


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


def moved_values(purpose: str, given: Mapping[str, Any], counted: Any) -> dict[str, Any]:
    """The columns of a head that allotting changes; *counted* is the number of new checkpoints."""
    values = {
        "next_seq": THREADS.c.next_seq + given["count"],
        "updated_at": given["now"],
        "active_at": given["active_at"],
    }
    if purpose == "write":
        return values
    values["expires_at"] = given["expires_at"]
    values["version"] = THREADS.c.version + (given["count"] if purpose == "checkpoint" else 1)
    if purpose == "checkpoint":
        values["last_ordinal"] = THREADS.c.last_ordinal + counted
        values["previous_id"] = THREADS.c.head_id
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


def _conditions_on_head(purpose: str, condition: str) -> list[ColumnElement[bool]]:
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


def _is_here(table: Table, routed: bool) -> ColumnElement[bool]:
    """Return the condition that a row is of the log of ``threads``.

    Citus sends a statement to one node if each of its tables is compared with the value: *routed*.
    """
    return of_log(table) if routed else same_log(table, THREADS)


def has_base(routed: bool = False) -> ColumnElement[bool]:
    """Return the condition that the base of a new state exists and is the one that was read.

    Binds ``p_base_seq`` and ``p_base_checksum``. The epoch alone does not tell: it stays the same
    where a standby that lagged has taken over, or an older copy was restored.
    """
    return select(literal_column("1")).where(_is_base(routed)).exists()


def _is_base(routed: bool) -> ColumnElement[bool]:
    return and_(
        _is_here(DELTAS, routed),
        DELTAS.c.seq == bindparam("p_base_seq", type_=DELTAS.c.base_seq.type),
        DELTAS.c.checksum == bindparam("p_base_checksum", type_=DELTAS.c.checksum.type),
    )


def has_parent(routed: bool = False) -> ColumnElement[bool]:
    """Return the condition that the checkpoint ``p_parent_id`` exists."""
    named = CHECKPOINTS.c.checkpoint_id == bindparam("p_parent_id")
    return select(literal_column("1")).where(_is_here(CHECKPOINTS, routed), named).exists()


def update_head(
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
        looked: `look_at_log` has found the base and the parent, and counted the new checkpoint:
            what removes a base since then has moved the epoch.

    The statement returns `ALLOTTED_COLUMNS`, or no row.
    """
    conditions = [of_log(THREADS), live(), *_conditions_on_head(purpose, condition)]
    if based:
        conditions.append(THREADS.c.epoch == bindparam("p_epoch"))
    if based and not looked:
        conditions.append(has_base())
    if parent and not looked:
        conditions.append(has_parent())
    values = moved_values(purpose, _head_binds(), _counted() if looked else count_if_new())
    return update(THREADS).where(*conditions).values(values).returning(*ALLOTTED_COLUMNS)


def upsert_head(dialect: Dialect, purpose: str, condition: str = "any") -> Any:
    """Return the upsert that allots positions of a log, and creates it if it does not exist.

    The statement returns no row if the log has expired, is not as the *condition* says, or if the
    key is another log's.
    """
    # The look at the id is in the values, not in the SET: SQLAlchemy leaves the schema out of a
    # subquery there.
    counted = _counted() if dialect.distributed else count_if_new()
    values = name_binds() | new_head_values(purpose, _head_binds(), counted)
    again = revived_values(
        purpose, _head_binds(), dialect.statements.excluded(THREADS, "last_ordinal")
    )
    same = (THREADS.c[name] == dialect.statements.excluded(THREADS, name) for name in NAMES)
    where = and_(unexpired(), *_conditions_on_head(purpose, condition), *same)
    return dialect.statements.upsert(THREADS, values, ["log_id"], again, where=where).returning(
        *ALLOTTED_COLUMNS
    )


@statement(
    purpose=("checkpoint", "entries"),
    condition=CONDITIONS,
    based=(True, False),
    parent=(True, False),
)
def allot(
    dialect: Dialect, purpose: str, condition: str, based: bool, parent: bool
) -> Executable | None:
    """Allot positions of a log that exists."""
    if purpose == "entries":
        exists = dialect.distributed and condition == "version" and not (based or parent)
    else:
        exists = condition not in ("version", "alive")
    if not exists:
        return None
    return update_head(  # type: ignore[no-any-return]
        purpose, condition, based=based, parent=parent, looked=dialect.distributed
    )


def _counted() -> ColumnElement[int]:
    """Return the number of new checkpoints that `look_at_log` has counted."""
    return bindparam("p_new", type_=THREADS.c.last_ordinal.type)


@statement(based=(True, False), parent=(True, False))
def look_at_log(dialect: Dialect, based: bool, parent: bool) -> Executable | None:
    """Look into a log before positions are allotted in it, where that is a statement of its own.

    The row has ``new`` as `count_if_new`; ``base`` and ``parent`` are 1 if they are there.
    """
    if not dialect.distributed:
        return None
    one, zero = literal_column("1", Integer), literal_column("0", Integer)
    columns = [count_if_new().label("new")]
    if based:
        columns.append(case((has_base(routed=True), one), else_=zero).label("base"))
    if parent:
        columns.append(case((has_parent(routed=True), one), else_=zero).label("parent"))
    return select(*columns).select_from(THREADS).where(of_log(THREADS))


def look(
    dialect: Dialect, values: Mapping[str, Any], *, based: bool, parent: bool, counts: bool = True
) -> Program[dict[str, Any] | None]:
    """Return *values* with what `look_at_log` counts; ``None`` if the base or parent is missing.

    Citus sends the UPDATE of a head, which every save waits for, by a shorter way if it looks at no
    other table.

    Args:
        counts: count the checkpoint. Otherwise it is taken for a new one, and there is no *parent*.
    """
    if not counts:
        if based and not (yield find_base(dialect), values):
            return None
        return dict(values) | {"p_new": 1}
    rows = yield look_at_log(dialect, based=based, parent=parent), values
    found = rows[0] if rows else None
    if (based and not (found and found.base)) or (parent and not (found and found.parent)):
        return None
    return dict(values) | {"p_new": found.new if found else 1}


@statement()
def find_base(dialect: Dialect) -> Executable | None:
    """Select 1 if the base of a new state exists and is the one that was read; see `has_base`.

    One table and its whole key: Citus plans it once and sends it by the shortest way.
    """
    if not dialect.distributed:
        return None
    return select(literal_column("1", Integer)).select_from(DELTAS).where(_is_base(routed=True))


@statement()
def uncount_checkpoint(dialect: Dialect) -> Executable | None:
    """Take back that the checkpoint of a save was counted as a new one."""
    if not dialect.distributed:
        return None
    return update(THREADS).where(of_log(THREADS)).values(last_ordinal=THREADS.c.last_ordinal - 1)


@statement(condition=("any", "newest"))
def move_written_head(dialect: Dialect, condition: str) -> Executable | None:
    """Allot the position of a new checkpoint, if the head is a `WrittenHead`.

    The epoch is compared, too: while it is the same, nothing that the head stands on was removed.
    """
    if not dialect.distributed:
        return None
    compared = (
        THREADS.c[name] == bindparam(f"h_{name}", type_=THREADS.c[name].type)
        for name in ("head_id", "next_seq", "updated_at")
    )
    move = update_head("checkpoint", condition, based=True, looked=True)
    return move.where(*compared)  # type: ignore[no-any-return]


# --- A signed head that is known -----------------------------------------------------------------

_COMPARED = tuple(
    THREADS.c[name] for name in (*HEAD, "signature") if name not in ("log_id", "deleted_at")
)
"""The columns of a live head by which it is compared with a known one: all that are signed."""


def move_known_head(purpose: str, *, based: bool = False, routed: bool = False) -> Any:
    """Return the UPDATE that allots positions for a checkpoint or entries, and signs the head.

    It returns no row unless the live head is, in all columns that are signed, the one that
    `known_head_binds` binds, and the checkpoint is new. *based* is that of `update_head`; *routed*
    is for a database that is distributed.
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
        conditions += [THREADS.c.epoch == bindparam("p_epoch"), has_base(routed)]
    values = moved_values(purpose, _head_binds(), literal_column("1"))
    values["signature"] = bindparam("p_head_signature", type_=THREADS.c.signature.type)
    return update(THREADS).where(*conditions).values(values).returning(*ALLOTTED_COLUMNS)


_KNOWN_BINDS = tuple(f"h_{name}" for name in HEAD)


def known_head_binds(
    known: KnownHead, values: Mapping[str, Any], purpose: str = "checkpoint"
) -> dict[str, Any]:
    """Return the binds of a write that moves a *known* head, and what its signer has to know."""
    head, names = known.columns, purpose == "checkpoint"
    placed = dict(values)
    placed.update(zip(_KNOWN_BINDS, head, strict=True))
    placed["h_signature"] = known.signature
    placed["p_seq"] = head.next_seq
    placed["p_previous_id"] = head.head_id
    placed["p_ordinal"] = head.last_ordinal + 1
    placed[KNOWN_HEAD] = known
    placed[MOVED_HEAD] = SignedHead(  # as `moved_values` says
        log_id=head.log_id,
        tenant=head.tenant,
        thread_id=head.thread_id,
        namespace=head.namespace,
        next_seq=head.next_seq + values["p_count"],
        version=head.version + 1,
        last_ordinal=head.last_ordinal + names,
        head_id=values["p_checkpoint_id"] if names else head.head_id,
        previous_id=head.head_id if names else head.previous_id,
        created_at=head.created_at,
        updated_at=values["p_now"],
        expires_at=values["p_expires_at"],
        deleted_at=None,
        meta=head.meta,
    )
    return placed


@statement(purpose=("checkpoint", "entries"), based=(True, False))
def allot_in_known_head(dialect: Dialect, purpose: str, based: bool) -> Executable | None:
    """Allot positions in a signed log whose head is known, and sign the head."""
    if dialect.single_statement_save or not dialect.upserts or (based and purpose == "entries"):
        return None
    return move_known_head(  # type: ignore[no-any-return]
        purpose, based=based, routed=dialect.distributed
    )


@statement()
def allot_locked(dialect: Dialect) -> Executable:
    """Allot positions for entries in a log that is locked; the epoch grows by ``p_epoch_step``."""
    epoch = THREADS.c.epoch + bindparam("p_epoch_step", type_=THREADS.c.epoch.type)
    values = moved_values("entries", _head_binds(), None) | {"epoch": epoch}
    return update(THREADS).where(of_log(THREADS)).values(values).returning(*ALLOTTED_COLUMNS)


_CREATING_CONDITIONS = {
    "checkpoint": ("any", "none", "alive"),
    "entries": ("any", "none"),
    "write": ("any",),
}
"""The conditions under which each purpose may make a log."""


@statement(purpose=PURPOSES, condition=CONDITIONS)
def allot_or_create(dialect: Dialect, purpose: str, condition: str) -> Executable | None:
    """Allot positions of a log, and create it if it does not exist."""
    begins = dialect.upserts and condition in _CREATING_CONDITIONS[purpose]
    return upsert_head(dialect, purpose, condition) if begins else None


@statement(purpose=PURPOSES, condition=CONDITIONS)
def allot_existing(dialect: Dialect, purpose: str, condition: str) -> Executable | None:
    """Allot positions of an existing head: first half of `allot_or_create` without an upsert."""
    if dialect.upserts or condition not in _CREATING_CONDITIONS[purpose]:
        return None
    same = (THREADS.c[name] == bind for name, bind in name_binds().items())
    where = [*same, unexpired(), *_conditions_on_head(purpose, condition)]
    values = revived_values(purpose, _head_binds(), count_if_new())
    return update(THREADS).where(*where).values(values).returning(*ALLOTTED_COLUMNS)


@statement(purpose=PURPOSES)
def create_head(dialect: Dialect, purpose: str) -> Executable | None:
    """Create a head: second half of `allot_or_create` without an upsert."""
    if dialect.upserts:
        return None
    values = name_binds() | new_head_values(purpose, _head_binds(), count_if_new())
    return insert(THREADS).values(values).returning(*ALLOTTED_COLUMNS)


def allot_positions(
    dialect: Dialect, purpose: str, values: Mapping[str, Any], condition: str = "any"
) -> Program[Allotted | None]:
    """Allot positions of a log that may not exist.

    Returns ``None`` if the log has expired or is not as the *condition* says. Binds
    `Log.head_binds` and ``p_count, p_epoch, p_checkpoint_id, p_now, p_active_at, p_expires_at``.
    """
    if dialect.upserts:
        rows = yield allot_or_create(dialect, purpose=purpose, condition=condition), values
        return Allotted._make(rows[0]) if rows else None
    for _ in range(2):
        rows = yield allot_existing(dialect, purpose=purpose, condition=condition), values
        if rows:
            return Allotted._make(rows[0])
        try:
            rows = yield create_head(dialect, purpose=purpose), values
        except UniqueViolation:
            continue  # somebody else created it, or it is not as required: look again
        return Allotted._make(rows[0])
    return None


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
