"""Holding a log still while something that rests on it is written elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from memalchemy.contracts import UNSET
from memalchemy.database import HostConnection
from memalchemy.log.entries import standing
from memalchemy.log.removing import Head
from memalchemy.threads.reading import Reading

__all__ = ["Head", "hold"]


async def hold(log: Reading, thread_id: str, connection: HostConnection) -> Head | None:
    """The head of a log, which nobody else writes to until the transaction ends; ``None`` if the
    log is not there.
    """
    of, now = log._log(thread_id), datetime.now(UTC)
    program = partial(standing, log.db.dialect, of, {"p_now": now}, UNSET)
    return await log.db.write(program, connection=connection)
