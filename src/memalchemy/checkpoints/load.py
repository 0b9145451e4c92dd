"""Load states: the rows that a checkpoint is rebuilt from, alone or with its pending writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    Executable,
    String,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    select,
    type_coerce,
    union_all,
)

from memalchemy.checkpoints.skip_deltas import (
    Link,
    Tip,
    decode_tip,
    describe_tip,
)
from memalchemy.codec import encryption, payloads
from memalchemy.codec.deltas import CODEC
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.places import write_place
from memalchemy.codec.signatures import SigningKeys
from memalchemy.contracts import PendingWrite, Snapshot
from memalchemy.database import Decode
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, KeyMissing, about
from memalchemy.log import Log
from memalchemy.log.pending_writes import is_write
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    THREADS,
    live,
    name_binds,
    of_log,
    routed,
    same_log,
    write_key_range,
)
from memalchemy.protection.signed_reads import (
    check_chain,
    check_nothing_missing,
    check_write,
    missing_checkpoint,
    no_proof_columns,
    proof_columns,
)
from memalchemy.statements import Program, column_bind, statement
from memalchemy.variants import varies

STATE_ROW = 2
"""``overwrites`` of a state's row, where states and writes are read together.

The row of a pending write has 0, 1 or NULL.
"""

LINK = ("seq", "base_seq", "depth", "codec", "checksum", "payload")
_PROVEN_WRITE = ("entry_key", "stored_at")
"""The columns of pending writes that only their signatures need."""


def _link_columns(signed: bool) -> tuple[str, ...]:
    return (*LINK, "signature") if signed else LINK


def select_position(which: str) -> Any:
    """Select the position of a checkpoint, as a scalar: so the planner knows it is one row."""
    wanted = CHECKPOINTS.alias("wanted")
    position = select(func.max(wanted.c.seq) if which == "newest" else wanted.c.seq).where(
        of_log(wanted)
    )
    if which == "named":
        position = position.where(wanted.c.checkpoint_id == bindparam("p_checkpoint_id"))
    if which == "highest":
        position = position.order_by(wanted.c.checkpoint_id.desc()).limit(1)
    return position.scalar_subquery()


def _identity_columns(signed: bool) -> list[Any]:
    """Return the columns that tell the row of a checkpoint from every other one."""
    own = [CHECKPOINTS.c.checkpoint_id, THREADS.c.epoch, DELTAS.c.seq, DELTAS.c.checksum]
    return [*own, DELTAS.c.signature] if signed else own


def _payload_unless_held(signed: bool) -> Any:
    """Select the payload of a checkpoint, or NULL if its row is the one that `held_binds` names."""
    is_held = and_(*(one == column_bind(one, "held") for one in _identity_columns(signed)))
    payload = DELTAS.c.payload
    return type_coerce(case((is_held, null()), else_=payload), payload.type).label(payload.key)


def _select_chain(which: str, *also: Any, signed: bool = False) -> Any:
    """Select the rows that a checkpoint is rebuilt from, each with the columns *also*.

    Of a checkpoint that this process holds it is one row, without its payload.

    With *signed*, the checkpoint's own row has the columns that prove it, and those of the head of
    its log. A head with another tenant, thread or namespace is not found.
    """
    link = _link_columns(signed)
    own = {"payload": _payload_unless_held(signed)}
    names = [THREADS.c[name] == bind for name, bind in name_binds().items()] if signed else []
    start = CHECKPOINTS.c.seq == select_position(which)
    first = (
        select(
            *also,
            CHECKPOINTS.c.checkpoint_id,
            CHECKPOINTS.c.raw_size,
            THREADS.c.epoch.label("epoch"),
            *(own[name] if name in own else DELTAS.c[name] for name in link),
            *(proof_columns() if signed else ()),
        )
        # PostgreSQL locks tables in the order in which they stand, and so does a revision.
        .select_from(THREADS)
        .join(DELTAS, same_log(DELTAS, THREADS))
        .join(CHECKPOINTS, and_(same_log(CHECKPOINTS, DELTAS), CHECKPOINTS.c.seq == DELTAS.c.seq))
        .where(of_log(CHECKPOINTS), start, live(), *names)
        .cte("chain", recursive=True)
    )
    base = DELTAS.alias("base")
    carried = [*(column.name for column in also), "checkpoint_id", "raw_size", "epoch"]
    return first.union_all(
        select(
            *(first.c[name] for name in carried),
            *(base.c[name] for name in link),
            *(no_proof_columns() if signed else ()),
        )
        .select_from(first)
        # A base is always earlier; a damaged row that says otherwise must not go round for ever.
        .join(base, and_(base.c.seq == first.c.base_seq, base.c.seq < first.c.seq))
        .where(of_log(base), first.c.payload.is_not(None))
    )


def _is_newest(which: str) -> Any:
    """Return the column that tells `check_chain` whether the newest checkpoint was asked for."""
    return literal_column(str(int(which == "newest"))).label("is_newest")


# --- A state that this process holds -------------------------------------------------------------

_HELD = tuple(f"held_{one.key}" for one in _identity_columns(signed=True))
_NOTHING_HELD = dict.fromkeys(_HELD)
_seq_of = attrgetter("seq")
_identity_of = attrgetter(*(one.key for one in _identity_columns(signed=False)))


def held_binds(known: Tip | None) -> dict[str, Any]:
    """Return the binds that name the row of *known*, the checkpoint that this process holds.

    Without its signature no row that is signed is that one.
    """
    if known is None:
        return _NOTHING_HELD
    return dict(zip(_HELD, (*known.identity, known.signature), strict=True))


def _is_held(log: Log, rows: Sequence[Any], known: Tip, keys: SigningKeys) -> bool:
    """Return whether the rows that were read say that the checkpoint is still *known*.

    Raises:
        Corrupt, NotSigned, KeyMissing: its name, or the head of its log, is not what was signed.
    """
    newest = rows[-1]
    if newest.payload is not None or _identity_of(newest) != known.identity:
        return False
    try:
        check_chain(log, rows, keys)
    except (Corrupt, KeyMissing) as error:
        raise about(error, describe_tip(log, known)) from error
    return getattr(newest, "signature", None) == known.signature


# --- A state -------------------------------------------------------------------------------------


@statement(
    proves=("state", "log"),
    signed_form="signed",
    which=("newest", "named"),
    signed=(False, True),
)
def read_chain(dialect: Dialect, which: str, signed: bool) -> Executable:
    """Select the rows of a checkpoint, with the epoch of its log.

    With *signed*, also the columns that prove them. The recursion carries the payload: PostgreSQL
    has planned a later join as a scan of the whole log. The database does not sort the rows, which
    would copy the payloads.
    """
    chain = _select_chain(which, signed=signed)
    return select(chain, *([_is_newest(which)] if signed else ()))


@varies
def load_chain(
    dialect: Dialect,
    log: Log,
    checkpoint_id: str | None,
    now: datetime,
    keys: SigningKeys,
    known: Tip | None = None,
) -> Program[Tip | None]:
    """Return a checkpoint as stored (the newest, without an id); ``None`` if it does not exist.

    If it is *known*, the tip that this process holds, that is returned and no payload is read.
    """
    which = "newest" if checkpoint_id is None else "named"
    values = log.head_binds() | held_binds(known)
    values |= {"p_now": now, "p_checkpoint_id": checkpoint_id}
    chain = read_chain(dialect, which=which)
    rows: Sequence[Any] = yield chain, values
    if not rows:
        rows = yield from _read_rows_again(dialect, log, checkpoint_id, now, keys, chain, values)
    return _to_tip(log, rows, known, keys) if rows else None


def _read_rows_again(
    dialect: Dialect,
    log: Log,
    checkpoint_id: str | None,
    now: datetime,
    keys: SigningKeys,
    query: Executable,
    values: dict[str, Any],
) -> Program[Sequence[Any]]:
    """Return the rows of a checkpoint that was not found, if it was saved meanwhile.

    Raises:
        Corrupt: its state is missing; or see `check_sums`.
    """
    seq = yield from missing_checkpoint(dialect, log, checkpoint_id, now, keys)
    while seq is not None:
        rows = yield query, values
        if any(getattr(row, "overwrites", STATE_ROW) == STATE_ROW for row in rows):
            return rows
        before = seq
        seq = yield from missing_checkpoint(dialect, log, checkpoint_id, now, keys)
        if seq == before:
            raise Corrupt(f"a state of thread {log.thread_id!r} is missing at position {seq}")
    return ()


def _to_tip(log: Log, rows: Sequence[Any], known: Tip | None, keys: SigningKeys) -> Tip:
    """Return *known* if it is what was read, and else the rows of a chain as a `Tip` that is not
    checked and whose states are not decoded.
    """
    if known is not None and _is_held(log, rows, known, keys):
        return known
    rows = sorted(rows, key=_seq_of)
    newest = rows[-1]
    return Tip(newest.checkpoint_id, newest.epoch, _to_links(rows), newest.raw_size, read=rows)


def _to_links(rows: Sequence[Any]) -> tuple[Link, ...]:
    """Return the rows of a chain, snapshot first, as links that are not decoded."""
    links: list[Link] = []
    base: int | None = None
    for row in rows:
        if row.base_seq != base or row.payload is None:
            missing = row.base_seq if row.base_seq != base else row.seq
            raise Corrupt(f"a state that others build on is missing at position {missing}")
        if encryption.plain_codec(row.codec) != CODEC:
            raise Corrupt(f"a stored state has the unknown codec {row.codec!r}")
        links.append(Link(row.seq, row.depth, bytes(row.payload), row.checksum, None, row.codec))
        base = row.seq
    return tuple(links)


def chain_decoder(
    log: Log, keyring: Keyring, known: Tip | None
) -> Decode[Tip | None, tuple[Tip, dict[str, Any]] | None]:
    """Return the work that rebuilds and decodes what `load_chain` read; *known* is the held tip.

    Raises:
        Corrupt, KeyMissing, NotEncrypted: it cannot be read; the message names the checkpoint.
    """
    return Decode(partial(decode_tip, log, keyring, known), decoded_size)


def decoded_size(tip: Tip | None) -> int:
    """Return the number of bytes to decode."""
    return 0 if tip is None else tip.raw_size


# --- A state with its pending writes -------------------------------------------------------------


def _select_existing_parent(dialect: Dialect) -> Any:
    """Select a checkpoint's parent, if it has not been deleted."""
    parent = CHECKPOINTS.alias("parent")
    return (
        select(parent.c.checkpoint_id)
        .where(same_log(parent, CHECKPOINTS), parent.c.checkpoint_id == CHECKPOINTS.c.parent_id)
        .where(*routed(dialect, parent))
        .correlate(CHECKPOINTS)
        .scalar_subquery()
        .label("parent_id")
    )


