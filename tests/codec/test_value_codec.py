"""Values load back equal and of the same types, or are refused by name."""

from __future__ import annotations

import collections
import enum
import json
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import hashed_states, keys, spelled, tried
from states import states as any_states
from states import values as any_values

from memalchemy.codec import values
from memalchemy.codec.values import (
    decode_state,
    decode_value,
    encode_state,
    from_jsonable,
    jsonable,
)
from memalchemy.errors import Corrupt, NotSerialisable, TooLarge


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Mood(enum.StrEnum):
    GOOD = "good"


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Later(datetime):
    pass


class Pair(NamedTuple):
    a: int
    b: int


@dataclass
class Point:
    x: int = 1


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of numpy 2.5
    UNITLESS = np.timedelta64(1)

STRANGERS: list[Any] = [
    Colour.RED,
    Level.HIGH,
    Mood.GOOD,
    Text("t"),
    Number(1),
    Later(2020, 1, 1),
    Pair(1, 2),
    Point(),
    collections.OrderedDict(a=1),
    collections.defaultdict(list),
    collections.deque([1]),
    object(),
    Point,
    len,
    1j,
    np.str_("t"),
    np.longdouble(1),
    np.array([1]),
    UNITLESS,
    time(12),
    bytearray(b"x"),
    memoryview(b"x"),
    range(3),
    ormsgpack.Ext(1, b"x"),
    iter([]),
    ...,
]


def loaded(state: dict[str, Any]) -> dict[str, Any]:
    return decode_state(encode_state(state))


def refusal(state: dict[Any, Any]) -> NotSerialisable:
    with pytest.raises(NotSerialisable) as caught:
        encode_state(state)
    return caught.value


@tried(250)
@given(any_states)
def test_any_state_loads_back_equal_and_of_the_same_types(state: dict[str, Any]) -> None:
    assert spelled(loaded(state)) == spelled(state)


@tried(80)
@given(any_states)
def test_encoding_what_was_loaded_gives_the_same_bytes(state: dict[str, Any]) -> None:
    parts = encode_state(state)
    again = encode_state(decode_state(parts))
    assert list(again.items()) == list(parts.items())


@tried(50)
@given(any_states)
def test_any_state_loads_back_from_json_equal_and_of_the_same_types(state: dict[str, Any]) -> None:
    text = json.dumps(jsonable(state), allow_nan=False)

    assert spelled(from_jsonable(json.loads(text))) == spelled(state)


@pytest.mark.parametrize(
    "tree", [{"~z": 1}, {"~b": "?"}, {"~b": 1}, {"~n": "x"}, {"~s": [[]]}, {"~dt": "soon"},
             {"~x": "gA=="}, {"~o": [1]}, [{"a": {"~i": 7}}], {"~t": 1}],
)  # fmt: skip
def test_json_with_a_tag_that_says_nothing_is_refused(tree: Any) -> None:
    with pytest.raises(ValueError, match="a tag that cannot be read"):
        from_jsonable(tree)


@given(any_states)
def test_encoding_leaves_the_state_as_it_was(state: dict[str, Any]) -> None:
    before = spelled(state)
    encode_state(state)
    assert spelled(state) == before


@tried(50)
@given(st.lists(st.text("abcdefgh", max_size=2), unique=True))
def test_sets_filled_in_another_order_encode_to_the_same_bytes(words: list[str]) -> None:
    upwards, downwards = set(words), set(reversed(words))
    assert encode_state({"s": upwards}) == encode_state({"s": downwards})


def test_every_load_builds_new_objects() -> None:
    parts = encode_state({"a": [1], "b": {2}})
    first, second = decode_state(parts), decode_state(parts)
    first["a"].append(3)
    first["b"].add(4)
    assert second == {"a": [1], "b": {2}}


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 10, 25, 2, 30, fold=1),
        datetime.fromisoformat("2026-10-25T02:30:00+01:00").replace(fold=1),
    ],
    ids=["naive", "aware"],
)
def test_the_second_of_two_repeated_hours_stays_the_second(moment: datetime) -> None:
    assert loaded({"t": moment})["t"].fold == 1
    assert loaded({"t": moment}) == {"t": moment}


@pytest.mark.parametrize("fold", [0, 1])
def test_a_time_keeps_the_name_of_its_zone(fold: int) -> None:
    moment = datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=ZoneInfo("Europe/Oslo"))
    found = loaded({"t": moment})["t"]
    assert found == moment
    assert found + timedelta(days=180) == moment + timedelta(days=180)
    assert (found.tzinfo, found.fold) == (moment.tzinfo, fold)


