"""Index and query see the same tokens, whatever the script and however a word is written."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import tried
from texts import texts

from memalchemy.codec.tokens import Term, query_terms, tokens, units_of


def holds(indexed: str, query: str) -> bool:
    """Return whether a text holds each of a query's terms, as the databases decide it."""
    have = [ascii_lower(token) for token in tokens(indexed)]
    return all(any(is_found(term, token) for token in have) for term in query_terms(query))


def is_found(term: Term, token: str) -> bool:
    return token.startswith(term.text) if term.prefix else token == term.text


def ascii_lower(token: str) -> str:
    return token.lower() if token.isascii() else token


@tried(300)
@given(texts)
def test_every_word_of_an_indexed_text_is_found(words: str) -> None:
    for word in words.split():
        assert holds(words, word)
    assert holds(words, words)


@tried(300)
@given(texts, st.data())
def test_every_part_of_a_run_without_spaces_is_found(words: str, data: st.DataObject) -> None:
    words = unicodedata.normalize("NFKC", words)
    runs = [word for word in words.split() if all(map(is_paired, word))]
    if runs:
        run = data.draw(st.sampled_from(runs))
        units = list(units_of(run, 0, len(run)))
        low = data.draw(st.integers(0, len(units) - 1))
        high = data.draw(st.integers(low, len(units) - 1))
        assert holds(words, run[units[low][0] : units[high][1]])


def is_paired(character: str) -> bool:
    return [term.prefix for term in query_terms(character)] == [True]


@tried(400)
@given(texts, st.sampled_from([" \u0301", " \u200c "]))
def test_tokens_are_the_same_whatever_else_is_in_the_text(words: str, mark: str) -> None:
    """A mark of its own, which is part of no word, lets a text be folded run after run."""
    assert tokens(words + mark) == tokens(words)
    assert tokens(mark + " " + words) == tokens(words)


def test_each_character_is_folded_alike_alone_and_beside_marks() -> None:
    for code in range(0x80, 0x20000):
        text = f"a{chr(code)}b {chr(code)}"
        assert tokens(text + " \u0301") == tokens(text), hex(code)


@tried(200)
@given(texts)
def test_a_text_has_the_same_tokens_in_every_normal_form(words: str) -> None:
    expected = tokens(words)
    for form in ("NFC", "NFD"):
        assert tokens(unicodedata.normalize(form, words)) == expected


@tried(200)
@given(texts)
def test_tokens_have_nothing_in_them_that_a_database_would_cut_or_obey(words: str) -> None:
    for token in [*tokens(words), *(term.text for term in query_terms(words))]:
        assert token
        assert not set(token) & set(" \t\n'\"\\&|!():*<>-+~^{}.,;_\x00")
        assert not token.isspace()
        token.encode()  # raises on a lone surrogate


@tried(200)
@given(texts)
def test_tokens_stay_as_they_are(words: str) -> None:
    """A word that memalchemy itself has cut finds what it was cut from."""
    for term in query_terms(words):
        if not term.prefix:
            assert tokens(term.text)[:1] == [term.text]


