"""CrewAI's flow states, checkpoints and memories under the tests of all adapters."""

from __future__ import annotations

import json
from typing import Any

from crewai.memory.types import MemoryRecord

from memalchemy.conformance import Subject
from memalchemy.integrations.crewai import (
    MemalchemyCheckpointProvider,
    MemalchemyFlowPersistence,
    MemalchemyMemoryStorage,
)

FRAMEWORK, EXTRA = "crewai", "crewai"
ADAPTERS = {
    MemalchemyFlowPersistence: MemalchemyFlowPersistence,
    MemalchemyCheckpointProvider: MemalchemyCheckpointProvider,
    MemalchemyMemoryStorage: MemalchemyMemoryStorage,
}

ARGUMENTS: dict[str, list[Any]] = {
    "record": [MemoryRecord(id="ada", content="the stork flies", embedding=[1.0, 0.5])],
    "embedder": [lambda texts: [[0.5, 1.0]] * len(texts)],
    "scope": ["/"],
    "max_keep": [1],
}


async def _save(flows: MemalchemyFlowPersistence, id_: str, text: str) -> Any:
    state = {"id": id_, "said": [text]}
    await flows.asave_state(id_, "step", state)
    return state


async def _load(flows: MemalchemyFlowPersistence, id_: str) -> list[str]:
    state = await flows.aload_state(id_)
    return [] if state is None else state["said"]


async def _checkpoint(provider: MemalchemyCheckpointProvider, id_: str, text: str) -> None:
    await provider.acheckpoint(json.dumps({"said": text}), id_)


async def _restore(provider: MemalchemyCheckpointProvider, id_: str) -> list[str]:
    ids = await provider.native.list_checkpoints(id_, 1000)
    texts = [await provider.afrom_checkpoint(f"{id_}#{one}") for one in reversed(ids)]
    return [json.loads(text)["said"] for text in texts]


async def _remember(memory: MemalchemyMemoryStorage, id_: str, text: str) -> Any:
    record = MemoryRecord(id=id_, content=text, metadata={"a": {"b": "c"}}, embedding=[1.0, 0.5])
    await memory.asave([record])
    return record


async def _recall(memory: MemalchemyMemoryStorage, id_: str) -> list[str]:
    record = await memory.aget_record(id_)
    assert record is None or isinstance(record, MemoryRecord)
    return [] if record is None else [record.content]


SUBJECTS = {
    "CrewAI's flow states": Subject(
        MemalchemyFlowPersistence,
        _save,
        _load,
        lambda flows, id_: flows.native.delete(id_, all_namespaces=False),
        appends=False,
        objects=lambda flows, id_: flows.aload_state(id_),
    ),
    "CrewAI's checkpoints": Subject(
        MemalchemyCheckpointProvider,
        _checkpoint,
        _restore,
        lambda provider, id_: provider.aprune(id_, 0),
        objects=lambda provider, id_: provider.native.load(id_),  # its own are texts
    ),
    "CrewAI's memories": Subject(
        MemalchemyMemoryStorage,
        _remember,
        _recall,
        lambda memory, id_: memory.adelete(record_ids=[id_]),
        appends=False,
        objects=lambda memory, id_: memory.aget_record(id_),
    ),
}
