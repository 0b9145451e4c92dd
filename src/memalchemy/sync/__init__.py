"""memalchemy without ``await``: the same classes, methods, arguments and guarantees.

with Database("sqlite:///agent.db") as db:
    checkpointer = Checkpointer(db)
    checkpointer.save({"messages": []}, "thread-1")

Each class is derived from the asynchronous one, and the stub beside this file from them: after
adding a line here, `MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py`. What needs no
``await``, such as errors and records, is that of `memalchemy`.
"""

from importlib import import_module
from typing import Any

import memalchemy
from memalchemy import checkpoints, database, store, threads
from memalchemy.store import context
from memalchemy.sync.face import Alone, Face, LazyIterator, Root, face
from memalchemy.sync.host import HostConnection, Savepoint, Transaction

Database = face(database.Database, Root)
Checkpointer = face(checkpoints.Checkpointer)
Store = face(store.Store)
ThreadLog = face(threads.ThreadLog)
NamespacedStore = face(context.NamespacedStore)
StoreContext = face(context.StoreContext)

_LATER: tuple[dict[str, dict[str, type[Face]]], ...] = (
    {
        "collections": {"KeyValue": Face, "ToolOutputs": Face, "VectorStore": Face},
        "conversations": {
            "Conversation": Face,
            "ConversationStore": Face,
            "ConversationView": Face,
            "RetainedCheckpointer": Face,
        },
        "memory": {
            "EpisodeStore": Face,
            "EpisodicMemory": Face,
            "LLMMemoryManager": Face,
            "NoopMemoryManager": Alone,
            "UserMemoryStore": Face,
        },
    },
    {"inspection": {"Inspector": Face}},
)
"""Groups of classes that take a while to import, by their packages. One may return objects of
another of its group, so all of a group are made with the first.
"""

_ASYNCHRONOUS = {
    "BaseMemoryManager",
    "HTTPCheckpointer",
    "get_checkpointer",
    "list_checkpointers",
    "register_checkpointer",
}
"""Names of `memalchemy` that are about coroutines, and have no form without ``await`` here."""

_SHARED = (
    set(memalchemy.__all__)
    .difference(globals(), _ASYNCHRONOUS, {"__version__"})
    .difference(*(faces for group in _LATER for faces in group.values()))
)
"""Names that are those of `memalchemy`: errors, records, enums and functions of plain values."""


def __getattr__(name: str) -> Any:
    if name in _SHARED:
        return getattr(memalchemy, name)
    for group in _LATER:
        if not any(name in faces for faces in group.values()):
            continue
        for package, faces in group.items():
            module = import_module(f"memalchemy.{package}")
            globals().update({one: face(getattr(module, one), base) for one, base in faces.items()})
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Checkpointer",
    "Conversation",
    "ConversationStore",
    "ConversationView",
    "Database",
    "EpisodeStore",
    "EpisodicMemory",
    "HostConnection",
    "Inspector",
    "KeyValue",
    "LLMMemoryManager",
    "LazyIterator",
    "NamespacedStore",
    "NoopMemoryManager",
    "RetainedCheckpointer",
    "Savepoint",
    "Store",
    "StoreContext",
    "ThreadLog",
    "ToolOutputs",
    "Transaction",
    "UserMemoryStore",
    "VectorStore",
    *sorted(_SHARED),
]
