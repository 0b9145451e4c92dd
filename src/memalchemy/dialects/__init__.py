"""Dialects: everything that databases do differently. No other package asks which one it is on.

`Dialect` and its four parts (base.py) are the contract; sqlite.py, postgresql.py and oracle.py are
a database each, and `DIALECTS` (registry.py) finds them and those of installed packages.
"""

from memalchemy.codec.tokens import Term
from memalchemy.column_types import column_types_on
from memalchemy.dialects.base import (
    LOCKS,
    MAX_LISTED,
    TEXT_INDEXES,
    VERSION_TABLE,
    Cluster,
    Dialect,
    DistributedTable,
    Distribution,
    Failure,
    Maintenance,
    RowLevelSecurity,
    Statements,
    TextIndexes,
    Vectors,
    original,
    vector_index_name,
)
from memalchemy.dialects.namespace_range import in_namespace, namespace_binds
from memalchemy.dialects.registry import (
    DIALECTS,
    dialect_of,
    has_dynamic_types,
    parse_url,
    register_dialect,
)
from memalchemy.dialects.urls import Target, display

__all__ = [
    "DIALECTS",
    "LOCKS",
    "MAX_LISTED",
    "TEXT_INDEXES",
    "VERSION_TABLE",
    "Cluster",
    "Dialect",
    "DistributedTable",
    "Distribution",
    "Failure",
    "Maintenance",
    "RowLevelSecurity",
    "Statements",
    "Target",
    "Term",
    "TextIndexes",
    "Vectors",
    "column_types_on",
    "dialect_of",
    "display",
    "has_dynamic_types",
    "in_namespace",
    "namespace_binds",
    "original",
    "parse_url",
    "register_dialect",
    "vector_index_name",
]
