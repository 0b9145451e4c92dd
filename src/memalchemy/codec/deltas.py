"""Encode a state as a snapshot, or as a delta: what differs from an earlier state, its base.

For each top-level key the new value is written as edits of the base's value: bytes to keep, to drop
and to add. The added bytes are compressed together; what they replace, and the 16 KB before it, are
the dictionary. Whole-state patches, comparison of keys alone, list diffs and chunk hashing each
failed on some shape of state. This did not, and costs less than compressing the state once.

Formats:

- Snapshot: compressed MessagePack, a list of keys and values in turn.
- Delta: MessagePack, a list of three: the keys, the edits, and the compressed additions. See
  `encode_delta`.

Neither the wrong base nor the wrong dictionary raises an error, so payloads are stored with a
checksum of the state: see `memalchemy.codec.checksum`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ormsgpack

from memalchemy._bounds import unpack_plain
from memalchemy.codec.compression import TINY, compress, decompress
from memalchemy.codec.touched_parts import touched_parts
from memalchemy.codec.values import (
    MAX_STATE_BYTES,
    UNREADABLE,
    Parts,
    decode_key,
    encode_key,
    holds_binary,
    may_be_binary,
)
from memalchemy.errors import Corrupt

CODEC = "splice"
"""The tag of this encoding, stored with each row so that the encoding can change."""

CONTEXT = 16 * 1024
"""Bytes of the base before an edit that are part of the dictionary, because they look like it."""

MAX_EDITS = 64
"""Edits of one value, at most; the last one replaces all that is left."""

_CHUNK = 64 * 1024
_NEAR = 64
"""Bytes that are compared as one integer, which is faster than to look for the first difference."""

_SHORT = 64
"""Bytes below which a value is stored as a whole."""
_LOOK_AHEAD = 32
"""Equal bytes behind a small difference that are enough to resume there."""
_MIN_EQUAL = 6
"""Equal bytes that there have to be between two small differences."""
_MIN_EQUAL_AT_END = 3
"""The same, where the value ends behind them."""
_SMALL_DIFFERENCES: list[tuple[int, int]] = [
    *((size, size) for size in (1, 2, 3, 4, 8)),
    *((1, 2), (1, 3), (2, 3), (3, 5)),
    *((2, 1), (3, 1), (3, 2), (5, 3)),
]
"""Bytes dropped and added where a length in MessagePack changes: in place, or to another width."""
_WINDOW = _LOOK_AHEAD + max(map(max, _SMALL_DIFFERENCES))


Edit = tuple[int, int, int]
"""Numbers of bytes of the old value to keep and then to drop, and of new bytes to add."""


def encode_snapshot(parts: Parts, level: int) -> bytes:
    """Encode a state by itself."""
    flat: list[bytes] = []
    for key, value in parts.items():
        flat.append(encode_key(key))
        flat.append(value)
    return compress(ormsgpack.packb(flat), level)


def decode_snapshot(payload: bytes, limit: int = MAX_STATE_BYTES) -> Parts:
    """Decode what `encode_snapshot` returned.

    Raises:
        Corrupt: *payload* is something else, or is of a state of more than *limit* bytes.
    """
    # The lengths of keys and values do not count as part of the state.
    body = decompress(payload, limit + limit // 16 + _CHUNK)
    try:
        flat = unpack_plain(body)
        parts = {decode_key(k): v for k, v in zip(flat[::2], flat[1::2], strict=True)}
    except UNREADABLE as error:
        raise Corrupt("a stored snapshot cannot be read") from error
    if len(parts) * 2 != len(flat) or not all(type(v) is bytes for v in parts.values()):
        raise Corrupt("a stored snapshot cannot be read")
    return parts


def encode_delta(base: Comparison, new: Parts, level: int) -> bytes:
    """Encode *new* as what differs from *base*.

    The keys are nil if they are those of the base. Otherwise each is its place in the base, or the
    key itself. The edits are one flat list: for each changed value its place, the number of its
    edits and three numbers for each edit; or, for a short value that is stored as a whole, its
    place, 0 and its length.
    """
    recipe: list[int] = []
    added: list[bytes] = []
    dictionary: list[bytes] = []
    for place, (key, value) in enumerate(new.items()):
        old = base.parts.get(key)
        if old is value or old == value:
            continue
        old = old or b""
        if len(old) < _SHORT and len(value) < _SHORT:
            recipe += (place, 0, len(value))
            added.append(value)
            dictionary.append(old)
            continue
        found = base.edits(key, value)
        recipe += (place, len(found))
        at_old = at_new = 0
        for keep, drop, add in found:
            recipe += (keep, drop, add)
            at_old, at_new = at_old + keep, at_new + keep
            added.append(value[at_new : at_new + add])
            if add > TINY:
                dictionary.append(old[max(0, at_old - CONTEXT) : at_old + drop])
            at_old, at_new = at_old + drop, at_new + add
    keys: list[int | bytes] | None = None
    if list(new) != list(base.parts):
        places = {key: place for place, key in enumerate(base.parts)}
        keys = [places[key] if key in places else encode_key(key) for key in new]
    compressed = compress(b"".join(added), level, b"".join(dictionary))
    return ormsgpack.packb((keys, recipe, compressed))


def apply_deltas(base: Parts, payloads: Iterable[bytes], limit: int = MAX_STATE_BYTES) -> Parts:
    """Rebuild a state from *base* and the payloads of a chain of deltas, each based on the last.

    A value that no payload changes is the very object of *base*.

    Raises:
        Corrupt: a payload is no delta or not of its base, or the state has more than *limit* bytes.
    """
    given = {key: _to_pieces(value) for key, value in base.items()}
    state = given
    try:
        for payload in payloads:
            state = _apply_delta(state, payload, limit)
    except UNREADABLE as error:
        raise Corrupt("a stored delta does not fit its base") from error
    if sum(sum(map(len, value)) for value in state.values()) > limit:
        raise Corrupt(f"a stored delta would rebuild more than {limit:,} bytes")
    return {
        key: base[key] if given.get(key) is value else b"".join(value)
        for key, value in state.items()
    }


Pieces = list[Any]
"""A value as bytes and views of bytes, because joining a long one copies it for every delta."""


def _to_pieces(value: bytes) -> Pieces:
    return [value] if len(value) < _CHUNK else [memoryview(value)]


def _apply_delta(base: dict[str, Pieces], payload: bytes, limit: int) -> dict[str, Pieces]:
    given, recipe, compressed = unpack_plain(payload)
    keys = list(base)
    if given is not None:
        keys = [keys[k] if type(k) is int else decode_key(k) for k in given]
        if len({*keys}) != len(keys):
            raise Corrupt("a stored delta names a key twice")
    if recipe and (not {int}.issuperset(map(type, recipe)) or min(recipe) < 0):
        raise Corrupt("a stored delta holds something else than sizes")
    dictionary: Pieces = []
    edited: list[tuple[str, Pieces, list[int] | None]] = []
    wanted = i = 0
    place = -1
    while i < len(recipe):
        # Each value occurs once, with few edits: a damaged payload cannot build a dictionary much
        # larger than the state.
        if recipe[i] <= place or recipe[i + 1] > MAX_EDITS:
            raise Corrupt("a stored delta has too many edits, or not in their order")
        place, count, i = recipe[i], recipe[i + 1], i + 2
        key = keys[place]
        old = base.get(key, _NOTHING)
        if count == 0:
            dictionary += old
            edited.append((key, [recipe[i]], None))
            wanted += recipe[i]
            i += 1
            continue
        numbers = recipe[i : i + 3 * count]
        edited.append((key, old, numbers))
        i += 3 * count
        wanted += _add_contexts_of_edits(old, numbers, dictionary)
    if i > len(recipe):
        raise Corrupt("a stored delta ends too early")
    if wanted > limit:
        raise Corrupt("a stored delta claims more than the largest state")
    body = decompress(compressed, wanted, b"".join(dictionary))
    if len(body) != wanted:
        raise Corrupt("a stored delta has the wrong length")
    changed: dict[str, Pieces] = {}
    taken = 0
    for key, old, edits_ in edited:
        if edits_ is None:
            changed[key], taken = [body[taken : taken + old[0]]], taken + old[0]
        else:
            changed[key], taken = _apply_edits(old, edits_, body, taken)
    return {key: changed[key] if key in changed else base[key] for key in keys}


_NOTHING: Pieces = [b""]


def _add_contexts_of_edits(old: Pieces, numbers: list[int], dictionary: Pieces) -> int:
    """Extend *dictionary* by the contexts of edits; return the length of what the edits add."""
    at = wanted = 0
    for j in range(0, len(numbers), 3):
        keep, drop, add = numbers[j : j + 3]
        at += keep
        if add > TINY:
            dictionary += _cut_pieces(old, max(0, at - CONTEXT), at + drop)
        at += drop
        wanted += add
    if at > sum(map(len, old)):
        raise Corrupt("a stored delta does not fit its base")
    return wanted


def _apply_edits(old: Pieces, numbers: list[int], body: bytes, taken: int) -> tuple[Pieces, int]:
    """Apply edits to a value; return the result and the position in *body* behind its additions."""
    new: Pieces = []
    at = 0
    for j in range(0, len(numbers), 3):
        keep, drop, add = numbers[j : j + 3]
        if keep:
            new += _cut_pieces(old, at, at + keep)
        if add:
            new.append(body[taken : taken + add])
        at, taken = at + keep + drop, taken + add
    new += _cut_pieces(old, at, MAX_STATE_BYTES)
    if len(new) < 64 and sum(map(len, new)) >= _CHUNK:
        return new, taken
    return [b"".join(new)], taken


def _cut_pieces(value: Pieces, low: int, high: int) -> Pieces:
    """Return the bytes of a value from *low* to *high*."""
    if len(value) == 1:
        return [value[0][low:high]]
    found: Pieces = []
    at = 0
    for piece in value:
        if at >= high:
            break
        if at + len(piece) > low:
            found.append(piece[max(0, low - at) : high - at])
        at += len(piece)
    return found


class Comparison:
    """A state that others are compared with; each of their values is compared once."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._found: dict[str, tuple[bytes, list[Edit]]] = {}

    def edits(self, key: str, new: bytes) -> list[Edit]:
        """Return the edits that turn the state's value of *key*, or nothing, into *new*."""
        found = self._found.get(key)
        if found is None or found[0] is not new:
            found = self._found[key] = new, edits(self.parts.get(key, b""), new)
        return found[1]

    def adds_binary(self, key: str, new: bytes, value: Any) -> bool:
        """Return whether *new*, the encoding of *value*, has bytes or extensions that are new.

        The time goes by what was added.
        """
        ranges = added(self.edits(key, new))
        pieces = []
        for low, high in ranges:
            pieces.append(new[low:high])
        # A length, or a letter of many scripts, has such bytes, too.
        if not may_be_binary(b"".join(pieces)):
            return False
        return holds_binary(touched_parts(value, new, ranges))


