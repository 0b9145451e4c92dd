"""An item of a session: a copy of it, its text, its kind, the tool it is about. Pure."""

from __future__ import annotations

from typing import Any

_OF_A_SERVER = ("mcp_call", "mcp_approval_request")
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


def copied(value: Any) -> Any:
    """A copy of an item that shares nothing that can be changed."""
    kind = type(value)
    if kind is dict:
        return {name: one if type(one) is str else copied(one) for name, one in value.items()}
    if kind is list or kind is tuple:
        return kind(copied(one) for one in value)
    return set(value) if kind is set else value


def text_of(content: Any) -> str:
    """The words of a message or of its content, a text or a list of parts."""
    if isinstance(content, dict):
        content = content.get("content", "")
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if content else []
    return "\n".join(str(part["text"]) for part in parts if "text" in part)


def kind_of(item: Any) -> str:
    """``user``, ``assistant``, or the type of an item."""
    if not isinstance(item, dict):
        return "other"
    if item.get("role") in ("user", "assistant"):
        return str(item["role"])
    return str(item.get("type") or "other")


def tool_of(item: Any) -> str | None:
    """The tool that an item calls or answers for, where it says so; with its server's label."""
    if not isinstance(item, dict):
        return None
    kind, name = item.get("type"), item.get("name")
    if kind in _OF_A_SERVER and item.get("server_label"):
        return f"{item['server_label']}.{name}" if name else str(item["server_label"])
    if kind in _TOOLS_BY_TYPE:
        return _TOOLS_BY_TYPE[kind]
    if name is None:
        return None
    space = item.get("namespace")
    return f"{space}.{name}" if space and space != name else str(name)
