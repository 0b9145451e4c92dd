"""The HTTP clients. Each is imported when it is first used: `HTTPConversation` needs pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalchemy._lazy_imports import lazy_exports

if TYPE_CHECKING:
    from memalchemy.http.client._checkpointer import HTTPCheckpointer
    from memalchemy.http.client._conversation import HTTPConversation
    from memalchemy.http.client._store import HTTPStore
    from memalchemy.http.client._thread_log import HTTPThreadLog
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_checkpointer": ("HTTPCheckpointer",),
            "_conversation": ("HTTPConversation",),
            "_store": ("HTTPStore",),
            "_thread_log": ("HTTPThreadLog",),
        },
    )

__all__ = ["HTTPCheckpointer", "HTTPConversation", "HTTPStore", "HTTPThreadLog"]
