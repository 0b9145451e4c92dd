"""Logs where there is no upsert: a head or a checkpoint is updated, or else inserted.

Somebody may have inserted it meanwhile; then it is updated after all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Executable, bindparam, insert, update

from memalchemy.dialects import Dialect
from memalchemy.errors import UniqueViolation
from memalchemy.log.append import (
    REPLACED_COLUMNS,
    appends_to_known_heads,
    checkpoint_values,
    put_checkpoint,
    replacement_values,
    saves_to_known_heads,
    upsert_checkpoint,
)
from memalchemy.log.heads import (
    ALLOTTED_COLUMNS,
    CONDITIONS,
    CREATING_CONDITIONS,
    PURPOSES,
    Allotted,
    allot_in_known_head,
    allot_or_create,
    allot_positions,
    conditions_on_head,
    counted_checkpoint,
    head_binds,
    new_head_values,
    revived_values,
)
from memalchemy.log.tables import (
    CHECKPOINTS,
    THREADS,
    column_binds,
    name_binds,
    of_log,
    signature_bind,
    unexpired,
)
from memalchemy.rows import CHECKPOINT, HEAD
from memalchemy.statements import Program, statement
from memalchemy.variants import NO_UPSERT

for upserting in (allot_or_create, allot_in_known_head, upsert_checkpoint):
    upserting.not_on(NO_UPSERT)


@statement(
    proves="written log", only_on=NO_UPSERT, purpose=PURPOSES, condition=CONDITIONS, changes=HEAD
)
def allot_existing(dialect: Dialect, purpose: str, condition: str) -> Executable | None:
    """Allot positions of an existing head: first half of `allot_or_create`."""
    if condition not in CREATING_CONDITIONS[purpose]:
        return None
    same = (THREADS.c[name] == bind for name, bind in name_binds().items())
    where = [*same, unexpired(), *conditions_on_head(purpose, condition)]
    values = revived_values(purpose, head_binds(), counted_checkpoint(dialect))
    return update(THREADS).where(*where).values(values).returning(*ALLOTTED_COLUMNS)


@statement(proves="written log", only_on=NO_UPSERT, purpose=PURPOSES, writes=HEAD)
def create_head(dialect: Dialect, purpose: str) -> Executable:
    """Create a head: second half of `allot_or_create`."""
    values = name_binds() | new_head_values(purpose, head_binds(), counted_checkpoint(dialect))
    return insert(THREADS).values(values).returning(*ALLOTTED_COLUMNS)


@allot_positions.on(NO_UPSERT)
def _allot_positions(
    dialect: Dialect, purpose: str, values: Mapping[str, Any], condition: str = "any"
) -> Program[Allotted | None]:
    for _ in range(2):
        rows = yield allot_existing(dialect, purpose=purpose, condition=condition), values
        if rows:
            return Allotted._make(rows[0])
        try:
            rows = yield create_head(dialect, purpose=purpose), values
        except UniqueViolation:
            continue  # somebody else created it, or it is not as required: look again
        return Allotted._make(rows[0])
    return None


@statement(only_on=NO_UPSERT, writes=CHECKPOINT)
def update_checkpoint(dialect: Dialect) -> Executable:
    """Move an existing checkpoint: the first half of `upsert_checkpoint`."""
    same = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    given = column_binds(CHECKPOINTS, REPLACED_COLUMNS)
    values = replacement_values(given.__getitem__) | signature_bind(CHECKPOINTS)
    return update(CHECKPOINTS).where(of_log(CHECKPOINTS), same).values(values)


@statement(only_on=NO_UPSERT, writes=CHECKPOINT)
def insert_checkpoint(dialect: Dialect) -> Executable:
    """Insert a new checkpoint: the second half of `upsert_checkpoint`."""
    previous = bindparam("p_previous_id", type_=CHECKPOINTS.c.parent_id.type)
    placed = column_binds(CHECKPOINTS, ["seq", "ordinal"]) | signature_bind(CHECKPOINTS)
    return insert(CHECKPOINTS).values(checkpoint_values(previous) | placed)


@saves_to_known_heads.on(NO_UPSERT)
def _saves_to_known_heads(dialect: Dialect) -> bool:
    return False


@appends_to_known_heads.on(NO_UPSERT)
def _appends_to_known_heads(dialect: Dialect, *, sealed: bool) -> bool:
    return False


@put_checkpoint.on(NO_UPSERT)
def _put_checkpoint(dialect: Dialect, head: Allotted, placed: Mapping[str, Any]) -> Program[None]:
    replaced = yield update_checkpoint(dialect), placed
    if not replaced.touched:
        yield insert_checkpoint(dialect), placed
