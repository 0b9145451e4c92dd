"""CrewAI's flow states, checkpoints and memories in a SQL database.

install("postgresql://…")  # flows and memories of this process are stored there
"""

from memalchemy.integrations._base import requires

with requires("crewai", extra="crewai", module="crewai"):
    from memalchemy.integrations.crewai.checkpoints import MemalchemyCheckpointProvider
    from memalchemy.integrations.crewai.flows import MemalchemyFlowPersistence
    from memalchemy.integrations.crewai.installation import Installation, install
    from memalchemy.integrations.crewai.memory import MemalchemyMemoryStorage

__all__ = [
    "Installation",
    "MemalchemyCheckpointProvider",
    "MemalchemyFlowPersistence",
    "MemalchemyMemoryStorage",
    "install",
]
