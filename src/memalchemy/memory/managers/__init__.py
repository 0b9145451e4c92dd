"""What of a conversation goes to the model: all, a window, a budget, or a summary and the rest.

A manager is a pure policy on a list of messages. It takes `memalchemy.state.Message`, dicts and
objects of other frameworks alike, gives back a new list of the very objects it was given, and never
changes one. It knows nothing of storage; `memalchemy.memory.conversation` has that.
"""

from memalchemy.memory.managers.base import ConversationManager, NullManager
from memalchemy.memory.managers.compaction import ContextCompactor
from memalchemy.memory.managers.outcome import CompactionOutcome
from memalchemy.memory.managers.summarizing import SummarizingManager
from memalchemy.memory.managers.tokens import estimate_tokens
from memalchemy.memory.managers.tool_history import (
    ToolHistoryIssue,
    ToolHistoryReport,
    repair_tool_history,
    validate_tool_history,
)
from memalchemy.memory.managers.windows import (
    SlidingWindowManager,
    TokenBudgetManager,
    messages_to_summarize,
    trim_to_fit,
    trim_to_recent,
)

__all__ = [
    "CompactionOutcome",
    "ContextCompactor",
    "ConversationManager",
    "NullManager",
    "SlidingWindowManager",
    "SummarizingManager",
    "TokenBudgetManager",
    "ToolHistoryIssue",
    "ToolHistoryReport",
    "estimate_tokens",
    "messages_to_summarize",
    "repair_tool_history",
    "trim_to_fit",
    "trim_to_recent",
    "validate_tool_history",
]
