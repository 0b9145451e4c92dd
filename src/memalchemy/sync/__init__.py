"""memalchemy without ``await``: the same classes, methods, arguments and guarantees.

with Database("sqlite:///agent.db") as db:
    checkpointer = Checkpointer(db)
    checkpointer.save({"messages": []}, "thread-1")

Each class is derived from the asynchronous one, and the stub beside this file from them: after
adding a line here, `MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py`. What needs no
``await``, such as errors and records, is that of `memalchemy`.
"""

from importlib import import_module
from typing import Any

from memalchemy import checkpoints, database, store, threads
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
from memalchemy.store import context
from memalchemy.sync.face import Alone, Face, LazyIterator, Root, face
from memalchemy.sync.host import HostConnection, Savepoint, Transaction

Database = face(database.Database, Root)
Checkpointer = face(checkpoints.Checkpointer)
Store = face(store.Store)
ThreadLog = face(threads.ThreadLog)
NamespacedStore = face(context.NamespacedStore)
StoreContext = face(context.StoreContext)

_LATER: tuple[dict[str, dict[str, type[Face]]], ...] = (
    {
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
    },
    {"inspection": {"Inspector": Face}},
    {"analysis": {"Analysis": Face}},
)
"""Groups of classes that take a while to import, by their packages. One may return objects of
another of its group, so all of a group are made with the first.
"""

_SHARED_LATER = {
    "collections": ("MemoryResult",),
    "memory": (
        "Episode",
        "Memory",
        "MemoryFact",
        "MemoryScope",
        "MemoryType",
        "RecallMode",
        "remember",
    ),
    "row_decoding": ("decode",),
    "tenants": ("tenant_scope",),
}
"""Names that are those of `memalchemy`, as the errors and records above are, by their modules."""


def __getattr__(name: str) -> Any:
    for package, names in _SHARED_LATER.items():
        if name in names:
            return getattr(import_module(f"memalchemy.{package}"), name)
    for group in _LATER:
        if not any(name in faces for faces in group.values()):
            continue
        for package, faces in group.items():
            module = import_module(f"memalchemy.{package}")
            globals().update({one: face(getattr(module, one), base) for one, base in faces.items()})
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "UNSET",
    "Analysis",
    "AnsweredByWordsWarning",
    "AuthenticationFailed",
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
    "HostConnection",
    "Inspector",
    "KeyMissing",
    "KeyValue",
    "LLMMemoryManager",
    "LazyIterator",
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
    "Savepoint",
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
    "Transaction",
    "UnknownURL",
    "UserMemoryStore",
    "VectorStore",
    "decode",
    "remember",
    "tenant_scope",
]
