"""LazyBridge's store in a `Database`, for its memories, plans and blackboards.

from memalchemy.integrations.lazybridge import MemalchemyStore

store = MemalchemyStore("sqlite:///agent.db")
memory = Memory(store=store, key="assistant")
"""

from memalchemy.integrations.lazybridge.store import MemalchemyStore

__all__ = ["MemalchemyStore"]
