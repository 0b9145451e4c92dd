"""A variant of a third party's in one file: what an UPDATE has changed is read back by a SELECT.

Some databases return no rows from an UPDATE. The dialect below names the variant, and this module
has what is otherwise there where positions are allotted and where an item is put: statements and
programs that stand in the place of memalchemy's. All else is as on `Toy`, which has no upsert.
``CALLS`` counts them, for tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from memalchemy_toy import Toy
from sqlalchemy import Executable, select, update

from memalchemy.dialects import Dialect
from memalchemy.errors import UniqueViolation
from memalchemy.log.heads import (
    ALLOTTED_COLUMNS,
    CONDITIONS,
    HEAD_COLUMNS,
    PURPOSES,
    Allotted,
    allot_positions,
    conditions_on_head,
    counted_checkpoint,
    head_binds,
    lock_log,
    revived_values,
)
from memalchemy.log.no_upsert import create_head
from memalchemy.log.tables import THREADS, name_binds, of_log, unexpired
from memalchemy.search.scope import ITEMS, of_item
from memalchemy.statements import Program, statement
from memalchemy.store.no_upsert import insert_item
from memalchemy.store.write import EXPECTED, Row, changing, put_alone

READS_BACK = "reads_back"
"""The name of the variant."""

CALLS: Counter[str] = Counter()

P = ParamSpec("P")
T = TypeVar("T")


class ToyThatReadsBack(Toy):
    """A toy whose UPDATE returns nothing: ``toy_reads_back:///path/to/file``."""

    name = "toy_reads_back"
    variants = (READS_BACK, *Toy.variants)


def _counted(function: Callable[P, T]) -> Callable[P, T]:
    @wraps(function)
    def count(*args: P.args, **kwargs: P.kwargs) -> T:
        CALLS[function.__name__.lstrip("_")] += 1
        return function(*args, **kwargs)

    return count


# --- Heads of logs -------------------------------------------------------------------------------


@lock_log.on(READS_BACK)
@_counted
def _lock_log(dialect: Dialect) -> Executable:
    # The transactions of a file's only writer begin with the lock.
    return select(*HEAD_COLUMNS).where(of_log(THREADS))


@statement(only_on=READS_BACK, purpose=PURPOSES, condition=CONDITIONS)
def move_head(dialect: Dialect, purpose: str, condition: str) -> Executable:
    """Allot positions of an existing head."""
    same = (THREADS.c[name] == bind for name, bind in name_binds().items())
    values = revived_values(purpose, head_binds(), counted_checkpoint(dialect))
    conditions = (unexpired(), *conditions_on_head(purpose, condition))
    return update(THREADS).where(*same, *conditions).values(values)


@statement(only_on=READS_BACK)
def read_allotted(dialect: Dialect) -> Executable:
    """Select what was allotted."""
    return select(*ALLOTTED_COLUMNS).where(of_log(THREADS))


@allot_positions.on(READS_BACK)
@_counted
def _allot_positions(
    dialect: Dialect, purpose: str, values: Mapping[str, Any], condition: str = "any"
) -> Program[Allotted | None]:
    for _ in range(2):
        moved = yield move_head(dialect, purpose=purpose, condition=condition), values
        if moved.touched:
            (row,) = yield read_allotted(dialect), values
            return Allotted._make(row)
        try:
            (row,) = yield create_head(dialect, purpose=purpose), values
        except UniqueViolation:
            continue  # somebody else created it, or it is not as required: look again
        return Allotted._make(row)
    return None


# --- Items ---------------------------------------------------------------------------------------


@statement(only_on=READS_BACK, expected=EXPECTED)
def change_item(dialect: Dialect, expected: str) -> Executable:
    """Write an existing item."""
    return changing(expected)


@statement(only_on=READS_BACK)
def read_version(dialect: Dialect) -> Executable:
    """Select the version of an item."""
    return select(ITEMS.c.version).where(of_item(ITEMS))


@put_alone.on(READS_BACK)
@_counted
def _put_alone(dialect: Dialect, values: Row, which: str) -> Program[int | None]:
    for _ in range(2):
        changed = yield change_item(dialect, expected=which), dict(values)
        if changed.touched:
            (row,) = yield read_version(dialect), dict(values)
            return int(row.version)
        if which in ("version", "item"):
            return None
        try:
            yield insert_item(dialect), dict(values)
        except UniqueViolation:
            continue  # somebody else made it, or it is not as expected: look again
        return 1
    return None
