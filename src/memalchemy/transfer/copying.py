"""Copying memory from one database to another: looked at first, in pages, read back, resumable.

The unit is a log: it is read as of one moment, written and verified in one transaction, so that on
the target it is there whole or not at all. A log that is there is left alone, brought up to date or
refused; which of them the head alone tells (see `rows.sealed_epoch`). So nothing is kept about a
copy anywhere else, and one that was killed goes on when it is run again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database import READ, WRITE_ROWS, Database
from memalchemy.database.key_registry import read_registered_keys, register_key
from memalchemy.errors import Conflict
from memalchemy.events import operation
from memalchemy.log import Log
from memalchemy.statements import Program
from memalchemy.transfer.items import Items
from memalchemy.transfer.logs import PAGE_BYTES, Logs
from memalchemy.transfer.rows import Values
from memalchemy.transfer.sides import CopyReport, Sides, Verdict, name_of
from memalchemy.transfer.statements import ITEM_KEY, count_rows, list_heads, list_items

LISTED = 200
"""Logs or items that are looked at together, and written in one transaction at most."""
TOLD = 5

Visit = Callable[[Sequence[Values], AsyncConnection], Awaitable[int]]
Take = Callable[[Values, AsyncConnection, AsyncConnection], Awaitable[None]]
Judge = Callable[[Values, AsyncConnection, AsyncConnection | None], Awaitable[Verdict]]


async def copy(
    source: Database,
    target: Database,
    *,
    all_tenants: bool = False,
    recheck: bool = False,
    progress: Callable[[CopyReport], object] | None = None,
) -> CopyReport:
    """Copy what *source* holds of its tenant, or of *all_tenants*, to *target*.

    Rows of all five tables, tombstones included, with their ids, positions, versions, times and
    bytes; only the epochs, and the counts of changes to vectors, are the target's own. The text
    indexes are built by the target. Every row is read back and compared before it is committed.
    Both databases need their schema.

    Before anything is written, all of the source is held against the target. What the target has
    under the same keys must be equal, or be what an earlier copy left and nobody has touched since;
    otherwise the copy is refused. A log that was copied and changed in the source since is replaced
    by the source's of now, an item if the source's version of it is later. What the source no
    longer has stays on the target.

    Others may write to the source meanwhile: a log is copied as of one moment, and so is an item
    with its vectors; different logs are as of different moments. Run it again for what came since.
    Killed at any time, it goes on when it is run again. Rows are held in pages of 8 MB.

    Args:
        recheck: also compare the rows of logs that an earlier copy has verified; their heads
            always are.
        progress: called often, with what is done so far.

    Raises:
        Conflict: the target holds something else under the same keys. Nothing was written, unless
            it came into being while the copy ran.
        NotEncrypted: a tenant is encrypted on the target and not in the source. Nothing of the log
            or item was written.
        Corrupt: the target gives back something else than was written; the log or item it is in
            was not committed.
    """
    if source.identity is target.identity:
        raise ValueError("source and target are the same Database")
    if not all_tenants and source.tenant != target.tenant:
        raise ValueError(f"the source is tenant {source.tenant!r}, the target {target.tenant!r}")
    work = _Copy(Sides(source, target, progress), "all" if all_tenants else "tenant", recheck)
    with operation("transfer.copy", tenant=None if all_tenants else source.tenant) as event:
        report = await work.run()
        event.payload_bytes = report.bytes
    return report


class _Copy:
    """One run of a copy."""

    def __init__(self, sides: Sides, scope: str, recheck: bool) -> None:
        self.sides = sides
        self.source = sides.source
        self.scope = scope
        self.logs = Logs(sides, recheck=recheck)
        self.items = Items(sides)

    async def run(self) -> CopyReport:
        await self.items.prepare()
        logs, items = await self.source.run(partial(_count, self.source, self.scope), READ)
        self.sides.tell(logs=logs, items=items)
        await self.look()
        await self.mark()
        await self.pages(list_heads, Log._fields, partial(self.together, self.logs.copy))
        await self.pages(list_items, ITEM_KEY, partial(self.together, self.items.copy))
        return self.sides.report

    async def mark(self) -> None:
        """Note on the target, before there is a row of them, which keys the source's rows need."""
        binds = {"k_tenant": self.source.tenant} if self.scope == "tenant" else {}
        marks = {
            db: await self.sides.ask(
                db, read_registered_keys(db.dialect, scope=self.scope), binds, None
            )
            for db in (self.source, self.sides.target)
        }
        encrypted = {row["tenant"] for row in marks[self.sides.target]}
        self.sides.sealed_only = encrypted - {row["tenant"] for row in marks[self.source]}
        for row in marks[self.source]:
            mark = partial(register_key, self.sides.target.dialect, row["tenant"], row["key"])
            await self.sides.target.run(mark, WRITE_ROWS)

    async def pages(self, listing: Any, key: Sequence[str], visit: Visit) -> None:
        """Visit heads or items, in pages that are each read in a snapshot of the source.

        *visit* returns how many of the rows it took; the next page begins after those.
        """
        after: dict[str, Any] = {}
        while True:
            statement = listing(self.source.dialect, scope=self.scope, after=bool(after))
            binds = {"p_limit": LISTED, "k_tenant": self.source.tenant} | after
            async with self.source.snapshot() as then:
                rows = await self.sides.ask(self.source, statement, binds, then)
                if not rows:
                    return
                taken = await visit(rows, then)
            after = {f"p_{name}": rows[taken - 1][name] for name in key}

    async def together(self, take: Take, rows: Sequence[Values], then: AsyncConnection) -> int:
        """Take rows in one transaction of the target, until there are many bytes in it."""
        end = self.sides.report.bytes + PAGE_BYTES
        taken = 0
        async with self.sides.target.transaction() as now:
            for taken, row in enumerate(rows, 1):  # noqa: B007 - how many is the answer
                await take(row, then, now)
                if self.sides.report.bytes >= end:
                    break
        return taken

    async def look(self) -> None:
        """Hold everything against the target before anything is written."""
        refused: list[str] = []
        count = 0

        async def visit(judge: Judge, rows: Sequence[Values], then: AsyncConnection) -> int:
            nonlocal count
            for row in rows:
                if (await judge(row, then, None)) is Verdict.OTHER:
                    count += 1
                    if count <= TOLD:
                        refused.append(name_of(row))
            self.sides.tell(looked=len(rows))
            return len(rows)

        await self.pages(list_heads, Log._fields, partial(visit, self.logs.judge))
        await self.pages(list_items, ITEM_KEY, partial(visit, self.items.judge))
        if refused:
            named = ", ".join(refused) + (", …" if count > TOLD else "")
            raise Conflict(
                f"the target holds something else under {count:,} of the source's keys: "
                f"{named}. Nothing was written. Delete them on one side, or copy into an empty "
                "database.",
                current=refused,
            )


def _count(db: Database, scope: str) -> Program[tuple[int, int]]:
    binds = {"k_tenant": db.tenant} if scope == "tenant" else {}
    logs = yield count_rows(db.dialect, table="threads", scope=scope), binds
    items = yield count_rows(db.dialect, table="store_items", scope=scope), binds
    return logs[0][0], items[0][0]
