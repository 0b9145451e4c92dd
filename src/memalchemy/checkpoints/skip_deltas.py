"""Skip-deltas on a tree: the base that a new state takes, and the chain that a cache must hold.

The depth of a row is written in a radix; its base is the ancestor at the depth whose lowest digit
that is not zero is one less. In radix 4, depth 7 is based on depth 6, 8 on 4, and 16 on 0. That
ancestor is always on the parent's own chain. So any state is a snapshot and at most
``3 * (log4(depth) + 1)`` deltas, on any branch, and whoever holds the parent's chain can encode a
child.

In a higher radix more rows are based on their parent: chains are longer, and rows are smaller.

Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, overload

from memalchemy.codec import deltas
from memalchemy.codec.checksum import check_payload, check_state, payload_checksum
from memalchemy.codec.deltas import CODEC
from memalchemy.codec.encryption import Keyring, StoredPayload
from memalchemy.codec.places import state_place
from memalchemy.codec.values import (
    MAX_STATE_BYTES,
    Parts,
    decode_state,
    state_size,
)
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted, about
from memalchemy.log.tables import Log
from memalchemy.protection.signed_reads import check_chain

MAX_CHAIN_DEPTH = 1024

RADIX = 4
"""A fifth smaller than radix 2 on a thread of 1,222 messages, with 7 rows of a chain for 5."""

READ_FACTOR = 2
"""Bytes of deltas that a load may read for each byte of its snapshot. With a smaller factor there
are more snapshots, and loads are no faster.
"""


SMALLEST_LIMIT = 16 * 1024 * 1024
"""Bytes to which a damaged payload may inflate, however small its state is."""


def base_depth(depth: int, radix: int = RADIX) -> int:
    """Return the depth of the base of a row at *depth*, which is not 0."""
    weight = 1
    while depth % (weight * radix) == 0:
        weight *= radix
    return depth - weight


@dataclass(frozen=True, slots=True)
class Link:
    """Stored row of a chain; ``parts`` is its state, where it is kept decoded.

    ``checksum`` is always the row's, which a save on it names. ``payload`` and ``codec`` are the
    row's until `rebuild`, and decrypted afterwards.
    """

    seq: int
    depth: int
    payload: bytes
    checksum: int
    parts: Parts | None
    codec: str = CODEC
    parts_size: int = field(default=0, compare=False)
    """The `state_size` of ``parts``; 0 without them."""


@dataclass(frozen=True, slots=True)
class Tip:
    """Checkpoint with the chain of rows that it is rebuilt from, snapshot first."""

    checkpoint_id: str
    epoch: int
    links: tuple[Link, ...]
    raw_size: int
    """The state's encoded size, decompressed."""
    checksum: int = 0
    """The checksum of the state, encrypted or not, with which it was checked; 0 until then."""
    signature: bytes | None = None
    """The signature of the newest row, if it was checked."""
    textual: frozenset[str] = frozenset()
    """The keys of values that are known to hold nothing binary, see `values.encode_plain`."""
    read: Sequence[Any] | None = field(default=None, compare=False, repr=False)
    """The rows as they were read, until they are checked."""

    @property
    def seq(self) -> int:
        return self.links[-1].seq

    @property
    def depth(self) -> int:
        return self.links[-1].depth

    @property
    def identity(self) -> tuple[str, int, int, int]:
        """The values that tell the row of this checkpoint from every other one."""
        newest = self.links[-1]
        return self.checkpoint_id, self.epoch, newest.seq, newest.checksum

    @property
    def row_keys(self) -> tuple[tuple[int, int], ...]:
        """Position and checksum of each row, which tell these rows from others."""
        return tuple([(link.seq, link.checksum) for link in self.links])

    def parts_at(self, index: int) -> Parts:
        """Return the state of one link, rebuilt from the nearest earlier one that is decoded."""
        first = index
        while first > 0 and self.links[first].parts is None:
            first -= 1
        link = self.links[first]
        parts = link.parts if link.parts is not None else deltas.decode_snapshot(link.payload)
        if first == index:
            return parts
        return deltas.apply_deltas(parts, (k.payload for k in self.links[first + 1 : index + 1]))

    def parts(self) -> Parts:
        """Return the checkpoint's state."""
        newest = self.links[-1].parts
        return self.parts_at(len(self.links) - 1) if newest is None else newest

    def held_bytes(self) -> int:
        """Return the size of this tip in memory."""
        held = 0
        for link in self.links:
            held += len(link.payload) + link.parts_size
        return held

    def limit_decoded(self, room: int) -> tuple[Tip, int]:
        """Drop the oldest decoded states until the tip takes *room* bytes.

        Returns the smaller tip, and its size.
        """
        held = self.held_bytes()
        over = held - room
        if over <= 0:
            return self, held
        links = list(self.links)
        for index, link in enumerate(links):
            if over <= 0:
                break
            if link.parts is not None:
                links[index] = replace(link, parts=None, parts_size=0)
                over -= link.parts_size
        return replace(self, links=tuple(links)), room + over


