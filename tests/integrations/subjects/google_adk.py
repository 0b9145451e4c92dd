"""ADK's services under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from memalchemy.conformance import Subject
from memalchemy.integrations.google_adk import (
    MemalchemyArtifactService,
    MemalchemyMemoryService,
    MemalchemySessionService,
)

FRAMEWORK, EXTRA = "google.adk", "google-adk"
ADAPTERS = {
    MemalchemyArtifactService: MemalchemyArtifactService,
    MemalchemyMemoryService: MemalchemyMemoryService,
    MemalchemySessionService: MemalchemySessionService,
}
OWNER: dict[str, Any] = {"app_name": "app", "user_id": "user"}


def content(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def text_of(event: Event) -> str:
    assert event.content is not None
    assert event.content.parts
    return str(event.content.parts[0].text)


async def _append(sessions: MemalchemySessionService, id_: str, text: str) -> None:
    session = await sessions.get_session(**OWNER, session_id=id_)
    if session is None:
        session = await sessions.create_session(**OWNER, session_id=id_)
    await sessions.append_event(session, Event(author="user", content=content(text)))


async def _events(sessions: MemalchemySessionService, id_: str) -> list[str]:
    session = await sessions.get_session(**OWNER, session_id=id_)
    return [] if session is None else list(map(text_of, session.events))


async def _delete(sessions: MemalchemySessionService, id_: str) -> None:
    await sessions.delete_session(**OWNER, session_id=id_)


async def _remember(memories: MemalchemyMemoryService, id_: str, text: str) -> None:
    entry = MemoryEntry(id=id_, content=content(text))
    await memories.add_memory(**OWNER, memories=[entry])


async def _memory(memories: MemalchemyMemoryService, id_: str) -> list[str]:
    found = await memories.store.get(("google_adk", "memories", "app", "user"), id_)
    return [found["text"]] if found and "text" in found else []


async def _save(artifacts: MemalchemyArtifactService, id_: str, text: str) -> None:
    await artifacts.save_artifact(**OWNER, filename=f"user:{id_}", artifact=types.Part(text=text))


async def _load(artifacts: MemalchemyArtifactService, id_: str) -> list[str]:
    part = await artifacts.load_artifact(**OWNER, filename=f"user:{id_}")
    return [] if part is None else [str(part.text)]


SUBJECTS = {
    "ADK's sessions": Subject(MemalchemySessionService, _append, _events, _delete, appends=True),
    "ADK's memories": Subject(
        MemalchemyMemoryService,
        _remember,
        _memory,
        lambda memories, id_: memories.delete_memory(**OWNER, memory_id=id_),
        appends=False,
    ),
    "ADK's artifacts": Subject(
        MemalchemyArtifactService,
        _save,
        _load,
        lambda artifacts, id_: artifacts.delete_artifact(**OWNER, filename=f"user:{id_}"),
        appends=False,
    ),
}
