"""Pytest plugin that runs CrewAI's own tests on our classes.

The working directory is CrewAI's sdist; see crewai/test_crewai_suite.py. The plugin is loaded
before the test modules, so CrewAI's names in them mean our classes. All places of a run lie in the
database that ``MEMALCHEMY_TEST_URL`` names, each path in a namespace of its own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import crewai.flow.persistence
import crewai.flow.persistence.sqlite
import crewai.memory.storage.factory
import crewai.memory.storage.lancedb_storage
import crewai.state.provider.json_provider
import crewai.state.provider.sqlite_provider
import crewai.state.runtime

from memalchemy import sync
from memalchemy.integrations import crewai as ours

DB = sync.Database(os.environ["MEMALCHEMY_TEST_URL"])
DB.migrate()


class SQLiteFlowPersistence(ours.MemalchemyFlowPersistence):
    def __init__(self, db_path: str | None = None, /, **given: Any) -> None:
        super().__init__(DB, namespace=(str(db_path),), **given)


class LanceDBStorage(ours.MemalchemyMemoryStorage):
    def __init__(self, path: str | Path | None = None, **_: Any) -> None:
        super().__init__(DB, namespace=(str(path),))


class Provider(ours.MemalchemyCheckpointProvider):
    def __init__(self, **_: Any) -> None:
        super().__init__(DB)


flows: Any = crewai.flow.persistence
flows.SQLiteFlowPersistence = flows.sqlite.SQLiteFlowPersistence = SQLiteFlowPersistence
providers: Any = crewai.state.provider
providers.json_provider.JsonProvider = providers.sqlite_provider.SqliteProvider = Provider
states: Any = crewai.state.runtime
states.JsonProvider = Provider
memories: Any = crewai.memory.storage
memories.lancedb_storage.LanceDBStorage = LanceDBStorage
