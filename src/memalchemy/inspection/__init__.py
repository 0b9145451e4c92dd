"""Reads what a database holds, as pages of plain JSON for people to look at."""

from memalchemy.inspection.activity import Activity
from memalchemy.inspection.inspector import Inspector

__all__ = ["Activity", "Inspector"]
