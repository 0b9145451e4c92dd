"""The Pydantic AI harness' stores under the tests of all adapters."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from pydantic_ai_harness.memory import MemoryConflictError, MemoryFile

from memalchemy.conformance import Subject
from memalchemy.integrations.pydantic_ai_harness import MemalchemyMemoryStore, MemalchemyStepStore

FRAMEWORK, EXTRA = "pydantic_ai_harness", "pydantic-ai-harness"
ADAPTERS = {
    MemalchemyMemoryStore: MemalchemyMemoryStore,
    MemalchemyStepStore: MemalchemyStepStore,
}


async def _version(store: MemalchemyMemoryStore, path: str) -> str | None:
    found = await store.read(path, max_chars=1)
    return None if found is None else found.version


async def _write(store: MemalchemyMemoryStore, path: str, text: str) -> Any:
    metadata = {"by": "ada"}
    await store.write_with_metadata(
        path, text, expected_version=await _version(store, path), metadata=metadata
    )
    return metadata


def _file(store: MemalchemyMemoryStore, path: str) -> Awaitable[MemoryFile | None]:
    return store.read(path, max_chars=1_000_000)


async def _read(store: MemalchemyMemoryStore, path: str) -> list[str]:
    found = await _file(store, path)
    if found is None:
        return []
    assert isinstance(found, MemoryFile)
    assert found.metadata == {"by": "ada"}
    return [found.content]


async def _delete(store: MemalchemyMemoryStore, path: str) -> None:
    await store.delete(path, expected_version=await _version(store, path))


SUBJECTS = {
    "a memory file of the Pydantic AI harness": Subject(
        MemalchemyMemoryStore,
        _write,
        _read,
        _delete,
        appends=False,
        objects=_file,
        conflicts=(MemoryConflictError,),
    )
}
