"""What a value may become when it is decoded: bounded memory and linear work, or refused.

The bombs are generated: for each type that a value may hold, as many as its bytes allow.
"""

from __future__ import annotations

import base64
import itertools
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import IPv6Network
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import numpy as np
import ormsgpack
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from memalchemy import Database, Store, ThreadLog
from memalchemy import _bounds as bounds
from memalchemy._cursors import decode_cursor
from memalchemy.codec.deltas import encode_snapshot
from memalchemy.codec.foreign_msgpack import plain_tree
from memalchemy.codec.payloads import VALUE_CODEC, decode_payload
from memalchemy.codec.values import (
    decode_state,
    decode_value,
    encode_state,
    encode_value,
    from_jsonable,
    jsonable,
)
from memalchemy.contracts import Packed
from memalchemy.errors import Corrupt, NotSerialisable, TooLarge
from memalchemy.integrations._importers._jsonb import decode_jsonb
from memalchemy.state import ToolCall

MB = 1024 * 1024
P = 2**61 - 1
"""Modulus of the hashes of numbers."""

ELEMENTS: dict[str, Any] = {
    "none": None,
    "small-int": 5,
    "int": 4660,
    "float": 0.5,
    "text": "ab",
    "emoji": "😀",
    "empty-map": {},
    "empty-list": [],
    "map": {"a": None},
    "list": [None],
    "nested": [{"a": [{}]}],
    "bytes": b"ab",
    "empty-set": set(),
    "set": {1, 2, 3, 4, 5},
    "frozenset": frozenset({1}),
    "tuple": (1,),
    "big-int": 2**70,
    "uuid": UUID(int=7),
    "decimal": Decimal("1.5"),
    "date": date(2020, 1, 1),
    "datetime": datetime(2020, 1, 1, tzinfo=UTC),
    "repeated-hour": datetime(2020, 1, 1, fold=1),
    "path": PurePosixPath("a/b/c/d"),
    "number-of-numpy": np.int64(3),
    "packed": Packed("x", b""),
    "surrogate": "\ud800",
    "tilde": {"~a": 1},
}


def bomb(element: Any, number: int) -> bytes:
    """Return the encoding of a list of *number* such elements."""
    one = encode_value(element)
    tagged = one[:1] == b"\xc1"
    return one[:tagged] + b"\xdd" + number.to_bytes(4, "big") + one[tagged:] * number


