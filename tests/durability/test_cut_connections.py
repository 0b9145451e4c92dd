"""Connections cut in the middle: what was acknowledged is there once, and an outage is one error.

Cut by the server (``pg_terminate_backend``) and by a network that drops (`proxy`).
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Literal
from uuid import uuid4

import asyncpg
import pytest
from proxy import Proxy
from sqlalchemy import text

from memalchemy import Checkpointer, Database, DatabaseUnreachable
from memalchemy.events import Event, subscribe
from servers import Postgres
from waiting import A_WHILE

pytestmark = pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])


COMMIT = "COMMIT[;\0]"  # and not READ COMMITTED


@pytest.fixture
async def db(network: Proxy, name: str, driver: str) -> AsyncIterator[Database]:
    """The database through the network, with a tenant of its own; warmed up."""
    database = Database(
        network.url(name, driver=driver), tenant=f"t-{uuid4().hex[:12]}", connect_timeout=5
    )
    await Checkpointer(database).save({}, "warm-up")
    yield database
    assert (await database.health())["checked_out"] == 0
    await database.close()


@contextmanager
def events(name: str) -> Iterator[list[Event]]:
    seen: list[Event] = []
    unsubscribe = subscribe(lambda event: seen.append(event) if event.name == name else None)
    try:
        yield seen
    finally:
        unsubscribe()


def state(n: int) -> dict[str, object]:
    return {"n": n, "text": "what every step has in common, " * 20}


async def save_all(
    checkpointer: Checkpointer,
    thread: str,
    count: int,
    enough: Callable[[], bool] = lambda: True,
) -> tuple[list[str], list[str]]:
    """Save *count* checkpoints one after another, and more until half as many were acknowledged
    and there were *enough* disturbances: the acknowledged ids, and the others.
    """
    acknowledged: list[str] = []
    unanswered: list[str] = []
    for n in itertools.count():
        if n >= count and len(acknowledged) >= count // 2 and enough():
            break
        checkpoint_id = f"c{n}"
        try:
            await checkpointer.save(state(n), thread, checkpoint_id)
        except DatabaseUnreachable:
            unanswered.append(checkpoint_id)
        else:
            acknowledged.append(checkpoint_id)
    return acknowledged, unanswered


async def check_history(
    direct: Checkpointer, thread: str, acknowledged: list[str], unanswered: list[str]
) -> None:
    """Every acknowledged save is there once and in order, the others at most once; all load."""
    infos = [info async for info in direct.history(thread)]
    ids = [info.checkpoint_id for info in reversed(infos)]
    assert len(set(ids)) == len(ids)
    assert [i for i in ids if i not in unanswered] == acknowledged
    assert ids == sorted(ids, key=lambda i: int(i[1:]))
    assert [info.parent_id for info in infos] == [*reversed(ids[:-1]), None][: len(ids)]
    for checkpoint_id in ids:
        assert await direct.load(thread, checkpoint_id) == state(int(checkpoint_id[1:]))


# --- Backends that the server ends ---------------------------------------------------------------


@contextmanager
def ending_backends(postgres: Postgres, application: str, pause: float) -> Iterator[list[int]]:
    """End every backend of *application*, again and again; yields how many were ended."""
    stop, ended = threading.Event(), [0]
    query = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        f"WHERE application_name = '{application}'"
    )

    def work() -> None:
        while not stop.wait(random.uniform(0, 2 * pause)):
            ended[0] += postgres.execute(query)[0][0]

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield ended
    finally:
        stop.set()
        thread.join()


async def test_a_save_after_the_server_ended_the_idle_connections_is_repeated(
    postgres: Postgres, name: str, driver: str
) -> None:
    application = f"ma-{uuid4().hex[:8]}"
    url = f"{postgres.url(name, driver=driver)}&application_name={application}"
    async with Database(url, tenant=application) as db:
        checkpointer = Checkpointer(db)
        for n in range(3):
            await checkpointer.save(state(n), "thread", f"c{n}")
            postgres.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                f"WHERE application_name = '{application}'"
            )
        assert await checkpointer.load("thread") == state(2)
        await check_history(checkpointer, "thread", ["c0", "c1", "c2"], [])


async def test_no_acknowledged_save_is_lost_or_doubled_while_backends_are_ended(
    postgres: Postgres, name: str, driver: str
) -> None:
    application = f"ma-{uuid4().hex[:8]}"
    url = f"{postgres.url(name, driver=driver)}&application_name={application}"
    db = Database(url, tenant=application, migrate="off")
    checkpointer = Checkpointer(db)

    with ending_backends(postgres, application, pause=0.02) as ended:
        async with asyncio.timeout(A_WHILE):
            saved = await asyncio.gather(
                *(
                    save_all(checkpointer, f"thread-{task}", 40, lambda: ended[0] > 5)
                    for task in range(5)
                )
            )

    async with Database(postgres.url(name), tenant=application) as other:
        for task, (acknowledged, unanswered) in enumerate(saved):
            await check_history(Checkpointer(other), f"thread-{task}", acknowledged, unanswered)
    await db.close()


async def test_a_backend_that_is_ended_while_a_connection_is_made_is_an_unreachable_database(
    postgres: Postgres, name: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if driver != "asyncpg":
        pytest.skip("psycopg calls everything that a server's end leads to an OperationalError")

    async def prepare(*_: object, **__: object) -> None:
        # What it says when it has read the server's farewell, and nothing after it yet.
        raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is …")

    db = Database(postgres.url(name), tenant="ended", migrate="off")
    with monkeypatch.context() as ended:
        ended.setattr(asyncpg.Connection, "prepare", prepare)
        with pytest.raises(DatabaseUnreachable, match="cannot reach"):
            await Checkpointer(db).save({}, "thread")
    await Checkpointer(db).save({}, "thread")
    await db.close()


# --- A network that drops ------------------------------------------------------------------------


async def test_a_save_whose_answer_was_lost_is_acknowledged_and_there_once(
    network: Proxy, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    await checkpointer.save(state(0), "thread", "c0")
    network.drop_answer_to("c1")

    with events("database.retry") as retries:
        assert await checkpointer.save(state(1), "thread", "c1") == "c1"

    assert network.cuts == len(retries) == 1
    await checkpointer.save(state(2), "thread", "c2")
    await check_history(direct, "thread", ["c0", "c1", "c2"], [])


async def test_a_connection_that_is_lost_makes_the_pool_replace_the_others_too(
    network: Proxy, db: Database, checkpointer: Checkpointer
) -> None:
    async def backends() -> set[int]:
        async with db.transaction() as one, db.transaction() as other:
            asked = text("SELECT pg_backend_pid()")
            return {(await connection.execute(asked)).scalar_one() for connection in (one, other)}

    before = await backends()
    assert await backends() == before
    network.drop("c1")

    await checkpointer.save(state(1), "thread", "c1")

    assert not await backends() & before


async def test_a_save_that_never_reached_the_server_is_sent_again(
    network: Proxy, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    await checkpointer.save(state(0), "thread", "c0")
    network.drop("c1")

    await checkpointer.save(state(1), "thread", "c1")

    assert network.cuts == 1
    await check_history(direct, "thread", ["c0", "c1"], [])


async def test_the_first_save_of_a_thread_may_lose_its_answer_too(
    network: Proxy, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    network.drop_answer_to("c0")

    await checkpointer.save(state(0), "thread", "c0", expected_parent=None)

    assert network.cuts == 1
    await check_history(direct, "thread", ["c0"], [])


async def test_a_save_with_an_expected_parent_that_was_applied_does_not_end_as_a_conflict(
    network: Proxy, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    await checkpointer.save(state(0), "thread", "c0")
    network.drop_answer_to("c1")

    await checkpointer.save(state(1), "thread", "c1", expected_parent="c0")

    assert network.cuts == 1
    await checkpointer.save(state(2), "thread", "c2", expected_parent="c1")
    await check_history(direct, "thread", ["c0", "c1", "c2"], [])


@pytest.mark.parametrize("expected", [{}, {"expected_parent": "c0"}], ids=["any", "expected"])
async def test_a_save_that_was_applied_keeps_its_place_below_what_was_built_on_it(
    expected: dict[str, str], network: Proxy, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    await checkpointer.save(state(0), "thread", "c0")
    network.drop_answer_to("c1", then="hold")
    saving = asyncio.create_task(checkpointer.save(state(1), "thread", "c1", **expected))
    await network.was_cut.wait()
    await direct.save(state(2), "thread", "c2", **dict.fromkeys(expected, "c1"))
    network.release()

    assert await saving == "c1"
    await check_history(direct, "thread", ["c0", "c1", "c2"], [])


async def test_an_outage_that_lasts_is_one_error_that_says_the_save_may_have_happened(
    network: Proxy, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    await checkpointer.save(state(0), "thread", "c0")
    network.drop_answer_to("c1", then="refuse")

    with pytest.raises(DatabaseUnreachable) as caught:
        await checkpointer.save(state(1), "thread", "c1")
    await network.listen()

    assert await direct.list_checkpoints("thread") == ["c1", "c0"]
    assert caught.value.maybe_applied
    assert "may or may not" in str(caught.value)
    await checkpointer.save(state(2), "thread", "c2")
    await check_history(direct, "thread", ["c0", "c1", "c2"], [])


async def test_a_lost_read_is_repeated(network: Proxy, checkpointer: Checkpointer) -> None:
    for n in range(3):
        await checkpointer.save(state(n), "thread", f"c{n}")
    for cut in (network.drop_answer_to, network.drop):
        for read in (
            lambda: checkpointer.load("thread", "c1"),
            lambda: checkpointer.exists("thread", "c1"),
            lambda: checkpointer.get_metadata("thread", "c1"),
        ):
            expected = await read()
            before = network.cuts
            cut("c1")
            assert await read() == expected
            assert network.cuts == before + 1


async def test_a_deletion_that_was_cut_before_its_commit_is_repeated(
    network: Proxy, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    for n in range(2):
        await checkpointer.save(state(n), "thread", f"c{n}")
    network.drop_answer_to("thread")

    assert await checkpointer.delete("thread")

    assert network.cuts == 1
    assert not await direct.exists("thread")


async def test_a_deletion_whose_commit_was_not_answered_says_that_it_may_have_happened(
    network: Proxy, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    await checkpointer.save(state(0), "thread", "c0")
    network.drop_answer_to(COMMIT)

    with pytest.raises(DatabaseUnreachable, match="may or may not") as caught:
        await checkpointer.delete("thread")

    assert caught.value.maybe_applied
    assert not await direct.exists("thread")
    assert await checkpointer.load("thread") is None
    await checkpointer.save(state(1), "thread", "c1")
    assert await direct.load("thread") == state(1)


async def test_a_transaction_that_is_cut_is_one_error_and_leaves_nothing(
    network: Proxy, db: Database, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    await checkpointer.save(state(0), "thread", "c0")

    with pytest.raises(DatabaseUnreachable) as caught:  # noqa: PT012 - the block is what is cut
        async with db.transaction() as tx:
            await checkpointer.save(state(1), "thread", "c1", connection=tx)
            network.drop_answer_to("c2")
            await checkpointer.save(state(2), "thread", "c2", connection=tx)

    assert not caught.value.maybe_applied
    await checkpointer.save(state(3), "thread", "c3")
    await check_history(direct, "thread", ["c0", "c3"], [])


async def test_a_transaction_whose_commit_was_not_answered_says_that_it_may_have_happened(
    network: Proxy, db: Database, checkpointer: Checkpointer, direct: Checkpointer
) -> None:
    await checkpointer.save(state(0), "thread", "c0")

    with pytest.raises(DatabaseUnreachable) as caught:  # noqa: PT012 - the block is what is cut
        async with db.transaction() as tx:
            await checkpointer.save(state(1), "thread", "c1", connection=tx)
            network.drop_answer_to(COMMIT)

    assert caught.value.maybe_applied
    await checkpointer.save(state(2), "thread", "c2")
    await check_history(direct, "thread", ["c0", "c1", "c2"], [])


@pytest.mark.parametrize(("direction", "most"), [("to_server", 12_000), ("to_client", 1_500)])
async def test_connections_cut_after_any_number_of_bytes_lose_and_double_nothing(
    network: Proxy,
    checkpointer: Checkpointer,
    direct: Checkpointer,
    direction: Literal["to_server", "to_client"],
    most: int,
) -> None:
    dice = random.Random(7)
    for _ in range(25):
        network.cut_after(direction, dice.randrange(1, most))
    await checkpointer.db.close()

    async with asyncio.timeout(A_WHILE):
        acknowledged, unanswered = await save_all(checkpointer, "thread", 40)

    assert network.cuts > 5
    assert len(acknowledged) > 15
    network.calm()
    await checkpointer.db.close()
    await check_history(direct, "thread", acknowledged, unanswered)