class Draft(NamedTuple):
    """Encoded state, ready to be stored; only its position is not known yet.

    ``payload`` and ``checksum`` are not encrypted yet: that binds them to their position.
    """

    kind: str
    base_seq: int | None
    base_checksum: int | None
    epoch: int | None
    """The epoch that the base was read under; ``None`` for a snapshot, which needs none."""
    depth: int
    raw_size: int
    payload: bytes
    checksum: int
    parts: Parts
    chain: tuple[Link, ...]
    radix: int | None = None
    """The radix in which the depths of its chain are read; ``None`` is `RADIX`."""

    def as_tip(
        self,
        checkpoint_id: str,
        seq: int,
        epoch: int,
        stored_checksum: int,
        textual: frozenset[str] = frozenset(),
    ) -> Tip:
        """Return the stored draft as the tip that the next save builds on."""
        link = Link(
            seq, self.depth, self.payload, stored_checksum, self.parts, parts_size=self.raw_size
        )
        links = (*self.chain, link)
        return Tip(
            checkpoint_id, epoch, links, self.raw_size, checksum=self.checksum, textual=textual
        )


def encode(
    parts: Parts,
    tip: Tip | None,
    *,
    level: int,
    max_depth: int,
    compared: deltas.Comparison | None = None,
    radix: int = RADIX,
    size: int | None = None,
) -> Draft:
    """Encode a state under *tip*, as a delta or as a snapshot if one is due.

    *compared* may know already how the state differs from the tip's, or from another. *size* is the
    `state_size` of *parts*, if it is known.

    A snapshot is due at the start, at *max_depth*, when the state has shrunk to half of its base,
    and when the deltas that a load would read are over `READ_FACTOR` times the snapshot. So no load
    reads more than three snapshots' bytes, unless the first delta alone is larger than that.
    Counting every delta since the snapshot, read or not, stored half as much again.
    """
    raw_size = state_size(parts) if size is None else size
    if tip is not None:
        draft = _encode_delta(parts, raw_size, tip, level, max_depth, compared, radix)
        if draft is not None:
            return draft
    payload = deltas.encode_snapshot(parts, level)
    return Draft(
        kind="snapshot",
        base_seq=None,
        base_checksum=None,
        epoch=None,
        depth=0,
        raw_size=raw_size,
        payload=payload,
        checksum=payload_checksum(payload, parts),
        parts=parts,
        chain=(),
        radix=None if radix == RADIX else radix,
    )


def _encode_delta(
    parts: Parts,
    raw_size: int,
    tip: Tip,
    level: int,
    max_depth: int,
    compared: deltas.Comparison | None,
    radix: int,
) -> Draft | None:
    """Encode a state as a delta under *tip*; ``None`` if a snapshot is due."""
    depth = tip.links[-1].depth + 1
    if depth > max_depth:
        return None
    wanted = base_depth(depth, radix)
    snapshot = tip.links[0]
    read = 0  # bytes of the deltas that a load of the base reads
    for index, link in enumerate(tip.links):
        if index > 0:
            read += len(link.payload)
        if link.depth == wanted:
            break
    else:
        return None  # the base is missing: no checksum covers the depth of a stored row
    base = link.parts
    if base is None:
        base = tip.parts_at(index)
        link = replace(link, parts=base, parts_size=state_size(base))
    if raw_size * 2 < link.parts_size:
        return None
    if compared is None or compared.parts is not base:
        compared = deltas.Comparison(base)
    payload = deltas.encode_delta(compared, parts, level)
    if read + len(payload) > READ_FACTOR * len(snapshot.payload) and depth > 1:
        return None
    return Draft(
        kind="delta",
        base_seq=link.seq,
        base_checksum=link.checksum,
        epoch=tip.epoch,
        depth=depth,
        raw_size=raw_size,
        payload=payload,
        checksum=payload_checksum(payload, parts),
        parts=parts,
        chain=(*tip.links[:index], link),
        radix=None if radix == RADIX else radix,
    )


