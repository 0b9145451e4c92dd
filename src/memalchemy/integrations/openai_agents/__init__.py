"""Sessions of the OpenAI Agents SDK in a `Database`, and its runs that wait for somebody.

from memalchemy.integrations.openai_agents import MemalchemySession

session = MemalchemySession("user-123", "sqlite:///agent.db")
await Runner.run(agent, "Hello", session=session)
"""

from memalchemy.integrations.openai_agents.run_states import MemalchemyRunStates
from memalchemy.integrations.openai_agents.session import MemalchemySession
from memalchemy.integrations.openai_agents.sessions import MemalchemySessions, SessionInfo

__all__ = ["MemalchemyRunStates", "MemalchemySession", "MemalchemySessions", "SessionInfo"]
