"""A store's search: by words, by meaning, by both. SQL ranks; Python decides about a filter."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from memalchemy.codec import text
from memalchemy.contracts import (
    SearchHit,
    SearchHits,
    SearchPlan,
    SemanticSearchResult,
    StoreItem,
    check_flag,
    check_limit,
    check_query,
)
from memalchemy.database import HostConnection, off_loop
from memalchemy.errors import InvalidArgument
from memalchemy.events import Event, operation
from memalchemy.filters import Filter
from memalchemy.keys import check_list, encode_namespace
from memalchemy.search.items import search_items
from memalchemy.search.relevance import CANDIDATES, Ranking
from memalchemy.search.scope import scope_binds
from memalchemy.search.vectors import Wanted, check_vector, nearest
from memalchemy.store import queries
from memalchemy.store.answering import Answer
from memalchemy.store.diversity import differing, pool_of
from memalchemy.store.embedding import embed, no_embedder
from memalchemy.store.fusion import FUSED, Ranked, check_share, fused
from memalchemy.store.listing import Listing
from memalchemy.store.shelf import Namespace, taken

MODES = ("text", "vector", "hybrid")

PAGE = 100
"""Candidates that are looked at together, where a filter may drop some; at first."""

LARGEST_PAGE = 20_000


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for, and where."""

    path: str
    below: bool
    query: str | None
    vector: Any
    model: str
    filter: Filter | None
    threshold: float | None
    connection: HostConnection | None
    event: Event


