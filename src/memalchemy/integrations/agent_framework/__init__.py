"""Histories, sessions and workflow checkpoints for Microsoft's Agent Framework.

from memalchemy.integrations.agent_framework import MemalchemyHistoryProvider

history = MemalchemyHistoryProvider("sqlite:///agent.db")
agent = Agent(client=…, context_providers=[history])
"""

from memalchemy.integrations._base import requires

with requires("agent-framework-core", extra="agent-framework", module="agent_framework"):
    from memalchemy.integrations.agent_framework.checkpoints import MemalchemyCheckpointStorage
    from memalchemy.integrations.agent_framework.history import MemalchemyHistoryProvider
    from memalchemy.integrations.agent_framework.sessions import MemalchemySessionStore

__all__ = ["MemalchemyCheckpointStorage", "MemalchemyHistoryProvider", "MemalchemySessionStore"]
