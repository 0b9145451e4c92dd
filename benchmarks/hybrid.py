"""Words and vectors together: how often what is asked for by its name is among the first ten.

The items are what the installed packages and the standard library's functions and classes say of
themselves; the questions are all those packages' names and some of the others, as separate words.
The vectors are of pieces of words, see `benchmarks.corpus.embedder`: they find *copied* for *copy*
and know no meaning, so the numbers say how two rankings are joined, and not how good a model is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from benchmarks.corpus import Named, embedder, named, words_of_name
from benchmarks.measure import Finding, at_least
from benchmarks.subjects.stores import OurStore

HERE = ("known",)
QUESTIONS = 400
BEST = 10


async def measure(directory: Path, new_database: Callable[[], str]) -> AsyncIterator[Finding]:
    known = named()
    for engine in ("SQLite", "PostgreSQL"):
        place = directory / "hybrid.db" if engine == "SQLite" else new_database()
        ours = await OurStore(place, embedder=embedder()).open()
        await ours.store.put_batch([(HERE, one.name, {"text": one.text}) for one in known])
        asked = known[:QUESTIONS]
        found = {mode: await _recall(ours, mode, asked) for mode in ("text", "vector", "hybrid")}
        yield Finding(
            "hybrid",
            f"recall@10 of {len(asked)} known among {len(known):,}, both rankings against the "
            f"better one, {engine}",
            found["hybrid"] / max(found["text"], found["vector"]),
            "x",
            at_least(1.0, timed=False),
            f"{found['hybrid']:.3f}",
            f"words {found['text']:.3f}, vectors {found['vector']:.3f}",
        )
        await ours.close()


async def _recall(ours: OurStore, mode: str, asked: Sequence[Named]) -> float:
    found = 0
    for one in asked:
        hits = await ours.store.search(HERE, words_of_name(one.name), mode=mode, limit=BEST)
        found += one.name in [hit.key for hit in hits]
    return found / len(asked)
