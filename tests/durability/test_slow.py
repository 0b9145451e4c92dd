"""A slow server and a network that stalls: errors in time, no save lost or made twice.

A statement's time is watched by asyncpg itself, and by the server for psycopg: when it is the
network that is silent, psycopg waits until it speaks again or the operating system gives it up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from proxy import Proxy
from workers import proof
from workers.states import name_of, state_of

from memalchemy import Checkpointer, Database, DatabaseUnreachable
from servers import Postgres

pytestmark = [pytest.mark.alone, pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])]

PATIENCE = 0.4
"""The statement timeout, in seconds."""
STALL = 2.0
"""Longer than a text's first run, which may take twice the patience, and a look for it."""


@pytest.fixture
async def db(network: Proxy, name: str, driver: str) -> AsyncIterator[Database]:
    database = Database(
        network.url(name, driver=driver),
        tenant=f"t-{uuid4().hex[:12]}",
        connect_timeout=2,
        statement_timeout=PATIENCE,
        pool_size=2,
        max_overflow=0,
    )
    await Checkpointer(database).save(state_of("a-1"), "thread", "a-1")
    yield database
    network.calm()
    assert (await database.health())["checked_out"] == 0
    await database.close()


@pytest.fixture
async def direct(db: Database, postgres: Postgres, name: str) -> AsyncIterator[Checkpointer]:
    async with Database(postgres.url(name), tenant=db.tenant) as database:
        yield Checkpointer(database)


@pytest.fixture
def checkpointer(db: Database) -> Checkpointer:
    return Checkpointer(db)


@contextmanager
def locked(postgres: Postgres, name: str, db: Database) -> Iterator[psycopg.Connection[Any]]:
    """Somebody else holds the thread's lock."""
    with psycopg.connect(
        host=postgres.host,
        port=postgres.port,
        user=postgres.user,
        password=postgres.password,
        dbname=name,
    ) as other:
        other.execute("SELECT 1 FROM threads WHERE tenant = %s FOR UPDATE", (db.tenant,))
        yield other


async def check(direct: Checkpointer, names: list[str]) -> None:
    infos = await proof.history(direct, "thread")
    assert [info.checkpoint_id for info in infos] == names
    proof.is_one_line(infos)
    await proof.all_load(direct, "thread", infos)


async def test_a_server_that_answers_late_is_only_slow(
    network: Proxy, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    network.latency = PATIENCE / 2

    await checkpointer.save(state_of("a-2"), "thread", "a-2")
    assert await checkpointer.load("thread", "a-1") == state_of("a-1")
    assert await checkpointer.delete("thread", "a-1")

    assert [info.checkpoint_id for info in await proof.history(direct, "thread")] == ["a-2"]


async def test_a_save_that_waits_for_too_long_is_an_error_in_time_and_then_works_again(
    db: Database, checkpointer: Checkpointer, direct: Checkpointer, postgres: Postgres, name: str
) -> None:
    with locked(postgres, name, db):
        started = time.monotonic()
        with pytest.raises(DatabaseUnreachable, match="locked or too slow"):
            await checkpointer.save(state_of("a-2"), "thread", "a-2")
        with pytest.raises(DatabaseUnreachable, match="locked or too slow") as caught:
            await checkpointer.delete("thread")
        assert not caught.value.maybe_applied
        assert time.monotonic() - started < 6 * PATIENCE
        assert (await db.health())["checked_out"] == 0

    await checkpointer.save(state_of("a-3"), "thread", "a-3")
    await check(direct, ["a-1", "a-3"])


async def test_a_read_that_waits_for_too_long_changed_nothing_and_says_so(
    network: Proxy, db: Database, checkpointer: Checkpointer, postgres: Postgres, name: str
) -> None:
    with locked(postgres, name, db) as other:
        other.execute("LOCK TABLE deltas IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        with pytest.raises(DatabaseUnreachable, match="locked or too slow") as caught:
            await checkpointer.load("thread")
        assert time.monotonic() - started < 6 * PATIENCE
    assert not caught.value.maybe_applied
    assert await checkpointer.load("thread") == state_of("a-1")


@pytest.mark.parametrize("answered", [True, False])
async def test_a_save_in_a_stall_is_made_once(
    network: Proxy,
    driver: str,
    checkpointer: Checkpointer,
    direct: Checkpointer,
    answered: bool,
) -> None:
    """It arrives after the time is up, or only its answer does."""
    if answered:
        network.pause_answer_to("a-2", STALL)
    else:
        network.pause("a-2", STALL)
    told = "saved"
    try:
        async with asyncio.timeout(5 * STALL):
            await checkpointer.save(state_of("a-2"), "thread", "a-2")
    except DatabaseUnreachable as error:
        told = "perhaps" if error.maybe_applied else "not saved"
    assert network.pauses == 1
    assert told == ("saved" if answered or driver == "psycopg" else "perhaps")
    await direct.save(state_of("b-1"), "thread", "b-1")
    await asyncio.sleep(STALL)  # by now what was held up has been delivered

    names = [info.checkpoint_id for info in await proof.history(direct, "thread")]
    assert sorted(names) == ["a-1", "a-2", "b-1"]
    if told == "saved":
        assert names == ["a-1", "a-2", "b-1"]
    await checkpointer.save(state_of("a-3"), "thread", "a-3")
    await check(direct, [*names, "a-3"])


async def test_cancelled_in_a_stall_it_gives_its_connections_back(
    network: Proxy, db: Database, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    tasks = []
    for number in (2, 3):  # as many as the pool has
        network.pause(name_of("a", number), STALL)
        name = name_of("a", number)
        save = checkpointer.save(state_of(name), f"thread-{number}", name)
        tasks.append(asyncio.create_task(save))
        async with asyncio.timeout(5):  # one by one: together they would go in one statement
            while network.pauses < len(tasks):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    _, stuck = await asyncio.wait(tasks, timeout=4 * STALL)
    assert not stuck

    assert all(task.cancelled() for task in tasks)
    async with asyncio.timeout(4 * STALL):  # what is on its way is called off behind them
        while (await db.health())["checked_out"]:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    async with asyncio.timeout(10):
        await asyncio.gather(
            *(checkpointer.save(state_of(f"b-{n}"), "later", f"b-{n}") for n in range(1, 9))
        )
    for number in (2, 3):
        infos = await proof.history(direct, f"thread-{number}")
        proof.is_one_line(infos)
        await proof.all_load(direct, f"thread-{number}", infos)


async def test_a_server_that_takes_no_connection_is_an_error_in_time(
    network: Proxy, db: Database, checkpointer: Checkpointer
) -> None:
    await db.close()
    network.hold()
    started = time.monotonic()

    with pytest.raises(DatabaseUnreachable, match="cannot reach") as caught:
        await asyncio.wait_for(checkpointer.load("thread"), 10)

    assert 1.5 < time.monotonic() - started < 7, "once, not four times"
    assert not caught.value.maybe_applied
    network.release()
    assert await checkpointer.load("thread") == state_of("a-1")