@statement(
    proves=("state", "write", "log"),
    signed_form="signed",
    which=("newest", "named", "highest"),
    signed=(False, True),
)
def read_snapshot(dialect: Dialect, which: str, signed: bool) -> Executable:
    """Select the rows of a checkpoint, as `read_chain`, and its pending writes, in one round trip.

    *which* is the ``newest``, the one ``named``, or the one of the ``highest`` id.
    """
    chain = _select_chain(which, _select_existing_parent(dialect), signed=signed)
    state_row: Any = literal_column(str(STATE_ROW)).label("overwrites")
    states = select(chain, state_row)
    no_proof: list[Any] = []
    proof: list[Any] = []
    if signed:
        nothing = [cast(null(), DELTAS.c[name].type).label(name) for name in _PROVEN_WRITE]
        states = select(chain, state_row, *nothing, _is_newest(which))
        no_proof = no_proof_columns()
        proof = [*(DELTAS.c[name] for name in _PROVEN_WRITE), _is_newest("named")]
    key, text = DELTAS.c.entry_key, String()
    low: Any
    high: Any
    if which == "named":
        wanted: Any = bindparam("p_checkpoint_id", type_=DELTAS.c.label.type)
        low, high = (bindparam(bound, type_=key.type) for bound in ("p_low", "p_high"))
    else:
        name = CHECKPOINTS.alias("name")
        wanted = (
            select(name.c.checkpoint_id)
            .where(of_log(name), name.c.seq == select_position(which))
            .scalar_subquery()
        )
        low, high = (
            literal_column("'w/'", text).concat(wanted).concat(literal_column(end, text))
            for end in ("'/'", "'0'")
        )
    writes = select(
        DELTAS.c.label.label("parent_id"),
        DELTAS.c.label.label("checkpoint_id"),
        DELTAS.c.seq.label("raw_size"),
        DELTAS.c.seq.label("epoch"),
        *(DELTAS.c[name] for name in _link_columns(signed)),
        *no_proof,
        DELTAS.c.overwrites,
        *proof,
    ).where(of_log(DELTAS), is_write(), key >= low, key < high, DELTAS.c.label == wanted)
    return union_all(states, writes)


