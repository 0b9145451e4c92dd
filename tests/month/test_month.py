"""A month of a real application, at random from a seed, on each database; and its judgement.

``MEMALCHEMY_SEED`` repeats the draws of a month: who the agents are, what they do, what befalls
them. ``MEMALCHEMY_MONTH_MINUTES`` says how long it lasts on each database, 15 if it is not set.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from month import faults, jobs
from month.agents import missing
from month.judgement import judge
from month.places import Place, PostgresPlace, postgres_place, sqlite_place
from month.team import Team

pytestmark = pytest.mark.alone

MINUTES = float(os.environ.get("MEMALCHEMY_MONTH_MINUTES", "15"))
SEED = os.environ.get("MEMALCHEMY_SEED") or str(random.SystemRandom().randrange(10**6))
PLACES = {"sqlite": sqlite_place, "postgresql": postgres_place}
ONCE: dict[jobs.Job, float] = {
    jobs.rotate_encryption_keys: 0.15,
    jobs.upgrade: 0.3,
    jobs.rotate_signing_keys: 0.4,
    jobs.restore: 0.5,
}
"""What is done once at least, and after which part of the month."""
ONCE_ON_SERVERS: dict[jobs.Job, float] = {
    jobs.lose_the_primary: 0.6,
    jobs.prepare_to_move_to_a_subscriber: 0.8,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asked = metafunc.config.getoption("--databases").split(",")
    chosen = [kind for kind in PLACES if kind in asked]
    metafunc.parametrize("kind", chosen or [*PLACES][:1])


@pytest.fixture(autouse=True)
def every_statement_is_registered() -> None:
    """Nothing watches the statements here: it would take half of the month. Other tests do."""


@pytest.fixture
async def place(kind: str, tmp_path: Path) -> AsyncIterator[Place]:
    async with PLACES[kind](tmp_path) as place:
        yield place


@asynccontextmanager
async def at_work(team: Team) -> AsyncIterator[None]:
    """Let everybody work, and faults befall them."""

    async def be_unlucky() -> None:
        possible = faults.faults(team)
        while True:
            await asyncio.sleep(team.chance.uniform(0, 6))
            (fault,) = team.chance.choices([*possible], [*possible.values()])
            begin = time.monotonic()
            await fault(team)
            team.note(fault.__name__, begin)

    await team.start_all()
    befalling = asyncio.create_task(be_unlucky())
    try:
        yield
    finally:
        async with team.changing:
            befalling.cancel()
            await asyncio.wait([befalling])
        if not befalling.cancelled():
            befalling.result()


async def live(team: Team, seconds: float) -> None:
    """Do the jobs of a month beside the agents."""
    once = ONCE | (ONCE_ON_SERVERS if isinstance(team.place, PostgresPlace) else {})
    due = [job for job, _ in sorted(once.items(), key=lambda one: one[1])]
    begin = time.monotonic()
    async with at_work(team):
        while (passed := time.monotonic() - begin) < seconds or due:  # timed: it is a length
            if due and passed > once[due[0]] * seconds:  # timed: it is a moment of the month
                await jobs.do(due.pop(0), team)
            else:
                (job,) = team.chance.choices([*jobs.DAILY], [*jobs.DAILY.values()])
                await jobs.do(job, team)
            await asyncio.sleep(team.chance.uniform(0, 2))
    if isinstance(team.place, PostgresPlace):
        await jobs.do(jobs.move_to_the_subscriber, team)
    await team.stop_all()


async def test_a_month_loses_nothing_keeps_nothing_and_leaves_nothing(
    place: Place, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    team = Team(place, SEED)

    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n{kind}, MEMALCHEMY_SEED={SEED}: {line}", flush=True)

    say(f"{MINUTES:g} minutes with {team.frameworks}; not installed: {missing() or 'none'}")
    try:
        await live(team, 60 * MINUTES)
        complaints = await judge(team)
    except Exception as error:
        say(f"it ended early: {error!r}")
        raise
    finally:
        await team.close()
        say(f"{dict(sorted(team.counts.items()))}, {team.ledger.summary()}")
    for complaint in complaints:
        say(complaint)
    assert complaints == []
