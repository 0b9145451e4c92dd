"""PostgreSQL: searches for words, and for metadata, in GIN indexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Executable,
    FromClause,
    Integer,
    MetaData,
    Select,
    Subquery,
    Table,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, TSQUERY, array  # noqa: TID251
from sqlalchemy.ext.compiler import compiles

from memalchemy.codec.field_terms import OTHERS, FieldTerms
from memalchemy.codec.tokens import Term
from memalchemy.dialects.base import TextIndexes, quoted
from memalchemy.dialects.namespace_range import Live, in_namespace
from memalchemy.dialects.postgresql.newest_with_word import newest_with_word
from memalchemy.dialects.postgresql.statements import computed_once, is_indexed
from memalchemy.keys import encode_id
from memalchemy.schema import CheckpointRow, DeltaRow, StoreItemRow, ThreadRow

_INDEXES = {
    "deltas_search": "ix_deltas_search_text",
    "checkpoints_meta": "ix_checkpoints_meta",
    "store_items_search": "ix_store_items_search",
}


class PostgreSQLTextIndexes(TextIndexes):
    """GIN indexes of tsvectors, and of the metadata as JSONB."""

    finds_last_stored: ClassVar[bool] = True

    def term(self, term: Term) -> str:
        # A quoted lexeme is data to to_tsquery; tokens hold neither quotes nor backslashes.
        return f"'{term.text}'{':*' if term.prefix else ''}"

    def terms(self, terms: Sequence[Term]) -> Any:
        return list(map(self.term, terms))

    def log_hits(self, below: bool = False) -> FromClause:
        terms = _select_terms(cast(bindparam("terms", type_=ARRAY(Text)), ARRAY(Text)))
        deltas, threads = DeltaRow.__table__, ThreadRow.__table__
        found = (
            select(terms.c.term.label("term"), deltas.c.log_id, deltas.c.seq)
            .select_from(terms.join(deltas, _text_vector(deltas).bool_op("@@")(terms.c.query)))
            .where(deltas.c.search_text.is_not(None))
            .where(deltas.c.tenant == bindparam("k_tenant", type_=deltas.c.tenant.type))
        )
        if below:
            # A fence: the planner takes any range of namespaces for few, and would look at the text
            # of each row in them.
            found = found.offset(literal_column("0"))
        rows = found.subquery("found")
        return (
            select(rows)
            .join(threads, threads.c.log_id == rows.c.log_id)
            .where(in_namespace(threads, below))
            .cte("hits")
        )

    def last_stored(self, below: bool, live: Live) -> FromClause:
        return newest_with_word(below, live).cte("hits")

    def are_newest_checkpoints(self, below: bool) -> ColumnElement[int]:
        return literal_column("1", Integer)  # the others are left out

    def item_hits(self, below: bool, columns: Sequence[ColumnElement[Any]]) -> FromClause:
        return item_hits_where(columns)

    def items_in_scope(self, below: bool) -> FromClause:
        return items_in_scope_where()

    def item_scope_binds(
        self, tenant: str, path: str, below: bool, fields: Sequence[FieldTerms]
    ) -> Mapping[str, Any]:
        # The word that the index has for a tenant's namespace; in quotes it is data to a tsquery.
        word = f"\x1f{encode_id(tenant)}\x1f{path}".replace("\\", "\\\\").replace("'", "''")
        conditions = [f"'{word}'{':*' if below else ''}"]
        conditions += map(self.field_query, fields)
        return {"scope": " & ".join(conditions)}

    def has_fields(self, items: Any, query: ColumnElement[str]) -> ColumnElement[bool]:
        return _item_vector(items).bool_op("@@")(cast(query, TSQUERY))

    def field_query(self, field: FieldTerms) -> str:
        return f"({' | '.join(_tsqueries_of_field(field))})"

    def index_name(self, index: str, schema: str | None) -> str | None:
        return f"{quoted(schema)}.{_INDEXES[index]}" if schema else _INDEXES[index]

    def index_state(self) -> Executable | None:
        # A failed CREATE or REINDEX CONCURRENTLY leaves an invalid index, which no query uses.
        return text(
            "SELECT CASE WHEN indisvalid AND indisready AND indislive THEN 1 ELSE 0 END "
            "AS in_use FROM pg_index WHERE indexrelid = to_regclass(:p_index)"
        )

    def unindexed_rows(self, index: str) -> Executable | None:
        if index == "store_items_search":
            return _unindexed_items()
        owner = (DeltaRow if index == "deltas_search" else CheckpointRow).__table__
        row, found = owner.alias("row_here"), owner.alias("found")
        if index == "deltas_search":
            words = func.substring(row.c.search_text, literal_column("'^(?:\\S+ ){0,7}\\S+'"))
            query = func.plainto_tsquery(literal_column("'simple'"), words)
            there: list[Any] = [
                row.c.search_text.is_not(None),
                _text_vector(row).bool_op("@@")(query),
            ]
            hit: list[ColumnElement[bool]] = [found.c.search_text.is_not(None)]
            hit.append(_text_vector(found).bool_op("@@")(query))
        else:
            there = [is_indexed(row.c.meta)]
            hit = [is_indexed(found.c.meta), found.c.meta.bool_op("@>")(row.c.meta)]
        # The primary key does not serve IS NOT DISTINCT FROM, so the index has to find the row.
        same = [found.c[name].is_not_distinct_from(row.c[name]) for name in ("log_id", "seq")]
        return (
            select(row.c.seq)
            .where(row.c.log_id == bindparam("k_log_id", type_=row.c.log_id.type))
            .where(row.c.seq.between(bindparam("p_low"), bindparam("p_high")), *there)
            .where(~select(literal_column("1")).where(*hit, *same).exists())
            .order_by(row.c.seq)
        )

    def force_index(self) -> Executable | None:
        kinds = ("seqscan", "indexscan", "indexonlyscan", "hashjoin", "mergejoin", "material")
        off = ", ".join(f"set_config('enable_{kind}', 'off', true)" for kind in kinds)
        return text(f"SELECT {off}")

    def rebuild(self, index: str) -> Sequence[Executable]:
        return (_Reindex(_INDEXES[index]),)

    def repair_advice(self, index: str, schema: str | None) -> str:
        return f"as the owner run: REINDEX INDEX CONCURRENTLY {self.index_name(index, schema)}"


def _tsqueries_of_field(field: FieldTerms) -> Iterator[str]:
    """Yield the tsqueries of which an item matches one, if its field may be as wanted."""
    yield from field.words
    yield from (f"{prefix}:*" for prefix in field.prefixes)
    if field.mark is not None:
        yield f"({OTHERS} & !{field.mark})"


def item_hits_where(
    columns: Sequence[ColumnElement[Any]], *more: ColumnElement[bool]
) -> FromClause:
    """Return `TextIndexes.item_hits` on *more* conditions on an item."""
    given = cast(bindparam("terms", type_=ARRAY(Text)), ARRAY(Text))
    terms = _select_terms(computed_once(given), within=_scope_tsquery())
    items = StoreItemRow.__table__
    return (
        select(terms.c.term.label("term"), *columns)
        .select_from(terms.join(items, _item_vector(items).bool_op("@@")(terms.c.query)))
        # True of every term. Of an array that it does not see the planner expects ten terms,
        # for which it may compile the plan with LLVM, and that takes longer than the search.
        .where(func.length(terms.c.term).between(1, 2**31 - 1), *more)
        .cte("hits")
    )


def items_in_scope_where(*more: ColumnElement[bool]) -> FromClause:
    """Return `TextIndexes.items_in_scope` on *more* conditions on an item."""
    items = StoreItemRow.__table__
    within = _item_vector(items).bool_op("@@")(_scope_tsquery())
    # Materialised: below a limit that it does not know, a generic plan would scan the table.
    found = select(items.c.namespace, items.c.key, items.c.updated_at).where(within, *more)
    return found.cte("within", nesting=True).prefix_with("MATERIALIZED")


def _select_terms(given: ColumnElement[Any], within: ColumnElement[Any] | None = None) -> Subquery:
    """Return the terms of an array with their tsqueries, which are *within* another if given.

    The limit keeps the planner from computing these in the condition that an index answers: below
    row-level security no index is used for what calls a function that may leak.
    """
    terms = func.unnest(given).table_valued("term", name="terms").render_derived()
    query: ColumnElement[Any] = func.to_tsquery(
        literal_column("'simple'"), terms.c.term, type_=TSQUERY
    )
    if within is not None:
        query = within.op("&&")(query)
    return select(terms.c.term, query.label("query")).offset(literal_column("0")).subquery("asked")


def _scope_tsquery() -> ColumnElement[Any]:
    return cast(bindparam("scope", type_=Text), TSQUERY)


def _text_vector(deltas: Any) -> ColumnElement[Any]:
    """Return the expression that the index of the deltas' texts is on."""
    return func.to_tsvector(literal_column("'simple'"), deltas.c.search_text)


