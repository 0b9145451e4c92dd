"""Text search in items, entries and checkpoints: terms in, the best rows out, alike everywhere.

A search takes two steps. SQL finds candidates by inverse document frequency (IDF): a term is worth
the bits of information that finding it gives, in whole bits, and a row the sum over the terms that
it holds, as a share of all terms of the query. Whole bits need no logarithm, which not every SQLite
has. Of rows with equal shares the newest comes first. With one term all shares are equal, and
nothing is counted: on SQLite only the checkpoints with it that were stored last are read, after
making sure that they are the newest.

Python then orders the first `CANDIDATES` by BM25: by how often they hold each term, and how long
they are. They are the whole collection whose averages BM25 uses, so that no other tenant's rows and
no other namespace's decide about the order. See Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from typing import Any
from uuid import UUID

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Executable,
    Float,
    FromClause,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
    tuple_,
)

from memalchemy.dialects import Dialect, namespace_binds
from memalchemy.log.entries import is_entry
from memalchemy.log.tables import CHECKPOINT_ROW, CHECKPOINTS, DELTAS, THREADS, live, same_log
from memalchemy.proofs import FOUND
from memalchemy.rows import ITEM, STATE
from memalchemy.search.scope import ITEMS, STORED, live_item, not_internal, routed_items, stored
from memalchemy.statements import Answer, Program, statement

CANDIDATES = 500
"""Rows that BM25 orders; those beyond follow in the order of SQL."""

FULL_ROWS = 50
"""Rows that one statement returns with all their columns. Of more, only the wanted ones are read
whole, by their keys."""

OPENING = 8000
"""Characters at the start of a row's search text to which BM25 is applied."""

RARE = 20
"""Bits of a term that occurs once, and of one that does not occur."""

SATURATION = 1.2
"""BM25's parameter k1."""
LENGTH_SHARE = 1.0
"""BM25's parameter b. With a smaller one docstrings were ranked worse: length counts in full."""
COMMON = 0.25
"""Addition to a term's inverse document frequency: a term that all rows hold counts a little."""

ScoredRow = tuple[float, Any]
"""A score from 0 to 1, and the row that has it."""


# --- Items ----------------------------------------------------------------------------------------

_ITEM = ("namespace", "key")
_ITEM_ORDER = (*_ITEM, "updated_at", "expires_at")


@statement(
    proves="item",
    below=(False, True),
    weighed=(False, True),
    one=(False, True),
    words=(False, True),
)
def search_items(
    dialect: Dialect, below: bool, weighed: bool, one: bool, words: bool
) -> Executable | None:
    """``namespace, key`` of items that hold a term, and ``score``, their share of the query.

    They are ordered by share, then by newest. With *weighed* a row also has the ``opening`` of its
    search text, and the whole item as `stored` has it if there are at most `FULL_ROWS` rows;
    otherwise those columns are NULL. A whole item has its *words*, if they are wanted. *one* is for
    queries of one term. Binds ``terms``, ``p_terms`` (their number), `scope_binds`,
    `Dialect.item_scope`, ``p_limit``, ``p_offset``.
    """
    if words and not weighed:
        return None
    whole = (*STORED, *(ITEM.words if words else ()))
    # Without grouping a row can be carried along; otherwise it is read again.
    is_carried = one and weighed and dialect.statements.rowid(ITEMS) is None
    carried = dict.fromkeys((*whole, "search_text"))
    hits = dialect.text.item_hits(below, tuple(carried) if is_carried else _ITEM_ORDER)
    found, asked = _sum_bits_of_terms(
        hits, [column.name for column in hits.c if column.name != "term"], one
    )
    best = dialect.statements.materialized(_best_items(dialect, found, below), "best")
    score = (cast(best.c.bits, Float) / asked).label("score")
    query: Select[Any] = select(*(best.c[name] for name in _ITEM), score)
    if weighed:
        few = _count_rows(dialect, best)
        rows = best if is_carried else ITEMS
        query = query.add_columns(
            _opening_of(rows.c.search_text),
            *(_if_few(few, rows.c[name]) for name in whole if name not in _ITEM),
        ).select_from(best)
        if not is_carried:
            query = query.join(ITEMS, _is_item(dialect, best, below))
        query = query.join(few, few.c.number > _integer_literal(0))
    return query.order_by(*_item_order(best, best))