def peak(work: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> int:
    """Bound the memory at a fiftieth: objects that are traced take long to make."""
    limit = bounds.MAX_OVERHEAD // 50
    for name in ("MAX_OVERHEAD", "_ALLOWANCE", "_SMALL", "SMALL"):
        monkeypatch.setattr(bounds, name, getattr(bounds, name) // 50)
    return limit


@pytest.mark.parametrize("name", ELEMENTS)
def test_a_list_of_any_type_takes_bounded_memory_at_whatever_length_it_is_read(
    name: str, lowered: int
) -> None:
    decode_value(encode_value(ELEMENTS[name]))  # which imports what the type needs
    size = len(encode_value(ELEMENTS[name]))
    read = refused = 0
    for scale in range(6):
        encoded = bomb(ELEMENTS[name], 4**scale * 250)
        if len(encoded) > MB // 2:
            break

        def work(encoded: bytes = encoded) -> Any:
            try:
                return decode_value(encoded)
            except Corrupt:
                return None

        assert peak(work) <= bounds.EXPANSION * len(encoded) + lowered, (name, len(encoded))
        read, refused = (read + 1, refused) if work() is not None else (read, refused + 1)
    assert read
    # A list has eight bytes for None or a small number, and no object: that is within the bound.
    is_shared = ELEMENTS[name] is None or type(ELEMENTS[name]) is int
    assert refused or size > 2 or is_shared, "the longest list is over the bound"


@pytest.mark.parametrize("name", ["empty-map", "empty-list", "none"])
def test_a_short_row_does_not_become_hundreds_of_megabytes(name: str) -> None:
    encoded = bomb(ELEMENTS[name], 60 * MB // (len(encode_value(ELEMENTS[name])) + 1))
    payload = b"\x01" + zstandard.ZstdCompressor().compress(encoded)
    assert len(payload) < 20_000

    def work() -> None:
        with pytest.raises(Corrupt):
            decode_payload(payload, zlib.crc32(payload), VALUE_CODEC)

    assert peak(work) <= len(encoded) + 64 * MB


@pytest.mark.parametrize("name", ELEMENTS)
def test_what_a_load_would_refuse_a_save_refuses_and_names(name: str, lowered: int) -> None:
    element = ELEMENTS[name]
    low, high = 100, 200_000
    while high - low > low // 4:
        middle = (low + high) // 2
        try:
            bounds.check_memory((bomb(element, middle),))
            low = middle
        except bounds.Oversized:
            high = middle
    decode_value(encode_value([element] * low))
    if high == 200_000:
        return  # elements that take little more memory than bytes
    with pytest.raises(TooLarge, match="memory"):
        encode_value([element] * high)
    with pytest.raises(TooLarge, match="/big"):
        encode_state({"small": 1, "big": [element] * high})


def test_a_long_conversation_of_short_messages_is_saved_and_loaded() -> None:
    messages = [{"role": "user", "content": f"short message {n}"} for n in range(200_000)]

    assert decode_value(encode_value(messages)) == messages


def test_the_values_of_a_state_are_bounded_together(lowered: int) -> None:
    parts = {str(key): bomb({}, 6_000) for key in range(10)}
    decode_state({"one": parts["0"]})
    with pytest.raises(Corrupt):
        decode_state(parts)
    with pytest.raises(TooLarge):
        encode_state({key: [{}] * 6_000 for key in parts})
    assert encode_snapshot(parts, 3)


# --- Hashes ---------------------------------------------------------------------------------------


def _numbers() -> Iterator[Any]:
    return (P * (k + 10) for k in itertools.count())


COLLIDING: dict[str, Callable[[], Iterator[Any]]] = {
    "ints": _numbers,
    "negative": lambda: (-n for n in _numbers()),
    "uuids": lambda: (UUID(int=n) for n in _numbers()),
    "decimals": lambda: (Decimal(n) for n in _numbers()),
    "mixed": lambda: (kind(n) for n in _numbers() for kind in (int, Decimal)),
    "tuples": lambda: ((n, "x") for n in _numbers()),
    "nested tuples": lambda: (((n,),) for n in _numbers()),
    "frozensets": lambda: (frozenset({n}) for n in _numbers()),
    "pairs": lambda: (
        frozenset({a, b}) for a in _numbers() for b in itertools.islice(_numbers(), 9)
    ),
}


def tree_of(members: list[Any], tag: str) -> Any:
    """Return a set as a tree of JSON with tags, which no set was built for."""
    return {tag: [jsonable(member) for member in members]}


@pytest.mark.parametrize("tag", ["~s", "~f"])
@pytest.mark.parametrize("name", COLLIDING)
def test_a_set_whose_members_have_one_hash_is_refused_before_it_is_built(
    name: str, tag: str
) -> None:
    members = list(itertools.islice(COLLIDING[name](), 2_000))
    tree = tree_of(members, tag)
    with pytest.raises(ValueError, match="equal hashes"):
        from_jsonable({"a": [tree]})
    # Bytes and lone surrogates alone are other trees in MessagePack.
    with pytest.raises(Corrupt, match="equal hashes"):
        decode_value(b"\xc1" + ormsgpack.packb({"a": [tree]}))
    some = set(members[:300])
    with pytest.raises(NotSerialisable, match="equal hashes") as refused:
        encode_state({"a": [0, some if tag == "~s" else frozenset(some)]})
    assert refused.value.path == "/a/1"


class Counted(int):
    """An int that counts how often it is compared and hashed."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return int(self) == int(other) if isinstance(other, int) else False

    def __hash__(self) -> int:
        return hash(int(self))


@pytest.mark.parametrize("number", [10, 40, 100, 1_000, 10_000])
@pytest.mark.parametrize("different", [1, 2, 10, 1_000])
def test_members_are_compared_a_bounded_number_of_times_each(number: int, different: int) -> None:
    Counted.compared = 0
    members = [Counted(P * (k % different) + k // different) for k in range(number)]
    try:
        bounds.check_members(members)
        set(members)
    except bounds.Colliding:
        assert number > 10, "a few members may have one hash"
    assert Counted.compared <= 2_000 + 40 * number


def test_nested_frozensets_with_equal_hashes_are_not_compared_in_squares() -> None:
    numbers = _numbers()

    def nest(depth: int) -> Any:
        return {"~f": [nest(depth - 1), nest(depth - 1)]} if depth else {"~i": hex(next(numbers))}

    with pytest.raises(ValueError, match="equal hashes"):
        from_jsonable({"~s": [nest(9), nest(9)]})


def test_a_map_has_no_other_keys_than_texts() -> None:
    pairs = [[{"~i": hex(n)}, 1] for n in itertools.islice(_numbers(), 3)]
    with pytest.raises(ValueError, match="tag"):
        from_jsonable({"~o": pairs})
    with pytest.raises(Corrupt):
        decode_value(b"\xc1" + ormsgpack.packb({"~o": pairs}))


@pytest.mark.parametrize(
    "members",
    [
        pytest.param(range(100_000), id="ints"),
        pytest.param(range(0, 2**50 * 1_000, 2**50), id="round ints"),
        pytest.param([-1, -2, 0, 1, P, 2 * P], id="a few equal hashes"),
        pytest.param([UUID(int=k * 31) for k in range(60_000)], id="uuids"),
        pytest.param([Decimal(k).scaleb(-2) for k in range(30_000)], id="decimals"),
        pytest.param([f"word {k}" for k in range(100_000)], id="texts"),
        pytest.param(list(itertools.product((-2, -1, 0, 1), repeat=4)), id="coordinates"),
        pytest.param([frozenset({-1 - k % 2, k}) for k in range(3_000)], id="edges"),
        pytest.param([UUID(int=k) for k in range(99)] + list(range(99)), id="ids and numbers"),
    ],
)
def test_sets_as_people_have_them_are_stored(members: Any) -> None:
    value = {"a": set(members)}
    assert decode_value(encode_value(value)) == value
    assert from_jsonable(jsonable(value)) == value


# --- MessagePack of other libraries, JSON ---------------------------------------------------------


def test_maps_of_other_libraries_with_colliding_keys_are_not_read() -> None:
    one = [P, 2 * P, 3 * P, 4 * P, 5 * P, 6 * P, 7 * P]
    keys = list(itertools.islice(itertools.product(one, repeat=4), 2_000))
    dense = Packed(
        "msgpack",
        ormsgpack.packb({key: 1 for key in keys[:400]}, option=ormsgpack.OPT_NON_STR_KEYS),
    )
    assert plain_tree(dense) is dense
    usual = {(str(k), k): "text" for k in range(500)} | {k: [1, 2] for k in range(500)}
    read = plain_tree(Packed("msgpack", ormsgpack.packb(usual, option=ormsgpack.OPT_NON_STR_KEYS)))
    assert len(read) == 1_000
    empty = Packed("msgpack", bomb({}, 10 * MB))
    assert plain_tree(empty) is empty


@pytest.mark.parametrize(
    "element",
    ["{}", "[]", '{"a":1}', "[[]]", "1", '"a"', '{"~s":[]}', '{"~s":[1,2,3,4,5]}', '{"~t":[]}'],
)
def test_json_takes_bounded_memory(element: str, lowered: int) -> None:
    for number in (200, 2_000, 6_000, 12_000, 80_000):
        document = ("[" + ",".join([element] * number) + "]").encode()

        def work(document: bytes = document) -> Any:
            try:
                return from_jsonable(bounds.parse_json(document))
            except bounds.Oversized:
                return None

        assert peak(work) <= len(document) + lowered, number
    assert from_jsonable(bounds.parse_json(b"[" + element.encode() + b"]"))


def test_json_within_a_text_is_not_read_into_more_memory() -> None:
    text = "[" + "{}," * (4 * MB) + "{}]"
    with pytest.raises(bounds.Oversized):
        bounds.parse_plain_json(text)
    assert bounds.parse_json(json.dumps(text)) == text


async def test_a_search_index_survives_a_text_of_such_json(db: Database) -> None:
    store, log = Store(db), ThreadLog(db)
    text = '["needle",' + "{}," * MB + "{}]"
    await store.put(("a",), "k", {"text": text})
    await log.append("t", [{"text": text}])
    assert (await store.get(("a",), "k"))["text"] == text
    assert [hit.key for hit in await store.search(("a",), "needle")] == ["k"]


# --- What rows and requests hold beside values ----------------------------------------------------

DOCUMENTS: dict[str, Callable[[int], str]] = {
    "maps": lambda number: "{}," * number,
    "lists": lambda number: "[]," * number,
    "maps in lists": lambda number: "[{}]," * number,
    "numbers": lambda number: "1.5," * number,
    "texts": lambda number: '"a",' * number,
}


def jsonb(document: str) -> bytes:
    """Return a list of empty maps, or of what else is named, as SQLite's JSONB has it."""
    one = {
        "{}": b"\x0c",
        "[]": b"\x0b",
        "[{}]": b"\x1b\x0c",
        "1.5": b"\x351.5",
        '"a"': b"\x17a",
    }
    element, number = document[: document.index(",")], document.count(",")
    content = one[element] * number
    return b"\xfb" + len(content).to_bytes(8, "big") + content


ROADS: dict[str, Callable[[str], Any]] = {
    "metadata as text": lambda listed: bounds.parse_metadata('{"a":[' + listed + "0]}"),
    "metadata as bytes": lambda listed: bounds.parse_metadata(('{"a":[' + listed + "0]}").encode()),
    "a cursor": lambda listed: decode_cursor(
        "x", base64.urlsafe_b64encode(f'["x",[{listed}0]]'.encode()).decode(), [object]
    ),
    "the arguments of a tool": lambda listed: ToolCall(
        name="f", arguments='{"a":[' + listed + "0]}"
    ),
    "JSONB": lambda listed: decode_jsonb(jsonb(listed)),
}


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("road", ROADS)
def test_every_road_of_json_takes_bounded_memory(road: str, name: str, lowered: int) -> None:
    for number in (100, 2_000, 20_000, 100_000):
        listed = DOCUMENTS[name](number)

        def work(listed: str = listed) -> None:
            with suppress(ValueError):
                ROADS[road](listed)

        assert peak(work) <= bounds.EXPANSION * len(listed) + lowered, number
    assert ROADS[road](DOCUMENTS[name](3))


def test_a_map_of_jsonb_has_no_other_names_than_texts() -> None:
    with pytest.raises(ValueError, match="JSONB"):
        decode_jsonb(b"\x4c\x131\x131")


@pytest.mark.parametrize("document", ['{"a": 1} x', '{"a": 1', "", "[" * 100_000])
def test_metadata_that_is_no_json_is_not_read(document: str) -> None:
    for spelt in (document, document.encode()):
        with pytest.raises((ValueError, RecursionError)):
            bounds.parse_metadata(spelt)
    assert bounds.parse_metadata(' {"a": 1} ') == {"a": 1}


# --- Extensions of MessagePack, as LangGraph writes them ------------------------------------------


def extension(module: str, name: str, content: Any, code: int = 0) -> ormsgpack.Ext:
    return ormsgpack.Ext(code, ormsgpack.packb([module, name, content]))


def _uuids() -> list[Any]:
    return [extension("uuid", "UUID", UUID(int=P * (k + 1)).hex) for k in range(2_000)]


EXTENSION_BOMBS: dict[str, Callable[[], Any]] = {
    "a set of uuids": lambda: extension("builtins", "set", _uuids()),
    "a frozenset of uuids": lambda: extension("builtins", "frozenset", _uuids()),
    "a set of decimals": lambda: extension(
        "builtins",
        "set",
        [extension("decimal", "Decimal", str(P * (k + 1))) for k in range(2_000)],
    ),
    "a set of networks": lambda: extension(
        "builtins",
        "set",
        [
            extension("ipaddress", "IPv6Network", str(IPv6Network((P * k, 128))))
            for k in range(1, 2_000)
        ],
    ),
    "a set of objects": lambda: extension(
        "builtins",
        "set",
        [extension("host", "Place", {"x": one, "y": 1}, 2) for one in _uuids()],
    ),
    "a set in an object": lambda: extension(
        "host", "State", {"seen": extension("builtins", "set", _uuids())}, 5
    ),
    "maps in an object": lambda: extension("host", "State", {"a": [{}] * 1_000_000}, 5),
    "sets": lambda: [extension("builtins", "set", [0])] * 200_000,
    "objects": lambda: [extension("a", "b", {}, 5)] * 400_000,
    "objects in each other": lambda: _nested(200, b"\x90" * 500_000),
    "long patterns": lambda: extension("re", "compile", ["a" * 2_000_000, 0], 1),
}


def _nested(depth: int, content: bytes) -> ormsgpack.Ext:
    found = ormsgpack.Ext(5, content)
    for _ in range(depth):
        found = extension("host", "State", found, 5)
    return found


@pytest.mark.parametrize("name", EXTENSION_BOMBS)
def test_what_is_in_an_extension_is_counted_with_its_value(name: str) -> None:
    encoded = ormsgpack.packb({"a": EXTENSION_BOMBS[name]()})
    made: list[int] = []

    with pytest.raises((bounds.Oversized, bounds.Colliding)):
        bounds.unpack_foreign(encoded, lambda code, content: made.append(code))
    with pytest.raises((bounds.Oversized, bounds.Colliding)):
        bounds.check_foreign(encoded)
    assert plain_tree(packed := Packed("msgpack", encoded)) is packed


def test_extensions_as_people_have_them_are_read() -> None:
    many = [extension("uuid", "UUID", UUID(int=k * 31).hex) for k in range(5_000)]
    value = {
        "seen": extension("builtins", "set", many),
        "texts": extension("builtins", "frozenset", [f"word {k}" for k in range(5_000)]),
        "unhashable": extension("builtins", "set", [[1], {"a": 1}]),
        "messages": [
            extension("m", "HumanMessage", {"content": "שלום, good day " * 20}, 5)
            for _ in range(3_000)
        ],
        "nested": _nested(9, ormsgpack.packb("x" * 100_000)),
        "pattern": extension("re", "compile", ["a+", 0], 1),
    }
    encoded = ormsgpack.packb(value)
    bounds.check_foreign(encoded)
    assert len(bounds.unpack_foreign(encoded, lambda code, content: code)["messages"]) == 3_000


# --- What the first bytes tell -------------------------------------------------------------------

PLAIN_LEAVES = st.sampled_from(
    ["", "a", "é", "😀", "x" * 40, "é" * 20, 0, 5, 200, 70_000, 2**40, -1, 1.5, None, True, b"", []]
)
PLAIN_TREES = st.recursive(
    PLAIN_LEAVES | st.just({}),
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.integers(0, 40).map(lambda n: {str(i): "" for i in range(n)})
        | st.dictionaries(st.text(max_size=3), inner, max_size=20)
    ),
    max_leaves=40,
)


@given(PLAIN_TREES, st.floats(0, 1))
def test_what_is_assumed_of_a_value_without_reading_it_is_no_less_than_it_takes(
    tree: Any, share: float
) -> None:
    encoded = ormsgpack.packb(tree)
    cut = int(len(encoded) * share)
    unseen = (len(encoded) - cut) * bounds._rates_of(encoded).either
    assumed = bounds._most_memory(encoded[:cut]) + unseen
    taken = bounds._decoded_memory(encoded, 10**12)
    assert taken <= assumed
    assert taken <= bounds._most_memory_by_heads(encoded)
