"""Anchors: files outside of a database that say what it must contain at least, and their check."""

from memalchemy.codec.anchors import Anchor
from memalchemy.maintenance.anchors import anchor

__all__ = ["Anchor", "anchor"]
