"""Which logs make up a thread of each framework: the declarations of the adapters.

They are here, and not in the adapters' packages, because the command line forks, deletes and prunes
threads of frameworks that are not installed. A framework that keeps a thread in one log is not
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memalchemy.log.thread_parts import Namespace, ThreadParts


def _is_below(main: Namespace, other: Namespace) -> bool:
    return other[: len(main)] == main


def _subgraph_origin(namespace: Namespace, metadata: Mapping[str, Any]) -> str | None:
    """Return the checkpoint of a graph in whose step a subgraph saved one with *metadata*."""
    parents = metadata.get("parents")
    found = parents.get("|".join(namespace[1:])) if isinstance(parents, Mapping) else None
    return found if isinstance(found, str) else None


def _is_call(namespace: Namespace) -> bool:
    """Return whether a namespace is that of one call of a subgraph, whose name has an id in it."""
    return any(":" in part for part in namespace[1:])


def _is_of_session(main: Namespace, other: Namespace) -> bool:
    *place, kind = other[:-1]
    kinds = ("agents", "messages", "multi_agents")
    return main[-1] == "sessions" and tuple(place) == main and kind in kinds


def _is_of_transcript(main: Namespace, other: Namespace) -> bool:
    at = main.index("transcripts") if "transcripts" in main else len(main)
    if len(main) == at + 2 and other == (*main[:at], "summaries", main[-1]):
        return True
    return len(main) >= at + 2 and _is_below(main, other)


def _is_of_run(main: Namespace, other: Namespace) -> bool:
    kinds = ("events", "snapshots")
    return main[:-1] == other[:-1] and main[-1] in kinds and other[-1] in kinds


def _is_of_task(main: Namespace, other: Namespace) -> bool:
    return main[-2:-1] == ("tasks",) and other == (*main[:-2], "events")


DECLARED: Mapping[str, ThreadParts] = {
    # A graph, and below it its subgraphs.
    "langgraph": ThreadParts(_is_below, _subgraph_origin, _is_call),
    # A session, and below it its agents and their messages.
    "strands": ThreadParts(_is_of_session),
    # A flow, and below it what it waits for.
    "crewai": ThreadParts(lambda main, other: main[-1] == "flows" and other == (*main, "pending")),
    # A transcript, below it those of subagents, and beside it the summary.
    "claude_agent_sdk": ThreadParts(_is_of_transcript),
    # The main branch of a session, and the other branches.
    "openai": ThreadParts(lambda main, other: len(main) == 1 and other[1:2] == ("branch",)),
    # The events of a run, and its snapshots.
    "pydantic_ai_harness": ThreadParts(_is_of_run),
    # A task, below its owner's, and the events of it.
    "a2a": ThreadParts(_is_of_task),
}
"""By the first part of a framework's namespaces."""
