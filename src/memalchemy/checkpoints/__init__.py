"""Checkpoints: every state of an agent, with history, branches, search and retention."""

from memalchemy.checkpoints.checkpointer import Checkpointer

__all__ = ["Checkpointer"]
