"""A rotation leaves what is damaged or not proven, names it, and encrypts the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from edited_rows import EDITED, Files
from rotations_of_edited_rows import check_rotations

from memalchemy import Checkpointer, Database
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.secret_keys import generate_key
from memalchemy.rotation import rotate_keys

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("table", EDITED)
async def test_the_others_are_encrypted_beside_an_edited_row(
    tmp_path: Path, table: str, signed: bool
) -> None:
    tried = await check_rotations(tmp_path, table, signed=signed, values=("'garbage'", "x'ff'"))
    assert tried > 3


@pytest.mark.parametrize("value", ["'garbage'", "x'ff'", "x'0102'", "5"])
async def test_the_old_key_is_needed_until_the_row_is_mended(tmp_path: Path, value: str) -> None:
    old, new = generate_key(), generate_key()
    files = Files(tmp_path, {"keys": [old], "readable": ("vectors",)})
    await files.make()
    both = {"keys": [new, old], "readable": ("vectors",)}
    async for edit in files.each("deltas", (value,)):
        if edit.column == "payload":
            break
    async with Database(files.url, migrate="off", **both) as db:
        report = await rotate_keys(db)

        assert (report.damaged > 0, report.needed_keys) == (True, tuple(Keyring([old]).ids))
        assert any("thread 'b'" in one or "log_id" in one for one in report.left_out) or all(
            "cannot be read" in one for one in report.left_out
        )
        again = await rotate_keys(db)
        assert (again.rotated, again.needed_keys) == (0, report.needed_keys)
        await Checkpointer(db).delete("b")
        await Checkpointer(db).delete("talk b")
        done = await rotate_keys(db)
        assert (done.left, done.needed_keys) == (0, ())
