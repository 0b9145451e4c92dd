"""locus: a checkpointer for its agents and graphs, and a store for its long-term memory.

    agent = Agent(model=…, checkpointer=MemalchemyCheckpointer("sqlite:///agent.db"))

Thin: what is kept, and how, is `memalchemy.Checkpointer`'s and `memalchemy.Store`'s business. Here
it takes the names and records that locus has, and nothing is known of SQL.
"""

try:
    from memalchemy.integrations.locus.checkpointer import MemalchemyCheckpointer, register
    from memalchemy.integrations.locus.store import MemalchemyStore
except ModuleNotFoundError as error:
    from memalchemy.errors import DriverMissing

    if not (error.name or "").startswith("locus"):
        raise
    raise DriverMissing("locus-sdk", "locus", what="package") from error

__all__ = ["MemalchemyCheckpointer", "MemalchemyStore", "register"]
