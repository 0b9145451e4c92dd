"""Real databases that releases wrote: upgraded to this one's schema, then read and written.

``tests/stored/make.py`` says how they were made.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from memalchemy import Checkpointer, Database, Store, ThreadLog, migrate
from memalchemy.verify import verify
from servers import Postgres

STORED = Path(__file__).parents[1] / "stored"
REVISIONS = [path.stem for path in sorted(STORED.glob("*.db"))]


def expected(revision: str, dialect: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((STORED / f"{revision}.json").read_text())
    return found[dialect]


async def upgrade_read_and_write(url: str, content: dict[str, Any]) -> None:
    async with Database(url, tenant=content["tenant"], migrate="off") as db:
        await db.migrate()
        await db.check()
        checkpointer = Checkpointer(db)

        # Read.
        threads: dict[str, dict[str, Any]] = content["threads"]
        assert {*await checkpointer.list_threads()} == {*threads}
        for thread, states in threads.items():
            for name, state in states.items():
                assert await checkpointer.load(thread, name) == state
            newest = list(states)[-1]
            assert await checkpointer.load(thread) == states[newest]
            assert [info.checkpoint_id async for info in checkpointer.history(thread)]
        for thread in content["deleted"]:
            assert await checkpointer.load(thread) is None
        assert len(await checkpointer.search("lighthouses", limit=50)) == len(threads["long"])
        (red,) = await checkpointer.query_by_metadata("colour", "red")
        assert threads["long"][red["checkpoint_id"]]["step"] == 7
        nested = Checkpointer(db, namespace=("graph", "sub"))
        for name, state in content["nested"].items():
            assert await nested.load("long", name) == state
        runs = await nested.find_runs(["run"])
        assert {place: {*ids} for place, ids in runs.items()} == {
            ("long", ("graph", "sub")): {*content["nested"]}
        }
        writes = await nested.get_writes("long", "nested 9")
        assert [[write.channel, write.value] for write in writes] == content["writes"]
        log = ThreadLog(db)
        assert [entry.value for entry in await log.range("long")] == content["entries"]
        assert [entry.value for entry in await log.search("zebra")] == content["entries"][:1]
        store, space = Store(db), content["space"]
        for item in content["items"]:
            found = await store.get_item(space, item["key"])
            assert (found.value, found.metadata) == (item["value"], item["meta"])
            assert await store.get_embedding(space, item["key"]) == item["vector"]
        assert [hit.key for hit in await store.search(space, "giraffes")] == ["ada"]
        older = await store.search(space, filter={"age": {"$gt": 30}})
        assert [hit.key for hit in older] == ["ada"]
        (near,) = await store.search_by_embedding(space, [-0.2, 3.0], limit=1)
        assert near.item.key == ""
        report = await verify(db)
        assert report.findings == ()
        assert (report.logs, report.entries) == (7, len(content["entries"]))

        # Write: go on, branch off, delete, and find what is new.
        going_on = {"messages": [*state_of(threads["long"])["messages"], "zeppelin"]}
        name = await checkpointer.save(going_on, "long", metadata={"colour": "green"})
        assert await checkpointer.load("long", name) == going_on
        assert [hit["checkpoint_id"] for hit in await checkpointer.search("zeppelin")] == [name]
        root = next(iter(threads["branched"]))
        await checkpointer.save({"path": ["root", "middle"]}, "branched", parent_id=root)
        await checkpointer.prune("long", keep_last=2)
        assert len(await checkpointer.query_by_metadata("colour", "red")) == 0
        assert await log.append("long", ["more"], keys=["third"]) == [3]
        await store.put(space, "ada", "changed", embedding=[0.0, 1.0])
        assert await store.search(space, "giraffes") == []
        assert (await verify(db)).ok
        for thread in [*threads, *content["deleted"]]:
            await checkpointer.delete(thread)
        assert await checkpointer.list_threads() == []
        await checkpointer.save({"new": True}, "new")
        assert await checkpointer.load("new") == {"new": True}


def state_of(states: dict[str, Any]) -> dict[str, Any]:
    """The newest."""
    found: dict[str, Any] = list(states.values())[-1]
    return found


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_stored_sqlite_file(revision: str, tmp_path: Path) -> None:
    shutil.copyfile(STORED / f"{revision}.db", tmp_path / "agent.db")
    await upgrade_read_and_write(f"sqlite:///{tmp_path}/agent.db", expected(revision, "sqlite"))


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_stored_postgresql_dump(
    revision: str, postgres: Postgres, fresh_postgres: str
) -> None:
    postgres.execute((STORED / f"{revision}.postgresql.sql").read_text(), fresh_postgres)
    await upgrade_read_and_write(postgres.url(fresh_postgres), expected(revision, "postgresql"))


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_stored_oracle_script_holds_every_row_and_says_that_it_was_not_run(revision: str) -> None:
    script = (STORED / f"{revision}.oracle.sql").read_text()
    assert script.startswith("-- NOT RUN ON A SERVER")
    inserted = re.findall(r"^INSERT INTO (\w+) ", script, re.M)
    content = expected(revision, "sqlite")
    names = sum(len(states) for states in content["threads"].values())
    more = ("long's log", "long's graph")
    names += len(content["nested"])
    logs = len(content["threads"]) + len(content["deleted"]) + len(more)
    assert inserted.count("threads") == logs
    assert inserted.count("checkpoints") == names
    assert inserted.count("deltas") == names + len(content["entries"]) + 1  # a row of writes
    assert inserted.count("store_items") == len(content["items"])
    assert inserted.count("embeddings") == len([i for i in content["items"] if i["vector"]])
    # Parents before their children.
    assert inserted == sorted(inserted, key=migrate.TABLES.index)


def test_every_revision_has_a_stored_database_and_those_before_the_head_their_code() -> None:
    chain = {script.revision for script in migrate.scripts().walk_revisions()}
    assert {*REVISIONS} == chain
    for revision in REVISIONS:
        kinds = [".db", ".postgresql.sql", ".oracle.sql", ".json"]
        if revision != migrate.head():
            kinds.append(".code.zip")
        for kind in kinds:
            assert (STORED / f"{revision}{kind}").is_file()
