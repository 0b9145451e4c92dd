"""Text search over a store's items: terms in, the best of them out, alike on every database."""

from __future__ import annotations

from sqlalchemy import Executable, Float, Integer, bindparam, cast, select

from memalchemy.dialects import Dialect
from memalchemy.search.ranking import ranked
from memalchemy.search.scope import live_item, not_of_the_house
from memalchemy.statements import statement


@statement(below=(False, True))
def search_items(d: Dialect, below: bool) -> Executable:
    """``namespace, key, score`` of items that hold a term, best first, then the newest.

    Binds ``terms``, ``p_terms`` (their number), `scope_binds`, `Dialect.item_scope`, ``p_limit``,
    ``p_offset``.
    """
    found, asked = ranked(d.item_hits(below), ("namespace", "key", "updated_at", "expires_at"))
    return (
        select(
            found.c.namespace,
            found.c.key,
            (cast(found.c.bits, Float) / asked).label("score"),
        )
        .where(live_item(found), *([not_of_the_house(found)] if below else []))
        .order_by(found.c.bits.desc(), found.c.updated_at.desc(), found.c.namespace, found.c.key)
        .limit(bindparam("p_limit"))
        .offset(bindparam("p_offset", type_=Integer))
    )


@statement(below=(False, True))
def narrowed_items(d: Dialect, below: bool) -> Executable:
    """``namespace, key`` of items that may pass a filter, by the words of their fields."""
    within = d.items_within(below)
    return select(within.c.namespace, within.c.key).limit(bindparam("p_limit"))
