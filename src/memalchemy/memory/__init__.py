"""What an agent remembers of its users and its work, on the store and the logs below.

Policies only: this room speaks to the features below it, never to SQL. Names are imported when
they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_LATER = {
    "ABSENT": "key_value",
    "BaseEpisodeStore": "episodes",
    "BaseMemoryManager": "sessions",
    "Conversation": "conversation",
    "ConversationStore": "conversation_store",
    "ConversationView": "conversation",
    "Episode": "episodes",
    "EpisodeFormatMode": "episodes",
    "EpisodeStore": "episodes",
    "EpisodicMemory": "episodes",
    "KeyValue": "key_value",
    "KeyValueEntry": "key_value",
    "LLMMemoryManager": "long_term",
    "MaxResultsExceededWarning": "episodes",
    "Memory": "memories",
    "MemoryFact": "facts",
    "MemoryResult": "vector_store",
    "MemoryScope": "memories",
    "MemoryType": "memories",
    "NoopMemoryManager": "sessions",
    "RecallMode": "episodes",
    "RetainedCheckpointer": "retained",
    "RunInfo": "memories",
    "ToolExchange": "exchanges",
    "ToolOutputs": "tool_outputs",
    "UserMemoryStore": "user_memory",
    "VectorStore": "vector_store",
    "build_memory_context": "facts",
    "extract_facts": "extracting",
    "memory_block": "memories",
    "remember": "remembering",
    "without_memory_blocks": "sessions",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return value