class StoredSnapshot(tuple[Tip, str | None, list[Any]]):
    """Chain as stored, its checkpoint's parent, and the rows of its pending writes."""

    __slots__ = ()


def load_snapshot(
    dialect: Dialect,
    log: Log,
    checkpoint_id: str | None,
    newest_by: str,
    now: datetime,
    keys: SigningKeys,
    known: Tip | None = None,
) -> Program[StoredSnapshot | None]:
    """Return a checkpoint as stored, with its pending writes; ``None`` if it does not exist.

    Without a *checkpoint_id* the newest by ``position``, or by ``id``. *known* is as for
    `load_chain`.
    """
    values = log.head_binds() | held_binds(known)
    values |= {"p_now": now, "p_checkpoint_id": checkpoint_id}
    which = {"position": "newest", "id": "highest"}[newest_by]
    if checkpoint_id is not None:
        which = "named"
        values |= write_key_range(checkpoint_id)
    query = read_snapshot(dialect, which=which)
    rows: Sequence[Any] = yield query, values
    states = [row for row in rows if row.overwrites == STATE_ROW]
    if states:
        yield from check_nothing_missing(dialect, log, keys)
    else:
        rows = yield from _read_rows_again(dialect, log, checkpoint_id, now, keys, query, values)
        states = [row for row in rows if row.overwrites == STATE_ROW]
    if not states:
        return None
    writes = [row for row in rows if row.overwrites != STATE_ROW]
    return StoredSnapshot((_to_tip(log, states, known, keys), states[0].parent_id, writes))


