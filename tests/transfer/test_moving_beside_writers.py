"""An online move beside processes that never stop to write: a run copies what came since the last.

No row of a log is copied twice, so the runs take less time the less there is, and the last one,
under a pause of the writers, has little to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from contents import everything

from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.transfer import copy
from memalchemy.verify import verify
from servers import Postgres
from waiting import A_WHILE, until

pytestmark = pytest.mark.alone

MOVES = (("sqlite", "sqlite"), ("postgresql", "postgresql"), ("sqlite", "postgresql"))

WRITER = """
import asyncio, sys
from pathlib import Path
from memalchemy import Checkpointer, Database, Store, ThreadLog

url, name, directory = sys.argv[1:]

async def main():
    number = 0
    with open(f"{directory}/{name}", "w", buffering=1) as told:
        async with Database(url, tenant="acme") as db:
            saver, log, store = Checkpointer(db), ThreadLog(db), Store(db)
            while not Path(directory, "stop").exists():
                number += 1
                state = {"n": number, "words": [f"word{n}" for n in range(number % 30)]}
                await saver.save(state, f"{name}-{number % 3}", f"{number}")
                await saver.put_writes([("c", number)], f"{name}-{number % 3}", f"{number}", "task")
                await log.append(f"{name}-log", [number])
                await store.put(("notes", name), f"k{number % 5}", number)
                print(number, file=told)
                await asyncio.sleep(0.02)  # an agent waits longer for its model

asyncio.run(main())
"""
NAMES = ("one", "two")
ROUNDS = 4
BEFORE = 1_500
"""Entries that are there before the writers begin."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asked = {*metafunc.config.getoption("--databases").split(",")}
    moves = [move for move in MOVES if asked.issuperset(move)]
    metafunc.parametrize("move", moves or MOVES[:1], ids="-".join)


@pytest.fixture(autouse=True)
def every_statement_is_registered() -> None:
    """Nothing watches the statements here: it takes longer than to copy. Other tests do."""


@pytest.fixture
def move_urls(
    move: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[list[str]]:
    """The URLs of the old database and of the new one."""
    made: list[str] = []
    names: list[str] = []
    for number, kind in enumerate(move):
        if kind == "sqlite":
            made.append(f"sqlite:///{tmp_path}/{number}.db")
            continue
        server: Postgres = request.getfixturevalue("postgres")
        names.append(server.create_database())
        made.append(server.url(names[-1]))
    yield made
    for name in names:
        server.drop_database(name)


class Writers:
    """Processes that write to the old database until they are told to stop."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: list[subprocess.Popen[str]] = []

    def start(self, url: str) -> None:
        self._running += [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, url, name, str(self._directory)],
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in NAMES
        ]

    def acknowledged(self, name: str) -> int:
        """Return the number of the last writes that a writer knows to be stored."""
        file = self._directory / name
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return len(lines)

    async def until_each_has_written(self, more: int) -> None:
        before = {name: self.acknowledged(name) for name in NAMES}

        def have_written() -> bool:
            assert all(one.poll() is None for one in self._running), "a writer has ended"
            return all(self.acknowledged(name) >= before[name] + more for name in NAMES)

        await until(have_written)

    def stop(self) -> None:
        (self._directory / "stop").touch()
        for one in self._running:
            _, errors = one.communicate(timeout=2 * A_WHILE)
            assert one.returncode == 0, errors


@asynccontextmanager
async def writing(url: str, directory: Path) -> AsyncIterator[Writers]:
    writers = Writers(directory)
    writers.start(url)
    try:
        yield writers
    finally:
        writers.stop()


async def test_each_run_copies_what_came_since_the_last(
    move_urls: list[str], tmp_path: Path
) -> None:
    old, new = (Database(url, tenant="acme") for url in move_urls)
    for db in (old, new):
        await db.migrate()
    async with old, new:
        await ThreadLog(old).append("long", [f"entry {n}" for n in range(BEFORE)])
        for number in range(60):
            await Checkpointer(old).save({"n": number, "text": "word " * number}, "states")
        async with writing(move_urls[0], tmp_path) as writers:
            await writers.until_each_has_written(10)
            reports = [await copy(old, new)]
            for _ in range(ROUNDS):
                await writers.until_each_has_written(5)
                await ThreadLog(old).append("long", ["one more"])
                reports.append(await copy(old, new))
        reports.append(await copy(old, new))  # under the pause

        there = await everything(new)
        assert there == await everything(old)
        assert (await verify(new)).findings == ()
        for name in NAMES:
            values = [entry.value async for entry in ThreadLog(new).iter_entries(f"{name}-log")]
            assert values == [*range(1, len(values) + 1)]
            assert len(values) >= writers.acknowledged(name)
            assert await Store(new).list_keys(("notes", name))
    # Each row of a log was copied once; beside them a run writes the heads and the items.
    assert [report.copied_again for report in reports] == [{}] * len(reports)
    written = sum(report.rows - report.new - report.updated for report in reports)
    assert written == len(there["deltas"]) + len(there["checkpoints"])
    assert all(report.grown > 0 for report in reports[1:-1])
    assert max(report.rows for report in reports[1:]) < reports[0].rows
