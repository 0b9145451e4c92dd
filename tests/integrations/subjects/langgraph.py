"""LangGraph's savers and stores under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import empty_checkpoint

from memalchemy.conformance import Subject
from memalchemy.integrations.langgraph import MemalchemySaver, MemalchemyStore

FRAMEWORK, EXTRA = "langgraph", "langgraph"
ADAPTERS = {MemalchemySaver: MemalchemySaver, MemalchemyStore: MemalchemyStore}
ARGUMENTS: dict[str, list[Any]] = {
    "channels": [["text"]],
    "writes": [[("text", "the stork flies")]],
}


def _config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


async def _save(saver: MemalchemySaver, id_: str, text: str) -> Any:
    before = await saver.aget_tuple(_config(id_))
    versions: Any = {} if before is None else before.checkpoint["channel_versions"]
    version = saver.get_next_version(versions.get("text"), None)
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"text": text}
    checkpoint["channel_versions"] = {"text": version}
    parent = _config(id_) if before is None else before.config
    metadata: Any = {}
    await saver.aput(parent, checkpoint, metadata, {"text": version})
    return checkpoint, metadata


async def _load(saver: MemalchemySaver, id_: str) -> list[str]:
    found = await saver.aget_tuple(_config(id_))
    return [] if found is None else [found.checkpoint["channel_values"]["text"]]


async def _put(store: MemalchemyStore, id_: str, text: str) -> Any:
    value = {"text": text}
    await store.aput((id_,), id_, value)
    return value


async def _objects(store: MemalchemyStore, id_: str) -> Any:
    item = await store.aget((id_,), id_)
    return None if item is None else item.value


async def _get(store: MemalchemyStore, id_: str) -> list[str]:
    item = await store.aget((id_,), id_)
    return [] if item is None else [item.value["text"]]


SUBJECTS = {
    "LangGraph's saver": Subject(
        MemalchemySaver,
        _save,
        _load,
        lambda saver, id_: saver.adelete_thread(id_),
        appends=False,
        objects=lambda saver, id_: saver.aget_tuple(_config(id_)),
    ),
    "LangGraph's store": Subject(
        MemalchemyStore,
        _put,
        _get,
        lambda store, id_: store.adelete((id_,), id_),
        appends=False,
        objects=_objects,
    ),
}
