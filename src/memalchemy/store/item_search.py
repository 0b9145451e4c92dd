"""Search items by text, by vector or by both; rank in SQL, and apply filters in Python."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Executable

from memalchemy.contracts import Match, SearchPlan
from memalchemy.database import off_loop
from memalchemy.errors import InvalidArgument
from memalchemy.search.hybrid import Ranked, fuse, fusion_depth
from memalchemy.search.ranking import Passes, Ranking, ScoredRow
from memalchemy.search.scope import Place, scope_binds
from memalchemy.search.text import choose_terms, count_item_terms, first_page, search_items
from memalchemy.search.vectors import Metric, Neighbour, VectorQuery, nearest
from memalchemy.search.word_query import WordQuery
from memalchemy.statements import Answer, Program
from memalchemy.store import read
from memalchemy.store.item_reader import ItemReader

PAGE = 100
"""Hits of the first page that a filter is applied to."""

GROWTH = 9
"""Hits of a later page, for each one of all pages before: many large pages cost less than small."""

LEAST_PASSED = PAGE // 4
"""Hits of the first page by which an index of vectors is relied on. If a filter passes fewer, the
nearest that it passes may be where the index has not looked."""

MAX_PAGE = 20_000
"""Hits of one page of a text search."""

READ_AT_ONCE = 1000
"""Hits that are tested at once if their values, which are short then, were read with them."""


class OtherDimensions(InvalidArgument):
    """There are vectors of the model to look in, but none of the size of the one to look for."""


def by_words_notice(error: OtherDimensions) -> str:
    """Return the notice of a hybrid search that went by words."""
    return f"{error}: the search went by words alone"


@dataclass(frozen=True, slots=True)
class ItemSearch:
    """Search of the items of a reader by text, by vector, or by both."""

    items: ItemReader
    query: str | None
    vector: Any
    model: str
    metric: Metric
    threshold: float | None
    plans: list[SearchPlan]
    """Filled with a plan by each ranking."""
    match: Match = "any"
    notices: list[str] = field(default_factory=list)
    """Filled with what a caller has to know of the answer."""

    async def best(self, mode: str, limit: int, alpha: float | None = None) -> list[Ranked]:
        """Return the best *limit* items by ``text``, ``vector`` or ``hybrid``, the best first.

        Raises:
            OtherDimensions: by ``vector``, all vectors are of another size than the one to look
                for. By ``hybrid`` the words alone are looked for then, and ``notices`` says it.
            KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
        """
        if mode == "hybrid":
            found = await self._best_of_both(fusion_depth(limit), alpha)
        else:
            ranking = self._pages_by_text if mode == "text" else self._pages_by_vector
            found = await _take_first(ranking(limit), limit)
        if not found and limit:
            await self.items.db.check_search(self.items.connection)
        least = -math.inf if self.threshold is None else self.threshold
        return [one for one in found if one.score >= least][:limit]

    async def _best_of_both(self, depth: int, alpha: float | None) -> list[Ranked]:
        by_words = await _take_first(self._pages_by_text(depth), depth)
        try:
            by_meaning = await _take_first(self._pages_by_vector(depth), depth)
        except OtherDimensions as error:
            notice = by_words_notice(error)
            self.notices.append(notice)
            self.plans.append(SearchPlan("text", notice))
            return by_words
        self.plans.append(SearchPlan("hybrid", "both rankings, fused by reciprocal rank"))
        return fuse([by_words, by_meaning], alpha)

    async def _pages_by_text(self, limit: int) -> AsyncGenerator[list[Ranked]]:
        first_words = self.items.db.has_first_words
        query = WordQuery.of(self.query or "", self.match, first_words=first_words)
        given = {"terms": len(query.terms)}
        self.plans.append(SearchPlan("text", "an index of words, and of the namespace", given))
        if not query or not limit:
            return
        items = self.items
        db, d = items.db, items.db.dialect
        binds = scope_binds(db.tenant, items.path, items.below)
        binds |= d.text.item_scope_binds(db.tenant, items.path, items.below, items.field_terms())
        binds["p_now"] = datetime.now(UTC)
        query, first = await items.run(partial(self._first_pages, query, binds, limit))
        passes, left = Passes(query), limit
        while (wanted := passes.next()) is not None:
            async with aclosing(self._pass(*wanted, first.get(wanted[0]), binds, left)) as pages:
                async for ranked, found in pages:
                    passes.note(ranked, _place, len(found))
                    left = max(left - len(found), 1)
                    yield found

    def _first_pages(
        self, query: WordQuery, binds: Mapping[str, Any], limit: int
    ) -> Program[tuple[WordQuery, dict[WordQuery, Answer]]]:
        """Return *query* with the terms to look for, and the first pages of the passes.

        They are those of the passes that are needed for sure: which of the rows pass a filter is
        not known yet.
        """
        counting = count_item_terms(self.items.db.dialect, below=self.items.below)
        query = yield from choose_terms(self.items.db.dialect, query, counting, binds)
        passes, pages, number = Passes(query), dict[WordQuery, Answer](), 0
        while number < limit and (wanted := passes.next()) is not None:
            rows = yield self._search(wanted[0], binds)
            pages[wanted[0]] = rows
            if rows and self.items.filter is not None:
                break
            passes.note((), _place, len(rows))
            number += len(rows)
        return query, pages

    def _search(
        self, query: WordQuery, binds: Mapping[str, Any], page: Mapping[str, int] | None = None
    ) -> tuple[Executable, dict[str, Any]]:
        """Return the statement of a *page* with its binds: without any, of the first, weighed."""
        dialect, below = self.items.db.dialect, self.items.below
        weighed, one, rare = page is None, query.is_one, query.is_rare
        search = search_items(dialect, below=below, weighed=weighed, one=one, rare=rare)
        return search, {**binds, **query.binds(dialect), **(page or first_page(query))}

    async def _pass(
        self,
        query: WordQuery,
        ranking: Ranking,
        first: Answer | None,
        binds: Mapping[str, Any],
        limit: int,
    ) -> AsyncGenerator[tuple[list[ScoredRow], list[Ranked]]]:
        """Yield what one pass finds: the rows, and the items of those that pass the filter.

        Its *first* page may have been read already.
        """
        items, page = self.items, first_page(query)
        rows = await items.run_query(*self._search(query, binds)) if first is None else first
        weighed = True
        while True:
            size = sum(len(row.opening or "") for row in rows) if weighed else 0
            ranked = await off_loop(size, partial(ranking.rank, rows, _place))
            whole = weighed and bool(rows) and rows[0].codec is not None
            at = 0
            while at < len(ranked):
                # Where a filter drops most items, few large pages cost less than many small ones.
                size = limit if items.filter is None else max(limit, PAGE, at)
                some = ranked[at : at + size]
                at += len(some)
                scores = {_place(row): score for score, row in some}
                known = [row for _, row in some] if whole else []
                found = await items.read_at(list(scores), known, by_words=True, query=query)
                yield some, [Ranked(item, scores[place]) for place, item in found.items()]
            if len(rows) < page["p_limit"]:
                return
            weighed = False
            # The database ranks anew for each page.
            more = min(max(4 * page["p_limit"], limit), MAX_PAGE)
            page = {"p_limit": more, "p_offset": page["p_offset"] + len(rows)}
            rows = await items.run_query(*self._search(query, binds, page))

    async def _pages_by_vector(self, limit: int) -> AsyncGenerator[list[Ranked]]:
        if self.vector is None or not limit:
            return
        items = self.items
        query = VectorQuery(
            tenant=items.db.tenant,
            path=items.path,
            below=items.below,
            model=self.model,
            vector=self.vector,
            metric=self.metric,
            candidates=items.narrowing_program(),
            is_filtered=items.filter is not None,
        )
        ranking = nearest(
            items.db,
            query,
            datetime.now(UTC),
            connection=items.connection,
            event=items.event,
            replica_ok=True,
        )
        by_index = await ranking.uses_index()
        # What an index has found by every condition passes the filter, as a rule.
        drops = items.filter is not None and (by_index or not items.is_indexed)
        size = limit
        if drops:
            size = PAGE if by_index else max(limit, PAGE)
        near = await ranking.page(size)
        self.plans.append(ranking.plan)
        if not near and not await self._has_vectors():
            reason = f"there are no vectors of the model {self.model!r} here"
            self.plans[-1] = replace(ranking.plan, reason=reason)
        seen = 0
        if drops and await ranking.uses_index():
            passed = await self._read_items(near)
            if len(passed) < LEAST_PASSED:
                ranking.start_over_without_index()
                near = await ranking.page(size)
            else:
                yield passed
                seen = len(near)
                near = await ranking.page(max(limit, GROWTH * seen))
        while near:
            self.plans[-1] = ranking.plan
            are_read = all(one.stored is not None for one in near)
            at_once = READ_AT_ONCE if are_read else PAGE
            for start in range(0, len(near), at_once):
                yield await self._read_items(near[start : start + at_once])
            seen += len(near)
            near = await ranking.page(max(limit, GROWTH * seen) if drops else limit)

    async def _read_items(self, near: Sequence[Neighbour]) -> list[Ranked]:
        """Return the items of *near* that pass the filter."""
        by_place = {(one.namespace, one.key): one for one in near}
        known = [one.stored for one in near if one.stored is not None]
        found = await self.items.read_at(list(by_place), known)
        return [
            Ranked(item, by_place[place].score, by_place[place].distance)
            for place, item in found.items()
        ]

    async def _has_vectors(self) -> bool:
        """Return whether there are vectors of the model.

        Raises:
            OtherDimensions: all are of another size, so nothing would ever be found.
        """
        size = len(self.vector)
        if await self._find_dimensions(size):
            return True
        others = await self._find_dimensions()
        if others:
            raise OtherDimensions(
                f"the vector to look for has {size:,} dimensions; there is none of that size under "
                f"the model {self.model!r} here, but one of {others[0].dimensions:,}"
            )
        return False

    async def _find_dimensions(self, given: int | None = None) -> Sequence[Any]:
        items = self.items
        query = read.find_dimensions(items.db.dialect, below=items.below, given=given is not None)
        binds = scope_binds(items.db.tenant, items.path, items.below) | {"p_model": self.model}
        if given is not None:
            binds |= {"p_dimensions": given}
        found: Sequence[Any] = await items.run_query(query, binds)
        return found


def _place(row: Any) -> Place:
    return row.namespace, row.key


async def _take_first(pages: AsyncGenerator[list[Ranked]], limit: int) -> list[Ranked]:
    """Return the first *limit* items of *pages*; no page beyond them is asked for."""
    some: list[Ranked] = []
    async with aclosing(pages):
        while len(some) < limit and (page := await anext(pages, None)) is not None:
            some += page
    return some[:limit]
