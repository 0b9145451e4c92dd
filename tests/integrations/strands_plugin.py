"""Pytest plugin that runs Strands' own tests on our storage, repository and memory store.

The working directory is Strands' sdist; see test_strands_suite.py. The plugin is loaded before the
test modules, so the names in them mean our classes. Each object has a database in memory.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import strands.storage
import strands.storage.in_memory_storage

from memalchemy.integrations.strands import MemalchemySessionRepository, MemalchemyStorage

strands.storage.InMemoryStorage = MemalchemyStorage  # type: ignore[misc]
strands.storage.in_memory_storage.InMemoryStorage = MemalchemyStorage  # type: ignore[misc]

# Their conftest.py imports it for the tests of AWS, which are not run.
sys.modules.setdefault("moto", ModuleType("moto"))
sys.path.insert(0, str(Path.cwd()))

import tests.fixtures.mock_session_repository as theirs  # noqa: E402 - of the sdist

theirs.MockedSessionRepository = MemalchemySessionRepository
