"""memalchemy without ``await``: the same classes, methods, arguments and guarantees.

with Database("sqlite:///agent.db") as db:
    checkpointer = Checkpointer(db)
    checkpointer.save({"messages": []}, "thread-1")

Each class is derived from the asynchronous one, and the stub beside this file from them: after
adding a line here, `MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py`.
"""

from importlib import import_module
from typing import Any

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

_LATER: dict[str, dict[str, type[Face]]] = {
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
}
"""Classes that take a while to import, by their packages. One may return objects of another, so all
are made with the first.
"""


def __getattr__(name: str) -> Any:
    if not any(name in faces for faces in _LATER.values()):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for package, faces in _LATER.items():
        module = import_module(f"memalchemy.{package}")
        globals().update({one: face(getattr(module, one), base) for one, base in faces.items()})
    return globals()[name]


__all__ = [
    "Checkpointer",
    "Conversation",
    "ConversationStore",
    "ConversationView",
    "Database",
    "EpisodeStore",
    "EpisodicMemory",
    "HostConnection",
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
]
