"""The migration lock is one that DBMS_LOCK lets users have, and it is given back."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import text

from memalchemy import Database
from memalchemy.dialects import DIALECTS
from oracle.recording import Recorder

LOCK = DIALECTS["oracle"].migration_lock


def number(sql: str) -> int:
    found = re.search(r"id => (\d+)", sql)
    assert found is not None
    return int(found[1])


async def test_the_lock_is_released_before_the_transaction_ends(
    oracle: Database, server: Recorder
) -> None:
    await oracle.run_sync(lambda c: (LOCK(c, None), c.execute(text("SELECT 1 FROM dual")))[0])

    request, work, release, end, *_ = server.log
    assert "DBMS_LOCK.REQUEST" in request
    assert work == "SELECT 1 FROM dual"
    assert "DBMS_LOCK.RELEASE" in release
    assert number(request) == number(release)
    assert end == "commit"


async def test_the_lock_is_released_when_a_migration_fails(
    oracle: Database, server: Recorder
) -> None:
    def fail(connection: object) -> None:
        LOCK(connection, None)  # type: ignore[arg-type]
        raise ValueError("a revision went wrong")

    with pytest.raises(ValueError, match="went wrong"):
        await oracle.run_sync(fail)

    request, release, end, *_ = server.log
    assert "DBMS_LOCK.REQUEST" in request
    assert "DBMS_LOCK.RELEASE" in release
    assert end == "rollback"


@pytest.mark.parametrize("schema", [None, "memory", "other"])
async def test_the_locks_number_is_one_that_users_may_choose(
    oracle: Database, server: Recorder, schema: str | None
) -> None:
    await oracle.run_sync(lambda c: LOCK(c, schema))

    assert 0 <= number(server.log[0]) <= 1073741823


async def test_two_schemas_do_not_wait_for_each_other(oracle: Database, server: Recorder) -> None:
    for schema in ("memory", "other"):
        await oracle.run_sync(lambda c, schema=schema: LOCK(c, schema))

    requests = {number(sql) for sql in server.log if "REQUEST" in sql}
    assert len(requests) == 2
