"""Strands: a session, and below it its agents and their messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memalchemy.adapters import AdapterDeclaration, Namespace, ThreadParts, View


def _is_of_session(main: Namespace, other: Namespace) -> bool:
    *place, kind = other[:-1]
    kinds = ("agents", "messages", "multi_agents")
    return main[-1] == "sessions" and tuple(place) == main and kind in kinds


def _interrupts(state: Mapping[str, Any]) -> list[tuple[Any, Any]] | None:
    """Return the interrupts of an agent, or of several agents together."""
    internal = state.get("_internal_state")
    holder = internal if isinstance(internal, dict) else state
    found = holder.get("interrupt_state")
    waiting = found.get("interrupts") if isinstance(found, dict) else None
    return [(one, id_) for id_, one in waiting.items()] if isinstance(waiting, dict) else None


DECLARATION = AdapterDeclaration(
    root="strands",
    title="Strands",
    parts=ThreadParts(_is_of_session),
    view=View(interrupts=_interrupts),
)
