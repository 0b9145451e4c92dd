"""LangGraph: a graph, and below it its subgraphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memalchemy.adapters import AdapterDeclaration, Namespace, ThreadParts, View

_REST = "~checkpoint"
"""The key of a state that holds the rest of the checkpoint."""
_TO_RUN_NEXT = "branch:to:"
"""The beginning of channels that name the node to run next."""


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


def _delta_channels(metadata: Mapping[str, Any]) -> Iterable[str]:
    """Return the channels whose updates since their last stored value are counted."""
    counters = metadata.get("counters_since_delta_snapshot")
    return counters if isinstance(counters, dict) else ()


def _nodes_that_ran(kept: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return the nodes whose seen versions a step has moved: those that ran in it."""
    seen, known = _seen_versions(kept), _seen_versions(before)
    names = (name for name, versions in seen.items() if versions != known.get(name))
    return [name for name in names if isinstance(name, str) and not name.startswith("__")]


def _seen_versions(kept: Mapping[str, Any]) -> Mapping[str, Any]:
    rest = kept.get(_REST)
    found = rest.get("versions_seen") if isinstance(rest, Mapping) else None
    return found if isinstance(found, Mapping) else {}


DECLARATION = AdapterDeclaration(
    root="langgraph",
    title="LangGraph",
    parts=ThreadParts(_is_below, _subgraph_origin, _is_call),
    view=View(
        # The rest of the checkpoint, such as versions, and channels that are not the user's.
        bookkeeping=("~", "__", _TO_RUN_NEXT),
        inputs=("__start__",),
        silent_channels=(_TO_RUN_NEXT,),
        nodes=_nodes_that_ran,
        channels_of_writes=_delta_channels,
    ),
)
