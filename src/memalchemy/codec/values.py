"""Values as canonical bytes and back: of the same types and in the same order, or refused.

Storable are dict with str keys, list, tuple, set, frozenset, str, int, float, bool, None, bytes,
datetime, date, UUID, Decimal, paths of pathlib and scalars of numpy, nested up to 200 levels deep.

A state is encoded key by key. Each value is MessagePack, byte for byte the same for equal values in
any process, so that it can be compared with an earlier one. There are two forms:

- The plain form, which most values take: ormsgpack writes it in C. It refuses most types that would
  come back as another one; `_binary_kinds` looks for the rest.
- The tagged form, for all other values. It begins with a byte that MessagePack never uses, and a
  value of another type is an object with one key such as ``~t``.
"""

from __future__ import annotations

import base64
import dataclasses
import gc
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

import ormsgpack

from memalchemy import _bounds as bounds
from memalchemy._json_pointers import pointer
from memalchemy.contracts import Packed
from memalchemy.errors import Corrupt, NotSerialisable, TooLarge

Parts = dict[str, bytes]
"""An encoded state: its top-level keys in their order, each with its encoded value."""

MAX_DEPTH = 200
"""Levels that values may nest. ormsgpack's own bound is 254, and a tag takes a level."""

MAX_STATE_BYTES = 256 * 1024 * 1024
"""Size of the largest encoded state, and bound of every decompression of one."""

MAX_PATH = 32_767
"""Characters of the longest path that any operating system takes."""

TAGGED = b"\xc1"
"""First byte of the tagged form; no MessagePack value begins with it."""

_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
_BINARY_MARKS = [bytes([mark]) for mark in (*range(0xC4, 0xCA), *range(0xD4, 0xD9))]
"""First bytes of bytes and extensions, which letters of U+0100 to U+027F and U+0500 to U+063F
also begin with."""
_ALL_BINARY_MARKS = b"".join(_BINARY_MARKS)
_SHORT = 2000
"""Bytes below which one pass over an encoding is faster than eleven searches in it."""
_BINARY_TYPES = frozenset({bytes, bytearray, memoryview, ormsgpack.Ext})
_PLAIN_BINARY = frozenset({bytes})
_NO_KINDS: frozenset[type] = frozenset()
_SURROGATE = re.compile("[\ud800-\udfff]")
_I64_MIN, _U64_MAX = -(2**63), 2**64 - 1

UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors that decoding damaged bytes can raise."""

Fallback = Callable[[Any], Any]
"""A function that turns a leaf of an unknown type into a storable value."""


class UnknownTag(LookupError):
    """A tag that this release does not know."""


def encode_key(key: str) -> bytes:
    """Encode a top-level key; lone surrogates, which UTF-8 has no bytes for, are kept."""
    return key.encode("utf-8", "surrogatepass")


def decode_key(encoded: bytes) -> str:
    """Decode what `encode_key` returned."""
    return encoded.decode("utf-8", "surrogatepass")


def encode_state(state: Mapping[str, Any], fallback: Fallback | None = None) -> Parts:
    """Encode each top-level value of *state*.

    Raises:
        NotSerialisable: a value or key would not load back equal; ``path`` says which.
        TooLarge: the encoded state takes more than `MAX_STATE_BYTES`.
    """
    parts, remaining, _ = encode_plain(state)
    encode_rest(state, parts, remaining, fallback)
    return parts


def encode_plain(
    state: Mapping[str, Any], known: Callable[[str, bytes], bool] | None = None
) -> tuple[Parts, list[str], frozenset[str]]:
    """Encode the values that take the plain form: the fast half of `encode_state`.

    Args:
        known: returns whether the encoding of a key's long value is known to hold nothing binary,
            for example because it differs little from an earlier one. Looking at every object takes
            twice as long as encoding them.

    Returns:
        All parts, of which those that need the tagged form are empty; the keys of these; and the
        keys of the values that hold nothing binary.
    """
    parts: Parts = {}
    remaining: list[str] = []
    textual: list[str] = []
    for key, value in state.items():
        if type(key) is not str:
            raise NotSerialisable("", f"has a key that is not a str: {type(key).__name__}")
        try:
            parts[key] = encoded = ormsgpack.packb(value, option=_OPTIONS)
        except TypeError:  # it is refused
            parts[key] = b""
            remaining.append(key)
            continue
        if known is not None and len(encoded) >= _SHORT and known(key, encoded):
            textual.append(key)
            continue
        kinds = _binary_kinds(value) if may_be_binary(encoded) else _NO_KINDS
        if not kinds:
            textual.append(key)
        elif not kinds <= _PLAIN_BINARY:
            parts[key] = b""
            remaining.append(key)
    return parts, remaining, frozenset(textual)


def _encode_plain(value: Any) -> bytes:
    """Return *value* as ormsgpack writes it; nothing if it refuses the value."""
    try:
        return ormsgpack.packb(value, option=_OPTIONS)
    except TypeError:
        return b""


def encode_rest(
    state: Mapping[str, Any], parts: Parts, remaining: list[str], fallback: Fallback | None
) -> int:
    """Encode the values under the keys *remaining* in the tagged form: the slow half.

    Returns the size of all *parts*, which then have them.

    Raises:
        NotSerialisable, TooLarge: as `encode_state`.
    """
    for key in remaining:
        parts[key] = _encode_tagged(state[key], pointer("", key), fallback)
    if (size := state_size(parts)) > MAX_STATE_BYTES:
        raise TooLarge("the state", size, MAX_STATE_BYTES)
    if size > bounds.SMALL:
        _check_memory(
            parts.values(), lambda: pointer("", max(parts, key=lambda key: len(parts[key])))
        )
    return size


def encode_value(value: Any) -> bytes:
    """Encode one value as `encode_state` encodes each value of a state."""
    encoded = _encode_plain(value)
    if encoded and may_be_binary(encoded) and not _binary_kinds(value) <= _PLAIN_BINARY:
        encoded = b""
    encoded = encoded or _encode_tagged(value, "", None)
    if len(encoded) > bounds.SMALL:
        _check_memory((encoded,), lambda: "/")
    return encoded


def _check_memory(parts: Iterable[bytes], path: Callable[[], str]) -> None:
    """Check that what is encoded can be decoded again; *path* names a value for the error.

    Raises:
        TooLarge: decoding would refuse it.
    """
    try:
        bounds.check_memory(parts)
    except bounds.Oversized as error:
        what = f"the value at {path()!r}, once it is loaded,"
        advice = "; store it as several values, or as bytes"
        raise TooLarge(what, error.size, error.limit, "bytes of memory", advice) from error


def _encode_tagged(value: Any, path: str, fallback: Fallback | None) -> bytes:
    try:
        return TAGGED + ormsgpack.packb(_tag(value, path, 0, fallback))
    except NotSerialisable:
        raise
    except (TypeError, RecursionError) as error:  # nesting is all that ormsgpack can still refuse
        raise NotSerialisable(path, f"is nested over {MAX_DEPTH} levels deep") from error


def is_heavy(values: Iterable[Any], threshold: int = 50_000) -> bool:
    """Return whether there are more than *threshold* objects under *values*, and no exact count.

    What leads to other code, a class first of all, is not followed: every object refers to its
    class, and from there to all that is imported.
    """
    seen, level = 0, list(values)
    while seen <= threshold and level:
        found = [one for one in level if type(one) not in _ATOMS and not isinstance(one, _CODE)]
        # The members are counted before they are listed: many containers may share a large one.
        seen += len(found) + sum(len(one) for one in found if type(one) in _NESTING)
        level = gc.get_referents(*found) if seen <= threshold else []
    return seen > threshold


_ATOMS = frozenset({str, bytes, int, float, bool, type(None)})
_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)

_CONTAINERS = frozenset({dict, list, tuple, set})
_NESTING = _CONTAINERS | {frozenset}


def frozen(value: Any, depth: int = 0) -> Any:
    """Copy the containers of *value*, so that it can be encoded in another thread.

    What the containers hold in the end is shared: it is immutable or cannot be stored. A value that
    is nested too deeply is returned as it is, for the encoder to refuse.
    """
    kind = type(value)
    if kind not in _CONTAINERS or depth > MAX_DEPTH:
        return value
    inner = value.values() if kind is dict else value
    # Members of a set are hashable: those that can be stored are immutable.
    if kind is set or _CONTAINERS.isdisjoint(map(type, inner)):
        return value if kind is tuple else value.copy()
    below = depth + 1
    if kind is dict:
        return {k: frozen(v, below) if type(v) in _CONTAINERS else v for k, v in value.items()}
    copied = [frozen(v, below) if type(v) in _CONTAINERS else v for v in value]
    return copied if kind is list else tuple(copied)


def decode_state(parts: Parts, *, is_checked: bool = False) -> dict[str, Any]:
    """Decode what `encode_state` returned. Every call creates new objects.

    If it *is_checked*, this process has encoded or decoded it before.
    """
    if not is_checked:
        try:
            bounds.check_memory(parts.values())
        except bounds.Oversized as error:
            raise Corrupt(f"a stored state {error}") from error
    return {key: decode_value(value, bounds.unpack_checked) for key, value in parts.items()}


def state_size(parts: Parts) -> int:
    """Return the size of an encoded state in bytes."""
    return sum(map(len, parts.values())) + sum(map(len, parts))


def decode_value(encoded: bytes, unpack: Callable[[bytes], Any] = bounds.unpack) -> Any:
    """Decode what `encode_value` returned. *unpack* parses MessagePack, in either form.

    Raises:
        Corrupt: *encoded* is something else.
    """
    try:
        tree = unpack(encoded)
        return untag(tree, _UNTAG) if encoded[:1] == TAGGED else tree
    except UnknownTag as error:
        raise Corrupt(
            f"a stored value has a part tagged {error.args[0]!r}, which this release of memalchemy "
            "does not know: a newer one wrote it, or it is damaged"
        ) from error
    except (bounds.Oversized, bounds.Colliding) as error:
        raise Corrupt(f"a stored value {error}") from error
    except UNREADABLE as error:
        raise Corrupt(f"a stored value cannot be decoded ({type(error).__name__})") from error


def decode_values(encoded: Sequence[bytes]) -> list[Any]:
    """Decode several values, as `decode_value` does each."""
    try:
        return list(map(bounds.unpack_plain, encoded))
    except UNREADABLE:  # one of them is tagged or damaged
        return list(map(decode_value, encoded))


def may_be_binary(encoded: bytes) -> bool:
    """Return whether *encoded* has a byte that bytes or an extension would begin with.

    Lengths can be such a byte as well, and so can a letter beyond ASCII.
    """
    if len(encoded) < _SHORT:
        return len(encoded.translate(None, _ALL_BINARY_MARKS)) < len(encoded)
    return any(map(encoded.__contains__, _BINARY_MARKS))


def holds_binary(value: Any) -> bool:
    """Return whether something in *value*, of any kind, is written as bytes or as an extension."""
    return bool(_binary_kinds(value))


def _binary_kinds(value: Any) -> frozenset[type]:
    """Return the types in *value* that ormsgpack writes as bytes or as an extension."""
    found: set[type] = set()
    level: list[Any] = [value]
    # The garbage collector names what a container holds, without a call into Python for each value.
    # A type other than bytes ends the search: its referents may lead through the whole process.
    while level and found <= {bytes}:
        found.update(_BINARY_TYPES.intersection(map(type, level)))
        level = gc.get_referents(*level)
    return frozenset(found)


def _tag(value: Any, path: str, depth: int, fallback: Fallback | None) -> Any:
    """Convert *value* to a plain tree, with tags for types that MessagePack does not have."""
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
        # Sets are iterated in the order of hashes, which differ from process to process.
        try:
            bounds.check_members(list(value))
        except bounds.Colliding as error:
            raise NotSerialisable(path, str(error)) from error
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
    if kind in _PATH_NAMES or kind.__module__ == "numpy":
        found = _tag_path(value) if kind in _PATH_NAMES else _tag_scalar(value)
        if found is not None:
            return found
    if fallback is not None:
        try:
            simpler = fallback(value)
        except (TypeError, ValueError) as error:
            raise NotSerialisable(path, f"is a {kind.__name__}, which cannot be stored") from error
        return _tag(simpler, path, depth + 1, fallback)
    advice = _advice_instead_of(value)
    raise NotSerialisable(
        path, f"is a {kind.__module__}.{kind.__qualname__}, which cannot be stored; {advice}"
    )


def _advice_instead_of(value: Any) -> str:
    """Return what to write in place of a value that cannot be stored."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return "store its fields, dataclasses.asdict(x), or let the state_type be a class with it"
    if isinstance(value, Enum):
        return "store its value, x.value, or let the state_type be a class with it"
    if isinstance(value, PurePath):
        return "store its text, str(x)"
    if type(value).__module__ == "numpy":
        return "store Python's own, x.item(), or of an array x.tolist()"
    return (
        "storable are dict with str keys, list, tuple, set, frozenset, str, int, float, bool, "
        "None, bytes, datetime, date, UUID, Decimal, paths of pathlib and scalars of numpy"
    )


