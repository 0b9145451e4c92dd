"""One call takes a bounded share of a process that serves others too."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import memalchemy
from memalchemy import Database, Store
from memalchemy.errors import TooLarge
from memalchemy.filters import MAX_CONDITIONS, Filter
from memalchemy.search import diversity
from memalchemy.search.diversity import choose_diverse
from memalchemy.store import item_reader
from memalchemy.store.jsonl import export_items

NS = ("n",)
LARGE = {"text": "long " * 40_000}  # 200 KB, which take 50 bytes of the database


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_reader, "MAX_ANSWER_BYTES", 1_000_000)
    monkeypatch.setattr(item_reader, "BATCH_BYTES", 300_000)


async def fill(store: Store, number: int, value: Any = LARGE) -> None:
    for at in range(number):
        await store.put(NS, f"k{at}", value, {"odd": at % 2 == 1}, embedding=[1.0, at])


@pytest.mark.usefixtures("small_answers")
async def test_an_answer_of_too_many_bytes_is_refused_and_a_smaller_one_given(
    store: Store,
) -> None:
    await fill(store, 8)

    questions: list[Callable[[int], Any]] = [
        lambda limit: store.list_items(NS, limit=limit),
        lambda limit: store.list_items(NS, limit=limit, order="key", filter={"odd": False}),
        lambda limit: store.search(NS, limit=limit),
    ]
    if store.capabilities.search:
        questions.append(lambda limit: store.search(NS, "long", limit=limit))
    if store.capabilities.semantic_search:
        questions.append(lambda limit: store.search_by_embedding(NS, [1.0, 0.0], limit))
    for ask in questions:
        assert len(await ask(3)) == 3
        if "odd" not in ask.__code__.co_consts:
            with pytest.raises(TooLarge, match="smaller limit"):
                await ask(8)


@pytest.mark.usefixtures("small_answers")
async def test_what_a_filter_drops_takes_no_room(store: Store) -> None:
    await fill(store, 12)
    await store.put(NS, "small", {"text": "short"}, {"odd": None})

    (found,) = await store.list_items(NS, filter={"text": "short"}, limit=100)
    assert found.key == "small"
    (found,) = await store.list_items(NS, filter={"$metadata": {"odd": {"$nin": [True, False]}}})
    assert found.key == "small"


@pytest.mark.usefixtures("small_answers")
async def test_an_encrypted_answer_is_bounded_by_what_it_is_when_it_is_open(own_url: str) -> None:
    async with Database(own_url, keys=[base64.urlsafe_b64encode(b"k" * 32).decode()]) as db:
        store = memalchemy.Store(db)
        for at in range(8):
            await store.put(NS, f"k{at}", LARGE)

        assert len(await store.list_items(NS, limit=3)) == 3
        with pytest.raises(TooLarge, match="smaller limit"):
            await store.list_items(NS)


@pytest.mark.usefixtures("small_answers")
async def test_an_export_is_of_any_size(store: Store) -> None:
    await fill(store, 12)

    assert len([line async for line in export_items(store, NS)]) == 12


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads in which hits were chosen."""
    seen: list[threading.Thread] = []
    work = diversity.choose_diverse

    def watched(*given: Any) -> list[int]:
        seen.append(threading.current_thread())
        scores, _, _, limit = given
        assert len(scores) <= 4 * diversity.MAX_DIVERSE
        assert limit <= diversity.MAX_DIVERSE
        return work(*given)

    monkeypatch.setattr(diversity, "choose_diverse", watched)
    return seen


async def test_many_hits_that_differ_are_chosen_beside_the_loop_and_the_rest_follow(
    store: Store, threads: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diversity, "MAX_DIVERSE", 100)
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(600, 64)).astype("f4")
    for start in range(0, 600, 100):
        some = range(start, start + 100)
        await store.put_batch([(NS, f"k{at:03}", at) for at in some])
    for at, vector in enumerate(vectors):
        await store.put_embedding(NS, f"k{at:03}", vector)

    hits = await store.search(NS, mode="vector", embedding=vectors[0], mmr=0.5, limit=550)

    (used,) = threads
    assert used is not threading.main_thread()
    assert len({hit.key for hit in hits}) == 550
    assert hits[0].key == "k000"
    rest = [hit.score for hit in hits[100:]]
    assert rest == sorted(rest, key=lambda score: -(score or 0))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_hits_that_differ_are_those_of_the_definition(share: float) -> None:
    rng = np.random.default_rng(3)
    scores = [(("/n/", f"k{at}"), float(score)) for at, score in enumerate(rng.random(60))]
    pointing = {}
    for at, (place, _) in enumerate(scores):
        if at % 7:
            vector = rng.normal(size=8 if at % 3 else 5).astype("f4")
            pointing[place] = vector / np.linalg.norm(vector)

    def likeness(a: int, b: int) -> float:
        one, other = (pointing.get(scores[at][0]) for at in (a, b))
        if one is None or other is None or len(one) != len(other):
            return 0.0
        return (1 + float(one @ other)) / 2

    wanted: list[int] = []
    while len(wanted) < 40:
        left = [at for at in range(60) if at not in wanted]
        worth = {
            at: share * scores[at][1]
            - (1 - share) * max([likeness(at, taken) for taken in wanted], default=0.0)
            for at in left
        }
        wanted.append(max(left, key=lambda at: (round(worth[at], 6), -at)))
    assert choose_diverse(scores, pointing, share, 40) == wanted


def test_a_filter_of_too_many_conditions_is_refused_with_a_way_out() -> None:
    many = {"$or": [{"a": {"$gt": at}} for at in range(MAX_CONDITIONS)]}
    assert Filter.parse(many) is not None
    with pytest.raises(ValueError, match=r"over 500 conditions.*\$in"):
        Filter.parse({"$or": [many, {"a": 1}]})
    with pytest.raises(ValueError, match="over 500 conditions"):
        Filter.parse({f"f{at}": {"$not": {"$eq": at}} for at in range(MAX_CONDITIONS + 1)})
    assert Filter.parse({"a": {"$in": list(range(5_000))}}) is not None


async def test_a_long_filter_over_many_items_is_tested_beside_the_loop(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put_batch([(NS, f"k{at:03}", {"a": at}) for at in range(300)])
    used: set[threading.Thread] = set()
    work = item_reader.ItemDecoder._decode_batch

    def watched(*given: Any) -> Any:
        used.add(threading.current_thread())
        return work(*given)

    monkeypatch.setattr(item_reader.ItemDecoder, "_decode_batch", watched)
    either = {"$or": [{"a": {"$gt": 1000 + at}} for at in range(499)] + [{"a": {"$gte": 299}}]}

    assert [item.key for item in await store.list_items(NS, filter=either)] == ["k299"]
    assert used
    assert threading.main_thread() not in used
