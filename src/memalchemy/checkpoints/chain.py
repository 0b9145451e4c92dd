"""Skip-deltas on a tree: which base a new state takes, and the chain that a cache must hold.

A row at depth k+1 takes as base its ancestor at depth ``(k + 1) & k`` (k+1 with its lowest bit
cleared), which is always on its parent's own chain. So any state is a snapshot and at most
log2(depth) deltas, on any branch, and whoever holds the parent's chain can encode a child.

Pure: bytes and numbers, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from memalchemy.codec import deltas
from memalchemy.codec.values import MAX_STATE_BYTES, Parts, state_size
from memalchemy.errors import Corrupt

CODEC = "zsplice1"
"""The tag of this encoding, stored with each row so that the encoding can change."""

MAX_CHAIN_DEPTH = 1024

KEPT_BYTES = 16 * 1024 * 1024
"""How much of a chain's states is kept decoded besides the last."""


@dataclass(frozen=True, slots=True)
class Link:
    """One stored row of a chain; ``parts`` is its state, where it is kept decoded."""

    seq: int
    depth: int
    payload: bytes
    checksum: int
    parts: Parts | None


@dataclass(frozen=True, slots=True)
class Tip:
    """A checkpoint with the chain of rows that it is rebuilt from, snapshot first."""

    checkpoint_id: str
    epoch: int
    since_bytes: int
    links: tuple[Link, ...]
    raw_size: int
    """The state's encoded size, decompressed."""

    @property
    def seq(self) -> int:
        return self.links[-1].seq

    @property
    def depth(self) -> int:
        return self.links[-1].depth

    def parts_at(self, index: int) -> Parts:
        """The state of one link, rebuilt from the nearest earlier one that is decoded."""
        first = index
        while first > 0 and self.links[first].parts is None:
            first -= 1
        link = self.links[first]
        parts = link.parts if link.parts is not None else deltas.decode_snapshot(link.payload)
        for later in self.links[first + 1 : index + 1]:
            parts = deltas.apply_delta(parts, later.payload)
        return parts

    def parts(self) -> Parts:
        """The checkpoint's state."""
        return self.parts_at(len(self.links) - 1)

    def held_bytes(self) -> int:
        """What this takes in memory."""
        return sum(
            len(link.payload) + (0 if link.parts is None else state_size(link.parts))
            for link in self.links
        )

    def within(self, room: int) -> Tip:
        """The same tip with the oldest decoded states dropped until it takes *room* bytes."""
        links = list(self.links)
        over = self.held_bytes() - room
        for index, link in enumerate(links):
            if over <= 0:
                break
            if link.parts is not None:
                over -= state_size(link.parts)
                links[index] = replace(link, parts=None)
        return replace(self, links=tuple(links))


@dataclass(frozen=True, slots=True)
class Draft:
    """An encoded state, ready to be stored; everything but the position it will get."""

    kind: str
    base_seq: int | None
    epoch: int | None
    """The epoch that the base was read under; ``None`` for a snapshot, which needs none."""
    depth: int
    since_bytes: int
    raw_size: int
    payload: bytes
    checksum: int
    parts: Parts
    chain: tuple[Link, ...]

    def as_tip(self, checkpoint_id: str, seq: int, epoch: int) -> Tip:
        """What the stored draft is to the next save."""
        link = Link(seq, self.depth, self.payload, self.checksum, self.parts)
        return Tip(checkpoint_id, epoch, self.since_bytes, (*self.chain, link), self.raw_size)


def encode(parts: Parts, tip: Tip | None, *, level: int, max_depth: int) -> Draft:
    """Encode a state under *tip*: as a delta, or as a snapshot when one is due.

    A snapshot is due at the start, at *max_depth*, when the state has shrunk to half of its base,
    and when the deltas since the last snapshot would outweigh it.
    """
    raw_size = state_size(parts)
    if tip is not None and tip.depth < max_depth:
        wanted = (tip.depth + 1) & tip.depth
        index = next(i for i, link in enumerate(tip.links) if link.depth == wanted)
        base = tip.parts_at(index)
        if raw_size * 2 >= state_size(base):
            payload = deltas.encode_delta(base, parts, level)
            since_bytes = tip.since_bytes + len(payload)
            if since_bytes <= len(tip.links[0].payload) or len(tip.links) == 1:
                return Draft(
                    kind="delta",
                    base_seq=tip.links[index].seq,
                    epoch=tip.epoch,
                    depth=tip.depth + 1,
                    since_bytes=since_bytes,
                    raw_size=raw_size,
                    payload=payload,
                    checksum=deltas.seal(payload, parts),
                    parts=parts,
                    chain=tip.links[: index + 1],
                )
    payload = deltas.encode_snapshot(parts, level)
    return Draft(
        kind="snapshot",
        base_seq=None,
        epoch=None,
        depth=0,
        since_bytes=0,
        raw_size=raw_size,
        payload=payload,
        checksum=deltas.seal(payload, parts),
        parts=parts,
        chain=(),
    )


def rebuild(links: tuple[Link, ...], limit: int = MAX_STATE_BYTES) -> tuple[Link, ...]:
    """Decode a chain as it came from the database, snapshot first, and verify it.

    Every payload is held to its own checksum and the last state to that of the whole. The other
    states are kept decoded too while that is cheap: they are the bases of saves to come.

    Raises:
        Corrupt: a row is missing, changed, or does not fit the others.
    """
    if not links or links[0].depth != 0:
        raise Corrupt("the first state of a chain is missing")
    parts: Parts = {}
    decoded: list[Link] = []
    room = KEPT_BYTES
    for link in links:
        deltas.check_payload(link.payload, link.checksum)
        if link.depth == 0:
            parts = deltas.decode_snapshot(link.payload, limit)
        else:
            parts = deltas.apply_delta(parts, link.payload, limit)
        room -= state_size(parts)
        decoded.append(replace(link, parts=parts if room > 0 or link is links[-1] else None))
    deltas.check_state(parts, links[-1].checksum)
    return tuple(decoded)
