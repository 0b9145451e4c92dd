"""Collections on a `Store`: keys and values, documents, and archived tool outputs."""

from memalchemy.collections.key_value import ABSENT, KeyValue, KeyValueEntry
from memalchemy.collections.tool_outputs import ToolOutputs
from memalchemy.collections.vector_store import MemoryResult, VectorStore

__all__ = ["ABSENT", "KeyValue", "KeyValueEntry", "MemoryResult", "ToolOutputs", "VectorStore"]
