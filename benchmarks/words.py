"""Search by words among 100,000 items, and by words and vectors together among known ones.

What a search by words stands against is a table by hand, with nothing but a namespace, a key and
the text: scanned with LIKE, any word counting as ours does; and with a full-text index of its own,
FTS5 or a tsvector, which knows the text and not the namespace, as such an index is made.

The rare words are in two to ten items, those of a pair in twenty to two hundred each; the common
one is in about a fifth of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks import hybrid
from benchmarks.corpus import plain_words, texts
from benchmarks.filling import Item, settle
from benchmarks.measure import (
    Finding,
    Run,
    Seconds,
    Stopwatch,
    at_least,
    cpu_speed,
    milliseconds,
    ratio,
    take_turns,
)
from benchmarks.subjects.raw_words import RawWordsPostgres, RawWordsSqlite
from benchmarks.subjects.stores import OurStore
from benchmarks.workload import Message
from memalchemy.search.ranking import OTHER_FORMS

COUNT = 100_000
FEW = COUNT // 100
ALL, SMALL = "all", "small"
QUERIES = 10


class Chosen:
    """Words to look for, by the items that they are in."""

    def __init__(self, words: Sequence[set[str]]) -> None:
        number = Counter(word for of in words for word in of if len(word) > 3)
        named = sorted(number)
        self.rare = [word for word in named if 2 <= number[word] <= 10][:: max(1, len(named) // 99)]
        some = [word for word in named if 20 <= number[word] <= 200]
        half = len(some) // 2
        self.pairs = [f"{a} {b}" for a, b in zip(some[:half], some[half:], strict=False)]
        self.common = min(named, key=lambda word: abs(number[word] - len(words) // 5))
        self.share = number[self.common] / len(words)


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    made = texts(messages, COUNT + FEW, seed=8)
    items = [
        Item((ALL if at < COUNT else SMALL,), f"k{at}", {"text": one})
        for at, one in enumerate(made)
    ]
    split = [plain_words(one) for one in made]
    chosen = Chosen(split[:COUNT])
    for engine in ("SQLite", "PostgreSQL"):
        places: list[Any] = [new_database(), new_database()]
        if engine == "SQLite":
            places = [directory / f"words-{whose}.db" for whose in ("ours", "by-hand")]
        ours = await OurStore(places[0]).open()
        await ours.fill(items)
        raw: Any = (RawWordsSqlite if engine == "SQLite" else RawWordsPostgres)(places[1])
        await raw.open([(one.namespace[0], one.key, one.value["text"].lower()) for one in items])
        if engine == "PostgreSQL":
            for place in places:
                settle(place)
        # The driver's thread keeps a process alive whose connection nobody closes.
        try:
            await _check(ours, chosen, split)
            pick = chosen.rare[:QUERIES], chosen.pairs[:QUERIES]
            yield await _against_scan("a rare word", engine, ours, raw, pick[0], rounds)
            yield await _against_scan("two words", engine, ours, raw, pick[1], rounds)
            yield await _in_a_small_place(engine, ours, raw, chosen, rounds)
        finally:
            await raw.close()
            await ours.close()
    async for finding in hybrid.measure(directory, new_database):
        yield finding


async def _check(ours: OurStore, chosen: Chosen, split: Sequence[set[str]]) -> None:
    """What is fast must also be right: all items of a rare word before those of its other forms."""
    for word in chosen.rare[:QUERIES]:
        right = {f"k{at}" for at, words in enumerate(split[:COUNT]) if word in words}
        hits = await ours.store.search((ALL,), word, limit=20)
        found = {hit.key for hit in hits if hit.score > OTHER_FORMS}
        assert found == right, f"a search for {word!r} did not find the items that it is in"


def _timed(ask: Callable[[str], Awaitable[Any]], queries: Sequence[str], calls: int) -> Run:
    following = cycle(queries)

    async def run() -> Seconds:
        watch = Stopwatch()
        for _ in range(calls):
            assert await ask(next(following))
        return watch.per(calls)

    return run


async def _against_scan(
    what: str, engine: str, ours: OurStore, raw: Any, queries: Sequence[str], rounds: int
) -> Finding:
    runs = {
        "scan": _timed(lambda query: raw.scan(ALL, query.split()), queries, 3),
        "ours": _timed(lambda query: ours.store.search((ALL,), query), queries, 20),
    }
    await take_turns(runs, 1)
    found = await take_turns(runs, max(rounds, 7))
    return Finding(
        "text",
        f"search for {what} among {COUNT:,} items, times faster than LIKE, {engine}",
        ratio(found["scan"], found["ours"]),
        "x",
        at_least(50),
        milliseconds(found["ours"]),
        f"LIKE {milliseconds(found['scan'])}",
        cpu=cpu_speed(found["ours"], found["scan"]) if engine == "SQLite" else None,
    )


async def _in_a_small_place(
    engine: str, ours: OurStore, raw: Any, chosen: Chosen, rounds: int
) -> Finding:
    runs = {
        "index": _timed(lambda query: raw.ranked(SMALL, query), [chosen.common], 10),
        "ours": _timed(lambda query: ours.store.search((SMALL,), query), [chosen.common], 10),
    }
    await take_turns(runs, 1)
    found = await take_turns(runs, max(rounds, 7))
    return Finding(
        "text",
        f"search for a word of {chosen.share:.0%} of {COUNT:,} items in a namespace of {FEW:,}, "
        f"times faster than {raw.index}, {engine}",
        ratio(found["index"], found["ours"]),
        "x",
        at_least(10),
        milliseconds(found["ours"]),
        f"{raw.index} {milliseconds(found['index'])}",
        cpu=cpu_speed(found["ours"], found["index"]) if engine == "SQLite" else None,
    )
