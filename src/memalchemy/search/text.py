"""Text search in items, entries and checkpoints: terms in, the best rows out, alike everywhere.

A search takes two steps. SQL finds candidates by their coverage of the query: the share of its
terms that a row holds, each with a weight. A weight is the square of the inverse document frequency
(IDF) among the rows found, in whole bits, and a share of the highest: so in a short query each term
counts, and in a long one the rare terms do. Whole bits need no logarithm, which not every SQLite
has. Of items with equal coverage the shortest comes first, of other rows the newest. With one term
it is equal for all, and nothing is counted: on SQLite only the checkpoints with it that were stored
last are read, after making sure that they are the newest.

Python then orders the first `CANDIDATES` by coverage and BM25: by how often they hold each term,
and how long they are. Rows that hold all terms come first. The candidates are the whole collection
whose averages BM25 uses, so that no other tenant's rows and no other namespace's decide about the
order. See Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
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
    SelectBase,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
    tuple_,
    type_coerce,
)

from memalchemy.dialects import Dialect, namespace_binds
from memalchemy.log.entries import is_entry
from memalchemy.log.tables import CHECKPOINT_ROW, CHECKPOINTS, DELTAS, THREADS, live, same_log
from memalchemy.proofs import FOUND
from memalchemy.rows import ITEM, STATE
from memalchemy.search.ranking import Passes, Ranking, ScoredRow
from memalchemy.search.scope import ITEMS, STORED, live_item, not_internal, routed_items, stored
from memalchemy.search.word_query import WordQuery
from memalchemy.statements import Answer, Program, statement

CANDIDATES = 500
"""Rows that BM25 orders; those beyond follow in the order of SQL."""

FORM_CANDIDATES = 50
"""The same of rows that hold other forms of the words only: they are all alike but for a little."""

SIZE_STEP = 8
"""Bytes, of a word or two, by which items that are about as long differ."""

FULL_ROWS = 50
"""Rows that one statement returns with all their columns. Of more, only the wanted ones are read
whole, by their keys."""

OPENING = 8000
"""Characters at the start of a row's search text to which BM25 is applied."""

MOST_BITS = 20
"""The highest number of bits that tells two frequencies apart."""

# --- Items ----------------------------------------------------------------------------------------

_ITEM = ("namespace", "key")
_ITEM_ORDER = (*_ITEM, "updated_at", "expires_at")


@statement(
    proves="item",
    signed_form="words",
    below=(False, True),
    weighed=(False, True),
    one=(False, True),
    rare=(False, True),
    words=(False, True),
)
def search_items(
    dialect: Dialect, below: bool, weighed: bool, one: bool, rare: bool, words: bool
) -> Executable:
    """``namespace, key`` of items that hold a term, and ``score``, their share of the query.

    They are ordered by share, then the shortest first, as BM25 orders most of them, and of those
    that are about as long the newest. With *weighed* a row also has the ``opening`` of its search
    text, and the whole item as `stored` has it if there are at most `FULL_ROWS` rows; otherwise
    those columns are NULL. With *words* a whole item has its words, too. *one* is for queries of
    one term, *rare* for terms that at most ``p_most`` items hold. Binds those of `WordQuery.binds`,
    `scope_binds`, `Dialect.item_scope`, ``p_limit``, ``p_offset``.
    """
    whole = (*STORED, *(ITEM.words if words else ()))
    # Without grouping a row can be carried along; otherwise it is read again.
    is_carried = one and weighed and dialect.statements.rowid(ITEMS) is None
    carried = dict.fromkeys((*whole, "search_text") if is_carried else _ITEM_ORDER)
    hits = dialect.text.item_hits(below, [*(ITEMS.c[name] for name in carried), _size(dialect)])
    columns = [column.name for column in hits.c if column.name != "term"]
    found, asked = _weigh_terms(dialect, hits, columns, one, rare)
    best = dialect.statements.materialized(_best_items(dialect, found, below), "best")
    score = (cast(best.c.weight, Float) / asked).label("score")
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
    return query.order_by(*_item_order(best, best, best.c.text_size))