# A class is never looked up by a stored name: these are all that the two tags create.
_PATHS: dict[str, type[PurePath]] = {
    "PurePosixPath": PurePosixPath,
    "PureWindowsPath": PureWindowsPath,
    # Where the other kind of files is, a path cannot open one, and the pure one equals it.
    "PosixPath": PurePosixPath if os.name == "nt" else PosixPath,
    "WindowsPath": WindowsPath if os.name == "nt" else PureWindowsPath,
}
_PATH_NAMES: dict[type, str] = {kind: kind.__name__ for kind in _PATHS.values()}
_SCALARS = re.compile(r"b1|[iu][1248]|f[248]|c8|c16|[mM]8\[\d*[a-zA-Z]+\]")


def _tag_path(value: PurePath) -> Any:
    """Tag a path; ``None`` if its text is that of another path."""
    kind, text = type(value), str(value)
    if len(text) > MAX_PATH:
        return None
    same = kind(text)
    if same != value or same.parts != value.parts:
        return None
    return {"~h": [_PATH_NAMES[kind], _tag(text, "", 0, None)]}


def _to_path(name: str, text: str) -> PurePath:
    if len(text) > MAX_PATH:
        raise ValueError(f"a path has more than {MAX_PATH:,} characters")
    return _PATHS[name](text)


