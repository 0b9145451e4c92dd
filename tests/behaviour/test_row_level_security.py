"""`memalchemy tenants enforce`: PostgreSQL walls the tenants, on every road to it."""

from __future__ import annotations

import asyncio
import inspect
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import asyncpg
import pytest
from sqlalchemy import delete, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool
from store_helpers import Embedder

from drawn_examples import examples
from memalchemy import (
    AuthenticationFailed,
    CapabilityMissing,
    Checkpointer,
    Conversation,
    Database,
    Episode,
    EpisodeStore,
    KeyValue,
    MemalchemyError,
    MemoryFact,
    Store,
    ThreadLog,
    UserMemoryStore,
    VectorStore,
)
from memalchemy.database import known_keys
from memalchemy.database.executors.asyncpg import AsyncpgConnection
from memalchemy.errors import WallIncomplete
from memalchemy.events import StatementEvent, subscribe_statements
from memalchemy.maintenance import tenants
from memalchemy.migrate import TABLES, VERSION_TABLE
from memalchemy.schema import (
    Base,
    CheckpointRow,
    DeltaRow,
    EmbeddingRow,
    StoreItemRow,
    ThreadRow,
)
from public_calls import CLASSES, arguments, methods_of, outcome
from servers import Postgres, give_rights, migrated_database, pgbouncer, pgbouncer_program

pytestmark = pytest.mark.asyncio_only("the wall is on the server's side, whoever waits for it")

APP, ADMIN, OWNER = "walled_app", "walled_admin", "walled_owner"
ROADS = ("asyncpg", "asyncpg through SQLAlchemy", "psycopg", "host's engine", "PgBouncer")

Open = Callable[..., Database]


@pytest.fixture(scope="module")
def walled(postgres: Postgres) -> Iterator[str]:
    """A database whose tenants are walled, and whose owner is no superuser."""
    with migrated_database(postgres) as name:
        for role in (APP, ADMIN, OWNER):
            give_rights(postgres, role, name)
        for table in (*TABLES, VERSION_TABLE):
            postgres.execute(f"ALTER TABLE {table} OWNER TO {OWNER}", name)

        async def enforce() -> None:
            async with Database(postgres.url(name)) as db:
                state = await tenants.enforce(db, admins=[ADMIN])
                assert state.is_whole
                assert state.leaky == 0

        asyncio.run(enforce())
        yield name


@pytest.fixture(scope="module")
def walled_bouncer(postgres: Postgres, walled: str) -> Iterator[Postgres]:
    if pgbouncer_program() is None:
        pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
    with pgbouncer(postgres, user=APP) as front:
        yield front


@pytest.fixture(params=ROADS)
async def opened(
    postgres: Postgres, walled: str, request: pytest.FixtureRequest
) -> AsyncIterator[Database]:
    """The walled database as the application's role, on one road."""
    road = request.param
    engine = None
    if road == "PgBouncer":
        front: Postgres = request.getfixturevalue("walled_bouncer")
        db = Database(front.url(walled), pgbouncer=True)
    elif road == "host's engine":
        engine = create_async_engine(postgres.url(walled, driver="asyncpg", user=APP), pool_size=2)
        db = Database(engine)
    else:
        driver = "psycopg" if road == "psycopg" else "asyncpg"
        options: dict[str, Any] = {"pool_size": 2}
        if road == "asyncpg through SQLAlchemy":
            options["execution_options"] = {}
        db = Database(postgres.url(walled, driver=driver, user=APP), **options)
    async with db:
        yield db
    if engine is not None:
        await engine.dispose()


@pytest.fixture
async def app(postgres: Postgres, walled: str) -> AsyncIterator[Database]:
    async with Database(postgres.url(walled, user=APP), pool_size=2) as db:
        yield db


@pytest.fixture
async def admin(postgres: Postgres, walled: str) -> AsyncIterator[Database]:
    async with Database(postgres.url(walled, user=ADMIN)) as db:
        yield db


@contextmanager
def statements_sent() -> Iterator[list[str]]:
    sent: list[str] = []

    def note(event: StatementEvent) -> None:
        sent.append(event.sql)

    unsubscribe = subscribe_statements(note)
    try:
        yield sent
    finally:
        unsubscribe()


def named(request: pytest.FixtureRequest, name: str) -> str:
    return f"{name}-{abs(hash(request.node.nodeid)) % 10**8}"


