"""Dependencies between checkpoints: one that others rest on stays as long as any of them does.

A state may be incomplete without its parent's state and pending writes, and the parent's without
those of its own parent. `CheckpointRow.rests_on` names the parent then. Whatever deletes
checkpoints asks here which of them have to stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import CTE, ColumnElement, Executable, Select, and_, bindparam, select

from memalchemy.dialects import Dialect
from memalchemy.log.tables import CHECKPOINTS, Log, of_log, routed, same_log
from memalchemy.statements import Program, statement

CHECKPOINT_KEY = ("log_id", "checkpoint_id")


def required_checkpoints(dialect: Dialect, first: Select[Any], *within: ColumnElement[bool]) -> CTE:
    """Return a CTE of the checkpoints that *first* names, and of those that they rest on in turn.

    *first* selects the `CHECKPOINT_KEY` columns. Dependencies are followed only from checkpoints
    that meet the conditions *within*.
    """
    start = first.cte("needed", recursive=True, nesting=True)
    here = and_(same_log(CHECKPOINTS, start), CHECKPOINTS.c.checkpoint_id == start.c.checkpoint_id)
    rest = (
        select(CHECKPOINTS.c.log_id, CHECKPOINTS.c.rests_on)
        .select_from(start)
        .join(CHECKPOINTS, here)
        .where(CHECKPOINTS.c.rests_on.is_not(None), *within, *routed(dialect, CHECKPOINTS))
    )
    return dialect.statements.recursive_union(start, rest, CHECKPOINT_KEY)


@statement(proves="removed rows")
def find_dependent(dialect: Dialect) -> Executable:
    """Select the newest checkpoints of a log that rest on ``p_checkpoint_id``: ``p_limit``."""
    on = CHECKPOINTS.c.rests_on
    return (
        select(CHECKPOINTS.c.checkpoint_id)
        .where(of_log(CHECKPOINTS), on == bindparam("p_checkpoint_id", type_=on.type))
        .order_by(CHECKPOINTS.c.seq.desc())
        .limit(bindparam("p_limit"))
    )


@statement(proves="removed rows")
def list_dependencies(dialect: Dialect) -> Executable:
    """Select the checkpoints of a log that rest on another, and that other one."""
    on = CHECKPOINTS.c.rests_on
    return select(CHECKPOINTS.c.checkpoint_id, on).where(of_log(CHECKPOINTS), on.is_not(None))


def without_required(dialect: Dialect, log: Log, ids: Sequence[str]) -> Program[list[str]]:
    """Return those of *ids* that no other checkpoint needs.

    A checkpoint that is not among *ids* keeps what it rests on.
    """
    rows = yield list_dependencies(dialect), log.binds()
    below = {row.checkpoint_id: row.rests_on for row in rows}
    going = dict.fromkeys(ids)
    stay = [on for name, on in below.items() if name not in going]
    while stay:
        name = stay.pop()
        if name in going:
            del going[name]
            if name in below:
                stay.append(below[name])
    return list(going)
