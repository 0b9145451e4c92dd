"""ADK's services under the tests of all adapters."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from memalchemy.conformance import Subject
from memalchemy.integrations.google_adk import (
    MemalchemyArtifactService,
    MemalchemyMemoryService,
    MemalchemySessionService,
)
from memalchemy.integrations.google_adk.memory import _to_entry as _stored_entry

FRAMEWORK, EXTRA = "google.adk", "google-adk"
NO_SUITE = "The sdist of google-adk has no tests of session services."
ADAPTERS = {
    MemalchemyArtifactService: MemalchemyArtifactService,
    MemalchemyMemoryService: MemalchemyMemoryService,
    MemalchemySessionService: MemalchemySessionService,
}
OWNER: dict[str, Any] = {"app_name": "app", "user_id": "user"}


def content(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def text_of(message: types.Content | None) -> str:
    assert isinstance(message, types.Content)
    assert message.parts
    return str(message.parts[0].text)


ARGUMENTS = {"events": [[Event(author="user", content=content("the stork flies"))]]}


def _session(sessions: MemalchemySessionService, id_: str) -> Awaitable[Session | None]:
    return sessions.get_session(**OWNER, session_id=id_)


async def _append(sessions: MemalchemySessionService, id_: str, text: str) -> Any:
    if id_ != id_.strip():
        raise ValueError("ADK's services remove the spaces around a session's id")
    session = await _session(sessions, id_)
    if session is None:
        session = await sessions.create_session(**OWNER, session_id=id_)
    event = Event(author="user", content=content(text))
    await sessions.append_event(session, event)
    return session, event


async def _events(sessions: MemalchemySessionService, id_: str) -> list[str]:
    session = await _session(sessions, id_)
    assert session is None or isinstance(session, Session)
    return [] if session is None else [text_of(event.content) for event in session.events]


async def _delete(sessions: MemalchemySessionService, id_: str) -> None:
    await sessions.delete_session(**OWNER, session_id=id_)


async def _remember(memories: MemalchemyMemoryService, id_: str, text: str) -> Any:
    entry = MemoryEntry(id=id_, content=content(text))
    await memories.add_memory(**OWNER, memories=[entry])
    return entry


async def _entry(memories: MemalchemyMemoryService, id_: str) -> MemoryEntry | None:
    # ADK reads memories by their words alone.
    place = (*memories.namespace, "memories", *OWNER.values())
    found = await memories.store.get(place, id_) or {}
    return _stored_entry(found) if "entry" in found else None


async def _memory(memories: MemalchemyMemoryService, id_: str) -> list[str]:
    entry = await _entry(memories, id_)
    return [] if entry is None else [text_of(entry.content)]


async def _save(artifacts: MemalchemyArtifactService, id_: str, text: str) -> Any:
    part = types.Part(text=text)
    await artifacts.save_artifact(**OWNER, filename=f"user:{id_}", artifact=part)
    return part


def _part(artifacts: MemalchemyArtifactService, id_: str) -> Awaitable[types.Part | None]:
    return artifacts.load_artifact(**OWNER, filename=f"user:{id_}")


async def _load(artifacts: MemalchemyArtifactService, id_: str) -> list[str]:
    part = await _part(artifacts, id_)
    assert part is None or isinstance(part, types.Part)
    return [] if part is None else [str(part.text)]


SUBJECTS = {
    "ADK's sessions": Subject(
        MemalchemySessionService,
        _append,
        _events,
        _delete,
        objects=_session,
        conflicts=(StaleSessionError, AlreadyExistsError),
    ),
    "ADK's memories": Subject(
        MemalchemyMemoryService,
        _remember,
        _memory,
        lambda memories, id_: memories.delete_memory(**OWNER, memory_id=id_),
        appends=False,
        objects=_entry,
    ),
    "ADK's artifacts": Subject(
        MemalchemyArtifactService,
        _save,
        _load,
        lambda artifacts, id_: artifacts.delete_artifact(**OWNER, filename=f"user:{id_}"),
        appends=False,
        objects=_part,
    ),
}
