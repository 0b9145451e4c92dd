"""The table of the page of signatures is what comes of all edits: see `test_reads_of_edited_rows`.

With ``MEMALCHEMY_REGENERATE=1`` it is written anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from edited_reads import (
    KEPT,
    OF_LONG_LOGS,
    Outcomes,
    believed,
    counted,
    listed,
    of_table,
    only_elsewhere,
    outcomes_of,
    tables_of_reads,
    write_table,
)
from public_reads import fill, fill_memories
from stored_edits import SIGNED

from memalchemy import Database
from memalchemy.codec.secret_keys import generate_key
from memalchemy.protection import signed_reads

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

KEY = generate_key()


@pytest.fixture
def opened(database_url: str) -> Callable[[], Database]:
    """Opens the database as another process would."""
    return lambda: Database(database_url, migrate="off", signing_keys=[KEY])


@pytest.mark.parametrize("table", SIGNED)
async def test_the_page_lists_what_reads_believe(
    opened: Callable[[], Database], database: str, table: str
) -> None:
    begun, warm = await outcomes(opened, table)
    elsewhere = of_table(only_elsewhere(database), table)
    found = believed(begun) | elsewhere
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        write_table((listed() - of_table(listed(), table)) | found)
    own = of_table(listed(), table)
    assert (sorted(found - own), sorted(own - found)) == ([], [])
    assert (believed(warm) | elsewhere) - KEPT <= found


@pytest.mark.parametrize("table", ["checkpoints", "deltas"])
async def test_the_page_lists_what_reads_believe_of_long_logs(
    opened: Callable[[], Database], monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setattr(signed_reads, "MOST_SUMMED", 0)
    begun, warm = await outcomes(opened, table)
    found, others = believed(begun) - listed(), listed(OF_LONG_LOGS)
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        write_table((others - of_table(others, table)) | found, OF_LONG_LOGS)
    own = of_table(listed(OF_LONG_LOGS), table)
    assert (sorted(found - own), sorted(own - found)) == ([], [])
    assert believed(warm) - listed() - KEPT <= found


async def outcomes(opened: Callable[[], Database], table: str) -> tuple[Outcomes, Outcomes]:
    """Fill a database, and make all edits of a table; see `outcomes_of`."""
    async with opened() as db:
        await db.migrate()
        await fill(db)
        await fill_memories(db)
    begun, warm = await outcomes_of(opened, table, touching=await tables_of_reads(opened))
    print(table, counted(begun), "warm:", counted(warm))
    return begun, warm
