"""LangGraph on memalchemy: `MemalchemySaver` keeps a graph's checkpoints."""

from memalchemy.integrations.langgraph.saver import MemalchemySaver

__all__ = ["MemalchemySaver"]
