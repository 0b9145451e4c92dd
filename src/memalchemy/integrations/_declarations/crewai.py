"""CrewAI: a flow, and below it what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memalchemy.adapters import AdapterDeclaration, Namespace, ThreadParts, View


def _is_of_flow(main: Namespace, other: Namespace) -> bool:
    return main[-1] == "flows" and other == (*main, "pending")


def _interrupts(state: Mapping[str, Any]) -> list[tuple[Any, Any]] | None:
    """Return what a flow waits for: the context in which it asks."""
    context = state.get("context")
    if not isinstance(context, dict) or "state" not in state:
        return None
    return [(context, context.get("flow_id"))]


DECLARATION = AdapterDeclaration(
    root="crewai", title="CrewAI", parts=ThreadParts(_is_of_flow), view=View(interrupts=_interrupts)
)
