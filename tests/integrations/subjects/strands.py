"""Strands' storage, session repository and memory store under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from memalchemy.conformance import Subject
from memalchemy.integrations.strands import (
    MemalchemyMemoryStore,
    MemalchemySessionRepository,
    MemalchemyStorage,
)

FRAMEWORK, EXTRA = "strands", "strands"
ADAPTERS: dict[Any, Any] = {
    MemalchemyMemoryStore: MemalchemyMemoryStore,
    MemalchemySessionRepository: MemalchemySessionRepository,
    MemalchemyStorage: MemalchemyStorage,
}


async def _say(sessions: MemalchemySessionRepository, id_: str, text: str) -> None:
    if await sessions.aread_session(id_) is None:
        await sessions.acreate_session(Session(id_, SessionType.AGENT))
        await sessions.acreate_agent(id_, SessionAgent("agent", {}, {}))
    index = len(await sessions.alist_messages(id_, "agent"))
    message = SessionMessage({"role": "user", "content": [{"text": text}]}, index)
    await sessions.acreate_message(id_, "agent", message)


async def _said(sessions: MemalchemySessionRepository, id_: str) -> list[str]:
    found = await sessions.alist_messages(id_, "agent")
    return [one.to_message()["content"][0]["text"] for one in found]


async def _forget(sessions: MemalchemySessionRepository, id_: str) -> None:
    await sessions.adelete_session(id_)


def _key(id_: str) -> str:
    return f"session/{id_}/scopes/agent/a/snapshots/snapshot_latest.json"


async def _read(storage: MemalchemyStorage, id_: str) -> list[str]:
    found = await storage.read(_key(id_))
    return [] if found is None else [found.decode()]


SUBJECTS = {
    "a session of Strands": Subject(MemalchemySessionRepository, _say, _said, _forget),
    "Strands' snapshots": Subject(
        MemalchemyStorage,
        lambda storage, id_, text: storage.write(_key(id_), text.encode()),
        _read,
        lambda storage, id_: storage.delete(_key(id_)),
        appends=False,
    ),
}
