"""Skip-deltas on a tree: short chains, the right bases, and no changed byte believed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import examples, parts

from memalchemy.checkpoints import chain
from memalchemy.checkpoints.chain import Draft, Link, Tip, encode, rebuild
from memalchemy.codec import deltas
from memalchemy.codec.values import Parts, state_size
from memalchemy.errors import Corrupt


@dataclass
class Tree:
    """Saves as a database sees them: rows by position, and the tip each leaves in a cache."""

    tips: list[Tip] = field(default_factory=list)
    states: list[Parts] = field(default_factory=list)
    bases: list[int | None] = field(default_factory=list)

    def save(
        self, state: Parts, under: int | None, *, max_depth: int = 1024, room: int = 2**30
    ) -> Draft:
        """Encode *state* under the save *under*, of whose tip the cache keeps *room* bytes."""
        tip = None if under is None else self.tips[under].within(room)
        draft = encode(state, tip, level=3, max_depth=max_depth)
        seq = len(self.tips)
        self.tips.append(draft.as_tip(f"c{seq}", seq, 7))
        self.states.append(state)
        self.bases.append(draft.base_seq)
        return draft

    def stored(self, seq: int) -> tuple[Link, ...]:
        """The rows of one save's chain as they are read back, following ``base_seq``."""
        links: list[Link] = []
        at: int | None = seq
        while at is not None:
            links.append(replace(self.tips[at].links[-1], parts=None))
            at = self.bases[at]
        return tuple(reversed(links))


def in_order(state: Parts) -> list[tuple[str, bytes]]:
    return list(state.items())


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    tree = Tree()
    max_depth = draw(st.sampled_from([1, 2, 7, 64, 1024]))
    for number in range(draw(st.integers(1, 20))):
        under = draw(st.one_of(st.none(), st.integers(0, number - 1))) if number else None
        before = {} if under is None else tree.states[under]
        if draw(st.booleans()):
            state = before | {"log": before.get("log", b"") + b"entry %d;" % number}
        else:
            state = before | draw(parts) if draw(st.booleans()) else draw(parts)
        tree.save(state, under, max_depth=max_depth, room=draw(st.sampled_from([0, 100, 2**30])))
    return tree


@examples(60)
@given(trees())
def test_every_state_of_any_tree_of_saves_is_rebuilt(tree: Tree) -> None:
    for seq, state in enumerate(tree.states):
        assert in_order(rebuild(tree.stored(seq))[-1].parts or {}) == in_order(state)
        assert in_order(tree.tips[seq].parts()) == in_order(state)
        assert in_order(tree.tips[seq].within(0).parts()) == in_order(state)


@examples(60)
@given(trees())
def test_what_a_cache_holds_of_a_chain_is_what_the_database_has(tree: Tree) -> None:
    for seq, tip in enumerate(tree.tips):
        assert tuple(replace(link, parts=None) for link in tip.links) == tree.stored(seq)


@examples(60)
@given(trees())
def test_the_base_of_depth_k_is_k_with_its_lowest_bit_cleared(tree: Tree) -> None:
    for seq, base in enumerate(tree.bases):
        depth = tree.tips[seq].depth
        if base is None:
            assert depth == 0
        else:
            assert tree.tips[base].depth == depth & (depth - 1)


def line(length: int, *, max_depth: int = 1024) -> Tree:
    """One thread that grows by an entry a save, too slowly for a second snapshot to be due."""
    tree = Tree()
    text = random.Random(3).randbytes(50_000)
    for number in range(length):
        state = {"log": text + b"entry;" * number, "n": b"%d" % number}
        tree.save(state, number - 1 if number else None, max_depth=max_depth)
    return tree


def test_a_state_is_a_snapshot_and_at_most_log2_of_its_depth_deltas() -> None:
    tree = line(600)
    assert [tip.depth for tip in tree.tips] == list(range(600))
    for tip in tree.tips[1:]:
        assert len(tip.links) <= math.floor(math.log2(tip.depth)) + 2
        assert len(tip.links) == 1 + tip.depth.bit_count()


