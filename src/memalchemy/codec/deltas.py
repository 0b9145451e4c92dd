"""States as bytes against a base: cut what is common, compress what is left.

Per top-level key, the common prefix and suffix of the base's and the new value are cut; the middles
that remain are compressed with zstd, with the base's own cut-out middles and 16 KB before each as a
raw dictionary. Whole-state patch-from, key-level diffs, list diffs and chunk hashing each collapse
on some shape of state; this does not, and it costs less than compressing the state once.

A wrong dictionary decodes silently to garbage, so every payload carries a checksum of the rebuilt
state beside one of its own bytes (`seal`, `check`).

Payload of a snapshot: packing byte, then (compressed) the keys, the lengths, the values.
Payload of a delta: a recipe (see `_Recipe`), packing byte, then the (compressed) middles.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import zstandard

from memalchemy.codec.values import MAX_STATE_BYTES, Parts
from memalchemy.errors import Corrupt

CONTEXT = 16 * 1024
"""Bytes of the base before a cut that serve as dictionary: neighbours of an edit look like it."""

_CHUNK = 64 * 1024
_RAW, _ZSTD = 0, 1
_SMALL = 40  # below this a zstd frame is never smaller than what it packs


@dataclass(frozen=True, slots=True)
class Splice:
    """One changed value: ``base[:prefix] + middle + base[len(base) - suffix:]``."""

    position: int
    prefix: int
    suffix: int
    middle: int


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How the new state is laid over the base: its keys in order, and the splices of some.

    Bytes: varint 0 if the keys are the base's, else 1 + their number and, for each, 1 + its place
    in the base, or 0 and the key itself. Then the number of splices and four varints for each.
    """

    keys: list[str]
    splices: list[Splice]


def encode_snapshot(parts: Parts, level: int) -> bytes:
    """A payload that stands alone."""
    head = bytearray()
    _put(head, len(parts))
    for key, value in parts.items():
        _put_key(head, key)
        _put(head, len(value))
    return _pack(b"".join([head, *parts.values()]), level)


