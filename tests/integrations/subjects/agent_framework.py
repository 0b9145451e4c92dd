"""The Agent Framework's histories, sessions and checkpoints under the tests of all adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_framework import (
    AgentSession,
    Message,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
)

from memalchemy.conformance import Subject
from memalchemy.integrations.agent_framework import (
    MemalchemyCheckpointStorage,
    MemalchemyHistoryProvider,
    MemalchemySessionStore,
)

FRAMEWORK, EXTRA = "agent_framework", "agent-framework"
NO_SUITE = "The sdist of agent-framework-core has no tests."
ADAPTERS: dict[Any, Any] = {
    MemalchemyCheckpointStorage: MemalchemyCheckpointStorage,
    MemalchemyHistoryProvider: MemalchemyHistoryProvider,
    MemalchemySessionStore: MemalchemySessionStore,
}


def _attributes(messages: Sequence[Message]) -> Any:
    return [(vars(one), [*map(vars, one.contents)], one.contents) for one in messages]


async def _say(history: MemalchemyHistoryProvider, id_: str, text: str) -> Any:
    messages = [Message("user", [text], additional_properties={"a": {"b": "c"}})]
    await history.save_messages(id_, messages)
    return messages, _attributes(messages)


async def _objects(history: MemalchemyHistoryProvider, id_: str) -> Any:
    return _attributes(await history.get_messages(id_))


async def _said(history: MemalchemyHistoryProvider, id_: str) -> list[str]:
    found = await history.get_messages(id_)
    assert all(type(one) is Message for one in found)
    return [one.text for one in found]


async def _keep(store: MemalchemySessionStore, id_: str, text: str) -> Any:
    session = AgentSession(session_id=id_)
    session.state |= {"text": text, "a": {"b": ["c"]}}
    await store.set(id_, session)
    return vars(session)


async def _session(store: MemalchemySessionStore, id_: str) -> Any:
    found = await store.get(id_)
    return None if found is None else vars(found)


async def _kept(store: MemalchemySessionStore, id_: str) -> list[str]:
    found = await store.get(id_)
    assert found is None or isinstance(found, AgentSession)
    return [] if found is None else [found.state["text"]]


async def _save(storage: MemalchemyCheckpointStorage, id_: str, text: str) -> Any:
    checkpoint = WorkflowCheckpoint(id_, "hash", state={"text": text, "a": {"b": ["c"]}})
    await storage.save(checkpoint)
    return checkpoint


async def _saved(storage: MemalchemyCheckpointStorage, id_: str) -> list[str]:
    found = await storage.list_checkpoints(workflow_name=id_)
    assert all(isinstance(one, WorkflowCheckpoint) for one in found)
    return [one.state["text"] for one in found]


async def _delete(storage: MemalchemyCheckpointStorage, id_: str) -> None:
    for one in await storage.list_checkpoint_ids(workflow_name=id_):
        await storage.delete(one)


SUBJECTS: dict[str, Subject[Any]] = {
    "a history of the Agent Framework": Subject(
        MemalchemyHistoryProvider,
        _say,
        _said,
        lambda history, id_: history.clear(id_),
        objects=_objects,
    ),
    "a session of the Agent Framework": Subject(
        MemalchemySessionStore,
        _keep,
        _kept,
        lambda store, id_: store.delete(id_),
        appends=False,
        objects=_session,
    ),
    "checkpoints of the Agent Framework": Subject(
        MemalchemyCheckpointStorage,
        _save,
        _saved,
        _delete,
        objects=lambda storage, id_: storage.list_checkpoints(workflow_name=id_),
        refusals=(WorkflowCheckpointException,),
    ),
}
