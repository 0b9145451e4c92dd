"""The same as `test_jobs_beside_damaged_rows_on_servers`, with every value of each column."""

from __future__ import annotations

from pathlib import Path

import pytest
from copies_of_edited_rows import check_copies
from edited_rows import EDITED
from rotations_of_edited_rows import check_rotations

from servers import Postgres

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]


@pytest.mark.parametrize("check", [check_copies, check_rotations], ids=["copy", "rotation"])
@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("table", EDITED)
async def test_the_others_are_done_beside_an_edited_row_on_a_server(
    tmp_path: Path, postgres: Postgres, table: str, signed: bool, check: object
) -> None:
    assert callable(check)
    tried = await check(tmp_path, table, signed=signed, server=postgres)
    assert tried > 8
