"""Checkpoints: every state of an agent, with history, branches, search and retention."""

from memalchemy.checkpoints import citus  # noqa: F401 (it registers a variant)
from memalchemy.checkpoints.checkpointer import Checkpointer
from memalchemy.contracts import LEAVE

__all__ = ["LEAVE", "Checkpointer"]