def _scope_of(items: Any) -> ColumnElement[Any]:
    """Return an item's tenant and namespace as one lexeme, which no word can be."""
    mark: ColumnElement[str] = literal_column("chr(31)")
    return mark.op("||")(items.c.tenant).op("||")(mark).op("||")(items.c.namespace)


def _item_vector(items: Any) -> ColumnElement[Any]:
    """Return the expression that the index of items is on."""
    simple: ColumnElement[str] = literal_column("'simple'")
    nothing: ColumnElement[str] = literal_column("''")

    def or_nothing(column: ColumnElement[Any]) -> ColumnElement[Any]:
        # Below row-level security coalesce() counts as a function that may leak.
        return case((column.is_(None), nothing), else_=column)

    words = func.to_tsvector(simple, or_nothing(items.c.search_text))
    fields = func.to_tsvector(simple, or_nothing(items.c.field_terms))
    return words.op("||")(fields).op("||")(func.array_to_tsvector(array([_scope_of(items)])))


def _unindexed_items() -> Executable:
    """Query the items that their index does not find; see `TextIndexes.unindexed_rows`.

    An item is asked for by its scope and its first words, as a search would.
    """
    items = StoreItemRow.__table__
    row, found = items.alias("row_here"), items.alias("found")
    query = _lexeme_of_scope(row).op("&&")(
        func.plainto_tsquery(literal_column("'simple'"), _first_words(row))
    )
    has_words = or_(row.c.search_text.is_not(None), row.c.field_terms.is_not(None))
    same = [found.c[c].is_not_distinct_from(row.c[c]) for c in ("tenant", "namespace", "key")]
    hit: Select[Any] = select(literal_column("1")).where(_matches(found, query), *same)
    low, high = (bindparam(name, type_=row.c.key.type) for name in ("p_low", "p_high"))
    return (
        select(row.c.key)
        .where(*(row.c[c] == bindparam(f"k_{c}") for c in ("tenant", "namespace")))
        .where(row.c.key.between(low, high), has_words, _matches(row, query))
        .where(~hit.exists())
        .order_by(row.c.key)
    )


