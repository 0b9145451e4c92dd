"""`memalchemy tenants enforce`: PostgreSQL walls the tenants, on every road to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest
from shelf import Embedder
from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memalchemy import (
    AuthenticationFailed,
    CapabilityMissing,
    Checkpointer,
    Conversation,
    Database,
    MemalchemyError,
    Store,
    ThreadLog,
)
from memalchemy.database.executors.asyncpg import AsyncpgConnection
from memalchemy.events import StatementEvent, subscribe_statements
from memalchemy.maintenance import tenants
from memalchemy.migrate import TABLES, VERSION_TABLE
from memalchemy.schema import Base, CheckpointRow, DeltaRow, StoreItemRow, ThreadRow
from servers import Postgres, give_rights, migrated_database, pgbouncer, pgbouncer_program

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
    postgres: Postgres, walled: str
) -> None:
    engine = create_async_engine(postgres.url(walled, driver="asyncpg", user=APP))
    try:
        for table in Base.metadata.sorted_tables:
            async with engine.connect() as connection:
                if table.name == "embeddings":
                    continue  # its rows may be none, and then nothing is asked
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


async def test_text_searches_keep_their_indexes(
    app: Database, postgres: Postgres, walled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below a policy only leakproof conditions are answered by an index; see EXPLAIN."""
    db = app.for_tenant("explained")
    checkpointer, store = Checkpointer(db), Store(db)

    async def fill(worker: int) -> None:
        for n in range(worker, 1500, 30):
            user = {"user": f"u{n % 300}"}
            await checkpointer.save({"w": f"word{n}"}, f"t{n % 50}", metadata=user)
            await store.put(("n",), f"k{n}", f"word{n}", metadata=user)

    await asyncio.gather(*map(fill, range(30)))
    for table in TABLES:
        postgres.execute(f"VACUUM ANALYZE {table}", walled)
    sent = note_what_is_sent(monkeypatch)
    searches: dict[str, list[Any]] = {
        "ix_deltas_search_text": [
            lambda: checkpointer.search("word17"),
            lambda: checkpointer.search("word17 word23"),
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
                    plans.append(await raw.fetch(f"EXPLAIN {sql}", *values))
            last = "\n".join(row[0] for row in plans[-1])
            assert f"Bitmap Index Scan on {index}" in last, last
            assert "COALESCE(((tenant)::text = NULLIF(current_setting(" in last, last  # the policy
    await raw.close()


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

    The policy needs the rows of what a statement reads, so that an index alone does not do: that is
    no other way to find them.
    """
    await raw.execute(f"PREPARE planned AS {sql}")
    any_values = ", ".join("NULL" for _ in values)
    rows = await raw.fetch(f"EXPLAIN (COSTS OFF) EXECUTE planned({any_values})")
    await raw.execute("DEALLOCATE planned")
    found = [line.strip() for at, (line,) in enumerate(rows) if at == 0 or "->" in line]
    return [node.replace("Index Only Scan", "Index Scan") for node in found]


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


async def forge_handles(db: Database, theirs: str, at: random.Random) -> Any:
    """Methods of the public API with ids, namespaces and filters of somebody else's."""
    ids = ["secret", "*", "%", theirs, f"{theirs}/secret", "", "~", "secret' OR true --"]
    thread = at.choice(ids)
    namespace = at.choice([(), ("n",), (theirs,), ("..", theirs, "n"), ("~memalchemy",)])
    store, checkpointer = Store(db), Checkpointer(db, namespace=at.choice([(), (theirs,)]))
    log = ThreadLog(db)
    match at.randrange(11):
        case 0:
            return await checkpointer.load(thread)
        case 1:
            return await checkpointer.list_threads(pattern=thread or "*")
        case 2:
            return await checkpointer.search(SECRET)
        case 3:
            return await store.search(namespace, SECRET, prefix=True)
        case 4:
            return await store.get(namespace, at.choice(["k", thread or "k"]))
        case 5:
            return await store.search(namespace, filter={"tenant": theirs}, prefix=True)
        case 6:
            return [one async for one in checkpointer.history(thread)]
        case 7:
            return await checkpointer.query_by_metadata("secret", SECRET)
        case 8:
            return await log.tail(thread, 10)
        case 9:
            return await checkpointer.fork(thread, new_thread_id="stolen")
        case _:
            return await checkpointer.delete(thread)


async def query_as_orm(session: Any, theirs: str, at: random.Random) -> Any:
    """Raw ORM queries and SQL that name the other tenant, or none."""
    row: Any = at.choice([ThreadRow, CheckpointRow, DeltaRow, StoreItemRow])
    match at.randrange(8):
        case 0:
            return [one.tenant for one in await session.scalars(select(row))]
        case 1:
            return (await session.scalars(select(row.tenant).where(row.tenant == theirs))).all()
        case 2:
            return (await session.execute(delete(row).where(row.tenant == theirs))).rowcount
        case 3:
            change = update(row).where(row.tenant == theirs).values(tenant=row.tenant)
            return (await session.execute(change)).rowcount
        case 4:
            sql = f"SELECT tenant FROM {row.__tablename__} WHERE tenant = '{theirs}' OR true"
            return (await session.scalars(text(sql))).all()
        case 5:  # an error that would quote what it met
            sql = "SELECT CAST(encode(payload, 'escape') AS integer) FROM deltas WHERE tenant = :t"
            return (await session.scalars(text(sql), {"t": theirs})).all()
        case 6:
            sql = (
                f"SELECT count(*) FROM {row.__tablename__} AS a JOIN threads AS b "
                "ON a.tenant <> b.tenant OR b.tenant = :t WHERE b.tenant = :t"
            )
            return await session.scalar(text(sql), {"t": theirs})
        case _:
            values = {"tenant": theirs, "namespace": "/n/", "key": f"forged {at.random()}"}
            sample = (await session.scalars(select(StoreItemRow))).first()
            if sample is None:
                return None
            given = {c.key: getattr(sample, c.key) for c in StoreItemRow.__mapper__.column_attrs}
            await session.execute(insert(StoreItemRow).values(given | values))
            return "forged"


def mentions(found: Any, *, theirs: str) -> bool:
    shown = repr(found)
    return SECRET in shown or theirs in shown or found == "forged"


@pytest.mark.parametrize("seed", range(4))
async def test_an_adversary_reaches_nothing_of_others(
    postgres: Postgres, walled: str, admin: Database, seed: int
) -> None:
    at = random.Random(seed)
    mine, theirs = f"adversary-{seed}", f"victim-{seed}"
    engine = create_async_engine(postgres.url(walled, driver="asyncpg", user=APP))
    db = Database(postgres.url(walled, user=APP), tenant=mine, pool_size=1)
    async with db:
        victim = db.for_tenant(theirs)
        await Checkpointer(victim).save(
            {"word": SECRET}, "secret", metadata={"secret": SECRET, "tenant": theirs}
        )
        await Store(victim).put(("n",), "k", SECRET, metadata={"tenant": theirs})
        await Store(db).put(("n",), "own", "mine")
        before = await everything_of(admin, theirs)
        for _ in range(150):
            try:
                found = await forge_handles(db, theirs, at)
            except (MemalchemyError, ValueError):
                continue
            assert not mentions(found, theirs=theirs), found
        for _ in range(150):
            async with AsyncSession(engine) as session:
                await Store(db).get(("n",), "own", connection=session)
                try:
                    found = await query_as_orm(session, theirs, at)
                    await session.commit()
                except DBAPIError as error:
                    await session.rollback()
                    found = str(error.orig).replace(theirs, "")  # forged values are quoted
                assert found in (0, None, [], ()) or not mentions(found, theirs=theirs), found
                assert not isinstance(found, int) or found == 0
        with pytest.raises(AuthenticationFailed, match="lacks a right"):
            await write_as(db, theirs)
        assert await everything_of(admin, theirs) == before
    await engine.dispose()


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
    from memalchemy.database.key_registry import register_key

    await db.run(lambda: register_key(db.dialect, theirs, "forged"), WRITE_ROWS)


async def test_other_databases_have_no_wall(tmp_path: Any) -> None:
    async with Database(f"sqlite:///{tmp_path}/agent.db") as db:
        for call in (tenants.enforce, tenants.release, tenants.status):
            with pytest.raises(CapabilityMissing, match="no row-level security"):
                await call(db)
        assert not (await db.tenant_wall()).is_active
