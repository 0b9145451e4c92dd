"""Values of many rows decode at once as they do one by one, however each was packed."""

from __future__ import annotations

import random
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from states import examples, spelled, texts, values

from memalchemy.codec.compression import compress, compress_for_bulk_reads, decompress
from memalchemy.codec.payloads import VALUE_CODEC, decode_payload, decode_payloads, encode_payload
from memalchemy.codec.values import encode_value
from memalchemy.errors import Corrupt

LONG = "what was said, and what was answered; " * 40


def deflated(value: Any) -> tuple[bytes, int]:
    """As an earlier release stored a value of this length."""
    payload = compress(encode_value(value), 3)
    return payload, zlib.crc32(payload)


def thoroughly_compressed(value: Any) -> tuple[bytes, int]:
    """As an earlier release stored a value of this length, at a higher level of zstd."""
    payload = b"\x01" + zstandard.ZstdCompressor(level=3).compress(encode_value(value))
    return payload, zlib.crc32(payload)


stored = st.one_of(
    values.map(encode_payload),
    texts.map(lambda text: encode_payload(text + LONG)),
    texts.map(lambda text: deflated(text + LONG)),
    texts.map(lambda text: thoroughly_compressed(text + LONG)),
)


@examples(100)
@given(st.lists(stored, max_size=6))
def test_many_values_decode_as_each_does(rows: list[tuple[bytes, int]]) -> None:
    found = decode_payloads([p for p, _ in rows], [c for _, c in rows], [VALUE_CODEC] * len(rows))
    assert [spelled(one) for one in found] == [
        spelled(decode_payload(payload, checksum, VALUE_CODEC)) for payload, checksum in rows
    ]


@pytest.mark.parametrize("long", ["", LONG])
@pytest.mark.parametrize("damage", ["byte", "end", "checksum", "codec", "empty", "packing"])
def test_one_damaged_value_among_many_is_corrupt(damage: str, long: str) -> None:
    rows = [(*encode_payload(f"{n}{long}"), VALUE_CODEC) for n in range(5)]
    payload, checksum, codec = rows[3]
    rows[3] = {
        "byte": (payload[:-1] + bytes([payload[-1] ^ 1]), checksum, codec),
        "end": (payload[:-1], checksum, codec),
        "checksum": (payload, checksum + 1, codec),
        "codec": (payload, checksum, "zvalue2"),
        "empty": (b"", zlib.crc32(b""), codec),
        "packing": (b"\x09" + payload[1:], zlib.crc32(b"\x09" + payload[1:]), codec),
    }[damage]
    payloads, checksums, codecs = (list(column) for column in zip(*rows, strict=True))

    with pytest.raises(Corrupt):
        decode_payloads(payloads, checksums, codecs)
    with pytest.raises(Corrupt):
        decode_payload(*rows[3])


@examples(60)
@given(st.binary(max_size=300), st.sampled_from([1, 2, 50, 1000]))
def test_what_is_packed_alone_is_unpacked_and_never_beyond_the_limit(
    body: bytes, times: int
) -> None:
    body *= times
    packed = compress_for_bulk_reads(body)
    assert len(packed) <= len(body) + 1
    assert decompress(packed, len(body)) == body
    if packed[:1] != b"\x00":
        with pytest.raises(Corrupt):
            decompress(packed, len(body) - 1)


def test_a_short_value_keeps_its_single_characters_which_a_long_one_does_not() -> None:
    letters = random.Random(1).choices("etaoin shrdlu", k=8000)
    short, long = "".join(letters[:2000]).encode(), "".join(letters).encode()
    assert len(compress_for_bulk_reads(short)) > 0.9 * len(short)
    assert len(compress_for_bulk_reads(long)) < 0.6 * len(long)


def test_threads_pack_and_unpack_at_once() -> None:
    bodies = [f"{n} {LONG}".encode() * (1 + n % 60) for n in range(300)]
    with ThreadPoolExecutor(8) as pool:
        packed = list(pool.map(compress_for_bulk_reads, bodies))
        assert list(pool.map(lambda one: decompress(one, 2**20), packed)) == bodies
