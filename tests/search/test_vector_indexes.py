"""PostgreSQL's vector indexes: used when they should be, refilled when short, built and dropped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import psycopg
import pytest

from golden import dialect, text_of
from memalchemy import Database, migrate
from memalchemy.contracts import Progress
from memalchemy.dialects import DIALECTS
from memalchemy.dialects.postgresql import vectors as postgresql_vectors
from memalchemy.errors import (
    AuthenticationFailed,
    CapabilityMissing,
    Conflict,
    NotFound,
)
from memalchemy.events import Event
from memalchemy.search import indexes
from memalchemy.search import vectors as vector_search
from memalchemy.search._vector_statements import (
    rank_all,
    rank_by_index,
    rank_few,
    rank_listed,
)
from memalchemy.search.indexes import build_index, drop_index, list_indexes
from memalchemy.search.vectors import METRICS, nearest
from search.vectors_in import NOW, by_hand, places, put, wanted
from servers import Postgres

RANDOM = np.random.default_rng(11)
DIMENSIONS = 24
HERE = ("notes",)
SIZES = {HERE: 2400, ("few",): 40, ("other",): 560}


@pytest.fixture(scope="module")
def filled(postgres: Postgres) -> Iterator[tuple[str, dict[Any, Any]]]:
    """A database with vectors in three namespaces, to make others from, and those vectors."""
    made = {
        (namespace, f"k{n}"): RANDOM.standard_normal(DIMENSIONS)
        for namespace, count in SIZES.items()
        for n in range(count)
    }
    name = postgres.create_database()

    async def fill() -> None:
        async with Database(postgres.url(name), migrate="off") as db:
            await db.migrate()
            await put(db, made)

    asyncio.run(fill())
    yield name, made
    postgres.drop_database(name)


@pytest.fixture
def name(postgres: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    has_vectors = "vectors" in request.fixturenames
    template, _ = request.getfixturevalue("filled") if has_vectors else (None, {})
    made = postgres.create_database(template=template)
    yield made
    postgres.drop_database(made)


@pytest.fixture
async def db(postgres: Postgres, name: str) -> AsyncIterator[Database]:
    async with Database(postgres.url(name), migrate="off") as made:
        await made.migrate()
        yield made


@pytest.fixture
def vectors(filled: tuple[str, dict[Any, Any]], monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """Vectors in three namespaces of the database, in a library that thinks of 20 as many."""
    monkeypatch.setattr(vector_search, "MANY", 20)
    monkeypatch.setattr(vector_search, "LARGE", 1000)
    return dict(filled[1])


def of(vectors: dict[Any, Any], namespace: tuple[str, ...]) -> dict[Any, Any]:
    return {place: vector for place, vector in vectors.items() if place[0] == namespace}


@pytest.mark.parametrize("metric", METRICS)
async def test_an_index_finds_nearly_all_of_the_nearest(
    db: Database, vectors: dict[Any, Any], metric: Any
) -> None:
    made = await build_index(db, dimensions=DIMENSIONS, metric=metric)
    assert (made.state, made.dimensions, made.metric) == ("ready", DIMENSIONS, metric)
    assert made.bytes > 0
    hits = 0
    for _ in range(20):
        query = RANDOM.standard_normal(DIMENSIONS)
        ranking = nearest(db, wanted(db, HERE, query, metric=metric), NOW)
        found = await ranking.page(10)
        assert ranking.plan.strategy == "hnsw"
        assert ranking.plan.details["index"] == made.name
        assert len(found) == 10
        assert [n.distance for n in found] == sorted(n.distance for n in found)
        best = by_hand(of(vectors, HERE), query, metric)[:10]
        hits += len(set(best) & set(places(found)))
    assert hits >= 198


@pytest.mark.parametrize("below", [False, True])
async def test_pages_of_an_index_never_repeat_an_item_and_end_with_the_last(
    db: Database, vectors: dict[Any, Any], below: bool
) -> None:
    await build_index(db, dimensions=DIMENSIONS)
    query = RANDOM.standard_normal(DIMENSIONS)
    ranking = nearest(db, wanted(db, () if below else HERE, query, below=below), NOW)
    found = []
    while not ranking.exhausted:
        found += await ranking.page(300)
    assert len(found) == len(set(places(found)))
    expected = vectors if below else of(vectors, HERE)
    assert sorted(places(found)) == sorted(by_hand(expected, query))


async def test_pages_of_an_index_do_not_depend_on_their_size(
    db: Database, vectors: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_search, "WINDOWS", ((4, 9), (20, 30), (90, 120)))
    made = of(vectors, HERE)
    query = RANDOM.standard_normal(DIMENSIONS)
    nearest_keys = [key for _, key in by_hand(made, query)[:40:3]]
    # Some of the nearest have expired, and others are near with several of their vectors.
    await put(db, {(HERE, key): made.pop((HERE, key)) for key in nearest_keys}, expires_at=NOW)
    parts = {
        (HERE, f"parts {n}"): {
            ("", part): query + 0.3 * RANDOM.standard_normal(DIMENSIONS) for part in range(4)
        }
        for n in range(8)
    }
    await put(db, parts)
    await build_index(db, dimensions=DIMENSIONS)

    async def pages(size: int) -> list[tuple[str, str]]:
        ranking = nearest(db, wanted(db, HERE, query), NOW)
        return [one for _ in range(0, 192, size) for one in places(await ranking.page(size))][:192]

    whole = await pages(192)
    assert len(set(whole)) == 192
    for size in (1, 3, 10, 64):
        assert await pages(size) == whole
    for number in (1, 3, 4, 5, 19, 20, 21, 60, 90, 91, 150):
        assert (
            places(await nearest(db, wanted(db, HERE, query), NOW).page(number)) == whole[:number]
        )
    assert len(set(whole) & set(by_hand(made | parts, query)[:192])) > 185


async def test_items_are_looked_up_by_their_keys_whatever_the_planner_expects_of_a_tenant(
    db: Database, postgres: Postgres, name: str
) -> None:
    await put(db, {(HERE, f"k{n}"): RANDOM.standard_normal(DIMENSIONS) for n in range(500)})
    postgres.execute("ANALYZE", name)  # which knows one tenant
    there = db.for_tenant("newcomer")
    await put(there, {(HERE, f"k{n}"): RANDOM.standard_normal(DIMENSIONS) for n in range(500)})
    keys = [["/notes/", f"k{n}"] for n in range(400)]
    values = {
        "k_tenant": "'newcomer'",
        "k_namespace": "'/notes/'",
        "p_model": "'m'",
        "p_dimensions": str(DIMENSIONS),
        "p_vector": f"'[{','.join(['1'] * DIMENSIONS)}]'",
        "p_now": "'2026-05-01'",
        "p_limit": "1000",
        "p_longest": "8192",
        "p_keys": f"'{json.dumps(keys)}'",
    }
    given = {"metric": "cosine", "below": False, "signed": False}
    with psycopg.connect(postgres.url(name), autocommit=True) as connection:
        for statement in (
            rank_all(db.dialect, among=False, **given),
            rank_few(db.dialect, **given),
            rank_listed(db.dialect, **given),
        ):
            compiled = statement.compile(dialect=dialect("postgresql"))
            connection.execute(f"PREPARE ranking AS {text_of(statement, 'postgresql')}")
            arguments = ", ".join(values[bind] for bind in compiled.positiontup)
            rows = connection.execute(f"EXPLAIN ANALYZE EXECUTE ranking({arguments})")
            plan = "\n".join(row[0] for row in rows)
            assert "Index Scan using pk_store_items" in plan
            assert "Join Filter" not in plan, plan  # each row would be compared with each
            connection.execute("DEALLOCATE ranking")


async def test_what_the_index_cannot_find_is_found_by_comparing_all(
    db: Database,
    vectors: dict[Any, Any],
    postgres: Postgres,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vector_search, "WIDTH_IF_SMALL", 2)
    await build_index(db, dimensions=DIMENSIONS)
    # It gives up long before it has met the few of a small namespace.
    postgres.execute(f"ALTER DATABASE {name} SET hnsw.max_scan_tuples = 1", name)
    await db.close()
    query = RANDOM.standard_normal(DIMENSIONS)
    ranking = nearest(db, wanted(db, ("few",), query), NOW)
    found = await ranking.page(30)
    assert places(found) == by_hand(of(vectors, ("few",)), query)[:30]
    assert "fewer than are wanted" in ranking.plan.reason


async def test_of_few_vectors_all_are_compared(
    db: Database, vectors: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await build_index(db, dimensions=DIMENSIONS)
    monkeypatch.setattr(vector_search, "MANY", 100)
    query = RANDOM.standard_normal(DIMENSIONS)
    ranking = nearest(db, wanted(db, ("few",), query), NOW)
    assert places(await ranking.page(40)) == by_hand(of(vectors, ("few",)), query)
    assert ranking.plan.strategy == "exact vectors"
    assert ranking.plan.details == {"vectors": 40}


async def test_a_callers_transaction_keeps_its_settings(
    db: Database, vectors: dict[Any, Any]
) -> None:
    await build_index(db, dimensions=DIMENSIONS)
    asked = "SELECT current_setting('enable_sort') || current_setting('enable_seqscan')"
    async with db.transaction() as tx:
        await tx.exec_driver_sql("SET LOCAL enable_seqscan = off")
        query = RANDOM.standard_normal(DIMENSIONS)
        ranking = nearest(db, wanted(db, HERE, query), NOW, connection=tx)
        assert len(await ranking.page(10)) == 10
        assert ranking.plan.strategy == "hnsw"
        assert (await tx.exec_driver_sql(asked)).scalar() == "onoff"


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("below", [False, True])
async def test_few_that_are_searched_again_are_counted_once_and_found_as_before(
    db: Database, metric: Any, below: bool
) -> None:
    spaces = [HERE, (*HERE, "a")] if below else [HERE]
    made: dict[Any, Any] = {
        (space, f"k{n}"): {("/text", part): RANDOM.standard_normal(8) for part in range(3)}
        for space in spaces
        for n in range(30)
    }
    query = RANDOM.standard_normal(8)
    await put(db, made)
    await put(db, {(("other",), "near"): query, (("notes1",), "near"): query})
    await put(db, {(HERE, "another model"): query}, model="m2")
    await put(db, {(HERE, "another size"): query[:6]})
    await put(db, {(HERE, f"gone {n}"): query for n in range(9)}, expires_at=NOW)
    await put(db.for_tenant("another"), {(HERE, "near"): query})
    trips = []
    for _ in range(4):
        event = Event("store.search")
        asked = wanted(db, HERE, query, metric=metric, below=below)
        ranking = nearest(db, asked, NOW, event=event)
        found = places(await ranking.page(1)) + places(await ranking.page(100))
        assert found == by_hand(made, query, metric)
        assert ranking.plan.strategy == "exact vectors"
        trips.append(event.round_trips)
    first, *_ = trips
    assert trips[2:] == [trips[1] - 1] * 2  # without the count, and what those before took
    assert first > trips[1]  # it has looked for indexes


@pytest.mark.parametrize("how", ["by the index", "each compared", "few, each compared"])
async def test_the_plan_is_the_one_that_was_chosen_in_fifty_executions(
    db: Database, vectors: dict[Any, Any], postgres: Postgres, name: str, how: str
) -> None:
    made = await build_index(db, dimensions=DIMENSIONS)
    postgres.execute("ANALYZE", name)
    given = {"metric": "cosine", "below": False}
    if how == "by the index":
        statement = rank_by_index(db.dialect, dimensions=DIMENSIONS, signed=False, **given)
    elif how == "each compared":
        statement = rank_all(db.dialect, among=False, signed=False, **given)
    else:
        statement = rank_few(db.dialect, signed=False, **given)
    compiled = statement.compile(dialect=dialect("postgresql"))
    query = "[" + ",".join(map(str, RANDOM.standard_normal(DIMENSIONS))) + "]"
    with psycopg.connect(postgres.url(name), autocommit=True) as connection:
        connection.execute(f"PREPARE ranking AS {text_of(statement, 'postgresql')}")
        for turn in range(50):
            binds = {
                "k_tenant": "'default'",
                "k_namespace": "'/few/'" if turn % 3 else "'/notes/'",
                "p_model": "'m'",
                "p_dimensions": str(DIMENSIONS),
                "p_vector": f"'{query}'",
                "p_now": "'2026-05-01'",
                "p_limit": "20",
                "p_longest": "8192",
            }
            arguments = ", ".join(binds[bind] for bind in compiled.positiontup)
            with connection.transaction():
                if how == "by the index":
                    settings = db.dialect.vectors.index_settings(200)
                    for bind, setting in postgresql_vectors._SETTINGS.items():
                        connection.execute(
                            "SELECT set_config(%s, %s, true)", [setting, settings[bind]]
                        )
                plan = "\n".join(
                    row[0] for row in connection.execute(f"EXPLAIN EXECUTE ranking({arguments})")
                )
            assert (f"Index Scan using {made.name}" in plan) == (how == "by the index"), plan
            if how == "few, each compared":
                assert "Index Scan using ix_embeddings_tenant_namespace_model_dim" in plan, plan
        (counts,) = connection.execute(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE name = 'ranking'"
        )
    assert sum(counts) == 50
    if how == "few, each compared":
        assert counts == (45, 5)  # made once, where five were made for the values to compare with


async def test_building_tells_how_far_it_is_and_another_may_write(
    db: Database, vectors: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "PROGRESS_SECONDS", 0.001)
    told: list[Progress] = []
    building = asyncio.ensure_future(build_index(db, dimensions=DIMENSIONS, progress=told.append))
    await put(db, {(HERE, "meanwhile"): RANDOM.standard_normal(DIMENSIONS)})
    made = await building
    assert told
    assert all(0 <= one.done <= one.total for one in told)
    assert await list_indexes(db) == [made]
    assert (await build_index(db, dimensions=DIMENSIONS)).name == made.name  # there already


async def test_what_an_interrupted_build_has_left_is_seen_not_used_and_replaced(
    db: Database, vectors: dict[Any, Any], postgres: Postgres, name: str
) -> None:
    made = await build_index(db, dimensions=DIMENSIONS)
    postgres.execute(
        f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{made.name}'::regclass", name
    )
    assert [one.state for one in await list_indexes(db)] == ["invalid"]
    vector_search.expire_indexes(db)
    ranking = nearest(db, wanted(db, HERE, RANDOM.standard_normal(DIMENSIONS)), NOW)
    await ranking.page(1)
    assert ranking.plan.strategy == "exact vectors"
    again = await build_index(db, dimensions=DIMENSIONS)
    assert again.state == "ready"
    await drop_index(db, again.name)
    assert await list_indexes(db) == []
    with pytest.raises(NotFound, match="no vector index"):
        await drop_index(db, again.name)


async def test_an_index_that_is_being_built_is_not_built_twice(
    db: Database, vectors: dict[Any, Any], postgres: Postgres, name: str
) -> None:
    with psycopg.connect(postgres.url(name)) as blocker:
        # A writer that does not end keeps the build waiting.
        blocker.execute("UPDATE embeddings SET change = 2 WHERE key = 'k1'")
        building = asyncio.ensure_future(build_index(db, dimensions=DIMENSIONS))
        while [one.state for one in await list_indexes(db)] != ["building"]:
            assert not building.done()
            await asyncio.sleep(0.01)
        with pytest.raises(Conflict, match="being built already"):
            await build_index(db, dimensions=DIMENSIONS)
        blocker.rollback()
        assert (await building).state == "ready"


async def test_who_may_not_build_is_told_what_the_owner_runs(
    db: Database, postgres: Postgres, name: str
) -> None:
    role = f"reader_{name}"
    postgres.execute(f"CREATE ROLE {role} LOGIN", name)
    tables = (*migrate.TABLES, migrate.VERSION_TABLE)
    for grant in db.dialect.maintenance.grants(role, None, tables):
        postgres.execute(grant, name)
    try:
        async with Database(postgres.url(name, user=role)) as theirs:
            with pytest.raises(AuthenticationFailed, match="CREATE INDEX CONCURRENTLY ix_emb"):
                await build_index(theirs, dimensions=DIMENSIONS)
            await build_index(db, dimensions=DIMENSIONS)
            (index,) = await list_indexes(theirs)
            with pytest.raises(AuthenticationFailed, match="DROP INDEX CONCURRENTLY ix_emb"):
                await drop_index(theirs, index.name)
    finally:
        postgres.execute(f"DROP OWNED BY {role}", name)
        postgres.execute(f"DROP ROLE {role}", name)


async def test_indexes_and_searches_in_a_schema_of_their_own(
    postgres: Postgres, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_search, "MANY", 20)
    postgres.execute('CREATE SCHEMA "Agent Memory"', name)
    url = postgres.url(name)
    async with Database(url, schema="Agent Memory", migrate="off") as db:
        await db.migrate()
        vectors = {(HERE, f"k{n}"): RANDOM.standard_normal(DIMENSIONS) for n in range(100)}
        await put(db, vectors)
        made = await build_index(db, dimensions=DIMENSIONS)
        ranking = nearest(db, wanted(db, HERE, query := RANDOM.standard_normal(DIMENSIONS)), NOW)
        assert places(await ranking.page(5)) == by_hand(vectors, query)[:5]
        assert ranking.plan.strategy == "hnsw"
        await drop_index(db, made.name)


@pytest.mark.parametrize(
    ("dimensions", "message"), [(4001, "up to 4,000"), (16_000, "all vectors")]
)
async def test_an_index_of_too_many_dimensions_is_refused(
    db: Database, dimensions: int, message: str
) -> None:
    with pytest.raises(CapabilityMissing, match=message):
        await build_index(db, dimensions=dimensions)


async def test_over_2000_dimensions_an_index_takes_half_precision(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_search, "MANY", 5)
    vectors = {(HERE, f"k{n}"): RANDOM.standard_normal(3072) for n in range(30)}
    await put(db, vectors)
    await build_index(db, dimensions=3072)
    query = RANDOM.standard_normal(3072)
    ranking = nearest(db, wanted(db, HERE, query), NOW)
    assert places(await ranking.page(3)) == by_hand(vectors, query)[:3]
    assert ranking.plan.strategy == "hnsw"
    # What half precision cannot hold is compared as it is.
    ranking = nearest(db, wanted(db, HERE, query * 1e6), NOW)
    assert places(await ranking.page(3)) == by_hand(vectors, query)[:3]
    assert ranking.plan.strategy == "exact vectors"


async def test_sqlite_needs_no_index() -> None:
    async with Database("sqlite://") as db:
        with pytest.raises(CapabilityMissing, match="needs no index"):
            await build_index(db, dimensions=8)
        with pytest.raises(CapabilityMissing, match="needs no index"):
            await list_indexes(db)


async def test_a_wrong_metric_or_size_is_refused_before_anything_is_sent() -> None:
    db = Database("postgresql://nobody@localhost:1/none")
    with pytest.raises(ValueError, match="metric is one of"):
        await build_index(db, dimensions=8, metric="cosine'; --")
    for wrong in (0, 1.5, True, "8"):
        with pytest.raises(ValueError, match="whole number"):
            await build_index(db, dimensions=wrong)


async def test_without_pgvector_bytes_are_compared_here(postgres: Postgres, name: str) -> None:
    postgres.execute(migrate.offline("postgresql", pgvector=False), name)
    vectors = {(HERE, f"k{n}"): RANDOM.standard_normal(DIMENSIONS) for n in range(2500)}
    vectors |= {(("notes", "b"), f"k{n}"): RANDOM.standard_normal(DIMENSIONS) for n in range(2500)}
    query = RANDOM.standard_normal(DIMENSIONS)
    for driver in ("", "psycopg"):
        async with Database(postgres.url(name, driver=driver)) as db:
            if not driver:
                await put(db, vectors)
                with pytest.raises(CapabilityMissing, match="CREATE EXTENSION"):
                    await build_index(db, dimensions=DIMENSIONS)
            for below, expected in ((False, of(vectors, HERE)), (True, vectors)):
                ranking = nearest(db, wanted(db, HERE, query, metric="l2", below=below), NOW)
                found = await ranking.page(10) + await ranking.page(2000)
                assert places(found) == by_hand(expected, query, "l2")[:2010]
                assert ranking.plan.details["cached"] is False


def test_oracles_commands_are_told() -> None:
    (command,) = DIALECTS["oracle"].vectors.index_commands("cosine", 384, "agent")
    assert command.startswith("CREATE VECTOR INDEX agent.ix_embeddings_hnsw_384_cosine ON agent.")
    assert "DISTANCE COSINE" in command
