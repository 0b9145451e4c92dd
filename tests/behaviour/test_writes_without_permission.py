"""Whoever may not write into a tenant cannot, by no method and on no road.

A process without the keys of an encrypted tenant, or with others, and a read-only view of a
database are refused by each of the public methods that write content, alone, in a transaction, on a
host's connection, and together with others who may write.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from write_operations import CLASSES, CONTENTLESS, SECRET, WRITES, fill, names

import memalchemy
from host_urls import async_url
from memalchemy import CapabilityMissing, Database, KeyMissing, Store
from memalchemy.codec.encryption import generate_key
from memalchemy.database import Intent
from memalchemy.errors import ReadOnly

KEY, OTHER = generate_key(), generate_key()

pytestmark = [pytest.mark.own_keys, pytest.mark.usefixtures("lasting")]

TABLES = ("threads", "checkpoints", "deltas", "store_items", "embeddings")

Open = Callable[..., Any]


@pytest.fixture
async def opened(shared_url: str) -> AsyncIterator[Open]:
    """Opens the database, with a tenant of the test's own, as another process would."""
    mine = f"t-{uuid.uuid4().hex[:16]}"
    async with AsyncExitStack() as stack:

        async def open_(keys: list[str] | None, **options: Any) -> Database:
            # Vectors are stored where they are given, so that those are refused for the keys, too.
            readable = ["vectors"] if keys else []
            db = memalchemy.Database(
                shared_url, tenant=mine, keys=keys, readable=readable, **options
            )
            return await stack.enter_async_context(db)

        yield open_


def test_every_public_method_is_among_them_or_writes_no_content() -> None:
    public = {
        (class_, name)
        for class_ in CLASSES
        for name, method in inspect.getmembers(getattr(memalchemy, class_))
        if not name.startswith("_") and inspect.iscoroutinefunction(method)
    }
    unnamed = {pair for pair in public - names() if pair[1] not in CONTENTLESS}
    assert unnamed == set(), (
        "add it to write_operations.WRITES, or to CONTENTLESS if it writes none"
    )


async def rows_of(db: Database) -> dict[str, list[str]]:
    """All rows of the tenant, as text that shows what is readable of them."""

    def read(connection: Any) -> dict[str, list[str]]:
        found = {}
        for table in TABLES:
            query = text(f"SELECT * FROM {table} WHERE tenant = :tenant")
            rows = connection.execute(query, {"tenant": db.tenant}).all()
            found[table] = sorted(
                str([bytes(one) if isinstance(one, memoryview) else one for one in row])
                for row in rows
            )
        return found

    return await db.run_sync(read)


async def let_through(
    db: Database, error: type[Exception], connection: Any = None
) -> AsyncIterator[str]:
    """The names of the calls that *error* did not stop."""
    on = {} if connection is None else {"connection": connection}
    for write in WRITES:
        if on and not write.takes_connection:
            continue
        try:
            await write.call(db, on)
        except error:
            continue
        if write.tells:
            yield write.name


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What an agent's runtime calls logs why it failed."""
    with caplog.at_level(logging.CRITICAL):
        yield


@pytest.mark.parametrize("road", ["alone", "our transaction", "a host's connection"])
@pytest.mark.parametrize("keys", [None, [OTHER]], ids=["no keys", "other keys"])
async def test_who_has_no_key_of_the_tenant_writes_nothing_into_it(
    opened: Open, keys: list[str] | None, road: str, shared_url: str
) -> None:
    keyed, db = await opened(keys=[KEY]), await opened(keys=keys)
    await fill(keyed)
    before = await rows_of(keyed)

    async with AsyncExitStack() as stack:
        connection: Any = None
        if road == "our transaction":
            connection = await stack.enter_async_context(db.transaction())
        elif road == "a host's connection":
            # As a host has it: another engine, which knows nothing of a `Database`.
            engine = create_async_engine(async_url(shared_url))
            stack.push_async_callback(engine.dispose)
            connection = await stack.enter_async_context(engine.begin())
        through = [name async for name in let_through(db, KeyMissing, connection)]

    assert through == []
    assert await rows_of(keyed) == before
    assert SECRET not in str(before)


