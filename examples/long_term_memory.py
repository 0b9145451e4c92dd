"""An agent with long-term memory: it knows its user again, and learns from what went wrong.

    python examples/long_term_memory.py

Three kinds of memory take part: facts about the user, memories that are extracted when a session
ends, and episodes, which are tasks that were done before. `ScriptedModel` stands for a model: put
yours in its place.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memalchemy import (
    Database,
    Episode,
    EpisodeStore,
    LLMMemoryManager,
    UserMemoryStore,
)

Message = dict[str, Any]


class ScriptedModel:
    """Answers from what stands in the prompt, as a model would."""

    async def answer(self, prompt: Sequence[Message]) -> str:
        text = "\n".join(str(message["content"]) for message in prompt)
        if "vegetarian" in text and "no table without a reservation" in text:
            return "I have reserved a table at the Green Leaf, which is vegetarian."
        return "Let us go to the Golden Calf."

    async def memories(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        said = " ".join(str(m["content"]) for m in messages if m["role"] == "user")
        if "vegetarian" not in said:
            return []
        return [{"type": "user", "key": "diet", "content": "The user is vegetarian."}]


class Agent:
    """An agent for one user. Everything that it knows is in the database."""

    def __init__(self, db: Database, user: str, model: ScriptedModel) -> None:
        self.user = user
        self.model = model
        self.facts = UserMemoryStore(db)
        self.episodes = EpisodeStore(db, namespace=("episodes", user))
        self.memories = LLMMemoryManager(
            db, namespace_prefix=("users", user), extract_fn=model.memories
        )

    async def talk(self, words: str) -> str:
        """Answer *words*; a session of one turn."""
        messages: list[Message] = [{"role": "user", "content": words}]
        prompt = await self.memories.on_session_start(messages)
        prompt = await self.facts.recall(self.user, prompt)
        for episode in await self.episodes.recall(words):
            prompt = [{"role": "system", "content": str(episode)}, *prompt]
        answer = await self.model.answer(prompt)
        messages.append({"role": "assistant", "content": answer})
        await self.facts.learn(self.user, messages)
        await self.memories.on_session_end(messages)
        return answer


async def main(url: str) -> None:
    async with Database(url) as db:
        agent = Agent(db, "ada", ScriptedModel())
        print("Ada:  I'm vegetarian. Where should we have dinner?")
        print("Agent:", await agent.talk("I'm vegetarian. Where should we have dinner?"))
        await agent.episodes.write(
            Episode(task="find a restaurant for dinner", error="no table without a reservation")
        )

    print("A week later, in another process:")
    async with Database(url) as db:
        agent = Agent(db, "ada", ScriptedModel())
        print("Ada:  Find a restaurant for dinner.")
        answer = await agent.talk("Find a restaurant for dinner.")
        print("Agent:", answer)
        assert "Green Leaf" in answer

        print("What is known about Ada:")
        for fact in await agent.facts.list("ada"):
            print(f"  fact: {fact.content} (confidence {fact.confidence:.1f})")
        for memory in await agent.memories.retrieve():
            print(f"  memory: {memory.content}")

        stranger = Agent(db, "bob", ScriptedModel())
        assert "Green Leaf" not in await stranger.talk("Find a restaurant for dinner.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(f"sqlite:///{Path(directory) / 'memory.db'}"))
