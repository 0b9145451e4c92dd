"""Values to canonical bytes and back: the same types, the same order, or a clear refusal.

A state is stored key by key. Each value is MessagePack, byte for byte the same for equal values in
any process, so that the delta coder can compare it with its base.

Most values take the fast path: ormsgpack writes them in C and refuses whatever would come back as
another type, with exceptions that are looked for (`_binary_kinds`). Anything else takes
the tagged form, marked by a leading byte that MessagePack never uses, in which a value of another
type is an object with one key such as ``~t``.
"""

from __future__ import annotations

import base64
import gc
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import ormsgpack

from memalchemy.contracts import Packed
from memalchemy.errors import Corrupt, NotSerialisable, TooLarge

Parts = dict[str, bytes]
"""A state as canonical bytes: top-level key to encoded value, in the state's order."""

MAX_DEPTH = 200
"""How deeply values may nest. ormsgpack's own bound is 254, and a tag takes a level."""

MAX_STATE_BYTES = 256 * 1024 * 1024
"""The most that an encoded state may take, and the most that is ever decompressed for one."""

TAGGED = b"\xc1"
"""Never a MessagePack value's first byte."""

_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
_BINARY = [bytes([mark]) for mark in (*range(0xC4, 0xCA), *range(0xD4, 0xD9))]
"""How bytes and extensions begin. So do letters from U+0100 to U+027F and U+0500 to U+063F."""
_BINARY_MARKS = b"".join(_BINARY)
_BRIEF = 2000
_AS_BINARY = frozenset({bytes, bytearray, memoryview, ormsgpack.Ext})
_SURROGATE = re.compile("[\ud800-\udfff]")
_I64_MIN, _U64_MAX = -(2**63), 2**64 - 1

