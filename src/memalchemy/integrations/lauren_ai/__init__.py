"""lauren-ai's stores in a `Database`: conversations, facts about users, documents.

from memalchemy.integrations.lauren_ai import MemalchemyConversationStore

store = await MemalchemyConversationStore.connect("sqlite:///agent.db")
"""

from memalchemy.integrations.lauren_ai.conversations import MemalchemyConversationStore
from memalchemy.integrations.lauren_ai.documents import MemalchemyVectorStore
from memalchemy.integrations.lauren_ai.facts import MemalchemyUserMemoryStore

__all__ = ["MemalchemyConversationStore", "MemalchemyUserMemoryStore", "MemalchemyVectorStore"]
