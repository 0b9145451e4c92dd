"""Rules of retention as SQL conditions: for one log at a save, and for many logs at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import CTE, ColumnElement, FromClause, and_, bindparam, case, select
from sqlalchemy import literal_column as constant

from memalchemy.dialects import Dialect
from memalchemy.log.dependencies import CHECKPOINT_KEY, required_checkpoints
from memalchemy.log.tables import CHECKPOINTS, is_in_window, is_not_in, of_log, routed, same_log


def beyond_retention(dialect: Dialect) -> ColumnElement[bool]:
    """Return the condition on checkpoints of one log that retention does not keep.

    No rule keeps them, and no checkpoint that stays rests on them. Binds ``p_checkpoint_id`` (one
    that stays), ``p_rests_on`` (the one that it rests on), ``p_keep`` (the number of the others
    that stay), ``p_every``, ``p_cutoff``.
    """
    kept, below = CHECKPOINTS.alias("kept"), CHECKPOINTS.alias("below")
    by_others = select(kept.c.log_id, kept.c.rests_on.label("checkpoint_id")).where(
        of_log(kept), kept.c.rests_on.is_not(None), ~_goes_from_log(kept)
    )
    # A single statement does not see the checkpoint that it inserts itself.
    by_this = select(*(below.c[name] for name in CHECKPOINT_KEY)).where(
        of_log(below),
        below.c.checkpoint_id == bindparam("p_rests_on", type_=below.c.checkpoint_id.type),
    )
    rested_on = by_others.union_all(by_this).subquery("rested_on")
    stay = required_checkpoints(dialect, select(rested_on))
    names = select(stay.c.checkpoint_id).add_cte(stay, nest_here=True)
    going = and_(of_log(CHECKPOINTS), _goes_from_log(CHECKPOINTS))
    return and_(going, CHECKPOINTS.c.checkpoint_id.not_in(names))


def _goes_from_log(table: Any) -> ColumnElement[bool]:
    """Return the condition that no rule keeps a checkpoint of one log."""
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
        table.c.checkpoint_id != bindparam("p_checkpoint_id"),
        table.c.seq <= limit,
        *_conditions_of_rules(table),
    )


def _conditions_of_rules(table: Any) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the conditions that ``keep_every`` and ``older_than`` do not keep a checkpoint."""
    every = bindparam("p_every", type_=CHECKPOINTS.c.ordinal.type)
    return (
        table.c.ordinal % every != constant("0"),
        table.c.occurred_at < bindparam("p_cutoff", type_=CHECKPOINTS.c.occurred_at.type),
    )


class RankedCheckpoints(NamedTuple):
    """CTEs that say which checkpoints of some logs go, in the order in which a WITH needs them.

    They stand side by side, none inside another, which Oracle refuses.
    """

    kept: CTE
    """The position of the oldest checkpoint of each log that ``p_keep`` keeps."""
    rows: CTE
    """The checkpoints, each with ``goes``: 1 if no rule keeps it."""
    stay: CTE
    """The checkpoints on which those that a rule keeps rest."""

    def is_let_go(self) -> ColumnElement[bool]:
        """Return the condition that neither a rule nor a dependency keeps one of *rows*."""
        return and_(
            self.rows.c.goes != constant("0"), is_not_in(self.rows, CHECKPOINT_KEY, self.stay)
        )


def rank_checkpoints(
    dialect: Dialect, logs: FromClause, *, in_window: bool = False
) -> RankedCheckpoints:
    """Return which checkpoints of *logs* go. The newest of a log always stays.

    The binds are those of `beyond_retention`. With *in_window*, only the checkpoints of a window
    are there (`is_in_window`), and all that is outside of it is taken to stay.
    """
    newest = CHECKPOINTS.alias("newest")
    first_kept = (
        select(newest.c.seq)
        .where(same_log(newest, logs), *routed(dialect, newest))
        .order_by(newest.c.seq.desc())
        .limit(1)
        .offset(bindparam("p_keep"))
        .scalar_subquery()
    )
    # It is NULL where a log has fewer, and none of them goes.
    kept = dialect.statements.materialized(
        select(logs.c.log_id, first_kept.label("first_kept")), "kept"
    )
    beyond = and_(CHECKPOINTS.c.seq < kept.c.first_kept, *_conditions_of_rules(CHECKPOINTS))
    goes = case((beyond, constant("1")), else_=constant("0"))
    names = [CHECKPOINTS.c[name] for name in ("log_id", "seq", "checkpoint_id", "rests_on")]
    ranked = (
        select(*names, goes.label("goes"))
        .select_from(CHECKPOINTS.join(kept, same_log(CHECKPOINTS, kept)))
        .where(*routed(dialect, CHECKPOINTS))
    )
    if in_window:
        ranked = ranked.where(is_in_window(CHECKPOINTS))
    rows = dialect.statements.materialized(ranked, "ranked")
    rested: Any = select(rows.c.log_id, rows.c.rests_on.label("checkpoint_id")).where(
        rows.c.goes == constant("0"), rows.c.rests_on.is_not(None)
    )
    if not in_window:
        return RankedCheckpoints(kept, rows, required_checkpoints(dialect, rested))
    resting = CHECKPOINTS.alias("resting")
    on_it = and_(same_log(resting, rows), resting.c.rests_on == rows.c.checkpoint_id)
    from_outside = (
        select(*(rows.c[name] for name in CHECKPOINT_KEY))
        .select_from(rows.join(resting, on_it))
        .where(~is_in_window(resting), *routed(dialect, resting))
    )
    both = rested.union_all(from_outside).subquery("rested_on")
    stay = required_checkpoints(dialect, select(both), is_in_window(CHECKPOINTS))
    return RankedCheckpoints(kept, rows, stay)
