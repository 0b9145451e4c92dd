"""Ranking of the rows that a text search finds: coverage of the query and BM25, and its passes.

See Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from memalchemy.codec.search_text import number_of_words, occurrences_at
from memalchemy.codec.tokens import Term
from memalchemy.search.word_query import WordQuery

BM25_SHARE = 0.2
"""The part of a score that BM25 decides, for each term of the query, up to all of it. More terms
mean a longer text to find, of which BM25 tells more."""

COVERAGE_POWER: float = 0.5
"""The power of the coverage in a score: what is rare decides, and frequent words still count."""

SATURATION = 2.0
"""BM25's parameter k1."""
LENGTH_POWER = 0.75
"""The power of a text's length, as a share of the average, by which its occurrences count less."""
COMMON = 0.25
"""Addition to a term's inverse document frequency: a term that all rows hold counts a little."""

OTHER_FORMS = 0.45
"""The highest score of a row that holds other forms of the words only."""

ENOUGH = 10
"""Hits with which no other forms of the words are looked for."""

ScoredRow = tuple[float, Any]
"""A score from 0 to 1, and the row that has it."""


class Ranking:
    """Order of the rows of one pass of a search, page by page.

    Rows have ``score``, their coverage of the query, and on the first page ``opening``, the start
    of their search text.
    """

    def __init__(self, terms: Sequence[Term], most: float, seen: Collection[object]) -> None:
        self._terms = terms
        self._most = most
        """The score of a row that is as the query is."""
        self._seen = seen
        """The keys of rows that an earlier pass has found, which are left out."""
        self._last: tuple[float, float] | None = None
        """Score and coverage of the last row of the previous page."""

    def rank(self, rows: Sequence[Any], key: Callable[[Any], object]) -> list[ScoredRow]:
        """Return the next page of rows with their scores, none above one of an earlier page.

        The first page is ordered by coverage and BM25; the later ones stay in the order of SQL.
        """
        rows = [row for row in rows if key(row) not in self._seen] if self._seen else rows
        if not rows:
            return []
        if self._last is None:
            ranked = self._rank_first(rows)
        else:
            score, coverage = self._last
            ranked = [(score * float(row.score) / coverage, row) for row in rows]
        self._last = ranked[-1][0], float(rows[-1].score)
        return ranked

    def _rank_first(self, rows: Sequence[Any]) -> list[ScoredRow]:
        weights = bm25_weights(self._terms, [row.opening for row in rows])
        best, share = max(weights), min(1.0, BM25_SHARE * len(self._terms))
        coverages = [min(float(row.score), 1.0) for row in rows]
        # What holds all terms comes before all that holds some: its score is not below theirs.
        most = max((one for one in coverages if one < WHOLE), default=0.0)
        whole_share = min(share, 1 - most**COVERAGE_POWER)
        parts: dict[float, tuple[float, float]] = {}
        for coverage in set(coverages):
            highest = self._most * coverage**COVERAGE_POWER
            parts[coverage] = highest, highest * (whole_share if coverage >= WHOLE else share)
        scores = [
            highest - of_bm25 * (1 - weight / best)
            for weight, (highest, of_bm25) in zip(
                weights, map(parts.__getitem__, coverages), strict=True
            )
        ]
        # Sorting is stable: rows of equal score stay in the order of SQL.
        order = sorted(range(len(rows)), key=scores.__getitem__, reverse=True)
        return [(scores[at], rows[at]) for at in order]


def share_of(score: float) -> float:
    """Return the share of a query that a hit by words with this score holds, about."""
    share: float = score ** (1 / COVERAGE_POWER)
    return share


class Passes:
    """The passes of a search: what one has found comes before all that the next one finds."""

    def __init__(self, query: WordQuery) -> None:
        self._queries = [query, query.in_first_words(), query.in_other_forms()]
        self._least = 1.0
        self._seen: set[object] = set()
        self._hits = 0

    def next(self) -> tuple[WordQuery, Ranking] | None:
        """Return the query of the next pass and its ranking, if there is one."""
        while self._queries:
            query, highest = self._queries.pop(0), 1.0
            if query and query.is_of_other_forms:
                if self._hits >= ENOUGH:
                    return None
                query, highest = replace(query, is_rare=self._hits > 0), OTHER_FORMS
            if query:
                most = min(highest, self._least)
                return query, Ranking(query.terms, most, frozenset(self._seen))
        return None

    def note(self, ranked: Iterable[ScoredRow], key: Callable[[Any], object], hits: int) -> None:
        """Note the rows that a pass has found, and the number of *hits* among them."""
        self._hits += hits
        for score, row in ranked:
            self._least = min(self._least, score)
            self._seen.add(key(row))


WHOLE = 1 - 1e-9
"""The coverage of a row that holds all terms, which is computed with floats."""


def bm25_weights(terms: Sequence[Term], texts: Sequence[str | None]) -> list[float]:
    """Return the BM25 weight of each text for *terms*, with these texts as the collection.

    All weights are positive. A text that holds no term weighs half of one that holds the commonest
    term once: the term occurs beyond the part of the text that is here.
    """
    filled = [text or "" for text in texts]
    lengths = [number_of_words(text) for text in filled]
    average = sum(lengths) / len(lengths)
    damping_of = {
        length: SATURATION * (length / average) ** LENGTH_POWER for length in set(lengths)
    }
    dampings = [damping_of[length] for length in lengths]
    # All texts are searched at once.
    joined = _with_ascii_lowered(f" {' '.join(filled)} ")
    ends = list(accumulate((len(text) + 1 for text in filled), initial=0))
    weights, least = [0.0] * len(filled), math.inf
    for term in terms:
        counts: defaultdict[int, int] = defaultdict(int)
        for place in _places_of_term(joined, term):
            at = bisect(ends, place) - 1
            counts[at] += occurrences_at(joined, ends[at], place)
        holders = len(counts)
        idf = COMMON + math.log1p((len(filled) - holders + 0.5) / (holders + 0.5))
        least = min(least, idf)
        for at, count in counts.items():
            weights[at] += idf * count / (count + dampings[at])
    return [
        weight or least / (1 + damping) / 2
        for weight, damping in zip(weights, dampings, strict=True)
    ]


def holds_term(text: str | None, terms: Sequence[Term]) -> bool:
    """Return whether a search text holds one of *terms*."""
    lowered = _with_ascii_lowered(f" {text or ''} ")
    return any(next(_places_of_term(lowered, term), None) is not None for term in terms)


def _with_ascii_lowered(text: str) -> str:
    """Return *text* with ASCII in lower case: the other words are casefolded already.

    Casefolding differs from lower case for a few scripts.
    """
    if text.isascii():
        return text.lower()
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _places_of_term(text: str, term: Term) -> Iterator[int]:
    """Yield where *term* occurs in *text*, in which each word is between spaces."""
    wanted = f" {term.text}" if term.prefix else f" {term.text} "
    place = text.find(wanted)
    while place >= 0:
        yield place
        # The space at its end may be that before the next occurrence.
        place = text.find(wanted, place + len(wanted) - 1)
