"""Of the texts of a value that one is shown for which a search has found it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from states import tried
from texts import texts

from memalchemy.codec.search_text import search_text
from memalchemy.codec.snippets import best_text, excerpt, highlighted
from memalchemy.codec.tokens import Term, query_terms, tokens


@tried(300)
@given(st.lists(texts, min_size=1, max_size=8), st.data())
def test_the_text_that_was_found_is_one_that_holds_the_term(
    strings: list[str], data: st.DataObject
) -> None:
    added = data.draw(st.lists(st.sampled_from(strings), min_size=1, max_size=3))
    stored = search_text(added)
    assume(stored)
    assert stored is not None
    token = data.draw(st.sampled_from(tokens(" ".join(added)) or [""]))
    assume(token)
    term = Term(token.lower() if token.isascii() else token)
    found = best_text(strings, stored, [term])

    holding = [text for text in strings if token.casefold() in map(str.casefold, tokens(text))]
    if holding:
        assert found is not None
        assert found in strings
        part = excerpt(found, stored, [term])
        assert part.removeprefix("…").removesuffix("…") in unicodedata.normalize("NFC", found)


def test_of_texts_that_hold_the_words_that_which_was_added_is_found() -> None:
    strings = ["A parcel!", "a parcel, a parcel?", "The parcel.", "no", "A parcel"]
    terms = query_terms("parcel")
    assert best_text(strings, "# The parcel", terms) == "The parcel."
    assert best_text(strings, "# no", terms) == "A parcel"
    assert best_text(["no", "none"], "# parcel", terms) is None
    assert best_text(strings[1:3], "# a parcel a parcel The parcel", query_terms("a parcel")) == (
        "a parcel, a parcel?"
    )
    assert excerpt(None, "# The parcel", terms).endswith("The parcel")


@pytest.mark.parametrize("place", [0, 1_950, 2_000, 2_050, 3_999, 19_990, 20_050, 100_000])
@pytest.mark.parametrize("filling", ["ä b ", "東京の天気", "aaaaé"])
def test_a_match_anywhere_in_a_text_is_highlighted(filling: str, place: int) -> None:
    before = (filling * (place // len(filling) + 1))[:place]
    text = f"{before} needle! {filling * 100}"
    pieces = highlighted(text, query_terms("needle"))
    assert [piece["text"] for piece in pieces if piece["hit"]] == ["needle"]
