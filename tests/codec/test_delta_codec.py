"""Deltas rebuild any state from any base, and bytes that make no sense are `Corrupt`."""

from __future__ import annotations

import signal
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import ormsgpack
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from states import byte_pairs, parts, tried

from memalchemy.codec import deltas
from memalchemy.codec.checksum import check_payload, check_state, payload_checksum, state_checksum
from memalchemy.codec.compression import TINY, compress, decompress
from memalchemy.codec.deltas import (
    Comparison,
    apply_deltas,
    common_prefix,
    decode_snapshot,
    edits,
    encode_delta,
    encode_snapshot,
)
from memalchemy.codec.values import MAX_STATE_BYTES, Parts
from memalchemy.errors import Corrupt

levels = st.sampled_from([1, 3, 19])


@st.composite
def edited(draw: st.DrawFn, base: Parts) -> Parts:
    """A state that came of *base* as states do: some values kept, spliced, dropped, reordered."""
    new: Parts = {}
    for key in draw(st.permutations(list(base))) if draw(st.booleans()) else list(base):
        value = base[key]
        change = draw(st.sampled_from(["keep", "splice", "drop", "append", "copy"]))
        if change == "drop":
            continue
        if change == "splice":
            at = draw(st.integers(0, len(value)))
            until = draw(st.integers(at, len(value)))
            value = value[:at] + draw(st.binary(max_size=60)) + value[until:]
        elif change == "append":
            value += draw(st.binary(max_size=200))
        elif change == "copy":
            value = bytes(bytearray(value))
        new[key] = value
    return new | draw(st.one_of(st.just({}), parts))


pairs = parts.flatmap(lambda base: st.tuples(st.just(base), st.one_of(parts, edited(base))))


def apply_delta(base: Parts, payload: bytes, limit: int = MAX_STATE_BYTES) -> Parts:
    return apply_deltas(base, [payload], limit)


def in_order(state: Parts) -> list[tuple[str, bytes]]:
    return list(state.items())


@contextmanager
def at_most(megabytes: float) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * 1e6
    finally:
        tracemalloc.stop()


@tried(120)
@given(parts, levels)
def test_a_snapshot_decodes_to_the_same_state_in_the_same_order(new: Parts, level: int) -> None:
    assert in_order(decode_snapshot(encode_snapshot(new, level))) == in_order(new)


@tried(250)
@given(pairs, levels)
def test_a_delta_rebuilds_any_state_from_any_base(pair: tuple[Parts, Parts], level: int) -> None:
    base, new = pair
    assert in_order(apply_delta(base, encode_delta(Comparison(base), new, level))) == in_order(new)


@tried(50)
@given(pairs)
def test_encoding_and_applying_leave_the_base_as_it_was(pair: tuple[Parts, Parts]) -> None:
    base, new = pair
    before = in_order(base)
    apply_delta(base, encode_delta(Comparison(base), new, 3))
    assert in_order(base) == before


@tried(50)
@given(pairs)
def test_equal_input_gives_equal_payloads(pair: tuple[Parts, Parts]) -> None:
    base, new = pair
    again = {key: bytes(bytearray(value)) for key, value in new.items()}
    assert encode_delta(Comparison(base), new, 3) == encode_delta(Comparison(dict(base)), again, 3)
    assert encode_snapshot(new, 3) == encode_snapshot(again, 3)


@tried(80)
@given(pairs)
def test_unchanged_values_are_shared_with_the_base(pair: tuple[Parts, Parts]) -> None:
    base, new = pair
    rebuilt = apply_delta(base, encode_delta(Comparison(base), new, 3))
    for key, value in rebuilt.items():
        if base.get(key) == value:
            assert value is base[key]


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("at", [0, 1, 65_535, 65_536, 199_999])
def test_a_change_at_the_edge_of_a_comparison_is_found(size: int, at: int) -> None:
    old = bytes(i * 7 % 251 for i in range(size))
    new = old[:at] + b"\xff" + old[at + 1 :]
    assert apply_delta({"a": old}, encode_delta(Comparison({"a": old}), {"a": new}, 3)) == {
        "a": new
    }
    assert edits(old, new) == [
        *([(at, 1, 1)] if at < size else []),
        *([(size, 0, 1)] if at >= size else []),
    ]


