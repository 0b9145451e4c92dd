"""Relevance of memories to a prompt: what the stores of memories order their hits by.

A hybrid search of a `Store` goes by the ranks in two rankings. A prompt has words that most
memories have as well, and then the ranking by words is worth less than that by meaning, but counts
as much. Here both give a number that says how well a memory fits, and the relevance is their mean:

- by words, the share of the query that the memory holds;
- by meaning, how near its vector is, from 0 for the farthest of those found to 1 for the nearest.
  Models differ in what they call near, so similarities are comparable within one search alone.

See Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", 2023.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeVar

from memalchemy.contracts import Match, SearchHit, SearchMode
from memalchemy.database import HostConnection
from memalchemy.errors import AnsweredByWordsWarning
from memalchemy.memory._encryption import search_mode
from memalchemy.search.hybrid import check_fraction, fusion_depth
from memalchemy.search.ranking import share_of
from memalchemy.store import Store
from memalchemy.store.item_search import OtherDimensions, by_words_notice
from memalchemy.store.settings import Namespace

LEAST_RANGE = 0.1
"""The least difference of scores that is stretched from 0 to 1: of memories that are all about as
near none is made out to be far."""

T = TypeVar("T")

Place = tuple[tuple[str, ...], str]


async def relevant_hits(
    store: Store,
    namespaces: Sequence[Namespace],
    query: str,
    limit: int,
    *,
    match: Match = "any",
    filter: Mapping[str, Any] | None = None,
    threshold: float | None = None,
    connection: HostConnection | None = None,
) -> list[SearchHit]:
    """Return at most *limit* items of the namespaces, the most relevant first.

    The score of a hit is its relevance, 0 to 1; of equal ones the namespaces take turns. A store
    without an embedder is searched by words, and an encrypted one without readable words by
    meaning. What cannot be searched at all has no hits.
    """
    check_fraction(threshold, "threshold")
    mode = search_mode(store)
    if mode is None:
        return []
    how: dict[str, Any] = {"match": match, "filter": filter, "connection": connection}
    if mode == "text":
        found = await _search(store, namespaces, query, limit, **how)
    else:
        found = await _search_by_meaning(store, mode, namespaces, query, limit, **how)
    ranked = sorted(found, key=_score, reverse=True)
    return [hit for hit in ranked if _score(hit) >= (threshold or 0.0)][:limit]


async def _search_by_meaning(
    store: Store,
    mode: SearchMode,
    namespaces: Sequence[Namespace],
    query: str,
    limit: int,
    **how: Any,
) -> list[SearchHit]:
    """Search by meaning and, unless *mode* is ``vector``, by words; the scores are relevances."""
    depth, by_words = fusion_depth(limit), list[SearchHit]()
    if mode != "vector":
        by_words = await _search(store, namespaces, query, depth, **how)
    try:
        by_meaning = await _search(store, namespaces, query, depth, mode="vector", **how)
    except OtherDimensions as error:
        if mode == "vector":
            raise
        warnings.warn(by_words_notice(error), AnsweredByWordsWarning, stacklevel=2)
        return by_words
    nearness = _nearness(by_meaning)
    if mode == "vector":
        return [replace(hit, score=nearness[_place(hit)]) for hit in by_meaning]
    # The score is the root of the share, in which words that most memories have count for more.
    shares = {_place(hit): share_of(_score(hit)) for hit in by_words}
    return [
        replace(hit, score=(shares.get(place, 0.0) + nearness.get(place, 0.0)) / 2)
        for place, hit in {_place(hit): hit for hit in (*by_meaning, *by_words)}.items()
    ]


async def _search(
    store: Store, namespaces: Sequence[Namespace], query: str, limit: int, **how: Any
) -> list[SearchHit]:
    """Search each namespace, and let their hits take turns."""
    hits = await store.search_many(namespaces, query, limit, **how)
    return interleave([[hit for hit in hits if hit.namespace == tuple(one)] for one in namespaces])


def _nearness(hits: list[SearchHit]) -> dict[Place, float]:
    """Return by place how near a hit's vector is: 1 for the nearest, about 0 for the farthest."""
    scores = {_place(hit): _score(hit) for hit in hits}
    most, least = max(scores.values(), default=0.0), min(scores.values(), default=0.0)
    stretch = max(most - least, LEAST_RANGE)
    return {place: 1 - (most - score) / stretch for place, score in scores.items()}


def _place(hit: SearchHit) -> Place:
    return hit.namespace, hit.key


def _score(hit: SearchHit) -> float:
    return hit.score or 0.0


def interleave(lists: Iterable[Sequence[T]]) -> list[T]:
    """Return the first of each list, then the second of each, and so on."""
    return [one for rank in zip_longest(*lists) for one in rank if one is not None]
