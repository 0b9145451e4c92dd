"""A log has one key, made of its tenant, thread and namespace; what says otherwise is damage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, insert, text, update

from memalchemy import Checkpointer, Corrupt, Database, ThreadLog
from memalchemy.keys import encode_namespace, log_key
from memalchemy.log import CHECKPOINTS, DELTAS, THREADS
from memalchemy.verify import Finding, verify
from rows import of_thread


@pytest.fixture
async def alone(database_url: str) -> AsyncIterator[Database]:
    """A database of the test's own, that it may damage: a thread of three checkpoints and a log of
    two entries.
    """
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        for n in range(3):
            await Checkpointer(db).save({"n": n}, "t", f"c{n}")
        await ThreadLog(db).append("t", ["one", "two"])
        yield db


async def change(db: Database, sql: str) -> None:
    assert await db.run_sync(lambda c: c.execute(text(sql)).rowcount)


async def errors_of(db: Database, **scope: Any) -> list[Finding]:
    return [f for f in (await verify(db, **scope)).findings if f.severity == "error"]


async def test_every_row_of_a_log_has_the_key_of_its_names(db: Database) -> None:
    for namespace in ((), ("a", "b/c")):
        agent = Checkpointer(db, namespace=namespace)
        await agent.save({"n": 1}, "naïve/\x00/🧵", "c1")
        await agent.put_writes([("channel", 1)], "naïve/\x00/🧵", "c1", "task")
    await agent.fork("naïve/\x00/🧵", new_thread_id="copy")
    wanted = {
        log_key(db.tenant, thread, encode_namespace(namespace))
        for thread, namespace in (
            ("naïve/\x00/🧵", ()),
            ("naïve/\x00/🧵", ("a", "b/c")),
            ("copy", ("a", "b/c")),
        )
    }

    def keys(connection: Connection) -> list[set[Any]]:
        tables = (THREADS, CHECKPOINTS, DELTAS)
        queries = (t.select().where(t.c.tenant == db.tenant) for t in tables)
        return [{row.log_id for row in connection.execute(query)} for query in queries]

    assert await db.run_sync(keys) == [wanted] * 3


async def test_verify_names_a_head_whose_key_is_not_that_of_its_names(alone: Database) -> None:
    await change(
        alone, "UPDATE threads SET thread_id = 'renamed' WHERE thread_id = 't' AND namespace = '/'"
    )

    (finding,) = await errors_of(alone)
    (sampled,) = await errors_of(alone, sample=1)

    assert finding == sampled
    assert (finding.code, finding.thread_id, finding.namespace) == ("log-id", "renamed", "/")
    for key in (log_key("default", "t", "/"), log_key("default", "renamed", "/")):
        assert str(key) in finding.sentence
    assert "3 positions were not read" in finding.sentence
    assert finding.remedy is not None
    await change(alone, "UPDATE threads SET thread_id = 't' WHERE thread_id = 'renamed'")
    assert await errors_of(alone) == []
    assert await Checkpointer(alone).load("t") == {"n": 2}


async def test_verify_names_a_second_head_with_the_names_of_a_first(alone: Database) -> None:
    def twice(connection: Connection) -> None:
        (head,) = connection.execute(THREADS.select().where(THREADS.c.namespace == "/"))
        for _ in range(3):
            again = dict(head._mapping) | {"log_id": uuid4(), "head_id": None, "next_seq": 1}
            connection.execute(insert(THREADS).values(again))

    await alone.run_sync(twice)

    found = await errors_of(alone)

    assert [(f.code, f.thread_id) for f in found] == [("log-id", "t")] * 3
    assert (await verify(alone)).states == 3


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_verify_names_rows_that_say_another_tenant_than_their_log(alone: Database) -> None:
    await Checkpointer(alone.for_tenant("acme")).save({"n": 1}, "theirs")
    of = of_thread("t", "/")
    await change(alone, f"UPDATE deltas SET tenant = 'acme' WHERE {of} AND seq = 2")
    await change(alone, f"UPDATE checkpoints SET tenant = 'acme' WHERE {of} AND seq > 1")

    (ours,) = await errors_of(alone)
    theirs = await errors_of(alone.for_tenant("acme"))
    everywhere = await errors_of(alone, all_tenants=True)

    assert (ours.code, ours.tenant, ours.thread_id) == ("tenant", "default", "t")
    assert "2 positions say tenant 'acme'" in ours.sentence
    assert [(f.code, f.tenant, f.thread_id) for f in theirs] == [("tenant", "acme", None)] * 2
    assert theirs[0].sentence.startswith("2 rows of checkpoints in a log of another tenant")
    assert theirs[1].sentence.startswith("1 row of deltas in a log of another tenant")
    assert str(log_key("default", "t", "/")) in theirs[0].sentence
    assert everywhere == [ours]


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_log_is_never_begun_in_the_row_of_another(db: Database) -> None:
    """Of two logs with one key, which only damage can make, the second is refused."""
    await Checkpointer(db).save({"n": 1}, "t", "c1")
    mine = (THREADS.c.tenant == db.tenant, THREADS.c.thread_id == "t")

    def rename(connection: Connection) -> None:
        connection.execute(
            update(THREADS).where(*mine).values(thread_id="another", head_id="theirs")
        )
        connection.execute(CHECKPOINTS.delete().where(CHECKPOINTS.c.tenant == db.tenant))
        connection.execute(DELTAS.delete().where(DELTAS.c.tenant == db.tenant))

    await db.run_sync(rename)
    agent, log = Checkpointer(db), ThreadLog(db, namespace=())
    agent._cache.drop_tenant(db.tenant)

    with pytest.raises(Corrupt, match="names another log"):
        await agent.save({"n": 2}, "t", "c2")
    with pytest.raises(Corrupt, match="names another log"):
        await agent.put_writes([("channel", 1)], "t", "c2", "task")
    with pytest.raises(Corrupt, match="names another log"):
        await log.append("t", ["one"])
    with pytest.raises(Corrupt, match="names another log"):
        await log.append("t", ["one"], keys=["a"])

    assert await agent.list_checkpoints("t") == []
    assert await log.range("t") == []
