"""What the codec's tests draw from: every storable value, and an equality that sees types."""

from __future__ import annotations

import math
import random
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from drawn_examples import examples


def tried(usual: int) -> settings:
    """Return the settings of a property that *usual* examples are drawn for."""
    return settings(
        max_examples=examples(usual),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


SCALARS = (
    *("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"),
    *("M8[s]", "M8[ns]", "M8[25us]", "m8[D]", "m8[25us]"),
)
"""Types of numpy whose scalars can be stored."""


def has_hash(scalar: Any) -> bool:
    """Return whether a set can hold *scalar*: numpy 2.5 has no hash of a time as far as this."""
    try:
        hash(scalar)
    except OverflowError:
        return False
    return True


texts = st.one_of(
    st.text(st.characters(), max_size=12),  # lone surrogates and U+0000 too
    st.text('ab~/\\"\x00\ud800\udc00é', max_size=6),
)
keys = st.one_of(
    texts,
    st.sampled_from(["~", "~t", "~o", "~x", "", "a", "b", "messages", "\ud83d", "\ude00"]),
    texts.map(lambda text: "~" + text),
)
offsets = st.timedeltas(
    timedelta(hours=-24) + timedelta(microseconds=1),
    timedelta(hours=24) - timedelta(microseconds=1),
).filter(lambda offset: not offset or abs(offset) >= timedelta(seconds=1))  # has its own test
datetimes = st.one_of(
    st.datetimes(),
    st.datetimes(timezones=st.builds(timezone, offsets)),
    st.datetimes(timezones=st.just(UTC)),
    st.datetimes(timezones=st.timezones()),
).map(lambda moment: moment.replace(fold=0))  # repeated hours have a test of their own
integers = st.one_of(
    st.integers(),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400]),
)
hashable_leaves = st.one_of(
    st.none(),
    st.booleans(),
    integers,
    st.floats(),
    st.sampled_from([-0.0, math.nan, math.inf, -math.inf]),
    texts,
    st.binary(max_size=12),
    datetimes,
    st.dates(),
    st.uuids(),
    st.decimals().filter(lambda number: not number.is_snan()),  # sets cannot hold a signalling NaN
    st.sampled_from([Decimal("-0"), Decimal("1.00"), Decimal("-Infinity"), Decimal("1E+900")]),
    st.builds(
        lambda kind, text: kind(text),
        st.sampled_from([PurePosixPath, PureWindowsPath, Path]),
        st.one_of(texts, st.sampled_from(["", "/", "//host/a", "C:a", "C:\\a", "a/../b/."])),
    ).filter(lambda path: type(path)(str(path)).parts == path.parts),
    st.builds(
        lambda code, data: np.frombuffer(data, dtype=code)[0],
        st.sampled_from(SCALARS),
        st.binary(min_size=16, max_size=16),
    ).filter(has_hash),
)
leaves = st.one_of(hashable_leaves, st.just(Decimal("sNaN7")))
hashables = st.recursive(
    hashable_leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)
    ),
    max_leaves=4,
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.sets(hashables, max_size=4),
        st.frozensets(hashables, max_size=4),
    ),
    max_leaves=12,
)
states = st.dictionaries(keys, values, max_size=5)

parts = st.dictionaries(
    keys,
    st.one_of(
        st.binary(max_size=40),
        st.binary(min_size=1, max_size=4).map(lambda piece: piece * 50),
        st.sampled_from([b"", b"x" * 70_000, b"x" * 70_001, b"y" + b"x" * 70_000]),
    ),
    max_size=5,
)


_blocks = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"\x00", b"\xdc\x00\x10", b"\x9f", b"ab" * 20, b"x" * 40, bytes(range(64))]),
)


@st.composite
def _byte_pairs(draw: st.DrawFn) -> tuple[bytes, bytes]:
    old = draw(st.lists(_blocks, max_size=12))
    new = list(old)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(new)))
        until = draw(st.integers(at, min(len(new), at + 2)))
        new[at:until] = draw(st.lists(_blocks, max_size=2))
    return b"".join(old), b"".join(new)


byte_pairs = st.one_of(_byte_pairs(), st.tuples(st.binary(max_size=80), st.binary(max_size=80)))
"""Byte strings that have much in common, at places that mislead: repeated runs, moved blocks."""


def spelled(value: Any) -> Any:
    """*value* spelt out so that two spellings are equal only if types, order and bits are.

    The one NaN equals itself, and a time zone is its offset, with its name if it has one.
    """
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, [(key, spelled(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return kind, [spelled(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return kind, sorted((spelled(item) for item in value), key=repr)
    if isinstance(value, PurePath):
        return kind, value.parts, str(value)
    if isinstance(value, np.generic):
        return kind, value.dtype.str, value.tobytes()
    if isinstance(value, float):
        return kind, "nan" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, datetime):
        zone = getattr(value.tzinfo, "key", None)
        return kind, value.replace(tzinfo=None).isoformat(), value.utcoffset(), value.fold, zone
    if isinstance(value, Decimal):
        return kind, value.as_tuple()
    if isinstance(value, int) and abs(value) >= 2**64:
        return kind, hex(value)  # Python refuses to print very large numbers in base ten
    return kind, value


def hashed_states(seed: int) -> list[dict[str, Any]]:
    """States full of sets, the same in every process but for the order of the sets."""
    dice = random.Random(seed)

    def leaf() -> Any:
        return dice.choice(
            [
                "".join(dice.choices("abcdé\ud800~", k=dice.randint(0, 6))),
                dice.randbytes(4),
                dice.randint(-(2**70), 2**70),
                dice.random(),
                None,
                UUID(int=dice.getrandbits(128)),
                date(2000, 1, dice.randint(1, 28)),
                datetime(2000, 1, dice.randint(1, 28), tzinfo=UTC),
                Decimal(dice.randint(0, 99)).scaleb(-1),
            ]
        )

    def member(depth: int) -> Any:
        if depth and dice.random() < 0.4:
            kind = dice.choice([tuple, frozenset])
            return kind([member(depth - 1) for _ in range(dice.randint(0, 5))])
        return leaf()

    def tree(depth: int) -> Any:
        if not depth:
            return {member(3) for _ in range(8)}
        if dice.random() < 0.5:
            return {f"~{i}": tree(depth - 1) for i in range(3)}
        return [tree(depth - 1), frozenset(member(3) for _ in range(8)), leaf()]

    return [{"a": tree(2), "b": tree(1), "c": {leaf() for _ in range(30)}} for _ in range(20)]