def edited_by(old: bytes, found: list[deltas.Edit], new: bytes) -> bytes:
    """What *found* makes of *old*; of *new* only the added bytes are taken."""
    built, at = b"", 0
    for keep, drop, add in found:
        built += old[at : at + keep]
        built += new[len(built) : len(built) + add]
        at += keep + drop
    return built + old[at:]


@tried(300)
@given(byte_pairs)
def test_edits_make_one_of_the_other_and_are_few(pair: tuple[bytes, bytes]) -> None:
    old, new = pair
    found = edits(old, new)
    assert edited_by(old, found, new) == new
    assert (found == []) == (old == new)
    assert len(found) <= deltas.MAX_EDITS
    assert sum(keep + drop for keep, drop, _ in found) <= len(old)
    assert all(min(edit) >= 0 and max(edit[1:]) for edit in found)
    # All but the last are lengths that changed: they need nothing to be compressed against.
    assert all(max(edit[1:]) <= TINY for edit in found[:-1])


@tried(120)
@given(
    st.binary(max_size=8).flatmap(lambda a: st.tuples(st.just(a), st.binary(max_size=8))),
    st.sampled_from([0, 1, 65_535, 65_536, 65_537]),
    st.sampled_from([0, 1, 65_535, 65_536, 65_537]),
)
def test_what_is_common_is_found_to_the_byte(
    ends: tuple[bytes, bytes], before: int, after: int
) -> None:
    old, new = (b"p" * before + middle + b"s" * after for middle in ends)
    prefix = common_prefix(old, 0, new, 0)
    assert old[:prefix] == new[:prefix]
    assert prefix == min(len(old), len(new)) or old[prefix] != new[prefix]
    found = edits(old, new)
    assert edited_by(old, found, new) == new
    assert sum(add for _, _, add in found) <= 8 + TINY


@tried(150)
@given(st.lists(byte_pairs, min_size=1, max_size=6), st.booleans(), levels)
def test_a_chain_of_deltas_ends_in_the_last_state(
    steps: list[tuple[bytes, bytes]], long: bool, level: int
) -> None:
    filling = bytes(range(256)) * (300 if long else 0)
    states: list[Parts] = [
        {"a": filling + value, "b": b"kept" * 40} for pair in steps for value in pair
    ]
    states[-1]["new"] = b""
    payloads = [encode_delta(Comparison(old), new, level) for old, new in pairwise(states)]
    rebuilt = apply_deltas(states[0], payloads)
    assert in_order(rebuilt) == in_order(states[-1])
    assert all(type(value) is bytes for value in rebuilt.values())
    size = sum(map(len, rebuilt.values()))
    assert in_order(apply_deltas(states[0], payloads, limit=size + 100_000)) == in_order(rebuilt)
    with pytest.raises(Corrupt):
        apply_deltas(states[0], payloads, limit=size - 1)


def test_without_a_delta_the_base_is_the_state() -> None:
    base = {"a": b"x" * 100_000, "b": b""}
    rebuilt = apply_deltas(base, [])
    assert rebuilt == base
    assert rebuilt["a"] is base["a"]


def test_an_edit_in_the_middle_of_a_large_value_takes_few_bytes() -> None:
    body = b"".join(f"line {i}\n".encode() for i in range(100_000))
    changed = body[:500_000] + b"something else" + body[500_100:]
    payload = encode_delta(Comparison({"a": body, "b": body}), {"a": changed, "b": body}, 3)
    assert len(payload) < 100


def test_a_step_that_changes_nothing_takes_six_bytes() -> None:
    state = {f"key {i}": b"x" * 1000 for i in range(100)}
    assert len(encode_delta(Comparison(state), dict(state), 3)) == 6


@tried(80)
@given(parts, parts)
def test_the_checksum_of_a_state_sees_keys_values_and_order(one: Parts, other: Parts) -> None:
    same = in_order(one) == in_order(other)
    assert (state_checksum(one) == state_checksum(other)) == same
    shifted = dict(reversed(in_order(one)))
    assert (state_checksum(one) == state_checksum(shifted)) == (in_order(one) == in_order(shifted))


