"""Facts, memories and episodes are found by a prompt in any language as often as in English."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from remembered_facts import FACTS

import memalchemy
from memalchemy import Database, Episode, Memory, MemoryType

Remember = Callable[[str], Awaitable[None]]
Recall = Callable[[str], Awaitable[list[str]]]
Ways = Callable[[Database], tuple[Remember, Recall]]


def as_facts(db: Database) -> tuple[Remember, Recall]:
    facts = memalchemy.UserMemoryStore(db)

    async def remember(text: str) -> None:
        await facts.add("ada", text)

    async def recall(prompt: str) -> list[str]:
        return [fact.content for fact in await facts.search("ada", prompt)]

    return remember, recall


def as_memories(db: Database) -> tuple[Remember, Recall]:
    manager = memalchemy.LLMMemoryManager(db)

    async def remember(text: str) -> None:
        await manager.save([Memory(MemoryType.USER, text, text)])

    async def recall(prompt: str) -> list[str]:
        return [memory.content for memory in await manager.retrieve(query=prompt)]

    return remember, recall


def as_episodes(db: Database) -> tuple[Remember, Recall]:
    episodes = memalchemy.EpisodeStore(db)

    async def remember(text: str) -> None:
        await episodes.write(Episode(task=text, result="ok"))

    async def recall(prompt: str) -> list[str]:
        return [episode.task for episode in await episodes.recall(prompt)]

    return remember, recall


@pytest.mark.parametrize("language", FACTS)
@pytest.mark.parametrize("ways", [as_facts, as_memories, as_episodes])
async def test_nine_of_ten_prompts_find_their_fact_in_one_of_the_first_two_places(
    db: Database, ways: Ways, language: str
) -> None:
    remember, recall = ways(db)
    for text, _ in FACTS[language]:
        await remember(text)

    first = [text in (await recall(prompt))[:1] for text, prompt in FACTS[language]]
    second = [text in (await recall(prompt))[:2] for text, prompt in FACTS[language]]
    assert sum(first) >= 7
    assert sum(second) >= 9


@pytest.mark.parametrize("language", FACTS)
async def test_what_is_recalled_for_a_prompt_holds_the_fact_among_those_of_other_languages(
    db: Database, language: str
) -> None:
    facts = memalchemy.UserMemoryStore(db)
    for pairs in FACTS.values():
        for text, _ in pairs:
            await facts.add("ada", text)

    held = []
    for text, prompt in FACTS[language]:
        said = await facts.recall("ada", [{"role": "user", "content": prompt}], top_k=3)
        held.append(text in said[1]["content"])
    assert sum(held) >= 9
