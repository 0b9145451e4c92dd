"""A query in a script without spaces is cut into words where ICU is installed, and only there."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.codec import word_borders
from memalchemy.codec.tokens import Term, query_terms, tokens

units = st.lists(st.sampled_from(["北", "京", "กำ", "ไท", "ร์", "で"]), min_size=1, max_size=12)


@pytest.fixture
def cut_after_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """ICU, for which every word has two characters."""
    monkeypatch.setattr(
        word_borders, "_word_breaks", lambda: lambda text: frozenset(range(2, len(text), 2))
    )


@pytest.fixture
def without_icu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_borders, "_word_breaks", lambda: None)


def test_without_icu_a_run_asks_for_all_its_pairs(without_icu: None) -> None:
    assert query_terms("我喝绿茶") == [Term("我喝"), Term("喝绿"), Term("绿茶")]


def test_with_icu_no_pair_crosses_the_border_of_a_word(cut_after_two: None) -> None:
    assert query_terms("北京绿茶好") == [Term("北京"), Term("绿茶"), Term("好", prefix=True)]


def test_words_with_spaces_and_what_is_stored_do_not_ask_icu(cut_after_two: None) -> None:
    assert query_terms("green tea, Łódź") == [Term("green"), Term("tea"), Term("lodz")]
    assert tokens("北京绿茶") == ["北京", "京绿", "绿茶", "茶"]


@given(units, st.sets(st.integers(0, 40)))
def test_words_are_the_units_of_the_run_whatever_icu_says(
    run: list[str], borders: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_borders, "_word_breaks", lambda: lambda text: frozenset(borders))
        words = word_borders.split_at_borders(run)
    assert [unit for word in words for unit in word] == run
    assert all(words)
    ends = [*accumulate(len("".join(word)) for word in words)]
    assert {*ends[:-1]} <= borders


def test_icu_itself_finds_words() -> None:
    pytest.importorskip("icu4py", reason="the extra words is not installed")
    asked = {term.text for term in query_terms("我应该喝什么茶")}
    assert "什么" in asked
    assert not {"".join(pair) for pair in pairwise("喝什")} & asked
