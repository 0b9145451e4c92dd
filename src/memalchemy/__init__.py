"""One SQL schema for everything an agent remembers.

async with Database("sqlite:///agent.db") as db:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"messages": []}, "thread-1")
"""

from memalchemy._version import __version__
from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import UNSET, CheckpointInfo, Diff, Retention
from memalchemy.database import Database
from memalchemy.errors import (
    AuthenticationFailed,
    CapabilityMissing,
    Conflict,
    Corrupt,
    DatabaseUnreachable,
    DriverMissing,
    MemalchemyError,
    NotFound,
    NotSerialisable,
    SchemaOutdated,
    SchemaTooNew,
    ThreadDeleted,
    TooLarge,
    UnknownURL,
)

__all__ = [
    "UNSET",
    "AuthenticationFailed",
    "CapabilityMissing",
    "CheckpointInfo",
    "Checkpointer",
    "Conflict",
    "Corrupt",
    "Database",
    "DatabaseUnreachable",
    "Diff",
    "DriverMissing",
    "MemalchemyError",
    "NotFound",
    "NotSerialisable",
    "Retention",
    "SchemaOutdated",
    "SchemaTooNew",
    "ThreadDeleted",
    "TooLarge",
    "UnknownURL",
    "__version__",
]
