"""Rewrite a log: encode every state anew, so that nothing of deleted states is left in it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Executable, bindparam, select, update

from memalchemy.checkpoints.load import load_chain
from memalchemy.checkpoints.skip_deltas import Draft, Tip, encode, rebuild
from memalchemy.codec.deltas import CODEC
from memalchemy.codec.encryption import Keyring
from memalchemy.dialects import Dialect
from memalchemy.log import Log, lock_log, sweep_locked
from memalchemy.log.tables import CHECKPOINTS, DELTAS, column_binds, of_log
from memalchemy.log.text_index_sweep import sweep_indexes
from memalchemy.rows import CHECKPOINT, STATE
from memalchemy.statements import Program, statement


@statement(proves=("state", "whole log"))
def list_in_order(dialect: Dialect) -> Executable:
    """Select every checkpoint of a log, oldest first."""
    return (
        select(CHECKPOINTS.c.checkpoint_id, CHECKPOINTS.c.seq)
        .where(of_log(CHECKPOINTS))
        .order_by(CHECKPOINTS.c.seq)
    )


_REWRITTEN = ("kind", "base_seq", "depth", "codec", "checksum", "radix", "payload")


@statement(changes=STATE)
def rewrite_delta(dialect: Dialect) -> Executable:
    """Store the same state at the same position in another encoding."""
    return (
        update(DELTAS)
        .where(of_log(DELTAS), DELTAS.c.seq == bindparam("p_seq"))
        .values(column_binds(DELTAS, _REWRITTEN))
    )


@statement(changes=CHECKPOINT)
def rewrite_size(dialect: Dialect) -> Executable:
    """Set the stored size of a rewritten checkpoint."""
    return (
        update(CHECKPOINTS)
        .where(of_log(CHECKPOINTS), CHECKPOINTS.c.seq == bindparam("p_seq"))
        .values(column_binds(CHECKPOINTS, ["stored_size"]))
    )


def rewrite_log(
    dialect: Dialect, log: Log, now: datetime, *, level: int, max_depth: int, keyring: Keyring
) -> Program[int]:
    """Encode every checkpoint of a log anew, and drop all states that no checkpoint has.

    Rows change in place and in order: a row that is not rewritten yet builds on the state of its
    base, which stays the same, not on its bytes. Returns the number of dropped states.
    """
    if not (yield lock_log(dialect), log.binds()):
        return 0  # a log that begins now is not locked
    names = yield list_in_order(dialect), log.binds()
    tip: Tip | None = None
    for name in names:
        read = yield from load_chain(dialect, log, name.checkpoint_id, now, keyring.signing)
        if read is None:
            return 0  # the log expired meanwhile
        parts = rebuild(log, read, keyring).parts()
        draft = encode(parts, tip, level=level, max_depth=max_depth)
        checksum = yield from _replace_payload(dialect, log, name.seq, draft, keyring)
        tip = draft.as_tip(name.checkpoint_id, name.seq, 0, checksum)
    dropped = yield from sweep_locked(dialect, log, now, changed=True)
    yield from sweep_indexes(dialect)
    return dropped.states


def _replace_payload(
    dialect: Dialect, log: Log, seq: int, draft: Draft, keyring: Keyring
) -> Program[int]:
    """Store a draft at a position; return its checksum as stored."""
    place = log.binds() | {"p_seq": seq}
    values = place | {
        "p_kind": draft.kind,
        "p_base_seq": draft.base_seq,
        "p_depth": draft.depth,
        "p_codec": CODEC,
        "p_checksum": draft.checksum,
        "p_radix": draft.radix,
        "p_payload": draft.payload,
    }
    yield rewrite_delta(dialect), values
    size = keyring.stored_size(draft.payload)
    yield rewrite_size(dialect), place | {"p_stored_size": size}
    return int(values["p_checksum"])
