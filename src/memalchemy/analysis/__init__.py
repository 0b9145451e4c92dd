"""Tables of what agents did, whatever framework stored it.

Each name is imported when it is first used: the process that runs a query needs little of this.
"""

from typing import TYPE_CHECKING

from memalchemy._lazy_imports import lazy_exports

if TYPE_CHECKING:
    from memalchemy.analysis.analysis import Analysis
    from memalchemy.analysis.connecting import connect
    from memalchemy.analysis.connection import QueryResult, SQLConnection
    from memalchemy.analysis.selection import Selection
    from memalchemy.analysis.tables import TABLES, AnalysisTable, Column
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "analysis": ("Analysis",),
            "connecting": ("connect",),
            "connection": ("QueryResult", "SQLConnection"),
            "selection": ("Selection",),
            "tables": ("TABLES", "AnalysisTable", "Column"),
        },
    )

__all__ = [
    "TABLES",
    "Analysis",
    "AnalysisTable",
    "Column",
    "QueryResult",
    "SQLConnection",
    "Selection",
    "connect",
]
