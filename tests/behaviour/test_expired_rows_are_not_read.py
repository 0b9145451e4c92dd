"""No public read returns a thread or an item that has expired, whoever has removed it or not yet.

Everything that is stored expires at once. Then each public read says what it says of a tenant that
never had anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from public_reads import READS, World, fill, fill_memories, read
from sqlalchemy import update

from memalchemy import Database
from memalchemy.schema import StoreItemRow, ThreadRow

pytestmark = pytest.mark.unsigned_only("the rows are edited")

OF_THE_OPERATOR = {
    "Checkpointer.export": "it writes what `forget` would erase",
    "Inspector.changes": "it names what was written, whatever has become of it",
}
"""Reads of what is stored, expired or not, each with its reason."""


@pytest.fixture
async def expired(database_url: str, lasting: None) -> AsyncIterator[Callable[[], Any]]:
    """Reads of a tenant whose rows have all expired, beside those of one that is empty."""
    past = datetime.now(UTC) - timedelta(seconds=1)
    async with Database(database_url, migrate="upgrade", tenant="ended") as db:
        await fill(db)
        await fill_memories(db)

        def end_all(session: Any) -> None:
            for row in (ThreadRow, StoreItemRow):
                table = row.__table__
                session.execute(
                    update(table).where(table.c.tenant == "ended").values(expires_at=past)
                )

        await db.run_sync(end_all)
    async with (
        Database(database_url, tenant="ended") as ended,
        Database(database_url, tenant="empty") as empty,
    ):
        yield lambda name: (read(World(ended), name), read(World(empty), name))


async def test_no_read_returns_what_has_expired(expired: Any) -> None:
    told = {}
    for name in READS:
        ended, empty = expired(name)
        after, never = repr(await ended).replace("ended", "empty"), repr(await empty)
        if after != never:
            told[name] = after, never
    assert told.keys() == OF_THE_OPERATOR.keys(), told
