"""The strict mode forgets nothing of Oracle's dialect; what it does to values is in `habits`."""

from __future__ import annotations

import pytest

from memalchemy.dialects.oracle import Oracle
from memalchemy.dialects.postgresql.dialect import PostgreSQL
from memalchemy.dialects.sqlite import SQLite
from oracle.strict import CONDITIONS, PARTS, PROGRAMS, UNLIKE, contains, merged, same


def test_all_that_dialects_say_differently_is_run_as_oracles_or_named_as_not_run() -> None:
    differ = {
        (part, name)
        for dialect in (Oracle, SQLite, PostgreSQL)
        for part in ("dialect", *PARTS)
        for name in vars(dialect if part == "dialect" else type(getattr(dialect, part)))
        if not name.startswith("_") and name not in PARTS
    }
    taken = [
        (part, name)
        for some in (PROGRAMS, CONDITIONS)
        for part, names in some.items()
        for name in names
    ]

    assert differ == {*taken, *UNLIKE}
    assert len(differ) == len(taken) + len(UNLIKE)


@pytest.mark.parametrize(
    ("text", "query", "score"),
    [
        ("one two three", "{two}", 100),
        ("one Two three", "{two}", 100),
        ("one two three", "{tw}", 0),
        ("one Two three", "tw%", 100),
        ("one two three", "wo%", 0),
        ("", "{two}", 0),
        (None, "{two}", 0),
    ],
)
def test_a_term_is_a_word_or_the_beginning_of_one(text: str | None, query: str, score: int) -> None:
    assert contains(text, query) == score


@pytest.mark.parametrize(
    "query",
    ["", "word", "{a} AND {b}", "{a} {b}", "{a}{b}", "{a", "{a}%", "{}", "%", "a b%", "a_b%"],
)
def test_an_operator_in_a_text_query_is_an_error(query: str) -> None:
    with pytest.raises(ValueError, match="DRG-50901"):
        contains("a b", query)


def test_json_is_equal_by_value() -> None:
    assert same({"a": [1, {"b": None}], "c": 1}, {"c": 1.0, "a": [1, {"b": None}]})
    assert not same([1], [True])
    assert not same({"a": None}, {})
    assert not same([1, 2], [2, 1])


def test_a_merge_patch_is_rfc_7396() -> None:
    assert merged({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}}) == {"b": {"c": 2, "d": 3}}
    assert merged([1], {"a": None}) == {}
    assert merged({"a": 1}, [None]) == [None]
