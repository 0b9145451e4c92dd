"""Read, copy and create chat messages of any kind: models, dicts, objects of other frameworks.

All code that handles a message uses these functions, so that the same rules hold for
`memalchemy.state.Message` and for the messages of models and agent frameworks, as objects or as the
dicts that are stored of them. A message has a role and a content: a text, or blocks. The tables
below say under which names. They know the messages of OpenAI (chats and Responses), Anthropic,
Bedrock and Strands, Gemini and ADK, A2A, LangChain, LlamaIndex, Haystack, Pydantic AI, Microsoft's
Agent Framework, and the lines of Claude's transcripts. The last part does the same for states: a
list of messages, or an object that has one. The module does not import pydantic, which takes longer
than everything here.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from memalchemy.errors import InvalidArgument

SYSTEM_ROLES = frozenset({"system", "developer"})
"""Roles that instruct the model; newer OpenAI models call ``system`` ``developer``."""

AUTOMATED = ("automated_note", "locus_automated_note")
"""Metadata keys that mark a message which an agent's loop wrote in the user's role."""

_TEXT_FIELDS = {"role", "content", "tool_call_id", "name"}

_SYNONYMS = {
    "model": "assistant",  # Gemini
    "agent": "assistant",  # A2A
    "ROLE_AGENT": "assistant",
    "ROLE_USER": "user",
}
"""Roles under other names."""

UNKNOWN_ROLE = "unknown"
"""Role of a message whose own role only its framework knows: that one is stored beside it."""

ROLES = frozenset(
    {
        *("system", "developer", "user", "assistant", "tool", "function", *_SYNONYMS),
        *("human", "ai"),  # LangChain
        "chatbot",  # LlamaIndex
        UNKNOWN_ROLE,
    }
)
"""The roles that a message of a conversation may have."""

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
"""Roles of messages with a type instead: LangChain's classes, and items of OpenAI's Responses."""

_LANGCHAIN_CLASSES = {
    "system": "SystemMessage",
    "user": "HumanMessage",
    "assistant": "AIMessage",
    "tool": "ToolMessage",
}

_ROLE_OF_PART = {
    "user-prompt": "user",
    "tool-return": "tool",
    "retry-prompt": "tool",
    "retry-feedback": "tool",
    "system-prompt": "system",
}
"""Roles of the parts of a request of Pydantic AI; of several, the first here is the message's."""

_CONTENT_FIELDS = (
    "content",
    "contents",  # Agent Framework
    "output",  # results in OpenAI's Responses
    "parts",  # Gemini, A2A, Pydantic AI
    "blocks",  # LlamaIndex
)

Kind = Literal["text", "thought", "call", "result"]


class _Form(NamedTuple):
    """Kind of a block, with the names of its id and of its content.

    ``other_id`` is the name of the id in a second framework that calls its blocks the same.
    """

    kind: Kind
    id: str = ""
    content: str = "content"
    other_id: str = ""


_FORM_OF_TYPE = {
    "tool_use": _Form("call", "id"),  # Anthropic
    "tool_result": _Form("result", "tool_use_id"),
    "function_call": _Form("call", "call_id"),  # OpenAI's Responses, Agent Framework
    "function_call_output": _Form("result", "call_id", "output"),
    "function_result": _Form("result", "call_id", "result"),  # Agent Framework
    "tool_call": _Form("call", "tool_call_id", other_id="id"),  # LlamaIndex, LangChain
    "tool-call": _Form("call", "tool_call_id"),  # Pydantic AI
    "tool-return": _Form("result", "tool_call_id"),
    "retry-prompt": _Form("result", "tool_call_id"),
    "thinking": _Form("thought"),  # Anthropic, LlamaIndex, Pydantic AI
    "text_reasoning": _Form("thought"),  # Agent Framework
    "reasoning": _Form("thought"),  # LangChain, OpenAI's Responses
    "reasoning_content": _Form("thought"),  # LangChain with Bedrock
}
"""Forms of blocks that say what they are: as ``type``, ``block_type`` or ``part_kind``."""

