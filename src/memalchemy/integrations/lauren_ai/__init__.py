"""Stores for lauren-ai: conversations, facts about users, and documents.

from memalchemy.integrations.lauren_ai import MemalchemyConversationStore

store = await MemalchemyConversationStore.connect("sqlite:///agent.db")
"""

from memalchemy.integrations._base import requires

with requires("lauren-ai", extra="lauren-ai", module="lauren_ai"):
    from memalchemy.integrations.lauren_ai.conversations import MemalchemyConversationStore
    from memalchemy.integrations.lauren_ai.documents import MemalchemyVectorStore
    from memalchemy.integrations.lauren_ai.facts import MemalchemyUserMemoryStore

__all__ = ["MemalchemyConversationStore", "MemalchemyUserMemoryStore", "MemalchemyVectorStore"]
