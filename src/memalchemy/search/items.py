"""Text search over a store's items: terms in, the best of them out, alike on every database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    Float,
    Integer,
    Select,
    and_,
    bindparam,
    cast,
    select,
)

from memalchemy.dialects import Dialect
from memalchemy.search.ranking import are_few, opening, ranked
from memalchemy.search.scope import ITEMS, STORED, live_item, not_of_the_house, same_item
from memalchemy.statements import statement

_PLACE = ("namespace", "key")


@statement(below=(False, True), weighed=(False, True))
def search_items(d: Dialect, below: bool, weighed: bool) -> Executable:
    """``namespace, key`` of items that hold a term, and their ``score``: their share of the query.

    The largest share first, then the newest. *weighed*: with the ``opening`` of the words, and the
    whole item, as `stored` has it, if `are_few`; else the rest of it is NULL. Binds ``terms``,
    ``p_terms`` (their number), `scope_binds`, `TextIndexes.item_scope_binds`, ``p_limit`` and
    ``p_offset``.
    """
    hits = d.text.item_hits(below)
    found, asked = ranked(hits, [column.name for column in hits.c if column.name != "term"])
    best = d.statements.materialized(_best(d, found, below), "best")
    score = (cast(best.c.bits, Float) / asked).label("score")
    query: Select[Any] = select(*(best.c[name] for name in _PLACE), score)
    if weighed:
        whole = ITEMS.alias("whole")
        rest = (whole.c[name] for name in STORED if name not in _PLACE)
        query = (
            query.add_columns(opening(ITEMS.c.search_text), *rest)
            .select_from(best)
            .join(ITEMS, _is(d, best))
            .outerjoin(whole, and_(same_item(whole, ITEMS), are_few(best)))
        )
    return query.order_by(*_order(best, best))


def _best(d: Dialect, found: CTE, below: bool) -> Select[Any]:
    """A page of what was found, with what it takes to order and to look it up."""
    has_place = "namespace" in found.c
    of: Any = found if has_place else ITEMS
    columns = [of.c[name] for name in (*_PLACE, "updated_at")]
    query: Select[Any] = select(*columns, found.c.bits)
    if not has_place:
        query = query.add_columns(found.c.row_at).select_from(found).join(ITEMS, _is(d, found))
    return (
        query.where(live_item(of), *([not_of_the_house(of)] if below else []))
        .order_by(*_order(found, of))
        .limit(d.statements.hide_from_planner(bindparam("p_limit", type_=Integer)))
        .offset(d.statements.hide_from_planner(bindparam("p_offset", type_=Integer)))
    )


def _is(d: Dialect, one: CTE) -> ColumnElement[bool]:
    """The item of a row of *one*."""
    position = d.statements.rowid(ITEMS)
    if position is not None and "row_at" in one.c:
        return position == one.c.row_at
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return and_(tenant, *(ITEMS.c[name] == one.c[name] for name in _PLACE))


def _order(found: Any, of: Any) -> list[ColumnElement[Any]]:
    return [found.c.bits.desc(), of.c.updated_at.desc(), of.c.namespace, of.c.key]


@statement(below=(False, True))
def narrowed_items(d: Dialect, below: bool) -> Executable:
    """``namespace, key`` of items that may pass a filter, by the words of their fields."""
    within = d.text.items_in_scope(below)
    return select(within.c.namespace, within.c.key).limit(bindparam("p_limit"))
