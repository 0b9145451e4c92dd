"""Loads of the newest checkpoint where Citus has spread the logs: see `memalchemy.log.citus`.

It plans a recursive query each time, and a query of one table once: so the rows of a checkpoint
that this process knows are read by their keys.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ARRAY, Executable, any_, bindparam, select

from memalchemy.checkpoints.load import LINK, load_chain, to_links
from memalchemy.checkpoints.skip_deltas import Tip
from memalchemy.codec.signatures import SigningKeys
from memalchemy.dialects import Dialect
from memalchemy.log import DELTAS, Head, Log, read_head
from memalchemy.log.copy import read_position
from memalchemy.log.tables import of_log
from memalchemy.proofs import NO_KEYS
from memalchemy.statements import Program, statement
from memalchemy.variants import CITUS


@statement(unproven=NO_KEYS, only_on=CITUS)
def read_links(dialect: Dialect) -> Executable:
    """Select the rows of a log at ``p_seqs``."""
    seqs = bindparam("p_seqs", type_=ARRAY(DELTAS.c.seq.type))
    return select(*(DELTAS.c[name] for name in LINK)).where(
        of_log(DELTAS), DELTAS.c.seq == any_(seqs)
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
    if known is not None and checkpoint_id is None and not keys.signs:
        tip = yield from _load_known(dialect, log, now, known)
        if tip is not None:
            return tip
    return (yield from load_chain.general(dialect, log, checkpoint_id, now, keys))


def _load_known(dialect: Dialect, log: Log, now: datetime, known: Tip) -> Program[Tip | None]:
    """Return the newest checkpoint as stored, read by its rows' keys.

    ``None`` if it is not *known*, or if its rows are gone or others: `read_chain` judges those.
    """
    heads = yield read_head(dialect), log.binds()
    head = Head._make(heads[0]) if heads else None
    if head is None or not head.is_live(now):
        return None
    if (head.head_id, head.epoch) != (known.checkpoint_id, known.epoch):
        return None
    if head.next_seq != known.seq + 1:  # by pending writes, or in another history
        named = {"p_checkpoint_id": known.checkpoint_id}
        positions = yield read_position(dialect), log.binds() | named
        if [row.seq for row in positions] != [known.seq]:
            return None
    found = yield read_links(dialect), log.binds() | {"p_seqs": [link.seq for link in known.links]}
    rows = sorted(found, key=lambda row: row.seq)
    bases = [None, *(link.seq for link in known.links[:-1])]
    linked = [(base, *row) for base, row in zip(bases, known.row_keys, strict=True)]
    if [(row.base_seq, row.seq, row.checksum) for row in rows] != linked:
        return None
    return Tip(known.checkpoint_id, known.epoch, to_links(rows), known.raw_size)
