"""Word queries: the terms that a text search looks for, first as they are, then in other forms.

A query may be of any length. Of more than `MOST_TERMS` those are looked for that the fewest rows
hold, so that words before and after the question do not hide it.

Rows of a database that an older release has filled may have words of version 1. A pass of its own
looks for these, until the words are rebuilt.

Where too little is found, a last pass looks for the beginnings of words, so that another form of
a word is found too: no language has to be known for that, and nothing stands in the index for it.
Beside hits it leaves out the beginnings that very many rows hold. What a pass finds comes after
what those before it have found.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from memalchemy.codec.first_tokens import first_query_terms
from memalchemy.codec.tokens import Term, query_terms
from memalchemy.contracts import Match
from memalchemy.dialects import Dialect

MOST_TERMS = 32
"""Terms that one search looks for."""

MOST_COUNTED = 4096
"""Terms of a query from which the rarest are chosen: of a longer one the first and last half."""

RARE = 200
"""Rows that hold another form of a word at most, if some hold a word of the query as it is: those
of a more frequent one say little, and weighing them takes the longer the more they are."""

CUT = 2
"""Letters that are cut from a word's end in the last pass."""

SHORTEST = 4
"""Letters that are left of it at least."""


@dataclass(frozen=True, slots=True)
class WordQuery:
    """The terms of one pass of a search."""

    terms: tuple[Term, ...]
    number: int
    """The number of terms by which a row's coverage is measured: also those that no row holds."""
    match: Match = "any"
    first_terms: tuple[Term, ...] = ()
    """The terms that find words of version 1; none if rows have none, or `terms` find them."""
    is_of_other_forms: bool = False
    """True in the last pass."""
    is_rare: bool = False
    """True if only terms are looked for that at most `RARE` rows hold."""

    @classmethod
    def of(cls, text: str, match: Match = "any", *, first_words: bool = False) -> WordQuery:
        """Return the query for a text that a user has written.

        With *first_words* rows may have words of version 1, which it finds too.
        """
        terms, first = query_terms(text), first_query_terms(text) if first_words else []
        if match == "any":
            first = first[:MOST_TERMS]
            if len(terms) > MOST_COUNTED:
                half = MOST_COUNTED // 2
                terms = terms[:half] + terms[-half:]
        others = () if set(first) <= set(terms) else tuple(first)
        return cls(tuple(terms), len(terms), match, others)

    def __bool__(self) -> bool:
        return bool(self.terms)

    @property
    def is_one(self) -> bool:
        """True if there is one term, which all rows that are found hold."""
        return len(self.terms) == 1 == self.number

    @property
    def is_long(self) -> bool:
        """True if the rarest of the terms have to be chosen, by `rarest`: not if all are wanted."""
        return self.match == "any" and len(self.terms) > MOST_TERMS

    def binds(self, dialect: Dialect) -> dict[str, Any]:
        """Return the binds of a search: ``terms``, ``p_terms``, ``p_least``, and of rare terms
        ``p_most`` and ``p_beyond``.
        """
        return {
            "terms": dialect.text.terms(self.terms),
            "p_terms": self.number,
            "p_least": self.number if self.match == "all" else 1,
            "p_most": RARE,
            "p_beyond": RARE + 1,
        }

    def rarest(self, dialect: Dialect, counts: Mapping[str, int]) -> WordQuery:
        """Return the query with the `MOST_TERMS` rarest terms.

        *counts* has the number of rows that hold a term, by what `TextIndexes.term` makes of it. A
        term that no row holds has none; it is not looked for, and counts as missing.
        """
        found = [term for term in self.terms if dialect.text.term(term) in counts]
        found.sort(key=lambda term: counts[dialect.text.term(term)])
        missing = len(self.terms) - len(found)
        chosen = tuple(found[:MOST_TERMS])
        return replace(self, terms=chosen, number=len(chosen) + min(missing, MOST_TERMS))

    def shown_terms(self) -> tuple[Term, ...]:
        """Return the terms of all passes, which a snippet of a hit shows."""
        passes = (self, self.in_first_words(), self.in_other_forms())
        return tuple(term for query in passes if query is not None for term in query.terms)

    def in_first_words(self) -> WordQuery | None:
        """Return the query that finds words of version 1, or ``None`` if this one finds them."""
        first = self.first_terms
        return replace(self, terms=first, number=len(first), first_terms=()) if first else None

    def in_other_forms(self) -> WordQuery | None:
        """Return the query of the last pass, or ``None`` if there is nothing else to look for."""
        if self.match == "all":
            return None
        others = dict.fromkeys(form for term in self.terms for form in _forms(term))
        terms = tuple(others)[:MOST_TERMS]
        if not terms:
            return None
        number = max(self.number, len(terms))
        return replace(self, terms=terms, number=number, is_of_other_forms=True)


def _forms(term: Term) -> Iterator[Term]:
    """Yield the beginnings by which other forms of a term are found."""
    if term.prefix:
        return
    if len(term.text) == 2 and all("\u3400" <= one <= "\u9fff" for one in term.text):
        yield from (Term(one, prefix=True) for one in term.text)
        return
    letters = [at for at, one in enumerate(term.text) if unicodedata.category(one)[0] == "L"]
    left = max(len(letters) - CUT, SHORTEST)
    # What has digits is a name or a number, of which there are no forms.
    if left < len(letters) and not any(map(str.isnumeric, term.text)):
        yield Term(term.text[: letters[left]], prefix=True)
