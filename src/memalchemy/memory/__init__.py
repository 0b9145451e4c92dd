"""Long-term memory: what an agent remembers of its users and its work across conversations.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from memalchemy._lazy_imports import lazy_exports

if TYPE_CHECKING:
    from memalchemy.collections import ABSENT, KeyValueEntry
    from memalchemy.conversations import ToolExchange
    from memalchemy.memory._fact_extraction import extract_facts
    from memalchemy.memory._keyword_extraction import keyword_memories
    from memalchemy.memory.decorator import remember
    from memalchemy.memory.episodes import (
        BaseEpisodeStore,
        Episode,
        EpisodeFormatMode,
        EpisodeStore,
        EpisodicMemory,
        MaxResultsExceededWarning,
        RecallMode,
    )
    from memalchemy.memory.facts import MemoryFact, build_memory_context
    from memalchemy.memory.long_term import LLMMemoryManager
    from memalchemy.memory.manager import (
        BaseMemoryManager,
        NoopMemoryManager,
        without_memory_blocks,
    )
    from memalchemy.memory.memories import Memory, MemoryScope, MemoryType, RunInfo, memory_block
    from memalchemy.memory.user_memory import UserMemoryStore
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            ".collections": ("ABSENT", "KeyValueEntry"),
            ".conversations": ("ToolExchange",),
            "_fact_extraction": ("extract_facts",),
            "_keyword_extraction": ("keyword_memories",),
            "decorator": ("remember",),
            "episodes": (
                "BaseEpisodeStore",
                "Episode",
                "EpisodeFormatMode",
                "EpisodeStore",
                "EpisodicMemory",
                "MaxResultsExceededWarning",
                "RecallMode",
            ),
            "facts": ("MemoryFact", "build_memory_context"),
            "long_term": ("LLMMemoryManager",),
            "manager": ("BaseMemoryManager", "NoopMemoryManager", "without_memory_blocks"),
            "memories": ("Memory", "MemoryScope", "MemoryType", "RunInfo", "memory_block"),
            "user_memory": ("UserMemoryStore",),
        },
    )

__all__ = [
    "ABSENT",
    "BaseEpisodeStore",
    "BaseMemoryManager",
    "Episode",
    "EpisodeFormatMode",
    "EpisodeStore",
    "EpisodicMemory",
    "KeyValueEntry",
    "LLMMemoryManager",
    "MaxResultsExceededWarning",
    "Memory",
    "MemoryFact",
    "MemoryScope",
    "MemoryType",
    "NoopMemoryManager",
    "RecallMode",
    "RunInfo",
    "ToolExchange",
    "UserMemoryStore",
    "build_memory_context",
    "extract_facts",
    "keyword_memories",
    "memory_block",
    "remember",
    "without_memory_blocks",
]
