"""Processes that write one transcript of Claude's, or one task of A2A's, together or until killed.

What they told of is there, in the order of each of them, and no write is there by half.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import writer_process
from a2a.server.context import ServerCallContext
from writer_process import ID, KEY, LINES

from memalchemy import Database
from memalchemy.integrations.a2a import MemalchemyTaskStore
from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

PROCESSES, WRITES = 3, 8
TOLD = 4
"""After how many writes a process is killed; it has far more to do."""
KILLS = 2


async def transcript(db: Database) -> list[str]:
    """The names of lines; the summary of the session has seen the last of them."""
    store = MemalchemySessionStore(db)
    (summary,) = await store.list_session_summaries(KEY["project_key"])
    (session,) = await store.list_sessions(KEY["project_key"])
    assert summary["mtime"] >= session["mtime"]
    lines: Any = await store.load(KEY)
    assert summary["data"]["first_prompt"] == lines[0]["message"]["content"]
    return [line["uuid"] for line in lines]


async def task(db: Database) -> list[str]:
    """The names of messages."""
    found = await MemalchemyTaskStore(db).get(ID, ServerCallContext())
    return [] if found is None else [message.message_id for message in found.history]


each_store = pytest.mark.parametrize("read", [transcript, task], ids=["claude_agent_sdk", "a2a"])
Read = Callable[[Database], Awaitable[list[str]]]


def start(read: Read, db: Database, url: str, process: str, writes: int) -> subprocess.Popen[str]:
    arguments = (read.__name__, url, db.tenant, process, str(writes))
    return subprocess.Popen(
        [sys.executable, writer_process.__file__, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def whole_writes(found: list[str]) -> list[str]:
    """The names of the writes that are there, in their order; each is there as a whole, once."""
    names = [name for name, _ in itertools.groupby(found, key=lambda one: one.rpartition(".")[0])]
    assert found == [f"{name}.{at}" for name in names for at in range(LINES)]
    assert len({*names}) == len(names)
    return names


@each_store
async def test_several_processes_lose_no_write_of_each_other(
    read: Read, shared_url: str, db: Database, lasting: None
) -> None:
    running = [start(read, db, shared_url, f"p{at}", WRITES) for at in range(PROCESSES)]
    ended = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * PROCESSES, ended

    names = whole_writes(await read(db))

    for at in range(PROCESSES):
        own = [name for name in names if name.startswith(f"p{at}-")]
        assert own == [f"p{at}-{number}" for number in range(WRITES)]
    assert len(names) == PROCESSES * WRITES


@each_store
async def test_what_a_killed_process_told_of_is_stored_and_nothing_by_half(
    read: Read, shared_url: str, db: Database, lasting: None
) -> None:
    told: list[str] = []
    for _ in range(KILLS):
        process = start(read, db, shared_url, uuid.uuid4().hex[:8], 100_000)
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            lines = list(itertools.islice(process.stdout, TOLD))
            process.kill()
            # `communicate` would pass by the lines that are in the buffer already.
            rest = process.stdout.readlines()
            assert len(lines) == TOLD, process.stderr.read()
        told += [line.strip() for line in [*lines, *rest] if line.endswith("\n")]

        names = whole_writes(await read(db))
        assert [name for name in names if name in told] == told
        assert len(names) <= len(told) + KILLS, "one at most was under way in each"
