"""The record of a message that a search found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

# A client over HTTP knows the record, and imports pydantic only when it has a message.
if TYPE_CHECKING:
    from memalchemy.state import Message


@dataclass(frozen=True, slots=True)
class MessageHit:
    """Message that a search found.

    ``thread_id`` is the conversation and ``position`` the message's place in its log. ``score`` and
    ``snippet`` are as of an `EntryHit`.
    """

    message: Message
    thread_id: str
    position: int
    key: str | None
    occurred_at: datetime
    score: float
    snippet: str