@tried(80)
@given(parts, st.binary(max_size=50), st.binary(max_size=50))
def test_a_seal_holds_for_its_own_payload_and_state_only(
    state: Parts, payload: bytes, other: bytes
) -> None:
    checksum = payload_checksum(payload, state)
    assert -(2**63) <= checksum < 2**63
    check_payload(payload, checksum)
    check_state(state, checksum)
    if other != payload:
        with pytest.raises(Corrupt):
            check_payload(other, checksum)
    with pytest.raises(Corrupt):
        check_state(state | {"one more": b""}, checksum)


# --- Bytes that nobody wrote ---------------------------------------------------------------------


def only_corrupt(work: Callable[[], Parts]) -> None:
    try:
        rebuilt = work()
    except Corrupt:
        return
    assert all(type(k) is str and type(v) is bytes for k, v in rebuilt.items())


def deflated(body: bytes, dictionary: bytes = b"") -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15, zdict=dictionary)
    return b"\x02" + packer.compress(body) + packer.flush()


def delta(recipe: Any, packed: Any = b"\x00", keys: Any = None) -> bytes:
    return ormsgpack.packb((keys, recipe, packed))


numbers = st.one_of(
    st.integers(0, 5),
    st.sampled_from([-1, -3, -(2**63), 64, 65, 127, 128, 2**31, 2**32, 2**62, 2**63, 2**64 - 1]),
)
odd = st.one_of(
    numbers,
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=2),
    st.binary(max_size=4),
    st.lists(numbers, max_size=2),
    st.dictionaries(st.text(max_size=1), numbers, max_size=2),
)
bodies = st.binary(max_size=80)
packed = st.one_of(
    bodies,
    bodies.map(lambda body: b"\x00" + body),
    bodies.map(lambda body: b"\x01" + zstandard.compress(body)),
    bodies.map(deflated),
    odd,
)
pieces = st.one_of(
    odd.map(ormsgpack.packb),
    st.binary(max_size=6),
    st.sampled_from([b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc1", b"\xd4\x01a"]),
    st.just(zstandard.FRAME_HEADER),
)
trees = st.recursive(odd, lambda inner: st.lists(inner, max_size=5), max_leaves=20)
recipes = st.one_of(
    st.lists(st.integers(0, 6), max_size=12),
    st.lists(numbers, max_size=12),
    st.lists(odd, max_size=12),
    odd,
)
nonsense = st.one_of(
    st.binary(max_size=80),
    st.lists(pieces, max_size=12).map(b"".join),
    st.lists(pieces, max_size=12).map(lambda body: b"\x00" + b"".join(body)),
    trees.map(ormsgpack.packb),
    trees.map(ormsgpack.packb).map(lambda body: b"\x00" + body),
    trees.map(ormsgpack.packb).map(deflated),
    trees.map(ormsgpack.packb).map(lambda body: b"\x01" + zstandard.compress(body)),
    st.builds(delta, recipes, packed, st.one_of(st.none(), odd, st.lists(odd, max_size=4))),
)


@tried(250)
@given(nonsense)
def test_random_bytes_are_no_snapshot(payload: bytes) -> None:
    only_corrupt(lambda: decode_snapshot(payload, limit=100_000))


@tried(250)
@given(parts, nonsense)
def test_random_bytes_are_no_delta(base: Parts, payload: bytes) -> None:
    only_corrupt(lambda: apply_delta(base, payload, limit=100_000))


@st.composite
def damaged(draw: st.DrawFn, payload: bytes) -> bytes:
    """*payload* with a few bytes changed, cut out, put in, or its end lost."""
    body = bytearray(payload)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body)))
        until = draw(st.integers(at, min(len(body), at + 4)))
        body[at:until] = draw(st.one_of(st.binary(max_size=4), pieces))
    return bytes(body[: draw(st.integers(0, len(body)))] if draw(st.booleans()) else body)


@tried(200)
@given(pairs, st.data())
def test_a_damaged_payload_decodes_to_something_or_is_corrupt(
    pair: tuple[Parts, Parts], data: st.DataObject
) -> None:
    base, new = pair
    delta = data.draw(damaged(encode_delta(Comparison(base), new, 3)))
    only_corrupt(lambda: apply_delta(base, delta, limit=1_000_000))
    snapshot = data.draw(damaged(encode_snapshot(new, 3)))
    only_corrupt(lambda: decode_snapshot(snapshot, limit=1_000_000))


