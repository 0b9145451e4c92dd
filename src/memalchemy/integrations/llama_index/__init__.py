"""Stores of LlamaIndex: messages of chats, keys and values, nodes with vectors.

from memalchemy.integrations.llama_index import MemalchemyChatStore

memory = Memory.from_defaults(session_id="ada", chat_store=MemalchemyChatStore("sqlite:///agent.db"))
"""

from memalchemy.integrations._base import requires

with requires("llama-index-core", extra="llama-index", module="llama_index"):
    import llama_index.core  # noqa: F401

from memalchemy.integrations.llama_index.chat_store import MemalchemyChatStore
from memalchemy.integrations.llama_index.kv_store import MemalchemyKVStore
from memalchemy.integrations.llama_index.vector_store import MemalchemyVectorStore

__all__ = ["MemalchemyChatStore", "MemalchemyKVStore", "MemalchemyVectorStore"]
