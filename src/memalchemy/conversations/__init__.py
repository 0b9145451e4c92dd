"""Conversations in a database, and checkpointers whose states keep no old messages.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from memalchemy._lazy_imports import lazy_exports

if TYPE_CHECKING:
    from memalchemy.conversations._message_hit import MessageHit
    from memalchemy.conversations.conversation import Conversation, ConversationView
    from memalchemy.conversations.conversation_store import ConversationStore
    from memalchemy.conversations.retained_checkpointer import RetainedCheckpointer
    from memalchemy.conversations.tool_exchange import ToolExchange
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_message_hit": ("MessageHit",),
            "conversation": ("Conversation", "ConversationView"),
            "conversation_store": ("ConversationStore",),
            "retained_checkpointer": ("RetainedCheckpointer",),
            "tool_exchange": ("ToolExchange",),
        },
    )

__all__ = [
    "Conversation",
    "ConversationStore",
    "ConversationView",
    "MessageHit",
    "RetainedCheckpointer",
    "ToolExchange",
]
