"""Real databases that earlier releases wrote: upgraded to this one's schema, then read and written.

``tests/stored/make.py`` says how they were made.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from memalchemy import Checkpointer, Database, migrate
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

        # Write: go on, branch off, delete, and find what is new.
        going_on = {"messages": [*state_of(threads["long"])["messages"], "zeppelin"]}
        name = await checkpointer.save(going_on, "long", metadata={"colour": "green"})
        assert await checkpointer.load("long", name) == going_on
        assert [hit["checkpoint_id"] for hit in await checkpointer.search("zeppelin")] == [name]
        root = next(iter(threads["branched"]))
        await checkpointer.save({"path": ["root", "middle"]}, "branched", parent_id=root)
        await checkpointer.prune("long", keep_last=2)
        assert len(await checkpointer.query_by_metadata("colour", "red")) == 0
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
    assert inserted.count("threads") == len(content["threads"]) + len(content["deleted"])
    assert inserted.count("checkpoints") == names
    assert inserted.count("deltas") >= names
    # Parents before their children.
    assert inserted == sorted(inserted, key=migrate.TABLES.index)


def test_every_revision_before_the_head_has_a_stored_database() -> None:
    chain = {script.revision for script in migrate.scripts().walk_revisions()}
    assert {*REVISIONS} >= chain - {migrate.head()}
    for revision in REVISIONS:
        for kind in (".db", ".postgresql.sql", ".oracle.sql", ".json", ".code.zip"):
            assert (STORED / f"{revision}{kind}").is_file()
