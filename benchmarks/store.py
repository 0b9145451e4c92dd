"""Single items and batches of a store, against the driver by hand.

An item is a few fields and some forty words of text. Each side of a put writes to a database of
its own, and each put is of a key that was not there; a get is of one of 10,000, in no order.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any

from benchmarks.corpus import texts
from benchmarks.filling import START, Item, row_of, settle
from benchmarks.measure import (
    Finding,
    Run,
    at_least,
    at_most,
    milliseconds,
    per_second,
    ratio,
    take_turns,
)
from benchmarks.subjects.raw_store import RawStorePostgres, RawStoreSqlite
from benchmarks.subjects.stores import OurStore
from benchmarks.workload import Message
from memalchemy.store.settings import item_binds

HERE = ("facts", "of-a-user")
THERE = 10_000
CALLS = 200
BATCH = 1000


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    words = texts(messages, 5000, seed=5)
    for engine in ("PostgreSQL", "SQLite"):
        places: list[Any] = [new_database(), new_database()]
        if engine == "SQLite":
            places = [directory / f"store-{whose}.db" for whose in ("ours", "by-hand")]
        ours, tables = OurStore(places[0]), OurStore(places[1])
        for one in (ours, tables):
            await one.open()
            await one.fill([_item(at, words) for at in range(THERE)])
        await tables.close()
        raw: Any = RawStoreSqlite if engine == "SQLite" else RawStorePostgres
        raw = raw(places[1])
        await raw.open()
        if engine == "PostgreSQL":
            for place in places:
                settle(place)
        # The targets against the driver are PostgreSQL's: SQLite's driver is in the process.
        target = 1.5 if engine == "PostgreSQL" else None
        yield await _get(engine, ours, raw, target, rounds)
        yield await _put(engine, ours, raw, words, target, rounds)
        for text, least in ((False, 0.7), (True, 0.6)):
            store = OurStore(places[0], index_text=text)
            yield await _batch(engine, store, raw, words, text, least, rounds)
            await store.close()
        await raw.close()
        await ours.close()


def _item(number: int, words: list[str]) -> Item:
    value = {
        "text": words[number % len(words)],
        "about": f"topic {number % 50}",
        "confidence": number % 100 / 100,
        "confirmed": number % 3 == 0,
    }
    return Item(HERE, f"k{number}", value)


def _new(words: list[str], first: int) -> Iterator[Item]:
    return (_item(number, words) for number in count(first))


def _timed(call: Callable[[Any], Awaitable[Any]], made: Callable[[], list[Any]]) -> Run:
    """The mean time of a call, of those for which something was made beforehand."""

    async def run() -> float:
        prepared = made()
        started = time.perf_counter()
        for one in prepared:
            await call(one)
        return (time.perf_counter() - started) / len(prepared)

    return run


async def _get(engine: str, ours: OurStore, raw: Any, target: float | None, rounds: int) -> Finding:
    chosen = random.Random(6)

    def keys() -> list[str]:
        return [f"k{number}" for number in chosen.choices(range(THERE), k=CALLS)]

    def binds() -> list[Any]:
        named = ({"k_key": key, "p_now": START} for key in keys())
        row = row_of(ours.db, Item(HERE, "-", None), 0)
        return [raw.key(_bound(row) | one) for one in named]

    runs = {
        "ours": _timed(lambda key: ours.store.get(HERE, key), keys),
        "raw": _timed(raw.get, binds),
    }
    await take_turns(runs, 1)
    found = await take_turns(runs, max(rounds, 9))
    return _single(f"get, {engine}, against the driver by hand", found, target)


async def _put(
    engine: str, ours: OurStore, raw: Any, words: list[str], target: float | None, rounds: int
) -> Finding:
    mine, theirs = _new(words, THERE), _new(words, THERE)

    def binds() -> list[Any]:
        some = islice(theirs, CALLS)
        return [raw.binds(_bound(row_of(ours.db, one, at))) for at, one in enumerate(some)]

    runs = {
        "ours": _timed(
            lambda one: ours.store.put(HERE, one.key, one.value), lambda: [*islice(mine, CALLS)]
        ),
        "raw": _timed(raw.put, binds),
    }
    await take_turns(runs, 1)
    found = await take_turns(runs, max(rounds, 9))
    return _single(f"put, {engine}, against an upsert by hand into the same indexes", found, target)


def _bound(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the statements of a put and of a get bind it."""
    return (
        {f"k_{name}": row[name] for name in ("tenant", "namespace", "key")}
        | {f"p_{name}": value for name, value in row.items()}
        | {"p_now": row["updated_at"]}
    )


def _single(name: str, found: dict[str, list[float]], target: float | None) -> Finding:
    return Finding(
        "store",
        name,
        ratio(found["ours"], found["raw"]),
        "x",
        at_most(target) if target else None,
        milliseconds(found["ours"]),
        f"by hand {milliseconds(found['raw'])}",
    )


async def _batch(
    engine: str,
    ours: OurStore,
    raw: Any,
    words: list[str],
    text: bool,
    least: float,
    rounds: int,
) -> Finding:
    first = 100 * THERE * (1 + text)
    mine, theirs = _new(words, first), _new(words, first)

    async def batch() -> float:
        items = [(one.namespace, one.key, one.value) for one in islice(mine, BATCH)]
        started = time.perf_counter()
        assert await ours.store.put_batch(items) == [1] * BATCH
        return BATCH / (time.perf_counter() - started)

    async def by_hand() -> float:
        binds = raw.batch(_batch_row(ours, one) for one in islice(theirs, BATCH))
        started = time.perf_counter()
        await raw.put_batch(binds)
        return BATCH / (time.perf_counter() - started)

    runs = {"ours": batch, "by hand": by_hand}
    await take_turns(runs, 1)
    found = await take_turns(runs, max(rounds, 9))
    what = "with text search" if text else "without text search"
    return Finding(
        "store",
        f"put_batch of {BATCH:,}, items a second, against executemany by hand into the same "
        f"indexes, {what}, {engine}",
        ratio(found["ours"], found["by hand"]),
        "x",
        at_least(least),
        per_second(found["ours"]),
        f"by hand {per_second(found['by hand'])}",
    )


def _batch_row(ours: OurStore, item: Item) -> dict[str, Any]:
    """An item as `Store.put_batch` binds it: the same bytes, and the same words."""
    row = ours.store.settings.row(item.namespace, item.value, None, None, datetime.now(UTC))
    return item_binds(ours.db, item.namespace, item.key) | row
