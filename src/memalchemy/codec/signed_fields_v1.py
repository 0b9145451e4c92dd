"""Values of columns as the bytes that signatures of version 1 are made of.

Version 1 packed them with `ormsgpack` 1.13, whose timestamps leave the fraction of a second out
from .536871 on: its nanoseconds, shifted by 34 bits, do not fit into 63. So 46 % of all times were
signed as the whole second before them. The bytes are made here as they were then, so that the rows
stay readable with every release of that package. Nothing is signed so any more.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any
from uuid import UUID

from memalchemy.codec.signed_fields import LARGE, microseconds_of
from memalchemy.errors import Corrupt

_LOST_FROM = 1 << 29
"""The nanoseconds from which on the fraction of a second was left out."""
_LONG_SECONDS = 1 << 34
"""The seconds from which on a timestamp has 12 bytes, of which none was lost."""


def encode_fields_v1(fields: Sequence[Any]) -> bytes:
    """Return values of columns as bytes, as version 1 did.

    Raises:
        Corrupt: a column has a value of a type that no such column has.
    """
    last = fields[-1]
    if isinstance(last, bytes) and len(last) >= LARGE:
        fields = (*fields[:-1], len(last), blake2b(last).digest())
    try:
        return _to_msgpack(fields)
    except _NotPackable:
        return _to_msgpack(_texts_as_bytes(fields))


class _NotPackable(Exception):
    """Text that is not Unicode, an integer of over 64 bits, or a key of JSON that is no text."""


def _texts_as_bytes(value: Any) -> Any:
    """Return a value with texts and integers as bytes, which any of them can be."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, int) and not isinstance(value, bool):
        return b"i" + str(value).encode()
    if isinstance(value, dict):
        return [[_texts_as_bytes(key), _texts_as_bytes(one)] for key, one in sorted(value.items())]
    if isinstance(value, list | tuple):
        return [_texts_as_bytes(one) for one in value]
    if value is None or isinstance(value, bool | float | bytes | memoryview | datetime | UUID):
        return value
    raise _unsupported_value(value)


def _to_msgpack(value: Any) -> bytes:
    """Return a value as MessagePack, in the shortest form that it has there."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return _pack_integer(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        return _pack_text(value)
    if isinstance(value, UUID):
        return _pack_bytes(value.bytes)
    if isinstance(value, bytes | bytearray | memoryview):
        return _pack_bytes(bytes(value))
    if isinstance(value, datetime):
        return _pack_time(value)
    if isinstance(value, list | tuple):
        return _pack_count(len(value), 0x90, 0xDC) + b"".join(map(_to_msgpack, value))
    if isinstance(value, dict):
        if any(not isinstance(key, str) for key in value):
            raise _NotPackable
        members = (_to_msgpack(key) + _to_msgpack(value[key]) for key in sorted(value))
        return _pack_count(len(value), 0x80, 0xDE) + b"".join(members)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return _to_msgpack(int(value))
    raise _unsupported_value(value)


def _pack_count(members: int, short: int, long: int) -> bytes:
    """Return the start of a list or an object."""
    if members < 16:
        return bytes([short | members])
    if members < 1 << 16:
        return struct.pack(">BH", long, members)
    return struct.pack(">BI", long + 1, members)


def _pack_integer(value: int) -> bytes:
    if 0 <= value < 128:
        return bytes([value])
    if -32 <= value < 0:
        return struct.pack(">b", value)
    if value >= 0:
        for at, form in enumerate("BHIQ"):
            if value < 1 << (8 << at):
                return struct.pack(f">B{form}", 0xCC + at, value)
    else:
        for at, form in enumerate("bhiq"):
            if value >= -(1 << (8 << at) - 1):
                return struct.pack(f">B{form}", 0xD0 + at, value)
    raise _NotPackable


def _pack_text(value: str) -> bytes:
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raise _NotPackable from None
    if len(raw) < 32:
        return bytes([0xA0 | len(raw)]) + raw
    return _pack_length(len(raw), 0xD9) + raw


def _pack_bytes(raw: bytes) -> bytes:
    return _pack_length(len(raw), 0xC4) + raw


def _pack_length(length: int, tag: int) -> bytes:
    for at, form in enumerate("BHI"):
        if length < 1 << (8 << at):
            return struct.pack(f">B{form}", tag + at, length)
    raise _NotPackable


def _pack_time(value: datetime) -> bytes:
    seconds, fraction = divmod(microseconds_of(value), 1_000_000)
    nanoseconds = fraction * 1_000
    if not 0 <= seconds < _LONG_SECONDS:
        return b"\xc7\x0c\xff" + struct.pack(">Iq", nanoseconds, seconds)
    if nanoseconds >= _LOST_FROM:
        nanoseconds = 0
        if seconds >= 1 << 32:
            seconds &= (1 << 32) - 1
            return b"\xd6\xff" + struct.pack(">I", seconds)
    if nanoseconds == 0 and seconds < 1 << 32:
        return b"\xd6\xff" + struct.pack(">I", seconds)
    return b"\xd7\xff" + struct.pack(">Q", nanoseconds << 34 | seconds)


def _unsupported_value(value: Any) -> Corrupt:
    return Corrupt(f"a column of a signed row has a value of type {type(value).__name__}")
