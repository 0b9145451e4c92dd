"""Sessions for the OpenAI Agents SDK, and storage of its interrupted runs.

from memalchemy.integrations.openai_agents import MemalchemySession

session = MemalchemySession("user-123", "sqlite:///agent.db")
await Runner.run(agent, "Hello", session=session)
"""

from memalchemy.integrations._base import requires

with requires("openai-agents", extra="openai-agents", module="agents"):
    from memalchemy.integrations.openai_agents.run_states import MemalchemyRunStates
    from memalchemy.integrations.openai_agents.session import MemalchemySession
    from memalchemy.integrations.openai_agents.sessions import MemalchemySessions, SessionInfo

__all__ = ["MemalchemyRunStates", "MemalchemySession", "MemalchemySessions", "SessionInfo"]
