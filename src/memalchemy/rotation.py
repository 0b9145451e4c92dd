"""Encrypt what is stored with the first key of a database."""

from memalchemy.maintenance.rotate_keys import KeyUse, PlainRow, RotationReport, rotate_keys

__all__ = ["KeyUse", "PlainRow", "RotationReport", "rotate_keys"]
