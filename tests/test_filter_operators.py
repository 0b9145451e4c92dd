"""Filters mean what they say: sentences for each operator, and an oracle of another make.

The oracle reads the filter as it was given, writes an item out as all its paths and what stands at
each, and compares pair by pair.
"""

from __future__ import annotations

import enum
import math
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal, FloatOperation, localcontext
from fractions import Fraction
from types import MappingProxyType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from memalchemy.codec.field_terms import MAX_PREFIXES, OTHERS, FieldTerms, field_terms
from memalchemy.filters import MAX_DEPTH, MAX_PARTS, OPERATORS, Filter

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def matches(filter: Mapping[str, Any] | None, value: Any = None, **metadata: Any) -> bool:
    parsed = Filter.parse(filter)
    return parsed is None or parsed.matches(value, metadata)


def holds(found: Any, operators: Any) -> bool:
    """Whether ``{"a": operators}`` matches an item whose ``a`` is *found*, wherever it stands."""
    answers = {matches({"a": operators}, {"a": found}), matches({"a": operators}, None, a=found)}
    assert len(answers) == 1
    return answers.pop()


# The oracle


def paths(tree: Any, so_far: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Everything in *tree* by the keys that lead there."""
    found = {so_far: tree}
    if isinstance(tree, dict):
        for key, item in tree.items():
            found |= paths(item, (*so_far, key))
    elif isinstance(tree, (list, tuple)):
        for index, item in enumerate(tree):
            found |= paths(item, (*so_far, str(index)))
    return found


def same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (set, frozenset)) and isinstance(b, (set, frozenset)):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    return order(a, b) == 0 or (type(a) is type(b) and type(a) in (bytes, UUID) and a == b)


def order(a: Any, b: Any) -> int | None:
    """-1, 0 or 1; ``None`` where neither is less. What only equals is 0 or ``None``."""
    numbers = (int, float, Decimal)
    if type(a) in numbers and type(b) in numbers:
        if "nan" in f"{a!r}{b!r}".lower():
            return None
        x, y = (n if "inf" in repr(n).lower() else Fraction(n) for n in (a, b))
        return (x > y) - (x < y)
    if type(a) is not type(b):
        return None
    if type(a) is datetime and (a.tzinfo is None or b.tzinfo is None):
        return 0 if (a.tzinfo is b.tzinfo and a == b) else None
    if type(a) in (str, date, datetime):
        return (a > b) - (a < b)
    return 0 if a is b and (a is None or isinstance(a, bool)) else None


def said(filter: Any, value: Any, metadata: Any, where: str = "both") -> bool:
    """What the oracle says of an item."""
    answers = []
    for name, content in filter.items():
        if name == "$and":
            answers.append(False not in [said(one, value, metadata, where) for one in content])
        elif name == "$or":
            answers.append(True in [said(one, value, metadata, where) for one in content])
        elif name == "$not":
            answers.append(not said(content, value, metadata, where))
        elif name in ("$value", "$metadata"):
            answers.append(said(content, value, metadata, name[1:]))
        else:
            answers.append(said_of(candidates(name, value, metadata, where), content))
    return False not in answers


def candidates(name: str, value: Any, metadata: Any, where: str) -> list[Any]:
    """What the field is: one thing, or nothing."""
    documents = {"both": [value, metadata], "value": [value], "metadata": [metadata]}[where]
    way = (name,)
    if name.startswith("/"):
        way = tuple(step.replace("~1", "/").replace("~0", "~") for step in name.split("/")[1:])
    else:
        documents = [document for document in documents if isinstance(document, dict)]
    return [paths(document)[way] for document in documents if way in paths(document)][:1]


def said_of(found: list[Any], content: Any) -> bool:
    if not (isinstance(content, dict) and any(key.startswith("$") for key in content)):
        return any(same(one, content) for one in found)
    signs = {"$gt": {1}, "$gte": {0, 1}, "$lt": {-1}, "$lte": {-1, 0}}
    for name, operand in content.items():
        if name in signs:
            answer = any(order(one, operand) in signs[name] for one in found)
        elif name == "$exists":
            answer = bool(found) == operand
        elif name == "$not":
            answer = not said_of(found, operand)
        else:
            operands = operand if name in ("$in", "$nin") else [operand]
            among = any(same(one, other) for one in found for other in operands)
            answer = among if name in ("$eq", "$in") else not among
        if not answer:
            return False
    return True


# What the oracle is asked about: few keys and few scalars, so that things meet

KEYS = ["a", "b", "", "0", "1", "$a", "$eq", "/", "~", "a/b", "a.b", "'\"", "\ud800", "\x00"]
keys = st.one_of(st.sampled_from(KEYS[:2]), st.sampled_from(KEYS))
NUMBERS = [0, 1, 1.0, -0.0, Decimal("1.00"), 0.1, Decimal("0.1"), 2**53 + 1, 2.0**53, math.inf]
TEXTS = ["", "a", "b", "ab", "1", "é", "\U0001f600", "\uffff", "\ud800"]
MOMENTS = [NOON, NOON.astimezone(timezone(timedelta(hours=2))), NOON + timedelta(seconds=1)]
ordered = st.sampled_from([*NUMBERS, 10**400, *TEXTS, *MOMENTS, date(2024, 5, 1)])
scalars = st.one_of(
    ordered,
    st.booleans(),
    st.none(),
    st.sampled_from([math.nan, Decimal("NaN"), b"", b"a", UUID(int=1), datetime(2024, 5, 1, 12)]),
)
sets = st.frozensets(st.one_of(scalars, st.tuples(scalars)), max_size=2)
trees = st.recursive(
    st.one_of(scalars, sets, sets.map(set)),
    lambda inner: st.one_of(
        st.dictionaries(keys, inner, max_size=3),
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(tuple),
    ),
    max_leaves=6,
)


@st.composite
def short(draw: st.DrawFn, strategy: Callable[[], st.SearchStrategy[Any]]) -> Any:
    """A strategy that hypothesis does not spell out, wherever it stands: it would fill pages."""
    return draw(strategy())


documents = short(lambda: trees)
mappings = st.dictionaries(keys, documents, max_size=4)
values = st.one_of(mappings, mappings, documents)
fields = st.one_of(
    keys.filter(lambda key: not key.startswith(("$", "/"))),
    st.lists(keys, min_size=1, max_size=3).map(
        lambda way: "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in way)
    ),
)
several = st.lists(documents, max_size=3)


def some(**of: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these operators, each with one of its operands."""
    optional = {f"${name}": operands for name, operands in of.items()}
    return st.fixed_dictionaries({}, optional=optional).filter(bool)


one_operator = st.one_of(
    some(eq=documents, ne=documents),
    some(gt=ordered, lt=ordered),
    some(gte=ordered, lte=ordered),
    some(**{"in": several, "nin": several}),
    some(**{"in": sets, "exists": st.booleans()}),
)
negated = some(**{"not": one_operator, "exists": st.booleans()})


any_operators = st.one_of(one_operator, one_operator, negated)
operators = short(lambda: any_operators)
plain = documents.filter(
    lambda tree: not (isinstance(tree, dict) and any(key.startswith("$") for key in tree))
)
conditions = st.dictionaries(fields, st.one_of(plain, operators), min_size=1, max_size=2)


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(inner, some(**{"and": several, "or": several, "not": inner}))


any_unplaced = combined(short(lambda: conditions))
unplaced = short(lambda: any_unplaced)
placed = some(value=unplaced, metadata=unplaced)
any_filter = combined(st.one_of(unplaced, placed, st.builds(dict.__or__, placed, unplaced)))
filters = short(lambda: any_filter)


many = settings(
    max_examples=examples(600),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_a_filter_matches_what_the_oracle_says() -> None:
    answers: Counter[bool] = Counter()

    @many
    @given(filters, values, mappings)
    def check(filter: Any, value: Any, metadata: Any) -> None:
        answer = matches(filter, value, **metadata)
        assert answer == said(filter, value, metadata)
        answers[answer] += 1

    check()
    assert min(answers[True], answers[False]) > examples(40), "the examples say too little"


def test_what_is_asked_of_a_field_is_what_the_oracle_says() -> None:
    answers: Counter[bool] = Counter()

    @many
    @given(operators, documents)
    def check(operators: Any, found: Any) -> None:
        answer = holds(found, operators)
        assert answer == said({"a": operators}, {"a": found}, {})
        answers[answer] += 1

    check()
    assert min(answers[True], answers[False]) > examples(40), "the examples say too little"


@many
@given(documents, documents)
def test_equality_is_the_oracles_and_the_same_from_both_sides(one: Any, other: Any) -> None:
    assert holds(one, {"$eq": other}) == holds(other, {"$eq": one}) == same(one, other)


few = st.dictionaries(
    st.sampled_from("ab"), st.sampled_from([1, True, "1"]), min_size=1, max_size=2
)
asked = st.one_of(few, few.map(lambda some: {f"/{key}": {"$ne": some[key]} for key in some}))
about_metadata = combined(st.builds(lambda inner: {"$metadata": inner}, combined(asked)))


def test_every_match_has_a_word_of_each_equality() -> None:
    narrowed: Counter[bool] = Counter()

    @settings(many, max_examples=examples(500))
    @given(combined(asked), st.one_of(few, documents), few, st.sets(st.sampled_from(["/a", "/c"])))
    def check(filter: Any, value: Any, metadata: Any, named: Any) -> None:
        parsed = Filter.parse(filter)
        if parsed is None or not parsed.matches(value, metadata):
            return
        there = set((field_terms(value, metadata, named) or "").split())
        for pointer, values in parsed.equalities():
            assert may_have(there, FieldTerms.of(pointer, values))
        narrowed[bool(parsed.equalities())] += 1

    check()
    assert narrowed[True] > examples(20), "the examples say too little"


def may_have(words: set[str], wanted: FieldTerms) -> bool:
    """Whether an index finds an item of these words for what is wanted."""
    if OTHERS in words and wanted.mark not in words:
        return True
    return any(word in wanted.words or word.startswith(wanted.prefixes) for word in words)


numbers = st.one_of(st.integers(), st.integers(-20, 20), st.floats(), st.decimals(allow_nan=False))
instants = st.datetimes(timezones=st.timezones())
times_as_text = st.text(st.sampled_from("0129-T:"), max_size=19)
mixed = st.one_of(numbers, st.text(), times_as_text, st.dates(), instants)


def test_every_match_has_a_word_in_each_range() -> None:
    narrowed: Counter[tuple[bool, bool]] = Counter()

    @settings(many, max_examples=examples(1000))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from([numbers, times_as_text, instants, mixed]))
        found = data.draw(kind)
        operators = data.draw(
            st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), kind, min_size=1)
        )
        try:
            parsed = Filter.parse({"a": operators})
        except ValueError:  # NaN
            return
        assert parsed is not None
        [(pointer, low, high)] = parsed.ranges()
        there = set((field_terms({"a": found}, {}) or "").split())
        may = may_have(there, FieldTerms.between(pointer, low, high))
        matches = parsed.matches({"a": found}, {})
        assert may or not matches
        narrowed[matches, may] += 1

    check()
    assert min(narrowed[True, True], narrowed[False, False]) > examples(50), (
        "the examples say too little"
    )


