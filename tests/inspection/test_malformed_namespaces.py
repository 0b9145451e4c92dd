"""A stored namespace that is malformed is told of; no view of the inspector reads for ever."""

from __future__ import annotations

from contextlib import suppress

import pytest
from sqlalchemy import Table, update

from memalchemy import Corrupt, Database, ThreadLog
from memalchemy.inspection import Inspector
from memalchemy.schema import ThreadRow

pytestmark = pytest.mark.unwalled_only("it edits a row as nobody may")

THREADS: Table = ThreadRow.__table__  # type: ignore[assignment]


@pytest.mark.parametrize("namespace", ["c1", "", "/", "/log", "//", "log/", "/~"])
@pytest.mark.parametrize("view", ["overview", "space"])
async def test_a_malformed_namespace_does_not_hang_a_view(
    db: Database, namespace: str, view: str
) -> None:
    await ThreadLog(db).append("t", ["one"])
    malformed = update(THREADS).where(THREADS.c.tenant == db.tenant).values(namespace=namespace)
    await db.run_sync(lambda connection: connection.execute(malformed))
    found = None
    with suppress(Corrupt):
        found = await getattr(Inspector(db), view)()
    assert found is None or "frameworks" in found
