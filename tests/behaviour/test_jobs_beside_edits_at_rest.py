"""No edit at rest makes a job with the key remove, replace or sign anew what nobody wanted it to.

The edits are generated: each signed column of each row of each table gets values that could steer a
job. After a job the edit is undone: nothing may be lost then, and nothing may have been signed
meanwhile that hides it. Here it is a sample of the edits:
`test_jobs_beside_edits_at_rest_in_full` makes them all.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from jobs_beside_stored_edits import check_jobs
from stored_edits import SIGNED, UNSIGNED, table

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


def test_every_column_is_here() -> None:
    for name, signed in SIGNED.items():
        assert {column.name for column in table(name).c} == {*signed} | UNSIGNED[name], name


@pytest.mark.parametrize("name", SIGNED)
async def test_no_job_believes_an_edit(opened: Callable[[], Database], name: str) -> None:
    assert await check_jobs(opened, name, most=2) > 4
