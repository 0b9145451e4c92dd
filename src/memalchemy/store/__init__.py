"""The store: values under a namespace and a key, with versions, lifetimes, and search."""

from memalchemy.contracts import DELETE, LEAVE
from memalchemy.store import citus, no_upsert, one_statement  # noqa: F401 (they register variants)
from memalchemy.store.jsonl import export_items, import_items
from memalchemy.store.store import Store

__all__ = ["DELETE", "LEAVE", "Store", "export_items", "import_items"]
