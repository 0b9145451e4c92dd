"""locus' checkpointers and stores under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from locus.core.messages import Message
from locus.core.state import AgentState

from memalchemy.conformance import Subject
from memalchemy.integrations.locus import MemalchemyCheckpointer, MemalchemyStore

FRAMEWORK, EXTRA = "locus", "locus"
ADAPTERS = {MemalchemyCheckpointer: MemalchemyCheckpointer, MemalchemyStore: MemalchemyStore}
ARGUMENTS: dict[str, list[Any]] = {
    "items": [[(("animals",), "ada", {"text": "the stork flies"}, None)]],
    "namespaces": [[("animals",)]],
}


async def _save(checkpointer: MemalchemyCheckpointer, id_: str, text: str) -> Any:
    state = AgentState(messages=(Message.user(text),), metadata={"a": {"b": "c"}})
    await checkpointer.save(state=state, thread_id=id_)
    return state


async def _load(checkpointer: MemalchemyCheckpointer, id_: str) -> list[str]:
    state = await checkpointer.load(thread_id=id_)
    assert state is None or isinstance(state, AgentState)
    return [] if state is None else [str(state.messages[0].content)]


async def _put(store: MemalchemyStore, id_: str, text: str) -> Any:
    value = {"text": text}
    await store.put((id_,), id_, value)
    return value


async def _get(store: MemalchemyStore, id_: str) -> list[str]:
    found = await store.get((id_,), id_)
    return [] if found is None else [found["text"]]


SUBJECTS = {
    "locus' checkpointer": Subject(
        MemalchemyCheckpointer,
        _save,
        _load,
        lambda checkpointer, id_: checkpointer.delete(thread_id=id_),
        appends=False,
        objects=lambda checkpointer, id_: checkpointer.load(thread_id=id_),
    ),
    "locus' store": Subject(
        MemalchemyStore,
        _put,
        _get,
        lambda store, id_: store.delete((id_,), id_),
        appends=False,
        objects=lambda store, id_: store.get((id_,), id_),
    ),
}
