"""Read, copy and create chat messages of any kind: models, dicts, objects of other frameworks.

All code that handles a message uses these functions, so that the same rules hold for
`memalchemy.state.Message`, for OpenAI's and Anthropic's dicts and for the classes of agent
frameworks. The last part does the same for states: a list of messages, or an object that has one.
The module does not import pydantic, which takes longer than everything here.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

SYSTEM_ROLES = frozenset({"system", "developer"})
"""Roles that instruct the model; newer OpenAI models call ``system`` ``developer``."""

AUTOMATED = ("automated_note", "locus_automated_note")
"""Metadata keys that mark a message which an agent's loop wrote in the user's role."""

_TEXT_FIELDS = {"role", "content", "tool_call_id", "name"}

# LangChain's message classes and the items of OpenAI's Responses have a type instead of a role.
_ROLE_OF_TYPE = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "AIMessageChunk": "assistant",
    "HumanMessageChunk": "user",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "tool",
    "function_call": "assistant",
    "function_call_output": "tool",
}


# Reading a message


def read(message: Any, name: str) -> Any:
    """Return a key of a mapping or an attribute of an object; ``None`` if it is missing."""
    # An isinstance check against an abstract class is slow, and nearly all mappings are dicts.
    if isinstance(message, (dict, Mapping)):
        return message.get(name)
    return getattr(message, name, None)


def role_of(message: Any) -> str:
    """Return the role as plain text; empty if the message has none.

    A line of a Claude transcript has its message under ``message``; an event of ADK has an author.
    """
    role = read(message, "role")
    if role is None:
        role = _ROLE_OF_TYPE.get(read(message, "type"))
    if role is None:
        role = read(_inner(message), "role") or _role_of_author(message)
    return str(role.value if isinstance(role, enum.Enum) else role)


def _role_of_author(message: Any) -> str:
    """Return the role of who wrote an event of ADK: the user, an agent, or a tool that answers."""
    author = read(message, "author")
    if not isinstance(author, str) or read(message, "invocation_id") is None:
        return ""
    if author == "user":
        return "user"
    parts = read(read(message, "content"), "parts") or ()
    answers = any(read(part, "function_response") is not None for part in parts)
    return "tool" if answers else "assistant"


def is_system(message: Any) -> bool:
    """Return whether the message instructs the model rather than being part of the dialogue."""
    return role_of(message) in SYSTEM_ROLES


def is_user_turn(message: Any) -> bool:
    """Return whether the user speaks; tool results, which Anthropic sends as user, do not count."""
    return role_of(message) == "user" and not results_of(message)


def is_prompt(message: Any) -> bool:
    """Return whether the user wrote the message, and not the agent's loop in the user's role."""
    return is_user_turn(message) and not any(map(metadata_of(message).get, AUTOMATED))


def latest_prompt(messages: Sequence[Any]) -> int | None:
    """Return the index of the latest message that the user wrote."""
    return next((at for at in reversed(range(len(messages))) if is_prompt(messages[at])), None)


def words_of(content: Any) -> str:
    """Return the text of a content; the texts of its blocks are joined by line breaks."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        return "\n".join(filter(None, map(words_of, content)))
    # A block: {"type": "text", "text": …} or {"type": "tool_result", "content": …}, or an object.
    # The content of a message for Gemini is {"parts": [{"text": …}, …]}.
    text = read(content, "text")
    if isinstance(text, str):
        return text
    inner = read(content, "content")
    if inner is None:
        inner = read(content, "parts")
    return "" if inner is content else words_of(inner)


def text_of(message: Any) -> str:
    """Return the text of a message; empty if it has none."""
    content = read(message, "content")
    if content is None:
        content = read(message, "output")
    return words_of(read(_inner(message), "content") if content is None else content)


def _inner(message: Any) -> Any:
    """Return the message that a line of a transcript holds; ``None`` without one."""
    inner = read(message, "message")
    return inner if isinstance(inner, Mapping) else None


def content_field(message: Any) -> str:
    """Return the field that holds the content; items of OpenAI's Responses have an ``output``."""
    return "output" if read(message, "content") is None else "content"


def blocks_of(message: Any, kind: str) -> Iterator[Any]:
    """Yield the blocks of one type from a message whose content is a list."""
    content = read(message, "content")
    if isinstance(content, (list, tuple)):
        yield from (block for block in content if read(block, "type") == kind)


def calls_of(message: Any) -> list[str | None]:
    """Return the ids of the tool calls in the message, in order; ``None`` for one without an id."""
    if role_of(message) != "assistant":
        return []
    if read(message, "role") is None and read(message, "type") == "function_call":
        return [read(message, "call_id")]
    calls = [read(call, "id") for call in read(message, "tool_calls") or ()]
    used = [read(block, "id") for block in blocks_of(message, "tool_use")]
    # LangChain's messages list the calls of an Anthropic model in both places.
    return calls + [call for call in used if call not in calls]


def results_of(message: Any) -> list[str | None]:
    """Return the ids of the calls whose results the message holds; ``None`` for a missing id."""
    role = role_of(message)
    if role == "tool":
        found = read(message, "tool_call_id")
        return [read(message, "call_id") if found is None else found]
    if role != "user":
        return []
    return [read(block, "tool_use_id") for block in blocks_of(message, "tool_result")]


