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
    Entry,
    EntryHit,
    LogReading,
    NewItem,
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
    EpisodeNotFoundError,
    KeyMissing,
    MemalchemyError,
    NotEncrypted,
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
    from memalchemy.memory.conversation import Conversation, ConversationView
    from memalchemy.memory.conversation_store import ConversationStore
    from memalchemy.memory.episodes import Episode, EpisodeStore, EpisodicMemory, RecallMode
    from memalchemy.memory.facts import MemoryFact
    from memalchemy.memory.key_value import KeyValue
    from memalchemy.memory.long_term import LLMMemoryManager
    from memalchemy.memory.memories import Memory, MemoryScope, MemoryType
    from memalchemy.memory.remembering import remember
    from memalchemy.memory.sessions import BaseMemoryManager, NoopMemoryManager
    from memalchemy.memory.user_memory import UserMemoryStore
    from memalchemy.memory.vector_store import MemoryResult, VectorStore
    from memalchemy.registry import get_checkpointer, list_checkpointers, register_checkpointer
    from memalchemy.store import Store
    from memalchemy.store.context import NamespacedStore, StoreContext
    from memalchemy.threads import ThreadLog

__all__ = [
    "UNSET",
    "AuthenticationFailed",
    "BaseMemoryManager",
    "CapabilityMissing",
    "CheckpointInfo",
    "Checkpointer",
    "Conflict",
    "Conversation",
    "ConversationStore",
    "ConversationView",
    "Corrupt",
    "Database",
    "DatabaseUnreachable",
    "Diff",
    "DriverMissing",
    "Entry",
    "EntryHit",
    "Episode",
    "EpisodeNotFoundError",
    "EpisodeStore",
    "EpisodicMemory",
    "HTTPCheckpointer",
    "KeyMissing",
    "KeyValue",
    "LLMMemoryManager",
    "LogReading",
    "MemalchemyError",
    "Memory",
    "MemoryFact",
    "MemoryResult",
    "MemoryScope",
    "MemoryType",
    "NamespacedStore",
    "NewItem",
    "NoopMemoryManager",
    "NotEncrypted",
    "NotFound",
    "NotSerialisable",
    "RecallMode",
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
    "ThreadLog",
    "TooLarge",
    "UnknownURL",
    "UserMemoryStore",
    "VectorStore",
    "__version__",
    "get_checkpointer",
    "list_checkpointers",
    "register_checkpointer",
    "remember",
]

# What brings SQLAlchemy along is imported when it is asked for: the command line imports this file
# before it can answer a Ctrl-C, and half a second is long enough to press it.
_LATER = {
    "BaseMemoryManager": "memalchemy.memory.sessions",
    "Checkpointer": "memalchemy.checkpoints",
    "Conversation": "memalchemy.memory.conversation",
    "ConversationStore": "memalchemy.memory.conversation_store",
    "ConversationView": "memalchemy.memory.conversation",
    "Database": "memalchemy.database",
    "Episode": "memalchemy.memory.episodes",
    "EpisodeStore": "memalchemy.memory.episodes",
    "EpisodicMemory": "memalchemy.memory.episodes",
    "HTTPCheckpointer": "memalchemy.http.client",
    "KeyValue": "memalchemy.memory.key_value",
    "LLMMemoryManager": "memalchemy.memory.long_term",
    "Memory": "memalchemy.memory.memories",
    "MemoryFact": "memalchemy.memory.facts",
    "MemoryResult": "memalchemy.memory.vector_store",
    "MemoryScope": "memalchemy.memory.memories",
    "MemoryType": "memalchemy.memory.memories",
    "NamespacedStore": "memalchemy.store.context",
    "NoopMemoryManager": "memalchemy.memory.sessions",
    "RecallMode": "memalchemy.memory.episodes",
    "Store": "memalchemy.store",
    "StoreContext": "memalchemy.store.context",
    "ThreadLog": "memalchemy.threads",
    "UserMemoryStore": "memalchemy.memory.user_memory",
    "VectorStore": "memalchemy.memory.vector_store",
    "get_checkpointer": "memalchemy.registry",
    "list_checkpointers": "memalchemy.registry",
    "register_checkpointer": "memalchemy.registry",
    "remember": "memalchemy.memory.remembering",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
