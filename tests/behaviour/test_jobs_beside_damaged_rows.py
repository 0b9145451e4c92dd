"""A row that somebody has edited stops no job: it is left, named, and the others are done.

The edits are generated: each column of a row that a job looks at gets a value of another type, and
one that its type allows. `test_jobs_beside_damaged_rows_in_full` gives it values of each sort.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from edited_rows import EDITED, fill
from embeddings_of_edited_rows import check_embeddings
from jobs_beside_edited_rows import (
    JOBS,
    check_job,
    check_signing,
    check_words,
    error_of,
    left,
    of_others,
)
from sqlalchemy import text

from memalchemy import Database

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

VALUES = ("'garbage'", "-5")


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("name", JOBS)
async def test_the_others_are_done_beside_an_edited_row(
    tmp_path: Path, name: str, signed: bool
) -> None:
    assert await check_job(tmp_path, name, signed=signed, values=VALUES) > 6


UNREADABLE = {
    "threads": {"meta": "'[1]'", "thread_id": "'\x1bu{ffffffff}' || thread_id"},
    "checkpoints": {"meta": "'[1]'", "checkpoint_id": "'\x1bu{ffffffff}' || checkpoint_id"},
    "store_items": {"meta": "'[1]'", "key": "'\x1bu{ffffffff}' || key"},
}
"""By table, values that every database takes, and that memalchemy's types do not read: metadata
that is no object, and ids with an escape of nothing.
"""


@pytest.mark.parametrize("name", JOBS)
async def test_the_others_are_done_beside_a_row_that_no_type_reads(db: Database, name: str) -> None:
    job, tables = JOBS[name]
    whole = db.for_tenant(f"{db.tenant}-whole")
    await fill(whole)
    await job(whole)
    wanted = of_others(await left(whole))
    made = [(one, *edit) for one in tables for edit in UNREADABLE.get(one, {}).items()]
    for table, column, value in made:
        edited = db.for_tenant(f"{db.tenant}-{table}-{column}")
        await fill(edited)
        rows = f"tenant = '{edited.tenant}' AND {EDITED[table]}"
        change = text(f"UPDATE {table} SET {column} = {value} WHERE {rows}")
        changed = await edited.run_sync(lambda connection, sql=change: connection.execute(sql))
        assert changed.rowcount
        told = await error_of(job(edited))
        assert of_others(await left(edited)) == wanted, f"{table}.{column} = {value}: {told!r}"


@pytest.mark.parametrize("table", EDITED)
async def test_the_others_are_signed_beside_an_edited_row(tmp_path: Path, table: str) -> None:
    assert await check_signing(tmp_path, table, VALUES) > 6


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("table", EDITED)
async def test_the_words_of_others_are_rebuilt_beside_an_edited_row(
    tmp_path: Path, table: str, signed: bool
) -> None:
    assert await check_words(tmp_path, table, signed=signed, values=VALUES) > 6


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("encrypted", [False, True], ids=["readable", "encrypted"])
@pytest.mark.parametrize("table", ["store_items", "embeddings"])
async def test_the_items_of_others_are_embedded_beside_an_edited_row(
    tmp_path: Path, table: str, encrypted: bool, signed: bool
) -> None:
    assert await check_embeddings(tmp_path, table, signed=signed, encrypted=encrypted) > 20
