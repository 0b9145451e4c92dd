"""Storage for Google's Agent Development Kit: sessions and state, memories and artifacts.

from memalchemy.integrations.google_adk import MemalchemySessionService

runner = Runner(agent=agent, app_name="app", session_service=MemalchemySessionService(url))
"""

from memalchemy.integrations._base import requires

with requires("google-adk", extra="google-adk", module="google"):
    import google.adk  # noqa: F401

from memalchemy.integrations.google_adk.artifacts import MemalchemyArtifactService
from memalchemy.integrations.google_adk.memory import MemalchemyMemoryService
from memalchemy.integrations.google_adk.services import register
from memalchemy.integrations.google_adk.sessions import MemalchemySessionService

__all__ = [
    "MemalchemyArtifactService",
    "MemalchemyMemoryService",
    "MemalchemySessionService",
    "register",
]
