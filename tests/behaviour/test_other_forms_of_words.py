"""Other forms of the words of a query: which are looked for, in items, entries and steps alike."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

import pytest

from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.search.ranking import ENOUGH, OTHER_FORMS

RARE = 4
NS = ("notes",)

Search = Callable[[str], Awaitable[list[tuple[str, float]]]]
"""Finds the names of texts, each with its score."""


@pytest.fixture(autouse=True)
def rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memalchemy.search.word_query.RARE", RARE)


async def in_items(db: Database, texts: Sequence[str]) -> Search:
    store = Store(db)
    await store.put_batch([(NS, str(at), text) for at, text in enumerate(texts)])

    async def search(query: str) -> list[tuple[str, float]]:
        return [(hit.key, hit.score or 0) for hit in await store.search(NS, query, 100)]

    return search


async def in_entries(db: Database, texts: Sequence[str]) -> Search:
    log = ThreadLog(db)
    for at, text in enumerate(texts):
        await log.append(str(at), text)

    async def search(query: str) -> list[tuple[str, float]]:
        return [(hit.thread_id, hit.score) for hit in await log.search(query, 100)]

    return search


async def in_steps(db: Database, texts: Sequence[str]) -> Search:
    checkpointer = Checkpointer(db)
    for at, text in enumerate(texts):
        await checkpointer.save({"text": text}, str(at))

    async def search(query: str) -> list[tuple[str, float]]:
        return [(hit["thread_id"], hit["score"]) for hit in await checkpointer.search(query, 100)]

    return search


PLACES = pytest.mark.parametrize("fill", [in_items, in_entries, in_steps])
Fill = Callable[[Database, Sequence[str]], Awaitable[Search]]


def expected(texts: Sequence[str], query: str) -> tuple[set[str], set[str]]:
    """The texts that hold a word of *query*, and those that hold a form that is looked for."""
    held = [set(text.split()) for text in texts]
    words = query.split()
    exact = {str(at) for at, some in enumerate(held) if some & set(words)}
    forms: set[str] = set()
    if len(exact) < ENOUGH:
        for word in words:
            begins = word[: max(len(word) - 2, 4)]
            holders = {
                str(at)
                for at, some in enumerate(held)
                if any(one.startswith(begins) for one in some)
            }
            if begins != word and (not exact or len(holders) <= RARE):
                forms |= holders
    return exact, forms - exact


@PLACES
@pytest.mark.parametrize("seed", range(4))
async def test_frequent_forms_are_looked_for_if_no_word_is_there_as_it_is(
    db: Database, fill: Fill, seed: int
) -> None:
    draw = random.Random(seed)
    stems = {"flight": 6, "hotel": 3, "ticket": 2, "sunset": 9}
    texts = [
        f"{stem}{draw.choice(['', 'ed', 'er'])}" for stem, n in stems.items() for _ in range(n)
    ]
    texts += [f"{stem}s" for stem in draw.sample(sorted(stems), 3)]
    texts += [f"{stem}ed hotels" for stem in draw.sample(sorted(stems), 1)]
    draw.shuffle(texts)
    search = await fill(db, texts)

    for query in ("flights", "hotels", "tickets", "sunsets", "flights tickets", "hotels sunsets"):
        hits = await search(query)
        exact, forms = expected(texts, query)
        names = [name for name, _ in hits]
        assert set(names[: len(exact)]) == exact, query
        assert set(names[len(exact) :]) == forms, query
        assert len(names) == len(exact | forms)
        assert all(score <= OTHER_FORMS for _, score in hits[len(exact) :])


@PLACES
async def test_forms_elsewhere_do_not_make_one_frequent(db: Database, fill: Fill) -> None:
    search = await fill(db, ["the flights", *["a flight"] * (RARE - 1)])
    await fill(db.for_tenant("crowd"), ["a flight"] * 9)
    await Store(db).put_batch([(("elsewhere",), str(n), "a flight") for n in range(9)])

    assert len(await search("flights")) == RARE


async def test_a_hit_that_a_filter_drops_is_none(store: Store) -> None:
    await store.put(NS, "exact", {"text": "the flights", "no": 1})
    for at in range(RARE + 3):
        await store.put(NS, f"form {at}", {"text": "a flight", "no": 2})

    assert [hit.key for hit in await store.search(NS, "flights")] == ["exact"]
    others = await store.search(NS, "flights", filter={"no": 2})
    assert len(others) == RARE + 3


@pytest.mark.parametrize("limit", [1, 3, 7])
async def test_pages_of_hits_and_forms_go_on_where_the_last_one_ended(
    store: Store, limit: int
) -> None:
    await store.put_batch([(NS, f"exact {at}", "the flights") for at in range(2)])
    await store.put_batch([(NS, f"form {at}", "a flight") for at in range(RARE - 2)])

    whole = [hit.key for hit in await store.search(NS, "flights", 100)]
    assert len(whole) == RARE
    assert all(key.startswith("exact") for key in whole[:2])
    paged: list[str] = []
    while page := await store.search(NS, "flights", limit, offset=len(paged)):
        paged += [hit.key for hit in page]
    assert paged == whole
