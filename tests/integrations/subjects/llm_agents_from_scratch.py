"""llm-agents-from-scratch's memories under the tests of all adapters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from llm_agents_from_scratch.data_structures import Episode, Task, TaskResult

from memalchemy.conformance import Subject
from memalchemy.integrations.llm_agents_from_scratch import MemalchemyMemoryStore

FRAMEWORK, EXTRA = "llm_agents_from_scratch", "llm-agents-from-scratch"
ADAPTERS = {MemalchemyMemoryStore: MemalchemyMemoryStore}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def _write(store: MemalchemyMemoryStore, id_: str, text: str) -> Any:
    result = TaskResult(task_id=id_, content="")
    task = Task(id_=id_, instruction="")
    episode = Episode(id_=id_, task=task, rollout=text, result=result, completed_at=NOON)
    await store.write(episode)
    return episode


async def _get(store: MemalchemyMemoryStore, id_: str) -> list[str]:
    found = await store.get(id_)
    assert found is None or isinstance(found, Episode)
    return [] if found is None else [found.rollout]


SUBJECTS = {
    "llm-agents' memories": Subject(
        MemalchemyMemoryStore,
        _write,
        _get,
        lambda store, id_: store.delete(id_),
        appends=False,
        objects=lambda store, id_: store.get(id_),
    )
}