def _best_items(dialect: Dialect, found: CTE, below: bool) -> Select[Any]:
    """A page of items, with the columns that they are ordered and looked up by."""
    if "namespace" in found.c:
        of: Any = found
        size: ColumnElement[int] = found.c.text_size
        query: Select[Any] = select(*found.c)
    else:
        of, size = ITEMS, _size(dialect)
        columns = (ITEMS.c[name] for name in (*_ITEM, "updated_at"))
        query = (
            select(*columns, size, found.c.weight, found.c.row_at)
            .select_from(found)
            .join(ITEMS, _is_item(dialect, found, below))
        )
    return (
        query.where(live_item(of), *([not_internal(of)] if below else []))
        .order_by(*_item_order(found, of, size))
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


def _size(dialect: Dialect) -> ColumnElement[int]:
    length = dialect.statements.byte_length(ITEMS.c.search_text)
    return type_coerce(length, Integer).label("text_size")


def _item_order(found: Any, of: Any, size: ColumnElement[int]) -> list[ColumnElement[Any]]:
    about = size // _integer_literal(SIZE_STEP)
    return [found.c.weight.desc(), about, of.c.updated_at.desc(), of.c.namespace, of.c.key]


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
    *,
    below: bool = False,
    thread_id: str | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return which of `LOG_SCOPES` a search is in, and its binds; *path* is that of a namespace."""
    binds: dict[str, Any] = {
        **namespace_binds(tenant, path, below),
        **dialect.text.log_scope_binds(tenant),
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


@statement(below=(False, True))
def count_log_terms(dialect: Dialect, below: bool) -> Executable:
    """Select each term that rows of logs hold, and the number of these rows."""
    return _counted(dialect.text.log_hits(below))


@statement(below=(False, True))
def count_item_terms(dialect: Dialect, below: bool) -> Executable:
    """Select each term that items hold, and the number of these items."""
    return _counted(dialect.text.item_hits(below, [ITEMS.c.key]))


def _counted(hits: FromClause) -> Executable:
    return select(hits.c.term, func.count().label("occurrences")).group_by(hits.c.term)


def choose_terms(
    dialect: Dialect, query: WordQuery, counting: Executable, binds: Mapping[str, Any]
) -> Program[WordQuery]:
    """Return the query with the rarest of its terms, if they have to be chosen."""
    if not query.is_long:
        return query
    rows = yield counting, {**binds, **query.binds(dialect)}
    return query.rarest(dialect, {row.term: row.occurrences for row in rows})


def first_page(query: WordQuery) -> dict[str, int]:
    """Return the binds of the page that BM25 orders."""
    candidates = min(CANDIDATES, FORM_CANDIDATES) if query.is_of_other_forms else CANDIDATES
    return {"p_limit": candidates, "p_offset": 0}


class LogSearch(NamedTuple):
    """The statements of a search in the rows of logs: of entries, or of checkpoints."""

    search: Callable[[bool, WordQuery, Mapping[str, Any]], Program[Answer]]
    """A program that finds the rows of a page, weighed or not."""
    read: Executable
    """The statement that reads whole rows, those that ``p_keys`` lists."""
    is_whole: Callable[[Any], bool]
    """Returns whether a page's row has all its columns."""


def find_in_logs(
    dialect: Dialect,
    query: WordQuery,
    scope: str,
    binds: Mapping[str, Any],
    limit: int,
    looks: LogSearch,
) -> Program[list[ScoredRow]]:
    """Return the best *limit* rows of logs, each with its score.

    Rows that are deleted between two statements are left out.
    """
    counting = count_log_terms(dialect, below=_is_below(scope))
    query = yield from choose_terms(dialect, query, counting, binds)
    passes, found = Passes(query), list[ScoredRow]()
    while len(found) < limit and (wanted := passes.next()) is not None:
        more = yield from _one_pass(dialect, *wanted, binds, limit - len(found), looks)
        passes.note(more, _log_key, len(more))
        found += more
    return found


def _log_key(row: Any) -> tuple[UUID, int]:
    return row.log_id, row.seq


def _one_pass(
    dialect: Dialect,
    query: WordQuery,
    ranking: Ranking,
    binds: Mapping[str, Any],
    limit: int,
    looks: LogSearch,
) -> Program[list[ScoredRow]]:
    found, weighed = list[ScoredRow](), True
    page = {**query.binds(dialect), **first_page(query)}
    while len(found) < limit:
        rows = yield from looks.search(weighed, query, {**binds, **page})
        ranked = ranking.rank(rows, _log_key)[: limit - len(found)]
        if not ranked or (weighed and looks.is_whole(ranked[0][1])):
            found += ranked
        else:
            whole: dict[tuple[UUID, int], Any] = {}
            keys = [(row.log_id, row.seq) for _, row in ranked]
            for listed in dialect.statements.list_batches(
                "p_keys", [(log_id, str(seq)) for log_id, seq in keys]
            ):
                for row in (yield looks.read, {**binds, **listed}):
                    whole[row.log_id, row.seq] = row
            found += [
                (score, whole[key])
                for key, (score, _) in zip(keys, ranked, strict=True)
                if key in whole
            ]
        if len(rows) < page["p_limit"]:
            break
        weighed = False
        page |= {"p_limit": 4 * page["p_limit"], "p_offset": page["p_offset"] + len(rows)}
    return found


# --- Entries --------------------------------------------------------------------------------------

_ENTRY = (
    *("entry_key", "occurred_at", "stored_at", "codec", "checksum", "search_text", "payload"),
    "signature",
)


@statement(
    proves=("entry", "words"),
    scope=LOG_SCOPES,
    weighed=(False, True),
    one=(False, True),
    rare=(False, True),
)
def search_entries(
    dialect: Dialect, scope: str, weighed: bool, one: bool, rare: bool
) -> Executable:
    """Entries that hold a term, and ``score``, their share of the query.

    They are ordered by share, then by newest. With *weighed* a row also has the ``opening`` of its
    search text, and the whole entry if there are at most `FULL_ROWS` rows; otherwise those columns
    are NULL. *one* is for queries of one term, *rare* for terms that at most ``p_most`` rows hold.
    Binds those of `WordQuery.binds` and `search_scope`, ``p_limit``, ``p_offset``.
    """
    hits = dialect.text.log_hits(_is_below(scope))
    found, asked = _weigh_terms(dialect, hits, _LOG_ROW, one, rare)
    order = (DELTAS.c.stored_at.desc(), DELTAS.c.seq.desc(), THREADS.c.thread_id.desc())
    chosen = (
        select(
            *(DELTAS.c[name] for name in (*_LOG_ROW, "stored_at")),
            *(THREADS.c[name] for name in _LOG_NAMES),
            found.c.weight,
        )
        .select_from(found)
        .join(DELTAS, _same_log_row(DELTAS, found))
        .join(THREADS, same_log(THREADS, found))
        .where(live(), is_entry())
        .order_by(found.c.weight.desc(), *order)
        .limit(bindparam("p_limit"))
        .offset(bindparam("p_offset", type_=Integer))
    )
    best = dialect.statements.materialized(_in_thread(chosen, scope), "best")
    score = (cast(best.c.weight, Float) / asked).label("score")
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
    return query.order_by(best.c.weight.desc(), *order)


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
    dialect: Dialect, query: WordQuery, binds: dict[str, Any], scope: str, limit: int
) -> Program[list[ScoredRow]]:
    """Return the best *limit* entries, as rows with the columns of a hit, each with its score."""

    def search(weighed: bool, query: WordQuery, binds: Mapping[str, Any]) -> Program[Answer]:
        build = partial(search_entries, dialect, scope=scope, weighed=weighed)
        return (yield build(one=query.is_one, rare=query.is_rare), binds)

    looks = LogSearch(search, read_found_entries(dialect), lambda row: row.codec is not None)
    return find_in_logs(dialect, query, scope, binds, limit, looks)


