"""Vectors in PostgreSQL: against exact SQL by hand in the same tables, and LangGraph's store.

The 100,000 lie in namespaces of 20, 10, 1 and 0.1 percent and one of the rest; all of them is a
search below the namespace that those are in. Until the index is built everything is compared.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import psycopg

from benchmarks.corpus import Floats, nearest
from benchmarks.filling import Item, settle
from benchmarks.measure import Finding, Run, at_least, at_most, milliseconds, ratio, take_turns
from benchmarks.subjects.raw_vectors import RawVectorsPostgres
from benchmarks.subjects.stores import LangGraphStore, OurStore
from memalchemy.search.indexes import build_index

ALL = ("w",)
SHARES = {"20 %": 0.2, "10 %": 0.1, "1 %": 0.01, "0.1 %": 0.001}
SMALL = {"10 %": 1.1, "1 %": 1.3, "0.1 %": 1.5}
"""Those of up to 10,000 vectors, which are compared exactly: at most so much slower than by hand,
as the fixed cost of a call weighs more in fewer."""
BEST = 10

Namespace = tuple[str, ...]


class Placed:
    """Which rows of the matrix are in which namespace."""

    def __init__(self, matrix: Floats) -> None:
        order = np.random.default_rng(4).permutation(len(matrix))
        self.rows: dict[Namespace, Any] = {}
        for share, part in SHARES.items():
            count = round(len(matrix) * part)
            self.rows[*ALL, name_of(share)], order = order[:count], order[count:]
        self.rows[*ALL, "rest"] = order
        self._matrix = matrix

    def items(self) -> list[Item]:
        return [
            Item(namespace, f"k{row}", {"at": int(row)}, self._matrix[row])
            for namespace, rows in self.rows.items()
            for row in rows
        ]

    def right(self, namespace: Namespace, query: Floats) -> set[str]:
        rows = np.arange(len(self._matrix)) if namespace == ALL else self.rows[namespace]
        return {f"k{rows[at]}" for at in nearest(self._matrix[rows], query, BEST)}

    def number(self, namespace: Namespace) -> int:
        return len(self._matrix) if namespace == ALL else len(self.rows[namespace])


def name_of(share: str) -> str:
    """A namespace's name for a share, without a dot, at which LangGraph's would be cut."""
    return "s" + share.removesuffix(" %").replace(".", "")


async def measure(matrix: Floats, queries: Floats, dsn: str, rounds: int) -> AsyncIterator[Finding]:
    with psycopg.connect(dsn, autocommit=True) as admin:
        # Both indexes are built with it: with less than they take it is minutes.
        admin.execute(f"ALTER DATABASE {admin.info.dbname} SET maintenance_work_mem = '512MB'")
    ours = await OurStore(dsn).open()
    placed = Placed(matrix)
    await ours.fill(placed.items(), text=False)
    settle(dsn)
    hand = await RawVectorsPostgres.open(dsn)
    asked: dict[str, tuple[float, float]] = {}

    for share in SMALL:
        namespace = (*ALL, name_of(share))
        asked[share] = await _asked(_ours(ours, namespace), placed, namespace, queries)
        yield await _exact(share, ours, hand, placed, queries, asked[share][0], rounds)

    started = time.perf_counter()
    index = await build_index(ours.db, dimensions=matrix.shape[1])
    yield Finding(
        "vectors",
        f"vectors indexed per second, {len(matrix):,}, PostgreSQL",
        len(matrix) / (time.perf_counter() - started),
        "/s",
        None,
        f"{index.bytes / 2**20:.0f} MiB",
        "-",
        better="at least",
    )
    for share in ("20 %", "100 %"):
        namespace = ALL if share == "100 %" else (*ALL, name_of(share))
        asked[share] = await _asked(_ours(ours, namespace), placed, namespace, queries)
        for finding in await _indexed(ours, hand, placed, namespace, queries, asked[share], rounds):
            yield finding
    for share in SMALL:  # the same with an index that must not be asked
        namespace = (*ALL, name_of(share))
        asked[f"{share} "] = await _asked(_ours(ours, namespace), placed, namespace, queries)
    yield Finding(
        "vectors",
        "searches that return ten items, in namespaces of every size, PostgreSQL",
        min(full for _, full in asked.values()),
        "",
        at_least(1.0, timed=False),
        f"{len(asked) * len(queries)} searches",
        "-",
    )
    await hand.close()
    async for finding in _langgraph(dsn, ours, placed, queries, asked["1 % "][0], rounds):
        yield finding
    await ours.close()


def _ours(ours: OurStore, namespace: Namespace) -> Callable[[Floats], Awaitable[list[str]]]:
    return lambda query: ours.keys_near(namespace, query, BEST, prefix=namespace == ALL)


async def _asked(
    ask: Callable[[Any], Awaitable[list[str]]],
    placed: Placed,
    namespace: Namespace,
    queries: Floats,
    names: Sequence[Any] | None = None,
) -> tuple[float, float]:
    """The recall@10, and the share of the searches that found ten items."""
    right = full = 0
    for query, name in zip(queries, queries if names is None else names, strict=True):
        found = await ask(name)
        right += len(set(found) & placed.right(namespace, query))
        full += len(found) == BEST
    return right / (BEST * len(queries)), full / len(queries)


def timed(ask: Callable[[Any], Awaitable[list[str]]], queries: Sequence[Any], calls: int) -> Run:
    """The mean time of some calls, each with the next query."""
    following = cycle(queries)

    async def run() -> float:
        started = time.perf_counter()
        for _ in range(calls):
            await ask(next(following))
        return (time.perf_counter() - started) / calls

    return run


async def _turns(asks: Mapping[str, Any], queries: Floats, calls: int, rounds: int) -> Any:
    return await take_turns(
        {name: timed(ask, queries, calls) for name, ask in asks.items()}, rounds
    )


async def _exact(
    share: str,
    ours: OurStore,
    hand: RawVectorsPostgres,
    placed: Placed,
    queries: Floats,
    recall: float,
    rounds: int,
) -> Finding:
    namespace = (*ALL, name_of(share))
    assert recall == 1.0, f"an exact search in {share} found others than brute force"
    asks = {
        "ours": _ours(ours, namespace),
        "hand": lambda query: hand.keys_near(namespace, query, prefix=namespace == ALL),
    }
    await _turns(asks, queries, 3, 1)
    number = placed.number(namespace)
    found = await _turns(asks, queries, 20 if number > 5000 else 40, max(rounds, 9))
    return Finding(
        "vectors",
        f"search_by_embedding in a namespace of {number:,} vectors, recall {recall:.3g}, "
        "PostgreSQL, against exact SQL by hand",
        ratio(found["ours"], found["hand"]),
        "x",
        at_most(SMALL[share]),
        milliseconds(found["ours"]),
        f"by hand {milliseconds(found['hand'])}",
    )


async def _indexed(
    ours: OurStore,
    hand: RawVectorsPostgres,
    placed: Placed,
    namespace: Namespace,
    queries: Floats,
    asked: tuple[float, float],
    rounds: int,
) -> list[Finding]:
    number = f"{placed.number(namespace):,} of {placed.number(ALL):,} vectors, PostgreSQL"
    asks = {
        "ours": _ours(ours, namespace),
        "hand": lambda query: hand.keys_near(namespace, query, prefix=namespace == ALL),
    }
    await _turns(asks, queries, 3, 1)
    found = await _turns(asks, queries, 10, rounds)
    return [
        Finding(
            "vectors",
            f"recall@10 with the index, {number}",
            asked[0],
            "",
            at_least(0.99, timed=False),
            f"{len(queries)} searches",
            "brute force",
        ),
        Finding(
            "vectors",
            f"search_by_embedding with the index, {number}, against exact SQL by hand",
            ratio(found["ours"], found["hand"]),
            "x",
            at_most(0.3),
            milliseconds(found["ours"]),
            f"by hand {milliseconds(found['hand'])}",
        ),
    ]


async def _langgraph(
    dsn: str, ours: OurStore, placed: Placed, queries: Floats, recall: float, rounds: int
) -> AsyncIterator[Finding]:
    names = [f"q{number}" for number in range(len(queries))]
    by_name = dict(zip(names, queries.tolist(), strict=True))
    theirs = LangGraphStore(dsn, lambda texts: [by_name[text] for text in texts])
    await theirs.open(queries.shape[1])
    namespace = (*ALL, name_of("1 %"))
    number = placed.number(namespace)

    async def their(name: str) -> list[str]:
        return await theirs.keys_near(namespace, name, BEST)

    their_recall, their_full = await _asked(their, placed, namespace, queries, names)
    short = round((1 - their_full) * len(queries))
    yield Finding(
        "vectors",
        f"recall@10 with an index in a namespace of {number:,} of {placed.number(ALL):,} vectors, "
        "beside LangGraph's PostgresStore",
        recall,
        "",
        at_least(1.0, timed=False),
        "none of the searches short",
        f"PostgresStore {their_recall:.3f}, {short} of {len(queries)} searches short",
    )
    found = await take_turns(
        {
            "ours": timed(_ours(ours, namespace), queries, 20),
            "theirs": timed(their, names, 20),
        },
        rounds,
    )
    yield Finding(
        "vectors",
        f"the same search's time in a namespace of {number:,}, against PostgresStore",
        ratio(found["ours"], found["theirs"]),
        "x",
        None,
        milliseconds(found["ours"]),
        f"PostgresStore {milliseconds(found['theirs'])}",
        better="at most",
    )
    await theirs.close()