def test_a_snapshot_comes_when_a_chain_is_as_deep_as_allowed() -> None:
    tree = line(20, max_depth=7)
    assert [tip.depth for tip in tree.tips] == [*range(8), *range(8), *range(4)]


def test_a_snapshot_comes_when_the_state_has_shrunk_below_half_of_its_base() -> None:
    noise = random.Random(1).randbytes(1000)
    assert state_size({"a": noise}) == 1001
    for size, kind in ((500, "delta"), (499, "snapshot")):
        tree = Tree()
        tree.save({"a": noise}, None)
        assert tree.save({"a": noise[:size]}, 0).kind == kind


def test_a_snapshot_comes_when_the_deltas_outweigh_the_last_one() -> None:
    dice = random.Random(1)
    tree = Tree()
    tree.save({"a": dice.randbytes(1000)}, None)
    kinds, spent = [], 0
    for number in range(30):
        state = dict(tree.states[-1])
        state[f"k{number}"] = dice.randbytes(300)
        draft = tree.save(state, number)
        kinds.append(draft.kind)
        spent = draft.since_bytes
        assert spent <= len(tree.tips[-1].links[0].payload)
    assert kinds[:3] == ["delta", "delta", "snapshot"], "the second has the snapshot as base again"
    assert kinds.count("snapshot") < 6, "the snapshots grow, so they must become rarer"


@examples(50)
@given(trees())
def test_the_deltas_since_a_snapshot_never_outweigh_it_but_for_the_first(tree: Tree) -> None:
    for tip in tree.tips:
        if tip.depth > 1:
            assert tip.since_bytes <= len(tip.links[0].payload)


@examples(50)
@given(trees())
def test_storing_a_tree_never_takes_much_more_than_its_states_whole(tree: Tree) -> None:
    stored = sum(len(tip.links[-1].payload) for tip in tree.tips)
    whole = sum(len(deltas.encode_snapshot(state, 3)) for state in tree.states)
    assert stored <= whole + 60 * len(tree.tips)


def test_a_bounded_cache_drops_the_oldest_states_first_and_holds_what_it_says() -> None:
    tip = line(64).tips[-1]
    full = tip.held_bytes()
    assert full > 7 * 50_000
    for room in (0, 60_000, 120_000, full // 2, full):
        bounded = tip.within(room)
        kept = [link.parts is not None for link in bounded.links]
        assert kept == sorted(kept), "an older state was kept before a newer one"
        payloads = sum(len(link.payload) for link in tip.links)
        assert bounded.held_bytes() <= max(room, payloads)
        assert [link.payload for link in bounded.links] == [link.payload for link in tip.links]


def test_a_chain_keeps_few_states_decoded_when_they_are_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chain, "KEPT_BYTES", 120_000)
    tree = line(64)
    links = rebuild(tree.stored(63))
    decoded = [state_size(link.parts) for link in links if link.parts is not None]
    assert links[-1].parts == tree.states[63]
    assert sum(decoded[:-1]) <= 120_000
    assert len(decoded) < len(links)


# --- Damage --------------------------------------------------------------------------------------


def small_chain() -> tuple[Link, ...]:
    tree, noise = Tree(), random.Random(5).randbytes(300)
    for number in range(8):
        state = {"log": noise + b"entry %d;" % number * number, f"k{number}": b"new"}
        tree.save(state, number - 1 if number else None)
    links = tree.stored(7)
    assert [link.depth for link in links] == [0, 4, 6, 7]
    return links


def damage(links: tuple[Link, ...], index: int, payload: bytes) -> tuple[Link, ...]:
    changed = replace(links[index], payload=payload)
    return (*links[:index], changed, *links[index + 1 :])


def test_any_changed_byte_of_any_payload_is_corrupt() -> None:
    links = small_chain()
    for index, link in enumerate(links):
        for at in range(len(link.payload)):
            for mask in (*(1 << bit for bit in range(8)), 0xFF):
                payload = bytearray(link.payload)
                payload[at] ^= mask
                with pytest.raises(Corrupt):
                    rebuild(damage(links, index, bytes(payload)))


