"""CrewAI's flow states, checkpoints and memories under the tests of all adapters."""

from __future__ import annotations

import json

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


async def _save(flows: MemalchemyFlowPersistence, id_: str, text: str) -> None:
    await flows.asave_state(id_, "step", {"id": id_, "said": text})


async def _load(flows: MemalchemyFlowPersistence, id_: str) -> list[str]:
    state = await flows.aload_state(id_)
    return [] if state is None else [state["said"]]


async def _checkpoint(provider: MemalchemyCheckpointProvider, id_: str, text: str) -> None:
    await provider.acheckpoint(json.dumps({"said": text}), id_)
    await provider.aprune(id_, 1)


async def _restore(provider: MemalchemyCheckpointProvider, id_: str) -> list[str]:
    ids = await provider.native.list_checkpoints(id_)
    texts = [await provider.afrom_checkpoint(f"{id_}#{one}") for one in ids]
    return [json.loads(text)["said"] for text in texts]


async def _remember(memory: MemalchemyMemoryStorage, id_: str, text: str) -> None:
    await memory.asave([MemoryRecord(id=id_, content=text, embedding=[1.0, 0.5])])


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
    ),
    "CrewAI's checkpoints": Subject(
        MemalchemyCheckpointProvider,
        _checkpoint,
        _restore,
        lambda provider, id_: provider.aprune(id_, 0),
        appends=False,
    ),
    "CrewAI's memories": Subject(
        MemalchemyMemoryStorage,
        _remember,
        _recall,
        lambda memory, id_: memory.adelete(record_ids=[id_]),
        appends=False,
    ),
}