_FORM_OF_KEY = {
    "toolUse": _Form("call", "toolUseId"),  # Bedrock, Strands
    "toolResult": _Form("result", "toolUseId"),
    "reasoningContent": _Form("thought"),
    "function_call": _Form("call", "id"),  # Gemini, ADK
    "function_response": _Form("result", "id", "response"),
    "functionCall": _Form("call", "id"),
    "functionResponse": _Form("result", "id", "response"),
    "tool_call": _Form("call", "id"),  # Haystack
    "tool_call_result": _Form("result", "", "result"),
    "reasoning": _Form("thought"),
}
"""Forms of blocks that hold all they say under a key: ``{"toolUse": {"toolUseId": …}}``."""

_TEXTS = ("text", "transcript", "refusal")
"""Names under which a block is text itself; transcripts are of speech."""

_SHORTENED = {
    *(*_TEXTS, *_CONTENT_FIELDS),
    *(name for name, form in _FORM_OF_KEY.items() if form.kind == "result"),
    *(form.content for form in (*_FORM_OF_TYPE.values(), *_FORM_OF_KEY.values())),
}
"""Keys of blocks under which texts are shortened."""


_ARGUMENTS = ("arguments", "args", "input", "tool_kwargs", "parameters")
"""Names of a call's arguments."""

_THOUGHTS = (
    "thinking",  # Anthropic
    "reasoning",  # LangChain
    "reasoningText",  # Bedrock
    "reasoning_text",  # Haystack
    "reasoning_content",  # chats of several models
    "text",
    "content",
    "summary",  # OpenAI's Responses
)
"""Names under which a thought is text."""


_FAILURES = ("error", "failed", "retried")
"""Values of the status of a result, or of Pydantic AI's outcome, that say that its call failed."""


class Part(NamedTuple):
    """A block of a message, independent of the names that its framework uses."""

    kind: Kind
    id: str | None = None
    """The id of the call; that of a result is the one of its call."""
    name: str | None = None
    """The name of the tool that is called."""
    content: Any = None
    """The content of a text, a thought or a result: a text, or blocks; the arguments of a call."""
    is_error: bool = False
    """A result says that its call failed."""


# Reading a message


def read(message: Any, name: str) -> Any:
    """Return a key of a mapping or an attribute of an object; ``None`` if it is missing."""
    # An isinstance check against an abstract class is slow, and nearly all mappings are dicts.
    if isinstance(message, (dict, Mapping)):
        return message.get(name)
    return getattr(message, name, None)


def role_of(message: Any) -> str:
    """Return the role as plain text; empty if the message has none."""
    role = read(message, "role")
    if role is None:
        return _role_of_form(message)
    role = str(role.value if isinstance(role, enum.Enum) else role)
    return _SYNONYMS.get(role, role)


def _role_of_form(message: Any) -> str:
    """Return the role of a message without the field: of its type, its author, or its parts."""
    of_type = read(message, "type")
    if isinstance(of_type, str) and of_type in _ROLE_OF_TYPE:
        return _ROLE_OF_TYPE[of_type]
    if (inner := _inner_message(message)) is not None:
        return "" if read(inner, "role") is None else role_of(inner)
    return _role_of_author(message) or _role_of_parts(message)


def _inner_message(message: Any) -> Any:
    """Return the message that a line of Claude's transcript holds; ``None`` without one."""
    inner = read(message, "message")
    return inner if isinstance(inner, Mapping) else None


def _role_of_author(message: Any) -> str:
    """Return the role of who wrote an event of ADK: the user, an agent, or a tool that answers."""
    author = read(message, "author")
    if not isinstance(author, str) or read(message, "invocation_id") is None:
        return ""
    if author == "user":
        return "user"
    return "tool" if _ids_of(message, "result") else "assistant"


def _role_of_parts(message: Any) -> str:
    """Return the role of a message of Pydantic AI: a response, or a request with parts of roles."""
    kind, parts = read(message, "kind"), read(message, "parts")
    if kind not in ("request", "response") or not isinstance(parts, (list, tuple)):
        return ""
    if kind == "response":
        return "assistant"
    kinds = [read(part, "part_kind") for part in parts]
    found = (role for of, role in _ROLE_OF_PART.items() if of in kinds)
    return next(found, "user")


def is_system(message: Any) -> bool:
    """Return whether the message instructs the model rather than being part of the dialogue."""
    return role_of(message) in SYSTEM_ROLES


