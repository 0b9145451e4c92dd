"""States as bytes against a base: keep what is common, compress what is left.

Per top-level key, the new value is written as edits of the base's: bytes to keep, to drop and to
add. The added bytes are compressed with zstd, with what they replace and 16 KB before it as a raw
dictionary. Whole-state patch-from, key-level diffs, list diffs and chunk hashing each collapse on
some shape of state; this does not, and it costs less than compressing the state once.

A wrong dictionary decodes silently to garbage, so every payload carries a checksum of the rebuilt
state beside one of its own bytes (`seal`, `check_payload`, `check_state`).

Payload of a snapshot: packed MessagePack, keys and values in turn. Payload of a delta: MessagePack
of three things, the keys, the edits and the packed additions (see `encode_delta`). Packed: a byte
that says how, and the bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import ormsgpack

from memalchemy.codec.packing import PLAIN, pack, unpack
from memalchemy.codec.values import MAX_STATE_BYTES, UNREADABLE, Parts
from memalchemy.errors import Corrupt

CODEC = "splice"
"""The tag of this encoding, stored with each row so that the encoding can change."""

CONTEXT = 16 * 1024
"""Bytes of the base before an edit that serve as dictionary: neighbours of an edit look like it."""

MAX_EDITS = 64
"""For one value; the last takes in all that is left."""

_CHUNK = 64 * 1024

_SHORT = 64  # a short value is not worth an edit
_LOOK = 32  # so many equal bytes after a difference, and the difference was a small one
# So few may lie between two differences; of fewer, the step over eight bytes takes in both.
_ALIKE = 6
_ALIKE_TO_THE_END = 3  # or fewer, if nothing is left then
# How a length in MessagePack changes, as bytes before and after: in place, or to another width.
_STEPS: list[tuple[int, int]] = [
    *((size, size) for size in (1, 2, 3, 4, 8)),
    *((1, 2), (1, 3), (2, 3), (3, 5)),
    *((2, 1), (3, 1), (3, 2), (5, 3)),
]


class Edit(NamedTuple):
    """Keep so many bytes of the old value, drop so many, add so many; the rest is kept."""

    keep: int
    drop: int
    add: int


def encode_snapshot(parts: Parts, level: int) -> bytes:
    """A payload that stands alone."""
    flat: list[bytes] = []
    for key, value in parts.items():
        flat.append(_spelled(key))
        flat.append(value)
    return pack(ormsgpack.packb(flat), level)


def decode_snapshot(payload: bytes, limit: int = MAX_STATE_BYTES) -> Parts:
    """The inverse of `encode_snapshot`; never inflates beyond *limit* bytes."""
    # The lengths before keys and values come on top of what counts as the state.
    body = unpack(payload, limit + limit // 16 + _CHUNK)
    try:
        flat = ormsgpack.unpackb(body)
        parts = {_key(k): v for k, v in zip(flat[::2], flat[1::2], strict=True)}
    except UNREADABLE as error:
        raise Corrupt("a stored snapshot cannot be read") from error
    if len(parts) * 2 != len(flat) or not all(type(v) is bytes for v in parts.values()):
        raise Corrupt("a stored snapshot cannot be read")
    return parts


def encode_delta(base: Comparison, new: Parts, level: int) -> bytes:
    """A payload that rebuilds *new* from *base*.

    The keys are nil if they are the base's; else for each its place in the base, or the key itself.
    The edits are one flat list: for each changed value its place, the number of its edits, and
    three numbers for each; or its place, 0 and its length if it is short and new as a whole.
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
            if add > PLAIN:
                dictionary.append(old[max(0, at_old - CONTEXT) : at_old + drop])
            at_old, at_new = at_old + drop, at_new + add
    keys: list[int | bytes] | None = None
    if list(new) != list(base.parts):
        places = {key: place for place, key in enumerate(base.parts)}
        keys = [places[key] if key in places else _spelled(key) for key in new]
    packed = pack(b"".join(added), level, b"".join(dictionary))
    return ormsgpack.packb((keys, recipe, packed))