def decode_snapshot(payload: bytes, limit: int = MAX_STATE_BYTES) -> Parts:
    """The inverse of `encode_snapshot`; never inflates beyond *limit* bytes."""
    # The keys and lengths before the values come on top of what counts as the state.
    body = _unpack(payload, 0, limit + limit // 16 + _CHUNK)
    at = 0
    count, at = _take(body, at)
    sizes: list[tuple[str, int]] = []
    for _ in range(count):
        key, at = _take_key(body, at)
        size, at = _take(body, at)
        sizes.append((key, size))
    parts: Parts = {}
    for key, size in sizes:
        parts[key] = body[at : at + size]
        at += size
    if at != len(body) or len(parts) != count or at > limit + limit // 16 + _CHUNK:
        raise Corrupt("a stored snapshot has the wrong length")
    return parts


def encode_delta(base: Parts, new: Parts, level: int) -> bytes:
    """A payload that rebuilds *new* from *base*."""
    keys = list(new)
    splices: list[Splice] = []
    middles: list[bytes] = []
    dictionary: list[bytes] = []
    for position, (key, value) in enumerate(new.items()):
        old = base.get(key)
        if old is None:
            splices.append(Splice(position, 0, 0, len(value)))
            middles.append(value)
        elif old is not value and old != value:
            prefix, suffix = cut(old, value)
            middle = value[prefix : len(value) - suffix]
            splices.append(Splice(position, prefix, suffix, len(middle)))
            middles.append(middle)
            dictionary.append(_context(old, prefix, suffix))
    out = bytearray()
    _put_keys(out, base, keys)
    _put(out, len(splices))
    for splice in splices:
        _put(out, splice.position)
        _put(out, splice.prefix)
        _put(out, splice.suffix)
        _put(out, splice.middle)
    return bytes(out) + _pack(b"".join(middles), level, b"".join(dictionary))


def apply_delta(base: Parts, payload: bytes, limit: int = MAX_STATE_BYTES) -> Parts:
    """The inverse of `encode_delta`; unchanged values are shared with *base*, not copied."""
    recipe, at = _take_recipe(base, payload)
    dictionary: list[bytes] = []
    wanted = 0
    for splice in recipe.splices:
        old = base.get(recipe.keys[splice.position])
        wanted += splice.middle
        if old is not None:
            if splice.prefix + splice.suffix > len(old):
                raise Corrupt("a stored delta does not fit its base")
            dictionary.append(_context(old, splice.prefix, splice.suffix))
    if wanted > limit:
        raise Corrupt("a stored delta claims more than the largest state")
    body = _unpack(payload, at, wanted, b"".join(dictionary))
    if len(body) != wanted:
        raise Corrupt("a stored delta has the wrong length")
    changed: Parts = {}
    at = 0
    for splice in recipe.splices:
        key = recipe.keys[splice.position]
        middle = body[at : at + splice.middle]
        at += splice.middle
        old = base.get(key, b"")
        if splice.prefix or splice.suffix:
            middle = b"".join([old[: splice.prefix], middle, old[len(old) - splice.suffix :]])
        changed[key] = middle
    try:
        parts = {key: changed[key] if key in changed else base[key] for key in recipe.keys}
    except KeyError as error:
        raise Corrupt("a stored delta does not fit its base") from error
    if sum(map(len, parts.values())) > limit:
        raise Corrupt(f"a stored delta would rebuild more than {limit:,} bytes")
    return parts


def cut(old: bytes, new: bytes) -> tuple[int, int]:
    """The lengths of the longest common prefix and, after it, suffix."""
    prefix = common_prefix(old, new)
    room = min(len(old), len(new)) - prefix
    return prefix, _common_suffix(old, new, room)


def common_prefix(a: bytes, b: bytes) -> int:
    """The length of the longest common prefix; compares in C, chunk by chunk, then bisects."""
    end = min(len(a), len(b))
    at = 0
    while at < end and a[at : at + _CHUNK] == b[at : at + _CHUNK]:
        at += _CHUNK
    if at >= end:
        return end
    low, high = at, min(at + _CHUNK, end)
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(a: bytes, b: bytes, room: int) -> int:
    if room <= 0:
        return 0
    ends_a, ends_b = len(a), len(b)
    at = 0
    while at < room:
        step = min(_CHUNK, room - at)
        if a[ends_a - at - step : ends_a - at] != b[ends_b - at - step : ends_b - at]:
            break
        at += step
    if at >= room:
        return room
    low, high = at, min(at + _CHUNK, room)
    while low < high:
        middle = (low + high + 1) // 2
        if a[ends_a - middle : ends_a - low] == b[ends_b - middle : ends_b - low]:
            low = middle
        else:
            high = middle - 1
    return low


def state_checksum(parts: Parts) -> int:
    """CRC-32 of a whole state: keys, lengths and values in order."""
    head = bytearray()
    for key, value in parts.items():
        _put_key(head, key)
        _put(head, len(value))
    checksum = zlib.crc32(head)
    for value in parts.values():
        checksum = zlib.crc32(value, checksum)
    return checksum


def seal(payload: bytes, parts: Parts) -> int:
    """The checksum to store: CRC-32 of the state above CRC-32 of the payload, as a signed int64.

    Any single changed byte of the payload is certain to be seen; a wrong base, all but certain.
    """
    return ((state_checksum(parts) << 32) | zlib.crc32(payload)) - 2**63


def check_payload(payload: bytes, checksum: int) -> None:
    """Raise `Corrupt` unless *payload* is the one that was sealed."""
    if zlib.crc32(payload) != (checksum + 2**63) & 0xFFFFFFFF:
        raise Corrupt("a stored payload does not match its checksum")


def check_state(parts: Parts, checksum: int) -> None:
    """Raise `Corrupt` unless *parts* is the state that was sealed."""
    if state_checksum(parts) != (checksum + 2**63) >> 32:
        raise Corrupt("a rebuilt state does not match its checksum")


def _context(old: bytes, prefix: int, suffix: int) -> bytes:
    return old[max(0, prefix - CONTEXT) : len(old) - suffix]


def _pack(body: bytes, level: int, dictionary: bytes = b"") -> bytes:
    if len(body) >= _SMALL:
        packed = zstandard.ZstdCompressor(
            level=level, dict_data=_dictionary(dictionary), write_content_size=True
        ).compress(body)
        if len(packed) < len(body):
            return bytes([_ZSTD]) + packed
    return bytes([_RAW]) + body


def _unpack(payload: bytes, at: int, limit: int, dictionary: bytes = b"") -> bytes:
    packing, body = payload[at : at + 1], payload[at + 1 :]
    if packing == bytes([_RAW]):
        return body
    if packing != bytes([_ZSTD]):
        raise Corrupt("a stored payload has an unknown packing")
    try:
        if zstandard.frame_content_size(body) > limit:
            raise Corrupt(f"a stored payload would inflate beyond {limit:,} bytes")
        return zstandard.ZstdDecompressor(dict_data=_dictionary(dictionary)).decompress(
            body, max_output_size=max(limit, 1)
        )
    except zstandard.ZstdError as error:
        raise Corrupt("a stored payload cannot be decompressed") from error


def _dictionary(content: bytes) -> zstandard.ZstdCompressionDict | None:
    # Under 8 bytes zstd refuses a raw dictionary.
    if len(content) < 8:
        return None
    return zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _put(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _take(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Corrupt("a stored payload ends too early")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _put_key(out: bytearray, key: str) -> None:
    encoded = key.encode("utf-8", "surrogatepass")
    _put(out, len(encoded))
    out += encoded


def _take_key(data: bytes, at: int) -> tuple[str, int]:
    size, at = _take(data, at)
    try:
        return data[at : at + size].decode("utf-8", "surrogatepass"), at + size
    except UnicodeDecodeError as error:
        raise Corrupt("a stored key cannot be decoded") from error


def _put_keys(out: bytearray, base: Parts, keys: list[str]) -> None:
    if keys == list(base):
        _put(out, 0)
        return
    places = {key: place for place, key in enumerate(base)}
    _put(out, len(keys) + 1)
    for key in keys:
        place = places.get(key)
        if place is None:
            _put(out, 0)
            _put_key(out, key)
        else:
            _put(out, place + 1)


def _take_recipe(base: Parts, payload: bytes) -> tuple[_Recipe, int]:
    names: Iterable[str] = base
    old_keys = list(names)
    at = 0
    count, at = _take(payload, at)
    keys = old_keys
    if count:
        keys = []
        for _ in range(count - 1):
            place, at = _take(payload, at)
            if place > len(old_keys):
                raise Corrupt("a stored delta does not fit its base")
            if place:
                keys.append(old_keys[place - 1])
            else:
                key, at = _take_key(payload, at)
                keys.append(key)
    splices: list[Splice] = []
    count, at = _take(payload, at)
    for _ in range(count):
        position, at = _take(payload, at)
        prefix, at = _take(payload, at)
        suffix, at = _take(payload, at)
        middle, at = _take(payload, at)
        if position >= len(keys) or (splices and position <= splices[-1].position):
            raise Corrupt("a stored delta does not fit its base")
        splices.append(Splice(position, prefix, suffix, middle))
    return _Recipe(keys, splices), at