@pytest.mark.parametrize(
    "zone",
    [
        "Nowhere/None",
        "../../etc/passwd",
        "/etc/passwd",
        "America",
        "",
        "a\0b",
        "\ud800",
        "Asia/Tokyo",
    ],
)
def test_a_time_of_a_zone_that_is_unknown_or_has_changed_keeps_its_offset(zone: str) -> None:
    stored = {"~dt": ["2026-10-25T02:30:00", 0, 7_200_000_000, zone]}
    assert from_jsonable(stored) == datetime.fromisoformat("2026-10-25T02:30:00+02:00")


@pytest.mark.parametrize("microseconds", [1, -1, 999_999, -999_999])
def test_an_offset_of_less_than_a_second_is_kept(microseconds: int) -> None:
    """`datetime.fromisoformat` reads such an offset as none."""
    moment = datetime(2026, 1, 1, tzinfo=timezone(timedelta(microseconds=microseconds)))
    assert spelled(loaded({"t": moment})) == spelled({"t": moment})


def test_a_dict_that_looks_like_a_tag_is_a_dict() -> None:
    lookalikes = [{tag: ["x"]} for tag in values._UNTAG]
    assert loaded({"plain": lookalikes}) == {"plain": lookalikes}
    assert loaded({"tagged": (lookalikes,)}) == {"tagged": (lookalikes,)}


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda value: type(value).__name__)
@tried(5)
@given(state=any_states, path=st.lists(st.one_of(keys, st.integers(0, 3)), max_size=4), top=keys)
def test_anything_else_is_refused_with_a_pointer_to_it(
    stranger: Any, state: dict[str, Any], path: list[str | int], top: str
) -> None:
    planted = stranger
    for step in reversed(path):
        if isinstance(step, str):
            planted = {step: planted}
        else:
            planted = [None] * step + [planted]
    error = refusal(state | {top: planted})
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in [top, *path]]
    assert error.path == "".join(f"/{step}" for step in steps)


BYTES = b"as bytes"
SCRIPTS = ["", "Ąćęłńóśźż ĀāĒē Ə", "Խոսք עברית العربية", "Ԁ" * 5000, "naïve", "漢字"]
"""In UTF-8, letters of some begin with the byte that marks bytes in MessagePack."""


@pytest.mark.parametrize(
    "stranger",
    [bytearray(), bytearray(BYTES), memoryview(BYTES), memoryview(BYTES)[::2], bytearray(70_000)],
    ids=["none", "few", "view", "strided", "many"],
)
@pytest.mark.parametrize("text", SCRIPTS, ids=ascii)
def test_bytes_that_could_change_are_refused_among_any_text_and_other_bytes(
    stranger: Any, text: str
) -> None:
    beside = [text, {text + "k": [BYTES, text]}, 1.5]
    value: Any = [*beside, {"deep": [*beside, {"er": [stranger]}]}, *beside]
    assert refusal({"before": beside, "v": value}).path == "/v/3/deep/3/er/0"
    assert refusal({"v": {"k": stranger, "bytes": BYTES}}).path == "/v/k"
    without = {"v": [*beside, {"deep": [*beside, {"er": [BYTES]}]}]}
    assert spelled(loaded(without)) == spelled(without)


@pytest.mark.parametrize(
    "extension", [ormsgpack.Ext(5, b"x" * size) for size in (0, 1, 2, 4, 8, 16, 17, 300, 70_000)]
)
def test_an_extension_of_any_width_is_refused(extension: Any) -> None:
    """The encoder would write it, and nobody could read it."""
    assert refusal({"v": [{"k": extension}]}).path == "/v/0/k"


@tried(150)
@given(any_values, st.integers(0, 3))
def test_a_plain_value_takes_the_fast_path_and_others_do_not_come_back_changed(
    value: Any, depth: int
) -> None:
    for _ in range(depth):
        value = [value, {"k": value}]
    parts, left, _ = values.encode_plain({"v": value})
    assert (left == ["v"]) != (parts["v"] != b"")
    if not left:
        assert spelled(decode_value(parts["v"])) == spelled(value)


