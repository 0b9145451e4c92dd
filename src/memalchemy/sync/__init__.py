"""memalchemy without ``await``: the same classes, methods, arguments and guarantees.

with Database("sqlite:///agent.db") as db:
    checkpointer = Checkpointer(db)
    checkpointer.save({"messages": []}, "thread-1")

Each class is derived from the asynchronous one, and the stub beside this file from them: after
adding a line here, `MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py`.
"""

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
