"""A2A: a task is a log below its owner's, and its events are another."""

from __future__ import annotations

from memalchemy.adapters import AdapterDeclaration, Namespace, ThreadParts


def _is_of_task(main: Namespace, other: Namespace) -> bool:
    return main[-2:-1] == ("tasks",) and other == (*main[:-2], "events")


DECLARATION = AdapterDeclaration(root="a2a", title="A2A", parts=ThreadParts(_is_of_task))
