"""A checkpointer for locus' agents and graphs, and a store for their long-term memory.

agent = Agent(model=…, checkpointer=MemalchemyCheckpointer("sqlite:///agent.db"))
"""

from memalchemy.integrations._base import requires

with requires("locus-sdk", extra="locus", module="locus"):
    from memalchemy.integrations.locus.checkpointer import MemalchemyCheckpointer, register
    from memalchemy.integrations.locus.store import MemalchemyStore

__all__ = ["MemalchemyCheckpointer", "MemalchemyStore", "register"]
