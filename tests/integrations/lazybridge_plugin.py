"""Pytest plugin that runs LazyBridge's own tests on `MemalchemyStore`.

The working directory is LazyBridge's sdist; see test_lazybridge_suite.py. The plugin is loaded
before the test modules, so the name `Store` in them means our store.
"""

from __future__ import annotations

import lazybridge
import lazybridge.store

from memalchemy.integrations.lazybridge import MemalchemyStore

lazybridge.Store = lazybridge.store.Store = MemalchemyStore  # type: ignore[misc]
