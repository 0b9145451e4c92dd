"""A plugin of pytest that puts our store under LazyBridge's own tests, which make theirs.

Run with LazyBridge's sdist as the working directory; see test_lazybridge_suite.py. It is loaded
before any of their test modules, so that every name of `Store` in them is ours.
"""

from __future__ import annotations

import lazybridge
import lazybridge.store

from memalchemy.integrations.lazybridge import MemalchemyStore

lazybridge.Store = lazybridge.store.Store = MemalchemyStore  # type: ignore[misc]
