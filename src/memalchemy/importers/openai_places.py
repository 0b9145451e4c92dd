"""Where sessions of the OpenAI Agents SDK lie: what its adapter and its importer agree on.

A session is a thread of the session's id. Each of its branches is a log of that thread, and an item
is an entry. What is known about a session is a store item, and so is what a turn used. Knows
nothing of the SDK.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAIN = "main"
"""The branch that every session has."""
NAMESPACE = ("openai",)
"""Of the main branch's log."""
SESSIONS = ("openai", "sessions")
"""What is known about a session lies here, under its id."""
BRANCHES = ("openai", "branches")
"""The names of a session's branches that have ever been used lie here, under its id."""
RUNS = ("openai", "runs")
"""Runs that wait, as checkpoints."""

_BRANCH = (*NAMESPACE, "branch")


def branch_namespace(branch: str) -> tuple[str, ...]:
    """Where the log of a branch is."""
    if not isinstance(branch, str) or not branch.strip():
        raise ValueError("a branch has a name")
    return NAMESPACE if branch == MAIN else (*_BRANCH, branch)


def branch_of(namespace: Sequence[str]) -> str | None:
    """The branch whose log is there; ``None`` if it is something else."""
    if tuple(namespace) == NAMESPACE:
        return MAIN
    *parts, last = namespace
    return last if tuple(parts) == _BRANCH else None


def usage_namespace(session_id: str, *branch: str) -> tuple[str, ...]:
    """Where the usage of a branch lies, or of all branches."""
    return (*NAMESPACE, "usage", session_id, *branch)


def usage_key(position: int) -> str:
    """The key of a turn's usage: where its first item is, which no other turn ever is."""
    return f"{position:012d}"


def is_turn(item: Any) -> bool:
    """Whether an item begins a turn: a user's message does."""
    return isinstance(item, dict) and item.get("role") == "user"
