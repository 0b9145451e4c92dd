"""Encrypt what is stored with the first key of a database."""

from memalchemy.maintenance.rotation.key_rotation import rotate_keys
from memalchemy.maintenance.rotation.report import KeyUse, PlainRow, RotationReport

__all__ = ["KeyUse", "PlainRow", "RotationReport", "rotate_keys"]
