"""The same as `test_rotations_beside_damaged_rows`, with every value of each column."""

from __future__ import annotations

from pathlib import Path

import pytest
from edited_rows import EDITED
from rotations_of_edited_rows import check_rotations

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("table", EDITED)
async def test_the_others_are_encrypted_beside_an_edited_row(
    tmp_path: Path, table: str, signed: bool
) -> None:
    assert await check_rotations(tmp_path, table, signed=signed) > 20
