"""LangGraph on memalchemy: `MemalchemySaver` keeps a graph's checkpoints, `MemalchemyStore` what it
remembers across threads.
"""

from memalchemy.integrations.langgraph.saver import MemalchemySaver
from memalchemy.integrations.langgraph.store import MemalchemyStore

__all__ = ["MemalchemySaver", "MemalchemyStore"]