@pytest.mark.parametrize(
    ("found", "low", "high"),
    [
        (7, 8, None),
        (7, None, 6.5),
        (-0.5, 0, None),
        (10**400, None, 10**300),
        (1_700_000_000, 1_700_000_001, 1_800_000_000),
        ("2026-11-24", "2026-11-25", "2026-11-26"),
        ("2026-11-24T09:00", None, "2026-11-23T23:59"),
        ("b", "ba", None),
        (NOON, NOON + timedelta(microseconds=1), None),
        (date(2024, 5, 1), None, date(2024, 4, 30)),
        (7, "", None),
        (True, 0, 2),
        ("7", 6, 8),
    ],
)
def test_the_words_of_a_range_pass_over_what_is_outside(found: Any, low: Any, high: Any) -> None:
    wanted = FieldTerms.between("/a", low, high)
    there = set((field_terms({"a": found}, {}) or "").split())

    assert len(wanted.prefixes) <= MAX_PREFIXES
    assert not may_have(there, wanted)


@pytest.mark.parametrize(
    ("filter", "ranges"),
    [
        ({"n": {"$gte": 1, "$lt": 2}}, [("/n", 1, 2)]),
        ({"n": {"$gt": 1, "$gte": 0}}, [("/n", 1, None)]),
        ({"n": {"$lte": "z"}, "/a/b": {"$gt": 3}}, [("/n", None, "z"), ("/a/b", 3, None)]),
        ({"n": {"$gt": 1, "$lt": "z"}}, [("/n", 1, None)]),
        ({"$and": [{"$or": [{"n": {"$gt": 1}}]}, {"k": 1}]}, [("/n", 1, None)]),
        ({"$or": [{"n": {"$gt": 1}}, {"k": 1}]}, []),
        ({"n": {"$not": {"$gt": 1}}}, []),
        ({"$not": {"n": {"$gt": 1}}}, []),
        ({"/tags/0": {"$gt": 1}}, []),
    ],
)
def test_ranges_are_those_that_every_match_is_in(filter: Any, ranges: Any) -> None:
    parsed = Filter.parse(filter)

    assert parsed is not None
    assert parsed.ranges() == ranges