# --- Checkpoints ----------------------------------------------------------------------------------


@statement(
    proves=("checkpoint", "words"),
    scope=LOG_SCOPES,
    weighed=(False, True),
    one=(False, True),
    rare=(False, True),
    last_stored=(False, True),
)
def search_checkpoints(
    dialect: Dialect, scope: str, weighed: bool, one: bool, rare: bool, last_stored: bool
) -> Executable | None:
    """Checkpoints that hold a term, and ``score``, their share of the query.

    They are ordered by share, then by newest. With *weighed* a row also has the ``opening`` of its
    search text, and the columns of a hit if there are at most `FULL_ROWS` rows; otherwise those
    columns are NULL. Binds those of `WordQuery.binds` and `search_scope`, ``p_limit``,
    ``p_offset``.

    *one* is for queries of one term, *rare* for terms that at most ``p_most`` rows hold. With
    *last_stored*, where `_may_find_last_stored`, only the ``p_window`` rows that were stored last
    are looked at. A row then has ``are_newest``: 1 if the page is the same as without.
    """
    if last_stored and (rare or not (one and _may_find_last_stored(dialect, scope))):
        return None
    text, below = dialect.text, _is_below(scope)
    hits = text.last_stored(below, live) if last_stored else text.log_hits(below)
    found, asked = _weigh_terms(dialect, hits, _LOG_ROW, one, rare)
    order = (
        CHECKPOINTS.c.created_at.desc(),
        *(THREADS.c[name].desc() for name in _LOG_NAMES),
        CHECKPOINTS.c.seq.desc(),
    )
    chosen = (
        select(
            *(CHECKPOINTS.c[name] for name in (*_LOG_ROW, "created_at")),
            *(THREADS.c[name] for name in _LOG_NAMES),
            found.c.weight,
        )
        .select_from(found)
        .join(CHECKPOINTS, _same_log_row(CHECKPOINTS, found))
        .join(THREADS, same_log(THREADS, found))
        .where(live())
        .order_by(found.c.weight.desc(), *order)
        .limit(bindparam("p_limit"))
        .offset(bindparam("p_offset", type_=Integer))
    )
    best = dialect.statements.materialized(_in_thread(chosen, scope), "best")
    score = (cast(best.c.weight, Float) / asked).label("score")
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
    return query.order_by(best.c.weight.desc(), *order)


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
    dialect: Dialect, query: WordQuery, binds: dict[str, Any], scope: str, limit: int
) -> Program[list[ScoredRow]]:
    """Return the best *limit* checkpoints, as rows with the columns of a hit, with their scores."""

    def search(weighed: bool, query: WordQuery, binds: Mapping[str, Any]) -> Program[Answer]:
        one, rare = query.is_one, query.is_rare
        build = partial(
            search_checkpoints, dialect, scope=scope, weighed=weighed, one=one, rare=rare
        )
        if one and not rare and _may_find_last_stored(dialect, scope):
            # All have equal coverage, so the newest are the page. Almost always they are those that
            # were stored last.
            window = 2 * (binds["p_offset"] + binds["p_limit"])
            rows = yield build(last_stored=True), {**binds, "p_window": window}
            if rows and rows[0].are_newest:
                return rows
        return (yield build(last_stored=False), binds)

    whole = lambda row: row.checkpoint_id is not None  # noqa: E731
    looks = LogSearch(search, read_found_checkpoints(dialect), whole)
    return find_in_logs(dialect, query, scope, binds, limit, looks)


