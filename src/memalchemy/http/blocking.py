"""The synchronous HTTP clients: the same methods, arguments and guarantees."""

from __future__ import annotations

from memalchemy.http import client
from memalchemy.sync.face import Root, face

HTTPCheckpointer = face(client.HTTPCheckpointer, Root)
HTTPConversation = face(client.HTTPConversation, Root)
HTTPStore = face(client.HTTPStore, Root)
HTTPThreadLog = face(client.HTTPThreadLog, Root)

__all__ = ["HTTPCheckpointer", "HTTPConversation", "HTTPStore", "HTTPThreadLog"]
