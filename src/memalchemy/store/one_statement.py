"""Items where one statement does it all: it writes an item and deletes its vectors."""

from __future__ import annotations

from sqlalchemy import Executable, and_, select, update

from memalchemy.dialects import LOCKS, Dialect
from memalchemy.proofs import REPLACED
from memalchemy.rows import ITEM
from memalchemy.search.scope import ITEMS, live_item, of_item
from memalchemy.statements import Program, statement
from memalchemy.store.write import (
    EXPECTED,
    Expected,
    Row,
    deleting_vectors,
    expectation,
    lock_item,
    put_at_once,
    puts_at_once,
    putting,
)
from memalchemy.variants import ONE_STATEMENT


@statement(unproven=REPLACED, only_on=ONE_STATEMENT, expected=EXPECTED, writes=ITEM)
def put_item_without_vectors(dialect: Dialect, expected: str) -> Executable:
    """Write an item and delete its vectors, in one statement.

    It does nothing and returns no row if the item is not as expected, or if somebody has written it
    since the statement began: it cannot see their vectors.
    """
    as_seen = dialect.statements.is_as_seen(ITEMS, of_item(ITEMS))
    item = putting(dialect, expected, as_seen).cte("item")
    gone = deleting_vectors(select(item.c.version).exists()).cte("gone")
    return select(item.c.version).add_cte(gone)


@lock_item.on(ONE_STATEMENT)
def _lock_item(dialect: Dialect) -> Executable:
    # It is written as it is, for `put_item_without_vectors` to notice.
    here = and_(of_item(ITEMS), live_item())
    same = {"version": ITEMS.c.version}
    locking = update(ITEMS).where(here).values(same)
    locking = locking.returning(ITEMS.c.version, ITEMS.c.created_at)
    return locking.execution_options(**{LOCKS: True})


@puts_at_once.on(ONE_STATEMENT)
def _puts_at_once(dialect: Dialect) -> bool:
    return True


@put_at_once.on(ONE_STATEMENT)
def _put_at_once(dialect: Dialect, row: Row, expected: Expected) -> Program[int | None]:
    which, binds = expectation(expected)
    rows = yield put_item_without_vectors(dialect, expected=which), dict(row) | binds
    return rows[0].version if rows else None
