"""The HTTP client: `HTTPCheckpointer`."""

from memalchemy.http.client._checkpointer import HTTPCheckpointer

__all__ = ["HTTPCheckpointer"]