def _tag_scalar(value: Any) -> Any:
    """Tag a scalar of numpy; ``None`` if a process elsewhere may not have its type."""
    import numpy as np

    if not isinstance(value, np.generic):
        return None
    code = value.dtype.str[1:]
    if not _SCALARS.fullmatch(code) or np.dtype(code).type is not type(value):
        return None
    return {"~m": [code, np.asarray(value, dtype=f"<{code}").tobytes()]}


def _to_scalar(code: str, data: bytes) -> Any:
    import numpy as np

    if not _SCALARS.fullmatch(code):
        raise ValueError(f"there is no number of the type {code!r}")
    (value,) = np.frombuffer(data, dtype=f"<{code}")
    return value


def _tag_dict(value: dict[Any, Any], path: str, depth: int, fallback: Fallback | None) -> Any:
    needs_pairs = False
    for key in value:
        if type(key) is not str:
            raise NotSerialisable(path, f"has a key that is not a str: {type(key).__name__}")
        needs_pairs = needs_pairs or key.startswith("~") or _SURROGATE.search(key) is not None
    if not needs_pairs:
        return {k: _tag(v, pointer(path, k), depth + 1, fallback) for k, v in value.items()}
    pairs = [
        [_tag(k, path, depth, None), _tag(v, pointer(path, k), depth + 1, fallback)]
        for k, v in value.items()
    ]
    return {"~o": pairs}


def untag(tree: Any, tags: Mapping[str, Callable[[Any], Any]]) -> Any:
    """Convert a tree with tags back; *tags* has the decoder of each."""
    if type(tree) is list:
        return [untag(v, tags) for v in tree]
    if type(tree) is not dict:
        return tree
    if len(tree) == 1:
        ((tag, content),) = tree.items()
        if tag.startswith("~"):
            if tag not in tags:
                raise UnknownTag(tag)
            return tags[tag](content)
    return {k: untag(v, tags) for k, v in tree.items()}