@pytest.mark.parametrize(
    "value",
    [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324, 1e308, 0.1, 1.0, b"", b"\xc4"],
    ids=repr,
)
def test_floats_and_bytes_need_no_tag(value: Any) -> None:
    _, left, _ = values.encode_plain({"v": [value, {"k": value}]})
    assert left == []
    assert spelled(loaded({"v": [value]})) == spelled({"v": [value]})


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("bits", [0, 5, 7, 8, 15, 16, 31, 32, 63, 64, 65, 2000])
def test_integers_round_every_width_load_back(bits: int, sign: int) -> None:
    numbers = [sign * 2**bits + near for near in (-1, 0, 1)]
    assert spelled(loaded({"n": numbers})) == spelled({"n": numbers})


@pytest.mark.parametrize("size", [15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_values_of_every_width_load_back(size: int) -> None:
    state = {
        "text": "x" * size,
        "wide": "é" * size,
        "surrogates": "\ud800" * size,
        "bytes": b"x" * size,
        "list": [None] * size,
        "tuple": (None,) * size,
        "dict": {f"{i:x}": None for i in range(size)},
        "tagged": {f"~{i:x}": None for i in range(size)},
        "set": set(range(size)),
    }
    assert spelled(loaded(state)) == spelled(state)


def test_a_dict_keeps_its_order_at_every_level() -> None:
    orders = [{"b": {"y": 1, "x": 2}, "a": 3}, {"a": 3, "b": {"x": 2, "y": 1}}]
    assert encode_state(orders[0]) != encode_state(orders[1])
    for state in orders:
        assert spelled(loaded(state)) == spelled(state)
        assert spelled(loaded({"v": state})) == spelled({"v": state})


@pytest.mark.parametrize(
    ("state", "path"),
    [
        ({1: "x"}, ""),
        ({Text("k"): "x"}, ""),
        ({Mood.GOOD: "x"}, ""),
        ({"a": {1: "x"}}, "/a"),
        ({"a": [{"b": {None: "x"}}]}, "/a/0/b"),
        ({"a": [{"b": {Text("t"): "x"}}]}, "/a/0/b"),
        ({"a": [{"b": {Mood.GOOD: "x"}}]}, "/a/0/b"),
        ({"a": ({"~": {(1,): "x"}},)}, "/a/0/~0"),
        ({"a/b": {"~": [object()]}}, "/a~1b/~0/0"),
        ({"a": {1, Level.HIGH}}, "/a/*"),
        ({"a": {"b": (frozenset({(1, Text("t"))}),)}}, "/a/b/0/*/1"),
    ],
)
def test_a_refusal_names_the_place(state: dict[Any, Any], path: str) -> None:
    assert refusal(state).path == path


def test_a_refusal_does_not_repeat_the_value() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "hunter2"

    assert "hunter2" not in str(refusal({"a": Secret()}))


def test_a_cycle_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert refusal({"ok": 1, "ring": ring}).path.startswith("/ring/0/0/")
    loop: dict[str, Any] = {"t": ()}
    loop["self"] = loop
    assert refusal({"loop": loop}).path.startswith("/loop/self/self/")
    knot: list[Any] = []
    knot.append((knot,))
    assert refusal({"knot": knot}).path.startswith("/knot/")


NESTS = {
    "list": lambda inner: [inner],
    "tuple": lambda inner: (inner,),
    "dict": lambda inner: {"k": inner},
    "awkward dict": lambda inner: {"~": inner},
    "frozenset": lambda inner: frozenset([inner]),
    "tuples in a set": lambda inner: (inner,),
}


@pytest.mark.parametrize("nest", NESTS)
def test_nesting_of_any_depth_loads_back_or_is_refused(nest: str) -> None:
    """Where the bound lies differs by type, and that there is one for each is the point."""
    value: Any = "core"
    depths: dict[int, bool] = {}
    for depth in range(1, 300):
        value = NESTS[nest](value)
        whole = {value} if nest == "tuples in a set" else value
        try:
            parts = encode_state({"a": whole})
        except NotSerialisable as error:
            depths[depth] = not error.path.startswith("/a")
        else:
            assert spelled(decode_state(parts)) == spelled({"a": whole})
            depths[depth] = True
    taken = [depth for depth, was_taken in depths.items() if was_taken]
    assert taken == list(range(1, len(taken) + 1)), "a deeper one was taken than one refused"
    assert 60 <= len(taken) < 299


@pytest.mark.parametrize("nest", ["list", "dict"])
def test_plain_values_may_nest_as_deep_as_stated(nest: str) -> None:
    value: Any = "core"
    for _ in range(values.MAX_DEPTH):
        value = NESTS[nest](value)
    assert spelled(loaded({"a": value})) == spelled({"a": value})


def test_a_state_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MAX_STATE_BYTES", 1000)
    with pytest.raises(TooLarge) as caught:
        encode_state({"a": "x" * 600, "b": "x" * 600})
    assert (caught.value.size, caught.value.limit) == (1208, 1000)


def test_a_fallback_simplifies_only_what_the_codec_does_not_know() -> None:
    def name(value: Any) -> Any:
        if isinstance(value, enum.Enum):
            return value.value
        raise TypeError

    state = {"a": [Colour.RED, (Level.HIGH,)], "b": Decimal("1.0")}
    parts = encode_state(state, name)
    assert spelled(decode_state(parts)) == spelled({"a": ["red", (3,)], "b": Decimal("1.0")})
    with pytest.raises(NotSerialisable, match="Point"):
        encode_state({"p": Point()}, name)


def test_a_fallback_that_never_ends_is_refused() -> None:
    with pytest.raises(NotSerialisable):
        encode_state({"p": Point()}, lambda value: value)


_PRINT_ENCODINGS = """
import hashlib
from memalchemy.codec.values import encode_state
from states import hashed_states
whole = hashlib.sha256()
for state in hashed_states(7):
    for key, part in encode_state(state).items():
        whole.update(part)
print(whole.hexdigest(), hash("seed"))
"""


def test_equal_states_encode_to_equal_bytes_whatever_the_hash_seed() -> None:
    printed = []
    for seed in ("0", "1", "2", "4294967295"):
        done = subprocess.run(
            [sys.executable, "-c", _PRINT_ENCODINGS],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.append(done.stdout.split())
    digests, hashes = zip(*printed, strict=True)
    assert len(set(hashes)) == 4, "the processes hash alike, so this proves nothing"
    assert len(set(digests)) == 1


def test_the_states_of_that_comparison_load_back_equal() -> None:
    for state in hashed_states(7):
        assert spelled(loaded(state)) == spelled(state)


tags = st.one_of(st.sampled_from(sorted(values._UNTAG)), st.just("~none"), st.text(max_size=2))
almost_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.sampled_from(["2020-01-01", "AAAA", "nan", "0x1", "7tig", "2020-13-01T00:00"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(tags, inner, max_size=2),
        st.builds(lambda tag, content: {tag: content}, tags, inner),
    ),
    max_leaves=6,
)


def expect_a_value_or_corrupt(stored: bytes) -> None:
    """What is read of any bytes is a value that can be stored, or `Corrupt`, and nothing else."""
    try:
        value = decode_value(stored)
    except Corrupt:
        return
    (encoded,) = encode_state({"v": value}).values()
    assert repr(decode_value(encoded)) == repr(value)


@tried(150)
@given(almost_values)
def test_a_stored_value_that_makes_no_sense_is_corrupt(tree: Any) -> None:
    expect_a_value_or_corrupt(values.TAGGED + ormsgpack.packb(tree))


@pytest.mark.parametrize("tag", sorted(values._UNTAG))
@pytest.mark.parametrize("content", [None, 5, 1.5, "zz", [], [1], {}, [[1]], [["a", 1, 2]]])
def test_a_tag_with_the_wrong_content_raises_nothing_but_corrupt(tag: str, content: Any) -> None:
    expect_a_value_or_corrupt(values.TAGGED + ormsgpack.packb({tag: content}))


@tried(120)
@given(st.binary(max_size=60), st.booleans())
def test_random_bytes_decode_to_a_value_or_are_corrupt(data: bytes, tagged: bool) -> None:
    expect_a_value_or_corrupt(values.TAGGED * tagged + data)


@pytest.mark.parametrize("depth", [300, 900, 1020, 100_000])
@pytest.mark.parametrize("prefix", [b"", values.TAGGED])
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa2~t\x91"])
def test_stored_bytes_that_nest_too_deep_are_corrupt(
    depth: int, prefix: bytes, opening: bytes
) -> None:
    try:
        value = decode_value(prefix + opening * depth + b"\x90")
    except Corrupt:
        return
    assert isinstance(value, list | tuple | dict)


@tried(30)
@given(any_values)
def test_a_truncated_value_is_corrupt(value: Any) -> None:
    (encoded,) = encode_state({"v": value}).values()
    for end in range(len(encoded)):
        with pytest.raises(Corrupt):
            decode_value(encoded[:end])
