"""The Pydantic AI harness' stores under the tests of all adapters."""

from __future__ import annotations

import string
from collections.abc import Awaitable
from typing import Any

from pydantic_ai_harness.memory import MemoryConflictError, MemoryFile, MemoryOperation
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    RunRecord,
    StepEvent,
    ToolEffectRecord,
)

from memalchemy.conformance import Subject
from memalchemy.integrations.pydantic_ai_harness import MemalchemyMemoryStore, MemalchemyStepStore

FRAMEWORK, EXTRA = "pydantic_ai_harness", "pydantic-ai-harness"
NO_SUITE = "The sdist of pydantic-ai-harness has no tests."
ADAPTERS = {
    MemalchemyMemoryStore: MemalchemyMemoryStore,
    MemalchemyStepStore: MemalchemyStepStore,
}

ARGUMENTS: dict[str, list[Any]] = {
    "event": [StepEvent(run_id="ada", kind="run_started", step_index=0)],
    "record": [
        RunRecord(run_id="ada"),
        ToolEffectRecord(tool_call_id="ada", tool_name="t", run_id="ada", status="started"),
    ],
    "snapshot": [ContinuableSnapshot(run_id="ada", step_index=0, messages=[])],
    "operation": [None, MemoryOperation("ada", "f")],
}


def _path(id_: str) -> str:
    """Return a path for an id: the harness takes letters, digits and a few marks alone."""
    plain = f"{string.ascii_letters}{string.digits}"
    return "".join(one if one in plain else f"_{ord(one):x}_" for one in id_)


def _file(store: MemalchemyMemoryStore, id_: str) -> Awaitable[MemoryFile | None]:
    return store.read(_path(id_), max_chars=1_000_000)


async def _version(store: MemalchemyMemoryStore, id_: str) -> str | None:
    found = await _file(store, id_)
    return None if found is None else found.version


async def _write(store: MemalchemyMemoryStore, id_: str, text: str) -> Any:
    metadata, version = {"by": "ada"}, await _version(store, id_)
    await store.write_with_metadata(_path(id_), text, expected_version=version, metadata=metadata)
    return metadata


async def _read(store: MemalchemyMemoryStore, id_: str) -> list[str]:
    found = await _file(store, id_)
    if found is None:
        return []
    assert isinstance(found, MemoryFile)
    assert found.metadata == {"by": "ada"}
    return [found.content]


async def _delete(store: MemalchemyMemoryStore, id_: str) -> None:
    await store.delete(_path(id_), expected_version=await _version(store, id_))


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
