"""One SQL schema for everything an agent remembers.

async with Database("sqlite:///agent.db") as db:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"messages": []}, "thread-1")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memalchemy._version import __version__
from memalchemy.contracts import (
    UNSET,
    CheckpointInfo,
    Diff,
    Retention,
    SearchHit,
    SearchHits,
    SearchPlan,
    SemanticSearchResult,
    StoreCapabilities,
    StoreCapabilityError,
    StoreItem,
)
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

if TYPE_CHECKING:
    from memalchemy.checkpoints import Checkpointer
    from memalchemy.database import Database
    from memalchemy.http.client import HTTPCheckpointer
    from memalchemy.registry import get_checkpointer, list_checkpointers, register_checkpointer
    from memalchemy.store import Store
    from memalchemy.store.context import NamespacedStore, StoreContext

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
    "HTTPCheckpointer",
    "MemalchemyError",
    "NamespacedStore",
    "NotFound",
    "NotSerialisable",
    "Retention",
    "SchemaOutdated",
    "SchemaTooNew",
    "SearchHit",
    "SearchHits",
    "SearchPlan",
    "SemanticSearchResult",
    "Store",
    "StoreCapabilities",
    "StoreCapabilityError",
    "StoreContext",
    "StoreItem",
    "ThreadDeleted",
    "TooLarge",
    "UnknownURL",
    "__version__",
    "get_checkpointer",
    "list_checkpointers",
    "register_checkpointer",
]

# What brings SQLAlchemy along is imported when it is asked for: the command line imports this file
# before it can answer a Ctrl-C, and half a second is long enough to press it.
_LATER = {
    "Checkpointer": "memalchemy.checkpoints",
    "Database": "memalchemy.database",
    "HTTPCheckpointer": "memalchemy.http.client",
    "NamespacedStore": "memalchemy.store.context",
    "Store": "memalchemy.store",
    "StoreContext": "memalchemy.store.context",
    "get_checkpointer": "memalchemy.registry",
    "list_checkpointers": "memalchemy.registry",
    "register_checkpointer": "memalchemy.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