async def test_all_works_as_ever_on_every_road(
    opened: Database, request: pytest.FixtureRequest
) -> None:
    for tenant in (named(request, "acme"), named(request, "globex")):
        db = opened.for_tenant(tenant)
        checkpointer, store = Checkpointer(db), Store(db, embedder=Embedder())
        for n in range(3):
            await checkpointer.save({"n": n, "word": f"kettle {tenant}"}, "t", metadata={"n": n})
        await Conversation(db, "t").add("question", "answer")
        await store.put(("n",), "k", "a kettle", metadata={"colour": "red"})
        assert await checkpointer.load("t") == {"n": 2, "word": f"kettle {tenant}"}
        assert len([c async for c in checkpointer.history("t")]) == 3
        assert [hit["thread_id"] for hit in await checkpointer.search("kettle")] == ["t"]
        assert await Conversation(db, "t").count() == 2
        assert len(await store.search(("n",), "kettle", mode="hybrid")) == 1
        assert len(await store.search(("n",), filter={"colour": "red"})) == 1
        await checkpointer.fork("t", new_thread_id="forked")
        assert await checkpointer.prune("t", keep_last=1) == 2
        assert await checkpointer.delete("forked")
        assert await checkpointer.list_threads() == ["t"]
        async with db.transaction() as tx:
            await store.put(("n",), "in tx", 1, connection=tx)
            assert await checkpointer.load("t", connection=tx) is not None
        assert await store.get(("n",), "in tx") is not None


async def test_many_tenants_at_once_share_a_pool_of_two(
    opened: Database, request: pytest.FixtureRequest
) -> None:
    names = [named(request, f"of-{n}") for n in range(40)]

    async def work(tenant: str) -> None:
        checkpointer = Checkpointer(opened.for_tenant(tenant))
        for n in range(4):
            await checkpointer.save({"mine": tenant, "n": n}, f"t{n % 2}")
        assert await checkpointer.load("t1") == {"mine": tenant, "n": 3}
        assert sorted(await checkpointer.list_threads()) == ["t0", "t1"]

    await asyncio.gather(*map(work, names))


@pytest.mark.unsigned_only("it counts statements")
@pytest.mark.plaintext_only("it counts statements")
@pytest.mark.own_programs("it counts statements")
async def test_saves_of_two_tenants_never_share_a_statement(app: Database) -> None:
    checkpointers = [Checkpointer(app.for_tenant(f"shares-{n % 3}")) for n in range(60)]
    for one in checkpointers[:3]:
        await one.save({}, "warm")
    with statements_sent() as sent:
        await asyncio.gather(*(one.save({"n": n}, f"t{n}") for n, one in enumerate(checkpointers)))
    assert sum("INSERT" in sql for sql in sent) < 60  # they were batched
    for n in range(3):
        found = await Checkpointer(app.for_tenant(f"shares-{n}")).list_threads(pattern="t*")
        assert len(found) == 20


@pytest.mark.unsigned_only("it counts statements")
@pytest.mark.plaintext_only("it counts statements")
@pytest.mark.own_programs("it counts statements")
async def test_a_lone_statement_costs_one_round_trip_whoever_had_the_connection(
    app: Database,
) -> None:
    first, second = (Checkpointer(app.for_tenant(f"trip-{n}")) for n in range(2))
    for one in (first, second) * 2:
        await one.save({"n": 1}, "t")
        await one.load("t")
    with statements_sent() as sent:
        for one in (first, second) * 3:
            await one.save({"n": 2}, "t")
            assert await one.load("t") == {"n": 2}
    assert len(sent) == 12
    assert not [sql for sql in sent if "set_config('memalchemy" in sql]


async def test_a_failed_statement_leaves_the_connection_usable(app: Database) -> None:
    store = Store(app.for_tenant("fails"))
    await store.put(("n",), "k", 1)

    def refused() -> Any:
        from memalchemy.database.clock import read_clock

        yield read_clock(app.dialect), {}
        yield text("SELECT 1 / 0"), {}

    from memalchemy.database.intent import READ

    with pytest.raises(MemalchemyError):
        await store.db.run(refused, READ)
    found = await store.get(("n",), "k")
    assert found is not None


async def test_the_owner_is_walled_too(postgres: Postgres, walled: str) -> None:
    async with Database(postgres.url(walled, user=OWNER), tenant="owners") as db:
        await Store(db).put(("n",), "k", 1)
        assert (await tenants.status(db)).is_active
        found = await db.run_sync(lambda c: c.scalars(select(StoreItemRow.tenant).distinct()).all())
        assert list(found) == ["owners"]