@pytest.mark.parametrize(
    ("indexed", "queries"),
    [
        ("Café crème", ["cafe", "CAFÉ", "crème", "Creme", "cafe\u0301"]),
        ("Straße in Łódź", ["strasse", "STRASSE", "Straße", "łódź", "Lodz", "LODZ"]),
        ("København, đường, Đà Nẵng", ["kobenhavn", "duong", "da nang", "ĐƯỜNG"]),
        ("cœur Encyclopædia Ægir", ["coeur", "encyclopaedia", "AEGIR", "Œ cœur"[2:]]),
        ("İstanbul ışık ISPARTA", ["istanbul", "ISTANBUL", "isik", "ısparta"]),
        ("Σίσυφος ΣΊΣΥΦΟΣ", ["σισυφοσ", "Σίσυφος", "ΣΙΣΥΦΟΣ"]),
        ("ﬁne １２３", ["fine", "123", "１２３"]),
        ("我喜欢机器学习", ["机器学习", "学习", "我", "喜欢", "习"]),
        ("東京タワーへ行く", ["タワー", "東京", "行く", "東京タワー"]),
        ("ｶﾞｷﾞ", ["ガギ", "ｶﾞ"]),
        (
            "한국어 처리",
            ["한국어", "국어", "한", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165"],
        ),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ภาษาไทยง่ายนิดเดียว", ["ภาษา", "ไทย", "ง่าย", "นิดเดียว"]),
        ("ພາສາລາວ", ["ພາສາ", "ລາວ"]),
        ("ភាសាខ្មែរ", ["ភាសា", "ខ្មែរ"]),
        ("မြန်မာဘာသာ", ["မြန်မာ", "ဘာသာ"]),
        ("Привет, Ёжик", ["привет", "ежик", "ЁЖИК"]),
        ("Việt Nam", ["viet", "VIỆT"]),
        ("كتـــاب ٤٢ أحمد", ["كتاب", "42", "احمد"]),
        ("الجامعة", ["الجامعه"]),
        ("کتابی", ["كتابي", "کتابی"]),
        ("می\u200cخواهم", ["می خواهم", "خواهم", "می\u200cخواهم"]),
        (
            "soft\u00adhyphen data\u200bbase zero\u2060width",
            ["softhyphen", "database", "zerowidth"],
        ),
        ("क्\u200dष", ["क्ष"]),
        ("done 👍🏽 👩\u200d💻 ❤️", ["👍", "👍🏿", "💻", "❤"]),
        ("snake_case don't re-run a.b@c.de", ["snake", "case", "don", "run", "a.b@c.de"]),
        ("Ꭰꮳꮃꭹ", ["Ꭰꮳꮃꭹ", "ᎠᏣᎳᎩ"]),
        ("the price is 5€ today", ["5€", "5"]),
    ],
)
def test_words_are_found_however_they_are_spelt(indexed: str, queries: list[str]) -> None:
    for query in queries:
        assert query_terms(query)
        assert holds(indexed, query), query


@pytest.mark.parametrize("query", ["학", "机学", "ガ行", "मराठी", "caf", "straße2", "हिन्द", "ไย"])
def test_other_words_are_not_found(query: str) -> None:
    text = "한국어 我喜欢机器学习 東京タワーへ行く हिन्दी Café Straße ภาษาไทย"
    assert not holds(text, query)


@pytest.mark.parametrize(
    "words", ["मेल मूल मल", "কাক কাজ", "ไม่ ไม้ ไหม", "ម៉ោង មាន", "கல் கால் கில்"], ids=repr
)
def test_signs_for_vowels_make_other_words(words: str) -> None:
    assert len({tuple(tokens(word)) for word in words.split()}) == len(words.split())


def test_each_character_of_a_script_without_spaces_begins_one_token() -> None:
    assert tokens("東京の天気") == ["東京", "京の", "の天", "天気", "気"]
    assert query_terms("東京の天気") == [Term("東京"), Term("京の"), Term("の天"), Term("天気")]
    assert query_terms("茶") == [Term("茶", prefix=True)]


@pytest.mark.parametrize("query", ["", " ", "!?", "'", '"', "-- ;", "* AND", "()", "\x00", "́"])
def test_a_query_is_never_an_operator(query: str) -> None:
    assert set(query_terms(query)) <= {Term("and")}


@tried(120)
@given(texts)
def test_the_terms_of_a_query_are_distinct(query: str) -> None:
    terms = query_terms(query)
    assert len(set(terms)) == len(terms)


def test_a_query_of_any_length_keeps_all_of_its_words() -> None:
    assert len(query_terms(" ".join(f"w{i}" for i in range(1000)))) == 1000


def test_long_runs_without_a_break_are_no_words() -> None:
    assert tokens("x" * 101 + " " + "é" * 101) == []
    assert tokens("x" * 100) == ["x" * 100]
    assert query_terms("é" * 101 + "Ω" * 101) == []


def test_every_character_is_folded_to_something_that_folds_to_itself() -> None:
    changed = [
        character
        for character in map(chr, range(0x80, sys.maxunicode + 1))
        if len(found := tokens(character)) == 1 and tokens(found[0]) != found
    ]
    assert changed == []
