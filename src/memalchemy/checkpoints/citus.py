"""Loads where Citus has spread the logs: see `memalchemy.log.citus`.

It plans a recursive query each time, and another one once: so the checkpoint that this process
holds is looked at before the rows of a chain are read.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Executable, and_, select

from memalchemy.checkpoints.load import load_chain, select_position
from memalchemy.checkpoints.skip_deltas import Tip
from memalchemy.codec.signatures import SigningKeys
from memalchemy.dialects import Dialect
from memalchemy.log import Log
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, live, of_log, same_log
from memalchemy.proofs import NO_KEYS
from memalchemy.statements import Program, statement
from memalchemy.variants import CITUS


@statement(unproven=NO_KEYS, only_on=CITUS, which=("newest", "named"))
def look_at_checkpoint(dialect: Dialect, which: str) -> Executable:
    """Select what tells the row of a checkpoint from every other one."""
    state = and_(same_log(CHECKPOINTS, DELTAS), CHECKPOINTS.c.seq == DELTAS.c.seq)
    return (
        select(CHECKPOINTS.c.checkpoint_id, THREADS.c.epoch, DELTAS.c.seq, DELTAS.c.checksum)
        .select_from(THREADS)
        .join(DELTAS, same_log(DELTAS, THREADS))
        .join(CHECKPOINTS, state)
        .where(of_log(CHECKPOINTS), CHECKPOINTS.c.seq == select_position(which), live())
    )


@load_chain.on(CITUS)
def _load_chain(
    dialect: Dialect,
    log: Log,
    checkpoint_id: str | None,
    now: datetime,
    keys: SigningKeys,
    known: Tip | None = None,
) -> Program[Tip | None]:
    if known is not None and not keys.signs:
        which = "newest" if checkpoint_id is None else "named"
        values = log.head_binds() | {"p_now": now, "p_checkpoint_id": checkpoint_id}
        rows = yield look_at_checkpoint(dialect, which=which), values
        if [tuple(row) for row in rows] == [known.identity]:
            return known
    return (yield from load_chain.general(dialect, log, checkpoint_id, now, keys))
