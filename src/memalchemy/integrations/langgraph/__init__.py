"""LangGraph: its store in a `Database`.

from memalchemy.integrations.langgraph import MemalchemyStore

graph = builder.compile(store=MemalchemyStore("sqlite:///agent.db"))
"""

from memalchemy.integrations.langgraph.store import MemalchemyStore

__all__ = ["MemalchemyStore"]
