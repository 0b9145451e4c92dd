"""Pytest plugin that runs Strands' own tests on our storage and our session repository.

The working directory is Strands' sdist; see test_strands_suite.py. The plugin is loaded before the
test modules, so the names in them mean our classes. Each object has a tenant of its own in the
database of ``STRANDS_TESTS_URL``, or else a database in memory.
"""

from __future__ import annotations

import importlib
import os
import sys
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import strands.storage
import strands.storage.in_memory_storage
from sqlalchemy import NullPool

from memalchemy import Database
from memalchemy.integrations.strands import MemalchemySessionRepository, MemalchemyStorage

_URL = os.environ.get("STRANDS_TESTS_URL")
# Each test has an event loop of its own, and none of them closes the connections.
_POOL: Any = {} if not _URL or _URL.startswith("sqlite") else {"poolclass": NullPool}
_DATABASE = Database(_URL, **_POOL) if _URL else None


class _AlwaysNew:
    """Give each object of the tests, which name no database, one without data."""

    def __init__(self, **options: Any) -> None:
        db = None if _DATABASE is None else _DATABASE.for_tenant(uuid.uuid4().hex)
        super().__init__(db, **options)  # type: ignore[call-arg]


class Storage(_AlwaysNew, MemalchemyStorage):
    pass


class Repository(_AlwaysNew, MemalchemySessionRepository):
    pass


strands.storage.InMemoryStorage = Storage  # type: ignore[assignment, misc]
strands.storage.in_memory_storage.InMemoryStorage = Storage  # type: ignore[assignment, misc]

# Their conftest.py imports it for the tests of AWS, which are not run.
sys.modules.setdefault("moto", ModuleType("moto"))
sys.path.insert(0, str(Path.cwd()))

# Of the sdist.
theirs = importlib.import_module("tests.fixtures.mock_session_repository")
theirs.MockedSessionRepository = Repository  # type: ignore[attr-defined]
