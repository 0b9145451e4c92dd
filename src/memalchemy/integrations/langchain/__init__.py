"""Chat histories, key-value stores, vectors, index records and a model cache for LangChain.

from memalchemy.integrations.langchain import MemalchemyChatMessageHistory

history = MemalchemyChatMessageHistory("sqlite:///agent.db", session_id="user-123")
chain = RunnableWithMessageHistory(model, lambda session_id: history)
"""

from memalchemy.integrations._base import requires

with requires("langchain-core", extra="langchain", module="langchain_core"):
    from memalchemy.integrations.langchain.cache import MemalchemyCache
    from memalchemy.integrations.langchain.chat_history import MemalchemyChatMessageHistory
    from memalchemy.integrations.langchain.key_value import MemalchemyByteStore, MemalchemyStore
    from memalchemy.integrations.langchain.record_manager import MemalchemyRecordManager
    from memalchemy.integrations.langchain.vector_store import MemalchemyVectorStore

__all__ = [
    "MemalchemyByteStore",
    "MemalchemyCache",
    "MemalchemyChatMessageHistory",
    "MemalchemyRecordManager",
    "MemalchemyStore",
    "MemalchemyVectorStore",
]
