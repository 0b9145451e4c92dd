"""What an agent remembers of its users and its work, over `Store` and the logs of threads.

Policies only: this room speaks to the features below it, never to SQL.
"""

from memalchemy.memory.extracting import extract_facts
from memalchemy.memory.facts import MemoryFact, build_memory_context
from memalchemy.memory.long_term import LLMMemoryManager
from memalchemy.memory.memories import Memory, MemoryScope, MemoryType, RunInfo, memory_block
from memalchemy.memory.remember import remember
from memalchemy.memory.sessions import (
    BaseMemoryManager,
    NoopMemoryManager,
    without_memory_blocks,
)
from memalchemy.memory.user_memory import UserMemoryStore
from memalchemy.memory.vector_store import MemoryResult, VectorStore

__all__ = [
    "BaseMemoryManager",
    "LLMMemoryManager",
    "Memory",
    "MemoryFact",
    "MemoryResult",
    "MemoryScope",
    "MemoryType",
    "NoopMemoryManager",
    "RunInfo",
    "UserMemoryStore",
    "VectorStore",
    "build_memory_context",
    "extract_facts",
    "memory_block",
    "remember",
    "without_memory_blocks",
]
