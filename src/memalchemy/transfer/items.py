"""Items of a copy, each with its vectors: what the target has of one, and bringing it there."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database import READ, WRITE_ROWS, Database
from memalchemy.search.counting import count_change
from memalchemy.search.embeddings import has_native_vectors
from memalchemy.transfer.rows import Values, float32, same_row, same_rows
from memalchemy.transfer.sides import Sides, Verdict, meanwhile, not_as_written
from memalchemy.transfer.statements import (
    ITEM_KEY,
    insert_embedding,
    read_embeddings,
    read_item,
    remove_embeddings,
    remove_item,
)

Found = tuple[list[Values], list[Values]]
"""An item, or none, and its vectors as bytes."""


class Items:
    """The items of both sides."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        self.source = sides.source
        self.target = sides.target
        self._native: dict[Database, bool] = {}

    async def prepare(self) -> None:
        """Ask both sides how they store vectors."""
        for db in (self.source, self.target):
            self._native[db] = await db.run(partial(has_native_vectors, db), READ)

    async def find(self, db: Database, key: Values, on: AsyncConnection | None) -> Found:
        binds = {f"k_{name}": key[name] for name in ITEM_KEY}
        items = await self.sides.ask(db, read_item(db.dialect), binds, on)
        vectors = read_embeddings(db.dialect, native=self._native[db])
        found = await self.sides.ask(db, vectors, binds, on) if items else []
        return items, [dict(row) | {"vector": float32(row["vector"])} for row in found]

    async def judge(
        self, key: Values, then: AsyncConnection, now: AsyncConnection | None
    ) -> Verdict:
        """What the target has of an item."""
        return _judge(
            await self.find(self.source, key, then), await self.find(self.target, key, now)
        )

    async def copy(self, key: Values, then: AsyncConnection, now: AsyncConnection) -> None:
        """Bring one item and its vectors to the target, or see that they are there."""
        items, vectors = ours = await self.find(self.source, key, then)
        theirs = await self.find(self.target, key, now)
        verdict = _judge(ours, theirs)
        if verdict is Verdict.OTHER:
            raise meanwhile(key)
        if verdict is Verdict.SAME:
            self.sides.tell(unchanged=1)
            return
        d, binds = self.target.dialect, {f"k_{name}": key[name] for name in ITEM_KEY}
        if verdict is Verdict.OUTDATED:
            seen = binds | {"p_version": theirs[0][0]["version"]}
            gone = await self.sides.write(remove_item(d), seen, now)
            if gone != 1:
                raise meanwhile(key)
        if verdict is Verdict.VECTORS:
            await self.sides.write(remove_embeddings(d), binds, now)
        else:
            await self.sides.put("store_items", items, now, of=key)
        if vectors:
            await self._put_vectors(key, vectors, await self._counted(key, now), now)
        back = await self.find(self.target, key, now)
        if not _is_same(ours, back):
            raise not_as_written("store_items", key)
        written = len(items[0]["value"]) + sum(len(row["vector"]) for row in vectors)
        self.sides.tell(**{"new" if verdict is Verdict.NEW else "updated": 1}, bytes=written)

    async def _counted(self, key: Values, now: AsyncConnection) -> int:
        """Tell caches of the target's vectors that some are new, as their writer does."""
        d = self.target.dialect
        if not d.vectors.counts_changes:
            return 0
        change = partial(count_change, d, key["tenant"], key["namespace"], datetime.now(UTC))
        return await self.target.run(partial(change, removes=False), WRITE_ROWS, connection=now)

    async def _put_vectors(
        self, key: Values, rows: list[Values], change: int, now: AsyncConnection
    ) -> None:
        native = self._native[self.target]
        d = self.target.dialect
        made = [
            dict(row) | {"vector": d.vectors.bind_value(row["vector"], native), "change": change}
            for row in rows
        ]
        await self.sides.insert(insert_embedding(d, native=native), made, now, of=key)


def _is_same(ours: Found, theirs: Found) -> bool:
    """Whether an item and its vectors are the same on both sides; counts are each side's own."""
    return same_rows(ours[0], theirs[0]) and same_rows(ours[1], theirs[1], but="change")


def _judge(ours: Found, theirs: Found) -> Verdict:
    (item,), _ = ours
    if not theirs[0]:
        return Verdict.NEW
    there = theirs[0][0]
    if same_row(item, there):
        return Verdict.SAME if _is_same(ours, theirs) else Verdict.VECTORS
    ends, ended = item["expires_at"], there["expires_at"]
    if ends and ended and same_row(item, there, but="expires_at"):
        # A read has prolonged its life on one side: the later end holds.
        return Verdict.OUTDATED if ends > ended else Verdict.SAME
    same_life = item["created_at"] == there["created_at"]
    later = item["version"] > there["version"] and item["updated_at"] >= there["updated_at"]
    return Verdict.OUTDATED if same_life and later else Verdict.OTHER
