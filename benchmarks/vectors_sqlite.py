"""Vectors in SQLite, which are compared in this process: against numpy on a matrix at hand.

The whole of 100,000 vectors is one namespace; beside it others hold a tenth of them and less.
*Warm* is a search like one before; *cold* one after the process has forgotten every vector;
*after one write* the first after an item of the namespace was replaced, whose vector it must find.
"""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import AsyncIterator, Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.by_hand import connect
from benchmarks.corpus import Floats, nearest
from benchmarks.filling import MODEL, Item
from benchmarks.measure import (
    Finding,
    Run,
    Seconds,
    Stopwatch,
    at_least,
    at_most,
    cpu_ratio,
    mean,
    milliseconds,
    ratio,
    take_turns,
    with_floor,
)
from benchmarks.subjects.stores import OurStore
from memalchemy.keys import encode_namespace
from memalchemy.search._vector_cache import MATRICES, PAGE, MatrixScope
from memalchemy.search.vectors import VectorQuery, check_vector, compare_matrix

WHOLE = ("whole",)
SHARES = {"10 %": 10, "1 %": 100, "0.1 %": 1000}
BEST = 10
VECTORS = """
    SELECT vector FROM embeddings
    WHERE tenant = ? AND namespace = ? AND model = ? AND dimensions = ?
"""


