"""Functions of a session's items: their copies, texts, types and tools."""

from __future__ import annotations

from typing import Any

_WITH_SERVER_LABEL = ("mcp_call", "mcp_approval_request")
_TOOLS_BY_TYPE = {
    "computer_call": "computer_call",
    "file_search_call": "file_search_call",
    "web_search_call": "web_search_call",
    "code_interpreter_call": "code_interpreter_call",
    "shell_call": "shell_call",
    "apply_patch_call": "apply_patch_call",
    "tool_search_call": "tool_search",
    "tool_search_output": "tool_search",
}


def copy_of(value: Any) -> Any:
    """Return a copy of an item that shares no mutable object with it."""
    kind = type(value)
    if kind is dict:
        return {name: one if type(one) is str else copy_of(one) for name, one in value.items()}
    if kind is list or kind is tuple:
        return kind(copy_of(one) for one in value)
    return set(value) if kind is set else value


def text_of(content: Any) -> str:
    """Return the text of a message or of its content, a string or a list of parts."""
    if isinstance(content, dict):
        content = content.get("content", "")
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    parts = (part for part in content if isinstance(part, dict))
    return "\n".join(str(part["text"]) for part in parts if "text" in part)


def type_of(item: Any) -> str:
    """Return ``user`` or ``assistant`` for a message, and the type of any other item."""
    if not isinstance(item, dict):
        return "other"
    if item.get("role") in ("user", "assistant"):
        return str(item["role"])
    return str(item.get("type") or "other")


def tool_of(item: Any) -> str | None:
    """Return the tool that an item calls or answers for, with its server's label; or ``None``."""
    if not isinstance(item, dict):
        return None
    kind, name = str(item.get("type")), item.get("name")
    if kind in _WITH_SERVER_LABEL and item.get("server_label"):
        return f"{item['server_label']}.{name}" if name else str(item["server_label"])
    if kind in _TOOLS_BY_TYPE:
        return _TOOLS_BY_TYPE[kind]
    if name is None:
        return None
    namespace = item.get("namespace")
    return f"{namespace}.{name}" if namespace and namespace != name else str(name)
