"""The Claude Agent SDK's transcripts under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from memalchemy.conformance import Subject
from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

FRAMEWORK, EXTRA = "claude_agent_sdk", "claude-agent-sdk"
ADAPTERS = {MemalchemySessionStore: MemalchemySessionStore}


def _key(id_: str) -> Any:
    return {"project_key": "project", "session_id": id_}


async def _append(store: MemalchemySessionStore, id_: str, text: str) -> Any:
    lines: Any = [{"type": "user", "message": {"role": "user", "content": text}}]
    await store.append(_key(id_), lines)
    return lines


async def _load(store: MemalchemySessionStore, id_: str) -> list[str]:
    lines: Any = await store.load(_key(id_)) or []
    return [line["message"]["content"] for line in lines]


SUBJECTS = {
    "a transcript of Claude's": Subject(
        MemalchemySessionStore,
        _append,
        _load,
        lambda store, id_: store.delete(_key(id_)),
        objects=lambda store, id_: store.load(_key(id_)),
    )
}
