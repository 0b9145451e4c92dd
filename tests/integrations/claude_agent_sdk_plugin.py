"""Pytest plugin that runs the Claude Agent SDK's own tests on `MemalchemySessionStore`.

The working directory is the SDK's sdist; see test_claude_agent_sdk_suite.py. The plugin is loaded
before the test modules, so the name `InMemorySessionStore` in them means our store, with the
helpers for tests that the SDK's class has, and its times, which the tests set. If
CLAUDE_SUITE_URL is set, they use that database, each with a tenant of its own.
"""

from __future__ import annotations

import os
import uuid
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk._internal import session_store
from suite_report import leave_out

from memalchemy import Checkpointer, Database
from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

URL = os.environ.get("CLAUDE_SUITE_URL")
_shared = None if URL is None else Database(URL)


class Ours(MemalchemySessionStore):
    def __init__(self) -> None:
        super().__init__(":memory:" if _shared is None else _shared.for_tenant(uuid.uuid4().hex))
        self._mtimes: dict[str, int] = {}

    async def list_sessions(self, project_key: str) -> list[Any]:
        def time_of(one: Any) -> int:
            return self._mtimes.get(f"{project_key}/{one['session_id']}", one["mtime"])

        found = await super().list_sessions(project_key)
        return [{**one, "mtime": time_of(one)} for one in found]

    def get_entries(self, key: Any) -> list[Any]:
        return list(self.wait(self.load(key)) or [])

    @property
    def size(self) -> int:
        logs = self.wait(Checkpointer(self.db).list_logs(below=True))
        return sum(log.namespace[1] == "transcripts" and len(log.namespace) == 3 for log in logs)

    def clear(self) -> None:
        self.wait(Checkpointer(self.db).forget(tenant=self.db.tenant))


claude_agent_sdk.InMemorySessionStore = session_store.InMemorySessionStore = Ours  # type: ignore[assignment, misc]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    trio = "runs on trio, and memalchemy on asyncio, where each of these tests runs as well"
    leave_out(items, lambda item: trio if "trio" in item.name else None)