async def test_sql_without_a_tenant_is_an_error_and_not_an_empty_table(
    postgres: Postgres, walled: str, app: Database
) -> None:
    await keep_secrets(app.for_tenant("asked"))  # of a table without rows nothing is asked
    engine = create_async_engine(postgres.url(walled, driver="asyncpg", user=APP))
    try:
        for table in Base.metadata.sorted_tables:
            async with engine.connect() as connection:
                with pytest.raises(DBAPIError, match="has no tenant"):
                    await connection.execute(select(table).limit(1))
    finally:
        await engine.dispose()


async def test_administration_needs_a_role_that_sees_all(
    app: Database, admin: Database, tmp_path: Any
) -> None:
    from memalchemy.transfer import copy
    from memalchemy.verify import verify

    for n in range(2):
        await Checkpointer(app.for_tenant(f"many-{n}")).save({"n": n}, "t")
    with pytest.raises(CapabilityMissing, match="sees one at a time"):
        await verify(app, all_tenants=True)
    async with Database(f"sqlite:///{tmp_path}/copy.db") as target:
        with pytest.raises(CapabilityMissing, match="--admin ROLE"):
            await copy(app, target, all_tenants=True)
        await copy(admin, target, all_tenants=True)
        for n in range(2):
            assert await Checkpointer(target.for_tenant(f"many-{n}")).load("t") == {"n": n}
    report = await verify(admin, all_tenants=True)
    assert report.ok
    assert report.logs >= 2


async def test_keys_of_all_tenants_are_rotated_by_an_administrator(
    postgres: Postgres, walled: str, app: Database
) -> None:
    from memalchemy.codec.encryption import generate_key
    from memalchemy.rotation import rotate_keys

    key = generate_key()
    async with Database(postgres.url(walled, user=APP), keys=[key]) as db:
        await Store(db.for_tenant("keyed")).put(("n",), "k", 1)
        with pytest.raises(CapabilityMissing, match="sees one at a time"):
            await rotate_keys(db, all_tenants=True)
        assert (await rotate_keys(db.for_tenant("keyed"), dry_run=True)).rotated == 0


@pytest.fixture
def unwalled(postgres: Postgres, walled: str) -> Iterator[str]:
    """A database of the test's own, for which the application's role has all rights."""
    with migrated_database(postgres) as name:
        give_rights(postgres, APP, name)
        yield name


async def test_a_process_that_was_running_finds_the_wall(postgres: Postgres, unwalled: str) -> None:
    dbs = [
        Database(postgres.url(unwalled, driver=driver, user=APP))
        for driver in ("asyncpg", "psycopg")
    ]
    engine = create_async_engine(postgres.url(unwalled, driver="asyncpg", user=APP))
    for db in dbs:
        await Checkpointer(db).save({"n": 1}, "t")
    async with engine.begin() as connection:
        assert await Checkpointer(dbs[0]).load("t", connection=connection) == {"n": 1}
    async with Database(postgres.url(unwalled)) as owner:
        await tenants.enforce(owner)
    for db in dbs:
        assert await Checkpointer(db).load("t") == {"n": 1}
        await Checkpointer(db).save({"n": 1}, "t")
        assert (await db.tenant_wall()).is_active
    with pytest.raises(MemalchemyError, match="Try again"):
        async with engine.begin() as connection:
            await Checkpointer(dbs[0]).load("t", connection=connection)
    async with engine.begin() as connection:
        assert await Checkpointer(dbs[0]).load("t", connection=connection) == {"n": 1}
    async with Database(postgres.url(unwalled)) as owner:
        assert not (await tenants.release(owner)).enforced
    for db in dbs:
        assert await Checkpointer(db).load("t") == {"n": 1}
        assert not (await db.tenant_wall()).is_active
        await db.close()
    await engine.dispose()


async def test_a_role_that_no_policy_lets_pass_finds_no_empty_tables(
    postgres: Postgres, unwalled: str
) -> None:
    async with Database(postgres.url(unwalled), tenant="acme") as owner:
        await Checkpointer(owner).save({"n": 1}, "t")
        await tenants.enforce(owner)
        for table in TABLES:
            postgres.execute(f"DROP POLICY memalchemy_tenant ON {table}", unwalled)
        for driver in ("asyncpg", "psycopg"):
            db = Database(postgres.url(unwalled, driver=driver, user=APP), tenant="acme")
            with pytest.raises(WallIncomplete, match="5 of 5 tables") as refused:
                await Checkpointer(db).load("t")
            assert refused.value.tables == 5
            await db.close()
        engine = create_async_engine(postgres.url(unwalled, driver="asyncpg", user=APP))
        async with engine.begin() as connection:
            with pytest.raises(WallIncomplete):
                await Checkpointer(db).load("t", connection=connection)
        await engine.dispose()
        with pytest.raises(WallIncomplete):
            await owner.check()
        assert await Checkpointer(owner).load("t") == {"n": 1}

        await tenants.enforce(owner)

    async with Database(postgres.url(unwalled, user=APP), tenant="acme") as db:
        await db.check()
        assert await Checkpointer(db).load("t") == {"n": 1}


