"""No read believes an edit at rest, or the page of signatures says which does, and why.

Signed columns are edited without the key, and rows are removed. Then each public read refuses, or
returns what it returned before, or the page lists the pair. Here it is a sample of the edits:
`test_reads_of_edited_rows_in_full` makes them all.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from edited_reads import (
    KEPT,
    OF_LONG_LOGS,
    ONLY_ON,
    believed,
    listed,
    of_table,
    outcomes_of,
    read_all,
    tables_of_reads,
)
from public_reads import NOT_READS, READS, World, fill, fill_memories, public_methods
from stored_edits import SIGNED, edits_told_by_anchors

from clocks import Clock
from memalchemy import Database
from memalchemy.anchors import anchor
from memalchemy.codec.secret_keys import generate_key
from memalchemy.errors import StatementFailed
from memalchemy.verify import verify

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

KEY = generate_key()


@pytest.fixture
def opened(database_url: str) -> Callable[[], Database]:
    """Opens the database as another process would."""
    return lambda: Database(database_url, migrate="off", signing_keys=[KEY])


@pytest.mark.asyncio_only("it names the methods of the asynchronous classes")
def test_every_public_method_is_a_read_or_is_not() -> None:
    reads = {name.split("(")[0] for name in READS}
    assert public_methods() == reads | NOT_READS
    assert not reads & NOT_READS


@pytest.mark.parametrize("table", SIGNED)
async def test_a_read_believes_no_edit_that_is_not_listed(
    opened: Callable[[], Database], table: str
) -> None:
    async with opened() as db:
        await db.migrate()
        await fill(db)
        await fill_memories(db)
    touching = await tables_of_reads(opened)
    begun, warm = await outcomes_of(opened, table, most=1)
    assert sorted(believed(begun) - listed()) == []
    assert sorted(believed(warm) - listed() - KEPT) == []
    for outcomes in (begun, warm):
        assert any("refused" in became for became in outcomes.values())
        told = {read for (_, read), became in outcomes.items() if became != {"unaffected"}}
        assert told <= {read for read, tables in touching.items() if table in tables}


def test_the_page_lists_pairs_that_are_tried() -> None:
    pairs = listed() | listed(OF_LONG_LOGS)
    assert set(ONLY_ON) <= pairs
    assert {read for _, read in pairs} <= set(READS)
    assert pairs == set().union(*(of_table(pairs, table) for table in SIGNED))


async def test_no_read_tells_that_time_goes_by(
    opened: Callable[[], Database], clock: Clock
) -> None:
    """Otherwise a read would seem to believe the edits that are made late."""
    async with opened() as db:
        await db.migrate()
        await fill(db)
        await fill_memories(db)
    async with opened() as db:
        before = await read_all(World(db))
    clock.go_on(timedelta(hours=5))
    async with opened() as db:
        after = await read_all(World(db))
    assert [name for name in READS if after[name] != before[name]] == []


async def test_an_anchor_tells_of_what_no_row_proves(opened: Callable[[], Database]) -> None:
    async with opened() as db:
        await db.migrate()
        await fill(db)
        await fill_memories(db)
        taken, tried = await anchor(db), set()
        for edit in await db.run_sync(edits_told_by_anchors):
            try:
                await db.run_sync(edit.apply)
            except StatementFailed:
                continue  # the database itself refuses it
            told = (await verify(db, anchor=taken)).findings
            await db.run_sync(edit.undo)
            assert told, f"nothing tells of {edit}"
            tried.add(edit.name)
        assert not (await verify(db, anchor=taken)).findings
        assert {"removed row of threads", "removed row of store_items"} < tried