@tried(80)
@given(pairs, parts)
def test_a_delta_on_another_base_never_gives_the_sealed_state(
    pair: tuple[Parts, Parts], wrong: Parts
) -> None:
    base, new = pair
    payload = encode_delta(Comparison(base), new, 3)
    checksum = payload_checksum(payload, new)
    try:
        rebuilt = apply_delta(wrong, payload)
        check_state(rebuilt, checksum)
    except Corrupt:
        return
    assert in_order(rebuilt) == in_order(new)


@tried(50)
@given(pairs)
def test_every_shortened_payload_fails_its_checksum(pair: tuple[Parts, Parts]) -> None:
    base, new = pair
    payload = encode_delta(Comparison(base), new, 3)
    checksum = payload_checksum(payload, new)
    for end in range(min(len(payload), 300)):
        with pytest.raises(Corrupt):
            check_payload(payload[:end], checksum)
        only_corrupt(lambda end=end: apply_delta(base, payload[:end]))


@tried(50)
@given(st.binary(min_size=1, max_size=120), st.data())
def test_a_changed_byte_always_fails_the_checksum(payload: bytes, data: st.DataObject) -> None:
    checksum = payload_checksum(payload, {})
    at = data.draw(st.integers(0, len(payload) - 1))
    changed = bytearray(payload)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Corrupt):
        check_payload(bytes(changed), checksum)


# --- Bombs ---------------------------------------------------------------------------------------

ZEROS = 64 * 1024 * 1024


def zeros(*, states_its_size: bool) -> bytes:
    packer = zstandard.ZstdCompressor(write_content_size=states_its_size)
    return packer.compress(bytes(ZEROS))


def bombs() -> list[bytes]:
    return [
        b"\x01" + zeros(states_its_size=True),
        b"\x01" + zeros(states_its_size=False),
        deflated(bytes(ZEROS)),
    ]


PACKINGS = ["zstd", "zstd of unknown size", "deflate"]


@pytest.mark.parametrize("bomb", bombs(), ids=PACKINGS)
def test_a_snapshot_never_inflates_beyond_the_limit(bomb: bytes) -> None:
    assert len(bomb) < 100_000
    with at_most(4), pytest.raises(Corrupt):
        decode_snapshot(bomb, limit=1_000_000)


@pytest.mark.parametrize("bomb", bombs(), ids=PACKINGS)
@pytest.mark.parametrize("recipe", [[0, 0, 1000], [0, 1, 0, 0, 1000], [0, 0, 0], []])
def test_a_delta_never_inflates_beyond_what_its_recipe_says(bomb: bytes, recipe: list[int]) -> None:
    with at_most(4), pytest.raises(Corrupt):
        apply_delta({"a": b""}, delta(recipe, bomb))


def test_a_delta_that_claims_more_than_the_limit_is_corrupt() -> None:
    for bomb in (bombs()[0], bombs()[2]):
        payload = delta([0, 0, ZEROS], bomb)
        with at_most(4), pytest.raises(Corrupt):
            apply_delta({"a": b""}, payload, limit=1_000_000)
    honest = delta([0, 0, ZEROS], bombs()[0])
    assert len(apply_delta({"a": b""}, honest, limit=ZEROS)["a"]) == ZEROS
    deflated_bomb = delta([0, 0, ZEROS], bombs()[2])
    with at_most(4), pytest.raises(Corrupt):  # only what is short is ever deflated
        apply_delta({"a": b""}, deflated_bomb, limit=ZEROS)


def test_a_frame_that_lies_about_its_size_is_corrupt() -> None:
    honest = zstandard.compress(b"x" * 300)
    for claimed in (0, 1, 255):
        lying = bytearray(honest)
        lying[5] = claimed  # behind the magic number and the descriptor
        with pytest.raises(Corrupt):
            decode_snapshot(b"\x01" + bytes(lying))


