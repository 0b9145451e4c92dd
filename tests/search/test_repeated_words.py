"""BM25 counts the words of both forms of search text alike: once with a number, and in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import tried

from memalchemy.codec.search_text import MOST_COUNTED, search_text
from memalchemy.codec.tokens import query_terms, tokens
from memalchemy.search.ranking import bm25_weights, holds_term

WORDS = ["flight", "Flight", "flights", "to", "a", "東京", "naïve", "ok42"]
said = st.lists(st.sampled_from(WORDS), min_size=1, max_size=MOST_COUNTED).map(" ".join)


def in_order(text: str) -> str:
    return "# " + " ".join(tokens(text))


@tried(200)
@given(
    st.lists(st.tuples(said, st.booleans()), min_size=1, max_size=6),
    st.sampled_from([*WORDS, "no"]),
)
def test_a_database_that_has_rows_of_both_forms_ranks_them_as_if_all_were_of_one(
    texts: list[tuple[str, bool]], query: str
) -> None:
    terms = query_terms(query)
    mixed = [search_text([text]) if is_new else in_order(text) for text, is_new in texts]
    as_before = [in_order(text) for text, _ in texts]
    assert bm25_weights(terms, mixed) == pytest.approx(bm25_weights(terms, as_before))
    assert [holds_term(one, terms) for one in mixed] == [
        holds_term(one, terms) for one in as_before
    ]


def test_the_more_often_a_word_occurs_the_more_a_text_of_its_length_is_about_it() -> None:
    texts = [search_text(["tide " * n + "ebb " * (30 - n)]) for n in (1, 2, 5, 9, 15, 20)]
    weights = bm25_weights(query_terms("tide"), texts)
    assert weights == sorted(weights)
    assert len({*weights}) == len(weights)