# --- Ranking in SQL: inverse document frequency ---------------------------------------------------


def _weigh_terms(
    dialect: Dialect, hits: FromClause, key: Sequence[str], one: bool, rare: bool
) -> tuple[CTE, ColumnElement[float]]:
    """Return the *key* columns of *hits* with their ``weight``, and that of all terms together.

    *hits* has a row for each ``term`` that each key holds. Binds ``p_terms``, the number of terms,
    and ``p_least``, the number of them that a row holds at least. With *one* there is one term,
    whatever it is worth. With *rare* what more than ``p_most`` keys hold counts as missing.
    """
    if one:
        if rare:
            hits = _none_if_many(dialect, hits)
        weight = _integer_literal(1).label("weight")
        ones = select(*(hits.c[name] for name in key), weight).cte("ranked")
        return ones, cast(_integer_literal(1), Float)
    columns: list[Any] = [hits.c[name] for name in key]
    counted = select(hits.c.term, func.count().label("occurrences")).group_by(hits.c.term)
    if rare:
        counted = counted.having(func.count() <= bindparam("p_most", type_=Integer))
    found = counted.cte("found")
    bits = case(
        *(
            (found.c.occurrences < _integer_literal(2 ** (n + 1)), _integer_literal(n))
            for n in range(MOST_BITS)
        ),
        else_=_integer_literal(MOST_BITS),
    )
    common = select(found.c.term, bits.label("bits")).cte("common")
    scale = select(
        func.max(common.c.bits).label("most"), func.min(common.c.bits).label("least")
    ).cte("scale")
    number, most = bindparam("p_terms", type_=Integer), scale.c.most
    floor = _squared(most - scale.c.least + _integer_literal(1))
    worth = (
        select(
            common.c.term,
            (_squared(most - common.c.bits + _integer_literal(1)) * number + floor).label("weight"),
            # A term that nothing holds is worth more than the rarest that something does.
            (_squared(most + _integer_literal(2)) * number + floor).label("missing"),
        )
        .select_from(common.join(scale, most > _integer_literal(-1)))
        .cte("worth")
    )
    missing = func.max(worth.c.missing) * (number - func.count())
    asked = (
        select(func.coalesce(func.sum(worth.c.weight) + missing, _integer_literal(1)))
        .select_from(worth)
        .scalar_subquery()
    )
    rows = (
        select(*columns, func.sum(worth.c.weight).label("weight"))
        .join(worth, worth.c.term == hits.c.term)
        .group_by(*columns)
        .having(func.count() >= bindparam("p_least", type_=Integer))
        .cte("ranked")
    )
    return rows, cast(asked, Float)


def _none_if_many(dialect: Dialect, hits: FromClause) -> FromClause:
    """Return *hits*, or none of them if there are more than ``p_most``; no more are looked at."""
    # A subquery, which stops at the limit: SQLite may compute all rows of a CTE first.
    assert isinstance(hits, CTE)
    assert isinstance(hits.element, SelectBase)
    hits = hits.element.subquery("hits")
    beyond = dialect.statements.hide_from_planner(bindparam("p_beyond", type_=Integer))
    looked_at = select(*hits.c).limit(beyond).cte("looked_at")
    number = select(func.count()).select_from(looked_at).scalar_subquery()
    are_few = number <= bindparam("p_most", type_=Integer)
    return select(*looked_at.c).where(are_few).cte("rare")


def _squared(number: ColumnElement[int]) -> ColumnElement[int]:
    return number * number


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