def roles_with(own: Iterable[str]) -> frozenset[str]:
    """Return `ROLES` and the *own* roles of an application.

    Raises:
        TypeError, InvalidArgument: *own* are no names of roles.
    """
    if isinstance(own, (str, bytes)) or not isinstance(own, Iterable):
        raise TypeError('roles is a list of names, such as roles=["critic"]')
    names = list(own)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the name of a role is a text, not a {type(name).__name__}")
        if not name.strip():
            raise InvalidArgument("the name of a role is not empty")
    return ROLES | {str(name) for name in names}


def check_role(role: str, roles: frozenset[str] = ROLES) -> None:
    """Check the role of a message that is to be stored.

    Raises:
        InvalidArgument: it is none of *roles*.
    """
    if role not in roles:
        near = get_close_matches(role.lower(), sorted(roles), 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidArgument(
            f"a message has no role {role[:40]!r}: {meant}Roles are system, developer, user, "
            "assistant, tool and function; roles= of the conversation names others. An agent's "
            "name belongs into the field name"
        )


def is_user_turn(message: Any) -> bool:
    """Return whether the user speaks; tool results, which Anthropic sends as user, do not count."""
    if role_of(message) != "user":
        return False
    return isinstance(read(message, "content"), str) or not results_of(message)


def is_prompt(message: Any) -> bool:
    """Return whether the user wrote the message, and not the agent's loop in the user's role."""
    return is_user_turn(message) and not any(map(metadata_of(message).get, AUTOMATED))


def latest_prompt(messages: Sequence[Any]) -> int | None:
    """Return the index of the latest message that the user wrote."""
    return next((at for at in reversed(range(len(messages))) if is_prompt(messages[at])), None)


def words_of(content: Any) -> str:
    """Return the text of a content, without a model's thoughts.

    The texts of its blocks, and of the results of tools in it, are joined by line breaks.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        return "\n".join(filter(None, map(words_of, content)))
    if type(content) is dict and content.get("type") == "text":  # the most frequent block, faster
        return words_of(content.get("text"))
    part = part_of(content)
    return words_of(part.content) if part and part.kind in ("text", "result") else ""


def text_of(message: Any) -> str:
    """Return the text of a message, without thoughts of a model; empty if it has none."""
    return words_of(_content_of(message))


def content_field(message: Any) -> str:
    """Return the field that holds the content of a message; ``content`` if none does."""
    if read(message, "content") is not None:
        return "content"
    return next((name for name in _CONTENT_FIELDS if read(message, name) is not None), "content")


def _content_of(message: Any) -> Any:
    """Return the content of a message, or of the one that a line of a transcript holds."""
    content = read(message, content_field(message))
    if content is None and (inner := _inner_message(message)) is not None:
        return read(inner, "content")
    return content


def part_of(block: Any) -> Part | None:
    """Return a block as a `Part`; ``None`` for one that is no text, thought, call or result."""
    if isinstance(block, str):
        return Part("text", content=block)
    form, holder = _form_of(block)
    if form is None:
        text = _words_of_block(block)
        if text is None:
            return None
        return Part("thought" if read(block, "thought") is True else "text", content=text)
    if form.kind == "thought":
        return Part("thought", content=thought_of(holder))
    name = read(holder, "name") or read(holder, "tool_name")
    if form.kind == "call":
        return Part("call", _id_of(form, holder), name, arguments_of(holder))
    content = read(holder, form.content)
    if form.content == "response":  # Gemini's is a mapping; ADK puts what is none under this key
        said = read(content, "result")
        content = content if said is None else said
    return Part("result", _id_of(form, holder), name, content, says_error(holder))


def _words_of_block(block: Any) -> str | None:
    """Return the text of a block that is no call, result or thought; ``None`` without one."""
    for name in _TEXTS:
        if isinstance(text := read(block, name), str):
            return text
    # Gemini's content is {"parts": […]}; others have what they hold under one of these names.
    inner = read(block, content_field(block))
    return None if inner is block else words_of(inner) or None


def arguments_of(call: Any) -> Any:
    """Return the arguments of a call: a mapping, or a text that is JSON; ``None`` without any."""
    holder = call if read(call, "function") is None else read(call, "function")
    found = (read(holder, name) for name in _ARGUMENTS)
    return next((one for one in found if one is not None), None)


def thought_of(holder: Any) -> str:
    """Return the text of a model's thought: of a block, or of an item or a message that has one."""
    if isinstance(holder, str):
        return holder
    for name in _THOUGHTS:
        found = read(holder, name)
        if isinstance(found, str) and found:
            return found
        if isinstance(found, (list, tuple)):
            texts = [one if isinstance(one, str) else read(one, "text") for one in found]
            if text := "\n".join(one for one in texts if isinstance(one, str)):
                return text
        elif found is not None and not isinstance(found, str) and (text := thought_of(found)):
            return text
    return ""


def says_error(result: Any) -> bool:
    """Return whether a result of a tool says that the call failed."""
    # Gemini's response is a mapping, which ADK and MCP give what they know of a failure.
    for holder in (result, read(result, "response")):
        if any(read(holder, name) for name in ("is_error", "isError", "error", "exception")):
            return True
    is_retry: bool = read(result, "part_kind") == "retry-prompt"
    return is_retry or any(read(result, name) in _FAILURES for name in ("status", "outcome"))


def is_known_block(kind: str) -> bool:
    """Return whether a type of blocks is that of calls, results and thoughts in messages."""
    return kind in _FORM_OF_TYPE


def _form_of(block: Any) -> tuple[_Form | None, Any]:
    """Return the form of a block, and what has its id and content: itself, or a value in it."""
    kind = read(block, "type") or read(block, "block_type") or read(block, "part_kind")
    if isinstance(kind, str):
        if kind == "retry-prompt" and read(block, "tool_name") is None:
            return None, block  # it answers no call
        return _FORM_OF_TYPE.get(kind), block
    if isinstance(read(block, "text"), str):
        return None, block
    names = block if isinstance(block, Mapping) else _FORM_OF_KEY
    for name in names:
        form = _FORM_OF_KEY.get(name)
        if form is not None and (holder := read(block, name)) is not None:
            return form, holder
    return None, block


def _id_of(form: _Form, holder: Any) -> str | None:
    id_: str | None = read(holder, form.id) if form.id else read(read(holder, "origin"), "id")
    return read(holder, form.other_id) if id_ is None and form.other_id else id_


def _ids_of(message: Any, kind: Kind) -> list[str | None]:
    """Return the ids of the blocks of one kind."""
    found = map(_form_of, blocks_of(message))
    return [_id_of(form, holder) for form, holder in found if form and form.kind == kind]


def parts_of(message: Any) -> list[Part]:
    """Return the blocks of a message as parts; empty if its content is a text."""
    return [part for block in blocks_of(message) if (part := part_of(block)) is not None]


def blocks_of(message: Any) -> Sequence[Any]:
    """Return the blocks of a message as they are; empty if its content is a text."""
    content = read(message, "content")
    if isinstance(content, str):  # nearly always
        return ()
    if content is None:
        content = _content_of(message)
    if content is not None and not isinstance(content, (list, tuple)):
        content = read(content, "parts")  # of Gemini, in an event of ADK
    return content if isinstance(content, (list, tuple)) else ()


def blocks_of_type(message: Any, kind: str) -> Iterator[Any]:
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
    calls = [read(call, "id") for call in listed_calls(message)]
    used = _ids_of(message, "call")
    # LangChain's messages list the calls of an Anthropic model in both places.
    return calls + [call for call in used if call not in calls] if calls else used


def listed_calls(message: Any) -> Sequence[Any]:
    """Return the calls that a message lists beside its content; none if the field is no list."""
    calls = read(message, "tool_calls")
    return calls if isinstance(calls, (list, tuple)) else ()


def called_tools(message: Any) -> list[str]:
    """Return the names of the tools that the message calls, in order."""
    calls = listed_calls(message)
    names = [read(call, "name") or read(read(call, "function"), "name") for call in calls]
    names = names or [part.name for part in parts_of(message) if part.kind == "call"]
    return [str(name) for name in names]


def results_of(message: Any) -> list[str | None]:
    """Return the ids of the calls whose results the message holds; ``None`` for a missing id."""
    role = role_of(message)
    if role not in ("tool", "user"):
        return []
    if role == "tool":
        for holder in (message, read(message, "additional_kwargs")):  # LlamaIndex has it in there
            if (found := read(holder, "tool_call_id")) is not None:
                return [found]
        if (found := read(message, "call_id")) is not None:
            return [found]
    results = _ids_of(message, "result")
    # A message of Pydantic AI that asks for another try answers no call.
    whole = role == "tool" and not results and read(message, "kind") != "request"
    return [None] if whole else results


def with_results(message: Any, text: str) -> Any:
    """Return a copy whose results say *text* alone; ``None`` if its class does not allow that."""
    blocks = blocks_of(message)
    if not any(map(_is_result, blocks)):
        return copy_with(message, content_field(message), text)
    changed = [_with_result(block, text) if _is_result(block) else block for block in blocks]
    return None if None in changed else _with_blocks(message, changed)


def without_results(message: Any, ids: Iterable[str | None]) -> Any:
    """Return a copy without results of these calls; ``None`` if its class does not allow that.

    Of two results of one call the later one goes.
    """
    gone = list(ids)
    left = []
    for block in reversed(blocks_of(message)):
        form, holder = _form_of(block)
        if form and form.kind == "result" and (id_ := _id_of(form, holder)) in gone:
            gone.remove(id_)
        else:
            left.append(block)
    return _with_blocks(message, left[::-1])


def _is_result(block: Any) -> bool:
    form, _ = _form_of(block)
    return form is not None and form.kind == "result"


def _with_result(block: Any, text: str) -> Any:
    form, holder = _form_of(block)
    assert form is not None
    said: Any = text
    if form.content == "response":  # Gemini's is a mapping
        said = {"result": text}
    elif holder is not block and form.content == "content":  # Bedrock's is a list
        said = [{"text": text}]
    changed = copy_with(holder, form.content, said)
    if read(holder, "items") is not None and changed is not None:  # the result again, as blocks
        changed = copy_with(changed, "items", [])
    if changed is None or holder is block:
        return changed
    return copy_with(block, next(name for name in _FORM_OF_KEY if read(block, name)), changed)


def _with_blocks(message: Any, blocks: list[Any]) -> Any:
    name = content_field(message)
    content = read(message, name)
    if not isinstance(content, (list, tuple)):  # of Gemini, in an event of ADK
        blocks = copy_with(content, "parts", blocks)
    return None if blocks is None else copy_with(message, name, blocks)


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
        TypeError: the class cannot be constructed from a role and a content, or has another role.
    """
    example = next((one for one in like if read(one, "role") is not None), like[0])
    if isinstance(example, Mapping):
        message = {"role": role, "content": content, **fields}
        if metadata and any(isinstance(one, Mapping) and "metadata" in one for one in like):
            message["metadata"] = dict(metadata)
        return message
    cls, given = _class_with_role(example, role)
    for extra in ({"metadata": dict(metadata)}, {}) if metadata else ({},):
        try:
            message = cls(**given, content=content, **fields, **extra)
        except TypeError:
            continue
        except ValueError:  # of a pydantic model that forbids unknown fields
            if not extra:
                raise
            continue
        if role_of(message) == role:
            return message
    raise TypeError(
        f"a {cls.__qualname__} cannot be constructed from role= and content= with the role {role}; "
        "convert the messages with Message.of(message) first"
    )


def _class_with_role(example: Any, role: str) -> tuple[Any, dict[str, Any]]:
    """Return the class of a message like *example* with that role, and the role as it takes it."""
    own = read(example, "role")
    if own is not None:
        return type(example), {"role": type(own)(role) if isinstance(own, enum.Enum) else role}
    # Whoever has a message of LangChain's has imported its classes, of which each has one role.
    langchain = sys.modules.get("langchain_core.messages")
    if langchain is not None and isinstance(example, langchain.BaseMessage):
        return getattr(langchain, _LANGCHAIN_CLASSES[role]), {}
    return type(example), {"role": role}


def copy_with(message: Any, name: str, value: Any) -> Any:
    """Return a copy with another value in one field; ``None`` if its class does not allow that."""
    if isinstance(message, Mapping):
        return {**message, name: value}
    if hasattr(message, "model_copy"):
        return message.model_copy(update={name: value})
    if dataclasses.is_dataclass(message) and not isinstance(message, type):
        if name not in {field.name for field in dataclasses.fields(message) if field.init}:
            return None
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
        for name in content.keys() & _SHORTENED:
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
