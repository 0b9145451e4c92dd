"""Migrating on a connection: the lock is one that users may have and is given back, and what is
sent under it is what the script has.
"""

from __future__ import annotations

import re

import pytest
from sqlalchemy import text

from memalchemy import Database, migrate
from memalchemy.dialects import DIALECTS
from oracle.lint import lint_sql
from oracle.recording import Recorder

LOCK = DIALECTS["oracle"].maintenance.lock_migrations


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


async def test_an_upgrade_sends_what_the_script_has(oracle: Database, server: Recorder) -> None:
    script = re.sub("^--.*$", "", migrate.offline("oracle"), flags=re.MULTILINE)
    written = [" ".join(part.split()) for part in script.replace(";", "\n/").split("\n/")]

    revisions = await oracle.migrate()
    assert revisions[-1] == migrate.head()

    sent = [" ".join(call.sql.split()) for call in server.calls]
    made = [sql for sql in sent if sql.startswith("CREATE")]
    assert made == [sql for sql in written if sql.startswith("CREATE")]
    assert len(made) > 14
    assert not [sql for sql in made if lint_sql(sql)]
    noted = [sql for sql in sent if sql.startswith(("INSERT INTO store_items", "DELETE FROM"))]
    assert set(noted) <= set(written)
    assert len(noted) == 4


async def test_an_upgrade_looks_for_the_schema_under_the_lock(
    oracle: Database, server: Recorder
) -> None:
    await oracle.migrate()

    assert "DBMS_LOCK.REQUEST" in server.log[0]
    assert "DBMS_LOCK.RELEASE" in server.log[server.log.index("commit") - 1]
    assert server.log.count("commit") == 1
