"""Holding a log still while something that rests on it is written elsewhere, or cleared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from memalchemy.contracts import UNSET
from memalchemy.database import HostConnection
from memalchemy.log import Head
from memalchemy.log.entries import remove_all, standing
from memalchemy.statements import Program
from memalchemy.threads import ThreadLog
from memalchemy.threads.reading import Reading

__all__ = ["Head", "hold", "replace_suffix"]


async def hold(log: Reading, thread_id: str, connection: HostConnection) -> Head | None:
    """The head of a log, which nobody else writes to until the transaction ends; ``None`` if the
    log is not there.
    """
    of, now = log._log(thread_id), datetime.now(UTC)
    program = partial(standing, log.db.dialect, of, {"p_now": now}, UNSET)
    return await log.db.write(program, connection=connection, payloads=False)


async def replace_suffix(
    log: ThreadLog,
    thread_id: str,
    after: int,
    entries: Sequence[Any],
    clearing: ThreadLog | None,
    *,
    expected_version: int,
    connection: HostConnection | None,
) -> list[int]:
    """`ThreadLog.replace_suffix`, and another log loses its entries in the same transaction."""

    def clear() -> Program[int]:
        assert clearing is not None
        other = clearing._log(thread_id)
        return remove_all(log.db.dialect, other, clearing._values(other))

    return await log._place(
        "thread.replace",
        thread_id,
        list(entries),
        expected=expected_version,
        connection=connection,
        after=after,
        then=None if clearing is None else clear,
    )
