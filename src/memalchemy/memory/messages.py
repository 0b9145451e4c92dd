"""Messages of any kind: a mapping in OpenAI's format, or any object with a role and a content.

What is made here is of the kind of its neighbours. Knows nothing of memories or of a store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

AUTOMATED = ("automated_note", "locus_automated_note")
"""Metadata of a message in the user's role that the agent's own loop has written."""


def part_of(message: Any, name: str) -> Any:
    """A field of a message, ``None`` if it has none of that name."""
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def role_of(message: Any) -> str:
    """Its role as text."""
    role = part_of(message, "role")
    return str(role.value if isinstance(role, Enum) else role or "")


def text_of(message: Any) -> str:
    """The words of its content: of blocks, those of text."""
    content = part_of(message, "content")
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and not isinstance(content, (bytes, bytearray)):
        said = (one if isinstance(one, str) else part_of(one, "text") for one in content)
        return "\n".join(one for one in said if isinstance(one, str))
    return ""


def metadata_of(message: Any) -> Mapping[str, Any]:
    """Its metadata; empty if it has none."""
    found = part_of(message, "metadata")
    return found if isinstance(found, Mapping) else {}


def is_prompt(message: Any) -> bool:
    """Whether the user has said it, and not the agent's loop in the user's name."""
    return role_of(message) == "user" and not any(map(metadata_of(message).get, AUTOMATED))


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


def make_message(
    role: str, content: str, like: Any, metadata: Mapping[str, Any] | None = None
) -> Any:
    """A message of the kind of *like*; without that, a mapping in OpenAI's format.

    A mapping gets no *metadata*: services refuse keys that they do not know.
    """
    if like is None or isinstance(like, Mapping):
        return {"role": role, "content": content}
    kind = type(like)
    for more in ({"metadata": dict(metadata)}, {}) if metadata else ({},):
        try:
            made = kind(role=role, content=content, **more)
        except (TypeError, ValueError):
            continue
        if role_of(made) == role and text_of(made) == content:
            return made
    raise TypeError(
        f"no message of the class {kind.__name__} can be made of a role and a content: give "
        "messages as mappings, or of a class that takes both by name"
    )


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
