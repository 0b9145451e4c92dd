"""Skip-deltas on a tree: short chains, the right bases, and no changed byte believed."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import parts, tried

from memalchemy.checkpoints.skip_deltas import READ_FACTOR, Draft, Link, Tip, encode, rebuild
from memalchemy.codec import deltas
from memalchemy.codec.checksum import payload_checksum
from memalchemy.codec.encryption import NO_KEYS
from memalchemy.codec.values import MAX_STATE_BYTES, Parts, encode_state, state_size
from memalchemy.errors import Corrupt
from memalchemy.log import Log


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
        tip = None if under is None else self.tips[under].limit_decoded(room)[0]
        draft = encode(state, tip, level=3, max_depth=max_depth)
        seq = len(self.tips)
        self.tips.append(draft.as_tip(f"c{seq}", seq, 7, draft.checksum))
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


def rebuilt(links: Sequence[Link], limit: int = MAX_STATE_BYTES) -> Tip:
    """The tip of rows as they are read back."""
    raw_size = 0  # what a database says here is not needed
    return rebuild(LOG, Tip("read", 7, tuple(links), raw_size), NO_KEYS, limit)


LOG = Log("default", "a thread", "/")


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


@tried(60)
@given(trees())
def test_every_state_of_any_tree_of_saves_is_rebuilt(tree: Tree) -> None:
    for seq, state in enumerate(tree.states):
        assert in_order(rebuilt(tree.stored(seq)).parts()) == in_order(state)
        assert in_order(tree.tips[seq].parts()) == in_order(state)
        for index, link in enumerate(tree.stored(seq)):
            assert in_order(tree.tips[seq].parts_at(index)) == in_order(tree.states[link.seq])
        assert in_order(tree.tips[seq].limit_decoded(0)[0].parts()) == in_order(state)


@tried(60)
@given(trees())
def test_what_a_cache_holds_of_a_chain_is_what_the_database_has(tree: Tree) -> None:
    for seq, tip in enumerate(tree.tips):
        assert tuple(replace(link, parts=None) for link in tip.links) == tree.stored(seq)


@tried(60)
@given(trees())
def test_the_base_has_the_lowest_digit_of_the_depth_in_base_4_one_less(tree: Tree) -> None:
    for seq, base in enumerate(tree.bases):
        depth = tree.tips[seq].depth
        if base is None:
            assert depth == 0
        else:
            higher, lowest, zeros = digits(depth)
            assert tree.tips[base].depth == (higher * 4 + lowest - 1) * 4**zeros


def digits(depth: int) -> tuple[int, int, int]:
    """The digits of a depth in base 4: those above its lowest that is not zero, that one, and the
    number of zeros below it.
    """
    zeros = 0
    while depth % 4 == 0:
        depth, zeros = depth // 4, zeros + 1
    return depth // 4, depth % 4, zeros


def digit_sum(depth: int) -> int:
    return depth % 4 + digit_sum(depth // 4) if depth else 0


def line(length: int, *, max_depth: int = 1024) -> Tree:
    """One thread that grows by an entry a save, too slowly for a second snapshot to be due."""
    tree = Tree()
    text = random.Random(3).randbytes(50_000)
    for number in range(length):
        state = {"log": text + b"entry;" * number, "n": b"%d" % number}
        tree.save(state, number - 1 if number else None, max_depth=max_depth)
    return tree


def test_a_state_is_a_snapshot_and_as_many_deltas_as_the_digits_of_its_depth_add_up_to() -> None:
    tree = line(600)
    assert [tip.depth for tip in tree.tips] == list(range(600))
    for tip in tree.tips[1:]:
        assert len(tip.links) == 1 + digit_sum(tip.depth)


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


def read_bytes(tip: Tip) -> int:
    """What a load reads beside the snapshot."""
    return sum(len(link.payload) for link in tip.links[1:])


def test_a_snapshot_comes_when_the_deltas_that_a_load_reads_are_twice_its_size() -> None:
    dice = random.Random(1)
    tree = Tree()
    tree.save({"a": dice.randbytes(1000)}, None)
    kinds = []
    for number in range(60):
        state = dict(tree.states[-1])
        state[f"k{number}"] = dice.randbytes(300)
        kinds.append(tree.save(state, number).kind)
    assert kinds.index("snapshot") == 6, "the seventh would read twice the snapshot"
    assert 1 < kinds.count("snapshot") < 6, "the snapshots grow, so they must become rarer"


def test_deltas_that_no_load_reads_together_do_not_bring_a_snapshot() -> None:
    """A value that is replaced each time: the deltas outweigh the snapshot, their chains do not."""
    dice = random.Random(1)
    tree = Tree()
    tree.save({"a": dice.randbytes(3000), "b": b""}, None)
    for number in range(60):
        tree.save({"a": tree.states[0]["a"], "b": dice.randbytes(300)}, number)
    assert [tip.depth for tip in tree.tips] == list(range(61))
    assert sum(len(tip.links[-1].payload) for tip in tree.tips[1:]) > 5 * 3000


@tried(50)
@given(trees())
def test_a_load_reads_at_most_three_times_the_snapshot(tree: Tree) -> None:
    """The first delta may be larger: a thread often starts with next to nothing."""
    for tip in tree.tips:
        if tip.depth > 1:
            assert read_bytes(tip) <= READ_FACTOR * len(tip.links[0].payload)


def test_a_growing_history_is_stored_about_once() -> None:
    """Deep in a state, so that with each message lengths change before all that is there."""
    dice = random.Random(9)
    tree, whole = Tree(), 0
    messages: list[dict[str, object]] = []
    for number in range(400):
        text = dice.randbytes(100).hex()
        messages.append({"role": "user", "content": text, "n": number})
        state = {"run": {"step": number, "agents": [{"log": messages, "open": [number]}]}}
        tree.save(encode_state(state), number - 1 if number else None, room=2**22)
        whole += len(text) // 2
    stored = [(tip.depth, len(tip.links[-1].payload)) for tip in tree.tips]
    # A base is up to a power of 4 messages back; so each is stored a few times, and in snapshots.
    assert sum(size for _, size in stored) < 7 * whole
    steps = [size for depth, size in stored if depth % 4]
    assert max(steps) < 210, "a step on its parent is a message, whatever was before"
    for tip in tree.tips[2:]:
        assert read_bytes(tip) <= max(READ_FACTOR * len(tip.links[0].payload), 250)


def test_a_base_whose_depth_was_damaged_is_done_without() -> None:
    """No checksum covers the column."""
    tree = line(4)
    links = tree.tips[3].links
    assert [link.depth for link in links] == [0, 1, 2, 3]
    damaged = replace(tree.tips[3], links=(*links[:-1], replace(links[-1], depth=8)))
    draft = encode(tree.states[3], damaged, level=3, max_depth=1024)
    assert in_order(draft.as_tip("c", 4, 7, draft.checksum).parts()) == in_order(tree.states[3])
    lost = replace(tree.tips[3], links=(replace(links[0], depth=9), *links[1:]))
    assert encode(tree.states[3], lost, level=3, max_depth=1024).kind == "snapshot"


@tried(50)
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
        bounded, held = tip.limit_decoded(room)
        kept = [link.parts is not None for link in bounded.links]
        assert kept == sorted(kept), "an older state was kept before a newer one"
        payloads = sum(len(link.payload) for link in tip.links)
        assert held == bounded.held_bytes() <= max(room, payloads)
        assert [link.payload for link in bounded.links] == [link.payload for link in tip.links]


def test_a_rebuilt_chain_has_its_own_state_decoded_and_no_other() -> None:
    tip = rebuilt(line(64).stored(63))
    assert [link.parts is not None for link in tip.links] == [False] * 9 + [True]


# --- Damage --------------------------------------------------------------------------------------


def small_chain() -> tuple[Link, ...]:
    tree, noise = Tree(), random.Random(5).randbytes(300)
    for number in range(8):
        state = {"log": noise + b"entry %d;" % number * number, f"k{number}": b"new"}
        tree.save(state, number - 1 if number else None)
    links = tree.stored(7)
    assert [link.depth for link in links] == [0, 4, 5, 6, 7]
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
                    rebuilt(damage(links, index, bytes(payload)))


def test_any_shortened_or_lengthened_payload_is_corrupt() -> None:
    links = small_chain()
    for index, link in enumerate(links):
        for end in range(len(link.payload)):
            with pytest.raises(Corrupt):
                rebuilt(damage(links, index, link.payload[:end]))
        for more in (b"\x00", b"\xff" * 9, link.payload):
            with pytest.raises(Corrupt):
                rebuilt(damage(links, index, link.payload + more))


@tried(120)
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
        rebuilt(damage(links, index, bytes(payload)))


@tried(120)
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
    checksum = payload_checksum(bytes(payload), {})
    low = (checksum + 2**63) & 0xFFFFFFFF
    high = (links[index].checksum + 2**63) >> 32
    forged = replace(links[index], payload=bytes(payload), checksum=((high << 32) | low) - 2**63)
    try:
        believed = rebuilt((*links[:index], forged, *links[index + 1 :]))
    except Corrupt:
        return
    assert in_order(believed.parts()) == in_order(tree.states[seq])


@tried(80)
@given(trees(), st.data())
def test_a_changed_checksum_is_corrupt(tree: Tree, data: st.DataObject) -> None:
    links = tree.stored(data.draw(st.integers(0, len(tree.tips) - 1)))
    last = links[-1]
    checksum = last.checksum ^ (1 << data.draw(st.integers(0, 62)))
    with pytest.raises(Corrupt):
        rebuilt((*links[:-1], replace(last, checksum=checksum)))


@tried(80)
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
        believed = rebuilt(broken)
    except Corrupt:
        return
    # Without its last row, or with another in its place, it is another whole state.
    whole = [tree.stored(i) for i in range(len(tree.tips))]
    states = [
        in_order(state)
        for rows, state in zip(whole, tree.states, strict=True)
        if rows[-1].checksum == broken[-1].checksum
    ]
    assert in_order(believed.parts()) in states


@tried(150)
@given(trees(), st.data())
def test_a_damaged_row_that_was_sealed_anew_is_corrupt_or_what_it_was(
    tree: Tree, data: st.DataObject
) -> None:
    """More than a byte: pieces cut out, put in, doubled; only the state's checksum is left."""
    seq = data.draw(st.integers(0, len(tree.tips) - 1))
    links = tree.stored(seq)
    index = data.draw(st.integers(0, len(links) - 1))
    payload = links[index].payload
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload)))
        until = data.draw(st.integers(at, min(len(payload), at + 6)))
        piece = st.one_of(st.binary(max_size=6), st.just(payload[at:until] * 2))
        payload = payload[:at] + data.draw(piece) + payload[until:]
    low = zlib.crc32(payload)
    high = (links[index].checksum + 2**63) >> 32
    forged = replace(links[index], payload=payload, checksum=((high << 32) | low) - 2**63)
    try:
        believed = rebuilt((*links[:index], forged, *links[index + 1 :]), limit=10_000_000)
    except Corrupt:
        return
    assert in_order(believed.parts()) == in_order(tree.states[seq])


def test_no_rows_are_corrupt() -> None:
    with pytest.raises(Corrupt):
        rebuilt(())


def test_a_state_over_the_limit_is_corrupt_however_it_came_about() -> None:
    """Each step alone stays below the limit; what they build does not."""
    tree, noise = Tree(), random.Random(5).randbytes(1000)
    for number in range(4):
        state = {"noise": noise} | {str(i): bytes(400_000) for i in range(number + 1)}
        tree.save(state, number - 1 if number else None)
    assert [tip.depth for tip in tree.tips] == [0, 1, 2, 3]
    assert state_size(tree.states[-1]) > 1_600_000
    rebuilt(tree.stored(3), limit=2_000_000)
    with pytest.raises(Corrupt):
        rebuilt(tree.stored(3), limit=1_000_000)
