"""Text search over a store's items: terms in, the best of them out, alike on every database."""

from __future__ import annotations

from sqlalchemy import Executable, Float, Integer, and_, bindparam, cast, select

from memalchemy.dialects import Dialect
from memalchemy.search.ranking import ranked
from memalchemy.search.scope import ITEMS, in_scope, live_item
from memalchemy.statements import statement


@statement(below=(False, True))
def search_items(d: Dialect, below: bool) -> Executable:
    """``namespace, key, score`` of items that hold a term, best first, then the newest.

    Binds ``terms``, ``p_terms`` (their number), `scope_binds`, `Dialect.item_scope`, ``p_limit``,
    ``p_offset``.
    """
    found, asked = ranked(d.item_hits(below), ("namespace", "key"))
    return (
        select(
            ITEMS.c.namespace,
            ITEMS.c.key,
            (cast(found.c.bits, Float) / asked).label("score"),
        )
        .select_from(found)
        .join(ITEMS, and_(ITEMS.c.namespace == found.c.namespace, ITEMS.c.key == found.c.key))
        .where(in_scope(ITEMS, below), live_item())
        .order_by(found.c.bits.desc(), ITEMS.c.updated_at.desc(), ITEMS.c.namespace, ITEMS.c.key)
        .limit(bindparam("p_limit"))
        .offset(bindparam("p_offset", type_=Integer))
    )


@statement(below=(False, True))
def narrowed_items(d: Dialect, below: bool) -> Executable:
    """``namespace, key`` of items that may pass a filter, by the words of their fields."""
    within = d.items_within(below)
    return select(within.c.namespace, within.c.key).limit(bindparam("p_limit"))