# Whatever a tag's content can raise when it is not what was written.
UNREADABLE = (
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
    name = str(step)
    if "~" in name or "/" in name:
        name = name.replace("~", "~0").replace("/", "~1")
    return f"{path}/{name}"


def pointer_of(field: str) -> str:
    """The JSON pointer of a field: itself, or of a top-level key."""
    return field if field.startswith("/") else pointer("", field)


def encode_state(state: Mapping[str, Any], fallback: Fallback | None = None) -> Parts:
    """Encode each top-level value of *state*.

    *fallback* may turn a leaf of an unknown type into a storable one.

    Raises:
        NotSerialisable: a value (or key) that would not load back equal; its path says which.
        TooLarge: the state encodes to more than `MAX_STATE_BYTES`.
    """
    parts, left, _ = encode_plain(state)
    return encode_rest(state, parts, left, fallback)


def encode_plain(
    state: Mapping[str, Any], known: Callable[[str, bytes], bool] | None = None
) -> tuple[Parts, list[str], frozenset[str]]:
    """The fast half of `encode_state`: what ormsgpack takes, and the keys of the rest.

    Also the keys of the values that hold nothing binary. *known* may say so of a value's encoding
    from another that it differs little from: looking at every object takes twice as long as
    encoding them.
    """
    parts: Parts = {}
    left: list[str] = []
    textual: list[str] = []
    for key, value in state.items():
        if type(key) is not str:
            raise NotSerialisable("", f"has a key that is not a str: {type(key).__name__}")
        try:
            encoded = ormsgpack.packb(value, option=_OPTIONS)
        except TypeError:
            encoded = b""
        kinds: frozenset[type] = frozenset()
        if encoded and may_be_binary(encoded) and not (known is not None and known(key, encoded)):
            kinds = _binary_kinds(value)
        if encoded and kinds <= {bytes}:
            parts[key] = encoded
            if not kinds:
                textual.append(key)
        else:
            parts[key] = b""
            left.append(key)
    return parts, left, frozenset(textual)


def encode_rest(
    state: Mapping[str, Any], parts: Parts, left: list[str], fallback: Fallback | None
) -> Parts:
    """The slow half: walk the values under *left* in Python and fill them into *parts*."""
    for key in left:
        parts[key] = _tagged(state[key], pointer("", key), fallback)
    if (size := state_size(parts)) > MAX_STATE_BYTES:
        raise TooLarge("the state", size, MAX_STATE_BYTES)
    return parts


def encode_value(value: Any) -> bytes:
    """One value by itself, as `encode_state` encodes each of a state's."""
    parts, left, _ = encode_plain({"": value})
    return _tagged(value, "", None) if left else parts[""]


def _tagged(value: Any, path: str, fallback: Fallback | None) -> bytes:
    try:
        return TAGGED + ormsgpack.packb(_tag(value, path, 0, fallback))
    except NotSerialisable:
        raise
    except (TypeError, RecursionError) as error:  # only nesting is left to refuse
        raise NotSerialisable(path, f"is nested over {MAX_DEPTH} levels deep") from error


def is_heavy(values: Iterable[Any], threshold: int = 50_000) -> bool:
    """Whether the objects under *values* are more than *threshold*; stops counting there."""
    level = list(values)
    seen = 0
    while level and seen <= threshold:
        seen += len(level)
        # An object of a class in Python refers to it, and a class to everything there is.
        level = [found for found in gc.get_referents(*level) if type(found) is not type]
    return seen > threshold


_CONTAINERS = frozenset({dict, list, tuple, set})


def frozen(value: Any, depth: int = 0) -> Any:
    """A copy of *value* that nobody else changes, to be encoded in another thread.

    Containers are copied; what they hold in the end is shared, as it does not change. What nests
    too deeply to be encoded is returned as it is, for the encoder to refuse.
    """
    kind = type(value)
    if kind not in _CONTAINERS or depth > MAX_DEPTH:
        return value
    inner = value.values() if kind is dict else value
    # Of a set the members are hashable: what is that, and can be stored, does not change.
    if kind is set or _CONTAINERS.isdisjoint(map(type, inner)):
        return value if kind is tuple else value.copy()
    below = depth + 1
    if kind is dict:
        return {k: frozen(v, below) if type(v) in _CONTAINERS else v for k, v in value.items()}
    copied = [frozen(v, below) if type(v) in _CONTAINERS else v for v in value]
    return copied if kind is list else tuple(copied)


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
            return untag(ormsgpack.unpackb(encoded[1:]), _UNTAG)
        return ormsgpack.unpackb(encoded)
    except UNREADABLE as error:
        raise Corrupt(f"a stored value cannot be decoded ({type(error).__name__})") from error


def decode_values(encoded: Sequence[bytes]) -> list[Any]:
    """`decode_value` of each."""
    try:
        return list(map(ormsgpack.unpackb, encoded))
    except UNREADABLE:  # one of them is tagged, or none of ours
        return list(map(decode_value, encoded))


def may_be_binary(encoded: bytes) -> bool:
    """Whether *encoded* has a byte that something binary would begin with. Lengths have them too,
    and letters beyond ASCII.
    """
    if len(encoded) < _BRIEF:  # one pass over few bytes takes less than starting eleven
        return len(encoded.translate(None, _BINARY_MARKS)) < len(encoded)
    return any(mark in encoded for mark in _BINARY)


def _binary_kinds(value: Any) -> frozenset[type]:
    """The types in *value* that ormsgpack writes as bytes or as an extension."""
    found: set[type] = set()
    level: list[Any] = [value]
    while level and found <= {bytes}:  # what others refer to may lead round the whole process
        found.update(_AS_BINARY.intersection(map(type, level)))
        level = gc.get_referents(*level)
    return frozenset(found)


def _tag(value: Any, path: str, depth: int, fallback: Fallback | None) -> Any:
    """*value* as a plain tree, with tags where MessagePack has no such type."""
    if depth > MAX_DEPTH:
        raise NotSerialisable(path, f"is nested over {MAX_DEPTH} levels deep")
    kind = type(value)
    if kind is str:
        if _SURROGATE.search(value):
            return {"~x": value.encode("utf-8", "surrogatepass")}
        return value
    if kind is bool or kind is float or kind is bytes or value is None:
        return value
    if kind is int:
        return value if _I64_MIN <= value <= _U64_MAX else {"~i": hex(value)}
    if kind is list:
        return [_tag(v, pointer(path, i), depth + 1, fallback) for i, v in enumerate(value)]
    if kind is dict:
        return _tag_dict(value, path, depth, fallback)
    if kind is tuple:
        return {"~t": [_tag(v, pointer(path, i), depth + 1, fallback) for i, v in enumerate(value)]}
    if kind is set or kind is frozenset:
        # Sets arrive in hash order, which differs from process to process.
        members = [_tag(v, pointer(path, "*"), depth + 1, fallback) for v in value]
        return {"~s" if kind is set else "~f": sorted(members, key=ormsgpack.packb)}
    if kind is datetime:
        return {"~dt": _from_datetime(value)}
    if kind is date:
        return {"~d": value.isoformat()}
    if kind is UUID:
        return {"~u": value.hex}
    if kind is Decimal:
        return {"~c": str(value)}
    if kind is Packed:
        return {"~p": [value.format, value.data]}
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


def untag(tree: Any, tags: Mapping[str, Callable[[Any], Any]]) -> Any:
    """The inverse of `_tag`, with what each tag of an encoding means."""
    if type(tree) is list:
        return [untag(v, tags) for v in tree]
    if type(tree) is not dict:
        return tree
    if len(tree) == 1:
        ((tag, content),) = tree.items()
        if tag.startswith("~"):
            return tags[tag](content)
    return {k: untag(v, tags) for k, v in tree.items()}


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


def to_datetime(stored: Any) -> datetime:
    if type(stored) is str:
        return datetime.fromisoformat(stored)
    text, fold, microseconds = stored
    zone = None if microseconds is None else timezone(timedelta(microseconds=microseconds))
    return datetime.fromisoformat(text).replace(fold=fold, tzinfo=zone)


def jsonable(value: Any, path: str = "", fallback: Fallback | None = None) -> Any:
    """*value* as a JSON tree: with tags where JSON has no such type.

    Raises:
        NotSerialisable: it cannot be stored; *path* is where it is, *fallback* as `encode_state`'s.
    """
    return _without_bytes(_tag(value, path, 0, fallback))


def _without_bytes(tree: Any) -> Any:
    kind = type(tree)
    if kind is list:
        return [_without_bytes(v) for v in tree]
    if kind is bytes:
        return {"~b": base64.b64encode(tree).decode("ascii")}
    if kind is float and not math.isfinite(tree):
        return {"~n": repr(tree)}
    if kind is dict:
        if tree.keys() == {"~x"}:
            return {"~x": base64.b64encode(tree["~x"]).decode("ascii")}
        return {k: _without_bytes(v) for k, v in tree.items()}
    return tree


def from_jsonable(tree: Any) -> Any:
    """The inverse of `jsonable`.

    Raises:
        ValueError: it holds a tag that says nothing; a data file may come from anybody.
    """
    try:
        return untag(tree, _UNTAG_JSON)
    except UNREADABLE as error:
        raise ValueError(f"holds a tag that cannot be read ({type(error).__name__})") from error


def _meanings(own: Mapping[str, Callable[[Any], Any]]) -> dict[str, Callable[[Any], Any]]:
    """What each tag means: those that an encoding spells in its *own* way, and the others."""
    tags = dict(own)

    def inner(content: Any) -> Any:
        return untag(content, tags)

    shared: dict[str, Callable[[Any], Any]] = {
        "~i": lambda c: int(c, 16),
        "~t": lambda c: tuple(map(inner, c)),
        "~s": lambda c: set(map(inner, c)),
        "~f": lambda c: frozenset(map(inner, c)),
        "~dt": to_datetime,
        "~d": date.fromisoformat,
        "~u": lambda c: UUID(hex=c),
        "~c": Decimal,
        "~p": lambda c: Packed(c[0], inner(c[1])),
        "~o": lambda c: {inner(k): inner(v) for k, v in c},
    }
    tags |= shared
    return tags


_UNTAG = _meanings({"~x": lambda c: c.decode("utf-8", "surrogatepass")})
_UNTAG_JSON = _meanings(
    {
        "~x": lambda c: base64.b64decode(c, validate=True).decode("utf-8", "surrogatepass"),
        "~b": lambda c: base64.b64decode(c, validate=True),
        "~n": float,
    }
)
