"""Second import path of `memalchemy.collections.ABSENT`, `KeyValue` and `KeyValueEntry`."""

from memalchemy.collections import ABSENT, KeyValue, KeyValueEntry

__all__ = ["ABSENT", "KeyValue", "KeyValueEntry"]
