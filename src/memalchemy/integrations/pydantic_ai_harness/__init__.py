"""Stores for the Pydantic AI harness: runs and their steps, and the files of agents' memories.

from memalchemy.integrations.pydantic_ai_harness import MemalchemyMemoryStore, MemalchemyStepStore

StepPersistence(store=MemalchemyStepStore("sqlite:///agent.db"))
Memory(store=MemalchemyMemoryStore("sqlite:///agent.db"))
"""

from memalchemy.integrations._base import requires

with requires("pydantic-ai-harness", extra="pydantic-ai-harness", module="pydantic_ai_harness"):
    from memalchemy.integrations.pydantic_ai_harness.memory_store import MemalchemyMemoryStore
    from memalchemy.integrations.pydantic_ai_harness.step_store import MemalchemyStepStore

__all__ = ["MemalchemyMemoryStore", "MemalchemyStepStore"]