def open_link(log: Log, link: Link, keyring: Keyring) -> StoredPayload:
    """Decrypt the payload of a stored row, and check its checksum.

    Raises:
        Corrupt, KeyMissing, NotEncrypted: see `Keyring.decrypt`.
    """
    place = state_place(log.tenant, log.key, link.seq)
    opened = keyring.decrypt(link.codec, link.checksum, link.payload, place)
    check_payload(opened.payload, opened.checksum)
    return opened


def rebuild(log: Log, tip: Tip, keyring: Keyring, limit: int = MAX_STATE_BYTES) -> Tip:
    """Open and decode a chain as it came from the database, snapshot first, and verify it.

    The checksums of every payload and of the whole state are checked.

    Raises:
        Corrupt: a row is missing, changed, or does not fit the others.
        KeyMissing, NotEncrypted: see `Keyring.decrypt`.
    """
    if not tip.links or tip.links[0].depth != 0:
        raise Corrupt("the first state of a chain is missing")
    check_chain(log, tip.read, keyring.signing)
    links, checksum = [], 0
    for link in tip.links:
        codec, checksum, payload = open_link(log, link, keyring)
        same = payload is link.payload
        links.append(link if same else replace(link, payload=payload, codec=codec))
    # `encode` bases no state on one of more than twice its size.
    limit = min(limit, max(tip.raw_size << len(links), SMALLEST_LIMIT))
    parts = deltas.decode_snapshot(links[0].payload, limit)
    if len(links) > 1:
        parts = deltas.apply_deltas(parts, (link.payload for link in links[1:]), limit)
    check_state(parts, checksum)
    newest = replace(links[-1], parts=parts, parts_size=state_size(parts))
    return replace(
        tip,
        links=(*links[:-1], newest),
        checksum=checksum,
        signature=_read_signature(tip),
        read=None,
    )


def _read_signature(tip: Tip) -> bytes | None:
    """Return the signature of the newest row of a chain as it was read, where rows have one."""
    return None if tip.read is None else getattr(tip.read[-1], "signature", None)


def _reuse_if_same(log: Log, tip: Tip, known: Tip | None, keyring: Keyring) -> Tip | None:
    """Return *known* if it is the state that was read as *tip*, which is then not rebuilt.

    The checksums and signatures of what was read are checked all the same.
    """
    if known is None or not tip.links or tip.identity != known.identity:
        return None
    check_chain(log, tip.read, keyring.signing)
    for link in tip.links:
        open_link(log, link, keyring)
    return replace(known, signature=_read_signature(tip))


def describe_tip(log: Log, tip: Tip) -> str:
    """Describe a checkpoint in the messages of errors."""
    return f"checkpoint {tip.checkpoint_id!r} of thread {log.thread_id!r}"


def rebuild_checkpoint(log: Log, tip: Tip, keyring: Keyring, known: Tip | None = None) -> Tip:
    """Do as `rebuild`, or reuse *known*; errors name the thread and the checkpoint."""
    try:
        return _reuse_if_same(log, tip, known, keyring) or rebuild(log, tip, keyring)
    except (Corrupt, KeyMissing, NotEncrypted) as error:
        raise about(error, describe_tip(log, tip)) from error


@overload
def decode_tip(log: Log, keyring: Keyring, known: Tip | None, tip: None) -> None: ...


@overload
def decode_tip(
    log: Log, keyring: Keyring, known: Tip | None, tip: Tip
) -> tuple[Tip, dict[str, Any]]: ...


def decode_tip(
    log: Log, keyring: Keyring, known: Tip | None, tip: Tip | None
) -> tuple[Tip, dict[str, Any]] | None:
    """Return a stored checkpoint rebuilt, and its state; ``None`` for none.

    *known* is the tip that this process holds. If it is *tip*, it was rebuilt and checked before.

    Raises:
        Corrupt, KeyMissing, NotEncrypted: it cannot be read; the message names the checkpoint.
    """
    if tip is None:
        return None
    is_held = tip is known
    rebuilt = tip if is_held else rebuild_checkpoint(log, tip, keyring, known)
    try:
        return rebuilt, decode_state(rebuilt.parts(), is_checked=is_held)
    except Corrupt as error:
        raise about(error, describe_tip(log, tip)) from error