def test_a_filter_about_metadata_needs_no_value() -> None:
    @settings(many, max_examples=examples(200))
    @given(about_metadata, few)
    def check(filter: Any, metadata: Any) -> None:
        parsed = Filter.parse(filter)
        assert parsed is not None
        assert parsed.about_metadata_only
        answer = parsed.matches({"a": 1}, metadata)
        assert answer == parsed.matches(None, metadata) == said(filter, None, metadata)

    check()


# Where a field is looked for


def test_no_filter_and_an_empty_one_match_everything() -> None:
    assert Filter.parse(None) is None
    assert Filter.parse({}) is None
    assert Filter.parse(MappingProxyType({})) is None


def test_a_field_is_the_values_key_and_only_without_one_the_metadatas() -> None:
    assert matches({"kind": "note"}, {"kind": "note"}, kind="other")
    assert matches({"kind": "note"}, {}, kind="note")
    assert matches({"kind": "note"}, "a text", kind="note")
    assert not matches({"kind": "note"}, {"kind": "other"}, kind="note")
    assert not matches({"kind": "note"}, {"kind": None}, kind="note")


def test_a_name_is_a_key_of_a_mapping_and_no_index() -> None:
    assert not matches({"0": "a"}, ["a"])
    assert matches({"0": "a"}, {"0": "a"})
    assert not matches({"a.b": 1}, {"a": {"b": 1}})


def test_a_pointer_leads_into_mappings_and_arrays() -> None:
    value = {"a": [{"b": 1}, ("x", "y")], "0": "zero"}

    assert matches({"/a/0/b": 1, "/a/1/1": "y", "/0": "zero"}, value)
    assert matches({"/1": "b"}, ["a", "b"])
    for nowhere in (
        "/a/2",
        "/a/00",
        "/a/-",
        "/a/-1",
        "/a/٠",
        "/a/" + "9" * 5000,
        "/0/0",
        "/a/0/b/c",
    ):
        assert matches({nowhere: {"$exists": False}}, value), nowhere


def test_a_pointer_that_leads_nowhere_in_the_value_leads_into_the_metadata() -> None:
    assert matches({"/a/b": 1}, {"a": {"c": 2}}, a={"b": 1})
    assert not matches({"/a/b": 1}, {"a": {"b": 2}}, a={"b": 1})


def test_a_filter_may_look_in_one_place_only() -> None:
    assert not matches({"$value": {"k": 1}}, {}, k=1)
    assert not matches({"$metadata": {"k": 1}}, {"k": 1})
    assert matches({"$value": {"k": 1}, "$metadata": {"k": 2}}, {"k": 1}, k=2)
    assert matches({"$metadata": {"$or": [{"k": 1}, {"/j/i": 2}]}}, {"k": 0}, j={"i": 2})
    assert matches({"$value": {}}, 1)


@pytest.mark.parametrize("key", [*KEYS, "a b", "ü", "\ude00", "a" * 10_000, "-", "%", "~1", "~01"])
def test_any_key_can_be_asked_for(key: str) -> None:
    pointer = "/" + key.replace("~", "~0").replace("/", "~1")

    assert matches({pointer: 1}, {key: 1})
    assert not matches({pointer: 1}, {key + "x": 1})
    assert matches({"/deep" + pointer: 1}, None, deep={key: 1})
    if not key.startswith(("$", "/")):
        assert matches({key: 1}, {key: 1})


def test_value_and_metadata_are_names_of_fields_without_their_sign() -> None:
    assert matches({"value": 1, "metadata": 2, "/$value": 3}, {"value": 1, "$value": 3}, metadata=2)


# What is equal


