"""Threads as logs of entries: messages and events, in order."""

from memalchemy.threads.thread_log import ThreadLog

__all__ = ["ThreadLog"]
