"""A store's value as bytes, and the words that it can be found by. Pure: no I/O, no SQL."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from typing import Any

from memalchemy.codec import text
from memalchemy.codec.packing import RAW, pack, pack_alone, unpack
from memalchemy.codec.values import decode_value, decode_values, encode_value, pointer
from memalchemy.errors import Corrupt, TooLarge

CODEC = "zvalue1"
"""The tag of this encoding, stored with each row so that the encoding can change."""

MAX_VALUE_BYTES = 64 * 1024 * 1024
"""The most that an encoded value may take."""

MAX_FIELDS = 64
"""Of an item with more scalar fields only those that were named have words."""

OTHERS = "fothers"
"""The word of an item that has fields without words: one of them may be what is asked for."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_SHORT = 100
"""Characters of a field and its value of which the word is remembered."""

_WORTH_PACKING = 512


def encode_item(value: Any) -> tuple[bytes, int]:
    """The payload of *value*, and its checksum.

    Raises:
        NotSerialisable: it would not load back equal and of the same types; the path says where.
        TooLarge: it encodes to more than `MAX_VALUE_BYTES`.
    """
    encoded = encode_value(value)
    if len(encoded) > MAX_VALUE_BYTES:
        raise TooLarge("the value", len(encoded), MAX_VALUE_BYTES)
    payload = pack_alone(encoded) if len(encoded) >= _WORTH_PACKING else pack(encoded, None)
    return payload, zlib.crc32(payload)


def decode_item(payload: bytes, checksum: int, codec: str) -> Any:
    """The inverse of `encode_item`. Every call builds new objects.

    Raises:
        Corrupt: the payload is not the one that was stored, or of an unknown encoding.
    """
    if codec != CODEC:
        raise Corrupt(f"a stored value has the unknown codec {codec!r}")
    if zlib.crc32(payload) != checksum:
        raise Corrupt("a stored value does not match its checksum")
    return decode_value(unpack(payload, MAX_VALUE_BYTES))


def decode_items(
    payloads: Sequence[bytes], checksums: Iterable[int], codecs: Iterable[str]
) -> list[Any]:
    """`decode_item` of each, in half the time.

    Raises:
        Corrupt: one of them is not as it was stored; `decode_item` says what is wrong with it.
    """
    if not {CODEC}.issuperset(codecs) or list(map(zlib.crc32, payloads)) != list(checksums):
        raise Corrupt("a stored value does not match its checksum, or has an unknown codec")
    if not all(payloads):
        raise Corrupt("a stored value is empty")
    return decode_values(
        [
            payload[1:] if payload[0] == RAW else unpack(payload, MAX_VALUE_BYTES)
            for payload in payloads
        ]
    )


def search_text(value: Any, metadata: Mapping[str, Any]) -> str | None:
    """The words of the texts in *value* and *metadata*; ``None`` if there are none."""
    return text.search_text(_texts(value, metadata))


def _texts(value: Any, metadata: Mapping[str, Any]) -> Iterator[str]:
    yield from text.strings(value)
    yield from text.strings(dict(metadata))


def field_terms(value: Any, metadata: Mapping[str, Any], named: Collection[str] = ()) -> str | None:
    """A word for each scalar field, by its JSON pointer; ``None`` if there are none.

    With *named* pointers, and of an item with too many fields, for those alone. The words are of
    value and metadata together: which of the two a filter means, it decides by the item itself.
    """
    found: dict[str, None] = {}
    if named or not all(_collect(tree, "", found, None) for tree in (value, metadata)):
        found = {OTHERS: None}
        for tree in (value, metadata):
            _collect(tree, "", found, named)
        found |= {_mark(path): None for path in named}
    return " ".join(found) or None


def is_search_text(stored: str | None, value: Any, metadata: Mapping[str, Any]) -> bool:
    """Whether *stored* may be the `search_text` of an item; ``None`` may: it is then not wanted.

    A database may give metadata back in another order.
    """
    if stored is None:
        return True
    pieces = [" ".join(text.tokens(one)) for one in _texts(value, metadata)]
    if sum(len(piece) + 1 for piece in pieces) < text.MAX_TEXT:
        return Counter(stored.split()) == Counter(" ".join(pieces).split())
    return set(stored.split()) <= set(" ".join(pieces).split())  # the end was cut off


def are_field_terms(stored: str | None, value: Any, metadata: Mapping[str, Any]) -> bool:
    """Whether *stored* may be the `field_terms` of an item, whatever fields were named."""
    found = set((stored or "").split())
    if OTHERS in found:
        return {word for word in found if word[0] == "f"} <= _all_terms(value, metadata) | {OTHERS}
    # A database may give a large float back as the whole number that it was spelt as.
    return any(found == _all_terms(value, meta) for meta in (metadata, _floats(metadata)))


def _all_terms(value: Any, metadata: Mapping[str, Any]) -> set[str]:
    found: dict[str, None] = {}
    for tree in (value, metadata):
        _collect(tree, "", found, None, most=None)
    return set(found)


def _floats(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _floats(value) for key, value in tree.items()}
    return float(tree) if isinstance(tree, int) and abs(tree) >= 2**53 else tree


def _collect(
    tree: Any,
    path: str,
    found: dict[str, None],
    only: Collection[str] | None,
    most: int | None = MAX_FIELDS,
) -> bool:
    """Add the words of the fields below *path*; false if they are too many."""
    if not isinstance(tree, Mapping):
        return True
    for key, value in tree.items():
        here = pointer(path, key)
        if type(value) not in _SCALARS and isinstance(value, Mapping):
            if not _collect(value, here, found, only, most):
                return False
        elif (only is None or here in only) and (term := field_term(here, value)) is not None:
            found[term] = None
            if only is None and most is not None and len(found) > most:
                return False
    return True


@dataclass(frozen=True, slots=True)
class FieldWords:
    """What an item has in its index if a field may have one of some values.

    One of ``words``; or `OTHERS`, unless ``mark`` says that it has the words of this field.
    """

    words: tuple[str, ...]
    mark: str

    @classmethod
    def of(cls, path: str, values: Iterable[Any]) -> FieldWords:
        """Of a JSON pointer, and scalars."""
        words = (field_term(path, value) for value in values)
        return cls(tuple(word for word in words if word is not None), _mark(path))


def _mark(path: str) -> str:
    return "m" + blake2b(path.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def field_term(path: str, value: Any) -> str | None:
    """The word for a field of that JSON pointer with that value; ``None`` if it has none.

    Values that a filter takes for equal have the same word.
    """
    spelt = _spelt(value)
    if spelt is None:
        return None
    whole = f"{path}\x1f{spelt}"
    return _word(whole) if len(whole) <= _SHORT else _word.__wrapped__(whole)


@lru_cache(maxsize=4096)
def _word(whole: str) -> str:
    # Many items say the same of a field; each hash is of a few bytes, and takes a microsecond.
    return "f" + blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def _spelt(value: Any) -> str | None:
    if type(value) is str:
        return "t" + value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "t" + value
    if isinstance(value, int):
        return _spelt_whole(value)
    if isinstance(value, (float, Decimal)) and isfinite(value):
        whole = int(value)
        return _spelt_whole(whole) if whole == value else f"n{float(value)!r}"
    return None


def _spelt_whole(value: int) -> str:
    # Python refuses to write more than 4,300 digits in tens.
    return f"n{value}" if value.bit_length() < 4096 else f"n{value:#x}"
