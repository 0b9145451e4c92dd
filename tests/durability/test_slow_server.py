"""A slow server and a network that stalls: errors in time, no save lost or made twice.

A statement's time is watched by asyncpg itself, and by the server for psycopg: when it is the
network that is silent, psycopg waits until it speaks again or the operating system gives it up.
"""

from __future__ import annotations

import asyncio
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
from memalchemy.events import subscribe_statements
from servers import Postgres
from waiting import A_WHILE, until

pytestmark = [pytest.mark.alone, pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])]

PATIENCE = 1.0
"""The statement timeout, in seconds. What it shall not end is done by `direct`."""


@pytest.fixture
async def db(network: Proxy, postgres: Postgres, name: str, driver: str) -> AsyncIterator[Database]:
    database = Database(
        network.url(name, driver=driver),
        tenant=f"t-{uuid4().hex[:12]}",
        connect_timeout=2,
        statement_timeout=PATIENCE,
        pool_size=2,
        max_overflow=0,
    )
    async with Database(postgres.url(name), tenant=database.tenant) as patient:
        await Checkpointer(patient).save(state_of("a-1"), "thread", "a-1")
    await Checkpointer(database).exists("thread")  # it is open
    yield database
    network.calm()
    assert (await database.health())["checked_out"] == 0
    await database.close()


@contextmanager
def tries() -> Iterator[list[str]]:
    """The statements that end by an error meanwhile: of a write itself, and of a look for it."""
    ended: list[str] = []
    unsubscribe = subscribe_statements(lambda one: ended.append(one.sql) if one.error else None)
    yield ended
    unsubscribe()


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
    network: Proxy, driver: str, name: str, db: Database, direct: Checkpointer
) -> None:
    url = network.url(name, driver=driver)
    async with Database(url, tenant=db.tenant, statement_timeout=A_WHILE) as patient:
        checkpointer = Checkpointer(patient)
        network.latency = 0.1
        await checkpointer.save(state_of("a-2"), "thread", "a-2")
        assert await checkpointer.load("thread", "a-1") == state_of("a-1")
        assert await checkpointer.delete("thread", "a-1")

    assert [info.checkpoint_id for info in await proof.history(direct, "thread")] == ["a-2"]


async def test_a_save_that_waits_for_too_long_is_an_error_in_time_and_then_works_again(
    db: Database, checkpointer: Checkpointer, direct: Checkpointer, postgres: Postgres, name: str
) -> None:
    with locked(postgres, name, db):
        with tries() as ended, pytest.raises(DatabaseUnreachable, match="locked or too slow"):
            await checkpointer.save(state_of("a-2"), "thread", "a-2")
        assert len(ended) <= 2, "it was tried once, and not four times"
        with (
            tries() as ended,
            pytest.raises(DatabaseUnreachable, match="locked or too slow") as caught,
        ):
            await checkpointer.delete("thread")
        assert len(ended) <= 2
        assert not caught.value.maybe_applied
        assert (await db.health())["checked_out"] == 0

    await checkpointer.save(state_of("a-3"), "thread", "a-3")
    await check(direct, ["a-1", "a-3"])


async def test_a_read_that_waits_for_too_long_changed_nothing_and_says_so(
    network: Proxy, db: Database, checkpointer: Checkpointer, postgres: Postgres, name: str
) -> None:
    with locked(postgres, name, db) as other:
        other.execute("LOCK TABLE deltas IN ACCESS EXCLUSIVE MODE")
        with (
            tries() as ended,
            pytest.raises(DatabaseUnreachable, match="locked or too slow") as caught,
        ):
            await checkpointer.load("thread")
    assert len(ended) == 1
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
        network.pause_answer_to("a-2")
    else:
        network.pause("a-2")
    if driver == "psycopg":  # it waits as long as the network is silent
        asyncio.get_running_loop().call_later(2 * PATIENCE, network.go_on)
    told = "saved"
    try:
        async with asyncio.timeout(A_WHILE):
            await checkpointer.save(state_of("a-2"), "thread", "a-2")
    except DatabaseUnreachable as error:
        told = "perhaps" if error.maybe_applied else "not saved"
    assert network.pauses == 1
    assert told == ("saved" if answered or driver == "psycopg" else "perhaps")
    await direct.save(state_of("b-1"), "thread", "b-1")
    network.go_on()

    async def is_delivered() -> bool:
        return await direct.exists("thread", "a-2")

    await until(is_delivered)
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
        network.pause(name_of("a", number))
        name = name_of("a", number)
        save = checkpointer.save(state_of(name), f"thread-{number}", name)
        tasks.append(asyncio.create_task(save))
        # One by one: together they would go in one statement.
        await until(lambda: network.pauses == len(tasks))
    for task in tasks:
        task.cancel()
    asyncio.get_running_loop().call_later(2 * PATIENCE, network.go_on)
    _, stuck = await asyncio.wait(tasks, timeout=A_WHILE)
    assert not stuck

    assert all(task.cancelled() for task in tasks)

    async def all_are_given_back() -> bool:
        return (await db.health())["checked_out"] == 0

    await until(all_are_given_back)  # what is on its way is called off behind them
    async with asyncio.timeout(A_WHILE):
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
    before = network.taken

    with pytest.raises(DatabaseUnreachable, match="cannot reach") as caught:
        await asyncio.wait_for(checkpointer.load("thread"), A_WHILE)

    assert network.taken == before + 1, "once, not four times"
    assert not caught.value.maybe_applied
    network.release()
    assert await checkpointer.load("thread") == state_of("a-1")
