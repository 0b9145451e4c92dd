"""What an agent remembers of its users and its work, on the store and the logs below.

Policies only: this room speaks to the features below it, never to SQL. Names are imported when
they are asked for.
"""

from typing import TYPE_CHECKING

from memalchemy._later import later

if TYPE_CHECKING:
    from memalchemy.memory.conversation import Conversation, ConversationView
    from memalchemy.memory.conversation_store import ConversationStore
    from memalchemy.memory.episodes import (
        BaseEpisodeStore,
        Episode,
        EpisodeFormatMode,
        EpisodeStore,
        EpisodicMemory,
        MaxResultsExceededWarning,
        RecallMode,
    )
    from memalchemy.memory.exchanges import ToolExchange
    from memalchemy.memory.extracting import extract_facts
    from memalchemy.memory.facts import MemoryFact, build_memory_context
    from memalchemy.memory.key_value import ABSENT, KeyValue, KeyValueEntry
    from memalchemy.memory.long_term import LLMMemoryManager
    from memalchemy.memory.memories import Memory, MemoryScope, MemoryType, RunInfo, memory_block
    from memalchemy.memory.remembering import remember
    from memalchemy.memory.retained import RetainedCheckpointer
    from memalchemy.memory.sessions import (
        BaseMemoryManager,
        NoopMemoryManager,
        without_memory_blocks,
    )
    from memalchemy.memory.tool_outputs import ToolOutputs
    from memalchemy.memory.user_memory import UserMemoryStore
    from memalchemy.memory.vector_store import MemoryResult, VectorStore
else:
    __getattr__, __dir__ = later(
        __name__,
        {
            "conversation": ("Conversation", "ConversationView"),
            "conversation_store": ("ConversationStore",),
            "episodes": (
                "BaseEpisodeStore",
                "Episode",
                "EpisodeFormatMode",
                "EpisodeStore",
                "EpisodicMemory",
                "MaxResultsExceededWarning",
                "RecallMode",
            ),
            "exchanges": ("ToolExchange",),
            "extracting": ("extract_facts",),
            "facts": ("MemoryFact", "build_memory_context"),
            "key_value": ("ABSENT", "KeyValue", "KeyValueEntry"),
            "long_term": ("LLMMemoryManager",),
            "memories": ("Memory", "MemoryScope", "MemoryType", "RunInfo", "memory_block"),
            "remembering": ("remember",),
            "retained": ("RetainedCheckpointer",),
            "sessions": ("BaseMemoryManager", "NoopMemoryManager", "without_memory_blocks"),
            "tool_outputs": ("ToolOutputs",),
            "user_memory": ("UserMemoryStore",),
            "vector_store": ("MemoryResult", "VectorStore"),
        },
    )

__all__ = [
    "ABSENT",
    "BaseEpisodeStore",
    "BaseMemoryManager",
    "Conversation",
    "ConversationStore",
    "ConversationView",
    "Episode",
    "EpisodeFormatMode",
    "EpisodeStore",
    "EpisodicMemory",
    "KeyValue",
    "KeyValueEntry",
    "LLMMemoryManager",
    "MaxResultsExceededWarning",
    "Memory",
    "MemoryFact",
    "MemoryResult",
    "MemoryScope",
    "MemoryType",
    "NoopMemoryManager",
    "RecallMode",
    "RetainedCheckpointer",
    "RunInfo",
    "ToolExchange",
    "ToolOutputs",
    "UserMemoryStore",
    "VectorStore",
    "build_memory_context",
    "extract_facts",
    "memory_block",
    "remember",
    "without_memory_blocks",
]
