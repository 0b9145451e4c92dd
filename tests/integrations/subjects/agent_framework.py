"""The Agent Framework's histories, sessions and checkpoints under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from agent_framework import AgentSession, Message, WorkflowCheckpoint

from memalchemy.conformance import Subject
from memalchemy.integrations.agent_framework import (
    MemalchemyCheckpointStorage,
    MemalchemyHistoryProvider,
    MemalchemySessionStore,
)

FRAMEWORK, EXTRA = "agent_framework", "agent-framework"
ADAPTERS: dict[Any, Any] = {
    MemalchemyCheckpointStorage: MemalchemyCheckpointStorage,
    MemalchemyHistoryProvider: MemalchemyHistoryProvider,
    MemalchemySessionStore: MemalchemySessionStore,
}


async def _say(history: MemalchemyHistoryProvider, id_: str, text: str) -> None:
    await history.save_messages(id_, [Message("user", [text])])


async def _said(history: MemalchemyHistoryProvider, id_: str) -> list[str]:
    found = await history.get_messages(id_)
    assert all(type(one) is Message for one in found)
    return [one.text for one in found]


async def _keep(store: MemalchemySessionStore, id_: str, text: str) -> None:
    session = AgentSession(session_id=id_)
    session.state["text"] = text
    await store.set(id_, session)


async def _kept(store: MemalchemySessionStore, id_: str) -> list[str]:
    found = await store.get(id_)
    return [] if found is None else [found.state["text"]]


async def _save(storage: MemalchemyCheckpointStorage, id_: str, text: str) -> None:
    await storage.save(WorkflowCheckpoint(id_, "hash", state={"text": text}))


async def _saved(storage: MemalchemyCheckpointStorage, id_: str) -> list[str]:
    found = await storage.list_checkpoints(workflow_name=id_)
    return [one.state["text"] for one in found]


async def _delete(storage: MemalchemyCheckpointStorage, id_: str) -> None:
    for one in await storage.list_checkpoint_ids(workflow_name=id_):
        await storage.delete(one)


SUBJECTS: dict[str, Subject[Any]] = {
    "a history of the Agent Framework": Subject(
        MemalchemyHistoryProvider, _say, _said, lambda history, id_: history.clear(id_)
    ),
    "a session of the Agent Framework": Subject(
        MemalchemySessionStore,
        _keep,
        _kept,
        lambda store, id_: store.delete(id_),
        appends=False,
    ),
    "checkpoints of the Agent Framework": Subject(
        MemalchemyCheckpointStorage, _save, _saved, _delete
    ),
}
