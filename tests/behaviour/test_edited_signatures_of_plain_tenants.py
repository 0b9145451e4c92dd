"""What somebody writes into the column ``signature`` of a tenant that is not signed."""

from __future__ import annotations

from pathlib import Path

import pytest
from edited_rows import Edit, Files

from memalchemy import Checkpointer, Database, Store
from memalchemy.errors import KeyMissing

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

NO_SIGNATURES = (
    "'garbage'", "''", "'2'", "x'ff'", "x''", "x'02'", "5", "-1.5", "zeroblob(22)",
    "CAST(x'03aabbccdd' || zeroblob(16) AS BLOB)",
    "CAST(x'02aabbccdd' || zeroblob(15) AS BLOB)", "zeroblob(5000)",
)  # fmt: skip
TABLES = ("threads", "checkpoints", "deltas", "store_items", "embeddings")


@pytest.mark.parametrize("table", TABLES)
async def test_what_is_no_signature_stops_no_save(tmp_path: Path, table: str) -> None:
    files = Files(tmp_path)
    await files.make()
    for value in NO_SIGNATURES:
        files.restore()
        async with Database(files.url, migrate="off") as db:
            assert await db.run_sync(Edit(table, "signature", value).make)
        async with Database(files.url, migrate="off") as db:
            await Checkpointer(db).save({"n": 1}, "a")
            await Store(db).put(("new",), "c", "changed")

            assert await Checkpointer(db).load("a") == {"n": 1}
            assert await Store(db).get(("new",), "c") == "changed", value


@pytest.mark.parametrize(("table", "name"), [("threads", "b'"), ("store_items", "'b'")])
async def test_what_may_be_a_signature_is_named_with_the_cure(
    tmp_path: Path, table: str, name: str
) -> None:
    files = Files(tmp_path)
    await files.make()
    files.restore()
    async with Database(files.url, migrate="off") as db:
        await db.run_sync(
            Edit(table, "signature", "CAST(x'02aabbccdd' || zeroblob(32) AS BLOB)").make
        )
    async with Database(files.url, migrate="off") as db:
        with pytest.raises(KeyMissing, match=f"aabbccdd.*{name} in /.*set its column signature"):
            await Checkpointer(db).save({"n": 1}, "a")
        cure = f"UPDATE {table} SET signature = NULL"
        await db.run_sync(lambda connection: connection.exec_driver_sql(cure))
        await Checkpointer(db).save({"n": 1}, "a")

        assert await Checkpointer(db).load("a") == {"n": 1}
