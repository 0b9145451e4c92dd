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
from memalchemy.sync.face import LazyIterator, Root, face
from memalchemy.sync.host import HostConnection, Savepoint, Transaction

Database = face(database.Database, Root)
Checkpointer = face(checkpoints.Checkpointer)
Store = face(store.Store)
ThreadLog = face(threads.ThreadLog)
NamespacedStore = face(context.NamespacedStore)
StoreContext = face(context.StoreContext)

__all__ = [
    "Checkpointer",
    "Conversation",
    "ConversationStore",
    "ConversationView",
    "Database",
    "HostConnection",
    "LazyIterator",
    "NamespacedStore",
    "Savepoint",
    "Store",
    "StoreContext",
    "ThreadLog",
    "Transaction",
]

# What brings pydantic along is imported when it is asked for. All at once: one gives the others.
_LATER = {
    "Conversation": "memalchemy.memory.conversation",
    "ConversationStore": "memalchemy.memory.conversation_store",
    "ConversationView": "memalchemy.memory.conversation",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = {one: face(getattr(import_module(home), one)) for one, home in _LATER.items()}
    globals().update(made)
    return made[name]