def added(changes: Iterable[Edit]) -> list[tuple[int, int]]:
    """Return the ranges of a new value that edits add; an empty one where they only drop bytes."""
    ranges = []
    at = 0
    for keep, _, add in changes:
        ranges.append((at + keep, at + keep + add))
        at += keep + add
    return ranges


def edits(old: bytes, new: bytes) -> list[Edit]:
    """Return the edits that turn *old* into *new*; none if they are equal.

    An element that is added to a list changes the length before the list, and of each container
    around it. So equal bytes are looked for closely behind each difference. Only where there are
    none do all bytes up to the common end become one edit.
    """
    found: list[Edit] = []
    a = b = 0
    while True:
        same = common_prefix(old, a, new, b)
        a, b = a + same, b + same
        left = min(len(old) - a, len(new) - b)
        if left and len(found) < MAX_EDITS - 1 and (step := _small_difference(old, a, new, b)):
            drop, add = step
            found.append((same, drop, add))
            a, b = a + drop, b + add
            continue
        if a < len(old) or b < len(new):
            end = _common_suffix(old, new, left) if left else 0
            found.append((same, len(old) - a - end, len(new) - b - end))
        return found


def _small_difference(old: bytes, a: int, new: bytes, b: int) -> tuple[int, int] | None:
    """Return the bytes to drop and to add after which the most bytes are equal, if any are."""
    best, longest = None, 0
    before, after = old[a : a + _WINDOW], new[b : b + _WINDOW]
    for drop, add in _SMALL_DIFFERENCES:
        start = after[add : add + _MIN_EQUAL]
        if len(start) < _MIN_EQUAL or len(before) < drop + _MIN_EQUAL:
            size = min(len(before) - drop, len(start))
            if size < _MIN_EQUAL_AT_END or not before.startswith(start[:size], drop):
                continue
        elif not before.startswith(start, drop):
            continue
        left, right = before[drop : drop + _LOOK_AHEAD], after[add : add + _LOOK_AHEAD]
        if left == right and len(left) == _LOOK_AHEAD:
            return drop, add
        if (equal := common_prefix(left, 0, right, 0)) > longest:
            best, longest = (drop, add), equal
    return best


