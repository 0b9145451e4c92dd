"""Bytes packed smaller: a byte that says how, and the bytes. Knows nothing of what is in them."""

from __future__ import annotations

import threading
import zlib

import zstandard

from memalchemy.errors import Corrupt

_RAW, _ZSTD, _DEFLATE = b"\x00", b"\x01", b"\x02"
RAW = _RAW[0]
"""What bytes begin with that were not packed."""

PLAIN = 8
"""An addition up to here, such as a length for another, is compressed against nothing."""

_WINDOW = 32 * 1024
"""What deflate can see."""
_BRIEF = 4 * 1024
"""Up to here deflate packs tighter than zstd, and starts 20 times faster. It is five times as slow
on 15 KB that do not compress."""
_HEADER = 32
"""A zstd frame says within so many bytes how long it is."""
_SMALL = 40  # below this a zstd frame is never smaller than what it packs
_KEPT = 64 * 1024
"""What packs more than this is not kept for the next time: it holds some times as much memory."""


def pack(body: bytes, level: int | None, dictionary: bytes = b"") -> bytes:
    """*body* behind a byte that says how it is packed; without a *level*, or if no smaller, as is.

    What was packed with a *dictionary* is unpacked with the same.
    """
    if level is None:
        return _RAW + body
    if len(body) >= _SMALL or (dictionary and len(body) > PLAIN):
        how = _ZSTD
        if len(body) <= _BRIEF and len(dictionary) + len(body) <= _WINDOW:
            how = _DEFLATE
            deflate = zlib.compressobj(min(level + 3, 9), zlib.DEFLATED, -15, 8, zdict=dictionary)
            packed = deflate.compress(body) + deflate.flush()
        else:
            packed = _compressor(level, _dictionary(dictionary)).compress(body)
        if len(packed) < len(body):
            return how + packed
    return _RAW + body


def pack_alone(body: bytes) -> bytes:
    """*body* packed to be unpacked among many others: by zstd, however little it is.

    A short one takes a tenth more than deflate makes of it, and half the time to unpack.
    """
    if len(body) >= _SMALL:
        packed = _kept.compress(body) if len(body) <= _KEPT else _compressor(_LEVEL).compress(body)
        if len(packed) < len(body):
            return _ZSTD + packed
    return _RAW + body


def unpack(packed: bytes, limit: int, dictionary: bytes = b"") -> bytes:
    """The inverse of both; never inflates beyond *limit* bytes."""
    packing, body = packed[:1], packed[1:]
    if packing == _RAW:
        return body
    try:
        if packing == _DEFLATE:
            inflate = zlib.decompressobj(-15, zdict=dictionary)
            found = inflate.decompress(body, limit + 1)  # 0 would be no bound at all
            if len(found) > limit:
                raise Corrupt(f"a stored payload would inflate beyond {limit:,} bytes")
            if not inflate.eof:
                raise Corrupt("a stored payload ends too early")
            return found
        if packing != _ZSTD:
            raise Corrupt("a stored payload has an unknown packing")
        if zstandard.frame_content_size(body) > limit:
            raise Corrupt(f"a stored payload would inflate beyond {limit:,} bytes")
        context = _dictionary(dictionary)
        if context is None:
            return _kept.decompressor.decompress(body, max_output_size=max(limit, 1))
        return zstandard.ZstdDecompressor(dict_data=context).decompress(
            body, max_output_size=max(limit, 1)
        )
    except (zstandard.ZstdError, zlib.error) as error:
        raise Corrupt("a stored payload cannot be decompressed") from error


def unpacked_size(packed: bytes) -> int:
    """How many bytes `unpack` would give; of what it would refuse, 0."""
    if packed[:1] != _ZSTD:
        return max(len(packed) - 1, 0)
    try:
        return max(int(zstandard.frame_content_size(packed[1:_HEADER])), 0)
    except zstandard.ZstdError:
        return 0


_LEVEL = 3


class _Kept(threading.local):
    """What each thread packs and unpacks with: to make it takes longer than a short text does."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compress = _compressor(_LEVEL).compress


def _compressor(
    level: int, dictionary: zstandard.ZstdCompressionDict | None = None
) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=level, dict_data=dictionary, write_content_size=True)


def _dictionary(content: bytes) -> zstandard.ZstdCompressionDict | None:
    # Under 8 bytes zstd refuses a raw dictionary.
    if len(content) < 8:
        return None
    return zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


_kept = _Kept()