async def test_a_connection_of_the_hosts_in_autocommit_is_refused(
    postgres: Postgres, walled: str, app: Database
) -> None:
    engine = create_async_engine(
        postgres.url(walled, driver="asyncpg", user=APP), isolation_level="AUTOCOMMIT"
    )
    try:
        async with engine.connect() as connection:
            with pytest.raises(CapabilityMissing, match="autocommit"):
                await Checkpointer(app).load("t", connection=connection)
    finally:
        await engine.dispose()


async def test_a_transaction_of_the_hosts_is_of_the_tenant_that_worked_in_it_last(
    postgres: Postgres, walled: str, app: Database
) -> None:
    mine, theirs = (Store(app.for_tenant(name)) for name in ("host-mine", "host-theirs"))
    engine = create_async_engine(postgres.url(walled, driver="asyncpg", user=APP))
    async with AsyncSession(engine) as session, session.begin():
        for store in (mine, theirs, mine):
            await store.put(("n",), "k", 1, connection=session)
            seen = await session.scalars(select(StoreItemRow.tenant).distinct())
            assert seen.all() == [store.db.tenant]
        point = await session.begin_nested()
        await theirs.put(("n",), "other", 1, connection=session)
        await point.rollback()
        assert await mine.get(("n",), "k", connection=session) is not None
    await engine.dispose()


