"""memalchemy without ``await``: the same classes, methods, arguments and guarantees.

with Database("sqlite:///agent.db") as db:
    checkpointer = Checkpointer(db)
    checkpointer.save({"messages": []}, "thread-1")

Each class is derived from the asynchronous one, and the stub beside this file from them: after
adding a line here, `MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py`.
"""

from memalchemy import checkpoints, database
from memalchemy.sync.face import LazyIterator, Root, face
from memalchemy.sync.host import HostConnection, Savepoint, Transaction

Database = face(database.Database, Root)
Checkpointer = face(checkpoints.Checkpointer)

__all__ = [
    "Checkpointer",
    "Database",
    "HostConnection",
    "LazyIterator",
    "Savepoint",
    "Transaction",
]
