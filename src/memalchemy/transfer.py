"""Copy memory from one database to another, of any dialect."""

from memalchemy.maintenance.copying.database_copy import CopyReport, copy

__all__ = ["CopyReport", "copy"]
