"""What a process remembers of vectors is what the database has, whoever wrote it, and bounded."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine, delete, update

from golden import dialect_called, text_of
from memalchemy import Database
from memalchemy.database.compiled import CompiledStatements
from memalchemy.events import Event
from memalchemy.keys import encode_namespace
from memalchemy.search import _vector_cache
from memalchemy.search._vector_cache import MATRICES, MatrixCache
from memalchemy.search._vector_statements import read_changed_vectors, read_positions, read_vectors
from memalchemy.search.cache_versions import COUNTERS, counter_key
from memalchemy.search.scope import EMBEDDINGS, ITEMS
from memalchemy.search.vectors import VectorRanking, nearest
from search.vectors_in import NOW, by_hand, places, put, remove, wanted

RANDOM = np.random.default_rng(7)
HERE = ("notes",)
QUERY = RANDOM.standard_normal(16)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(f"sqlite:///{tmp_path}/agent.db") as made:
        yield made


def some(first: int, last: int, namespace: tuple[str, ...] = HERE) -> dict[Any, Any]:
    return {(namespace, f"k{n}"): RANDOM.standard_normal(16) for n in range(first, last)}


async def search(db: Database, **more: Any) -> tuple[list[tuple[str, str]], VectorRanking]:
    ranking = nearest(db, wanted(db, HERE, QUERY, **more), NOW)
    return places(await ranking.page(10_000)), ranking


async def test_what_is_known_is_not_read_again_and_what_is_new_is(db: Database) -> None:
    vectors = some(0, 500)
    await put(db, vectors)
    for read in (500, 0, 0):
        event = Event("store.search")
        ranking = nearest(db, wanted(db, HERE, QUERY), NOW, event=event)
        assert places(await ranking.page(500)) == by_hand(vectors, QUERY)
        assert ranking.plan.details == {"vectors": 500, "read": read, "cached": True}
        assert event.cache_hit is (read == 0)
    await put(db, changed := some(7, 9) | some(500, 501))
    found, ranking = await search(db)
    vectors |= changed
    assert found == by_hand(vectors, QUERY)
    assert ranking.plan.details == {"vectors": 501, "read": 3, "cached": True}


async def test_many_changes_in_any_order_are_followed(db: Database) -> None:
    vectors: dict[Any, Any] = {}
    for turn in range(60):
        first = int(RANDOM.integers(0, 300))
        if turn % 3 == 2:
            gone = [place for place in vectors if RANDOM.random() < 0.2]
            await remove(db, gone)
            for place in gone:
                del vectors[place]
        else:
            await put(db, more := some(first, first + int(RANDOM.integers(1, 80))))
            vectors |= more
        if turn % 4 == 0:
            await put(db, {(HERE, "big"): RANDOM.standard_normal(20 if turn % 8 else 16)},
                      removes=True)  # fmt: skip
            vectors.pop((HERE, "big"), None)
            await remove(db, [(HERE, "big")])
        assert (await search(db, metric="dot"))[0] == by_hand(vectors, QUERY, "dot")
        assert (await search(db, metric="l2", below=True))[0] == by_hand(vectors, QUERY, "l2")


async def test_one_removed_among_very_many_is_found_without_reading_all(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_vector_cache, "PAGE", 50)
    vectors = some(0, 2000)
    await put(db, vectors)
    await search(db)
    await remove(db, [(HERE, "k1234")])
    del vectors[HERE, "k1234"]
    found, ranking = await search(db)
    assert found == by_hand(vectors, QUERY)
    assert ranking.plan.details["read"] == 0


async def test_an_item_that_is_written_with_fewer_parts_has_no_others(db: Database) -> None:
    one, two, three = (RANDOM.standard_normal(16) for _ in range(3))
    vectors: dict[Any, Any] = {(HERE, "k"): {("/a", 0): one, ("/a", 1): two, ("/b", 0): three}}
    await put(db, vectors | some(0, 20))
    await search(db)
    await put(db, {(HERE, "k"): {("/a", 0): one}})
    (found,) = [
        near
        for near in await nearest(db, wanted(db, HERE, three), NOW).page(100)
        if near.key == "k"
    ]
    assert (found.field, found.part) == ("/a", 0)


async def test_an_item_of_more_parts_than_are_read_at_once_keeps_them_all(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_vector_cache, "PAGE", 50)
    vectors: dict[Any, Any] = some(0, 20)
    await put(db, vectors)
    await search(db)
    parts = [RANDOM.standard_normal(16) for _ in range(175)]
    await put(db, {(HERE, "k3"): {("", n): part for n, part in enumerate(parts)}})
    for n, part in enumerate(parts):
        (found,) = await nearest(db, wanted(db, HERE, part), NOW).page(1)
        assert (found.key, found.part) == ("k3", n)


async def test_an_item_that_changes_its_size_leaves_its_old_one(db: Database) -> None:
    vectors = some(0, 20)
    await put(db, vectors)
    await search(db)
    await put(db, {(HERE, "k3"): RANDOM.standard_normal(4)}, removes=True)
    del vectors[HERE, "k3"]
    assert (await search(db))[0] == by_hand(vectors, QUERY)


async def test_another_process_writes_and_this_one_sees_it(db: Database, tmp_path: Path) -> None:
    vectors = some(0, 50)
    await put(db, vectors)
    await search(db)
    program = (
        "import asyncio, sys, numpy\n"
        "from memalchemy import Database\n"
        "from search.vectors_in import put\n"
        "async def main():\n"
        "    async with Database(sys.argv[1]) as db:\n"
        "        await put(db, {(('notes',), 'theirs'): numpy.arange(1.0, 17.0)})\n"
        "asyncio.run(main())\n"
    )
    path = str(Path(__file__).parents[1])
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r})\n{program}",
         f"sqlite:///{tmp_path}/agent.db"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    vectors[HERE, "theirs"] = np.arange(1.0, 17.0)
    assert (await search(db))[0] == by_hand(vectors, QUERY)


async def test_what_was_rolled_back_is_never_remembered(db: Database) -> None:
    vectors = some(0, 50)
    await put(db, vectors)
    await search(db)

    class Undone(Exception):
        pass

    for _ in range(3):
        try:
            async with db.transaction() as tx:
                await put(db, {(HERE, "undone"): QUERY}, connection=tx)
                await remove(db, [(HERE, "k1")], connection=tx)
                ranking = nearest(db, wanted(db, HERE, QUERY), NOW, connection=tx)
                found = places(await ranking.page(100))
                assert found[0][1] == "undone"
                assert "k1" not in {key for _, key in found}
                assert not ranking.plan.details["cached"]
                raise Undone
        except Undone:
            pass
        assert (await search(db))[0] == by_hand(vectors, QUERY)


@pytest.mark.parametrize("change", ["backwards", "another history", "reborn"])
async def test_a_file_that_was_put_back_is_read_anew(db: Database, change: str) -> None:
    await put(db, some(0, 50))
    await put(db, some(0, 50))
    await search(db)
    vectors = some(0, 50)
    await put(db, vectors)
    counter = ITEMS.c.namespace == COUNTERS
    to = {
        "backwards": update(ITEMS).where(counter).values(version=1),
        "another history": update(ITEMS).where(counter).values(version=2, checksum=5),
        "reborn": update(ITEMS).where(counter).values(created_at=NOW.replace(year=2030)),
    }[change]
    # What is read is of a version that says nothing is new.
    old = update(EMBEDDINGS).values(change=1)

    def job(connection: Any) -> None:
        connection.execute(to)
        connection.execute(old)

    await db.run_sync(job)
    assert (await search(db))[0] == by_hand(vectors, QUERY)


async def test_a_namespace_that_was_emptied_and_began_anew_is_read_anew(db: Database) -> None:
    await put(db, some(0, 50))
    await search(db)
    await db.run_sync(lambda c: c.execute(delete(ITEMS).where(ITEMS.c.tenant == db.tenant)))
    assert (await search(db))[0] == []
    await put(db, vectors := some(0, 30))
    await put(db, more := some(30, 40))
    assert (await search(db))[0] == by_hand(vectors | more, QUERY)


async def test_searches_at_once_beside_writers_see_whole_writes(db: Database) -> None:
    await put(db, some(0, 300))
    done = False

    async def write() -> None:
        nonlocal done
        for n in range(40):
            # Both or none, and the later the nearer.
            near = QUERY + (40 - n) * 0.01
            await put(db, {(HERE, "a"): near, (HERE, "b"): near})
        done = True

    async def look() -> None:
        while not done:
            found = await nearest(db, wanted(db, HERE, QUERY), NOW).page(2)
            distances = {near.distance for near in found}
            assert len(distances) == 1 or found[0].key not in "ab", found

    await put(db, {(HERE, "a"): QUERY + 1, (HERE, "b"): QUERY + 1})
    await asyncio.gather(write(), *(look() for _ in range(6)))


async def test_what_does_not_fit_is_compared_page_by_page_in_little_memory(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = {(HERE, f"k{n}"): row for n, row in enumerate(RANDOM.standard_normal((6000, 256)))}
    await put(db, vectors)
    query = RANDOM.standard_normal(256)
    cache = MatrixCache(2_000_000)
    monkeypatch.setattr(_vector_cache, "MATRICES", cache)
    nearest_by_hand = by_hand(vectors, query, "dot")
    tracemalloc.start()
    ranking = nearest(db, wanted(db, HERE, query, metric="dot"), NOW)
    found = await ranking.page(10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert places(found) == nearest_by_hand[:10]
    assert peak < 6000 * 256 * 4 * 2.5
    assert ranking.plan.details == {"vectors": 6000, "read": 6000, "cached": False}
    assert cache.bytes == 0
    while not ranking.exhausted:  # further than what was kept of the first reading
        found += await ranking.page(1500)
    assert places(found) == nearest_by_hand


async def test_the_least_recently_used_goes_first(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        await put(db, some(0, 1000, (name,)))
    size = 0
    for name in "ab":
        await nearest(db, wanted(db, (name,), QUERY), NOW).page(1)
        size = size or MATRICES.bytes
    assert MATRICES.bytes == 2 * size
    cache = MatrixCache(int(size * 2.5))
    monkeypatch.setattr(_vector_cache, "MATRICES", cache)
    loads = ("a", 1000), ("b", 1000), ("a", 0), ("c", 1000), ("a", 0), ("b", 1000)
    for name, read in loads:
        ranking = nearest(db, wanted(db, (name,), QUERY), NOW)
        await ranking.page(1)
        assert ranking.plan.details["read"] == read, name
        assert cache.bytes <= size * 2.5


async def test_a_database_that_is_gone_takes_its_vectors_along(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/one.db") as one:
        await put(one, some(0, 100))
        await search(one)
        assert MATRICES.bytes > 0
    del one
    gc.collect()
    assert MATRICES.bytes == 0


async def test_statements_find_their_rows_by_an_index(db: Database) -> None:
    await put(db, some(0, 10))
    expected = {
        read_vectors(db.dialect, below=False): "model=? AND dimensions=? AND rowid>?",
        read_changed_vectors(db.dialect): "change (tenant=? AND namespace=? AND change>?",
        read_positions(db.dialect, which="number"): "COVERING INDEX",
    }
    for statement, used in expected.items():
        sql = text_of(statement, "sqlite")
        count = sql.count("?")
        plan = await db.run_sync(
            lambda c, sql=sql, count=count: c.connection.dbapi_connection.execute(
                f"EXPLAIN QUERY PLAN {sql}", [0] * count
            ).fetchall()
        )
        told = " ".join(row[-1] for row in plan)
        assert used in told
        assert "TEMP B-TREE" not in told


def test_rows_of_vectors_are_left_as_the_driver_fetched_them() -> None:
    made = create_engine("sqlite://").dialect
    statement = read_vectors(dialect_called("sqlite"), below=False)
    compiled = CompiledStatements().get(statement, made)
    assert compiled is not None
    fetched = [("/a/", "k", "", 0, b"1234", at) for at in range(3)]
    read = compiled.rows(fetched)
    assert all(one is other for one, other in zip(read, fetched, strict=True))


def test_a_counter_has_a_key_for_any_namespace() -> None:
    paths = [encode_namespace((x * n,)) for x in "ab\x1a" for n in (1, 90, 199, 250, 400)]
    keys = [counter_key(path) for path in paths]
    assert len(set(keys)) == len(keys)
    assert all(len(key) <= 201 for key in keys)
