"""Times of imported logs: those of what happened in them, and not that of the import."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from memalchemy.database import Database
from memalchemy.database.intent import WRITE_STATEMENT
from memalchemy.keys import encode_namespace
from memalchemy.log import Log
from memalchemy.log.heads import date_log


class LogTimes(NamedTuple):
    """The log of a thread, and when the first and the last of what it holds happened."""

    namespace: tuple[str, ...]
    thread_id: str
    began: datetime
    ended: datetime

    @classmethod
    def of(
        cls, namespace: tuple[str, ...], thread_id: str, times: Iterable[datetime | None]
    ) -> list[LogTimes]:
        """Return the times of a log in a list; an empty one if none are known."""
        known = [time for time in times if time is not None]
        return [cls(namespace, thread_id, min(known), max(known))] if known else []


async def date_logs(db: Database, logs: Iterable[LogTimes]) -> None:
    """Give logs, which an import has just written, the times of what happened in them."""
    for one in logs:
        log = Log(db.tenant, one.thread_id, encode_namespace(one.namespace))
        now = datetime.now(UTC)
        program = partial(date_log, db.dialect, log, one.began, one.ended, now)
        await db.run(program, WRITE_STATEMENT)