def _best_items(dialect: Dialect, found: CTE, below: bool) -> Select[Any]:
    """A page of items, with the columns that they are ordered and looked up by."""
    if "namespace" in found.c:
        of: Any = found
        query: Select[Any] = select(*found.c)
    else:
        of = ITEMS
        columns = (ITEMS.c[name] for name in (*_ITEM, "updated_at"))
        query = (
            select(*columns, found.c.bits, found.c.row_at)
            .select_from(found)
            .join(ITEMS, _is_item(dialect, found, below))
        )
    return (
        query.where(live_item(of), *([not_internal(of)] if below else []))
        .order_by(*_item_order(found, of))
        .limit(dialect.statements.hide_from_planner(bindparam("p_limit", type_=Integer)))
        .offset(dialect.statements.hide_from_planner(bindparam("p_offset", type_=Integer)))
    )


def _is_item(dialect: Dialect, row: CTE, below: bool) -> ColumnElement[bool]:
    position = dialect.statements.rowid(ITEMS)
    if position is not None and "row_at" in row.c:
        return position == row.c.row_at
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    same = (ITEMS.c[name] == row.c[name] for name in _ITEM)
    return and_(tenant, *same, *routed_items(dialect, below, ITEMS))


def _item_order(found: Any, of: Any) -> list[ColumnElement[Any]]:
    return [found.c.bits.desc(), of.c.updated_at.desc(), of.c.namespace, of.c.key]


@statement(unproven=FOUND, below=(False, True))
def narrowed_items(dialect: Dialect, below: bool) -> Executable:
    """``namespace, key, updated_at`` of the items that may pass a filter, by their field terms."""
    within = dialect.text.items_in_scope(below)
    columns = (within.c[name] for name in ("namespace", "key", "updated_at"))
    return select(*columns).limit(bindparam("p_limit"))


@statement(proves="item", signed_form="words", below=(False, True), words=(False, True))
def newest_narrowed(dialect: Dialect, below: bool, words: bool) -> Executable:
    """Select the newest ``p_limit`` of the items that may pass a filter, whole; none if too many.

    With *words* a whole item has its words, too. More than ``p_most`` items are too many;
    ``p_beyond`` is that number and one. Each row has the ``number`` of items. There is always a
    row: without an item its columns are NULL.
    """
    within = dialect.text.items_in_scope(below)
    marks = [within.c[name] for name in ("updated_at", "namespace", "key")]
    found = dialect.statements.materialized(
        select(*marks).limit(bindparam("p_beyond", type_=Integer)), "found"
    )
    few = _count_rows(dialect, found)
    page = (
        select(*found.c)
        .order_by(*(column.desc() for column in found.c))
        .limit(bindparam("p_limit", type_=Integer))
        .cte("page", nesting=True)
    )
    are_few = few.c.number <= bindparam("p_most", type_=Integer)
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    same = and_(tenant, *(ITEMS.c[name] == page.c[name] for name in _ITEM), live_item())
    same = and_(same, *routed_items(dialect, below, ITEMS))
    return (
        select(few.c.number, *stored(words=words))
        .select_from(few.outerjoin(page, are_few).outerjoin(ITEMS, same))
        .order_by(*(page.c[name].desc() for name in ("updated_at", *_ITEM)))
        .add_cte(found, few, page, nest_here=True)
    )


# --- Rows of logs ---------------------------------------------------------------------------------

_LOG_ROW = ("log_id", "seq")
_LOG_NAMES = ("thread_id", "namespace")

LOG_SCOPES = ("namespace", "below", "log", "thread")
"""A namespace; a namespace and those under it; a thread in a namespace; a thread in all of these.

A term is as rare as it is in the namespace, or in the namespaces, whatever the thread.
"""


