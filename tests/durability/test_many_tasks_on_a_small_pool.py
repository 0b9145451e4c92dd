"""Five hundred tasks on a pool of five: all come through, in order, and nothing is left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from workers import proof
from workers.states import name_of, state_of

from memalchemy import Checkpointer, Database, DatabaseUnreachable
from servers import Postgres
from waiting import A_WHILE

pytestmark = pytest.mark.alone

TASKS, THREADS = 500, 50


@pytest.fixture(params=["sqlite", "asyncpg", "psycopg"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/agent.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.url(request.getfixturevalue("name"), driver=request.param)


@pytest.fixture
async def crowded(url: str) -> AsyncIterator[Database]:
    """A database that gives at most five connections."""
    pool = {} if url.startswith("sqlite") else {"pool_size": 5, "max_overflow": 0}
    async with Database(url, tenant=f"t-{uuid4().hex[:12]}", **pool) as db:
        yield db
        assert (await db.health())["checked_out"] == 0


async def crowd(keep: Checkpointer, threads: int) -> None:
    async def save(number: int) -> None:
        name, thread = name_of("a", number), f"thread {number % threads}"
        await keep.save(state_of(name), thread, name)
        assert await keep.load(thread, name) == state_of(name)

    async with asyncio.timeout(3 * A_WHILE):
        await asyncio.gather(*(save(number) for number in range(TASKS)))

    for thread in range(threads):
        infos = await proof.history(keep, f"thread {thread}")
        assert len(infos) == TASKS // threads
        proof.is_one_line(infos)
    await proof.nothing_is_left_over(keep.db)


@pytest.mark.parametrize("threads", [THREADS, 1])
async def test_five_hundred_tasks_share_five_connections(crowded: Database, threads: int) -> None:
    await crowd(Checkpointer(crowded), threads)


async def test_what_one_task_saves_in_turn_stays_in_turn(crowded: Database) -> None:
    keep = Checkpointer(crowded)

    async def save_all(thread: int) -> None:
        for number in range(TASKS // THREADS):
            await keep.save(state_of(f"{thread}-{number}"), f"own {thread}", f"{thread}-{number}")

    async with asyncio.timeout(3 * A_WHILE):
        await asyncio.gather(*(save_all(thread) for thread in range(THREADS)))

    for thread in range(THREADS):
        infos = await proof.history(keep, f"own {thread}")
        assert [info.checkpoint_id for info in infos] == [
            f"{thread}-{number}" for number in range(TASKS // THREADS)
        ]


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_pool_that_stays_empty_for_too_long_says_what_to_do(
    postgres: Postgres, name: str, driver: str
) -> None:
    url = postgres.url(name, driver=driver)
    async with Database(url, pool_size=1, max_overflow=0, pool_timeout=0.2) as db:
        keep = Checkpointer(db)
        async with db.transaction():
            with pytest.raises(DatabaseUnreachable, match="pool_size, max_overflow or") as caught:
                await keep.save({}, "thread")
        assert not caught.value.maybe_applied
        await keep.save({"n": 1}, f"thread-{driver}")
        assert await keep.list_checkpoints("thread") == []
