"""A SQLite file grows into a cluster while agents go on writing, with a short pause at its end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.maintenance.distribution import distribute
from memalchemy.transfer import copy
from servers import Citus

WRITERS = 8
AT_LEAST = 40
"""Writes of each writer before the first copy begins, and between it and the pause."""


class Agents:
    """Writers that go on until they are told to pause; they know what was acknowledged."""

    def __init__(self) -> None:
        self.states: dict[str, dict[str, Any]] = {}
        self.items: dict[str, int] = {}
        self.entries: dict[str, list[int]] = {}
        self._paused = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []

    def go_on(self, db: Database) -> None:
        self._paused.clear()
        self._running = [asyncio.create_task(self._work(db, f"w{n}")) for n in range(WRITERS)]

    async def pause(self) -> None:
        self._paused.set()
        await asyncio.gather(*self._running)

    async def until_each_has_written(self) -> None:
        before = {name: len(said) for name, said in self.entries.items()}
        while any(
            len(self.entries.get(f"w{n}", ())) < before.get(f"w{n}", 0) + AT_LEAST
            for n in range(WRITERS)
        ):
            await asyncio.sleep(0.01)
            for task in self._running:
                if task.done():
                    await task

    async def _work(self, db: Database, name: str) -> None:
        checkpointer, store, log = Checkpointer(db), Store(db), ThreadLog(db)
        while not self._paused.is_set():
            number = len(self.entries.get(name, ()))
            state = {"number": number, "words": [f"word {n}" for n in range(number % 30)]}
            thread = f"{name}-{number % 5}"
            await checkpointer.save(state, thread)
            self.states[thread] = state
            await store.put(("notes", name), f"k{number % 7}", number)
            self.items[f"{name} k{number % 7}"] = number
            await log.append(f"{name}-log", [number])
            self.entries.setdefault(name, []).append(number)

    async def check(self, db: Database) -> None:
        """Check that everything that was acknowledged is in *db*."""
        for thread, state in self.states.items():
            assert await Checkpointer(db).load(thread) == state
        for place, number in self.items.items():
            name, key = place.split()
            assert await Store(db).get(("notes", name), key) == number
        for name, said in self.entries.items():
            found = [entry.value async for entry in ThreadLog(db).iter_entries(f"{name}-log")]
            assert found == said


async def test_a_file_grows_into_a_cluster(cluster: Citus, name: str, tmp_path: Path) -> None:
    file, url = f"sqlite:///{tmp_path / 'agent.db'}", cluster.url(name)
    async with (
        Database(file, migrate="upgrade") as small,
        Database(url, migrate="off") as making,
    ):
        await making.migrate()
        assert (await distribute(making)).distribution.is_whole
        async with Database(url) as large:
            agents = Agents()
            agents.go_on(small)
            await agents.until_each_has_written()
            first = await copy(small, large)  # while they go on
            await agents.until_each_has_written()
            await agents.pause()
            last = await copy(small, large)
            assert first.new > 0
            assert last.updated > 0
            await agents.check(large)

            agents.go_on(large)
            await agents.until_each_has_written()
            await agents.pause()
            await agents.check(large)
