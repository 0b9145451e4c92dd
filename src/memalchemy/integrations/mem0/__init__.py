"""Memories of mem0, and the history of their changes.

from memalchemy.integrations.mem0 import MemalchemyHistory, vector_store_config

config = MemoryConfig()
config.vector_store = vector_store_config("sqlite:///agent.db")
memory = Memory(config)
memory.db = MemalchemyHistory("sqlite:///agent.db")
"""

from memalchemy.integrations._base import requires

with requires("mem0ai", extra="mem0", module="mem0"):
    from memalchemy.integrations.mem0.config import vector_store_config
    from memalchemy.integrations.mem0.history import MemalchemyHistory
    from memalchemy.integrations.mem0.vector_store import MemalchemyVectorStore

__all__ = ["MemalchemyHistory", "MemalchemyVectorStore", "vector_store_config"]
