"""Anchors: keep outside of a database what it must have at least, and hold it to that."""

from memalchemy.codec.anchors import Anchor
from memalchemy.maintenance.anchors import anchor

__all__ = ["Anchor", "anchor"]
