"""Moving memory between databases: `copy` from one to another, on any two dialects.

Whole rows move, never values: nothing here knows what a payload means. A backup of a SQLite file is
`Database.backup`; a server has tools of its own.
"""

from memalchemy.transfer.copying import copy
from memalchemy.transfer.sides import CopyReport

__all__ = ["CopyReport", "copy"]
