"""Messages and the state of an agent as pydantic models.

Everything that takes a message accepts a `Message`, a dict in OpenAI's format, or any object with a
role and a content; `Message.of` reads all three. `AgentState` has the fields of the agent runtime
locus, so that a checkpoint of one is a checkpoint of the other.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self
from uuid import uuid4

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationError,
    WrapSerializer,
    field_validator,
    model_validator,
)
from pydantic_core import to_jsonable_python

from memalchemy._bounds import parse_json
from memalchemy.messages import read, role_of, words_of


def _as_list(value: Any, serialise: SerializerFunctionWrapHandler) -> list[Any]:
    return list(serialise(value))


def _as_sorted(value: frozenset[str] | None) -> list[str] | None:
    return None if value is None else sorted(value)


def _as_text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _now() -> datetime:
    return datetime.now(UTC)


# A checkpoint holds what JSON would: lists, ISO times, and sets in one order. The order of a set
# differs from process to process, and every save would look like a change.
Floats = Annotated[tuple[float, ...], WrapSerializer(_as_list)]
Names = Annotated[frozenset[str], PlainSerializer(_as_sorted)]
MaybeNames = Annotated[frozenset[str] | None, PlainSerializer(_as_sorted)]
Texts = Annotated[tuple[str, ...], WrapSerializer(_as_list)]
Moment = Annotated[datetime, PlainSerializer(_as_text)]


class _Record(BaseModel):
    # Without hide_input_in_errors an error of validation quotes what somebody said.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="allow", hide_input_in_errors=True
    )


class Role(StrEnum):
    """Role of a message. A message may have another role, which stays plain text.

    `Conversation` stores the roles of `memalchemy.messages.ROLES`, and those of its own ``roles=``.
    """

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolCall(_Record):
    """Call of a tool by the model.

    It is read from ``{"id", "name", "arguments": dict or JSON text}`` and from OpenAI's nested
    form. If the model's arguments are no JSON object, ``malformed_arguments`` is their text and
    ``arguments`` is empty. Unknown fields are kept.
    """

    id: str = Field(default_factory=lambda: f"call_{uuid4().hex[:12]}")
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    malformed_arguments: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, data: Any) -> Any:
        if isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            known = ("id", "name", "arguments", "args", "function", "malformed_arguments", "type")
            data = {name: read(data, name) for name in known}
        flat = {name: value for name, value in data.items() if value is not None}
        function = flat.get("function")
        if function is not None and "name" not in flat:
            del flat["function"]
            flat["name"], flat["arguments"] = read(function, "name"), read(function, "arguments")
            if flat.get("type") == "function":
                del flat["type"]
        arguments = flat.pop("args", None)
        arguments = flat.pop("arguments", None) or arguments or {}
        if isinstance(arguments, str):
            text, arguments = arguments, _json_object(arguments)
            if arguments is None:
                flat["malformed_arguments"], arguments = text, {}
        return {**flat, "arguments": arguments}

    def to_record(self) -> dict[str, Any]:
        """Return the plain dict that is stored, without empty fields."""
        record = {"id": self.id, "name": self.name, "arguments": self.arguments}
        if self.malformed_arguments is not None:
            record["malformed_arguments"] = self.malformed_arguments
        return {**record, **(self.model_extra or {})}

    def to_openai(self) -> dict[str, Any]:
        """Return OpenAI's nested form, with the arguments as JSON text or as malformed text."""
        text = self.malformed_arguments
        if text is None:
            text = json.dumps(self.arguments, default=to_jsonable_python)
        function = {"name": self.name, "arguments": text}
        return {"id": self.id, "type": "function", "function": function, **(self.model_extra or {})}


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        found = parse_json(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


_A_MESSAGE_IS = (
    "a message is a Message, a mapping in OpenAI's format or an object with role and content"
)


def _plain_blocks(content: Any) -> Any:
    return (
        [_plain_block(block) for block in content]
        if isinstance(content, (list, tuple))
        else content
    )


# Pydantic tries the members of these unions from left to right. A role and a text, which most
# messages are, are validated without a call into Python: a microsecond for a message.
RoleField = Annotated[Role | str, PlainSerializer(str), Field(union_mode="left_to_right")]
ContentField = Annotated[
    str | Annotated[list[Any], BeforeValidator(_plain_blocks)] | None,
    Field(union_mode="left_to_right"),
]


class Message(_Record):
    """Message of a conversation. It is frozen, and keeps unknown fields.

    ``content`` is a text, a list of blocks (plain dicts), or ``None``. ``metadata`` belongs to the
    application and is not sent to a model.
    """

    role: RoleField
    content: ContentField = None
    tool_calls: Annotated[tuple[ToolCall, ...], WrapSerializer(_as_list)] = ()
    tool_call_id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("tool_calls", "metadata", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any, info: Any) -> Any:
        return ({} if info.field_name == "metadata" else ()) if value is None else value

    @classmethod
    def of(cls, message: Any) -> Message:
        """Return a message as a `Message`: from a mapping, or from the attributes of an object.

        A `Message` is returned itself.

        Raises:
            TypeError: it is none of these.
            ValueError: a field is missing or has the wrong type. The error does not quote it.
        """
        if isinstance(message, Message):
            return message
        if isinstance(message, Mapping):
            return cls._validate(dict(message))
        if not role_of(message) or not hasattr(message, "content"):
            raise TypeError(f"{_A_MESSAGE_IS}, not {type(message).__name__}")
        fields = {name: read(message, name) for name in cls.model_fields}
        given = _fields_of(message) | fields | {"role": role_of(message)}
        return cls._validate({key: value for key, value in given.items() if value is not None})

    @classmethod
    def _validate(cls, fields: dict[str, Any]) -> Message:
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
        # Only the first part of a location is named: the others are keys of the application.
        wrong = {str(one["loc"][0]): one["type"] for one in reversed(found) if one["loc"]}
        said = [
            f"its {name} {'is missing' if why == 'missing' else 'is of a wrong type'}"
            for name, why in sorted(wrong.items())
        ]
        raise ValueError(f"{_A_MESSAGE_IS}: {', '.join(said) or 'this is none'}")

    @classmethod
    def system(cls, content: str | list[Any], **fields: Any) -> Self:
        """Create a system message."""
        return cls(role=Role.SYSTEM, content=content, **fields)

    @classmethod
    def user(cls, content: str | list[Any], **fields: Any) -> Self:
        """Create a message of the user."""
        return cls(role=Role.USER, content=content, **fields)

    @classmethod
    def assistant(
        cls,
        content: str | list[Any] | None = None,
        tool_calls: Iterable[Any] = (),
        **fields: Any,
    ) -> Self:
        """Create an answer of the model, with the tools that it calls."""
        return cls(role=Role.ASSISTANT, content=content, tool_calls=tuple(tool_calls), **fields)

    @classmethod
    def tool(cls, content: str | list[Any], tool_call_id: str, **fields: Any) -> Self:
        """Create the result of a tool call."""
        return cls(role=Role.TOOL, content=content, tool_call_id=tool_call_id, **fields)

    @property
    def text(self) -> str:
        """Text of the content; empty if there is none."""
        return words_of(self.content)

    def to_record(self) -> dict[str, Any]:
        """Return the plain dict that is stored, without empty fields; `of` reads it back."""
        record: dict[str, Any] = {"role": str(self.role)}
        for name in ("content", "tool_call_id", "name"):
            if (value := getattr(self, name)) is not None:
                record[name] = value
        if self.tool_calls:
            record["tool_calls"] = [call.to_record() for call in self.tool_calls]
        if self.metadata:
            record["metadata"] = self.metadata
        return {**record, **(self.model_extra or {})}

    def to_openai(self) -> dict[str, Any]:
        """Return the dict that OpenAI's chat completions accept, without the metadata."""
        record = {"role": str(self.role), "content": self.content} | self.to_record()
        record.pop("metadata", None)
        if self.tool_calls:
            record["tool_calls"] = [call.to_openai() for call in self.tool_calls]
        return record


def _plain_block(block: Any) -> Any:
    if isinstance(block, BaseModel):
        return block.model_dump(exclude_none=True)
    if dataclasses.is_dataclass(block) and not isinstance(block, type):
        return dataclasses.asdict(block)
    return block


def _fields_of(message: Any) -> dict[str, Any]:
    if isinstance(message, BaseModel):
        return message.model_dump()
    if dataclasses.is_dataclass(message) and not isinstance(message, type):
        return {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
    return {}


class ToolExecution(_Record):
    """Execution of a tool with its result."""

    tool_name: str
    tool_call_id: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    result: str | None = None
    error: str | None = None
    duration_ms: float | None = None
    timestamp: Moment = Field(default_factory=_now)
    idempotent_cache_hit: bool = False


class ReasoningStep(_Record):
    """Iteration of an agent: its thought, its tool calls and its conclusion."""

    iteration: int
    thought: str | None = None
    tool_calls: Annotated[tuple[ToolCall, ...], WrapSerializer(_as_list)] = ()
    tool_results: Annotated[tuple[ToolExecution, ...], WrapSerializer(_as_list)] = ()
    reflection: str | None = None
    confidence_delta: float = 0.0
    timestamp: Moment = Field(default_factory=_now)


class AgentState(_Record):
    """State that an agent needs to continue. It is frozen, and keeps unknown fields.

    Change it with ``state.model_copy(update={…})``. ``tool_loop_read_only_tools`` is ``None`` if
    the runtime's own list applies. Times are aware UTC, prices are dollars per million tokens.
    """

    run_id: str = Field(default_factory=lambda: uuid4().hex)
    agent_id: str | None = None
    messages: Annotated[tuple[Message, ...], WrapSerializer(_as_list)] = ()

    iteration: int = 0
    max_iterations: int = 20
    tool_executions: Annotated[tuple[ToolExecution, ...], WrapSerializer(_as_list)] = ()
    reasoning_steps: Annotated[tuple[ReasoningStep, ...], WrapSerializer(_as_list)] = ()

    confidence: float = 0.0
    confidence_threshold: float = 0.85
    confidence_history: Floats = ()

    tool_history: Texts = ()
    tool_loop_threshold: int = 3
    tool_loop_read_only_threshold: int | None = None
    tool_loop_read_only_tools: MaybeNames = None
    tool_loop_warnings: Annotated[
        tuple[Annotated[tuple[str, int], WrapSerializer(_as_list)], ...], WrapSerializer(_as_list)
    ] = ()
    terminal_tools: Names = frozenset({"submit", "done", "finish", "complete"})

    total_tokens_used: int = 0
    prompt_tokens_used: int = 0
    completion_tokens_used: int = 0
    cache_creation_tokens_used: int = 0
    cache_read_tokens_used: int = 0
    cached_tokens_used: int = 0
    cache_write_tokens_used: int = 0
    reported_cost_usd: float = 0.0
    reported_cost_calls: int = 0
    token_budget: int | None = None
    input_price_per_mtok: float | None = None
    output_price_per_mtok: float | None = None
    cost_usd_used: float = 0.0
    cost_budget_usd: float | None = None

    completion_mode: str = "auto"
    errors: Texts = ()
    provider_state: dict[str, Any] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    started_at: Moment = Field(default_factory=_now)
    updated_at: Moment = Field(default_factory=_now)

    @field_validator("messages", mode="before")
    @classmethod
    def _any_messages(cls, messages: Any) -> Any:
        if isinstance(messages, (list, tuple)):
            return tuple(Message.of(message) for message in messages)
        return messages

    def to_checkpoint(self) -> dict[str, Any]:
        """Return the mapping that is stored: plain values, equal for equal states in all processes.

        Values that an application put into the metadata keep their Python types.
        """
        record = self.model_dump(round_trip=True)
        if self.tool_loop_read_only_tools is None:
            del record["tool_loop_read_only_tools"]
        return record

    @classmethod
    def from_checkpoint(cls, stored: Mapping[str, Any]) -> Self:
        """Create a state from *stored*; missing fields have their defaults.

        Raises:
            ValueError: a field has the wrong type (pydantic's ValidationError is one).
        """
        return cls.model_validate(dict(stored))