def apply_deltas(base: Parts, payloads: Iterable[bytes], limit: int = MAX_STATE_BYTES) -> Parts:
    """The inverse of `encode_delta`, for a chain; a value that no payload changes is *base*'s own.

    Raises:
        Corrupt: a payload is none, or not of its base, or builds more than *limit* bytes.
    """
    given = {key: _in_pieces(value) for key, value in base.items()}
    state = given
    try:
        for payload in payloads:
            state = _applied(state, payload, limit)
    except UNREADABLE as error:
        raise Corrupt("a stored delta does not fit its base") from error
    if sum(sum(map(len, value)) for value in state.values()) > limit:
        raise Corrupt(f"a stored delta would rebuild more than {limit:,} bytes")
    return {
        key: base[key] if given.get(key) is value else b"".join(value)
        for key, value in state.items()
    }


Pieces = list[Any]
"""A value as bytes and views of bytes: joined, a long one would be copied for every delta."""


def _in_pieces(value: bytes) -> Pieces:
    return [value] if len(value) < _CHUNK else [memoryview(value)]


def _applied(base: dict[str, Pieces], payload: bytes, limit: int) -> dict[str, Pieces]:
    given, recipe, packed = ormsgpack.unpackb(payload)
    keys = list(base)
    if given is not None:
        keys = [keys[k] if type(k) is int else _key(k) for k in given]
        if len({*keys}) != len(keys):
            raise Corrupt("a stored delta names a key twice")
    if recipe and (not {int}.issuperset(map(type, recipe)) or min(recipe) < 0):
        raise Corrupt("a stored delta holds something else than sizes")
    dictionary: Pieces = []
    edited: list[tuple[str, Pieces, list[int] | None]] = []
    wanted = i = 0
    place = -1
    while i < len(recipe):
        # Each value once and few edits for it: the dictionary cannot grow far beyond the state.
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
        wanted += _contexts(old, numbers, dictionary)
    if i > len(recipe):
        raise Corrupt("a stored delta breaks off")
    if wanted > limit:
        raise Corrupt("a stored delta claims more than the largest state")
    body = unpack(packed, wanted, b"".join(dictionary))
    if len(body) != wanted:
        raise Corrupt("a stored delta has the wrong length")
    changed: dict[str, Pieces] = {}
    taken = 0
    for key, old, edits_ in edited:
        if edits_ is None:
            changed[key], taken = [body[taken : taken + old[0]]], taken + old[0]
        else:
            changed[key], taken = _edited(old, edits_, body, taken)
    return {key: changed[key] if key in changed else base[key] for key in keys}


_NOTHING: Pieces = [b""]


def _contexts(old: Pieces, numbers: list[int], dictionary: Pieces) -> int:
    """Add what the edits' additions were compressed against; returns the additions' length."""
    at = wanted = 0
    for j in range(0, len(numbers), 3):
        keep, drop, add = numbers[j : j + 3]
        at += keep
        if add > PLAIN:
            dictionary += _between(old, max(0, at - CONTEXT), at + drop)
        at += drop
        wanted += add
    if at > sum(map(len, old)):
        raise Corrupt("a stored delta does not fit its base")
    return wanted


def _edited(old: Pieces, numbers: list[int], body: bytes, taken: int) -> tuple[Pieces, int]:
    """The new value, and how much of *body* has been used up."""
    new: Pieces = []
    at = 0
    for j in range(0, len(numbers), 3):
        keep, drop, add = numbers[j : j + 3]
        if keep:
            new += _between(old, at, at + keep)
        if add:
            new.append(body[taken : taken + add])
        at, taken = at + keep + drop, taken + add
    new += _between(old, at, MAX_STATE_BYTES)
    if len(new) < 64 and sum(map(len, new)) >= _CHUNK:
        return new, taken
    return [b"".join(new)], taken


