"""`memalchemy distribute --citus` on a cluster, and what `check` says before and after."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from memalchemy import Checkpointer, Conflict, Database, Store, migrate
from memalchemy.cli.app import app
from memalchemy.contracts import Progress
from memalchemy.dialects import DIALECTS, VERSION_TABLE
from memalchemy.errors import CapabilityMissing, SchemaOutdated, StatementFailed
from memalchemy.maintenance.distribution import SHARDS_PER_NODE, distribute
from memalchemy.verify import verify
from servers import Citus
from waiting import until

STATES = {f"thread-{number}": {"n": number, "text": "word " * number} for number in range(30)}


async def call(*arguments: str) -> Result:
    """Call the command line, which runs a loop of its own."""
    invoke = partial(CliRunner().invoke, app, arguments, catch_exceptions=False)
    return await asyncio.to_thread(invoke)


async def run(*arguments: str, code: int = 0) -> Any:
    """The JSON that a command prints; of one that answers nothing the error."""
    result = await call(*arguments, "--json")
    assert result.exit_code == code, result.stderr
    answer = result.stdout
    return json.loads(answer) if answer else json.loads(result.stderr)["error"]


async def fill(url: str) -> None:
    async with Database(url, migrate="upgrade") as db:
        checkpointer, store = Checkpointer(db), Store(db)
        for thread_id, state in STATES.items():
            await checkpointer.save(state, thread_id)
            await store.put(("notes", thread_id), "key", state)


async def everything(url: str) -> dict[str, Any]:
    """What was stored, as a reader finds it."""
    async with Database(url) as db:
        checkpointer, store = Checkpointer(db), Store(db)
        found = {thread_id: await checkpointer.load(thread_id) for thread_id in STATES}
        for thread_id in STATES:
            item = await store.get(("notes", thread_id), "key")
            assert item == STATES[thread_id]
        return found


async def test_rows_move_and_a_second_run_changes_nothing(cluster: Citus, name: str) -> None:
    url = cluster.url(name)
    await fill(url)
    before = await run("--db", url, "check")
    assert before["warnings"] == []
    assert not any(table["shards"] for table in before["distribution"]["tables"])

    told = await run("--db", url, "distribute", "--citus")

    assert set(told["distributed"]) == {*migrate.TABLES, VERSION_TABLE}
    assert told["freed_bytes"] > 0
    assert await everything(url) == STATES
    checked = await run("--db", url, "check")
    assert checked["warnings"] == []
    state = checked["distribution"]
    assert state["is_whole"] is state["is_coordinator"] is True
    shards = SHARDS_PER_NODE * len(cluster.workers)
    placed = {table.pop("name"): table for table in state["tables"]}
    for table in migrate.TABLES:
        column = "namespace" if table in ("store_items", "embeddings") else "log_id"
        found = placed[table]
        assert (found["column"], found["shards"], found["nodes"]) == (column, shards, 2)
    assert placed["checkpoints"]["group"] == placed["deltas"]["group"] == placed["threads"]["group"]
    assert placed[VERSION_TABLE]["is_replicated"]
    # Nothing is left where the rows were, and a worker is asked as the coordinator is.
    for table in (*migrate.TABLES, VERSION_TABLE):
        assert cluster.execute(f"SELECT pg_relation_size('{table}')", name) == [(0,)]
    worker = cluster.workers[0].url(name)
    assert not (await run("--db", worker, "check"))["distribution"]["is_coordinator"]
    assert await everything(worker) == STATES

    again = await run("--db", url, "distribute", "--citus", "--parts", str(shards))
    assert (again["distributed"], again["freed_bytes"]) == ([], 0)
    printed = await call("--db", url, "distribute", "--citus")
    assert printed.stdout.startswith("nothing to do: the tables are distributed\n")
    refused = await run("--db", url, "distribute", "--citus", "--parts", "4", code=4)
    assert refused["code"] == "MA-CONFLICT"
    assert f"{shards} shards already, not 4" in refused["message"]
    worker_refused = await run("--db", worker, "distribute", "--citus", code=4)
    assert "this is a worker" in worker_refused["message"]


async def test_shards_keep_how_a_table_stores_its_rows(cluster: Citus, name: str) -> None:
    """Payloads uncompressed and out of line, vectors in line, room for updates on a page."""
    url = cluster.url(name)
    async with Database(url, migrate="off") as db:
        await db.migrate()
        await distribute(db, parts=2)

    for table, column, wanted in (
        ("deltas", "payload", "e"),
        ("store_items", "value", "e"),
        ("embeddings", "vector", "m"),
        ("threads", "next_seq", "p {fillfactor=70}"),
    ):
        asked = (
            "SELECT concat_ws(' ', attstorage, reloptions) FROM pg_class JOIN pg_attribute "
            f"ON attrelid = pg_class.oid AND attname = '{column}' "
            "WHERE pg_class.oid = CAST('%s' AS regclass)"
        )
        shards = (
            f"SELECT DISTINCT success, result FROM run_command_on_shards('{table}', $${asked}$$)"
        )
        assert cluster.execute(shards, name) == [(True, wanted)]


async def test_what_was_begun_is_completed_with_its_number_of_shards(
    cluster: Citus, name: str
) -> None:
    url = cluster.url(name)
    await fill(url)
    for statement in DIALECTS["postgresql"].maintenance.distribution_commands(None, 6):
        if "'threads'," in statement or "'checkpoints'," in statement:
            cluster.execute(statement, name)
    begun = await run("--db", url, "check", code=1)
    (warning,) = begun["warnings"]
    assert not begun["ok"]
    assert "deltas" in warning
    assert "distribute --citus" in warning
    assert "threads" not in warning

    told: list[Progress] = []
    async with Database(url, migrate="off") as db:
        result = await distribute(db, progress=told.append)

    assert set(result.spread) == {"deltas", "store_items", "embeddings", VERSION_TABLE}
    assert {t.shards for t in result.distribution.tables if t.column} == {6}
    assert [state.done for state in told] == [3, 4, 5, 6, 7]
    assert {state.total for state in told} == {7}
    assert result.distribution.is_whole
    assert await everything(url) == STATES


async def test_the_script_does_what_the_command_does(cluster: Citus, name: str) -> None:
    url = cluster.url(name)
    await fill(url)
    script = (await call("distribute", "--citus", "--parts", "3", "--sql")).stdout.splitlines()
    drops = [statement for statement in script if "truncate" in statement]

    # A script that did not come to a table drops no rows that it refers to.
    for statement in script[:3]:
        cluster.execute(statement, name)
    for drop in drops:
        with pytest.raises(psycopg.Error):
            cluster.execute(drop, name)
    assert (await run("--db", url, "check", code=1))["warnings"]
    for statement in script[3:]:
        cluster.execute(statement, name)

    assert (await run("--db", url, "check"))["warnings"] == []
    assert await everything(url) == STATES


async def test_writers_wait_and_lose_nothing(cluster: Citus, name: str) -> None:
    url = cluster.url(name)
    put = (
        "INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, "
        "created_at, updated_at, value) VALUES ('default', %s, 'key', '{}', 1, 'none', 0, "
        "now(), now(), '-')"
    )
    stopped = threading.Event()

    acknowledged_by: dict[int, list[str]] = {number: [] for number in range(3)}

    def write(number: int) -> list[str]:
        acknowledged = acknowledged_by[number]
        with psycopg.connect(url, autocommit=True) as connection:
            while not stopped.is_set():
                namespace = f"/{number}/{len(acknowledged)}/"
                connection.execute(put, (namespace,))
                acknowledged.append(namespace)
        return acknowledged

    async with Database(url, migrate="off") as db:
        await db.migrate()
        writers = [asyncio.create_task(asyncio.to_thread(write, number)) for number in range(3)]
        for step in ("before", "after"):
            wanted = {number: len(those) + 5 for number, those in acknowledged_by.items()}
            await until(
                lambda wanted=wanted: (
                    any(writer.done() for writer in writers)
                    or all(len(acknowledged_by[number]) >= wanted[number] for number in wanted)
                )
            )
            if step == "before":
                await distribute(db, parts=4)
        stopped.set()
    written = [namespace for writer in writers for namespace in await writer]
    there = cluster.execute("SELECT namespace FROM store_items WHERE tenant = 'default'", name)
    assert sorted(written) == sorted(namespace for (namespace,) in there)


async def test_a_process_that_had_the_database_open_is_told_to_open_it_again(
    cluster: Citus, name: str
) -> None:
    async with Database(cluster.url(name), migrate="upgrade") as earlier:
        await Checkpointer(earlier).save({"n": 1}, "thread")
        async with Database(cluster.url(name), migrate="off") as db:
            await distribute(db, parts=2)

        store = Store(earlier)
        for refused in (
            partial(store.put, ("notes",), "key", 1),
            partial(store.put_batch, [(("notes",), key, 1) for key in "abc"]),
            partial(Checkpointer(earlier).search, "word"),
        ):
            with pytest.raises(StatementFailed, match=r"distributed .*, open it again"):
                await refused()
        # Some are answered still, if slowly, and what they say is right.
        await Checkpointer(earlier).save({"n": 2}, "thread")
    async with Database(cluster.url(name)) as opened:
        assert await Checkpointer(opened).load("thread") == {"n": 2}
        assert await Store(opened).list_keys(("notes",)) == []
        assert (await verify(opened)).ok


async def test_an_interrupted_run_changes_nothing(cluster: Citus, name: str) -> None:
    url = cluster.url(name)
    await fill(url)

    def interrupt(state: Progress) -> None:
        if state.done == 4:
            raise InterruptedError

    async with Database(url, migrate="off") as db:
        with pytest.raises(InterruptedError):
            await distribute(db, parts=2, progress=interrupt)
        state = await db.distribution()
        assert state is not None
        assert not state.is_begun
        assert await everything(url) == STATES
        assert (await distribute(db, parts=2)).distribution.is_whole
    assert await everything(url) == STATES


async def test_another_distribution_is_named_and_left_alone(cluster: Citus, name: str) -> None:
    url = cluster.url(name)
    await fill(url)
    cluster.execute("SELECT create_distributed_table('store_items', 'tenant')", name)
    (about_column, _) = (await run("--db", url, "check", code=1))["warnings"]
    assert about_column == "store_items is spread by tenant, not namespace"

    async with Database(url, migrate="off") as db:
        with pytest.raises(Conflict, match="spread by tenant, not namespace"):
            await distribute(db)
        state = await db.distribution()
    assert state is not None
    assert set(state.missing) == {*migrate.TABLES, VERSION_TABLE} - {"store_items"}


async def test_what_cannot_be_spread_is_refused_and_nothing_is_changed(
    cluster: Citus, name: str
) -> None:
    url = cluster.url(name)
    async with Database(url, migrate="off") as db:
        with pytest.raises(SchemaOutdated):
            await distribute(db)
        await db.migrate()
        with pytest.raises(ValueError, match="number of shards"):
            await distribute(db, parts=0)
        cluster.execute("CREATE TABLE tickets (log_id uuid REFERENCES threads)", name)
        with pytest.raises(CapabilityMissing, match="tickets has a foreign key"):
            await distribute(db)
        cluster.execute("DROP TABLE tickets", name)

        cluster.make_role("citus_owner")
        for table in (*migrate.TABLES, VERSION_TABLE):
            cluster.execute(f"ALTER TABLE {table} OWNER TO citus_owner", name)
        cluster.execute("ALTER TABLE deltas ENABLE ROW LEVEL SECURITY", name)
        cluster.execute("ALTER TABLE deltas FORCE ROW LEVEL SECURITY", name)
        cluster.execute("CREATE POLICY own ON deltas USING (tenant = 'acme')", name)
        owner = cluster.url(name, user="citus_owner")
        async with Database(owner, migrate="off") as owned:
            with pytest.raises(CapabilityMissing, match="row-level security hides rows of deltas"):
                await distribute(owned)
        state = await db.distribution()
        assert state is not None
        assert not state.is_begun


async def test_a_schema_and_a_role_that_is_no_superuser(cluster: Citus, name: str) -> None:
    cluster.make_role("citus_maker")
    cluster.execute(f"GRANT CREATE ON DATABASE {name} TO citus_maker", name)
    cluster.execute("CREATE EXTENSION vector", name)
    url = cluster.url(name, user="citus_maker")
    schema = "My memory"
    async with Database(url, schema=schema, migrate="off") as db:
        await db.migrate()
        await Checkpointer(db).save({"n": 1}, "t")
    told = await run("--db", url, "--schema", schema, "distribute", "--citus", "--parts", "2")
    assert told["is_whole"]
    assert {table["shards"] for table in told["tables"]} == {1, 2}
    async with Database(url, schema=schema) as db:
        assert await Checkpointer(db).load("t") == {"n": 1}
        assert await db.distribution() is not None
    async with Database(url, migrate="off") as elsewhere:
        state = await elsewhere.distribution()
    assert state is not None
    assert state.tables == ()