def common_prefix(old: bytes, a: int, new: bytes, b: int) -> int:
    """Return how many bytes are equal from *a* and *b* on."""
    end = min(len(old) - a, len(new) - b)
    near = min(end, _NEAR)
    # As integers the first bytes are the highest.
    if differing := int.from_bytes(old[a : a + near]) ^ int.from_bytes(new[b : b + near]):
        return near - (differing.bit_length() + 7) // 8
    view = memoryview(new)[b : b + end]
    if near == end or old.startswith(view, a):  # most values grow at their end
        return end
    low, step = near, 2 * _NEAR
    while old.startswith(view[low : low + step], a + low):
        low, step = low + step, step * 2
    high = min(low + step, end)
    while high - low > _NEAR:
        middle = (low + high) // 2
        if old.startswith(view[low:middle], a + low):
            low = middle
        else:
            high = middle
    differing = int.from_bytes(old[a + low : a + high]) ^ int.from_bytes(view[low:high])
    return high - (differing.bit_length() + 7) // 8


def _common_suffix(old: bytes, new: bytes, room: int) -> int:
    """Return how many of the last *room* bytes are equal."""
    near = min(room, _NEAR)
    if differing := int.from_bytes(old[len(old) - near :]) ^ int.from_bytes(new[len(new) - near :]):
        return _equal_at_end(differing)
    view = memoryview(new)[len(new) - room :]
    if near == room or old.endswith(view):
        return room
    low, high = near, room
    while high - low > _NEAR:
        middle = (low + high) // 2
        if old.endswith(view[room - middle : room - low], 0, len(old) - low):
            low = middle
        else:
            high = middle
    before, after = old[len(old) - high : len(old) - low], view[room - high : room - low]
    return low + _equal_at_end(int.from_bytes(before) ^ int.from_bytes(after))


def _equal_at_end(differing: int) -> int:
    """Return how many bytes are equal behind the last that differ, by the xor of both."""
    return ((differing & -differing).bit_length() - 1) // 8
