"""The messages of a state, whatever it is made of, and the last thing its user has said.

A state is a list of messages, or what has them under ``messages``: a mapping, a pydantic model, a
dataclass. Knows nothing of memories or of a store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memalchemy.messages import is_user_turn, metadata_of, role_of

AUTOMATED = ("automated_note", "locus_automated_note")
"""Metadata of a message in the user's role that the agent's own loop has written."""


def is_prompt(message: Any) -> bool:
    """Whether the user has said it, and not the agent's loop in the user's name."""
    return is_user_turn(message) and not any(map(metadata_of(message).get, AUTOMATED))


def latest_prompt(messages: Sequence[Any]) -> int | None:
    """Where the last thing is that the user has said."""
    return next((at for at in reversed(range(len(messages))) if is_prompt(messages[at])), None)


def check_messages(messages: Any) -> list[Any]:
    """A list of messages, the very objects.

    Raises:
        TypeError: it is no list of messages, or one of them has no role.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        raise TypeError(f"messages are a list of messages, not a {type(messages).__name__}")
    found = list(messages)
    for message in found:
        if not role_of(message):
            raise TypeError(f"a {type(message).__name__} is no message: it has no role")
    return found


def messages_of(state: Any) -> list[Any]:
    """The messages of a state: a list of them, or what has them under ``messages``."""
    if isinstance(state, Mapping):
        return check_messages(state.get("messages") or [])
    return check_messages(state.messages if hasattr(state, "messages") else state)


def with_messages(state: Any, messages: list[Any]) -> Any:
    """A copy of *state* that has *messages* in place of its own."""
    if isinstance(state, Mapping):
        return {**state, "messages": _like(state.get("messages"), messages)}
    if not hasattr(state, "messages"):
        return _like(state, messages)
    changed = _like(state.messages, messages)
    if hasattr(state, "model_copy"):
        return state.model_copy(update={"messages": changed})
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        return dataclasses.replace(state, messages=changed)
    raise TypeError(
        f"a {type(state).__name__} cannot be given other messages: a state is a list of messages, "
        "a mapping with messages, a pydantic model or a dataclass"
    )


def _like(before: Any, messages: list[Any]) -> Any:
    return tuple(messages) if isinstance(before, tuple) else messages