class Searching(Listing):
    """Finding items."""

    async def search(
        self,
        namespace: Namespace,
        query: str | None = None,
        limit: int = 10,
        *,
        prefix: bool = False,
        mode: str = "text",
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        threshold: float | None = None,
        embedding: Any | None = None,
        model: str | None = None,
        alpha: float | None = None,
        mmr: float | None = None,
        explain: bool = False,
        connection: HostConnection | None = None,
    ) -> SearchHits:
        """Items of the namespace, with *prefix* also of those below it, the best first.

        There are fewer than *limit* only where no more exist. Without *query* and *embedding* they
        are listed, the newest first, without a score, whatever *mode* and *threshold* say.

        Args:
            mode: ``text``: by words, any of them, rare ones counting more; the 500 best are ordered
                by BM25. The score of the first is the share of the query that it holds, those of
                the others are in proportion. ``vector``: by meaning, as the store's metric has it.
                ``hybrid``: by both rankings, in which a place near the top counts most.
            filter: see `memalchemy.filters`.
            offset: how many of the best to leave out. Pages of a hybrid search fit together as
                far as its first 100 hits; those beyond, as far as its first 1,000.
            threshold: the least score.
            embedding: the vector to look for; otherwise the embedder makes one of *query*. Without
                *query* the mode ``text`` looks for it by meaning too.
            alpha: what the ranking by meaning weighs in a hybrid one, 0 to 1; that by words weighs
                the rest. Half each, if not given.
            mmr: 0 to 1: hits that differ, in the modes ``vector`` and ``hybrid``. Each next one is
                the best by ``mmr * score - (1 - mmr) * likeness`` to those before it, among four
                times as many as are wanted; so they are not in the order of their scores. Hits
                beyond the first 1,000 are.
            explain: say in ``plans`` how it was found.

        Accents and case do not matter, Chinese, Japanese and Korean words are found, and nothing in
        *query* is an operator. A query without words finds nothing by words.

        Raises:
            StoreCapabilityError: a vector of *query* is needed, and there is no embedder; or the
                database is encrypted, and holds no readable words or vectors to look in.
                ``capability`` is ``search`` for words, ``semantic_search`` for vectors.
            TooLarge: the values take over 256 MiB together; ask for fewer.
            ValueError: there are vectors of the model, but none of this size; or *query* and
                *embedding* are both given, in the mode ``text``.
        """
        limit, offset = check_limit(limit), check_limit(offset)
        check_flag(prefix, "prefix")
        if mode not in MODES:
            raise ValueError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
        if query is not None:
            check_query(query)
        if embedding is not None and mode == "text":
            if query is not None:
                raise InvalidArgument("embedding= is for the modes vector and hybrid")
            mode = "vector"
        _check_threshold(threshold)
        check_share(alpha, "alpha")
        check_share(mmr, "mmr")
        if alpha is not None and mode != "hybrid":
            raise InvalidArgument("alpha= is for the mode hybrid")
        if mmr is not None and mode == "text":
            raise InvalidArgument("mmr= is for the modes vector and hybrid")
        path, wanted = encode_namespace(namespace), Filter.parse(filter)
        if query is None and embedding is None:
            with operation("store.search", **self._about(namespace)) as event:
                answer = Answer(self.db.keyring, wanted)
                pages = self._pages(
                    path, prefix, "newest", None, limit + offset, answer, connection, event
                )
                items = await taken(pages, limit + offset)
            return _hits([_hit(item, None) for item in items[offset:]], [_LISTED], explain)
        if mode != "vector":
            self.db.keyring.check_reveals("text", "a search by words", store="Store")
        vector = await self._vector(query, embedding) if mode != "text" else None
        with operation("store.search", **self._about(namespace)) as event:
            name = self._settings.model_of(model)
            question = Question(
                path, prefix, query, vector, name, wanted, threshold, connection, event
            )
            plans: list[SearchPlan] = []
            most = limit + offset
            depth = most if mmr is None else pool_of(most)
            found = await self._found(mode, question, depth, plans, alpha)
            if mmr is not None:
                found = await differing(self, found, mmr, most, name, connection, event)
        return _hits([_hit(one.item, one.score) for one in found[offset:]], plans, explain)

    async def search_many(
        self,
        namespaces: Iterable[Namespace],
        query: str | None = None,
        limit: int = 10,
        *,
        prefix: bool = False,
        mode: str = "text",
        filter: Mapping[str, Any] | None = None,
        threshold: float | None = None,
        embedding: Any | None = None,
        model: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[StoreItem]:
        """The hits of each namespace, at most *limit* of each, in the order of *namespaces*.

        Otherwise as `search`; the embedder is called once.
        """
        if embedding is None and query is not None and mode != "text":
            embedding = await self._vector(query, None)
            if embedding is None and mode == "vector":
                return []
        found: list[StoreItem] = []
        for namespace in check_list(namespaces, "namespaces"):
            found += await self.search(
                namespace,
                query,
                prefix=prefix,
                mode=mode,
                filter=filter,
                limit=limit,
                threshold=threshold,
                embedding=embedding,
                model=model,
                connection=connection,
            )
        return found

    async def search_by_embedding(
        self,
        namespace: Namespace,
        query_embedding: Any,
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        prefix: bool = False,
        model: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[SemanticSearchResult]:
        """Items by the nearness of their vectors, the nearest first, each with its distance.

        An item of several vectors counts by the nearest of them. *filter* is of value and metadata,
        *metadata_filter* of the metadata alone; *offset* leaves out as many of the nearest.
        """
        limit, offset = check_limit(limit), check_limit(offset)
        check_flag(prefix, "prefix")
        _check_threshold(threshold)
        path = encode_namespace(namespace)
        filters = [filter] if filter else []
        if metadata_filter:
            filters.append({"$metadata": metadata_filter})
        wanted = Filter.parse({"$and": filters} if filters else None)
        vector = check_vector(query_embedding, "query_embedding")
        self.db.keyring.check_reveals("vectors", "a search by meaning", store="Store")
        with operation("store.search", **self._about(namespace)) as event:
            name = self._settings.model_of(model)
            question = Question(
                path, prefix, None, vector, name, wanted, threshold, connection, event
            )
            found = await self._found("vector", question, limit + offset, [])
        return [SemanticSearchResult(one.item, one.score, one.distance) for one in found[offset:]]

    async def _vector(self, query: str | None, embedding: Any | None) -> Any:
        self.db.keyring.check_reveals("vectors", "a search by meaning", store="Store")
        if embedding is not None:
            return check_vector(embedding)
        if self._settings.embedder is None:
            raise no_embedder("a search by meaning")
        assert query is not None
        return (await embed(self._settings.embedder, [query]))[0] if query.strip() else None

    async def _found(
        self,
        mode: str,
        question: Question,
        limit: int,
        plans: list[SearchPlan],
        alpha: float | None = None,
    ) -> list[Ranked]:
        if mode == "hybrid":
            most = next((depth for depth in FUSED if limit <= depth), limit)
            both = [
                await _gathered(self._by_words(question, most, plans), most),
                await _gathered(self._by_meaning(question, most, plans), most),
            ]
            found = fused(both, alpha)
            plans.append(SearchPlan("hybrid", "both rankings, fused by reciprocal rank"))
        else:
            leg = self._by_words if mode == "text" else self._by_meaning
            found = await _gathered(leg(question, limit, plans), limit)
        least = -math.inf if question.threshold is None else question.threshold
        return [one for one in found if one.score >= least][:limit]

    async def _by_words(
        self, question: Question, limit: int, plans: list[SearchPlan]
    ) -> AsyncGenerator[list[Ranked]]:
        terms = text.query_terms(question.query or "")
        plans.append(
            SearchPlan("text", "an index of words, and of the namespace", {"terms": len(terms)})
        )
        if not terms or not limit:
            return
        d = self.db.dialect
        binds = {
            "terms": d.text_terms(terms),
            "p_terms": len(terms),
            "p_limit": CANDIDATES,
            "p_offset": 0,
        }
        binds |= scope_binds(self.db.tenant, question.path, question.below)
        fields = self._words_of(question.filter)
        binds |= d.item_scope(self.db.tenant, question.path, question.below, fields)
        asked: dict[str, Any] = {"connection": question.connection, "event": question.event}
        answer = Answer(self.db.keyring, question.filter)
        ranking, weighed = Ranking(terms), True
        while True:
            statement = search_items(d, below=question.below, weighed=weighed)
            rows = await self._rows(statement, binds, **asked, stale=True)
            size = sum(len(row.opening or "") for row in rows) if weighed else 0
            ranked = await off_loop(size, partial(ranking.page, rows))
            whole = weighed and bool(rows) and rows[0].codec is not None
            at = 0
            while at < len(ranked):
                # Where a filter drops most, few large pages cost less.
                size = limit if question.filter is None else max(limit, PAGE, at)
                page = ranked[at : at + size]
                at += len(page)
                scores = {(row.namespace, row.key): score for score, row in page}
                read = [row for _, row in page] if whole else []
                found = await self._items(list(scores), answer, **asked, read=read)
                yield [Ranked(item, scores[place]) for place, item in found.items()]
            if len(rows) < binds["p_limit"]:
                return
            weighed = False
            binds["p_offset"] += len(rows)
            # Each page ranks anew.
            binds["p_limit"] = min(max(4 * binds["p_limit"], limit), LARGEST_PAGE)

    async def _by_meaning(
        self, question: Question, limit: int, plans: list[SearchPlan]
    ) -> AsyncGenerator[list[Ranked]]:
        if question.vector is None or not limit:
            return
        wanted = Wanted(
            tenant=self.db.tenant,
            path=question.path,
            below=question.below,
            model=question.model,
            vector=question.vector,
            metric=self._settings.metric,
            among=self._narrowed(question.path, question.below, question.filter),
        )
        answer = Answer(self.db.keyring, question.filter)
        ranking = nearest(
            self.db,
            wanted,
            datetime.now(UTC),
            connection=question.connection,
            event=question.event,
            stale=True,
        )
        size = limit if question.filter is None else max(limit, PAGE)
        near = await ranking.page(size)
        plans.append(ranking.plan)
        if not near and not await self._has_vectors(question):
            reason = f"there are no vectors of the model {question.model!r} here"
            plans[-1] = replace(ranking.plan, reason=reason)
        while near:
            plans[-1] = ranking.plan
            by_place = {(one.namespace, one.key): one for one in near}
            items = await self._items(
                list(by_place),
                answer,
                question.connection,
                question.event,
                read=[one.stored for one in near if one.stored is not None],
            )
            yield [
                Ranked(item, by_place[place].score, by_place[place].distance)
                for place, item in items.items()
            ]
            near = await ranking.page(size)

    async def _has_vectors(self, question: Question) -> bool:
        """Whether there are vectors of the model. Nothing is near one of another size: say so,
        rather than to find nothing.
        """
        binds = scope_binds(self.db.tenant, question.path, question.below)
        statement = queries.other_size(self.db.dialect, below=question.below)
        rows = await self._rows(
            statement, binds | {"p_model": question.model}, question.connection, stale=True
        )
        size = len(question.vector)
        if rows and rows[0].dimensions != size:
            raise InvalidArgument(
                f"the vector to look for has {size:,} dimensions; there is none of that size under "
                f"the model {question.model!r} here, but one of {rows[0].dimensions:,}"
            )
        return bool(rows)


_LISTED = SearchPlan("list", "nothing was asked for: the newest first")


async def _gathered(pages: AsyncGenerator[list[Ranked]], limit: int) -> list[Ranked]:
    """The first of *pages*, at most *limit*; no page beyond them is asked for."""
    some: list[Ranked] = []
    async with aclosing(pages):
        while len(some) < limit and (page := await anext(pages, None)) is not None:
            some += page
    return some[:limit]


def _check_threshold(threshold: float | None) -> None:
    if threshold is None:
        return
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)):
        raise TypeError(f"threshold is a score, not {type(threshold).__name__}")
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold is a score, from 0 to 1: not {threshold}")


def _hit(item: StoreItem, score: float | None) -> SearchHit:
    return SearchHit(
        item.namespace,
        item.key,
        item.value,
        item.metadata,
        item.created_at,
        item.updated_at,
        item.version,
        item.expires_at,
        score,
    )


def _hits(hits: list[SearchHit], plans: list[SearchPlan], explain: bool) -> SearchHits:
    found = SearchHits(hits)
    if explain:
        found.plans = tuple(plans)
    return found