def _between(value: Pieces, low: int, high: int) -> Pieces:
    """The bytes from *low* to *high*."""
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
    """A state that others are held against; each of their values is compared once."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._found: dict[str, tuple[bytes, list[Edit]]] = {}

    def edits(self, key: str, new: bytes) -> list[Edit]:
        """What makes *new* of the value that the state has under *key*, or of nothing."""
        found = self._found.get(key)
        if found is None or found[0] is not new:
            found = self._found[key] = new, edits(self.parts.get(key, b""), new)
        return found[1]

    def adds(self, key: str, new: bytes) -> bytes:
        """What *new* has beyond the state's own value, all in one."""
        return b"".join(new[low:high] for low, high in added(self.edits(key, new)))


def added(changes: Iterable[Edit]) -> Iterator[tuple[int, int]]:
    """The ranges of a new value that the old has not; an empty one where something was dropped."""
    at = 0
    for keep, _, add in changes:
        yield at + keep, at + keep + add
        at += keep + add


def edits(old: bytes, new: bytes) -> list[Edit]:
    """What makes *new* of *old*; empty if they are equal.

    An element that is added changes the length before its list, and of each container round it. So
    after a difference the same bytes are looked for close by before all that is left becomes one
    edit, less the common end.
    """
    found: list[Edit] = []
    a = b = 0
    while True:
        same = common_prefix(old, a, new, b)
        a, b = a + same, b + same
        left = min(len(old) - a, len(new) - b)
        if left and len(found) < MAX_EDITS - 1 and (step := _small_step(old, a, new, b)):
            found.append(Edit(same, *step))
            a, b = a + step[0], b + step[1]
            continue
        if a < len(old) or b < len(new):
            end = _common_suffix(old, new, left)
            found.append(Edit(same, len(old) - a - end, len(new) - b - end))
        return found


def _small_step(old: bytes, a: int, new: bytes, b: int) -> tuple[int, int] | None:
    """The step after which most is the same again, up to `_LOOK` bytes."""
    best, longest = None, 0
    for drop, add in _STEPS:
        left = old[a + drop : a + drop + _LOOK]
        right = new[b + add : b + add + _LOOK]
        if left[:_ALIKE] != right[:_ALIKE]:
            size = min(len(left), len(right))
            if not _ALIKE_TO_THE_END <= size < _ALIKE or left[:size] != right[:size]:
                continue
        elif len(left) < _ALIKE_TO_THE_END:
            continue
        if (alike := common_prefix(left, 0, right, 0)) == _LOOK:
            return drop, add
        if alike > longest:
            best, longest = (drop, add), alike
    return best


def common_prefix(old: bytes, a: int, new: bytes, b: int) -> int:
    """How many bytes from *a* and *b* on are the same; compares in C, by chunks, then bisects."""
    end = min(len(old) - a, len(new) - b)
    at = 0
    while at < end and old.startswith(new[b + at : b + at + _CHUNK], a + at):
        at += _CHUNK
    if at >= end:
        return end
    low, high = at, min(at + _CHUNK, end)
    while low < high:
        middle = (low + high + 1) // 2
        if old.startswith(new[b + low : b + middle], a + low):
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(old: bytes, new: bytes, room: int) -> int:
    if room <= 0:
        return 0
    ends_a, ends_b = len(old), len(new)
    at = 0
    while at < room:
        step = min(_CHUNK, room - at)
        if not old.endswith(new[ends_b - at - step : ends_b - at], 0, ends_a - at):
            break
        at += step
    if at >= room:
        return room
    low, high = at, min(at + _CHUNK, room)
    while low < high:
        middle = (low + high + 1) // 2
        if old.endswith(new[ends_b - middle : ends_b - low], 0, ends_a - low):
            low = middle
        else:
            high = middle - 1
    return low


def state_checksum(parts: Parts) -> int:
    """CRC-32 of a whole state: keys, lengths and values in order."""
    head: list[Any] = []
    for key, value in parts.items():
        head += (_spelled(key), len(value))
    checksum = zlib.crc32(ormsgpack.packb(head))
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


def _spelled(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _key(spelled: bytes) -> str:
    return spelled.decode("utf-8", "surrogatepass")
