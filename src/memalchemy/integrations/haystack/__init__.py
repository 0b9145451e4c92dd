"""Document store, retrievers and message store for Haystack.

from memalchemy.integrations.haystack import MemalchemyDocumentStore, MemalchemyEmbeddingRetriever

store = MemalchemyDocumentStore("sqlite:///agent.db")
retriever = MemalchemyEmbeddingRetriever(store)
"""

from memalchemy.integrations._base import requires

with requires("haystack-ai", extra="haystack", module="haystack"):
    import haystack  # noqa: F401

from memalchemy.integrations.haystack.chat_message_store import MemalchemyChatMessageStore
from memalchemy.integrations.haystack.document_store import MemalchemyDocumentStore
from memalchemy.integrations.haystack.retrievers import (
    MemalchemyEmbeddingRetriever,
    MemalchemyKeywordRetriever,
)

__all__ = [
    "MemalchemyChatMessageStore",
    "MemalchemyDocumentStore",
    "MemalchemyEmbeddingRetriever",
    "MemalchemyKeywordRetriever",
]
