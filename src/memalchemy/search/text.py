"""Text search in items, entries and checkpoints: terms in, the best rows out, alike everywhere.

A search takes two steps. SQL finds candidates by inverse document frequency (IDF): a term is worth
the bits of information that finding it gives, in whole bits, and a row the sum over the terms that
it holds, as a share of all terms of the query. Whole bits need no logarithm, which not every SQLite
has. Of rows with equal shares the newest comes first.

Python then orders the first `CANDIDATES` by BM25: by how often they hold each term, and how long
they are. They are the whole collection whose averages BM25 uses, so that no other tenant's rows and
no other namespace's decide about the order. See Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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

from memalchemy.dialects import Dialect
from memalchemy.log.entries import is_entry
from memalchemy.log.tables import CHECKPOINT_INFO, CHECKPOINTS, DELTAS, THREADS, live, same_log
from memalchemy.search.scope import ITEMS, STORED, live_item, not_internal, same_item
from memalchemy.statements import Program, statement

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


@statement(below=(False, True), weighed=(False, True))
def search_items(dialect: Dialect, below: bool, weighed: bool) -> Executable:
    """``namespace, key`` of items that hold a term, and ``score``, their share of the query.

    They are ordered by share, then by newest. With *weighed* a row also has the ``opening`` of its
    search text, and the whole item as `stored` has it if there are at most `FULL_ROWS` rows;
    otherwise those columns are NULL. Binds ``terms``, ``p_terms`` (their number), `scope_binds`,
    `Dialect.item_scope`, ``p_limit``, ``p_offset``.
    """
    hits = dialect.text.item_hits(below)
    found, asked = _ranked(hits, [column.name for column in hits.c if column.name != "term"])
    best = dialect.statements.materialized(_best_items(dialect, found, below), "best")
    score = (cast(best.c.bits, Float) / asked).label("score")
    query: Select[Any] = select(*(best.c[name] for name in _ITEM), score)
    if weighed:
        whole = ITEMS.alias("whole")
        rest = (whole.c[name] for name in STORED if name not in _ITEM)
        query = (
            query.add_columns(_opening(ITEMS.c.search_text), *rest)
            .select_from(best)
            .join(ITEMS, _is_item(dialect, best))
            .outerjoin(whole, and_(same_item(whole, ITEMS), _are_few(best)))
        )
    return query.order_by(*_item_order(best, best))


def _best_items(dialect: Dialect, found: CTE, below: bool) -> Select[Any]:
    """A page of items, with the columns that they are ordered and looked up by."""
    has_place = "namespace" in found.c
    of: Any = found if has_place else ITEMS
    columns = [of.c[name] for name in (*_ITEM, "updated_at")]
    query: Select[Any] = select(*columns, found.c.bits)
    if not has_place:
        query = (
            query.add_columns(found.c.row_at)
            .select_from(found)
            .join(ITEMS, _is_item(dialect, found))
        )
    return (
        query.where(live_item(of), *([not_internal(of)] if below else []))
        .order_by(*_item_order(found, of))
        .limit(dialect.statements.hide_from_planner(bindparam("p_limit", type_=Integer)))
        .offset(dialect.statements.hide_from_planner(bindparam("p_offset", type_=Integer)))
    )


def _is_item(dialect: Dialect, row: CTE) -> ColumnElement[bool]:
    position = dialect.statements.rowid(ITEMS)
    if position is not None and "row_at" in row.c:
        return position == row.c.row_at
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return and_(tenant, *(ITEMS.c[name] == row.c[name] for name in _ITEM))


def _item_order(found: Any, of: Any) -> list[ColumnElement[Any]]:
    return [found.c.bits.desc(), of.c.updated_at.desc(), of.c.namespace, of.c.key]


@statement(below=(False, True))
def narrowed_items(dialect: Dialect, below: bool) -> Executable:
    """``namespace, key, updated_at`` of the items that may pass a filter, by their field terms."""
    within = dialect.text.items_in_scope(below)
    columns = (within.c[name] for name in ("namespace", "key", "updated_at"))
    return select(*columns).limit(bindparam("p_limit"))


# --- Rows of logs ---------------------------------------------------------------------------------

_LOG_ROW = ("log_id", "seq")


def _same_log_row(a: Any, b: Any) -> Any:
    return and_(same_log(a, b), a.c.seq == b.c.seq)


def find_in_logs(
    dialect: Dialect,
    terms: Sequence[Sequence[str]],
    binds: Mapping[str, Any],
    limit: int,
    *,
    search: Callable[[bool], Executable],
    read: Executable,
    is_whole: Callable[[Any], bool],
) -> Program[list[ScoredRow]]:
    """Return the best *limit* rows of logs, each with its score.

    Rows that are deleted between two statements are left out.

    Args:
        search: a function that builds the statement of a page, weighed or not.
        read: the statement that reads whole rows, those that ``p_keys`` lists.
        is_whole: a function that returns whether a page's row has all its columns.
    """
    ranking, found, weighed = BM25Ranking(terms), list[ScoredRow](), True
    page = {"p_limit": CANDIDATES, "p_offset": 0}
    while len(found) < limit:
        rows = yield search(weighed), {**binds, **page}
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

_ENTRY = ("entry_key", "occurred_at", "stored_at", "codec", "checksum", "search_text", "payload")


@statement(scope=("namespace", "log"), weighed=(False, True))
def search_entries(dialect: Dialect, scope: str, weighed: bool) -> Executable:
    """Entries that hold a term, and ``score``, their share of the query.

    They are ordered by share, then by newest. They are those of all threads in a namespace, or of
    one log; in both cases a term is as rare as it is in the namespace. With *weighed* a row also
    has the ``opening`` of its search text, and the whole entry if there are at most `FULL_ROWS`
    rows; otherwise those columns are NULL. Binds ``terms``, ``p_terms`` (their number),
    ``k_tenant``, ``k_namespace``, ``p_limit``, ``p_offset``.
    """
    found, asked = _ranked(dialect.text.log_hits(), _LOG_ROW)
    order = (DELTAS.c.stored_at.desc(), DELTAS.c.seq.desc(), THREADS.c.thread_id.desc())
    chosen = (
        select(
            *(DELTAS.c[name] for name in (*_LOG_ROW, "stored_at")),
            THREADS.c.thread_id,
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
    if scope == "log":
        chosen = chosen.where(THREADS.c.thread_id == bindparam("k_thread_id"))
    best = dialect.statements.materialized(chosen, "best")
    score = (cast(best.c.bits, Float) / asked).label("score")
    query = select(*(best.c[name] for name in (*_LOG_ROW, "thread_id")), score)
    if weighed:
        whole = DELTAS.alias("whole")
        query = (
            query.add_columns(_opening(DELTAS.c.search_text), *(whole.c[name] for name in _ENTRY))
            .select_from(best)
            .join(DELTAS, _same_log_row(DELTAS, best))
            .outerjoin(whole, and_(_same_log_row(whole, best), _are_few(best)))
        )
    order = (best.c.stored_at.desc(), best.c.seq.desc(), best.c.thread_id.desc())
    return query.order_by(best.c.bits.desc(), *order)


@statement()
def read_found_entries(dialect: Dialect) -> Executable:
    """The entries that ``p_keys`` lists, with the columns of a hit."""
    listed = dialect.statements.rows_from_list("p_keys", _LOG_ROW)
    places = select(listed.c.log_id, cast(listed.c.seq, BigInteger))
    return (
        select(*(DELTAS.c[name] for name in (*_LOG_ROW, *_ENTRY)), THREADS.c.thread_id)
        .join(THREADS, same_log(THREADS, DELTAS))
        .where(tuple_(*(DELTAS.c[name] for name in _LOG_ROW)).in_(places), is_entry())
    )


def find_entries(
    dialect: Dialect, terms: Sequence[Sequence[str]], binds: dict[str, Any], scope: str, limit: int
) -> Program[list[ScoredRow]]:
    """Return the best *limit* entries, as rows with the columns of a hit, each with its score."""
    return find_in_logs(
        dialect,
        terms,
        binds,
        limit,
        search=lambda weighed: search_entries(dialect, scope=scope, weighed=weighed),
        read=read_found_entries(dialect),
        is_whole=lambda row: row.codec is not None,
    )


# --- Checkpoints ----------------------------------------------------------------------------------

_LOG_NAMES = ("thread_id", "namespace")


@statement(below=(False, True), weighed=(False, True))
def search_checkpoints(dialect: Dialect, below: bool, weighed: bool) -> Executable:
    """Checkpoints that hold a term, and ``score``, their share of the query.

    They are ordered by share, then by newest. They are those of a namespace, with *below* also of
    the namespaces under it; a term is as rare as it is in all of these. With *weighed* a row also
    has the ``opening`` of its search text, and the columns of a hit if there are at most
    `FULL_ROWS` rows; otherwise those columns are NULL. Binds ``terms``, ``p_terms`` (their number),
    those of `TextIndexes.log_hits`, ``p_limit``, ``p_offset``.
    """
    found, asked = _ranked(dialect.text.log_hits(below), _LOG_ROW)
    order = (
        CHECKPOINTS.c.created_at.desc(),
        *(THREADS.c[name].desc() for name in _LOG_NAMES),
        CHECKPOINTS.c.seq.desc(),
    )
    best = dialect.statements.materialized(
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
        .offset(bindparam("p_offset", type_=Integer)),
        "best",
    )
    score = (cast(best.c.bits, Float) / asked).label("score")
    if not weighed:
        query = select(*(best.c[name] for name in _LOG_ROW), score)
    else:
        words = DELTAS.alias("words")
        query = (
            select(
                *(best.c[name] for name in _LOG_NAMES),
                *((best if name == "seq" else CHECKPOINTS).c[name] for name in CHECKPOINT_INFO),
                best.c.log_id,
                score,
                _opening(words.c.search_text),
                DELTAS.c.search_text,
            )
            .select_from(best)
            .join(words, _same_log_row(words, best))
            .outerjoin(CHECKPOINTS, and_(_same_log_row(CHECKPOINTS, best), _are_few(best)))
            .outerjoin(DELTAS, and_(_same_log_row(DELTAS, best), _are_few(best)))
        )
    order = (best.c.created_at.desc(), *(best.c[name].desc() for name in (*_LOG_NAMES, "seq")))
    return query.order_by(best.c.bits.desc(), *order)


@statement()
def read_found_checkpoints(dialect: Dialect) -> Executable:
    """The checkpoints that ``p_keys`` lists, with the columns of a hit."""
    listed = dialect.statements.rows_from_list("p_keys", _LOG_ROW)
    places = select(listed.c.log_id, cast(listed.c.seq, BigInteger))
    return (
        select(
            *(THREADS.c[name] for name in _LOG_NAMES),
            *(CHECKPOINTS.c[name] for name in CHECKPOINT_INFO),
            CHECKPOINTS.c.log_id,
            DELTAS.c.search_text,
        )
        .select_from(CHECKPOINTS)
        .join(DELTAS, _same_log_row(DELTAS, CHECKPOINTS))
        .join(THREADS, same_log(THREADS, CHECKPOINTS))
        .where(tuple_(*(CHECKPOINTS.c[name] for name in _LOG_ROW)).in_(places))
    )


def find_checkpoints(
    dialect: Dialect, terms: Sequence[Sequence[str]], binds: dict[str, Any], below: bool, limit: int
) -> Program[list[ScoredRow]]:
    """Return the best *limit* checkpoints, as rows with the columns of a hit, with their scores."""
    return find_in_logs(
        dialect,
        terms,
        binds,
        limit,
        search=lambda weighed: search_checkpoints(dialect, below=below, weighed=weighed),
        read=read_found_checkpoints(dialect),
        is_whole=lambda row: row.checkpoint_id is not None,
    )


# --- Ranking in SQL: inverse document frequency ---------------------------------------------------


def _ranked(hits: FromClause, key: Sequence[str]) -> tuple[CTE, ColumnElement[float]]:
    """Return the *key* columns of *hits* with their ``bits``, and the bits of all terms together.

    *hits* has a row for each ``term`` that each key holds. Binds ``p_terms``, the number of terms.
    """
    found = (
        select(hits.c.term, func.count().label("occurrences")).group_by(hits.c.term).cte("found")
    )
    # The n-th branch is for a term in fewer than 2 ** (n + 1) rows.
    bits = case(
        *((found.c.occurrences < _integer(2 ** (n + 1)), _integer(RARE - n)) for n in range(RARE)),
        else_=_integer(1),
    )
    worth = select(found.c.term, bits.label("bits")).cte("worth")
    asked = (
        select(
            func.coalesce(func.sum(worth.c.bits), _integer(0))
            + _integer(RARE) * (bindparam("p_terms") - func.count())
        )
        .select_from(worth)
        .scalar_subquery()
    )
    columns: list[Any] = [hits.c[name] for name in key]
    rows = (
        select(*columns, func.sum(worth.c.bits).label("bits"))
        .join(worth, worth.c.term == hits.c.term)
        .group_by(*columns)
        .cte("ranked")
    )
    return rows, cast(asked, Float)


def _opening(text: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.substr(text, _integer(1), _integer(OPENING), type_=Text).label("opening")


def _are_few(rows: FromClause) -> ColumnElement[bool]:
    number: ColumnElement[int] = select(func.count()).select_from(rows).scalar_subquery()
    return number <= _integer(FULL_ROWS)


def _integer(number: int) -> ColumnElement[int]:
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
    counts = [_count_terms(terms, text or "") for text in texts]
    average = sum(length for length, _ in counts) / len(counts)
    frequencies = []
    for term in range(len(terms)):
        holders = sum(1 for _, found in counts if found[term])
        frequencies.append(COMMON + math.log1p((len(texts) - holders + 0.5) / (holders + 0.5)))
    least = min(frequencies)
    weights = []
    for length, found in counts:
        damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / average)
        weight = sum(
            idf * count / (count + damping) for idf, count in zip(frequencies, found, strict=True)
        )
        weights.append(weight or least / (1 + damping) / 2)
    return weights


def _count_terms(terms: Sequence[Sequence[str]], text: str) -> tuple[int, list[int]]:
    """Return the number of words in *text*, at least one, and of occurrences of each term."""
    # Bytes, because bytes.lower() changes ASCII alone: the other words are casefolded already,
    # which for a few scripts is not lower case. Two spaces between words give each word its own
    # pair, so that count() finds adjacent occurrences.
    words = text.encode("utf-8", "replace").lower()
    spaced = b" " + words.replace(b" ", b"  ") + b" "
    found = [spaced.count(f" {'  '.join(term)} ".encode("utf-8", "replace")) for term in terms]
    return words.count(b" ") + 1, found
