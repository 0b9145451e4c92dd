"""One SQL schema for everything an agent remembers.

async with Database("sqlite:///agent.db") as db:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"messages": []}, "thread-1")
"""

from typing import TYPE_CHECKING

from memalchemy._lazy_imports import lazy_exports
from memalchemy._version import __version__
from memalchemy._wiring import wire
from memalchemy.contracts import (
    UNSET,
    CheckpointInfo,
    Diff,
    Entry,
    EntryHit,
    LogInfo,
    LogReading,
    NewItem,
    ReembedReport,
    Retention,
    SearchHit,
    SearchHits,
    SearchPlan,
    SemanticSearchResult,
    StoreCapabilities,
    StoreItem,
)
from memalchemy.errors import (
    AnsweredByWordsWarning,
    AuthenticationFailed,
    CapabilityMissing,
    Conflict,
    Corrupt,
    DatabaseUnreachable,
    DriverMissing,
    EmbedderFailed,
    EpisodeNotFoundError,
    KeyMissing,
    MemalchemyError,
    NotEncrypted,
    NotFound,
    NotSerialisable,
    NotSigned,
    ReadOnly,
    SchemaOutdated,
    SchemaTooNew,
    StoreCapabilityError,
    ThreadDeleted,
    TooLarge,
    UnknownURL,
)

if TYPE_CHECKING:
    from memalchemy.checkpoints import Checkpointer
    from memalchemy.collections import KeyValue, MemoryResult, ToolOutputs, VectorStore
    from memalchemy.conversations import (
        Conversation,
        ConversationStore,
        ConversationView,
        RetainedCheckpointer,
    )
    from memalchemy.database import Database
    from memalchemy.http.client import HTTPCheckpointer
    from memalchemy.memory import (
        BaseMemoryManager,
        Episode,
        EpisodeStore,
        EpisodicMemory,
        LLMMemoryManager,
        Memory,
        MemoryFact,
        MemoryScope,
        MemoryType,
        NoopMemoryManager,
        RecallMode,
        UserMemoryStore,
        remember,
    )
    from memalchemy.registry import get_checkpointer, list_checkpointers, register_checkpointer
    from memalchemy.row_decoding import decode
    from memalchemy.store import Store
    from memalchemy.store.context import NamespacedStore, StoreContext
    from memalchemy.tenants import tenant_scope
    from memalchemy.threads import ThreadLog
else:
    # What brings SQLAlchemy along is imported when it is asked for: the command line imports this
    # file before it can answer a Ctrl-C, and half a second is long enough to press it.
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "checkpoints": ("Checkpointer",),
            "collections": ("KeyValue", "MemoryResult", "ToolOutputs", "VectorStore"),
            "conversations": (
                "Conversation",
                "ConversationStore",
                "ConversationView",
                "RetainedCheckpointer",
            ),
            "database": ("Database",),
            "row_decoding": ("decode",),
            "http.client": ("HTTPCheckpointer",),
            "memory": (
                "BaseMemoryManager",
                "Episode",
                "EpisodeStore",
                "EpisodicMemory",
                "LLMMemoryManager",
                "Memory",
                "MemoryFact",
                "MemoryScope",
                "MemoryType",
                "NoopMemoryManager",
                "RecallMode",
                "UserMemoryStore",
                "remember",
            ),
            "registry": ("get_checkpointer", "list_checkpointers", "register_checkpointer"),
            "store": ("Store",),
            "store.context": ("NamespacedStore", "StoreContext"),
            "tenants": ("tenant_scope",),
            "threads": ("ThreadLog",),
        },
    )

wire(
    {
        "adapters": "memalchemy.integrations._declarations:DECLARATIONS",
        "column_types": "memalchemy.dialects.registry:find_column_types",
        "dialects": "memalchemy.dialects.registry:DIALECTS",
        "reader": "memalchemy.integrations._importers:load_reader",
    }
)

__all__ = [
    "UNSET",
    "AnsweredByWordsWarning",
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
    "EmbedderFailed",
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
    "LogInfo",
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
    "NotSigned",
    "ReadOnly",
    "RecallMode",
    "ReembedReport",
    "RetainedCheckpointer",
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
    "ToolOutputs",
    "UnknownURL",
    "UserMemoryStore",
    "VectorStore",
    "__version__",
    "decode",
    "get_checkpointer",
    "list_checkpointers",
    "register_checkpointer",
    "remember",
    "tenant_scope",
]
