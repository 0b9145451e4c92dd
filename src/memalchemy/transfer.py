"""Copy memory from one database to another, of any dialect."""

from memalchemy.maintenance.copy import CopyReport, copy

__all__ = ["CopyReport", "copy"]
