"""memalchemy without ``await``: the same classes, methods, arguments and guarantees.

with Database("sqlite:///agent.db") as db:
    checkpointer = Checkpointer(db)
    checkpointer.save({"messages": []}, "thread-1")

Each class is derived from the asynchronous one, and the stub beside this file from them: after
adding a line here, `MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py`.
"""

from memalchemy import checkpoints, database, memory, store
from memalchemy.store import context
from memalchemy.sync.face import Alone, LazyIterator, Root, face
from memalchemy.sync.host import HostConnection, Savepoint, Transaction

Database = face(database.Database, Root)
Checkpointer = face(checkpoints.Checkpointer)
Store = face(store.Store)
NamespacedStore = face(context.NamespacedStore)
StoreContext = face(context.StoreContext)
LLMMemoryManager = face(memory.LLMMemoryManager)
NoopMemoryManager = face(memory.NoopMemoryManager, Alone)
UserMemoryStore = face(memory.UserMemoryStore)
VectorStore = face(memory.VectorStore)

__all__ = [
    "Checkpointer",
    "Database",
    "HostConnection",
    "LLMMemoryManager",
    "LazyIterator",
    "NamespacedStore",
    "NoopMemoryManager",
    "Savepoint",
    "Store",
    "StoreContext",
    "Transaction",
    "UserMemoryStore",
    "VectorStore",
]
