"""Tables of what agents did, whatever framework stored it."""

from memalchemy.analysis.analysis import Analysis
from memalchemy.analysis.connecting import connect
from memalchemy.analysis.connection import QueryResult, SQLConnection
from memalchemy.analysis.selection import Selection
from memalchemy.analysis.tables import TABLES, AnalysisTable, Column

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
