"""Microsoft's Agent Framework: objects are stored as mappings, and states have what they ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memalchemy.adapters import AdapterDeclaration, View

MARK = "~object"
"""Key of a stored mapping that stands for an object; its value names the class."""


def _content_of_object(stored: Mapping[str, Any]) -> Any:
    if "state" in stored:
        state = stored["state"]
        # An object with slots has the state (attributes, slots).
        if type(state) in (list, tuple) and len(state) == 2 and isinstance(state[1], dict):
            return {**(state[0] or {}), **state[1]}
        return state
    for form in ("items", "call", "new"):
        found = stored.get(form)
        if found:
            return found[0] if form == "call" and len(found) == 1 else found
    return {name: one for name, one in stored.items() if name != MARK}


def _interrupts(state: Mapping[str, Any]) -> list[tuple[Any, Any]] | None:
    requests = state.get("pending_request_info_events")
    return [(one, id_) for id_, one in requests.items()] if isinstance(requests, dict) else None


DECLARATION = AdapterDeclaration(
    root="agent_framework",
    title="Microsoft Agent Framework",
    view=View(objects={MARK: _content_of_object}, interrupts=_interrupts),
)
