"""Compress bytes with zstd or deflate. The first byte of the result says which, or neither."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import zstandard

from memalchemy.errors import Corrupt

T = TypeVar("T")

_UNCOMPRESSED, _ZSTD, _DEFLATE = b"\x00", b"\x01", b"\x02"
UNCOMPRESSED = _UNCOMPRESSED[0]
"""First byte of a result that is not compressed."""

TINY = 8
"""Bytes up to which a text is not compressed, not even with a dictionary."""

_MIN_BYTES = 40
"""Bytes below which a zstd frame is never smaller than its content."""
_DEFLATE_BYTES = 4 * 1024
"""Bytes up to which deflate compresses better than zstd and starts 20 times faster. On 15 KB that
do not compress it takes five times as long."""
_DEFLATE_WINDOW = 32 * 1024
"""Bytes that deflate can refer back to."""
_FRAME_HEADER = 32
"""Bytes of a zstd frame that are enough to read the size of its content."""
_QUICK_BYTES = 4 * 1024
"""Bytes up to which values for bulk reads are compressed at `_QUICK_LEVEL`: they take a fifth more
and a quarter of the time to decompress. Longer ones would take a third more, and half of it."""
_THOROUGH_BYTES = 512 * 1024
"""Bytes up to which zstd works up to four levels above the one that was asked for: the result is a
tenth smaller, and takes at most 4 ms longer."""
_MIN_DICTIONARY = 8
"""Bytes below which zstd refuses a raw dictionary."""
_FRAMED_BYTES = 64 * 1024
"""Bytes of a dictionary up to which `_to_frame` makes a frame of it; a block of zstd has 128 KB."""
_REUSE_BYTES = 64 * 1024
"""Bytes up to which a compressor is reused: afterwards it holds several times as much."""

_LEVEL = 3
_QUICK_LEVEL = -1
"""Level of zstd that shortens repetitions only, and does not recode single characters."""


def compress(body: bytes, level: int | None, dictionary: bytes = b"") -> bytes:
    """Compress *body*, unless *level* is ``None`` or the result would not be smaller.

    What was compressed with a *dictionary* has to be decompressed with the same one.
    """
    if level is None:
        return _UNCOMPRESSED + body
    if len(body) >= _MIN_BYTES or (dictionary and len(body) > TINY):
        method = _ZSTD
        if len(body) <= _DEFLATE_BYTES and len(dictionary) + len(body) <= _DEFLATE_WINDOW:
            method = _DEFLATE
            deflate = zlib.compressobj(min(level + 3, 9), zlib.DEFLATED, -15, 8, zdict=dictionary)
            compressed = deflate.compress(body) + deflate.flush()
        else:
            thorough = max(level, min(level + 4, 9)) if len(body) <= _THOROUGH_BYTES else level
            compressed = _compressor(thorough, _dictionary(dictionary)).compress(body)
        if len(compressed) < len(body):
            return method + compressed
    return _UNCOMPRESSED + body


def compress_for_bulk_reads(body: bytes) -> bytes:
    """Compress *body* with zstd, whatever its size, for values that are read many at a time."""
    if len(body) >= _MIN_BYTES:
        if len(body) <= _REUSE_BYTES:
            pool = _quick_compressors if len(body) <= _QUICK_BYTES else _compressors
            compressor = pool.take()
            compressed = compressor.compress(body)
            pool.give_back(compressor)
        else:
            compressed = _compressor(_LEVEL).compress(body)
        if len(compressed) < len(body):
            return _ZSTD + compressed
    return _UNCOMPRESSED + body


def decompress(compressed: bytes, limit: int, dictionary: bytes = b"") -> bytes:
    """Decompress what either function returned, without ever inflating it beyond *limit* bytes.

    Raises:
        Corrupt: the content is damaged, larger than *limit*, or compressed in an unknown way.
    """
    method, body = compressed[:1], compressed[1:]
    try:
        if method == _ZSTD:
            size = zstandard.frame_content_size(body)
            if size > limit:
                raise Corrupt(f"a stored payload would inflate beyond {limit:,} bytes")
            if size < 0:  # `compress` always says it
                raise Corrupt("a stored payload does not say what size it inflates to")
            if len(dictionary) > _FRAMED_BYTES or (dictionary and size > _THOROUGH_BYTES):
                return _decompressor(dictionary).decompress(body, max_output_size=max(limit, 1))
            decompressor = _decompressors.take()
            if len(dictionary) < _MIN_DICTIONARY:
                found = decompressor.decompress(body, max_output_size=max(limit, 1))
            else:
                chain: list[Any] = [_to_frame(dictionary), body]
                found = decompressor.decompress_content_dict_chain(chain)
            _decompressors.give_back(decompressor)
            return found
        if method == _UNCOMPRESSED:
            return body
        if method != _DEFLATE:
            raise Corrupt("a stored payload is compressed in an unknown way")
        inflate = zlib.decompressobj(-15, zdict=dictionary)
        limit = min(limit, _DEFLATE_BYTES)  # nothing longer is ever deflated
        found = inflate.decompress(body, limit + 1)  # 0 would be no bound at all
        if len(found) > limit:
            raise Corrupt(f"a stored payload would inflate beyond {limit:,} bytes")
        if not inflate.eof:
            raise Corrupt("a stored payload ends too early")
        return found
    except (zstandard.ZstdError, zlib.error) as error:
        raise Corrupt("a stored payload cannot be decompressed") from error


def _to_frame(content: bytes) -> bytes:
    """Return *content* as an uncompressed frame of zstd.

    A decompressor is made with its dictionary, which takes longer than to decompress a short text.
    But one that is there takes the content of a frame as the dictionary of the next.
    """
    size = len(content)
    header = b"\x28\xb5\x2f\xfd\xa0" + size.to_bytes(4, "little")
    return header + (size << 3 | 1).to_bytes(3, "little") + content  # its one block is the last


def decompressed_size(compressed: bytes) -> int:
    """Return the size that `decompress` would return; 0 for content that it would refuse.

    Deflated content counts as it is stored, because deflate does not say its size.
    """
    if compressed[:1] != _ZSTD:
        return max(len(compressed) - 1, 0)
    try:
        return max(int(zstandard.frame_content_size(compressed[1:_FRAME_HEADER])), 0)
    except zstandard.ZstdError:
        return 0


def _compressor(
    level: int, dictionary: zstandard.ZstdCompressionDict | None = None
) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=level, dict_data=dictionary, write_content_size=True)


def _decompressor(dictionary: bytes = b"") -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(dict_data=_dictionary(dictionary))


def _dictionary(content: bytes) -> zstandard.ZstdCompressionDict | None:
    if len(content) < _MIN_DICTIONARY:
        return None
    return zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


_MAX_IDLE = 8
"""Contexts of a kind that are kept while nobody uses them. One takes 0.1 to 0.9 MB."""


class _Pool(Generic[T]):
    """Compressors or decompressors, each lent to one thread at a time.

    To create one takes longer than to compress a short text, and many threads are short-lived. Both
    methods are one call of a deque, which is atomic with and without the GIL: there is no lock that
    a thread could hold when another one forks. What is lent at that moment is lost to the child.
    """

    def __init__(self, create: Callable[[], T]) -> None:
        self._create = create
        self._idle: deque[T] = deque(maxlen=_MAX_IDLE)

    def take(self) -> T:
        """Return an idle one, or else a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._create()

    def give_back(self, one: T) -> None:
        """Keep for others what was taken. What failed need not be given back."""
        self._idle.append(one)


_decompressors = _Pool(_decompressor)
_compressors = _Pool(partial(_compressor, _LEVEL))
_quick_compressors = _Pool(partial(_compressor, _QUICK_LEVEL))