@pytest.mark.own_programs("it explains statements")
async def test_text_searches_keep_their_indexes(
    app: Database, postgres: Postgres, walled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below a policy only leakproof conditions are answered by an index; see EXPLAIN."""
    db = app.for_tenant("explained")
    checkpointer, store, log = Checkpointer(db), Store(db), ThreadLog(db)

    def metadata(n: int) -> dict[str, Any]:
        return {"user": f"u{n % 300}"}

    async def fill(worker: int) -> None:
        for n in range(worker, 1500, 30):
            state = {"w": f"word{n}"}
            await checkpointer.save(state, f"t{n % 50}", metadata=metadata(n))

    await asyncio.gather(*map(fill, range(30)))
    items = [(("n",), f"k{n}", f"word{n}", metadata(n)) for n in range(1500)]
    await store.put_batch(items)
    for n in range(50):
        await log.append(f"t{n}", [f"entry{m}" for m in range(n, 1500, 50)])
    for table in TABLES:
        postgres.execute(f"VACUUM ANALYZE {table}", walled)
    sent = note_what_is_sent(monkeypatch)
    searches: dict[str, list[Any]] = {
        "ix_deltas_search_text": [
            lambda: checkpointer.search("word17"),
            lambda: checkpointer.search("word17 word23"),
            lambda: checkpointer.search("word17", below=True),
            lambda: checkpointer.search("word17 word23", below=True),
            lambda: log.search("entry17"),
            lambda: log.search("entry17 entry23"),
        ],
        "ix_checkpoints_meta": [lambda: checkpointer.query_by_metadata("user", "u7")],
        "ix_store_items_search": [
            lambda: store.search(("n",), "word17"),
            lambda: store.search((), "word17", prefix=True),
            lambda: store.search(("n",), filter={"user": "u7"}),
            lambda: store.search(("n",), "word7", filter={"user": "u7"}),
        ],
    }
    raw = await asyncpg.connect(postgres.url(walled, user=APP))
    for index, calls in searches.items():
        for call in calls:
            sent.clear()
            assert await call()
            plans: list[Any] = []
            async with raw.transaction():
                await raw.execute("SELECT set_config('memalchemy.tenant', 'explained', true)")
                for sql, values in sent:
                    rows = await raw.fetch(f"EXPLAIN {sql}", *values)
                    plans.append("\n".join(row[0] for row in rows))
            # Of the statements that follow, one reads the states of the hits for their snippets.
            (last,) = [plan for plan in plans if f"Bitmap Index Scan on {index}" in plan][-1:]
            assert "NULLIF(COALESCE(((tenant)::text = (InitPlan" in last, last  # of the policy
    await raw.close()


@pytest.mark.own_programs("it explains statements")
async def test_saves_and_loads_are_planned_as_without_the_wall(
    app: Database, postgres: Postgres, walled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One long thread among tenants with a short one each: the policy is no way to find rows."""
    db = app.for_tenant("long")
    checkpointer, store = Checkpointer(db), Store(db)
    for n in range(300):
        await checkpointer.save({"n": n}, "t")
    await store.put(("n",), "k", 1)
    others = [Checkpointer(app.for_tenant(f"short-{n}")) for n in range(600)]
    await asyncio.gather(*(one.save({"n": 0}, "t") for one in others))
    for table in TABLES:
        postgres.execute(f"VACUUM ANALYZE {table}", walled)
    # On a slow machine the keys of the tenant would be read again here, at the same costs.
    monkeypatch.setattr(known_keys, "KNOWN_SECONDS", 3600.0)
    sent = note_what_is_sent(monkeypatch)
    await checkpointer.save({"n": 300}, "t")
    assert await checkpointer.load("t") == {"n": 300}
    assert await store.get(("n",), "k") is not None
    await store.put(("n",), "k", 2)

    plans: dict[str, list[list[str]]] = {}
    for user in (APP, postgres.user):
        raw = await asyncpg.connect(postgres.url(walled, user=user))
        await raw.execute("SET plan_cache_mode = force_generic_plan")
        for sql, values in sent:
            async with raw.transaction():
                await raw.execute("SELECT set_config('memalchemy.tenant', 'long', true)")
                plans.setdefault(user, []).append(await nodes_of_plan(raw, sql, values))
        await raw.close()
    assert len(sent) >= 4
    assert plans[APP] == plans[postgres.user]


def note_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    sent: list[tuple[str, Any]] = []
    send = AsyncpgConnection._send

    async def note(self: Any, compiled: Any, values: Any) -> Any:
        sent.append((compiled.sql, values))
        return await send(self, compiled, values)

    monkeypatch.setattr(AsyncpgConnection, "_send", note)
    return sent


async def nodes_of_plan(raw: Any, sql: str, values: Any) -> list[str]:
    """Return the nodes, with their tables and indexes, of the plan for all values of *sql*.

    The policy computes the tenant in nodes of its own. It needs the rows of what a statement reads,
    so that an index alone does not do: that is no other way to find them.
    """
    await raw.execute(f"PREPARE planned AS {sql}")
    any_values = ", ".join("NULL" for _ in values)
    rows = await raw.fetch(f"EXPLAIN (COSTS OFF) EXECUTE planned({any_values})")
    await raw.execute("DEALLOCATE planned")
    found = [line.strip() for at, (line,) in enumerate(rows) if at == 0 or "->" in line]
    return [node.replace("Index Only Scan", "Index Scan") for node in found if node != "->  Result"]


async def test_vector_searches_keep_their_index(
    postgres: Postgres, walled: str, app: Database
) -> None:
    from memalchemy.search.indexes import build_index

    db = app.for_tenant("vectors")
    store = Store(db, embedder=Embedder())
    for n in range(5):
        await store.put(("n",), f"k{n}", f"a kettle {n}")
    async with Database(postgres.url(walled)) as owner:
        dimensions = await owner.run_sync(
            lambda c: c.scalar(text("SELECT dimensions FROM embeddings LIMIT 1"))
        )
        index = await build_index(owner, dimensions=dimensions, metric="cosine")
    vector = [1.0] * dimensions

    def explain(connection: Any) -> str:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        connection.exec_driver_sql("SET LOCAL enable_sort = off")
        connection.exec_driver_sql("SET LOCAL enable_bitmapscan = off")
        half = f"halfvec({dimensions})"
        rows = connection.exec_driver_sql(
            f"EXPLAIN SELECT key FROM embeddings WHERE dimensions = {dimensions} "
            f"ORDER BY vector::{half} <=> '{vector}'::{half} LIMIT 3"
        )
        return "\n".join(rows.scalars())

    assert f"Index Scan using {index.name}" in await db.run_sync(explain)
    assert len(await store.search(("n",), "kettle", mode="vector")) == 5


# --- An adversary --------------------------------------------------------------------------------

SECRET = "xyzzy"
"""A word of every row of the victim's, and of nothing that the adversary asks for."""
ATTACKS = examples(200)
WAYS = ("asyncpg", "psycopg", "asyncpg through PgBouncer", "psycopg through PgBouncer")

NAMED = ["secret", "plugh", "*", "%", "", "~", "secret' OR true --", "VICTIM/secret"]
PLACES = [("n",), (), ("VICTIM",), ("..", "VICTIM", "n"), ("~memalchemy",), ("%",), ("n/", "*")]
ASKED: dict[str, list[Any]] = {
    "namespace": PLACES,
    "namespaces": [PLACES],
    "thread_ids": [["secret", "VICTIM/secret"]],
    "checkpoint_ids": [["stolen", "secret"]],
    "keys": [[(("n",), "secret"), (("VICTIM",), "secret")], ["secret"]],
    "filter": [
        {"tenant": "VICTIM"},
        {"word": {"$ne": 1}},
        {"$or": [{"tenant": "VICTIM"}, {"tenant": {"$gte": ""}}]},
        {"word') OR true --": 1},
    ],
    "metadata": [{"tenant": "VICTIM"}, {"word": "plugh"}],
    "path": ["word", "tenant", "$", "word') OR true --"],
    "limit": [1000],
    "top_k": [1000],
    "k": [1000],
    "prefix": [True],
    "below": [True],
    "all_namespaces": [True],
    "mode": ["text"],
    "older_than": [0],
    "keep_last": [1],
    "after": [None, 0],
    "position": [1, 2],
    "positions": [[1, 2]],
    "embedding": [[1.0] * 8],
    "query_embedding": [[1.0] * 8],
    "state": [{"n": 1}],
    "entries": [[1]],
    "messages": [[{"role": "user", "content": "plugh"}]],
    "items": [[(("VICTIM",), "secret", 1)]],
    "writes": [[("channel", 1)]],
    "episode": [Episode(task="plugh", result="done")],
    "fact": [MemoryFact("secret", "VICTIM", "plugh")],
}
"""What the adversary gives for a parameter of that name; for others it is one of `NAMED`."""

SQL = (
    "SELECT * FROM {t}",
    "SELECT * FROM {t} WHERE tenant = :victim OR true",
    "SELECT * FROM {t} WHERE tenant = :victim FOR UPDATE",
    "SELECT a.* FROM {t} AS a JOIN threads AS b ON a.tenant <> b.tenant OR b.tenant = :victim",
    "SELECT (SELECT max(other.tenant) FROM {t} AS other WHERE other.tenant = :victim)",
    "WITH RECURSIVE r AS (SELECT tenant FROM {t} UNION SELECT tenant FROM r) SELECT * FROM r",
    "SELECT unnest(xpath('//tenant/text()', "
    "query_to_xml('SELECT tenant FROM {t}', true, false, '')))::text",
    "CREATE TEMP VIEW all_rows AS SELECT * FROM {t}; SELECT * FROM all_rows",
    "SET LOCAL row_security = off; SELECT * FROM {t}",
    f"SET LOCAL ROLE {ADMIN}; SELECT * FROM {{t}}",
    # What would be quoted by an error, or told to a function that is asked before the policy.
    "SELECT CAST(tenant AS integer) FROM {t} WHERE tenant = :victim",
    "SELECT CAST(encode(payload, 'escape') AS integer) FROM deltas WHERE tenant = :victim",
    "SELECT * FROM {t} WHERE pg_temp.tells({t}::text)",
    "SELECT * FROM {t} WHERE tenant OPERATOR(pg_temp.<<<) 'x'",
    # What would change rows, or take the wall down.
    "DELETE FROM {t} WHERE tenant = :victim RETURNING *",
    "UPDATE {t} SET tenant = tenant WHERE tenant = :victim RETURNING *",
    "UPDATE {t} SET tenant = :victim",
    "INSERT INTO {t} SELECT (jsonb_populate_record({t}, jsonb_build_object('tenant', "
    "CAST(:victim AS text)))).* FROM {t}",
    "INSERT INTO store_items SELECT (jsonb_populate_record(store_items, jsonb_build_object("
    "'tenant', CAST(:victim AS text), 'key', 'secret'))).* FROM store_items "
    "ON CONFLICT (tenant, namespace, key) DO UPDATE SET value = excluded.value",
    "MERGE INTO {t} AS old USING (SELECT 1) AS new ON old.tenant = :victim "
    "WHEN MATCHED THEN DELETE",
    "ALTER TABLE {t} DISABLE ROW LEVEL SECURITY",
    "DROP POLICY memalchemy_tenant ON {t}",
    "DROP FUNCTION memalchemy_no_tenant() CASCADE",
    "TRUNCATE {t} CASCADE",
    "COPY {t} TO '/tmp/stolen'",
)
"""Statements, of which ``{t}`` is any of the tables."""

TELLING = (
    "CREATE FUNCTION pg_temp.tells(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 0.0001 "
    f"AS $$ BEGIN IF strpos($1, '{SECRET}') > 0 THEN RAISE EXCEPTION 'seen: %', $1; END IF; "
    "RETURN true; END $$",
    "CREATE FUNCTION pg_temp.less(varchar, text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE "
    "COST 0.0001 AS $$ BEGIN IF strpos($1, 'victim') > 0 THEN RAISE EXCEPTION 'seen: %', $1; "
    "END IF; RETURN true; END $$",
    "CREATE OPERATOR pg_temp.<<< (FUNCTION = pg_temp.less, LEFTARG = varchar, RIGHTARG = text, "
    "RESTRICT = scalarltsel)",
)
"""A function that tells what it is given, so cheap that it would be asked first, and an operator
whose selectivity the planner would estimate by asking it about the statistics.
"""


@pytest.fixture(params=WAYS)
async def way(
    postgres: Postgres, walled: str, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Database, AsyncEngine]]:
    """An adversary's handle, and an engine of its own, on one driver, perhaps behind PgBouncer."""
    driver, _, between = request.param.partition(" through ")
    if between:
        front: Postgres = request.getfixturevalue("walled_bouncer")
        url = front.url(walled, driver=driver)
        unprepared: dict[str, Any] = (
            {"prepare_threshold": None}
            if driver == "psycopg"
            else {"statement_cache_size": 0, "prepared_statement_name_func": _any_name}
        )
        cache = "?prepared_statement_cache_size=0" if driver == "asyncpg" else ""
        engine = create_async_engine(url + cache, connect_args=unprepared, poolclass=NullPool)
    else:
        url = postgres.url(walled, driver=driver, user=APP)
        engine = create_async_engine(url, pool_size=2)
    mine = named(request, "adversary")
    options: dict[str, Any] = {"pgbouncer": True} if between else {"pool_size": 2}
    async with Database(url, tenant=mine, **options) as db:
        yield db, engine
    await engine.dispose()


