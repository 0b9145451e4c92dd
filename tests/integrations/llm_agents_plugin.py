"""Pytest plugin that runs llm-agents-from-scratch's own tests on `MemalchemyMemoryStore`.

The working directory is its sdist; see test_llm_agents_from_scratch_suite.py. The name
`JSONMemoryStore` becomes our store with the constructor of theirs: a directory and a file name.
"""

from __future__ import annotations

import sys
from pathlib import Path

import llm_agents_from_scratch.memory.recipes  # noqa: F401
from llm_agents_from_scratch.data_structures import RecallMode

from memalchemy.integrations.llm_agents_from_scratch import MemalchemyMemoryStore


class JSONMemoryStore(MemalchemyMemoryStore):
    def __init__(
        self,
        dir: Path,
        filename: str = "episodes.jsonl",
        max_results: int = 5,
        recall_mode: RecallMode = RecallMode.RECENT,
    ) -> None:
        self.path = dir / filename
        super().__init__(f"sqlite:///{self.path}", max_results, recall_mode)


for name, module in list(sys.modules.items()):
    if name.startswith("llm_agents_from_scratch.memory") and hasattr(module, "JSONMemoryStore"):
        module.JSONMemoryStore = JSONMemoryStore
