"""Pydantic AI Harness: the events of a run and its snapshots, and notes beside files and runs."""

from __future__ import annotations

from memalchemy.adapters import AdapterDeclaration, Namespace, ThreadParts

ROOT = "pydantic_ai_harness"
RECEIPTS = "receipts"
"""Last part of the namespaces of the changes of files that were made."""
PRUNED = "pruned"
"""Part of the namespaces of the snapshots that there were, by their runs."""


def _is_of_run(main: Namespace, other: Namespace) -> bool:
    kinds = ("events", "snapshots")
    return main[:-1] == other[:-1] and main[-1] in kinds and other[-1] in kinds


DECLARATION = AdapterDeclaration(
    root=ROOT,
    title="Pydantic AI Harness",
    internal=((ROOT, ..., RECEIPTS), (ROOT, ..., PRUNED, ...)),
    parts=ThreadParts(_is_of_run),
)
