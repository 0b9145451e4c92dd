"""Strands' storage, session repository and memory store under the tests of all adapters."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from strands.types.exceptions import SessionException, StorageError
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from memalchemy import NotFound, TooLarge
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

GROUP = SimpleNamespace(id="ada", serialize_state=lambda: {"n": 1})
ARGUMENTS: dict[str, list[Any]] = {
    "multi_agent": [GROUP],
    "messages": [[{"role": "user", "content": [{"text": "the stork flies"}]}]],
}


async def _say(sessions: MemalchemySessionRepository, id_: str, text: str) -> Any:
    try:
        if await sessions.aread_session(id_) is None:
            await sessions.acreate_session(Session(id_, SessionType.AGENT))
        if await sessions.aread_agent(id_, "agent") is None:
            await sessions.acreate_agent(id_, SessionAgent("agent", {}, {}))
        index = len(await _messages(sessions, id_))
        message = SessionMessage({"role": "user", "content": [{"text": text}]}, index)
        await sessions.acreate_message(id_, "agent", message)
    except SessionException as error:
        # Strands has one exception for an id that is refused and for one that exists by now.
        if isinstance(error.__cause__, TooLarge):
            raise error.__cause__ from None
        raise
    return message


def _messages(sessions: MemalchemySessionRepository, id_: str) -> Any:
    return sessions.alist_messages(id_, "agent")


async def _said(sessions: MemalchemySessionRepository, id_: str) -> list[str]:
    found = await _messages(sessions, id_)
    assert all(isinstance(one, SessionMessage) for one in found)
    return [one.to_message()["content"][0]["text"] for one in found]


async def _forget(sessions: MemalchemySessionRepository, id_: str) -> None:
    try:
        await sessions.adelete_session(id_)
    except SessionException as error:
        # Strands has no exception of its own for a session that is not there.
        if error.__cause__ is None:
            raise NotFound(str(error)) from None
        raise


def _check(id_: str) -> str:
    if "//" in id_ or id_.endswith("/"):
        raise ValueError("Strands' storages leave empty parts of keys out")
    return id_


def _snapshot(id_: str) -> str:
    return f"session/{_check(id_)}/scopes/agent/a/snapshots/snapshot_latest.json"


def _subject(key: Callable[[str], str]) -> Subject[MemalchemyStorage]:
    async def write(storage: MemalchemyStorage, id_: str, text: str) -> Any:
        data = bytearray(text.encode())
        await storage.write(key(id_), data)
        return data

    async def read(storage: MemalchemyStorage, id_: str) -> list[str]:
        found = await storage.read(key(id_))
        return [] if found is None else [found.decode()]

    return Subject(
        MemalchemyStorage,
        write,
        read,
        lambda storage, id_: storage.delete(key(id_)),
        appends=False,
        refusals=(StorageError, ValueError),
    )


SUBJECTS = {
    "a session of Strands": Subject(
        MemalchemySessionRepository,
        _say,
        _said,
        _forget,
        objects=_messages,
        conflicts=(SessionException,),
    ),
    "Strands' snapshots": _subject(_snapshot),
    "Strands' storage": _subject(_check),
}