@pytest.mark.parametrize("road", ["alone", "our transaction"])
@pytest.mark.parametrize("view_of", ["replica()", "read_only=True"])
async def test_a_read_only_view_writes_nothing(opened: Open, view_of: str, road: str) -> None:
    keyed = await opened(keys=[KEY])
    await fill(keyed)
    before = await rows_of(keyed)

    async with AsyncExitStack() as stack:
        connection: Any = None
        if road == "our transaction":
            connection = await stack.enter_async_context(keyed.transaction())
        view = (
            keyed.replica() if view_of == "replica()" else await opened(keys=[KEY], read_only=True)
        )
        through = [name async for name in let_through(view, ReadOnly, connection)]

    assert through == []
    assert await rows_of(keyed) == before


async def test_those_who_may_not_write_do_not_by_going_with_others_who_may(opened: Open) -> None:
    await fill(await opened(keys=[KEY]))
    plain = await opened(keys=None)
    open_ = plain.for_tenant(f"{plain.tenant}-open")
    seen = plain.for_tenant(f"{plain.tenant}-seen")
    await fill(open_)
    await fill(seen)
    before = [await rows_of(plain), await rows_of(seen)]
    wrong: list[str] = []

    # Several of each, by turns: those that wait at the same moment go in one statement.
    given = [view for _ in range(4) for view in (open_, plain, seen.replica())]
    for write in WRITES:
        outcomes: list[Any] = await asyncio.gather(
            *(write.call(view, {}) for view in given), return_exceptions=True
        )
        expected = (type(None), KeyMissing, CapabilityMissing)
        for place, outcome in enumerate(outcomes if write.tells else ()):
            stopped = isinstance(outcome, KeyMissing | CapabilityMissing)
            as_due = isinstance(outcome, expected[place % 3]) if place % 3 else not stopped
            if not as_due:
                wrong.append(f"{write.name}, {place % 3}: {outcome!r}")

    assert wrong == []
    assert [await rows_of(plain), await rows_of(seen)] == before


@pytest.mark.asyncio_only("threads come in no order of the test's making")
async def test_saves_that_go_together_are_each_looked_at(opened: Open) -> None:
    await Store(await opened(keys=[KEY])).put(("n",), "k", 1)
    plain = await opened(keys=None)
    open_ = plain.for_tenant(f"{plain.tenant}-open")
    tenants = [open_, plain, open_.replica()]
    outcomes = await asyncio.gather(
        *(
            memalchemy.Checkpointer(tenants[number % 3]).save({"n": SECRET}, f"t{number}")
            for number in range(24)
        ),
        return_exceptions=True,
    )

    assert [type(found) for found in outcomes] == [str, KeyMissing, ReadOnly] * 8
    assert len(await memalchemy.Checkpointer(tenants[0]).list_threads()) == 8
    assert await memalchemy.Checkpointer(plain).list_threads() == []


@pytest.mark.asyncio_only("of what is inside")
async def test_a_write_that_says_it_has_no_content_cannot_have_any(opened: Open) -> None:
    """So that a new program cannot leave out the look at the keys."""
    db = await opened(keys=[KEY])
    run = Database.run

    async def as_if_none(self: Any, program: Any, intent: Intent, **more: Any) -> Any:
        return await run(self, program, replace(intent, writes_payloads=False), **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "run", as_if_none)
        for one in (
            lambda: memalchemy.Checkpointer(db).save({"n": 1}, "t", parent_id=None),
            lambda: memalchemy.ThreadLog(db).append("t", ["a"]),
            lambda: Store(db).put(("n",), "k", 1),
        ):
            with pytest.raises(AssertionError, match="has no payloads writes one"):
                await one()
    assert (await rows_of(db))["deltas"] == []
    assert await Store(db).count(("n",)) == 0
