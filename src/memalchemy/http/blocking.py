"""The synchronous `HTTPCheckpointer`: the same methods, arguments and guarantees."""

from __future__ import annotations

from memalchemy.http import client
from memalchemy.sync.face import Root, face

HTTPCheckpointer = face(client.HTTPCheckpointer, Root)

__all__ = ["HTTPCheckpointer"]
