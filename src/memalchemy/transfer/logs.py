"""Logs of a copy: what the target has of one, and bringing it there whole and read back."""

from __future__ import annotations

from itertools import accumulate

from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database import WRITE_ROWS, Database
from memalchemy.log import Log, lock_log, remove_log
from memalchemy.transfer.rows import Values, is_sealed, same_row, same_rows, sealed_epoch
from memalchemy.transfer.sides import Sides, Verdict, meanwhile, not_as_written
from memalchemy.transfer.statements import list_positions, read_log_head, read_rows

PAGE_ROWS = 100
PAGE_BYTES = 8 * 1024 * 1024
"""What is held of a log at once; a row that is larger is held alone."""

# A base is before what is built on it, a state before its name: so a page never waits for another.
_TABLES = ("deltas", "checkpoints")
_BEFORE_ALL = -(2**62)


class Logs:
    """The logs of both sides."""

    def __init__(self, sides: Sides, *, recheck: bool) -> None:
        self.sides = sides
        self.source = sides.source
        self.target = sides.target
        self.recheck = recheck

    async def judge(
        self, head: Values, then: AsyncConnection, now: AsyncConnection | None
    ) -> Verdict:
        """What the target has of a log; with *now*, under the log's lock."""
        binds = _log(head).binds()
        if now is not None:
            await self.sides.ask(self.target, lock_log(self.target.dialect), binds, now)
        found = await self.sides.ask(self.target, read_log_head(self.target.dialect), binds, now)
        if not found:
            return Verdict.NEW
        sealed = is_sealed(found[0])
        if not same_row(head, found[0], but="epoch"):
            return Verdict.OUTDATED if sealed else Verdict.OTHER
        if sealed and not self.recheck:
            return Verdict.SAME
        return Verdict.SAME if await self.is_same(head, then, now) else Verdict.OTHER

    async def is_same(
        self, head: Values, then: AsyncConnection, now: AsyncConnection | None
    ) -> bool:
        """Whether every row of a log is the same on both sides."""
        for table in _TABLES:
            after = _BEFORE_ALL
            while True:
                ours = await self.positions(self.source, table, head, after, then)
                theirs = await self.positions(self.target, table, head, after, now)
                if ours != theirs:
                    return False
                if not ours:
                    break
                until = ours[-1]["seq"]
                if not same_rows(
                    await self.rows(self.source, table, head, after, until, then),
                    await self.rows(self.target, table, head, after, until, now),
                ):
                    return False
                after = until
        return True

    async def copy(self, head: Values, then: AsyncConnection, now: AsyncConnection) -> None:
        """Bring one log to the target, or see that it is there."""
        verdict = await self.judge(head, then, now)
        if verdict is Verdict.OTHER:
            raise meanwhile(head)
        if verdict is Verdict.SAME:
            self.sides.tell(unchanged=1)
            return
        d = self.target.dialect
        if verdict is Verdict.OUTDATED:
            await self.target.run(lambda: remove_log(d, _log(head)), WRITE_ROWS, connection=now)
        sealed = dict(head) | {"epoch": sealed_epoch(head)}
        await self.sides.put("threads", [sealed], now, of=head)
        back = await self.sides.ask(self.target, read_log_head(d), _log(head).binds(), now)
        if not same_rows([sealed], back) or not is_sealed(back[0]):
            raise not_as_written("threads", head)
        for table in _TABLES:
            await self.copy_rows(table, head, then, now)
        self.sides.tell(**{"new" if verdict is Verdict.NEW else "updated": 1})

    async def copy_rows(
        self, table: str, head: Values, then: AsyncConnection, now: AsyncConnection
    ) -> None:
        """Copy the rows of a log that is new on the target, page by page, and read them back."""
        after = _BEFORE_ALL
        while found := await self.positions(self.source, table, head, after, then):
            until = found[-1]["seq"]
            ours = await self.rows(self.source, table, head, after, until, then)
            await self.sides.put(table, ours, now, of=head)
            theirs = await self.rows(self.target, table, head, after, until, now)
            if not same_rows(ours, theirs):
                raise not_as_written(table, head)
            self.sides.tell(bytes=sum(row["stored"] for row in found))
            after = until

    async def positions(
        self, db: Database, table: str, head: Values, after: int, on: AsyncConnection | None
    ) -> list[Values]:
        """The next positions of a log that make a page, one at least if there is one."""
        binds = _log(head).binds() | {"p_after": after, "p_limit": PAGE_ROWS}
        found = await self.sides.ask(db, list_positions(db.dialect, table=table), binds, on)
        held = accumulate(row["stored"] for row in found)
        fit = sum(1 for size in held if size <= PAGE_BYTES)
        return found[: max(fit, 1)]

    async def rows(
        self,
        db: Database,
        table: str,
        head: Values,
        after: int,
        until: int,
        on: AsyncConnection | None,
    ) -> list[Values]:
        binds = _log(head).binds() | {"p_after": after, "p_until": until}
        return await self.sides.ask(db, read_rows(db.dialect, table=table), binds, on)


def _log(head: Values) -> Log:
    return Log(*(head[name] for name in Log._fields))