def _any_name() -> str:
    return f"prepared_{uuid.uuid4().hex}"


async def test_an_adversary_reaches_nothing_of_others(
    postgres: Postgres,
    walled: str,
    admin: Database,
    way: tuple[Database, AsyncEngine],
    request: pytest.FixtureRequest,
) -> None:
    db, engine = way
    at, theirs = random.Random(request.node.name), named(request, "victim")
    await keep_secrets(db.for_tenant(theirs))
    await Store(db).put(("n",), "own", "mine", embedding=[1.0] * 8)
    for table in TABLES:
        postgres.execute(f"ANALYZE {table}", walled)
    before = await everything_of(admin, theirs)
    answered, shown = 0, 0
    for _ in range(ATTACKS):
        found = await answer_or_error(call_as_adversary(db, theirs, at))
        assert SECRET not in repr(found), found
        answered += not isinstance(found, Exception)
        async with AsyncSession(engine) as session:
            if at.random() < 0.8:  # otherwise the transaction has no tenant
                await Store(db).put(("n",), "own", "mine", connection=session)
            if at.random() < 0.3:
                call = call_as_adversary(db, theirs, at, connection=session)
                found = await answer_or_error(call)
                assert SECRET not in repr(found), found
            rows = await answer_or_error(query_as_adversary(session, theirs, at))
            if isinstance(rows, Exception):
                assert theirs not in repr(rows), rows
                assert SECRET not in repr(rows), rows
                continue
            for row in rows:
                assert theirs not in row, row
                assert SECRET not in repr(row), row
            shown += len(rows)
            await session.commit()
    with pytest.raises(AuthenticationFailed, match="lacks a right"):
        await write_as(db, theirs)
    assert await everything_of(admin, theirs) == before
    assert answered > ATTACKS / 4
    assert shown > ATTACKS / 50