def _from_datetime(value: datetime) -> Any:
    """Convert to ISO 8601, or to a list with what ISO 8601 cannot express.

    It cannot express the second of two repeated hours, an offset with a fraction of a second, nor
    the name of a zone, whose offset changes.
    """
    offset = value.utcoffset()
    fraction = offset is not None and offset.microseconds
    zone = _name_of_zone(value)
    if not value.fold and not fraction and zone is None:
        return value.isoformat()
    microseconds = None if offset is None else offset // timedelta(microseconds=1)
    found = [value.replace(tzinfo=None).isoformat(), value.fold, microseconds]
    return found if zone is None else [*found, zone]


def _name_of_zone(value: datetime) -> str | None:
    """Return the name of the `zoneinfo.ZoneInfo` of a datetime; ``None`` of any other zone."""
    zone: Any = value.tzinfo
    zoneinfo = sys.modules.get("zoneinfo")  # whoever has a zone has imported it
    return zone.key if zoneinfo is not None and type(zone) is zoneinfo.ZoneInfo else None


def to_datetime(stored: Any) -> datetime:
    """Convert a tagged datetime back.

    One with the name of a zone has the same offset as it had, even where the zone is not known, or
    has another offset by now: then it has no zone but that offset.
    """
    if type(stored) is str:
        return datetime.fromisoformat(stored)
    text, fold, microseconds, *names = stored
    offset = None if microseconds is None else timedelta(microseconds=microseconds)
    moment = datetime.fromisoformat(text).replace(fold=fold)
    for name in names:
        in_zone = moment.replace(tzinfo=_find_zone(name))
        if in_zone.utcoffset() == offset:
            return in_zone
    return moment.replace(tzinfo=None if offset is None else timezone(offset))


def _find_zone(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return None


def jsonable(value: Any, path: str = "", fallback: Fallback | None = None) -> Any:
    """Convert *value* to a JSON tree, with tags for types that JSON does not have.

    Raises:
        NotSerialisable: the value cannot be stored. *path* is where it is, for the error.
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
    """Convert what `jsonable` returned back.

    Raises:
        ValueError: a tag cannot be read; a data file may come from anybody.
    """
    bounds.check_tree(tree)
    try:
        return untag(tree, _UNTAG_JSON)
    except bounds.Colliding:
        raise
    except UNREADABLE as error:
        raise ValueError(f"holds a tag that cannot be read ({type(error).__name__})") from error


def _decoders(own: Mapping[str, Callable[[Any], Any]]) -> dict[str, Callable[[Any], Any]]:
    """Return the decoder of each tag: the *own* ones of an encoding, and those of all."""
    tags = dict(own)

    def inner(content: Any) -> Any:
        return untag(content, tags)

    def members(content: Any) -> list[Any]:
        found = list(map(inner, content))
        bounds.check_members(found)
        return found

    def text(key: Any) -> str:
        if type(key) is not str:
            raise ValueError("a key of a dict is not a text")
        return key

    shared: dict[str, Callable[[Any], Any]] = {
        "~i": lambda c: int(c, 16),
        "~t": lambda c: tuple(map(inner, c)),
        "~s": lambda c: set(members(c)),
        "~f": lambda c: frozenset(members(c)),
        "~dt": to_datetime,
        "~d": date.fromisoformat,
        "~u": lambda c: UUID(hex=c),
        "~c": Decimal,
        "~p": lambda c: Packed(c[0], inner(c[1])),
        "~h": lambda c: _to_path(c[0], inner(c[1])),
        "~m": lambda c: _to_scalar(c[0], inner(c[1])),
        "~o": lambda c: {text(inner(k)): inner(v) for k, v in c},
    }
    tags |= shared
    return tags


_UNTAG = _decoders({"~x": lambda c: c.decode("utf-8", "surrogatepass")})
_UNTAG_JSON = _decoders(
    {
        "~x": lambda c: base64.b64decode(c, validate=True).decode("utf-8", "surrogatepass"),
        "~b": lambda c: base64.b64decode(c, validate=True),
        "~n": float,
    }
)
