"""Values of columns as the bytes that signatures are made of.

The bytes are spelt here, byte by byte, and are the same with every release of every library:
a signature is valid as long as its row. A value is a letter and what follows it:

- ``n``, ``t``, ``f``: NULL, true, false
- ``i``: a whole number, hexadecimal, up to ``;``
- ``d``: any other number, as `float.hex` spells it, up to ``;``
- ``m``: a time, in whole microseconds since 1970, hexadecimal, up to ``;``
- ``s``, ``b``: a text in UTF-8, or bytes, after their length and ``:``
- ``h``: the length of a large payload and ``:``, and its BLAKE2b hash of 64 bytes
- ``l``, ``o``: a list or an object of JSON: the number of its members and ``:``, and the members;
  an object's are keys and values in turns, in the order of the keys

``tests/codec/test_signed_fields.py`` has examples of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any
from uuid import UUID

from memalchemy.errors import Corrupt

LARGE = 16_384
"""The length from which on a payload, the last field, is signed by its hash."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encode_fields(fields: Sequence[Any]) -> bytes:
    """Return values of columns as bytes; different values give different bytes.

    Equal values give equal bytes, in whatever form a database returns them: times in any zone,
    numbers of JSON that are whole, bytes and UUIDs of a driver's own types.

    Raises:
        Corrupt: a column has a value of a type that no such column has.
    """
    spelt: list[bytes] = []
    # A call for each value would take longer than the hash: the usual types need none.
    for value in fields:
        kind = type(value)
        if kind is str:
            raw = value.encode("utf-8", "surrogatepass")
            spelt.append(b"s%x:%b" % (len(raw), raw))
        elif value is None:
            spelt.append(b"n")
        elif kind is int:
            spelt.append(b"i%x;" % value)
        else:
            spelt.append(_BY_TYPE[kind](value))
    last = fields[-1]
    if isinstance(last, bytes) and len(last) >= LARGE:
        spelt[-1] = b"h%x:" % len(last) + blake2b(last).digest()
    return b"".join(spelt)


def _encode(value: Any) -> bytes:
    return _BY_TYPE[type(value)](value)


def _encode_text(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    return b"s%x:%b" % (len(raw), raw)


def _encode_bytes(value: bytes) -> bytes:
    return b"b%x:%b" % (len(value), value)


def _encode_number(value: Decimal) -> bytes:
    """Encode a whole number of a column that somebody made NUMERIC."""
    if not value.is_finite() or value != value.to_integral_value():
        raise _unsupported_value(Decimal)
    return _encode(int(value))


def _encode_time(value: datetime) -> bytes:
    return b"m%x;" % microseconds_of(value)


def microseconds_of(value: datetime) -> int:
    """Return a time in whole microseconds since 1970.

    Raises:
        Corrupt: it has no zone, which no time of a column lacks.
    """
    if value.tzinfo is None:
        raise Corrupt("a column of a signed row has a time without a zone")
    since = value - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _encode_list(value: Sequence[Any]) -> bytes:
    return b"l%x:" % len(value) + b"".join(map(_encode, value))


def _encode_object(value: Mapping[str, Any]) -> bytes:
    members = [b"o%x:" % len(value)]
    for key in sorted(value):
        members += (_encode(key), _encode(value[key]))
    return b"".join(members)


class _Encoders(dict[type, Callable[[Any], bytes]]):
    """Encoders by type; a driver's own type has that of the type it is derived from."""

    def __missing__(self, kind: type) -> Callable[[Any], bytes]:
        for known in (bool, int, float, str, bytes, UUID, datetime, list, tuple, dict, Decimal):
            if issubclass(kind, known):
                return self[known]
        raise _unsupported_value(kind)


_BY_TYPE = _Encoders(
    {
        type(None): lambda _: b"n",
        bool: lambda value: b"t" if value else b"f",
        int: lambda value: b"i%x;" % value,
        float: lambda value: b"d%b;" % value.hex().encode(),
        str: _encode_text,
        bytes: _encode_bytes,
        bytearray: _encode_bytes,
        memoryview: lambda value: _encode_bytes(value.tobytes()),
        UUID: lambda value: b"b10:" + value.bytes,
        datetime: _encode_time,
        list: _encode_list,
        tuple: _encode_list,
        dict: _encode_object,
        Decimal: _encode_number,
    }
)


def _unsupported_value(kind: type) -> Corrupt:
    return Corrupt(f"a column of a signed row has a value of type {kind.__name__}")
