"""The OpenAI Agents SDK's sessions and run states under the tests of all adapters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from agents import Agent, RunContextWrapper, Usage
from agents.run_state import RunState

from memalchemy.conformance import Subject
from memalchemy.integrations.openai_agents import (
    MemalchemyRunStates,
    MemalchemySession,
    MemalchemySessions,
)

FRAMEWORK, EXTRA = "agents", "openai-agents"
ADAPTERS: dict[Any, Any] = {
    MemalchemyRunStates: MemalchemyRunStates,
    MemalchemySession: lambda *db: MemalchemySession("s", *db),
    MemalchemySessions: MemalchemySessions,
}

AGENT: Agent[Any] = Agent(name="a")
RUN = SimpleNamespace(context_wrapper=SimpleNamespace(usage=Usage(requests=1, input_tokens=2)))
ARGUMENTS: dict[str, list[Any]] = {
    "agent": [AGENT],
    "state": [RunState(RunContextWrapper(context=None), "the stork flies", AGENT)],
    "result": [RUN],
}


async def _add(sessions: MemalchemySessions, id_: str, text: str) -> Any:
    items: list[Any] = [{"role": "user", "content": text}]
    await sessions.session(id_).add_items(items)
    return items


async def _items(sessions: MemalchemySessions, id_: str) -> list[str]:
    items: list[Any] = await sessions.session(id_).get_items()
    return [item["content"] for item in items]


SUBJECTS = {
    "a session of OpenAI's": Subject(
        MemalchemySessions,
        _add,
        _items,
        lambda sessions, id_: sessions.delete(id_),
        objects=lambda sessions, id_: sessions.session(id_).get_items(),
    )
}