@pytest.mark.parametrize(
    ("found", "operand"),
    [
        (1, 1.0),
        (1, Decimal("1.00")),
        (0.5, Decimal("0.5")),
        (-0.0, 0),
        (math.inf, Decimal("Infinity")),
        (None, None),
        ([1, [2]], (1.0, (2,))),
        ({1, 2}, frozenset({2.0, 1})),
        ({"a": {"b": (1,)}, "c": None}, {"c": None, "a": {"b": [1]}}),
        (b"a", b"a"),
        (NOON, NOON.astimezone(timezone(timedelta(hours=-9, minutes=-30)))),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=9))),) * 2,
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-9))),) * 2,
        (UUID(int=1), UUID(int=1)),
        ("\ud800\x00", "\ud800\x00"),
        ({}, OrderedDict()),
        (MappingProxyType({"a": 1}), {"a": 1}),
    ],
)
def test_equal_things_are_equal(found: Any, operand: Any) -> None:
    assert holds(found, {"$eq": operand})
    assert holds(found, operand)
    assert holds([found], [operand])
    assert not holds(found, {"$ne": operand})
    assert holds(found, {"$in": ["other", operand]})
    assert not holds(found, {"$nin": ["other", operand]})


@pytest.mark.parametrize(
    ("found", "operand"),
    [
        (True, 1),
        (0, False),
        (1, "1"),
        (None, False),
        (None, 0),
        ("", None),
        (0.1, Decimal("0.1")),
        (2**53 + 1, 2.0**53),
        (math.nan, math.nan),
        (Decimal("sNaN"), Decimal("NaN")),
        (Decimal("sNaN"), 1),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ([1], {1}),
        ({True}, {1}),
        ({math.nan}, {math.nan}),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": 1}, [["a", 1]]),
        ([], {}),
        (b"a", "a"),
        (NOON, NOON.replace(tzinfo=None)),
        (NOON, NOON.isoformat()),
        (datetime(2024, 5, 1), date(2024, 5, 1)),
        (UUID(int=1), str(UUID(int=1))),
        ("é", "e\u0301"),
        (object(), None),
    ],
)
def test_unequal_things_are_unequal(found: Any, operand: Any) -> None:
    assert not holds(found, {"$eq": operand})
    assert not holds(found, operand)
    assert not holds([found], [operand])
    assert holds(found, {"$ne": operand})
    assert not holds(found, {"$in": [operand]})
    assert holds(found, {"$nin": [operand]})


@pytest.mark.parametrize(
    ("found", "part"),
    [
        ("tea", "e"),
        ("tea", ""),
        ("\ud800a", "\ud800"),
        (["a", 1], 1.0),
        ({1, "a"}, "a"),
        ([{"a": [1]}], {"a": (1,)}),
        ([None], None),
    ],
)
def test_a_part_is_contained(found: Any, part: Any) -> None:
    assert holds(found, {"$contains": part})
    assert holds(found, {"$not": {"$contains": "not a part"}})


@pytest.mark.parametrize(
    ("found", "part"),
    [
        ("tea", "E"),
        ("1", 1),
        (1, 1),
        ([True], 1),
        (["tea"], "te"),
        ({"a": 1}, "a"),
        (b"a", b"a"),
        (None, None),
        ([math.nan], math.nan),
    ],
)
def test_what_is_no_part_is_not_contained(found: Any, part: Any) -> None:
    assert not holds(found, {"$contains": part})
    assert not Filter.parse({"b": {"$contains": part}}).matches({"a": found}, {})  # type: ignore[union-attr]


def test_a_part_in_any_case_is_one_of_a_text() -> None:
    assert holds("Große Äpfel", {"$icontains": "GROSSE Ä"})
    assert not holds(["Tea"], {"$icontains": "tea"})
    assert not holds(None, {"$icontains": ""})


def test_an_element_passes_all_operators_under_any() -> None:
    assert holds([1, 5, "x"], {"$any": {"$gt": 2, "$lt": 6}})
    assert not holds([1, 7], {"$any": {"$gt": 2, "$lt": 6}}), "no single one does"
    assert holds({"x"}, {"$any": {"$icontains": "X"}})
    assert holds([["a"], "b"], {"$any": {"$any": {"$eq": "a"}}})
    assert holds([1], {"$any": {"$not": {"$eq": 2}}})
    assert holds(["2026-03-01"], {"$any": {"$date": {"$lt": "2026-03-02"}}})
    for found in ([], "x", {"x": "x"}, None):
        assert not holds(found, {"$any": {"$ne": "y"}})


def test_a_type_is_that_of_what_is_there() -> None:
    found = ["x", 1, 1.5, True, None, [], (), {"x"}, {}, b"x", NOON.date()]
    types = [
        "text",
        "number",
        "number",
        "boolean",
        "null",
        "array",
        "array",
        "set",
        "object",
        "bytes",
        "date",
    ]
    for one, name in zip(found, types, strict=True):
        assert holds(one, {"$type": name})
        assert not holds(one, {"$type": "uuid"})
    assert not Filter.parse({"b": {"$type": "null"}}).matches({"a": None}, {})  # type: ignore[union-attr]


def test_a_repeated_hour_of_a_time_zone_is_two_instants() -> None:
    first = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    second = first.replace(fold=1)

    assert holds(datetime(2024, 10, 27, 0, 30, tzinfo=UTC), first)
    assert holds(datetime(2024, 10, 27, 1, 30, tzinfo=UTC), second)
    assert holds(first, {"$lt": second})


def test_a_member_of_an_enum_is_what_it_stands_for() -> None:
    class Color(str, enum.Enum):  # noqa: UP042 - the older kind, whose str() is its name
        RED = "red"

    class Level(enum.IntEnum):
        LOW = 1

    assert holds("red", Color.RED)
    assert matches({Color.RED: Level.LOW}, {"red": 1})
    parsed = Filter.parse({"$metadata": {"a": Color.RED, "b": Level.LOW}})
    assert parsed is not None
    assert [type(wanted) for _, (wanted,) in parsed.equalities()] == [str, int]