@tried(60)
@given(st.binary(min_size=1, max_size=80), st.sampled_from([1, 2, 50]))
def test_a_deflated_body_is_read_whole_or_not_at_all(body: bytes, times: int) -> None:
    body *= times
    packed = deflated(body)
    assert decompress(packed, len(body)) == body
    for end in range(1, len(packed)):
        with pytest.raises(Corrupt):
            decompress(packed[:end], len(body))
    for limit in {0, len(body) // 2, len(body) - 1}:
        with pytest.raises(Corrupt):
            decompress(packed, limit)


@pytest.mark.parametrize("opening", [b"\xdd", b"\xdf", b"\xdb", b"\xc6"])
@pytest.mark.parametrize("count", [2**31, 2**32 - 1])
def test_a_length_beyond_the_payload_ends_at_once(opening: bytes, count: int) -> None:
    body = opening + count.to_bytes(4, "big") + b"\x00" * 50
    with at_most(1), pytest.raises(Corrupt):
        decode_snapshot(b"\x00" + body)
    for payload in (body, b"\x93" + body, b"\x93\xc0" + body, b"\x93\xc0\x90" + body):
        with at_most(1), pytest.raises(Corrupt):
            apply_delta({"a": b""}, payload)


@contextmanager
def in_seconds(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "recipe",
    [
        [0, -1],
        [0, -1, 0],
        [0, 1, -1, 0, 0],
        [0, 1, 0, -1, 0],
        [0, 1, 0, 0, -1],
        [0, 0, -1],
        [-1, 0, 0],
        [0, 2, 600_000, 0, 0, 600_000, 0, 0],
        [0, 1, 2**64 - 1, 0, 0],
        [0, 1, 0],
        [0, 1],
        [0],
        [7, 0, 0],
        [0, 1.0, 0, 0, 0],
        [0, 1, 0.0, 0, 0],
        [0, "1", 0, 0, 0],
        [0, [], 0],
        [None],
    ],
)
def test_a_recipe_that_cannot_be_is_corrupt_and_ends(recipe: list[Any]) -> None:
    with in_seconds(10), at_most(4), pytest.raises(Corrupt):
        apply_delta({"a": b"x" * 1_000_000}, delta(recipe))


@pytest.mark.parametrize(
    ("keys", "recipe"),
    [
        (None, [0, 1, 1_000_000, 0, 0] * 200),
        (None, [0, 1, 0, 1_000_000, 0] * 200),
        (None, [0, 0, 0] * 200),
        (None, [0, 5_000, *([1, 0, 9] * 5_000)]),
        ([0] * 200, [n for place in range(200) for n in (place, 0, 0)]),
    ],
)
def test_a_recipe_that_names_one_value_many_times_takes_little_memory(
    keys: list[int] | None, recipe: list[int]
) -> None:
    """Each edit brings its surroundings in the base into the dictionary."""
    base = {"a": b"x" * 1_000_000}
    with at_most(10), pytest.raises(Corrupt):
        apply_delta(base, delta(recipe, b"\x00", keys))


def test_the_middles_of_another_base_do_not_pass_for_these() -> None:
    """zstd decodes with a wrong dictionary as if nothing were the matter."""
    text = b"".join(b"%d squared is %d. " % (i, i * i) for i in range(1000))
    base = {"a": text + b"|old|" + text}
    new = {"a": text + b"|" + text[500:5000] + b"|" + text}
    payload = encode_delta(Comparison(base), new, 3)
    checksum = payload_checksum(payload, new)
    wrong = {"a": bytes(reversed(text)) + b"|old|" + text}
    assert zlib.crc32(payload) == (checksum + 2**63) & 0xFFFFFFFF
    with pytest.raises(Corrupt):
        check_state(apply_delta(wrong, payload), checksum)


@pytest.mark.parametrize("known", [0, 1, 7, 8, 9, 1000, 65_536, 65_537, 131_073])
@pytest.mark.parametrize("size", [100, 4_097, 40_000, 600_000])
def test_a_dictionary_of_any_size_gives_back_what_was_compressed_with_it(
    known: int, size: int
) -> None:
    words = b"".join(b"%d of %d, " % (n * n, n) for n in range(60_000))
    dictionary, body = words[:known], (words[known // 2 :] + words)[:size]
    compressed = compress(body, 3, dictionary)
    assert decompress(compressed, size, dictionary) == body
    with pytest.raises(Corrupt):
        decompress(compressed, size - 1, dictionary)


@pytest.mark.parametrize("magic", [b"\x37\xa4\x30\xec", b"\x28\xb5\x2f\xfd"])
def test_a_dictionary_is_bytes_whatever_zstd_would_take_them_for(magic: bytes) -> None:
    dictionary = magic + b"".join(b"%d " % (n * n) for n in range(2_000))
    body = dictionary[:3_000] + b"".join(b"%d " % n for n in range(2_000))
    assert decompress(compress(body, 3, dictionary), len(body), dictionary) == body