async def answer_or_error(call: Awaitable[Any]) -> Any:
    """Return what *call* returns, or its error; SQLAlchemy's without what was sent."""
    try:
        return await call
    except DBAPIError as error:
        return error.orig
    except (MemalchemyError, ValueError, TypeError, LookupError, AttributeError) as error:
        return error


async def test_statistics_show_no_tenant(
    postgres: Postgres, walled: str, way: tuple[Database, AsyncEngine]
) -> None:
    for table in TABLES:
        postgres.execute(f"ANALYZE {table}", walled)
    ask = text("SELECT tablename, most_common_vals::text FROM pg_stats WHERE attname = 'tenant'")
    async with way[1].connect() as connection:
        assert (await connection.execute(ask)).all() == []


async def keep_secrets(victim: Database) -> None:
    """Store rows in all tables, of which each has `SECRET` in it."""
    metadata = {"word": "plugh", "secret": SECRET, "tenant": victim.tenant}
    checkpointer, store = Checkpointer(victim), Store(victim)
    for thread in ("secret", SECRET):
        await checkpointer.save({"word": f"plugh {SECRET}"}, thread, "stolen", metadata=metadata)
        await checkpointer.put_writes([("channel", SECRET)], thread, "stolen", "task")
        await ThreadLog(victim).append(thread, [f"plugh {SECRET}"])
        await Conversation(victim, thread).add("plugh", SECRET)
    for key in ("secret", SECRET):
        await store.put(("n",), key, f"plugh {SECRET}", metadata, embedding=[1.0] * 8)
    await KeyValue(victim).write("secret", SECRET)
    await UserMemoryStore(victim).add(MemoryFact("secret", "ada", f"plugh {SECRET}"))
    await EpisodeStore(victim).write(Episode(task="plugh", result=SECRET))
    await VectorStore(victim).upsert(f"plugh {SECRET}", id="secret", embedding=[1.0] * 8)


