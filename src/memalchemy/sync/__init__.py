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

_LATER: dict[str, type[Face]] = {
    "Conversation": Face,
    "ConversationStore": Face,
    "ConversationView": Face,
    "EpisodeStore": Face,
    "EpisodicMemory": Face,
    "KeyValue": Face,
    "LLMMemoryManager": Face,
    "NoopMemoryManager": Alone,
    "RetainedCheckpointer": Face,
    "ToolOutputs": Face,
    "UserMemoryStore": Face,
    "VectorStore": Face,
}
"""Classes of `memalchemy.memory`, which take a while to import. One may give another's objects, so
all are made with the first.
"""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    memory = import_module("memalchemy.memory")
    globals().update({one: face(getattr(memory, one), base) for one, base in _LATER.items()})
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
