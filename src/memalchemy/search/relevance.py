"""Order what a text search has found by BM25, in Python, alike on every database.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.

SQL finds the candidates: the items that hold most of the query, rare words counting more, of equals
the newest. BM25 then orders them by how often they hold each word and how long they are. The
candidates are the collection whose averages it uses, so nothing but the items that may be returned
decides about their order: no other tenant's, no other namespace's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Executable

from memalchemy.dialects import Dialect
from memalchemy.statements import Program

CANDIDATES = 500
"""Hits that are ordered by BM25. Those beyond follow as SQL has ordered them."""

OPENING = 8000
"""Characters of a hit's words that BM25 looks at: the first."""

SATURATION = 1.2
LENGTH_SHARE = 1.0
"""BM25's k1 and b. With a smaller b docstrings were ranked worse: length counts in full."""

COMMON = 0.25
"""What is added to a term's inverse document frequency: one that all hits hold counts a little."""

Scored = tuple[float, Any]
"""A score from 0 to 1, and the row that has it."""


class Ranking:
    """The order of one search's hits, page by page.

    *terms* are those of `codec.text.query_terms`. Rows have ``score``, the share of the query that
    they hold, and on the first page ``opening``, the beginning of their words.
    """

    def __init__(self, terms: Sequence[Sequence[str]]) -> None:
        self._terms = terms
        self._floor: tuple[float, float] | None = None

    def page(self, rows: Sequence[Any]) -> list[Scored]:
        """The next rows as SQL has ordered them, best first, none above one of an earlier page."""
        if not rows:
            return []
        if self._floor is None:
            ranked = self._weighed(rows)
        else:
            score, share = self._floor
            ranked = [(score * float(row.score) / share, row) for row in rows]
        self._floor = ranked[-1][0], float(rows[-1].score)
        return ranked

    def _weighed(self, rows: Sequence[Any]) -> list[Scored]:
        weights = weigh(self._terms, [row.opening for row in rows])
        # Sorting is stable: equals stay in the order of SQL.
        order = sorted(range(len(rows)), key=lambda at: -weights[at])
        best = order[0]
        share = float(rows[best].score)
        return [(share * (weights[at] / weights[best]), rows[at]) for at in order]


def in_order(
    d: Dialect,
    terms: Sequence[Sequence[str]],
    binds: Mapping[str, Any],
    limit: int,
    *,
    search: Callable[[bool], Executable],
    read: Executable,
    is_whole: Callable[[Any], bool],
) -> Program[list[Scored]]:
    """The best *limit* rows of a log that *search* finds, each with its score.

    *search* makes the statement of a page, weighed or not; *read* reads the rows that ``p_keys``
    lists, where `is_whole` says that a page has not brought them along. Rows that are deleted
    between two statements are missing.
    """
    ranking, found, weighed = Ranking(terms), list[Scored](), True
    page = {"p_limit": CANDIDATES, "p_offset": 0}
    while len(found) < limit:
        rows = yield search(weighed), {**binds, **page}
        ranked = ranking.page(rows)[: limit - len(found)]
        if not ranked or (weighed and is_whole(ranked[0][1])):
            found += ranked
        else:
            whole: dict[tuple[UUID, int], Any] = {}
            keys = [(row.log_id, row.seq) for _, row in ranked]
            for listed in d.statements.list_batches(
                "p_keys", [(log_id, str(seq)) for log_id, seq in keys]
            ):
                for row in (yield read, {**binds, **listed}):
                    whole[row.log_id, row.seq] = row
            found += [
                (score, whole[key])
                for key, (score, _) in zip(keys, ranked, strict=True)
                if key in whole
            ]
        if len(rows) < page["p_limit"]:
            break
        weighed = False
        page = {"p_limit": 4 * page["p_limit"], "p_offset": page["p_offset"] + len(rows)}
    return found


def weigh(terms: Sequence[Sequence[str]], texts: Sequence[str | None]) -> list[float]:
    """The BM25 weight of each text for *terms*, over these texts; more than zero for each.

    A text that holds no term counts as half of one that holds the commonest once: what matched lies
    beyond its beginning.
    """
    counts = [_count(terms, text or "") for text in texts]
    average = sum(length for length, _ in counts) / len(counts)
    rarity = []
    for term in range(len(terms)):
        holders = sum(1 for _, found in counts if found[term])
        rarity.append(COMMON + math.log1p((len(texts) - holders + 0.5) / (holders + 0.5)))
    least = min(rarity)
    weights = []
    for length, found in counts:
        damped = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / average)
        weight = sum(
            rare * often / (often + damped) for rare, often in zip(rarity, found, strict=True)
        )
        weights.append(weight or least / (1 + damped) / 2)
    return weights


def _count(terms: Sequence[Sequence[str]], text: str) -> tuple[int, list[int]]:
    """How many words *text* has, at least one, and how often it holds each term."""
    # In bytes, which lower() changes only where they are ASCII: other words are casefolded, which
    # for a few scripts is not lower case. Two spaces between words, so that each has its own.
    words = text.encode("utf-8", "replace").lower()
    spaced = b" " + words.replace(b" ", b"  ") + b" "
    found = [spaced.count(f" {'  '.join(term)} ".encode("utf-8", "replace")) for term in terms]
    return words.count(b" ") + 1, found
