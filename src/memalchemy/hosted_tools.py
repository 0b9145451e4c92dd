"""Calls of tools that the model's provider runs itself, such as a search on the web.

Nobody outside has to answer them: the result comes with the model's answer, in the same item or in
a block beside the call. So they are shown and counted, and are no calls for `calls_of`, which pairs
calls with the messages that answer them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memalchemy.messages import Part, arguments_of, is_known_block, read, says_error

_CALL_ENDS = (
    "_call",  # OpenAI's Responses: web_search_call. LangChain: server_tool_call. Agent Framework
    "_tool_use",  # Anthropic: server_tool_use, mcp_tool_use
    "builtin-tool-call",  # Pydantic AI
)
_RESULT_ENDS = (
    "_call_output",  # OpenAI's Responses
    "_tool_result",  # Anthropic: web_search_tool_result. LangChain, Agent Framework
    "builtin-tool-return",  # Pydantic AI
)
"""Ends of the types of blocks and items. Those that an application answers are known by name."""

_NO_CALLS = ("invalid_tool_call",)  # LangChain's, which no tool ever got

_IDS = ("call_id", "tool_use_id", "tool_call_id", "id", "image_id")
_NAMES = ("name", "tool_name")
_OUTPUTS = ("output", "outputs", "results", "result")
"""Fields in which OpenAI's call of a hosted tool holds its result."""

_RESULTS = ("content", *_OUTPUTS)
_NO_ARGUMENTS = {
    *(*_IDS, *_NAMES, *_OUTPUTS, "type", "part_kind", "status", "error", "index", "extras"),
    *("caller", "server_name", "provider_name", "provider_details", "provider_url"),
    *("annotations", "additional_properties", "raw_representation", "merge_mode", "tool_kind"),
}
"""Fields of a call that are no arguments, where nothing says which are."""

_CODE = "code_execution"
_OF_GEMINI = {
    "executable_code": "call",
    "executableCode": "call",
    "code_execution_result": "result",
    "codeExecutionResult": "result",
}
"""Keys of Gemini's blocks for code that it runs, which may have no id."""


def hosted_parts(block: Any) -> list[Part]:
    """Return what a block of a message, or an item, says of a hosted tool; empty if it is of none.

    That is a call, a result, or a call with its result.
    """
    kind = read(block, "type") or read(block, "part_kind")
    if not isinstance(kind, str):
        return _parts_of_gemini(block)
    if is_known_block(kind) or kind in _NO_CALLS:
        return []
    id_, name = _first(block, _IDS), _first(block, _NAMES)
    if kind.endswith(_RESULT_ENDS):
        said = _first(block, _RESULTS)
        if name is None and kind.endswith("_call_output"):
            name = kind.removesuffix("_output")
        return [Part("result", id_, name, said, says_error(block) or _is_error_block(said))]
    if not kind.endswith(_CALL_ENDS):
        return []
    call = Part("call", id_, kind if name is None else name, _arguments_of(block))
    return [call, *_result_within(block, kind, call)]


def tool_of_item(item: Any) -> str | None:
    """Return the name of the tool that an item of OpenAI's Responses calls.

    It is the item's ``name``, which in any other message names the speaker; ``None`` of those.
    """
    kind, name = read(item, "type"), read(item, "name")
    is_call = isinstance(kind, str) and kind.endswith("_call") and read(item, "role") is None
    return name if is_call and isinstance(name, str) and name else None


def _first(holder: Any, names: tuple[str, ...]) -> Any:
    return next((one for name in names if (one := read(holder, name)) is not None), None)


def _arguments_of(call: Any) -> Any:
    found = arguments_of(call)
    if found is None and isinstance(call, Mapping):
        return {name: value for name, value in call.items() if name not in _NO_ARGUMENTS}
    return found


def _result_within(item: Any, kind: str, call: Part) -> list[Part]:
    """Return the result that the call of a tool of OpenAI's holds itself; empty without one.

    A search on the web says only that it is completed. The calls that wait for an item with their
    output have a ``call_id``, which this item does not have; of other frameworks, no call holds
    its result.
    """
    if kind.endswith("_tool_call") or read(item, "call_id") is not None:
        return []
    said, is_error = _first(item, _OUTPUTS), says_error(item)
    if said is None and not is_error and read(item, "status") != "completed":
        return []
    if kind == "image_generation_call":  # its result is the image
        said = None
    if said is None:
        said = read(item, "error") or None
    return [Part("result", call.id, call.name, said, is_error)]


def _is_error_block(content: Any) -> bool:
    """Return whether the content of a result is Anthropic's block for a failure."""
    kind = read(content, "type")
    return isinstance(kind, str) and kind.endswith("_error")


def _parts_of_gemini(block: Any) -> list[Part]:
    for key, kind in _OF_GEMINI.items():
        if (holder := read(block, key)) is None:
            continue
        if kind == "call":
            arguments = {name: read(holder, name) for name in ("language", "code")}
            return [Part("call", read(holder, "id"), _CODE, arguments)]
        is_error = read(holder, "outcome") not in (None, "OUTCOME_OK")
        return [Part("result", read(holder, "id"), _CODE, read(holder, "output"), is_error)]
    return []
