"""OpenAI's Agents SDK: the main branch of a session, the other branches, and interrupted runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memalchemy.adapters import AdapterDeclaration, Namespace, Path, ThreadParts, View
from memalchemy.importers.openai_session_namespaces import ROOT, branch_of, usage_namespace


def _is_branch(main: Namespace, other: Namespace) -> bool:
    return len(main) == 1 and other[1:2] == ("branch",)


def _raw_item(item: Mapping[str, Any]) -> Any:
    """Return the item of the Responses API that an item of a run is made around."""
    return raw if type(raw := item["raw_item"]) is dict else item


def _messages_of_run(state: Mapping[str, Any]) -> tuple[Path, list[Any]] | None:
    """Return the messages of a `RunState`: its input, and the items that it has made."""
    for given, made in (
        ("original_input", "generated_items"),
        ("originalInput", "generatedItems"),
    ):
        if given not in state or not isinstance(state.get(made), list):
            continue
        first = state[given]
        if isinstance(first, str):
            first = [{"role": "user", "content": first}]
        return (made,), [*(first if isinstance(first, list) else ()), *state[made]]
    return None


def _interrupts(state: Mapping[str, Any]) -> list[tuple[Any, Any]] | None:
    """Return the calls of tools that a run waits for somebody to approve."""
    step = state.get("current_step") or state.get("currentStep")
    if not isinstance(step, dict):
        return None
    data = step.get("data") if isinstance(step.get("data"), dict) else step
    waiting = data.get("interruptions") if isinstance(data, dict) else None
    return [(one, _call_id(one)) for one in waiting] if isinstance(waiting, list) else None


def _call_id(interruption: Any) -> Any:
    raw = interruption.get("raw_item", interruption) if isinstance(interruption, dict) else None
    return raw.get("call_id") or raw.get("callId") if isinstance(raw, dict) else None


def _usage_of_turns(namespace: Namespace, thread_id: str) -> Namespace | None:
    branch = branch_of(namespace)
    return None if branch is None else usage_namespace(thread_id, branch)


DECLARATION = AdapterDeclaration(
    root=ROOT,
    title="OpenAI Agents SDK",
    parts=ThreadParts(_is_branch),
    view=View(
        objects={"raw_item": _raw_item},
        messages=_messages_of_run,
        interrupts=_interrupts,
        usage=_usage_of_turns,
    ),
)