def is_text_record(message: Any) -> bool:
    """Return whether a message is a dict of a role and texts alone, as most are."""
    if type(message) is not dict or type(message.get("role")) is not str:
        return False
    if len(message) == 2 and type(message.get("content")) is str:  # the most frequent case, faster
        return True
    return message.keys() <= _TEXT_FIELDS and all(type(one) is str for one in message.values())


def metadata_of(message: Any) -> Mapping[str, Any]:
    """Return the application's metadata of a message; empty if it has none."""
    found = read(message, "metadata")
    return found if isinstance(found, Mapping) else {}


# Copying and creating messages


def create_message(
    like: Sequence[Any], role: str, content: Any, metadata: Mapping[str, Any], **fields: Any
) -> Any:
    """Create a message of the same kind as those in *like*: a dict, or an object of their class.

    *fields* are further fields that the message needs. A dict gets the metadata only if one of
    *like* has metadata, because a model's API refuses keys that it does not know. An object gets
    the metadata if its class accepts it.

    Raises:
        TypeError: the class cannot be constructed from a role and a content.
    """
    example = next((one for one in like if read(one, "role") is not None), like[0])
    if isinstance(example, Mapping):
        message = {"role": role, "content": content, **fields}
        if metadata and any(isinstance(one, Mapping) and "metadata" in one for one in like):
            message["metadata"] = dict(metadata)
        return message
    typed_role: Any = role
    if isinstance(read(example, "role"), enum.Enum):
        typed_role = type(read(example, "role"))(role)
    cls: Any = type(example)
    for extra in ({"metadata": dict(metadata)}, {}) if metadata else ({},):
        try:
            return cls(role=typed_role, content=content, **fields, **extra)
        except TypeError:
            continue
        except ValueError:  # of a pydantic model that forbids unknown fields
            if not extra:
                raise
    raise TypeError(
        f"a {cls.__qualname__} cannot be constructed from role= and content=; convert the messages "
        "with Message.of(message) first"
    )


def copy_with(message: Any, name: str, value: Any) -> Any:
    """Return a copy with another value in one field; ``None`` if its class does not allow that."""
    if isinstance(message, Mapping):
        return {**message, name: value}
    if hasattr(message, "model_copy"):
        return message.model_copy(update={name: value})
    if dataclasses.is_dataclass(message) and not isinstance(message, type):
        return dataclasses.replace(message, **{name: value})
    duplicate = copy.copy(message)
    try:
        setattr(duplicate, name, value)
    except (AttributeError, TypeError):
        return None
    return duplicate


def shorten_message(message: Any, max_characters: int) -> Any:
    """Cut each text of the message to *max_characters*; the message itself if none is longer.

    ``None`` if its class cannot be copied with another content.
    """
    name = content_field(message)
    content = read(message, name)
    short = _shorten_content(content, max_characters)
    return message if short is content else copy_with(message, name, short)


def shorten_text(text: str, max_characters: int) -> str:
    """Keep the start and the end of a text, with a note of how many characters are left out."""
    if len(text) <= max_characters:
        return text
    note = f"\n[… {len(text) - max_characters:,} characters left out …]\n"
    room = max_characters - len(note)
    if room < 40:
        return text[:max_characters]
    head = room * 2 // 3
    return text[:head] + note + text[len(text) - (room - head) :]


def _shorten_content(content: Any, max_characters: int) -> Any:
    if isinstance(content, str):
        return shorten_text(content, max_characters)
    if isinstance(content, (list, tuple)):
        parts = [_shorten_content(part, max_characters) for part in content]
        same = all(a is b for a, b in zip(parts, content, strict=True))
        return content if same else parts
    if isinstance(content, Mapping):
        changed = {}
        for name in ("text", "content"):
            if isinstance(content.get(name), (str, list, tuple)):
                part = _shorten_content(content[name], max_characters)
                if part is not content[name]:
                    changed[name] = part
        return {**content, **changed} if changed else content
    return content


# The messages of a state


def check_messages(messages: Any) -> list[Any]:
    """Return *messages* as a list of the same objects.

    Raises:
        TypeError: *messages* is no list of messages, or one of them has no role.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        raise TypeError(f"messages must be a list of messages, not a {type(messages).__name__}")
    found = list(messages)
    for message in found:
        if not role_of(message):
            raise TypeError(f"a {type(message).__name__} is no message: it has no role")
    return found


def state_messages(state: Any) -> list[Any]:
    """Return the messages of a state: a list of them, or an object that has ``messages``."""
    if isinstance(state, Mapping):
        return check_messages(state.get("messages") or [])
    return check_messages(state.messages if hasattr(state, "messages") else state)


def with_messages(state: Any, messages: list[Any]) -> Any:
    """Return a copy of *state* with other messages; *state* itself if they are the same objects."""
    before = state_messages(state)
    if len(before) == len(messages) and all(a is b for a, b in zip(before, messages, strict=True)):
        return state
    if isinstance(state, Mapping):
        return {**state, "messages": _sequence_like(state.get("messages"), messages)}
    if not hasattr(state, "messages"):
        return _sequence_like(state, messages)
    if not hasattr(state, "model_copy") and not dataclasses.is_dataclass(state):
        raise TypeError(
            f"a {type(state).__name__} cannot be copied with other messages: a state is a list of "
            "messages, a mapping with messages, a pydantic model or a dataclass"
        )
    return copy_with(state, "messages", _sequence_like(state.messages, messages))


def _sequence_like(before: Any, messages: list[Any]) -> Any:
    return tuple(messages) if isinstance(before, tuple) else messages
