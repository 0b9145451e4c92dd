"""What can be read from a message, whatever it is made of: a model, a dict, a foreign object.

Everything that goes through a conversation reads it with these functions, so that the same rules
hold for `memalchemy.state.Message`, for OpenAI's and Anthropic's dicts and for the classes of agent
frameworks. Knows nothing of pydantic, which takes longer to import than all of this.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

SYSTEM_ROLES = frozenset({"system", "developer"})
"""Roles that instruct; ``developer`` is what newer OpenAI models call ``system``."""

# Messages without a role: LangChain's classes have a type, so have the items of OpenAI's Responses.
_ROLE_OF_TYPE = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function_call": "assistant",
    "function_call_output": "tool",
}


def read(message: Any, name: str) -> Any:
    """A field of a mapping or an attribute of an object; ``None`` if it has none."""
    if isinstance(message, Mapping):
        return message.get(name)
    return getattr(message, name, None)


def role_of(message: Any) -> str:
    """Who speaks, as plain text; empty if the message does not say."""
    role = read(message, "role")
    if role is None:
        return _ROLE_OF_TYPE.get(read(message, "type"), "")
    return str(role.value if isinstance(role, enum.Enum) else role)


def is_system(message: Any) -> bool:
    """Whether it instructs, rather than being part of what was said."""
    return role_of(message) in SYSTEM_ROLES


def is_user_turn(message: Any) -> bool:
    """Whether the user speaks. Anthropic sends results of tools as user messages; those are not."""
    return role_of(message) == "user" and not results_of(message)


def words_of(content: Any) -> str:
    """The words of a content: a text itself, or the texts of its blocks, one a line."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        return "\n".join(filter(None, map(words_of, content)))
    # A block: {"type": "text", "text": …} or {"type": "tool_result", "content": …}, or an object.
    text = read(content, "text")
    if isinstance(text, str):
        return text
    inner = read(content, "content")
    return "" if inner is content else words_of(inner)


def text_of(message: Any) -> str:
    """The words of a message; empty if it has none."""
    content = read(message, "content")
    return words_of(read(message, "output") if content is None else content)


def blocks_of(message: Any, kind: str) -> Iterator[Any]:
    """The blocks of one type in a message whose content is a list."""
    content = read(message, "content")
    if isinstance(content, (list, tuple)):
        yield from (block for block in content if read(block, "type") == kind)


def calls_of(message: Any) -> list[str | None]:
    """The ids of the tools it calls, in order; ``None`` for a call without an id."""
    if role_of(message) != "assistant":
        return []
    if read(message, "type") == "function_call":
        return [read(message, "call_id")]
    calls = [read(call, "id") for call in read(message, "tool_calls") or ()]
    used = [read(block, "id") for block in blocks_of(message, "tool_use")]
    # LangChain's messages have the calls of an Anthropic model in both places.
    return calls + [call for call in used if call not in calls]


def results_of(message: Any) -> list[str | None]:
    """The ids of the calls whose results it brings, in order; ``None`` for one without an id."""
    role = role_of(message)
    if role == "tool":
        found = read(message, "tool_call_id")
        return [read(message, "call_id") if found is None else found]
    if role != "user":
        return []
    return [read(block, "tool_use_id") for block in blocks_of(message, "tool_result")]


def metadata_of(message: Any) -> Mapping[str, Any]:
    """What the application noted on it; empty if nothing."""
    found = read(message, "metadata")
    return found if isinstance(found, Mapping) else {}
