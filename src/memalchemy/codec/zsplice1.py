"""The encoding ``zsplice1``: JSON values, one splice for each that changed. Read, never written.

Databases of the first development versions hold it. Their states load as they are; the next save of
such a thread writes a snapshot in today's encoding (`memalchemy.codec.deltas`).
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from memalchemy.codec.deltas import CONTEXT
from memalchemy.codec.packing import unpack
from memalchemy.codec.values import MAX_STATE_BYTES, UNREADABLE, Parts, to_datetime, untag
from memalchemy.errors import Corrupt

NAME = "zsplice1"
_TAGGED = b"~"


def read_state(payloads: Iterable[bytes], checksum: int) -> dict[str, Any]:
    """The state of a chain of payloads, the snapshot's first.

    Raises:
        Corrupt: they do not fit each other, or the last one's checksum.
    """
    parts: Parts | None = None
    for payload in payloads:
        parts = rebuilt(parts, payload)
    found = parts or {}
    check_state(found, checksum)
    try:
        return {key: _value(encoded) for key, encoded in found.items()}
    except UNREADABLE as error:
        raise Corrupt("a stored state cannot be read") from error


def rebuilt(base: Parts | None, payload: bytes) -> Parts:
    """One payload's state on its base's; a snapshot has none. Values are this encoding's."""
    try:
        return _snapshot(payload) if base is None else _spliced(base, _Reader(payload))
    except UNREADABLE as error:
        raise Corrupt("a stored state cannot be read") from error


def check_state(parts: Parts, checksum: int) -> None:
    """Raise `Corrupt` unless *parts* is the state that was sealed."""
    if _checksum(parts) != (checksum + 2**63) >> 32:
        raise Corrupt("a rebuilt state does not match its checksum")


class _Reader:
    """Numbers of 7 bits to the byte, and keys with their length before them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        number = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80 or shift > 63:
                return number
            shift += 7

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def key(self) -> str:
        return self.take(self.number()).decode("utf-8", "surrogatepass")

    def rest(self) -> bytes:
        return self._data[self._at :]


def _snapshot(payload: bytes) -> Parts:
    body = _Reader(unpack(payload, 2 * MAX_STATE_BYTES))
    sizes = [(body.key(), body.number()) for _ in range(body.number())]
    return {key: body.take(size) for key, size in sizes}


def _spliced(base: Parts, recipe: _Reader) -> Parts:
    old_keys = list(base)
    keys = old_keys
    if count := recipe.number():
        places = (recipe.number() for _ in range(count - 1))
        keys = [old_keys[place - 1] if place else recipe.key() for place in places]
    splices = [
        (keys[recipe.number()], recipe.number(), recipe.number(), recipe.number())
        for _ in range(recipe.number())
    ]
    context = (
        base[key][max(0, prefix - CONTEXT) : len(base[key]) - suffix]
        for key, prefix, suffix, _ in splices
        if key in base
    )
    dictionary = b"".join(context)
    wanted = sum(size for *_, size in splices)
    if wanted > MAX_STATE_BYTES:
        raise Corrupt("a stored delta claims more than the largest state")
    middles = _Reader(unpack(recipe.rest(), wanted, dictionary))
    changed: Parts = {}
    for key, prefix, suffix, size in splices:
        old = base.get(key, b"")
        changed[key] = old[:prefix] + middles.take(size) + old[len(old) - suffix :]
    return {key: changed[key] if key in changed else base[key] for key in keys}


def _checksum(parts: Parts) -> int:
    head = bytearray()
    for key, value in parts.items():
        spelled = key.encode("utf-8", "surrogatepass")
        for size, text in ((len(spelled), spelled), (len(value), b"")):
            while size > 0x7F:
                head.append(size & 0x7F | 0x80)
                size >>= 7
            head.append(size)
            head += text
    checksum = zlib.crc32(head)
    for value in parts.values():
        checksum = zlib.crc32(value, checksum)
    return checksum


def _value(encoded: bytes) -> Any:
    if encoded[:1] == _TAGGED:
        return _untagged(orjson.loads(encoded[1:]))
    return orjson.loads(encoded)


def _untagged(content: Any) -> Any:
    return untag(content, _UNTAG)


_UNTAG: dict[str, Callable[[Any], Any]] = {
    "~x": lambda c: base64.b64decode(c).decode("utf-8", "surrogatepass"),
    "~i": lambda c: int(c, 16),
    "~n": float,
    "~t": lambda c: tuple(map(_untagged, c)),
    "~s": lambda c: set(map(_untagged, c)),
    "~f": lambda c: frozenset(map(_untagged, c)),
    "~b": base64.b64decode,
    "~dt": to_datetime,
    "~d": date.fromisoformat,
    "~u": lambda c: UUID(hex=c),
    "~c": Decimal,
    "~o": lambda c: {_untagged(k): _untagged(v) for k, v in c},
}
