"""Judging rows of logs: is the chain as it must be, and does it rebuild what was stored.

Pure: rows in, faults out. A row is anything with the columns of `queries.read_rows` or
`queries.read_chain_at`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memalchemy.checkpoints.skip_deltas import CODEC, RADIX, base_depth
from memalchemy.codec import deltas, items, sealing, writes
from memalchemy.codec.sealing import Keyring
from memalchemy.codec.values import Parts, state_size
from memalchemy.errors import Corrupt, MemalchemyError
from memalchemy.log import STATES
from memalchemy.verify.report import UNREADABLE, unreadable

HELD_BYTES = 64 * 1024 * 1024
"""Rebuilt states that are kept as bases of later ones; what was dropped is read again."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a state cannot be rebuilt, and the position that is to blame."""

    seq: int
    code: str
    reason: str


class Bases:
    """Rebuilt states by position, for as long as something builds on them."""

    def __init__(self, room: int = HELD_BYTES) -> None:
        self._room = room
        self._held: OrderedDict[int, tuple[Parts, int, int]] = OrderedDict()
        self.bytes = 0

    def get(self, seq: int) -> Parts | None:
        found = self._held.get(seq)
        if found is None:
            return None
        self._held.move_to_end(seq)
        return found[0]

    def put(self, seq: int, parts: Parts, last_use: int) -> None:
        """Keep a state until position *last_use*; the least recently used gives way."""
        size = state_size(parts)
        self._held[seq] = (parts, last_use, size)
        self.bytes += size
        while self.bytes > self._room and len(self._held) > 1:
            self._drop(next(iter(self._held)))

    def passed(self, seq: int) -> None:
        """Forget what nothing after *seq* builds on."""
        for old in [old for old, (_, last, _) in self._held.items() if last <= seq]:
            self._drop(old)

    def _drop(self, seq: int) -> None:
        self.bytes -= self._held.pop(seq)[2]


def chain_fault(row: Any) -> Fault | None:
    """Whether a row's place in its chain contradicts the rule that a save follows.

    A snapshot has no base; a delta at depth n has one that is earlier and at `base_depth`.
    """
    if row.kind == "snapshot":
        if row.base_seq is not None:
            return Fault(row.seq, "base", f"it is a snapshot and names a base, {row.base_seq}")
        if row.depth != 0:
            return Fault(row.seq, "depth", f"it is a snapshot at depth {row.depth}, not 0")
        return None
    if row.base_seq is None:
        return Fault(row.seq, "base", "it is a delta and names no base")
    if row.base_seq >= row.seq:
        return Fault(row.seq, "base", f"its base, {row.base_seq}, is not an earlier one")
    if row.base_kind is None:
        return Fault(row.base_seq, "state-missing", "there is no row")
    if row.base_kind not in STATES:
        return Fault(row.seq, "base", f"its base, {row.base_seq}, is no state")
    wanted = 0 if row.depth < 1 else base_depth(row.depth, max(row.radix or RADIX, RADIX))
    if row.depth < 1 or row.base_depth != wanted:
        return Fault(
            row.seq,
            "base",
            f"at depth {row.depth} its base is at depth {wanted}; "
            f"{row.base_seq} is at depth {row.base_depth}",
        )
    return None


def rebuilt(row: Any, base: Parts | None, keyring: Keyring) -> Parts | Fault:
    """The state of a row on the state of its base (``None`` for a snapshot), or what is wrong."""
    if sealing.inner(row.codec) != CODEC:
        return Fault(row.seq, "codec", f"its codec is {row.codec!r}")
    try:
        _, checksum, payload = keyring.open(row.codec, row.checksum, bytes(row.payload))
        deltas.check_payload(payload, checksum)
    except UNREADABLE as error:
        return Fault(row.seq, unreadable(error), str(error))
    below = None if row.kind == "snapshot" else base or {}
    try:
        if below is None:
            parts = deltas.decode_snapshot(payload)
        else:
            parts = deltas.apply_deltas(below, [payload])
        deltas.check_state(parts, checksum)
    except Corrupt as error:
        # The payload is the one that was sealed: what it was laid on is not what it was made for.
        return Fault(row.seq, "payload" if row.kind == "snapshot" else "state", str(error))
    return parts


def entry_fault(row: Any, keyring: Keyring) -> Fault | None:
    """What is wrong with the row of an entry, or of writes, if anything is."""
    of_writes = row.kind == "write"
    if sealing.inner(row.codec) != (writes.CODEC if of_writes else items.CODEC):
        return Fault(row.seq, "codec", f"its codec is {row.codec!r}")
    try:
        codec, checksum, payload = keyring.open(row.codec, row.checksum, bytes(row.payload))
        decode: Any = writes.decode_writes if of_writes else items.decode_item
        decode(payload, checksum, codec)
    except UNREADABLE as error:
        return Fault(row.seq, unreadable(error), str(error))
    return None


def is_closed(row: Any, keyring: Keyring) -> bool:
    """Whether a row is sealed with a key that is not at hand."""
    return sealing.is_sealed(row.codec) and not keyring.knows(bytes(row.payload))


def is_same_state(a: Any, b: Any, keyring: Keyring) -> bool:
    """Whether two readings of a row are of one state, which may have been encoded anew between."""
    marks = []
    for row in (a, b):
        try:
            checksum = keyring.open(row.codec, row.checksum, bytes(row.payload)).checksum
        except MemalchemyError:
            checksum = row.checksum
        marks.append(checksum >> 32)  # the upper half is the state's
    return marks[0] == marks[1]


def trace(rows: Sequence[Any], keyring: Keyring) -> Parts | Fault:
    """Rebuild a chain as one statement read it, snapshot first; the first fault is the cause."""
    first, parts = rows[0], None
    if first.kind == "delta":
        if first.base_seq is None:
            return Fault(first.seq, "base", "it is a delta and names no base")
        if first.base_seq >= first.seq:
            return Fault(first.seq, "base", f"its base, {first.base_seq}, is not an earlier one")
        return Fault(first.base_seq, "state-missing", "there is no row")
    for row in rows:
        if row.kind not in STATES:
            return Fault(row.seq, "kind", f"its kind is {row.kind!r}")
        result = rebuilt(row, parts, keyring)
        if isinstance(result, Fault):
            return result
        parts = result
    assert parts is not None
    return parts