def search_scope(
    dialect: Dialect,
    tenant: str,
    path: str,
    terms: Sequence[Sequence[str]],
    *,
    below: bool = False,
    thread_id: str | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return which of `LOG_SCOPES` a search is in, and its binds.

    Args:
        path: the encoded namespace.
        terms: those of `codec.search_text.query_terms`.
    """
    binds: dict[str, Any] = {
        **namespace_binds(tenant, path, below),
        **dialect.text.log_scope_binds(tenant),
        "terms": dialect.text.terms(terms),
        "p_terms": len(terms),
        "p_now": datetime.now(UTC),
    }
    if thread_id is None:
        return "below" if below else "namespace", binds
    return "thread" if below else "log", binds | {"k_thread_id": thread_id}


def _is_below(scope: str) -> bool:
    return scope in ("below", "thread")


def _in_thread(query: Select[Any], scope: str) -> Select[Any]:
    """Limit *query* to the thread of a scope that has one."""
    if scope not in ("log", "thread"):
        return query
    return query.where(THREADS.c.thread_id == bindparam("k_thread_id"))


def _same_log_row(a: Any, b: Any) -> Any:
    return and_(same_log(a, b), a.c.seq == b.c.seq)


def find_in_logs(
    dialect: Dialect,
    terms: Sequence[Sequence[str]],
    binds: Mapping[str, Any],
    limit: int,
    *,
    search: Callable[[bool, Mapping[str, Any]], Program[Answer]],
    read: Executable,
    is_whole: Callable[[Any], bool],
) -> Program[list[ScoredRow]]:
    """Return the best *limit* rows of logs, each with its score.

    Rows that are deleted between two statements are left out.

    Args:
        search: a program that finds the rows of a page, weighed or not.
        read: the statement that reads whole rows, those that ``p_keys`` lists.
        is_whole: a function that returns whether a page's row has all its columns.
    """
    ranking, found, weighed = BM25Ranking(terms), list[ScoredRow](), True
    page = {"p_limit": CANDIDATES, "p_offset": 0}
    while len(found) < limit:
        rows = yield from search(weighed, {**binds, **page})
        ranked = ranking.rank(rows)[: limit - len(found)]
        if not ranked or (weighed and is_whole(ranked[0][1])):
            found += ranked
        else:
            whole: dict[tuple[UUID, int], Any] = {}
            keys = [(row.log_id, row.seq) for _, row in ranked]
            for listed in dialect.statements.list_batches(
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


# --- Entries --------------------------------------------------------------------------------------

_ENTRY = (
    *("entry_key", "occurred_at", "stored_at", "codec", "checksum", "search_text", "payload"),
    "signature",
)


@statement(proves=("entry", "words"), scope=LOG_SCOPES, weighed=(False, True), one=(False, True))
def search_entries(dialect: Dialect, scope: str, weighed: bool, one: bool) -> Executable:
    """Entries that hold a term, and ``score``, their share of the query.

    They are ordered by share, then by newest. With *weighed* a row also has the ``opening`` of its
    search text, and the whole entry if there are at most `FULL_ROWS` rows; otherwise those columns
    are NULL. *one* is for queries of one term. Binds those of `search_scope`, ``p_limit``,
    ``p_offset``.
    """
    found, asked = _sum_bits_of_terms(dialect.text.log_hits(_is_below(scope)), _LOG_ROW, one)
    order = (DELTAS.c.stored_at.desc(), DELTAS.c.seq.desc(), THREADS.c.thread_id.desc())
    chosen = (
        select(
            *(DELTAS.c[name] for name in (*_LOG_ROW, "stored_at")),
            *(THREADS.c[name] for name in _LOG_NAMES),
            found.c.bits,
        )
        .select_from(found)
        .join(DELTAS, _same_log_row(DELTAS, found))
        .join(THREADS, same_log(THREADS, found))
        .where(live(), is_entry())
        .order_by(found.c.bits.desc(), *order)
        .limit(bindparam("p_limit"))
        .offset(bindparam("p_offset", type_=Integer))
    )
    best = dialect.statements.materialized(_in_thread(chosen, scope), "best")
    score = (cast(best.c.bits, Float) / asked).label("score")
    query = select(*(best.c[name] for name in (*_LOG_ROW, *_LOG_NAMES)), score)
    if weighed:
        few = _count_rows(dialect, best)
        query = (
            query.add_columns(
                _opening_of(DELTAS.c.search_text),
                *(_if_few(few, DELTAS.c[name]) for name in _ENTRY),
            )
            .select_from(best)
            .join(DELTAS, _same_log_row(DELTAS, best))
            .join(few, few.c.number > _integer_literal(0))
        )
    order = (best.c.stored_at.desc(), best.c.seq.desc(), best.c.thread_id.desc())
    return query.order_by(best.c.bits.desc(), *order)


@statement(proves=("entry", "words"))
def read_found_entries(dialect: Dialect) -> Executable:
    """The entries that ``p_keys`` lists, with the columns of a hit."""
    listed = dialect.statements.rows_from_list("p_keys", _LOG_ROW)
    places = select(listed.c.log_id, cast(listed.c.seq, BigInteger))
    return (
        select(
            *(DELTAS.c[name] for name in (*_LOG_ROW, *_ENTRY)),
            *(THREADS.c[name] for name in _LOG_NAMES),
        )
        .join(THREADS, same_log(THREADS, DELTAS))
        .where(tuple_(*(DELTAS.c[name] for name in _LOG_ROW)).in_(places), is_entry())
    )


def find_entries(
    dialect: Dialect, terms: Sequence[Sequence[str]], binds: dict[str, Any], scope: str, limit: int
) -> Program[list[ScoredRow]]:
    """Return the best *limit* entries, as rows with the columns of a hit, each with its score."""
    one = len(terms) == 1

    def search(weighed: bool, binds: Mapping[str, Any]) -> Program[Answer]:
        return (yield search_entries(dialect, scope=scope, weighed=weighed, one=one), binds)

    return find_in_logs(
        dialect,
        terms,
        binds,
        limit,
        search=search,
        read=read_found_entries(dialect),
        is_whole=lambda row: row.codec is not None,
    )


# --- Checkpoints ----------------------------------------------------------------------------------


@statement(
    proves=("checkpoint", "words"),
    scope=LOG_SCOPES,
    weighed=(False, True),
    one=(False, True),
    last_stored=(False, True),
)
def search_checkpoints(
    dialect: Dialect, scope: str, weighed: bool, one: bool, last_stored: bool
) -> Executable | None:
    """Checkpoints that hold a term, and ``score``, their share of the query.

    They are ordered by share, then by newest. With *weighed* a row also has the ``opening`` of its
    search text, and the columns of a hit if there are at most `FULL_ROWS` rows; otherwise those
    columns are NULL. Binds those of `search_scope`, ``p_limit``, ``p_offset``.

    *one* is for queries of one term. With *last_stored*, where `_may_find_last_stored`, only the
    ``p_window`` rows that were stored last are looked at. A row then has ``are_newest``: 1 if the
    page is the same as without.
    """
    if last_stored and not (one and _may_find_last_stored(dialect, scope)):
        return None
    text, below = dialect.text, _is_below(scope)
    hits = text.last_stored(below, live) if last_stored else text.log_hits(below)
    found, asked = _sum_bits_of_terms(hits, _LOG_ROW, one)
    order = (
        CHECKPOINTS.c.created_at.desc(),
        *(THREADS.c[name].desc() for name in _LOG_NAMES),
        CHECKPOINTS.c.seq.desc(),
    )
    chosen = (
        select(
            *(CHECKPOINTS.c[name] for name in (*_LOG_ROW, "created_at")),
            *(THREADS.c[name] for name in _LOG_NAMES),
            found.c.bits,
        )
        .select_from(found)
        .join(CHECKPOINTS, _same_log_row(CHECKPOINTS, found))
        .join(THREADS, same_log(THREADS, found))
        .where(live())
        .order_by(found.c.bits.desc(), *order)
        .limit(bindparam("p_limit"))
        .offset(bindparam("p_offset", type_=Integer))
    )
    best = dialect.statements.materialized(_in_thread(chosen, scope), "best")
    score = (cast(best.c.bits, Float) / asked).label("score")
    if not weighed:
        query = select(*(best.c[name] for name in _LOG_ROW), score)
    else:
        few = _count_rows(dialect, best)
        query = (
            select(
                *(best.c[name] for name in _LOG_NAMES),
                *(
                    best.c.seq if name == "seq" else _if_few(few, CHECKPOINTS.c[name])
                    for name in CHECKPOINT_ROW
                ),
                best.c.log_id,
                *(_if_few(few, column) for column in _proof_of_words()),
                score,
                _opening_of(DELTAS.c.search_text),
                _if_few(few, DELTAS.c.search_text),
            )
            .select_from(best)
            .join(DELTAS, _same_log_row(DELTAS, best))
            .join(CHECKPOINTS, _same_log_row(CHECKPOINTS, best))
            .join(few, few.c.number > _integer_literal(0))
        )
    if last_stored:
        query = query.add_columns(dialect.text.are_newest_checkpoints(below).label("are_newest"))
    order = (best.c.created_at.desc(), *(best.c[name].desc() for name in (*_LOG_NAMES, "seq")))
    return query.order_by(best.c.bits.desc(), *order)


def _may_find_last_stored(dialect: Dialect, scope: str) -> bool:
    # Of one thread few of those rows are, and the page would be looked for twice.
    return dialect.text.finds_last_stored and scope in ("namespace", "below")


def _proof_of_words() -> list[Any]:
    """Return the columns that prove the words of a state, beside them."""
    others = (name for name in STATE.words if name != "search_text")
    return [DELTAS.c.signature.label("state_signature"), *(DELTAS.c[name] for name in others)]


@statement(proves=("checkpoint", "words"))
def read_found_checkpoints(dialect: Dialect) -> Executable:
    """The checkpoints that ``p_keys`` lists, with the columns of a hit."""
    listed = dialect.statements.rows_from_list("p_keys", _LOG_ROW)
    places = select(listed.c.log_id, cast(listed.c.seq, BigInteger))
    return (
        select(
            *(THREADS.c[name] for name in _LOG_NAMES),
            *(CHECKPOINTS.c[name] for name in CHECKPOINT_ROW),
            CHECKPOINTS.c.log_id,
            *_proof_of_words(),
            DELTAS.c.search_text,
        )
        .select_from(CHECKPOINTS)
        .join(DELTAS, _same_log_row(DELTAS, CHECKPOINTS))
        .join(THREADS, same_log(THREADS, CHECKPOINTS))
        .where(tuple_(*(CHECKPOINTS.c[name] for name in _LOG_ROW)).in_(places))
    )


def find_checkpoints(
    dialect: Dialect, terms: Sequence[Sequence[str]], binds: dict[str, Any], scope: str, limit: int
) -> Program[list[ScoredRow]]:
    """Return the best *limit* checkpoints, as rows with the columns of a hit, with their scores."""
    one = len(terms) == 1

    def search(weighed: bool, binds: Mapping[str, Any]) -> Program[Answer]:
        build = partial(search_checkpoints, dialect, scope=scope, weighed=weighed, one=one)
        if one and _may_find_last_stored(dialect, scope):
            # The shares of all are equal, so the newest are the page. Almost always they are those
            # that were stored last.
            window = 2 * (binds["p_offset"] + binds["p_limit"])
            rows = yield build(last_stored=True), {**binds, "p_window": window}
            if rows and rows[0].are_newest:
                return rows
        return (yield build(last_stored=False), binds)

    return find_in_logs(
        dialect,
        terms,
        binds,
        limit,
        search=search,
        read=read_found_checkpoints(dialect),
        is_whole=lambda row: row.checkpoint_id is not None,
    )


# --- Ranking in SQL: inverse document frequency ---------------------------------------------------


def _sum_bits_of_terms(
    hits: FromClause, key: Sequence[str], one: bool
) -> tuple[CTE, ColumnElement[float]]:
    """Return the *key* columns of *hits* with their ``bits``, and the bits of all terms together.

    *hits* has a row for each ``term`` that each key holds. Binds ``p_terms``, the number of terms.
    With *one* there is one term, whatever it is worth.
    """
    columns: list[Any] = [hits.c[name] for name in key]
    if one:
        return select(*columns, _integer_literal(1).label("bits")).cte("ranked"), cast(
            _integer_literal(1), Float
        )
    found = (
        select(hits.c.term, func.count().label("occurrences")).group_by(hits.c.term).cte("found")
    )
    # The n-th branch is for a term in fewer than 2 ** (n + 1) rows.
    bits = case(
        *(
            (found.c.occurrences < _integer_literal(2 ** (n + 1)), _integer_literal(RARE - n))
            for n in range(RARE)
        ),
        else_=_integer_literal(1),
    )
    worth = select(found.c.term, bits.label("bits")).cte("worth")
    asked = (
        select(
            func.coalesce(func.sum(worth.c.bits), _integer_literal(0))
            + _integer_literal(RARE) * (bindparam("p_terms") - func.count())
        )
        .select_from(worth)
        .scalar_subquery()
    )
    rows = (
        select(*columns, func.sum(worth.c.bits).label("bits"))
        .join(worth, worth.c.term == hits.c.term)
        .group_by(*columns)
        .cte("ranked")
    )
    return rows, cast(asked, Float)


def _opening_of(text: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.substr(text, _integer_literal(1), _integer_literal(OPENING), type_=Text).label(
        "opening"
    )


def _count_rows(dialect: Dialect, rows: FromClause) -> CTE:
    """Return a table of one row, with the ``number`` of *rows*, to join with each of them."""
    # Materialized: as a subquery it may be counted again for each row that it is joined with.
    number = select(func.count().label("number")).select_from(rows)
    return dialect.statements.materialized(number, "few")


def _if_few(few: FromClause, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return *column* if there are at most `FULL_ROWS` rows, otherwise NULL."""
    return case((few.c.number <= _integer_literal(FULL_ROWS), column)).label(column.key)


def _integer_literal(number: int) -> ColumnElement[int]:
    # A literal: bound, the integers of the branches would be forty values at each execution.
    return literal_column(str(number), Integer)


# --- Ranking in Python: BM25 ----------------------------------------------------------------------


class BM25Ranking:
    """Order of one search's rows, page by page.

    *terms* are those of `codec.search_text.query_terms`. Rows have ``score``, their share of the
    query, and on the first page ``opening``, the start of their search text.
    """

    def __init__(self, terms: Sequence[Sequence[str]]) -> None:
        self._terms = terms
        self._last: tuple[float, float] | None = None
        """Score and share of the last row of the previous page."""

    def rank(self, rows: Sequence[Any]) -> list[ScoredRow]:
        """Return the next page of rows with their scores, none above one of an earlier page.

        The first page is ordered by BM25; the later ones stay in the order of SQL.
        """
        if not rows:
            return []
        if self._last is None:
            ranked = self._rank_by_bm25(rows)
        else:
            score, share = self._last
            ranked = [(score * float(row.score) / share, row) for row in rows]
        self._last = ranked[-1][0], float(rows[-1].score)
        return ranked

    def _rank_by_bm25(self, rows: Sequence[Any]) -> list[ScoredRow]:
        weights = bm25_weights(self._terms, [row.opening for row in rows])
        # Sorting is stable: rows of equal weight stay in the order of SQL.
        order = sorted(range(len(rows)), key=lambda at: -weights[at])
        best = order[0]
        share = float(rows[best].score)
        return [(share * (weights[at] / weights[best]), rows[at]) for at in order]


def bm25_weights(terms: Sequence[Sequence[str]], texts: Sequence[str | None]) -> list[float]:
    """Return the BM25 weight of each text for *terms*, with these texts as the collection.

    All weights are positive. A text that holds no term weighs half of one that holds the commonest
    term once: the term occurs beyond the part of the text that is here.
    """
    filled = [text or "" for text in texts]
    lengths = [text.count(" ") + 1 for text in filled]
    average = sum(lengths) / len(lengths)
    dampings = [
        SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / average) for length in lengths
    ]
    # All texts are searched at once. Two spaces between them keep a phrase within one.
    joined = _with_ascii_lowered(f" {'  '.join(filled)} ")
    ends = list(accumulate(len(text) + 2 for text in filled))
    weights, least = [0.0] * len(filled), math.inf
    for term in terms:
        counts = Counter(bisect(ends, place) for place in _places_of_term(joined, term))
        holders = len(counts)
        idf = COMMON + math.log1p((len(filled) - holders + 0.5) / (holders + 0.5))
        least = min(least, idf)
        for at, count in counts.items():
            weights[at] += idf * count / (count + dampings[at])
    return [
        weight or least / (1 + damping) / 2
        for weight, damping in zip(weights, dampings, strict=True)
    ]


def holds_term(text: str | None, terms: Sequence[Sequence[str]]) -> bool:
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


def _places_of_term(text: str, term: Sequence[str]) -> Iterator[int]:
    """Yield where *term* occurs in *text*, in which each word is between spaces."""
    wanted = f" {' '.join(term)} "
    place = text.find(wanted)
    while place >= 0:
        yield place
        # The space at its end may be that before the next occurrence.
        place = text.find(wanted, place + len(wanted) - 1)
