"""What fits a prompt is recalled before what does not, however old and uncertain it is."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

import memalchemy
from memalchemy import (
    AnsweredByWordsWarning,
    Database,
    Episode,
    Memory,
    MemoryFact,
    MemoryType,
    Store,
    UserMemoryStore,
)

SUBJECTS = {
    "peanuts": "satay",
    "Lisbon": "home",
    "violin": "strings",
    "Volvo": "brakes",
    "cats": "pets",
    "hospital": "shift",
    "oolong": "beverage",
    "marathon": "training",
    "Japanese": "particles",
    "Ines": "sibling",
    "stamps": "postage",
    "shoes": "boots",
}
"""Words of facts, and words of prompts that mean the same."""

SAYINGS = ("The user often thinks of {}", "The user told me about {}", "{} matter to the user")
PROMPTS = ("What should the user know about {}?", "Tell the user something of {}")


class Meanings:
    """An embedder that knows the subjects, and takes all texts for a little alike."""

    def __init__(self, seed: int, noise: float = 0.25) -> None:
        self._seed, self._noise = seed, noise

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        draw = random.Random(f"{self._seed} {text}")
        vector = [1.0, *(draw.uniform(-self._noise, self._noise) for _ in SUBJECTS)]
        for at, pair in enumerate(SUBJECTS.items(), start=1):
            if any(word in text for word in pair):
                vector[at] += 1.0
        return vector


class Angles:
    """An embedder of texts such as "x0.25", at that angle to any other text."""

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        angles = [float(text[1:]) if text.startswith("x") else 0.0 for text in texts]
        return [[math.cos(angle), math.sin(angle)] for angle in angles]


def fact(memory_id: str, content: str, days: int = 0, confidence: float = 1.0) -> MemoryFact:
    seen = datetime.now(UTC) - timedelta(days=days)
    return MemoryFact(memory_id, "ada", content, confidence=confidence, last_seen_at=seen)


async def places(facts: UserMemoryStore, days: int, seed: int, *, by_words: bool) -> list[int]:
    """Return the place of the fact that fits, seen so long ago, for a prompt about each subject."""
    draw, found = random.Random(seed), []
    for wanted, meant in SUBJECTS.items():
        for subject in SUBJECTS:
            content = draw.choice(SAYINGS).format(subject)
            await facts.add(fact(subject, content, days if subject == wanted else 0))
        prompt = draw.choice(PROMPTS).format(wanted if by_words else meant)
        ids = [one.memory_id for one in await facts.search("ada", prompt, 12)]
        found.append(ids.index(wanted) + 1)
    return found


@pytest.mark.parametrize("days", [0, 60, 90, 360])
async def test_a_fact_that_fits_stands_before_eleven_newer_ones_that_do_not(
    db: Database, days: int
) -> None:
    for seed in range(2):
        words = memalchemy.UserMemoryStore(db, namespace=(f"words {seed}",))
        store = memalchemy.Store(db, embedder=Meanings(seed), model=f"{seed}")
        meaning = memalchemy.UserMemoryStore(store, namespace=(f"meaning {seed}",))
        first = [1] * len(SUBJECTS)
        assert await places(words, days, seed, by_words=True) == first
        assert await places(meaning, days, seed, by_words=False) == first
        assert await places(meaning, days, seed, by_words=True) == first


async def test_of_facts_that_fit_as_well_the_surer_comes_first(db: Database) -> None:
    words = memalchemy.UserMemoryStore(db)
    meaning = memalchemy.UserMemoryStore(memalchemy.Store(db, embedder=Meanings(0)))
    for facts in (words, meaning):
        await facts.clear("ada")
        sure = {"a": 0.4, "b": 0.9, "c": 0.1, "d": 1.0, "e": 0.6}
        for memory_id, confidence in sure.items():
            await facts.add(fact(memory_id, "likes stamps", confidence=confidence))

        found = await facts.search("ada", "stamps")
        assert [one.memory_id for one in found] == ["d", "b", "e", "a", "c"]


async def test_confidence_decides_between_facts_that_fit_almost_as_well_and_no_others(
    db: Database,
) -> None:
    facts = memalchemy.UserMemoryStore(memalchemy.Store(db, embedder=Angles()))
    draw, compared = random.Random(3), 0
    for _ in range(12):
        await facts.clear("ada")
        angles = [0.0, math.pi, *(draw.uniform(0, math.pi) for _ in range(10))]
        sure = {f"x{angle}": draw.choice((0.0, 0.3, 0.6, 1.0)) for angle in angles}
        for content, confidence in sure.items():
            await facts.add(fact(content, content, confidence=confidence))
        found = [one.content for one in await facts.search("ada", "what fits?", 12)]
        assert sorted(found) == sorted(sure)
        for first, second in itertools.combinations(found, 2):
            nearness = [(1 + math.cos(float(one[1:]))) / 2 for one in (first, second)]
            if nearness[0] < nearness[1]:
                assert sure[first] > sure[second]
                assert nearness[0] > 0.9 * nearness[1]
                compared += 1
    assert compared > 5, "confidence decided something"


async def test_words_and_meaning_both_find_what_the_other_does_not(db: Database) -> None:
    store = memalchemy.Store(db, embedder=Meanings(1, noise=0.05))
    facts = memalchemy.UserMemoryStore(store)
    for number in range(4411, 4451):
        await facts.add(fact(f"{number}", f"The user waits for order {number}"))
    for subject in SUBJECTS:
        await facts.add(fact(subject, f"The user told me about {subject}"))

    for number in range(4411, 4451):
        found = await facts.search("ada", f"Where is {number} for the user?", 1)
        assert [one.memory_id for one in found] == [f"{number}"]
    for subject, meant in SUBJECTS.items():
        found = await facts.search("ada", f"Is there news of {meant} for the user?", 1)
        assert [one.memory_id for one in found] == [subject]


@pytest.mark.parametrize("type_", MemoryType)
async def test_a_memory_that_fits_comes_first_whatever_its_type(
    db: Database, type_: MemoryType
) -> None:
    others = [one for one in MemoryType if one != type_]
    for seed, name in enumerate(("words", "meaning")):
        embedder = Meanings(seed) if name == "meaning" else None
        store = memalchemy.Store(db, embedder=embedder)
        manager = memalchemy.LLMMemoryManager(store, namespace_prefix=(name,))
        subjects = list(SUBJECTS)
        await manager.save([Memory(type_, "wanted", "The user told me about peanuts")])
        await manager.save(
            [
                Memory(others[at % len(others)], subject, f"The user told me about {subject}")
                for at, subject in enumerate(subjects[1:])
            ]
        )
        word = "satay" if name == "meaning" else "peanuts"
        (found,) = await manager.retrieve(1, query=f"What should the user know about {word}?")
        assert found.key == "wanted"


async def test_namespaces_take_turns_whatever_fits_better(db: Database) -> None:
    manager = memalchemy.LLMMemoryManager(memalchemy.Store(db, embedder=Meanings(0)))
    for name, said in (("ada", "The user thinks of shoes"), ("team", "The user likes peanuts")):
        with manager.scoped(("acme", name)):
            await manager.save([Memory(MemoryType.USER, f"{n}", f"{said} {n}") for n in range(5)])

    spaces = [("acme", "ada"), ("acme", "team")]
    found = await manager.retrieve(4, query="satay", namespaces=spaces)
    assert [one.content.split()[3][:5] for one in found] == ["of", "peanu", "of", "peanu"]


async def test_an_episode_that_fits_is_recalled_before_those_that_do_not(db: Database) -> None:
    for at, (wanted, meant) in enumerate(SUBJECTS.items()):
        namespace = ("episodes", wanted)
        episodes = memalchemy.EpisodeStore(
            db, embedder=Meanings(at), namespace=namespace, max_results=1
        )
        for subject in SUBJECTS:
            await episodes.write(Episode(task=f"The user asked me about {subject}", result="done"))

        for word in (wanted, meant):
            (found,) = await episodes.recall(f"What did the user ask about {word}?")
            assert found.task.endswith(wanted)


async def test_a_threshold_of_relevance_leaves_the_episodes_that_fit(db: Database) -> None:
    for name, embedder in (("words", None), ("meaning", Meanings(0))):
        episodes = memalchemy.EpisodeStore(db, embedder=embedder, namespace=(name,))
        for subject in SUBJECTS:
            await episodes.write(Episode(task=f"The user asked me about {subject}", result="done"))

        prompt = "What did the user ask about peanuts?"
        every = await episodes.recall(prompt)
        left = [await episodes.recall(prompt, threshold=n / 20) for n in range(21)]
        numbers = [len(found) for found in left]
        assert numbers == sorted(numbers, reverse=True)
        assert all(found == every[: len(found)] for found in left)
        assert {5, 1, 0} <= {*numbers}
        assert await episodes.recall(prompt, filter={"result": "failed"}) == []
        for wrong in (1.1, -0.1, float("nan"), "high", True):
            with pytest.raises((TypeError, ValueError), match="threshold"):
                await episodes.recall(prompt, threshold=wrong)


async def test_memories_of_another_model_are_found_by_their_words_and_a_warning_says_so(
    db: Database,
) -> None:
    old = memalchemy.UserMemoryStore(memalchemy.Store(db, embedder=Meanings(0)))
    await old.add(fact("1", "likes stamps"))
    await old.add(fact("2", "likes shoes"))
    store: Store = memalchemy.Store(db, embedder=Angles())

    with pytest.warns(AnsweredByWordsWarning, match="by words alone") as told:
        found = await memalchemy.UserMemoryStore(store).search("ada", "which stamps?")
    assert [one.memory_id for one in found] == ["1"]
    assert not any("stamps" in str(one.message) for one in told)


async def test_a_store_without_an_embedder_recalls_nothing_that_shares_no_word(
    store: Store,
) -> None:
    facts = memalchemy.UserMemoryStore(store)
    for subject in SUBJECTS:
        await facts.add(fact(subject, f"likes {subject}"))

    assert await facts.search("ada", "zeppelin") == []
