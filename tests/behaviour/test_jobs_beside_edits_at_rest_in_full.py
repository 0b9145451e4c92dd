"""The same as `test_jobs_beside_edits_at_rest`, with every edit of each column."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from jobs_beside_stored_edits import check_jobs
from stored_edits import SIGNED

from memalchemy import Database
from memalchemy.codec.secret_keys import generate_key
from memalchemy.maintenance import sign as signing

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

KEY = generate_key()


@pytest.fixture(autouse=True)
def nobody_else_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "NOTICED_AFTER", 0)


@pytest.fixture
def opened(database_url: str) -> Callable[[], Database]:
    """Opens the database as another process would."""
    return lambda: Database(database_url, migrate="off", signing_keys=[KEY])


@pytest.mark.parametrize("name", SIGNED)
async def test_no_job_believes_an_edit(opened: Callable[[], Database], name: str) -> None:
    assert await check_jobs(opened, name) > 10
