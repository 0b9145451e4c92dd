"""Stored messages of protocol buffers, read into bounded memory."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from memalchemy._bounds import Oversized, check_protobuf
from memalchemy.errors import Corrupt

M = TypeVar("M", bound=Message)


def read_into(message: M, stored: bytes) -> M:
    """Add what was stored to a message, and return it.

    Raises:
        Corrupt: it would take too much memory.
    """
    try:
        check_protobuf(stored, message.DESCRIPTOR)
    except Oversized as error:
        raise Corrupt(f"a stored message {error}") from error
    message.MergeFromString(stored)
    return message