def test_any_shortened_or_lengthened_payload_is_corrupt() -> None:
    links = small_chain()
    for index, link in enumerate(links):
        for end in range(len(link.payload)):
            with pytest.raises(Corrupt):
                rebuild(damage(links, index, link.payload[:end]))
        for more in (b"\x00", b"\xff" * 9, link.payload):
            with pytest.raises(Corrupt):
                rebuild(damage(links, index, link.payload + more))


@examples(120)
@given(trees(), st.data())
def test_a_changed_byte_in_the_chain_of_any_tree_is_corrupt(
    tree: Tree, data: st.DataObject
) -> None:
    links = tree.stored(data.draw(st.integers(0, len(tree.tips) - 1)))
    index = data.draw(st.integers(0, len(links) - 1))
    payload = bytearray(links[index].payload)
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Corrupt):
        rebuild(damage(links, index, bytes(payload)))


@examples(120)
@given(trees(), st.data())
def test_a_payload_that_was_changed_together_with_its_own_checksum_is_not_believed(
    tree: Tree, data: st.DataObject
) -> None:
    """The checksum of the state is the second lock."""
    seq = data.draw(st.integers(0, len(tree.tips) - 1))
    links = tree.stored(seq)
    index = data.draw(st.integers(0, len(links) - 1))
    payload = bytearray(links[index].payload)
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] ^= data.draw(st.integers(1, 255))
    seal = deltas.seal(bytes(payload), {})
    low = (seal + 2**63) & 0xFFFFFFFF
    high = (links[index].checksum + 2**63) >> 32
    forged = replace(links[index], payload=bytes(payload), checksum=((high << 32) | low) - 2**63)
    try:
        rebuilt = rebuild((*links[:index], forged, *links[index + 1 :]))
    except Corrupt:
        return
    assert in_order(rebuilt[-1].parts or {}) == in_order(tree.states[seq])


@examples(80)
@given(trees(), st.data())
def test_a_changed_checksum_is_corrupt(tree: Tree, data: st.DataObject) -> None:
    links = tree.stored(data.draw(st.integers(0, len(tree.tips) - 1)))
    last = links[-1]
    checksum = last.checksum ^ (1 << data.draw(st.integers(0, 62)))
    with pytest.raises(Corrupt):
        rebuild((*links[:-1], replace(last, checksum=checksum)))


@examples(80)
@given(trees(), st.data())
def test_a_chain_with_a_row_missing_doubled_or_exchanged_is_not_believed(
    tree: Tree, data: st.DataObject
) -> None:
    seq = data.draw(st.integers(0, len(tree.tips) - 1))
    links = list(tree.stored(seq))
    at = data.draw(st.integers(0, len(links) - 1))
    other = data.draw(st.integers(0, len(tree.tips) - 1))
    broken = data.draw(
        st.sampled_from(
            [
                [*links[:at], *links[at + 1 :]],
                [*links[: at + 1], *links[at:]],
                [*links[:at], tree.stored(other)[-1], *links[at + 1 :]],
                links[::-1],
            ]
        )
    )
    try:
        rebuilt = rebuild(tuple(broken))
    except Corrupt:
        return
    # Without its last row, or with another in its place, it is another whole state.
    assert rebuilt[-1].checksum == broken[-1].checksum
    whole = [tree.stored(i) for i in range(len(tree.tips))]
    states = [
        in_order(state)
        for rows, state in zip(whole, tree.states, strict=True)
        if rows[-1].checksum == broken[-1].checksum
    ]
    assert in_order(rebuilt[-1].parts or {}) in states


def test_no_rows_are_corrupt() -> None:
    with pytest.raises(Corrupt):
        rebuild(())


def test_a_state_over_the_limit_is_corrupt_however_it_came_about() -> None:
    """Each step alone stays below the limit; what they build does not."""
    tree, noise = Tree(), random.Random(5).randbytes(1000)
    for number in range(4):
        state = {"noise": noise} | {str(i): bytes(400_000) for i in range(number + 1)}
        tree.save(state, number - 1 if number else None)
    assert [tip.depth for tip in tree.tips] == [0, 1, 2, 3]
    assert state_size(tree.states[-1]) > 1_600_000
    rebuild(tree.stored(3), limit=2_000_000)
    with pytest.raises(Corrupt):
        rebuild(tree.stored(3), limit=1_000_000)
