"""A snippet shows what a search has found, as it reads, and marks it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from states import tried
from texts import texts

from memalchemy.codec.search_text import search_text, words_in
from memalchemy.codec.snippets import highlighted, snippet
from memalchemy.codec.tokens import Term, query_terms, tokens


@tried(200)
@given(st.one_of(texts, st.just("")), texts, st.integers(1, 30))
def test_a_snippet_of_any_text_for_any_query(text: str, query: str, width: int) -> None:
    stored = search_text([text]) or ""
    shown = snippet(stored, query_terms(query), width)
    assert len([word for word in shown.split(" ") if word]) <= width + 2


@tried(200)
@given(st.lists(texts, min_size=1, max_size=10), st.data())
def test_a_snippet_shows_the_word_that_was_found(strings: list[str], data: st.DataObject) -> None:
    stored = search_text(strings)
    assume(stored)
    token = data.draw(st.sampled_from(words_in(stored)))
    shown = snippet(stored, [Term(token.lower() if token.isascii() else token)])
    # Words that differ in the case of ASCII letters alone are stored once.
    assert set(tokens(shown.casefold())) & set(tokens(token.casefold()))


def test_a_snippet_shows_about_its_width_round_the_hit() -> None:
    stored = " ".join(f"w{i}" for i in range(100))
    assert snippet(stored, [Term("w50")], width=6) == "… w48 w49 w50 w51 w52 w53 …"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("中文 ok", "中文 ok"),
        ("東京の天気は晴れです", "東京の天気は晴れです"),
        ("한국어 처리", "한국어 처리"),
        ("ภาษาไทยง่าย", "ภาษาไทยง่าย"),
        ("done 👍", "done 👍"),
    ],
)
def test_a_snippet_reads_as_the_text_was_written(text: str, shown: str) -> None:
    assert snippet(search_text([text]) or "", query_terms(text)) == shown


@pytest.mark.parametrize(
    ("text", "query", "hits"),
    [
        ("Łódź is nice", "lodz", ["Łódź"]),
        ("cafe\u0301 au lait", "café", ["café"]),
        ("東京の天気は晴れです", "東京 天気", ["東京", "天気"]),
        ("他住在北京", "北京的茶", ["北京"]),
        ("喝绿茶吧", "茶", ["茶"]),
        ("데이터베이스를 만들다", "데이터베이스", ["데이터베이스"]),
        ("ภาษาไทยง่าย", "ไทย", ["ไทย"]),
        ("हिन्दी मेल", "मेल", ["मेल"]),
        ("well done 👍🏽!", "👍", ["👍🏽"]),
        ("data\u200bbase one", "database", ["data\u200bbase"]),
        ("The Cats and the cat", "cat", ["cat"]),
    ],
)
def test_the_words_of_any_script_are_highlighted(text: str, query: str, hits: list[str]) -> None:
    pieces = highlighted(text, query_terms(query))
    assert [piece["text"] for piece in pieces if piece["hit"]] == hits


@tried(300)
@given(texts, texts)
def test_highlighting_changes_no_text(text: str, query: str) -> None:
    pieces = highlighted(text, query_terms(query), width=10_000)
    assert "".join(piece["text"] for piece in pieces) == unicodedata.normalize("NFC", text)


@tried(200)
@given(texts, st.data())
def test_what_is_found_is_highlighted(text: str, data: st.DataObject) -> None:
    assume(tokens(text))
    token = data.draw(st.sampled_from(tokens(text)))
    term = Term(token.lower() if token.isascii() else token)
    pieces = highlighted(text, [term], width=10_000)
    assert any(piece["hit"] for piece in pieces)