async def measure(
    matrix: Floats, queries: Floats, directory: Path, rounds: int
) -> AsyncIterator[Finding]:
    ours = await OurStore(directory / "vectors.db").open()
    await ours.fill(_items(WHOLE, matrix), text=False)
    for share, part in SHARES.items():
        await ours.fill(_items((share,), matrix[: len(matrix) // part]), text=False)
    yield await _recall(ours, matrix, queries)
    yield await _in_process(ours, matrix, queries, rounds)
    yield await _public("the whole namespace", ours, WHOLE, matrix, queries, 1.2, rounds)
    for share, part in SHARES.items():
        rows = matrix[: len(matrix) // part]
        yield await _public(f"a namespace of {share}", ours, (share,), rows, queries, None, rounds)
    yield await _after_a_write(ours, queries, rounds)
    async for finding in _cold(ours, matrix, queries, rounds):
        yield finding
    await ours.close()


def _items(namespace: tuple[str, ...], matrix: Floats) -> list[Item]:
    return [Item(namespace, f"k{at}", {"at": at}, row) for at, row in enumerate(matrix)]


def bare(matrix: Floats, query: Floats) -> list[int]:
    """The best rows, as anybody would write it who has the matrix."""
    products = matrix @ query
    best = np.argpartition(products, -BEST)[-BEST:]
    return [int(row) for row in best[np.argsort(-products[best])]]


def timed(call: Callable[[Floats], Any], queries: Floats, calls: int) -> Run:
    """The mean time of some calls, each with the next query."""
    following = cycle(queries)

    async def run() -> Seconds:
        watch = Stopwatch()
        for _ in range(calls):
            found = call(next(following))
            if hasattr(found, "__await__"):
                await found
        return watch.per(calls)

    return run


async def _recall(ours: OurStore, matrix: Floats, queries: Floats) -> Finding:
    right = 0
    for query in queries:
        found = await ours.keys_near(WHOLE, query, BEST)
        right += len(set(found) & {f"k{row}" for row in nearest(matrix, query, BEST)})
    return Finding(
        "vectors",
        f"recall@10 among {len(matrix):,} vectors, SQLite",
        right / (BEST * len(queries)),
        "",
        at_least(1.0, timed=False),
        f"{len(queries)} searches",
        "brute force",
    )


async def _in_process(ours: OurStore, matrix: Floats, queries: Floats, rounds: int) -> Finding:
    path = encode_namespace(WHOLE)
    scope = MatrixScope(ours.db.tenant, path, False, MODEL, matrix.shape[1], True)
    view = MATRICES.matrix_of(ours.db, scope).view()
    assert view.rows == len(matrix), "the search before has left nothing in memory"

    def search(query: Floats) -> None:
        wanted = VectorQuery(ours.db.tenant, path, False, MODEL, check_vector(query))
        assert len(compare_matrix(wanted, view, None).best(set(), BEST)) == BEST

    found = await take_turns(
        {
            "ours": timed(search, queries, 10),
            "reading": timed(lambda query: float(view.vectors.max()), queries, 10),
        },
        max(rounds, 9),
    )
    return Finding(
        "vectors",
        f"search among {len(matrix):,} vectors in memory, against reading them once",
        ratio(found["ours"], found["reading"]),
        "x",
        at_most(1.5),
        milliseconds(found["ours"]),
        f"the largest number in them {milliseconds(found['reading'])}",
        cpu=cpu_ratio(found["ours"], found["reading"]),
    )


async def _public(
    what: str,
    ours: OurStore,
    namespace: tuple[str, ...],
    matrix: Floats,
    queries: Floats,
    target: float | None,
    rounds: int,
) -> Finding:
    await ours.keys_near(namespace, queries[0], BEST)
    found = await take_turns(
        {
            "ours": timed(lambda query: ours.keys_near(namespace, query, BEST), queries, 10),
            "bare": timed(lambda query: bare(matrix, query), queries, 10),
        },
        max(rounds, 9),
    )
    return Finding(
        "vectors",
        f"search_by_embedding in {what}, {len(matrix):,} vectors, SQLite, against numpy",
        ratio(found["ours"], found["bare"]),
        "x",
        at_most(target) if target else None,
        milliseconds(found["ours"]),
        f"M @ q and its top ten {milliseconds(found['bare'])}",
        cpu=cpu_ratio(found["ours"], found["bare"]),
        better="at most",
    )


async def _after_a_write(ours: OurStore, queries: Floats, rounds: int) -> Finding:
    following = iter(range(10**6))

    async def after() -> Seconds:
        times = []
        for _ in range(5):
            number = next(following)
            query = queries[number % len(queries)]
            key = f"k{number}"
            await ours.store.put_with_embedding(WHOLE, key, {"at": number}, query)
            watch = Stopwatch()
            found = await ours.keys_near(WHOLE, query, BEST)
            times.append(watch.read())
            assert key in found, "a search did not see the write before it"
        return mean(times)

    warm = timed(lambda query: ours.keys_near(WHOLE, query, BEST), queries, 5)
    found = await take_turns({"after": after, "warm": warm}, max(rounds, 9))
    return Finding(
        "vectors",
        "search after one write against a warm one, SQLite",
        ratio(found["after"], found["warm"]),
        "x",
        at_most(1.1),
        milliseconds(found["after"]),
        f"warm {milliseconds(found['warm'])}",
        cpu=cpu_ratio(found["after"], found["warm"]),
    )


async def _cold(
    ours: OurStore, matrix: Floats, queries: Floats, rounds: int
) -> AsyncIterator[Finding]:
    async def cold() -> Seconds:
        MATRICES.clear()
        watch = Stopwatch()
        await ours.keys_near(WHOLE, queries[0], BEST)
        return watch.read()

    async def warm() -> float:
        await ours.keys_near(WHOLE, queries[0], BEST)  # whatever the turn before has left
        return await timed(lambda query: ours.keys_near(WHOLE, query, BEST), queries, 5)()

    with contextlib.closing(connect(ours.place)) as connection:

        async def by_hand() -> Seconds:
            watch, number = Stopwatch(), 0
            place = (ours.db.tenant, encode_namespace(WHOLE), MODEL, matrix.shape[1])
            cursor = connection.execute(VECTORS, place)
            while rows := cursor.fetchmany(PAGE):
                number += len(rows)
            assert number == len(matrix)
            return watch.read()

        found = await take_turns({"cold": cold, "warm": warm, "by hand": by_hand}, rounds)
    cold_search = Finding(
        "vectors",
        "cold search against a warm one, SQLite",
        ratio(found["cold"], found["warm"]),
        "x",
        at_most(15),
        milliseconds(found["cold"]),
        f"warm {milliseconds(found['warm'])}",
        cpu=cpu_ratio(found["cold"], found["warm"]),
    )
    yield with_floor(cold_search, ratio(found["by hand"], found["warm"]))
    MATRICES.clear()
    tracemalloc.start()
    await ours.keys_near(WHOLE, queries[0], BEST)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    yield Finding(
        "vectors",
        "memory at the peak of a cold search, against the matrix alone, SQLite",
        peak / matrix.nbytes,
        "x",
        None,
        f"{peak / 2**20:.0f} MiB",
        f"the matrix {matrix.nbytes / 2**20:.0f} MiB",
        better="at most",
    )
