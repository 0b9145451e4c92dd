"""The rules of retention as conditions: of one log at a save, and of many logs at once."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CTE, ColumnElement, FromClause, and_, bindparam, case, func, select, tuple_
from sqlalchemy import literal_column as constant

from memalchemy.dialects import Dialect
from memalchemy.log.dependencies import NAMED, needed
from memalchemy.log.tables import CHECKPOINTS, of_log, same_log


def beyond_retention(dialect: Dialect) -> ColumnElement[bool]:
    """Checkpoints of one log that every rule lets go, and that none rests on that stays.

    Binds ``p_checkpoint_id`` (one that stays), ``p_rests_on`` (the one that it rests on),
    ``p_keep`` (the number of the others that stay), ``p_every``, ``p_cutoff``.
    """
    kept, below = CHECKPOINTS.alias("kept"), CHECKPOINTS.alias("below")
    by_others = select(kept.c.log_id, kept.c.rests_on.label("checkpoint_id")).where(
        of_log(kept), kept.c.rests_on.is_not(None), ~_goes_from_log(kept)
    )
    # A single statement does not see the name that it puts.
    by_this = select(*(below.c[name] for name in NAMED)).where(
        of_log(below),
        below.c.checkpoint_id == bindparam("p_rests_on", type_=below.c.checkpoint_id.type),
    )
    rested_on = by_others.union_all(by_this).subquery("rested_on")
    stay = needed(dialect, select(rested_on))
    names = select(stay.c.checkpoint_id).add_cte(stay, nest_here=True)
    going = and_(of_log(CHECKPOINTS), _goes_from_log(CHECKPOINTS))
    return and_(going, CHECKPOINTS.c.checkpoint_id.not_in(names))


def _goes_from_log(table: Any) -> ColumnElement[bool]:
    newest = CHECKPOINTS.alias("newest")
    limit = (
        select(newest.c.seq)
        .where(of_log(newest), newest.c.checkpoint_id != bindparam("p_checkpoint_id"))
        .order_by(newest.c.seq.desc())
        .limit(1)
        .offset(bindparam("p_keep"))
        .scalar_subquery()
    )
    return and_(
        table.c.checkpoint_id != bindparam("p_checkpoint_id"), table.c.seq <= limit, *_let_go(table)
    )


def _let_go(table: Any) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    every = bindparam("p_every", type_=CHECKPOINTS.c.ordinal.type)
    return (
        table.c.ordinal % every != constant("0"),
        table.c.occurred_at < bindparam("p_cutoff", type_=CHECKPOINTS.c.occurred_at.type),
    )


def ranked(dialect: Dialect, logs: FromClause) -> tuple[CTE, CTE]:
    """The checkpoints of *logs*, each with whether the rules let it go; and those that one rests on
    that the rules keep. Binds as `beyond_retention`; the newest of a log always stays.
    """
    number = func.row_number().over(
        partition_by=CHECKPOINTS.c.log_id, order_by=CHECKPOINTS.c.seq.desc()
    )
    columns = ("log_id", "seq", "checkpoint_id", "rests_on", "ordinal", "occurred_at")
    numbered = (
        select(*(CHECKPOINTS.c[name] for name in columns), (number - constant("1")).label("newer"))
        .select_from(CHECKPOINTS)
        .join(logs, same_log(CHECKPOINTS, logs))
        .subquery("numbered")
    )
    beyond = and_(numbered.c.newer > bindparam("p_keep"), *_let_go(numbered))
    goes = case((beyond, constant("1")), else_=constant("0"))
    names = [numbered.c[name] for name in ("log_id", "seq", "checkpoint_id", "rests_on")]
    rows = dialect.statements.materialized(select(*names, goes.label("goes")), "ranked")
    rested = select(rows.c.log_id, rows.c.rests_on.label("checkpoint_id")).where(
        rows.c.goes == constant("0"), rows.c.rests_on.is_not(None)
    )
    return rows, needed(dialect, rested)


def goes(rows: CTE, stay: CTE) -> ColumnElement[bool]:
    """A checkpoint of `ranked` goes: the rules let it, and none rests on it that they keep."""
    name = tuple_(*(rows.c[column] for column in NAMED))
    kept = name.in_(select(*(stay.c[column] for column in NAMED)))
    return and_(rows.c.goes != constant("0"), ~kept)