# What has an order


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (1, 2),
        (1, 1.5),
        (-math.inf, Decimal("-1E+900")),
        (10**400, math.inf),
        (0.1, Decimal("0.11")),
        ("", "a"),
        ("Z", "a"),
        ("10", "9"),
        ("\uffff", "\U0001f600"),
        ("\ud800", "\ue000"),
        (NOON, (NOON + timedelta(microseconds=1)).astimezone(timezone(timedelta(hours=-5)))),
        (date(2024, 1, 1), date(2024, 1, 2)),
    ],
)
def test_each_kind_has_its_order(less: Any, more: Any) -> None:
    for name, of_less, of_same, of_more in [
        ("$lt", True, False, False),
        ("$lte", True, True, False),
        ("$gt", False, False, True),
        ("$gte", False, True, True),
    ]:
        assert holds(less, {name: more}) == of_less
        assert holds(more, {name: more}) == of_same
        assert holds(more, {name: less}) == of_more


@pytest.mark.parametrize("name", ["$gt", "$gte", "$lt", "$lte"])
def test_different_kinds_have_no_order(name: str) -> None:
    for found in ("1", True, None, [1], {"a": 1}, {1}, b"1", math.nan, Decimal("sNaN"), NOON):
        assert not holds(found, {name: 1})
    for found in (1, b"a", None, ["a"]):
        assert not holds(found, {name: "a"})
    assert not holds(NOON.replace(tzinfo=None), {name: NOON})
    assert not holds(NOON, {name: NOON.date()})
    assert not matches({"a": {name: 1}}, {})


def test_decimals_and_floats_compare_in_a_context_that_traps_it() -> None:
    with localcontext(Context(prec=1, traps=[FloatOperation])):
        assert holds(Decimal("1.26"), {"$gt": 1.25, "$lt": 1.27, "$ne": 1.25})


# The operators


def test_a_missing_field_is_unequal_to_everything_and_exists_not() -> None:
    for operators in ({"$ne": 1}, {"$ne": None}, {"$nin": [1, None]}, {"$exists": False}):
        assert matches({"a": operators}, {})
    for operators in (None, {"$eq": None}, {"$in": [None]}, {"$exists": True}, {"$lte": 1}):
        assert not matches({"a": operators}, {})
    assert matches({"a": {"$not": {"$gt": 1}}}, {})


def test_contains_looks_for_an_element_or_for_a_part_of_a_text() -> None:
    for holder in (["a", 1], ("a", 1), {"a", 1}, frozenset({"a", 1})):
        assert holds(holder, {"$contains": 1})
        assert holds(holder, {"$contains": 1.0})
        assert holds(holder, {"$contains": "a"})
        assert not holds(holder, {"$contains": True})
        assert not holds(holder, {"$contains": "b"})
    assert holds([["x"], {"k": 1}], {"$contains": ("x",)})
    assert holds([["x"], {"k": 1}], {"$contains": {"k": 1}})
    assert holds("a word", {"$contains": "wor"})
    assert not holds("a word", {"$contains": "Wor"})
    for other in (1, None, {"a": 1}, b"a", "1"):
        assert not holds(other, {"$contains": 1})
    assert not matches({"a": {"$contains": None}}, {})
    assert matches({"a": {"$not": {"$contains": 1}}}, {})


def test_a_date_is_compared_as_a_point_in_time_however_it_is_written() -> None:
    noon = "2026-03-01T12:00:00+01:00"
    for same in (
        noon,
        "2026-03-01T11:00:00Z",
        "2026-03-01 12:00:00",  # the zone is that of the other
        datetime(2026, 3, 1, 12),
        datetime(2026, 3, 1, 11, tzinfo=UTC),
    ):
        assert holds(same, {"$date": {"$eq": noon, "$gte": noon, "$lte": noon}})
        assert not holds(same, {"$date": {"$ne": noon}})
        assert not holds(same, {"$date": {"$gt": noon}})
    assert holds("2026-03-01", {"$date": {"$eq": date(2026, 3, 1), "$lt": noon}})
    assert holds(date(2026, 3, 1), {"$date": {"$eq": "2026-03-01T00:00"}})
    assert holds("2026-03-01T09:30", {"$date": {"$gt": "2026-03-01", "$lt": noon}})
    assert holds("2026-03-01T10:59:59.999999Z", {"$date": {"$lt": noon}})


def test_what_is_no_date_is_missing_for_a_comparison_of_dates() -> None:
    for other in (20260301, "2026", "20260301", "2026-13-01", "2026-03-01x", None, [], "noon"):
        assert not holds(other, {"$date": {"$gte": "0001-01-01"}})
        assert holds(other, {"$date": {"$ne": "2026-03-01"}})
    assert not matches({"a": {"$date": {"$eq": "2026-03-01"}}}, {})
    assert matches({"a": {"$not": {"$date": {"$eq": "2026-03-01"}}}}, {})


def test_a_stored_none_exists() -> None:
    assert holds(None, {"$exists": True})
    assert not holds(None, {"$exists": False})


def test_in_takes_a_list_a_tuple_or_a_set_and_asks_for_the_whole_field() -> None:
    for operands in ([1, "a"], (1, "a"), {1, "a"}, frozenset({1, "a"})):
        assert holds("a", {"$in": operands})
        assert holds("b", {"$nin": operands})
    assert not holds("a", {"$in": []})
    assert holds("a", {"$nin": []})
    assert not holds(["a"], {"$in": ["a"]})
    assert holds([1], {"$in": [[1], {"b": 2}]})


