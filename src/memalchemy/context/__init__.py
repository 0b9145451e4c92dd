"""The messages of a conversation that go to the model: windows, token budgets, summaries.

A manager is a policy on a list of messages. It accepts `memalchemy.state.Message`, dicts and
objects of other frameworks alike, returns a new list and changes no message that it was given.
Nothing in this package knows a database; `memalchemy.conversations` stores messages and summaries.
"""

from memalchemy.context.compaction import CompactionOutcome, ContextCompactor
from memalchemy.context.manager import ConversationManager, NullManager
from memalchemy.context.message_age import (
    message_time,
    oldest_message_time,
    stamp_messages,
    trim_messages,
)
from memalchemy.context.summarizers import SummarizerBase, SummarizingManager
from memalchemy.context.tokens import estimate_tokens
from memalchemy.context.tool_call_repair import (
    ToolHistoryIssue,
    ToolHistoryReport,
    repair_tool_history,
    validate_tool_history,
)
from memalchemy.context.windows import (
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
    "SummarizerBase",
    "SummarizingManager",
    "TokenBudgetManager",
    "ToolHistoryIssue",
    "ToolHistoryReport",
    "estimate_tokens",
    "message_time",
    "messages_to_summarize",
    "oldest_message_time",
    "repair_tool_history",
    "stamp_messages",
    "trim_messages",
    "trim_to_fit",
    "trim_to_recent",
    "validate_tool_history",
]
