"""Namespaces and keys of the OpenAI Agents SDK's sessions, for its adapter and its importer.

A session is a thread with the session's id. Each of its branches is a log of that thread, and an
item is an entry. The description of a session is a store item, and so is the usage of a turn. This
module does not need the SDK.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAIN = "main"
"""The branch that every session has."""
ROOT = "openai"
NAMESPACE = (ROOT,)
"""Namespace of the main branch's log."""
SESSIONS = (ROOT, "sessions")
"""Namespace of the descriptions of sessions, each under the session's id."""
BRANCHES = (ROOT, "branches")
"""Namespace of the branch names that a session has ever used, each under the session's id."""
RUNS = (ROOT, "runs")
"""Namespace of the checkpoints of interrupted runs."""

_BRANCH = (ROOT, "branch")


def branch_namespace(branch: str) -> tuple[str, ...]:
    """Return the namespace of a branch's log."""
    if not isinstance(branch, str) or not branch.strip():
        raise ValueError("a branch has a name")
    return NAMESPACE if branch == MAIN else (*_BRANCH, branch)


def branch_of(namespace: Sequence[str]) -> str | None:
    """Return the branch whose log is in *namespace*, or ``None`` if it is no branch's."""
    if tuple(namespace) == NAMESPACE:
        return MAIN
    if not namespace:
        return None
    *parts, last = namespace
    return last if tuple(parts) == _BRANCH else None


def usage_namespace(session_id: str, *branch: str) -> tuple[str, ...]:
    """Return the namespace of a branch's usage, or without a branch that of the session's."""
    return (ROOT, "usage", session_id, *branch)


def usage_key(position: int) -> str:
    """Return the key of a turn's usage, made of the position of its first item, which is unique."""
    return f"{position:012d}"


def is_turn(item: Any) -> bool:
    """Return ``True`` if an item begins a turn: it is a user's message."""
    return isinstance(item, dict) and item.get("role") == "user"
