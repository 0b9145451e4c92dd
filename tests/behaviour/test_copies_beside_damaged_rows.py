"""A copy leaves out what is damaged or not what was signed, names it, and copies the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from copies_of_edited_rows import check_copies
from edited_rows import EDITED, Edit, Files
from sqlalchemy import text

from memalchemy import Checkpointer, Database
from memalchemy.errors import Conflict, CopyIncomplete
from memalchemy.transfer import copy
from rows import of_thread

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("table", EDITED)
async def test_the_others_are_copied_beside_an_edited_row(
    tmp_path: Path, table: str, signed: bool
) -> None:
    assert await check_copies(tmp_path, table, signed=signed, values=("'garbage'",)) > 3


async def test_a_log_with_one_damaged_state_is_left_out_whole(db: Database, tmp_path: Path) -> None:
    for thread in ("a", "b"):
        for step in range(3):
            await Checkpointer(db).save({"n": step}, thread, f"{thread}{step}")
    damage = text(
        f"UPDATE deltas SET checksum = 5 WHERE tenant = '{db.tenant}' AND seq = 2 AND "
        + of_thread("b")
    )
    await db.run_sync(lambda connection: connection.execute(damage))
    target_url = f"sqlite:///{tmp_path / 'target.db'}"
    async with Database(target_url, migrate="upgrade", tenant=db.tenant) as target:
        with pytest.raises(CopyIncomplete, match="thread 'b' in /: the state at position") as told:
            await copy(db, target)

        assert (told.value.report.new, told.value.report.left) == (1, 1)
        assert await Checkpointer(target).list_threads() == ["a"]
        await Checkpointer(db).delete("b")
        assert (await copy(db, target)).left == 0


async def test_what_was_damaged_since_an_earlier_copy_is_no_conflict(tmp_path: Path) -> None:
    files = Files(tmp_path)
    await files.make()
    files.restore()
    target = f"sqlite:///{tmp_path / 'target.db'}"
    async with (
        Database(files.url, migrate="off") as source,
        Database(target, migrate="upgrade") as copied,
    ):
        await copy(source, copied)
        for edit in (Edit("deltas", "checksum", "5"), Edit("store_items", "checksum", "5")):
            await source.run_sync(edit.make)
        await Checkpointer(source).save({"n": 1}, "new")
        with pytest.raises(CopyIncomplete) as told:
            await copy(source, copied, recheck=True)

        assert told.value.report.new == 1
        assert await Checkpointer(copied).load("b") == {"text": "word3 b"}
        await Checkpointer(copied).save({"n": 2}, "new")
        with pytest.raises(Conflict):
            await copy(source, copied, recheck=True)