def test_operators_side_by_side_must_all_hold() -> None:
    assert holds(5, {"$gt": 1, "$lt": 9, "$ne": 4})
    assert not holds(5, {"$gt": 1, "$lt": 5})
    assert not matches({"a": 1, "b": 2}, {"a": 1, "b": 3})


def test_and_or_and_not_combine_filters() -> None:
    value = {"a": 1, "b": 2}

    assert matches({"$or": [{"a": 0}, {"b": 2}]}, value)
    assert not matches({"$or": [{"a": 0}, {"b": 0}]}, value)
    assert matches({"$and": [{"a": 1}, {"b": 2}]}, value)
    assert not matches({"$and": [{"a": 1}, {"b": 0}]}, value)
    assert not matches({"$not": {"a": 1, "b": 2}}, value)
    assert matches({"$not": {"a": 1, "b": 0}}, value)
    assert not matches({"$or": [{"a": 1}], "b": 0}, value)
    assert matches({"$and": [{}]}, value)
    assert not matches({"$not": {}}, value)


def test_a_mapping_without_operators_is_what_the_field_equals() -> None:
    assert holds({}, {})
    assert holds({"b": {"$gt": 1}}, {"b": {"$gt": 1}})
    assert not holds({"b": 2}, {"b": {"$gt": 1}})
    assert holds({"$gt": 1}, {"$eq": {"$gt": 1}})


# What an index may rely on


@pytest.mark.parametrize(
    ("filter", "equalities"),
    [
        ({"k": "v", "n": 1.5}, [("/k", ["v"]), ("/n", [1.5])]),
        ({"$value": {"k": None}}, [("/k", [None])]),
        ({"$metadata": {"k": {"$eq": False, "$ne": "w"}}}, [("/k", [False])]),
        ({"/a~1b/c": 1}, [("/a~1b/c", [1])]),
        ({"k": {"$in": ["a", "b"]}}, [("/k", ["a", "b"])]),
        ({"$and": [{"$or": [{"k": 1}]}, {"j": {"$gt": 3}}]}, [("/k", [1])]),
        ({"$or": [{"k": 1}, {"j": 2}]}, []),
        ({"$or": [{"k": 1}, {"/k": {"$in": ["a", None]}}]}, [("/k", [1, "a", None])]),
        ({"$or": [{"k": 1, "j": 2}, {"i": 3, "j": {"$eq": 4}}]}, [("/j", [2, 4])]),
        ({"$or": [{"$or": [{"k": 1}, {"k": 2}]}, {"$metadata": {"k": 3}}]}, [("/k", [1, 2, 3])]),
        ({"$or": [{"k": 1}, {"k": {"$ne": 2}}]}, []),
        ({"$or": [{"k": 1}, {"$not": {"k": 2}}]}, []),
        ({"$or": [{"k": 1}, {"k": ["a"]}]}, []),
        ({"$not": {"$or": [{"k": 1}, {"k": 2}]}}, []),
        ({"$not": {"k": 1}}, []),
        ({"k": {"$in": []}}, []),
        ({"k": {"$in": ["a", ["b"]]}}, []),
        ({"/tags/0": "a"}, []),
        ({"k": {"b": 1}, "j": [1], "i": b"x"}, []),
    ],
)
def test_equalities_are_what_every_match_must_have(filter: Any, equalities: Any) -> None:
    parsed = Filter.parse(filter)

    assert parsed is not None
    assert parsed.equalities() == equalities


@pytest.mark.parametrize(
    ("filter", "only"),
    [
        ({"$metadata": {"k": 1, "/a/b": {"$not": {"$gt": 1}}}}, True),
        ({"$or": [{"$metadata": {"k": 1}}, {"$not": {"$metadata": {"j": 2}}}]}, True),
        ({"k": 1}, False),
        ({"$value": {"k": 1}}, False),
        ({"$metadata": {"k": 1}, "$not": {"j": {"$exists": True}}}, False),
        ({"$or": [{"$metadata": {"k": 1}}, {"k": 1}]}, False),
    ],
)
def test_a_filter_knows_whether_it_needs_the_value(filter: Any, only: bool) -> None:
    parsed = Filter.parse(filter)

    assert parsed is not None
    assert parsed.about_metadata_only is only


# What is refused, and when


