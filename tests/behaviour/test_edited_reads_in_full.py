"""The table of the page of signatures is what comes of all edits: see `test_edited_reads`.

With ``MEMALCHEMY_REGENERATE=1`` it is written anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from edited_reads import (
    OF_LONG_LOGS,
    WARM,
    Pair,
    believed,
    counted,
    listed,
    only_elsewhere,
    outcomes_of,
    write_table,
)
from public_reads import fill, fill_memories
from stored_edits import SIGNED

from memalchemy import Database
from memalchemy.codec.keys import generate_key
from memalchemy.log import signed_reads

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

KEY = generate_key()


@pytest.fixture
def opened(database_url: str) -> Callable[[], Database]:
    """Opens the database as another process would."""
    return lambda: Database(database_url, migrate="off", signing_keys=[KEY])


async def test_the_page_lists_what_reads_believe(
    opened: Callable[[], Database], database: str
) -> None:
    found = await believed_by_reads(opened) | only_elsewhere(database)
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        write_table(found)
    assert found == listed()


async def test_the_page_lists_what_reads_believe_of_long_logs(
    opened: Callable[[], Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_reads, "MOST_SUMMED", 0)
    found = await believed_by_reads(opened, "checkpoints", "deltas") - listed()
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        write_table(found, OF_LONG_LOGS)
    assert found == listed(OF_LONG_LOGS)


@pytest.mark.parametrize("table", SIGNED)
async def test_a_process_that_has_read_everything_believes_no_more(
    opened: Callable[[], Database], table: str
) -> None:
    found = await believed_by_reads(opened, table, warm=True)
    assert sorted(found - listed() - listed(WARM)) == []


async def believed_by_reads(
    opened: Callable[[], Database], *tables: str, warm: bool = False
) -> set[Pair]:
    """Fill a database, make all edits of some tables, or of all; return what reads believed."""
    async with opened() as db:
        await db.migrate()
        await fill(db)
        await fill_memories(db)
    outcomes = await outcomes_of(opened, tables or SIGNED, warm=warm)
    print(counted(outcomes))
    return believed(outcomes)
