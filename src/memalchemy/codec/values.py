"""Values to canonical bytes and back: the same types, the same order, or a clear refusal.

A state is stored key by key. Each value is JSON text, byte for byte the same for equal values in
any process, so that the delta coder can compare it with its base.

Most values are plain JSON and take the fast path: orjson writes them in C, and a census of the
object graph by level, also in C, proves that nothing in it would come back as another type (orjson
writes a tuple as a list and NaN as null without a word). Walking a 700 KB state in Python costs
several times what serialising it does; the census costs half. Anything else takes the tagged form,
marked by a leading ``~``, in which a non-JSON value is an object with one key such as ``~t``.
"""

from __future__ import annotations

import base64
import binascii
import gc
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from memalchemy.errors import Corrupt, NotSerialisable, TooLarge

Parts = dict[str, bytes]
"""A state as canonical bytes: top-level key to encoded value, in the state's order."""

MAX_DEPTH = 200
"""How deeply values may nest. orjson's own bound is 254, and a tag takes a level."""

MAX_STATE_BYTES = 256 * 1024 * 1024
"""The most that an encoded state may take, and the most that is ever decompressed for one."""

TAGGED = b"~"

_OPTIONS = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_PLAIN = frozenset({dict, list, str, int, float, bool, type(None)})
_SURROGATE = re.compile("[\ud800-\udfff]")
_I64_MIN, _U64_MAX = -(2**63), 2**64 - 1

# Whatever a tag's content can raise when it is not what was written.
_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

Fallback = Callable[[Any], Any]


def pointer(path: str, step: str | int) -> str:
    """Extend a JSON pointer (RFC 6901) by one step."""
    return f"{path}/{str(step).replace('~', '~0').replace('/', '~1')}"


def encode_state(state: Mapping[str, Any], fallback: Fallback | None = None) -> Parts:
    """Encode each top-level value of *state*.

    *fallback* may turn a leaf of an unknown type into a storable one.

    Raises:
        NotSerialisable: a value (or key) that would not load back equal; its path says which.
        TooLarge: the state encodes to more than `MAX_STATE_BYTES`.
    """
    parts, left = encode_plain(state)
    return encode_rest(state, parts, left, fallback)


def encode_plain(state: Mapping[str, Any]) -> tuple[Parts, list[str]]:
    """The fast half of `encode_state`: the values that are plain JSON, and the keys of the rest."""
    parts: Parts = {}
    left: list[str] = []
    for key, value in state.items():
        if type(key) is not str:
            raise NotSerialisable("", f"has a key that is not a str: {type(key).__name__}")
        try:
            text = orjson.dumps(value, option=_OPTIONS)
        except TypeError:
            text = b""
        if text and _is_plain(value, text):
            parts[key] = text
        else:
            parts[key] = b""
            left.append(key)
    return parts, left


def encode_rest(
    state: Mapping[str, Any], parts: Parts, left: list[str], fallback: Fallback | None
) -> Parts:
    """The slow half: walk the values under *left* in Python and fill them into *parts*."""
    for key in left:
        path = pointer("", key)
        try:
            parts[key] = TAGGED + orjson.dumps(_tag(state[key], path, 0, fallback))
        except NotSerialisable:
            raise
        except (TypeError, RecursionError) as error:  # only nesting is left to refuse
            raise NotSerialisable(path, f"is nested over {MAX_DEPTH} levels deep") from error
    if (size := state_size(parts)) > MAX_STATE_BYTES:
        raise TooLarge("the state", size, MAX_STATE_BYTES)
    return parts


def is_heavy(values: Iterable[Any], threshold: int = 50_000) -> bool:
    """Whether the objects under *values* are more than *threshold*; stops counting there."""
    level = list(values)
    seen = 0
    while level and seen <= threshold:
        seen += len(level)
        level = gc.get_referents(*level)
    return seen > threshold


def decode_state(parts: Parts) -> dict[str, Any]:
    """The inverse of `encode_state`. Every call builds new objects."""
    return {key: decode_value(value) for key, value in parts.items()}


def state_size(parts: Parts) -> int:
    """The size of an encoded state in bytes."""
    return sum(map(len, parts.values())) + sum(map(len, parts))


def decode_value(encoded: bytes) -> Any:
    """One value of a state, from its encoding."""
    try:
        if encoded[:1] == TAGGED:
            return _untag(orjson.loads(encoded[1:]))
        return orjson.loads(encoded)
    except _UNREADABLE as error:
        raise Corrupt(f"a stored value cannot be decoded ({type(error).__name__})") from error


def _is_plain(value: Any, text: bytes) -> bool:
    """Whether *text*, which orjson wrote for *value*, parses back to the very same types."""
    level: list[Any] = [value]
    while level:
        types = set(map(type, level))
        if not types <= _PLAIN:
            return False
        if float in types and b"null" in text:
            numbers = [item for item in level if type(item) is float]
            if not all(map(math.isfinite, numbers)):
                return False
        level = gc.get_referents(*level)
    return True


