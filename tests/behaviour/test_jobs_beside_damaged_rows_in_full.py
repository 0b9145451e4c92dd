"""The same as `test_jobs_beside_damaged_rows`, with values of each sort in each column."""

from __future__ import annotations

from pathlib import Path

import pytest
from edited_rows import EDITED
from jobs_beside_edited_rows import JOBS, check_job, check_signing, check_words

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("name", JOBS)
async def test_the_others_are_done_beside_an_edited_row(
    tmp_path: Path, name: str, signed: bool
) -> None:
    assert await check_job(tmp_path, name, signed=signed) > 20


@pytest.mark.parametrize("table", EDITED)
async def test_the_others_are_signed_beside_an_edited_row(tmp_path: Path, table: str) -> None:
    assert await check_signing(tmp_path, table) > 20


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("table", EDITED)
async def test_the_words_of_others_are_rebuilt_beside_an_edited_row(
    tmp_path: Path, table: str, signed: bool
) -> None:
    assert await check_words(tmp_path, table, signed=signed) > 20
