"""Copies, rotations and re-embedding go on beside edited rows on PostgreSQL, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from copies_of_edited_rows import check_copies
from edited_rows import EDITED
from embeddings_of_edited_rows import check_embeddings
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
    tried = await check(tmp_path, table, signed=signed, server=postgres, values=("'a'",))
    assert tried > 1


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("table", ["store_items", "embeddings"])
async def test_items_are_embedded_beside_an_edited_row_on_a_server(
    tmp_path: Path, postgres: Postgres, table: str, signed: bool
) -> None:
    tried = await check_embeddings(
        tmp_path, table, signed=signed, server=postgres, values=("'a'", "-5")
    )
    assert tried > 1
