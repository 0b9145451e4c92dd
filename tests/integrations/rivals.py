"""A rival that gets in between a read of a log and the write that rests on it, each time."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from memalchemy.threads import ThreadLog
from waiting import give_time_to_go_wrong


def write_after_each_tail(
    monkeypatch: pytest.MonkeyPatch, log: ThreadLog, write: Callable[[], Coroutine[Any, Any, Any]]
) -> list[asyncio.Task[Any]]:
    """Let somebody else *write* whenever the end of *log* was read; return the list of writes.

    A write that comes while the reader holds a lock waits for it.
    """
    tail, writes = log.tail, list[asyncio.Task[Any]]()
    elsewhere = contextvars.copy_context()  # where no transaction is open

    async def read(*arguments: Any, connection: Any = None, **options: Any) -> Any:
        found = await tail(*arguments, connection=connection, **options)
        assert len(writes) < 10, "the rival got in each time"
        writing = asyncio.create_task(write(), context=elsewhere.copy())
        writes.append(writing)
        if connection is None:
            await writing
        else:
            await give_time_to_go_wrong()
            assert not writing.done(), "no lock was held"
        return found

    monkeypatch.setattr(log, "tail", read)
    return writes
