"""LangGraph on memalchemy: `MemalchemySaver` for checkpoints, `MemalchemyStore` for memory."""

from memalchemy.integrations._base import requires

with requires("langgraph-checkpoint", extra="langgraph", module="langgraph"):
    import langgraph.checkpoint.base  # noqa: F401  before what LangGraph brings along

    from memalchemy.integrations.langgraph.saver import MemalchemySaver
    from memalchemy.integrations.langgraph.store import MemalchemyStore

__all__ = ["MemalchemySaver", "MemalchemyStore"]
