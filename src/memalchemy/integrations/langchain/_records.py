"""Messages and documents of LangChain as plain values, and back.

A record names a class by LangChain's short name for it, and only the classes below are created.
"""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from memalchemy.integrations._stored_forms import StoredForm

MESSAGES: dict[str, type[BaseMessage]] = {
    "ai": AIMessage,
    "human": HumanMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "chat": ChatMessage,
    "function": FunctionMessage,
    "remove": RemoveMessage,
    "AIMessageChunk": AIMessageChunk,
    "HumanMessageChunk": HumanMessageChunk,
    "SystemMessageChunk": SystemMessageChunk,
    "ToolMessageChunk": ToolMessageChunk,
    "ChatMessageChunk": ChatMessageChunk,
    "FunctionMessageChunk": FunctionMessageChunk,
}
"""The classes of messages, by the ``type`` of their objects."""


def message_to_record(message: BaseMessage) -> dict[str, Any]:
    """Return a message as a dict of its ``type`` and of the fields that differ from their defaults.

    An object of a subclass is stored as one of the class in `MESSAGES` that has its type.

    Raises:
        TypeError: *message* is none, or of a type that `MESSAGES` does not have.
    """
    if not isinstance(message, BaseMessage):
        raise TypeError(f"a {type(message).__name__} is no message of LangChain")
    cls = MESSAGES.get(message.type)
    if cls is None or not isinstance(message, cls):
        raise TypeError(f"a {type(message).__name__} is not one of LangChain's own messages")
    return {"type": message.type, **message.model_dump(exclude_defaults=True)}


@StoredForm("message of LangChain")
def record_to_message(record: dict[str, Any]) -> BaseMessage:
    """Return the message that `message_to_record` has made *record* of.

    Raises:
        Corrupt: the record is none of a message.
    """
    cls = MESSAGES[record["type"]]
    message = cls(**record)
    if isinstance(message, AIMessage):
        # The constructor makes calls of additional_kwargs where it is given none. The message had
        # these calls, and no others.
        message.tool_calls = record.get("tool_calls", [])
        message.invalid_tool_calls = record.get("invalid_tool_calls", [])
    return message


def value_to_record(value: Any) -> tuple[Any, dict[str, str]]:
    """Return a value to store, and the metadata that says what to make of it."""
    if isinstance(value, BaseMessage):
        return message_to_record(value), {"class": "message"}
    if isinstance(value, Document):
        fields = {"id": value.id, "page_content": value.page_content, "metadata": value.metadata}
        return fields, {"class": "document"}
    return value, {}


@StoredForm("document of LangChain")
def record_to_value(record: Any, metadata: dict[str, Any]) -> Any:
    """Return the value of which `value_to_record` has made a record and its metadata.

    Raises:
        Corrupt: it has made it of none.
    """
    match metadata.get("class"):
        case "message":
            return record_to_message(record)
        case "document":
            return Document(**record)
    return record