async def call_as_adversary(db: Database, theirs: str, at: random.Random, **more: Any) -> Any:
    """Call a public method of a handle with ids, namespaces and filters of somebody else's."""
    subject = CLASSES[at.choice([*CLASSES])](db)
    method = getattr(subject, at.choice(methods_of(subject)))
    given, by_name = arguments(method, at, partial(forged, theirs=theirs))
    if "connection" in inspect.signature(method).parameters:
        by_name |= more
    async with asyncio.timeout(60):
        return await outcome(partial(method, *given, **by_name))


def forged(name: str, at: random.Random, *, theirs: str) -> Any:
    """Return an argument of that name that is the victim's, or may reach what is."""

    def with_name(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("VICTIM", theirs)
        if isinstance(value, (list, tuple)):
            return type(value)(map(with_name, value))
        if isinstance(value, dict):
            return {key: with_name(one) for key, one in value.items()}
        return value

    return with_name(at.choice(ASKED.get(name, NAMED)))


async def query_as_adversary(
    session: AsyncSession, theirs: str, at: random.Random
) -> list[tuple[Any, ...]]:
    """Send an ORM query or SQL that names the other tenant, or none; return the rows it shows."""
    row: Any = at.choice([ThreadRow, CheckpointRow, DeltaRow, StoreItemRow, EmbeddingRow])
    match at.randrange(8):
        case 0:
            ones = await session.scalars(select(row))
            return [tuple(vars(one).values()) for one in ones]
        case 1:
            return [*(await session.execute(select(row.__table__).where(row.tenant == theirs)))]
        case 2:
            gone: Any = await session.execute(delete(row).where(row.tenant == theirs))
            return [(theirs,)] * gone.rowcount
        case 3:
            change = update(row).where(row.tenant == theirs).values(tenant=row.tenant)
            changed: Any = await session.execute(change)
            return [(theirs,)] * changed.rowcount
    sql, rows = at.choice(SQL).replace("{t}", row.__tablename__), []
    for one in [*(TELLING if "pg_temp" in sql else ()), *sql.split("; ")]:
        binds = {"victim": theirs} if ":victim" in one else {}
        result: Any = await session.execute(text(one), binds)
        rows = [tuple(found) for found in result] if result.returns_rows else []
    if "pg_temp" in sql or "VIEW" in sql:
        await session.rollback()
    return rows


async def everything_of(admin: Database, tenant: str) -> list[list[Any]]:
    def read(connection: Any) -> list[list[Any]]:
        return [
            sorted(map(repr, connection.execute(select(t).where(t.c.tenant == tenant)).all()))
            for t in Base.metadata.sorted_tables
        ]

    found = await admin.run_sync(read)
    assert any(found)
    return found


async def write_as(db: Database, theirs: str) -> None:
    """Write a row of another tenant under this tenant's setting, as forged binds would."""
    from memalchemy.database.intent import WRITE_ROWS
    from memalchemy.protection.key_registry import register_key

    await db.run(lambda: register_key(db.dialect, theirs, "forged"), WRITE_ROWS)


async def test_other_databases_have_no_wall(tmp_path: Any) -> None:
    async with Database(f"sqlite:///{tmp_path}/agent.db") as db:
        for call in (tenants.enforce, tenants.release, tenants.status):
            with pytest.raises(CapabilityMissing, match="no row-level security"):
                await call(db)
        assert not (await db.tenant_wall()).is_active
