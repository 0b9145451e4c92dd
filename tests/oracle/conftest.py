"""Fixtures of a recording Oracle."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from memalchemy import Checkpointer, Database
from oracle.recording import Recorder


@pytest.fixture
def server() -> Recorder:
    return Recorder()


@pytest.fixture
async def oracle(server: Recorder) -> AsyncIterator[Database]:
    """A database over the recording, with SQLAlchemy's set-up of a connection behind it."""
    engine = server.engine()
    async with engine.connect():
        pass
    server.forget()
    yield Database(engine, migrate="off", tenant="acme")
    await engine.dispose()


@pytest.fixture
def agent(oracle: Database) -> Checkpointer:
    return Checkpointer(oracle)