def snapshot_decoder(
    log: Log, keyring: Keyring, known: Tip | None
) -> Decode[StoredSnapshot | None, tuple[Tip, Snapshot] | None]:
    """Return the work that decodes what `load_snapshot` read; *known* is the held tip.

    Raises:
        Corrupt, KeyMissing, NotEncrypted: it cannot be read; the message names the checkpoint.
    """

    def decode(stored: StoredSnapshot | None) -> tuple[Tip, Snapshot] | None:
        if stored is None:
            return None
        tip, parent_id, rows = stored
        rebuilt, state = decode_tip(log, keyring, known, tip)
        writes = decode_pending_writes(log, tip.checkpoint_id, rows, keyring)
        return rebuilt, Snapshot(tip.checkpoint_id, parent_id, state, writes)

    return Decode(decode, lambda stored: 0 if stored is None else int(stored[0].raw_size))


def decode_pending_writes(
    log: Log, checkpoint_id: str, rows: Iterable[Any], keyring: Keyring
) -> list[PendingWrite]:
    """Decode the pending writes of a checkpoint; return them by (task_path, task_id, index).

    Of writes of one task with one index the first stands, unless a later call was to overwrite;
    below 0 the last.
    """
    found: dict[tuple[str, int], PendingWrite] = {}
    for row in sorted(rows, key=lambda row: row.seq):
        check_write(log, checkpoint_id, row, keyring.signing)
        place = write_place(log.tenant, log.key, row.seq, checkpoint_id)
        stored = keyring.decrypt(row.codec, row.checksum, bytes(row.payload), place)
        task_id, task_path, writes = payloads.decode_writes(
            stored.payload, stored.checksum, stored.codec
        )
        for index, channel, value in writes:
            if row.overwrites or index < 0 or (task_id, index) not in found:
                found[task_id, index] = PendingWrite(task_id, index, channel, value, task_path)
    return sorted(found.values(), key=lambda one: (one.task_path, one.task_id, one.index))
