"""Stored messages of protocol buffers, read into bounded memory."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from memalchemy._bounds import Oversized, check_protobuf
from memalchemy.errors import Corrupt
from memalchemy.integrations._stored_forms import StoredForm

M = TypeVar("M", bound=Message)


def read_into(message: M, stored: bytes) -> M:
    """Add what was stored to a message, and return it.

    Raises:
        Corrupt: it is none, or would take too much memory.
    """
    with StoredForm(f"{type(message).__name__} of A2A"):
        try:
            check_protobuf(stored, message.DESCRIPTOR)
        except Oversized as error:
            raise Corrupt(f"a stored message {error}") from error
        message.MergeFromString(stored)
    return message