def _tag(value: Any, path: str, depth: int, fallback: Fallback | None) -> Any:
    """*value* as a plain JSON tree, with tags where JSON has no such type."""
    if depth > MAX_DEPTH:
        raise NotSerialisable(path, f"is nested over {MAX_DEPTH} levels deep")
    kind = type(value)
    if kind is str:
        if _SURROGATE.search(value):
            return {"~x": _b64(value.encode("utf-8", "surrogatepass"))}
        return value
    if kind is bool or value is None:
        return value
    if kind is int:
        return value if _I64_MIN <= value <= _U64_MAX else {"~i": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"~n": repr(value)}
    if kind is list:
        return [_tag(v, pointer(path, i), depth + 1, fallback) for i, v in enumerate(value)]
    if kind is dict:
        return _tag_dict(value, path, depth, fallback)
    if kind is tuple:
        return {"~t": [_tag(v, pointer(path, i), depth + 1, fallback) for i, v in enumerate(value)]}
    if kind is set or kind is frozenset:
        # Sets arrive in hash order, which differs from process to process.
        members = [_tag(v, pointer(path, "*"), depth + 1, fallback) for v in value]
        return {"~s" if kind is set else "~f": sorted(members, key=orjson.dumps)}
    if kind is bytes:
        return {"~b": _b64(value)}
    if kind is datetime:
        return {"~dt": _from_datetime(value)}
    if kind is date:
        return {"~d": value.isoformat()}
    if kind is UUID:
        return {"~u": value.hex}
    if kind is Decimal:
        return {"~c": str(value)}
    if fallback is not None:
        try:
            simpler = fallback(value)
        except (TypeError, ValueError) as error:
            raise NotSerialisable(path, f"is a {kind.__name__}, which cannot be stored") from error
        return _tag(simpler, path, depth + 1, fallback)
    raise NotSerialisable(
        path,
        f"is a {kind.__module__}.{kind.__qualname__}, which cannot be stored; storable are dict "
        "with str keys, list, tuple, set, frozenset, str, int, float, bool, None, bytes, datetime, "
        "date, UUID and Decimal",
    )


def _tag_dict(value: dict[Any, Any], path: str, depth: int, fallback: Fallback | None) -> Any:
    awkward = False
    for key in value:
        if type(key) is not str:
            raise NotSerialisable(path, f"has a key that is not a str: {type(key).__name__}")
        awkward = awkward or key.startswith("~") or _SURROGATE.search(key) is not None
    if not awkward:
        return {k: _tag(v, pointer(path, k), depth + 1, fallback) for k, v in value.items()}
    pairs = [
        [_tag(k, path, depth, None), _tag(v, pointer(path, k), depth + 1, fallback)]
        for k, v in value.items()
    ]
    return {"~o": pairs}


def _untag(tree: Any) -> Any:
    if type(tree) is list:
        return [_untag(v) for v in tree]
    if type(tree) is not dict:
        return tree
    if len(tree) == 1:
        ((tag, content),) = tree.items()
        if tag.startswith("~"):
            return _UNTAG[tag](content)
    return {k: _untag(v) for k, v in tree.items()}


def _from_datetime(value: datetime) -> Any:
    """ISO 8601, or with what it cannot say: the second of two repeated hours, and an offset with a
    fraction of a second.
    """
    offset = value.utcoffset()
    fraction = offset is not None and offset.microseconds
    if not value.fold and not fraction:
        return value.isoformat()
    microseconds = None if offset is None else offset // timedelta(microseconds=1)
    return [value.replace(tzinfo=None).isoformat(), value.fold, microseconds]


def _to_datetime(stored: Any) -> datetime:
    if type(stored) is str:
        return datetime.fromisoformat(stored)
    text, fold, microseconds = stored
    zone = None if microseconds is None else timezone(timedelta(microseconds=microseconds))
    return datetime.fromisoformat(text).replace(fold=fold, tzinfo=zone)


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _unb64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("bad base64") from error


_UNTAG: dict[str, Callable[[Any], Any]] = {
    "~x": lambda c: _unb64(c).decode("utf-8", "surrogatepass"),
    "~i": lambda c: int(c, 16),
    "~n": float,
    "~t": lambda c: tuple(map(_untag, c)),
    "~s": lambda c: set(map(_untag, c)),
    "~f": lambda c: frozenset(map(_untag, c)),
    "~b": _unb64,
    "~dt": _to_datetime,
    "~d": date.fromisoformat,
    "~u": lambda c: UUID(hex=c),
    "~c": Decimal,
    "~o": lambda c: {_untag(k): _untag(v) for k, v in c},
}