@pytest.mark.parametrize(
    ("filter", "complaint"),
    [
        ({"a": {"$gte ": 1}}, r"operator '\$gte ' under 'a'.*\$eq, .*\$gte, .*'/\$gte '"),
        ({"a": {"$and": [{"$gt": 1}]}}, r"operator '\$and' under 'a'"),
        ({"$gt": 1}, r"operator '\$gt' beside fields.*\$and, \$or, \$not, \$value, \$metadata"),
        ({"$a/b~": 1}, r"'/\$a~1b~0'"),
        ({"a": {"$gt": 1, "b": 2}}, r"'b' under 'a' stands beside operators"),
        ({"a": {"b": 2, "$gt": 1}}, r"'b' under 'a' stands beside operators"),
        ({"$and": []}, "at least one"),
        ({"$or": {"a": 1}}, "list of filters"),
        ({"$or": "a"}, "list of filters"),
        ({"$and": [1]}, "wants a filter"),
        ({"$or": [None]}, "wants a filter"),
        ({"$not": 1}, "wants a filter"),
        ({"$value": 1}, "wants a filter"),
        ({"$metadata": {"$not": {"$value": {}}}}, "inside"),
        ({"a": {"$not": 1}}, r"mapping of operators; \$ne"),
        ({"a": {"$not": {}}}, "mapping of operators"),
        ({"a": {"$not": {"b": 1}}}, "mapping of operators"),
        ({"a": {"$in": "text"}}, r"'\$in' under 'a' wants a list"),
        ({"a": {"$nin": {"b": 1}}}, r"'\$nin' under 'a' wants a list"),
        ({"a": {"$exists": 1}}, "True or False"),
        ({"a": {"$type": "str"}}, r"'\$type' under 'a' wants one of number, array"),
        ({"a": {"$type": ["text"]}}, r"'\$type' under 'a' wants one of number, array"),
        ({"a": {"$any": 1}}, r"'\$any' under 'a' wants a mapping of operators"),
        ({"a": {"$any": {"b": 1}}}, r"'\$any' under 'a' wants a mapping of operators"),
        ({"a": {"$any": {"$near": 1}}}, r"unknown operator '\$near'"),
        ({"a": {"$exists": None}}, "True or False"),
        ({"a": {"$date": "2026-03-01"}}, r"'\$date' under 'a' wants a mapping of \$eq"),
        ({"a": {"$date": {"$in": []}}}, r"unknown operator '\$in' in '\$date' under 'a'"),
        ({"a": {"$date": {"$gt": "noon"}}}, "wants a datetime, a date, or one in ISO 8601"),
        ({"a": {"$date": {"$gt": None}}}, "wants a datetime, a date, or one in ISO 8601"),
        ({"a": {"$icontains": 1}}, r"'\$icontains' under 'a' wants a text"),
        ({"/a~": 1}, "JSON pointer"),
        ({"/a~2": 1}, "JSON pointer"),
        *(
            ({"a": {name: operand}}, f"'\\{name}' under 'a' wants a number, a text")
            for name in ("$gt", "$gte", "$lt", "$lte")
            for operand in (True, None, {}, [], [1], b"a", math.nan, NOON.replace(tzinfo=None))
        ),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_with_a_reason(filter: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Filter.parse(filter)


@pytest.mark.parametrize(
    ("filter", "complaint"),
    [
        ([], "a mapping, not a list"),
        ("a", "a mapping, not a str"),
        (0, "a mapping, not a int"),
        ({1: 2}, "the filter has a key that is not a str: int"),
        ({"a": {None: 2}}, "'a' has a key that is not a str: NoneType"),
        ({"$and": [{b"a": 2}]}, "a key that is not a str: bytes"),
        ({"a": object()}, "'a' holds a object"),
        ({"a": [1, {"b": 1j}]}, "'b' holds a complex"),
        ({"a": bytearray()}, "'a' holds a bytearray"),
        ({"a": {"$in": range(3)}}, r"'\$in' holds a range"),
    ],
)
def test_what_no_item_can_hold_is_refused(filter: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        Filter.parse(filter)


OPERANDS = {
    **{"in": [1], "nin": [1], "exists": True, "type": "text", "contains": "a", "icontains": "a"},
    **{"any": {"$gt": 1}, "date": {"$gt": NOON}, "not": {"$gt": 1}},
}
"""Operands of the operators that do not take any."""

AROUND: dict[str, Callable[[Any], Any]] = {
    "a field": lambda under: {"a": under},
    "a pointer": lambda under: {"/a/b": under},
    "the value": lambda under: {"$value": {"a": under}},
    "the metadata": lambda under: {"b": 2, "$metadata": {"a": under}},
    "$and": lambda under: {"$and": [{"b": 1}, {"a": under}]},
    "$or": lambda under: {"$or": [{"b": 1}, {"a": under}]},
    "$not": lambda under: {"$not": {"a": under}},
    "$not of a field": lambda under: {"a": {"$not": under}},
    "$any": lambda under: {"a": {"$any": under}},
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", [name.removeprefix("$") for name in OPERATORS])
def test_an_operator_that_lacks_its_sign_is_refused_with_the_one_that_was_meant(
    name: str, around: str
) -> None:
    operand = OPERANDS.get(name, 1)
    wrap = AROUND[around]
    assert Filter.parse(wrap({f"${name}": operand})) is not None
    beside = "lte" if name != "lte" else "gt"
    for under in ({name: operand}, {name: operand, beside: 3}, {f"${beside}": 3, name: operand}):
        with pytest.raises(ValueError, match=rf"\${name}\b"):
            Filter.parse(wrap(under))


@pytest.mark.parametrize("name", ["eq", "ne", "gt", "gte", "lt", "lte"])
def test_an_operator_of_a_date_that_lacks_its_sign_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=rf"wants a mapping of .*, \${name}\b"):
        Filter.parse({"a": {"$date": {name: NOON}}})


@pytest.mark.parametrize(
    "filter",
    [
        {"and": [{"a": 1}, {"b": 2}]},
        {"or": [{"a": 1}, {"b": 2}]},
        {"not": {"a": 1}},
        {"value": {"a": 1}},
        {"metadata": {"a": {"$gt": 1}}},
        {"$and": [{"or": [{"a": 1}]}]},
        {"$not": {"not": {"a": 1}}},
        {"$metadata": {"or": [{"a": 1}]}},
    ],
    ids=str,
)
def test_a_combination_that_lacks_its_sign_is_refused_with_the_one_that_was_meant(
    filter: Any,
) -> None:
    with pytest.raises(ValueError, match=r"without its \$: write \$(and|or|not|value|metadata)\."):
        Filter.parse(filter)


@pytest.mark.parametrize("name", [name.removeprefix("$") for name in OPERATORS])
def test_a_mapping_that_is_meant_literally_goes_under_an_operator(name: str) -> None:
    literal = {name: OPERANDS.get(name, 1)}
    for operators in ({"$eq": literal}, {"$in": [literal]}, {"$not": {"$ne": literal}}):
        assert holds(literal, operators)
        assert not holds({name: None}, operators)
    assert holds(literal | {"unit": "kg"}, literal | {"unit": "kg"}), "it has another key"
    assert holds([literal], [literal])
    assert matches({f"/a/{name}": {"$exists": True}}, {"a": literal})


@pytest.mark.parametrize(
    ("filter", "value"),
    [
        ({"and": 1}, {"and": 1}),
        ({"or": []}, {"or": []}),
        ({"or": ["a", "b"]}, {"or": ["a", "b"]}),
        ({"or": {"$eq": [{"a": 1}]}}, {"or": [{"a": 1}]}),
        ({"not": {}}, {"not": {}}),
        ({"not": {"$eq": {"a": 1}}}, {"not": {"a": 1}}),
        ({"metadata": {"$eq": {"a": 1}}}, {"metadata": {"a": 1}}),
        ({"metadata": "a"}, {"metadata": "a"}),
        ({"value": {"$gte": 3}}, {"value": 3}),
        ({"$value": {"metadata": {"a": 1}}}, {"metadata": {"a": 1}}),
    ],
    ids=str,
)
def test_a_field_may_be_called_as_a_combination_is(filter: Any, value: Any) -> None:
    assert matches(filter, value)
    assert not matches(filter, {"other": 1})


def test_a_refusal_names_no_operand() -> None:
    for filter in (
        {"a": {"$exists": "hush"}},
        {"a": {"$in": "hush"}},
        {"$not": "hush"},
        {"a": {"gte": "hush"}},
        {"a": {"$any": {"eq": "hush"}}},
        {"or": [{"a": "hush"}]},
    ):
        with pytest.raises(ValueError, match=r"wants|without its \$") as refused:
            Filter.parse(filter)
        assert "hush" not in str(refused.value)
    assert "hush" not in repr(Filter.parse({"$metadata": {"a": "hush"}}))


def test_a_filter_stays_as_it_was_parsed() -> None:
    source = {"a": {"$in": [[1]]}, "$or": [{"b": 1}]}
    parsed = Filter.parse(source)
    source["a"]["$in"][0][0] = 2
    source["$or"].append({"c": 1})

    assert parsed is not None
    assert parsed.matches({"a": [1], "b": 1}, {})
    assert not parsed.matches({"a": [1], "c": 1}, {})


def nested(levels: int, around: Any, innermost: Any) -> Any:
    for _ in range(levels):
        innermost = around(innermost)
    return innermost


@pytest.mark.parametrize(
    "around",
    [
        lambda inner: {"$not": inner},
        lambda inner: {"$and": [inner]},
        lambda inner: {"a": inner},
        lambda inner: {"a": [inner]},
        lambda inner: {"a": {"$not": inner}},
        lambda inner: {"a": {"$eq": (inner,)}},
    ],
)
def test_a_filter_of_any_depth_is_safe(around: Any) -> None:
    per_level = 1 + (around({}) != {"$not": {}} and around({}) != {"a": {}})
    per_level += around(None) == {"a": {"$eq": (None,)}}
    for levels in (MAX_DEPTH // per_level + 1, 5_000, 100_000):
        with pytest.raises(ValueError, match="nested over 50 levels"):
            Filter.parse(nested(levels, around, {}))


def test_fifty_levels_are_read_and_matched() -> None:
    assert matches(nested(MAX_DEPTH - 1, lambda inner: {"$not": inner}, {"a": 1}), {"a": 0})
    tree = nested(MAX_DEPTH - 1, lambda inner: [inner], 1)
    assert holds(tree, tree)
    assert not holds(tree, nested(MAX_DEPTH - 1, lambda inner: [inner], 2))
    assert not holds(tree, [tree[0][0]])


def test_a_value_of_any_depth_is_safe() -> None:
    deep = nested(100_000, lambda inner: [inner], 1)
    operand = nested(MAX_DEPTH - 4, lambda inner: [inner], 1)

    assert not holds(deep, {"$eq": operand})
    assert holds(deep, {"$nin": [operand, {"b": 1}]})
    assert holds(nested(100_000, lambda inner: {"b": inner}, 1), {"$ne": {"b": {"b": 1}}})
    limit = sys.getrecursionlimit()
    assert not holds(nested(limit, lambda inner: (inner,), 1), {"$gt": 1})


def test_a_filter_of_too_many_parts_is_refused() -> None:
    assert holds(7, {"$in": list(range(MAX_PARTS - 10))})
    with pytest.raises(ValueError, match="over 10,000 parts"):
        Filter.parse({"a": {"$in": list(range(MAX_PARTS))}})
    shared: Any = nested(40, lambda inner: [inner, inner], 1)
    with pytest.raises(ValueError, match="over 10,000 parts"):
        Filter.parse({"a": shared})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested over 50 levels"):
        Filter.parse({"a": endless})


# Arbitrary filters

NAMES = ["$and", "$or", "$not", "$value", "$metadata", "$eq", "$ne", "$gt", "$lt", "$in", "$nin"]
any_text = st.text(st.characters(), max_size=6)
any_key = st.one_of(
    st.sampled_from([*NAMES, "$exists", "$like"]), keys, any_text, any_text.map("/{}".format)
)
any_leaf = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), any_text, st.just({}))
any_tree = st.recursive(
    any_leaf,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(any_key, inner, max_size=3)
    ),
    max_leaves=8,
)


def test_any_tree_is_a_filter_or_refused() -> None:
    outcomes: Counter[str] = Counter()

    @settings(many, max_examples=examples(2000))
    @given(st.one_of(any_tree, st.dictionaries(any_key, any_tree, max_size=3)), any_tree)
    def check(filter: Any, value: Any) -> None:
        try:
            parsed = Filter.parse(filter)
        except (TypeError, ValueError) as error:
            outcomes[type(error).__name__] += 1
            return
        outcomes["parsed"] += 1
        if parsed is not None:
            assert parsed.matches(value, {}) in (True, False)

    check()
    assert min(outcomes["parsed"], outcomes["ValueError"], outcomes["TypeError"]) > examples(100), (
        outcomes
    )
