"""lauren-ai: items say who has a fact, and an attribute which classes are agents."""

from __future__ import annotations

from memalchemy.adapters import AdapterDeclaration

FACT_OWNERS = "fact owners"
"""Last part of the namespace of the items that say who has a fact; nothing else is called so."""

DECLARATION = AdapterDeclaration(
    root="lauren",
    title="lauren-ai",
    internal=((..., FACT_OWNERS),),
    agent_marks=("__lauren_ai_agent__",),
)
