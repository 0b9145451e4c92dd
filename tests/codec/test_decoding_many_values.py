"""Values of many rows decode at once as they do one by one, however each was packed."""

from __future__ import annotations

import random
import threading
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from states import spelled, texts, tried, values

from memalchemy.codec import compression
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


@tried(100)
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


@tried(60)
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


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many contexts of zstd were created, by their class."""
    counts: Counter[str] = Counter()

    def counted(name: str, original: Any) -> Any:
        def create(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return original(*args, **options)

        return create

    for name in ("ZstdCompressor", "ZstdDecompressor"):
        monkeypatch.setattr(zstandard, name, counted(name, getattr(zstandard, name)))
    return counts


def in_a_new_thread(work: Any) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_threads_that_read_in_turn_share_a_decompressor_and_create_no_compressor(
    created: Counter[str],
) -> None:
    packed = compress_for_bulk_reads(LONG.encode())
    created.clear()
    found: list[bytes] = []
    for _ in range(20):
        in_a_new_thread(lambda: found.append(decompress(packed, 2**20)))
    assert found == [LONG.encode()] * 20
    assert created["ZstdDecompressor"] <= 1
    assert created["ZstdCompressor"] == 0


@pytest.mark.parametrize("size", [100, 10_000])
def test_threads_that_write_in_turn_share_a_compressor(size: int, created: Counter[str]) -> None:
    for _ in range(20):
        in_a_new_thread(lambda: compress_for_bulk_reads(b"ab" * (size // 2)))
    assert created["ZstdCompressor"] <= 1


def test_a_decompressor_that_failed_is_not_used_again_and_others_go_on() -> None:
    packed = compress_for_bulk_reads(LONG.encode())
    damaged = packed[:-20] + bytes(20)
    for _ in range(20):
        with pytest.raises(Corrupt):
            decompress(damaged, 2**20)
        assert decompress(packed, 2**20) == LONG.encode()


def test_no_two_threads_use_one_at_a_time_and_few_are_kept(
    created: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = 20
    all_in = threading.Barrier(at_once)
    used: list[Any] = []
    packed = compress_for_bulk_reads(LONG.encode())

    class Waiting:
        """A decompressor that is in use until all threads use one."""

        def __init__(self, dict_data: Any) -> None:
            created["waiting"] += 1

        def decompress(self, body: bytes, max_output_size: int) -> bytes:
            used.append(self)
            all_in.wait(60)
            return b"done"

    monkeypatch.setattr(zstandard, "ZstdDecompressor", Waiting)
    monkeypatch.setattr(compression, "_decompressors", compression._Pool(compression._decompressor))
    for _ in range(2):
        used.clear()
        with ThreadPoolExecutor(at_once) as pool:
            futures = [pool.submit(decompress, packed, 2**20) for _ in range(at_once)]
            assert [future.result() for future in futures] == [b"done"] * at_once
        assert len({id(one) for one in used}) == at_once
    assert created["waiting"] == 2 * at_once - compression._MAX_IDLE
