"""Checks of single rows of a log: of their places in chains, and of their payloads.

No database is used here. A row is anything with the columns of the statements `logs.read_rows` or
`logs.read_chain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from memalchemy._cache import BoundedCache
from memalchemy.checkpoints.skip_deltas import RADIX, base_depth
from memalchemy.codec import deltas, encryption
from memalchemy.codec.checksum import check_payload, check_state, state_half
from memalchemy.codec.deltas import CODEC
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.payloads import VALUE_CODEC, WRITES_CODEC, decode_payload, decode_writes
from memalchemy.codec.places import row_place, state_place
from memalchemy.codec.values import Parts, state_size
from memalchemy.errors import Corrupt, KeyMissing, MemalchemyError
from memalchemy.log import STATES, Log
from memalchemy.maintenance.verify.report import OPENING_ERRORS, code_of

LAST_POSITION = 2**62
"""A position behind all others."""

REBUILT_BYTES = 64 * 1024 * 1024
"""The bytes of rebuilt states that are kept as bases of later ones."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why a state cannot be rebuilt.

    Attributes:
        seq: the position that is to blame.
        code: one of `report.CODES`.
        reason: the rest of a sentence that begins with the position.
        key_id: the key that was not given, if that is the reason.
    """

    seq: int
    code: str
    reason: str
    key_id: str | None = None

    @classmethod
    def of_opening(cls, seq: int, error: MemalchemyError) -> Fault:
        """Return the fault of a payload that one of `OPENING_ERRORS` keeps from being opened."""
        key_id = error.key_id if isinstance(error, KeyMissing) else None
        return cls(seq, code_of(error), str(error), key_id)


class RebuiltState(NamedTuple):
    """A rebuilt state, and the position up to which something builds on it."""

    parts: Parts
    last_use: int
    size: int


class RebuiltStates:
    """Cache of the rebuilt states of a log, each until the last state that builds on it.

    Where there are too many the least recently used is dropped; such a state is read again.
    """

    def __init__(self, max_bytes: int = REBUILT_BYTES) -> None:
        # A state that is larger than the cache counts as all of it: it is held alone.
        self._states: BoundedCache[int, RebuiltState] = BoundedCache(
            max_bytes, lambda state: min(state.size, max_bytes)
        )

    def get(self, seq: int) -> Parts | None:
        """Return the state of a position, if it is here."""
        found = self._states.get(seq)
        return None if found is None else found.parts

    def put(self, seq: int, state: Parts, last_use: int) -> None:
        """Keep a state until position *last_use*."""
        self._states.put(seq, RebuiltState(state, last_use, state_size(state)))

    def drop_unused_after(self, seq: int) -> None:
        """Drop the states that nothing after *seq* builds on."""
        self._states.drop_where(lambda _, state: state.last_use <= seq)


def check_links(row: Any) -> Fault | None:
    """Compare the place of a state in its chain with the rule that a save follows.

    A snapshot has no base. A delta at depth n has an earlier base at `base_depth`.
    """
    if row.kind == "snapshot":
        if row.base_seq is not None:
            return Fault(row.seq, "base", f"it is a snapshot and names a base, {row.base_seq}")
        if row.depth != 0:
            return Fault(row.seq, "depth", f"it is a snapshot at depth {row.depth}, not 0")
        return None
    fault = _check_base(row)
    if fault is not None:
        return fault
    if row.base_kind is None:
        return Fault(row.base_seq, "state-missing", "there is no row")
    if row.base_kind not in STATES:
        return Fault(row.seq, "base", f"its base, {row.base_seq}, is no state")
    # A damaged radix below 2 would give the digits of no number.
    wanted = 0 if row.depth < 1 else base_depth(row.depth, max(row.radix or RADIX, 2))
    if row.depth < 1 or row.base_depth != wanted:
        return Fault(
            row.seq,
            "base",
            f"at depth {row.depth} its base is at depth {wanted}; "
            f"{row.base_seq} is at depth {row.base_depth}",
        )
    return None


def _check_base(row: Any) -> Fault | None:
    """Check that a delta names an earlier base."""
    if row.base_seq is None:
        return Fault(row.seq, "base", "it is a delta and names no base")
    if row.base_seq >= row.seq:
        return Fault(row.seq, "base", f"its base, {row.base_seq}, is not an earlier one")
    return None


def rebuild_state(log: Log, row: Any, base: Parts | None, keyring: Keyring) -> Parts | Fault:
    """Rebuild the state of a row on that of its base, which a snapshot has none of."""
    if encryption.plain_codec(row.codec) != CODEC:
        return Fault(row.seq, "codec", f"its codec is {row.codec!r}")
    try:
        place = state_place(log.tenant, log.key, row.seq)
        _, checksum, payload = keyring.decrypt(row.codec, row.checksum, bytes(row.payload), place)
        check_payload(payload, checksum)
    except OPENING_ERRORS as error:
        return Fault.of_opening(row.seq, error)
    is_snapshot = row.kind == "snapshot"
    try:
        if is_snapshot:
            state = deltas.decode_snapshot(payload)
        else:
            state = deltas.apply_deltas(base or {}, [payload])
        check_state(state, checksum)
    except Corrupt as error:
        # The payload matches its checksum, so a delta was applied to another base than it had.
        return Fault(row.seq, "payload" if is_snapshot else "state", str(error))
    return state


def rebuild_chain(
    log: Log, rows: Sequence[Any], keyring: Keyring, kept: RebuiltStates | None = None
) -> Parts | Fault:
    """Rebuild the state of a whole chain, snapshot first; the first fault is the cause.

    The states on the way are put into *kept*, if it is given.
    """
    first = rows[0]
    if first.kind == "delta":
        return _check_base(first) or Fault(first.base_seq, "state-missing", "there is no row")
    state: Parts | None = None
    for row in rows:
        if row.kind not in STATES:
            return Fault(row.seq, "kind", f"its kind is {row.kind!r}")
        result = rebuild_state(log, row, state, keyring)
        if isinstance(result, Fault):
            return result
        state = result
        if kept is not None:
            kept.put(row.seq, state, LAST_POSITION)
    assert state is not None
    return state


def check_entry(log: Log, row: Any, keyring: Keyring) -> Fault | None:
    """Decode an entry, or the pending writes of a checkpoint."""
    is_write = row.kind == "write"
    if encryption.plain_codec(row.codec) != (WRITES_CODEC if is_write else VALUE_CODEC):
        return Fault(row.seq, "codec", f"its codec is {row.codec!r}")
    try:
        place = row_place(log.tenant, log.key, row.seq, row.kind, row.label)
        codec, checksum, payload = keyring.decrypt(
            row.codec, row.checksum, bytes(row.payload), place
        )
        decode: Any = decode_writes if is_write else decode_payload
        decode(payload, checksum, codec)
    except OPENING_ERRORS as error:
        return Fault.of_opening(row.seq, error)
    return None


def is_unopenable(row: Any, keyring: Keyring) -> bool:
    """Return whether a row is encrypted with a key that was not given."""
    return encryption.is_encrypted(row.codec) and not keyring.has_key_of(bytes(row.payload))


def is_same_state(log: Log, a: Any, b: Any, keyring: Keyring) -> bool:
    """Return whether two readings of a row have the same state, perhaps encoded anew."""
    return _stored_state_checksum(log, a, keyring) == _stored_state_checksum(log, b, keyring)


def _stored_state_checksum(log: Log, row: Any, keyring: Keyring) -> int:
    """Return the checksum of the state that a row stores.

    Encryption gives the row a checksum of its own, which changes with the key: the state's is
    inside. Of a row that does not open, its own checksum tells whether it is the same.
    """
    try:
        place = state_place(log.tenant, log.key, row.seq)
        opened = keyring.decrypt(row.codec, row.checksum, bytes(row.payload), place)
    except MemalchemyError:
        return state_half(int(row.checksum))
    return state_half(int(opened.checksum))
