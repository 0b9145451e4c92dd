"""Storage, sessions and memories for Strands Agents.

from memalchemy.integrations.strands import MemalchemySessionRepository

repository = MemalchemySessionRepository("sqlite:///agent.db")
agent = Agent(session_manager=RepositorySessionManager("user-123", repository))
"""

from memalchemy.integrations._base import requires

with requires("strands-agents", extra="strands", module="strands"):
    from memalchemy.integrations.strands.memory import MemalchemyMemoryStore
    from memalchemy.integrations.strands.sessions import MemalchemySessionRepository
    from memalchemy.integrations.strands.storage import MemalchemyStorage

__all__ = ["MemalchemyMemoryStore", "MemalchemySessionRepository", "MemalchemyStorage"]
