"""The two ends of a copy: asking either, writing to the target, and telling how far it is."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.codec.sealing import is_sealed
from memalchemy.database import READ, WRITE_STORED, Database
from memalchemy.errors import Conflict, Corrupt, NotEncrypted, UniqueViolation
from memalchemy.statements import Answer, Parameters, Program
from memalchemy.transfer.rows import Values
from memalchemy.transfer.statements import insert_row


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a copy has done so far, or at its end.

    ``logs`` and ``items`` are what the source had when the copy began to look. Of those done,
    ``new`` were not there, ``updated`` were there from an earlier copy and are the source's of now,
    ``unchanged`` needed nothing. ``rows`` and ``bytes`` (payloads, values and vectors) were written
    and read back.
    """

    logs: int = 0
    items: int = 0
    looked: int = 0
    new: int = 0
    updated: int = 0
    unchanged: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """Logs and items that are on the target."""
        return self.new + self.updated + self.unchanged


class Verdict(enum.Enum):
    """What the target has under a key of the source's."""

    NEW = "nothing"
    SAME = "the same"
    OUTDATED = "what an earlier copy left"
    VECTORS = "the same item with other vectors"
    OTHER = "something else"


class Sides:
    """Source and target, and the report. A connection of the source's is a snapshot, one of the
    target's a transaction; without one a statement stands alone.
    """

    def __init__(
        self,
        source: Database,
        target: Database,
        progress: Callable[[CopyReport], object] | None,
    ) -> None:
        self.source = source
        self.target = target
        self.report = CopyReport()
        self.sealed_only: set[str] = set()
        """Tenants that are encrypted on the target and not in the source."""
        self._progress = progress
        self._started = time.perf_counter()

    def tell(self, **more: int) -> None:
        """Add to the report, and pass it on."""
        added: dict[str, Any] = {k: getattr(self.report, k) + v for k, v in more.items()}
        added["seconds"] = round(time.perf_counter() - self._started, 3)
        self.report = replace(self.report, **added)
        if self._progress is not None:
            self._progress(self.report)

    async def put(
        self, table: str, rows: Sequence[Values], now: AsyncConnection, *, of: Values
    ) -> None:
        """Insert rows *of* a log or an item into a table of the target.

        Raises:
            Conflict: one of them is there.
            NotEncrypted: a row is not, and its tenant is on the target.
        """
        for row in rows if self.sealed_only else ():
            if "codec" in row and row["tenant"] in self.sealed_only and not is_sealed(row["codec"]):
                raise NotEncrypted(
                    f"tenant {row['tenant']!r} is encrypted on the target, and {name_of(of)} of "
                    "the source is not; it was not copied. Copy into an empty database, and "
                    "encrypt that with `memalchemy rotate-keys`."
                )
        await self.insert(insert_row(self.target.dialect, table=table), rows, now, of=of)

    async def insert(
        self, statement: Executable, rows: Sequence[Values], now: AsyncConnection, *, of: Values
    ) -> None:
        """Execute an INSERT for each of the *rows* of a log or an item."""
        if not rows:
            return
        values = [{f"p_{name}": value for name, value in row.items()} for row in rows]
        try:
            await self.write(statement, values, now)
        except UniqueViolation as error:
            raise meanwhile(of) from error
        self.tell(rows=len(rows))

    async def write(self, statement: Executable, binds: Parameters, now: AsyncConnection) -> int:
        """Execute one statement on the target; how many rows it touched."""
        done = await self.target.run(lambda: _one(statement, binds), WRITE_STORED, connection=now)
        return done.touched

    async def ask(
        self,
        db: Database,
        statement: Executable,
        binds: Mapping[str, Any],
        on: AsyncConnection | None,
    ) -> list[Values]:
        """The rows of one query, on either side."""
        answer = await db.run(lambda: _one(statement, binds), READ, connection=on)
        return [dict(row._mapping) for row in answer]


def _one(statement: Executable, binds: Parameters) -> Program[Answer]:
    return (yield statement, binds)


def name_of(key: Values) -> str:
    """A log or an item, for people."""
    if "thread_id" in key:
        return f"thread {key['thread_id']!r} in {key['namespace']}"
    return f"item {key['key']!r} in {key['namespace']}"


def meanwhile(key: Values) -> Conflict:
    """Between looking and writing, or between locking and writing, somebody else has written."""
    return Conflict(
        f"somebody wrote {name_of(key)} on the target while it was copied; it was left as it is. "
        "What was copied before it stays.",
        current=name_of(key),
    )


def not_as_written(table: str, key: Values) -> Corrupt:
    """What was read back is not what was written."""
    return Corrupt(
        f"the target does not give back what was written to {table}, of {name_of(key)}; it was not "
        "committed"
    )
