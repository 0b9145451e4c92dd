"""What an agent remembers of its users and its work, on the store and the logs below.

Policies only: this room speaks to the features below it, never to SQL. Names are imported when
they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memalchemy.memory.extracting import extract_facts
    from memalchemy.memory.facts import MemoryFact, build_memory_context
    from memalchemy.memory.long_term import LLMMemoryManager
    from memalchemy.memory.memories import Memory, MemoryScope, MemoryType, RunInfo, memory_block
    from memalchemy.memory.remembering import remember
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

_LATER = {
    "BaseMemoryManager": "sessions",
    "LLMMemoryManager": "long_term",
    "Memory": "memories",
    "MemoryFact": "facts",
    "MemoryResult": "vector_store",
    "MemoryScope": "memories",
    "MemoryType": "memories",
    "NoopMemoryManager": "sessions",
    "RunInfo": "memories",
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
