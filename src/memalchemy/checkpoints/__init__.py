"""Checkpoints: every state of an agent, with history, branches, search and retention."""

from memalchemy.checkpoints.checkpointer import Checkpointer
from memalchemy.contracts import LEAVE

__all__ = ["LEAVE", "Checkpointer"]