def _first_words(items: Any) -> ColumnElement[str]:
    """Return the first words of an item's text and of its fields, in one text."""
    some: ColumnElement[str] = literal_column("'^(?:\\S+ ){0,7}\\S+'")
    text, fields = (func.substring(items.c[c], some) for c in ("search_text", "field_terms"))
    return func.concat_ws(literal_column("' '"), text, fields)


def _lexeme_of_scope(items: Any) -> ColumnElement[Any]:
    """Return the tsquery of an item's scope: in quotes, in which a lexeme is data."""
    quote, backslash = (literal_column(f"'{c}'", Text) for c in ("''", "\\"))
    scope = _scope_of(items)
    for odd in (backslash, quote):
        scope = func.replace(scope, odd, odd.op("||")(odd))
    return cast(quote.op("||")(scope).op("||")(quote), TSQUERY)


def _matches(items: Any, query: ColumnElement[Any]) -> ColumnElement[bool]:
    return _item_vector(items).bool_op("@@")(query)


class _Reindex(Executable, ClauseElement):
    """Build an index anew without keeping others from writing; not in a transaction."""

    inherit_cache = False

    def __init__(self, index: str) -> None:
        # A table, because SQLAlchemy puts the schema before the names of tables.
        self.index = Table(index, MetaData())


@compiles(_Reindex)
def _reindex(element: _Reindex, compiler: Any, **kw: Any) -> str:
    return f"REINDEX INDEX CONCURRENTLY {compiler.preparer.format_table(element.index)}"
