"""Real databases that earlier releases wrote: upgraded to this one's schema, then read and written.

``tests/stored/make.py`` says how they were made.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from memalchemy import Checkpointer, Corrupt, Database, migrate
from memalchemy.schema import DeltaRow
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


# --- The encoding zsplice1 ------------------------------------------------------------------------


async def codecs(db: Database, thread: str) -> list[str]:
    """The encodings of a thread's rows, oldest first."""
    query = (
        select(DeltaRow.codec)
        .where(DeltaRow.tenant == db.tenant, DeltaRow.thread_id == thread)
        .order_by(DeltaRow.seq)
    )
    async with db.transaction() as connection:
        return list((await connection.execute(query)).scalars())


async def everything(checkpointer: Checkpointer, thread: str) -> dict[str, Any]:
    """Every state of a thread by name, oldest first."""
    names = [info.checkpoint_id async for info in checkpointer.history(thread)]
    return {name: await checkpointer.load(thread, name) for name in reversed(names)}


async def live_with_both_encodings(url: str, content: dict[str, Any]) -> None:
    async with Database(url, tenant=content["tenant"], migrate="off") as db:
        await db.migrate()
        checkpointer = Checkpointer(db)
        states: dict[str, Any] = content["threads"]["long"]
        assert {*await codecs(db, "long")} == {"zsplice1"}
        assert await everything(checkpointer, "long") == states

        # Going on writes today's encoding; an old row is never its base.
        names = list(states)
        for parent in (names[-1], names[4], names[-1], None, None):
            state = state_of(states) | {"note": f"quokka {len(states)}", "tuple": (1, b"x")}
            options = {"parent_id": parent} if parent else {}
            states[await checkpointer.save(state, "long", **options)] = state
        written = await codecs(db, "long")
        assert written == ["zsplice1"] * len(names) + ["zsplice2"] * 5
        newest = list(states)[-1]

        # Copies keep each row as it is.
        fork = await checkpointer.fork("long", names[6], new_thread_id="from old")
        assert await everything(checkpointer, fork) == {n: states[n] for n in names[:7]}
        assert {*await codecs(db, fork)} == {"zsplice1"}
        await checkpointer.save({"step": "forked"}, fork)
        assert await checkpointer.copy_thread("long", "copy")
        for thread in ("long", "copy"):
            for name, state in states.items():
                assert await checkpointer.load(thread, name) == state
        assert await codecs(db, "copy") == written

        # Words are found, and states compared, across the two.
        # A step adds what its parent had not, in whichever encoding that is: of the new ones, the
        # second adds the messages after its parent's, and the last two add neither word.
        first, second, third = [*states][len(names) : len(names) + 3]
        hits = await checkpointer.search("lighthouses", limit=200)
        assert {hit["checkpoint_id"] for hit in hits} == {*names, second}
        quokkas = await checkpointer.search("quokka", limit=200)
        assert {hit["checkpoint_id"] for hit in quokkas} == {first, second, third}
        difference = await checkpointer.diff("long", names[-1], newest)
        assert set(difference.added) == {"/note", "/tuple"}
        assert not difference.changed
        assert not difference.removed
        exported = [row async for row in checkpointer.export(thread_id="long")]
        assert [row["checkpoint_id"] for row in exported] == list(states)
        assert [row["state"] for row in exported][: len(names)] == [states[n] for n in names]

        # Rows without a name, which others build on, are read too; then all is written anew.
        for name in (names[0], names[3], names[4]):
            await checkpointer.delete("long", name)
            del states[name]
        for name, state in states.items():
            assert await checkpointer.load("long", name) == state
        assert await checkpointer.rewrite("long") > 0
        assert await codecs(db, "long") == ["zsplice2"] * len(states)
        for name, state in states.items():
            assert await checkpointer.load("long", name) == state
        await checkpointer.save({"step": "rewritten"}, "long")
        assert await checkpointer.load("long") == {"step": "rewritten"}


def test_the_stored_database_has_old_rows_that_are_deltas_of_each_other() -> None:
    """Or the tests below show nothing."""
    with closing(sqlite3.connect(STORED / "0001.db")) as connection:
        rows = connection.execute("SELECT kind FROM deltas WHERE codec = 'zsplice1'").fetchall()
    assert rows.count(("delta",)) > 5


async def test_a_sqlite_file_of_the_earlier_encoding_lives_on(tmp_path: Path) -> None:
    shutil.copyfile(STORED / "0001.db", tmp_path / "agent.db")
    content = expected("0001", "sqlite")
    await live_with_both_encodings(f"sqlite:///{tmp_path}/agent.db", content)


async def test_a_postgresql_database_of_the_earlier_encoding_lives_on(
    postgres: Postgres, fresh_postgres: str
) -> None:
    postgres.execute((STORED / "0001.postgresql.sql").read_text(), fresh_postgres)
    content = expected("0001", "postgresql")
    await live_with_both_encodings(postgres.url(fresh_postgres), content)


@pytest.mark.parametrize("byte", [0, 3, -1])
async def test_a_damaged_row_of_the_earlier_encoding_is_corrupt(byte: int, tmp_path: Path) -> None:
    """Also where its own checksum was made to fit: the state's does not."""
    path = tmp_path / "agent.db"
    shutil.copyfile(STORED / "0001.db", path)
    content = expected("0001", "sqlite")
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT seq, payload, checksum FROM deltas WHERE thread_id = 'long'"
        for seq, payload, checksum in connection.execute(query).fetchall():
            broken = bytearray(payload)
            broken[byte] ^= 0x55
            low = zlib.crc32(broken)
            forged = ((((checksum + 2**63) >> 32) << 32) | low) - 2**63
            connection.execute(
                "UPDATE deltas SET payload = ?, checksum = ? WHERE thread_id = 'long' AND seq = ?",
                (bytes(broken), forged, seq),
            )
        connection.commit()
    async with Database(f"sqlite:///{path}", tenant=content["tenant"]) as db:
        for name in content["threads"]["long"]:
            with pytest.raises(Corrupt):
                await Checkpointer(db).load("long", name)


def test_every_revision_before_the_head_has_a_stored_database() -> None:
    chain = {script.revision for script in migrate.scripts().walk_revisions()}
    assert {*REVISIONS} >= chain - {migrate.head()}
    for revision in REVISIONS:
        for kind in (".db", ".postgresql.sql", ".oracle.sql", ".json", ".code.zip"):
            assert (STORED / f"{revision}{kind}").is_file()
