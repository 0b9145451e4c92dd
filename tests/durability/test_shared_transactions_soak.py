"""Random tasks, errors and cancellations in shared transactions, beside work outside of them.

Rounds go on for MEMALCHEMY_SOAK_SECONDS on each kind of database (4 if it is not set; 60 is a soak
before a release). In each, several transactions are shared by tasks that fail, are cancelled after
a random number of the loop's steps, run into tiny timeouts, or outlive the transaction, while
others write without a transaction or in one of their own. A ledger says what must be there after
the round. What is random follows from MEMALCHEMY_SOAK_SEED, and from how long the server takes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from memalchemy import Database, MemalchemyError, NotSerialisable
from memalchemy.verify import verify
from servers import Postgres, migrated_database
from shared_writes import (
    OPERATIONS,
    WRITES,
    Features,
    Regret,
    do,
    host_engine,
    in_session,
    is_clear,
    is_there,
)
from waiting import A_WHILE, steps, until

pytestmark = pytest.mark.alone

SECONDS = float(os.environ.get("MEMALCHEMY_SOAK_SECONDS", "4"))
SEED = os.environ.get("MEMALCHEMY_SOAK_SEED", "1")

BLOCKS, INNOCENTS = 8, 4
HANGS = A_WHILE
"""Seconds after which what a round started is taken to hang."""

WAYS = {
    "sqlite": "sqlite",
    "sqlite in memory": "sqlite-memory",
    "asyncpg": "postgresql",
    "asyncpg, a host's connections": "postgresql",
    "asyncpg, a host's sessions": "postgresql",
    "psycopg": "psycopg",
    "psycopg, a host's connections": "psycopg",
}
"""Each with the name that ``--databases`` has for it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asked = metafunc.config.getoption("--databases").split(",")
    metafunc.parametrize("way", [way for way, name in WAYS.items() if name in asked] or [*WAYS][:1])


@dataclass
class Stage:
    """A database, and how a transaction that tasks share begins on it."""

    features: Features
    fresh: Features
    """The same data with nothing cached, on connections of its own; in memory there is no other."""
    block: Callable[[], AbstractAsyncContextManager[Any]]
    engine: AsyncEngine | None
    at_work: Callable[[], list[Any]]
    """The server's connections that are in a transaction at this moment."""

    block_has_a_session: bool
    """Tasks must not outlive its commit: see `in_session`."""

    @property
    def is_ours(self) -> bool:
        return self.engine is None


@pytest.fixture
def address(
    way: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[str, Callable[[], list[Any]]]]:
    """The URL of a database of the test's own, and what is at work on it."""
    if way.startswith("sqlite"):
        yield ("sqlite://" if "memory" in way else f"sqlite:///{tmp_path}/agent.db"), list
        return
    server: Postgres = request.getfixturevalue("postgres")
    query = (
        "SELECT pid, state, left(query, 60) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND datname = current_database()"
        " AND pid <> pg_backend_pid() AND state <> 'idle'"
    )
    driver = "psycopg" if way.startswith("psycopg") else ""
    with migrated_database(server) as name:
        yield server.url(name, driver=driver), lambda: server.execute(query, name)


@pytest.fixture
async def stage(way: str, address: tuple[str, Callable[[], list[Any]]]) -> AsyncIterator[Stage]:
    engine: AsyncEngine | None = None
    url, at_work = address
    tenant = f"soak {way}"
    if "host" in way:
        engine = host_engine(url)
    db = Database(engine or url, tenant=tenant)
    other = db if "memory" in way else Database(url, tenant=tenant)
    block: Callable[[], Any] = db.transaction
    if engine is not None:
        block = engine.begin if "connections" in way else lambda: in_session(engine)
    yield Stage(Features.of(db), Features.of(other), block, engine, at_work, "sessions" in way)
    if any(task.get_name().startswith("round") for task in asyncio.all_tasks()):
        return  # it hangs, and to close what it holds would, too
    await db.close()
    await other.close()
    if engine is not None:
        await engine.dispose()


@dataclass
class Operation:
    """One line of the ledger."""

    kind: str
    name: str
    outcome: str = "pending"
    """``acknowledged``, ``refused``, ``cancelled``, or ``maybe``: its host may have begun anew."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.outcome})"


@dataclass
class Group:
    """Operations that are there together or not at all; or one without a transaction."""

    title: str
    operations: list[Operation] = field(default_factory=list)
    outcome: str = "pending"
    """``committed``, ``rolled back``, or ``unknown``."""
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    """Its block has come to its end, and nothing but the commit is left."""
    has_ended: bool = False

    def note(self, kind: str, name: str) -> Operation:
        made = Operation(kind, name)
        if kind in WRITES:
            self.operations.append(made)
        return made


class Round:
    """What happens at once, and what must be there afterwards."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage = stage
        self.number = number
        self.chance = random.Random(f"{SEED} {number}")
        self.groups: list[Group] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.complaints: list[str] = []

    def start(self, title: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=f"round {self.number}, {title}")
        self.tasks.append(task)
        return task

    def group(self, title: str) -> Group:
        made = Group(title)
        self.groups.append(made)
        return made

    async def run(self) -> None:
        holders = [self.shared(n) for n in range(BLOCKS)]
        others = [self.innocent(n) for n in range(INNOCENTS)]
        for work in self.chance.sample([*holders, *others], BLOCKS + INNOCENTS):
            self.start(work.__qualname__, work)
            await steps(self.chance.choice((0, 0, 1, 5)))
        await self.all_have_ended()
        self.start("the ledger", self.reckon())
        await self.all_have_ended()

    async def all_have_ended(self) -> None:
        deadline = time.monotonic() + HANGS
        while left := [task for task in self.tasks if not task.done()]:
            await asyncio.wait(left, timeout=deadline - time.monotonic())
            if time.monotonic() > deadline:
                # One of them may have started others meanwhile.
                hanging = [where(task) for task in self.tasks if not task.done()]
                told = "\n  ".join([*hanging, *map(str, self.stage.at_work())])
                raise AssertionError(f"seed {SEED}, round {self.number}: these hang\n  {told}")
        for task in self.tasks:
            error = None if task.cancelled() else task.exception()
            if error is not None and not is_expected(error):
                self.complaints.append(f"{task.get_name()}: {error!r}")

    # --- Tasks that share a transaction ----------------------------------------------------------

    async def shared(self, n: int) -> None:
        """A transaction with its tasks; and somebody who may cancel it, again and again."""
        group = self.group(f"r{self.number} b{n}")
        holder = self.start(f"block {n}", self.block(group))
        how = self.chance.choice(("not",) * 5 + ("inside", "while it ends", "while it ends"))
        if how == "not":
            return
        if how == "while it ends":
            leaving = asyncio.ensure_future(group.leaving.wait())
            await asyncio.wait([leaving, holder], return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
        await steps(self.chance.randrange(40))
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            holder.cancel()
            await steps(self.chance.randrange(4))

    async def block(self, group: Group) -> None:
        limit = self.chance.choice((None,) * 7 + (self.chance.uniform(0, 0.02),))
        try:
            async with asyncio.timeout(limit), self.stage.block() as tx:
                await self.body(group, tx)
                group.leaving.set()
        except (Regret, NotSerialisable, ExceptionGroup):
            group.outcome = "rolled back"
        except (MemalchemyError, SQLAlchemyError) as error:
            if self.stage.is_ours and not is_clear(error):
                self.complaints.append(f"{group.title} was left by {error!r}")
            unknown = getattr(error, "maybe_applied", not self.stage.is_ours)
            group.outcome = "unknown" if group.leaving.is_set() and unknown else "rolled back"
        except (asyncio.CancelledError, TimeoutError):
            # Of the timeout's own, or of somebody else's.
            group.outcome = "unknown" if group.leaving.is_set() else "rolled back"
        else:
            group.outcome = "committed"
        finally:
            group.has_ended = True

    async def body(self, group: Group, tx: Any) -> None:
        """What a host does in a transaction; some of it goes on after this has returned."""
        names = (f"{group.title}.{k}" for k in range(1_000))
        if self.chance.random() < 0.2:
            await self.savepoint(group, names, tx)
        children = [
            self.start(f"{group.title}, task {k}", self.sharer(group, names, tx))
            for k in range(self.chance.randrange(1, 5))
        ]
        if self.chance.random() < 0.5:
            children.append(self.start(f"{group.title}, who fails", self.failing(group, names, tx)))
        how = self.chance.choice(("gather", "gather", "all of them", "leave", "group"))
        if how == "gather":
            await asyncio.gather(*children)
        elif how == "all of them":
            await asyncio.gather(*children, return_exceptions=True)
        elif how == "leave":
            await steps(self.chance.randrange(60))
            if self.chance.random() < 0.5 or self.stage.block_has_a_session:
                raise Regret
        else:
            async with asyncio.TaskGroup() as tasks:
                for child in children:
                    tasks.create_task(awaited(child), name=child.get_name())

    async def savepoint(self, group: Group, names: Any, tx: Any) -> None:
        """One that is taken back, before others use the transaction."""
        taken_back = [group.note(self.chance.choice([*WRITES]), next(names)) for _ in range(2)]
        with suppress(Regret):
            async with tx.begin_nested():
                for one in taken_back:
                    await do(self.stage.features, one.kind, one.name, tx)
                raise Regret
        for one in taken_back:
            one.outcome = "refused"

    async def sharer(self, group: Group, names: Any, tx: Any) -> None:
        for _ in range(self.chance.randrange(1, 6)):
            one = group.note(self.chance.choice(OPERATIONS), next(names))
            try:
                await self.disturbed(group, one, tx)
            except (MemalchemyError, SQLAlchemyError):
                if self.chance.random() < 0.5:
                    raise

    async def failing(self, group: Group, names: Any, tx: Any) -> None:
        for _ in range(self.chance.randrange(3)):
            one = group.note(self.chance.choice([*WRITES]), next(names))
            await self.disturbed(group, one, tx)
        await steps(self.chance.randrange(20))
        if self.chance.random() < 0.4:
            await self.stage.features.store.put(("shared",), "it", object(), connection=tx)
        raise Regret

    async def disturbed(self, group: Group, one: Operation, tx: Any) -> None:
        """Do *one*, or be cancelled in the middle of it; note what came of it, and raise that."""
        late = group.has_ended
        work = do(self.stage.features, one.kind, one.name, tx)
        how = self.chance.choice(("not",) * 10 + ("steps", "timeout"))
        limit = asyncio.timeout(self.chance.uniform(0, 0.01) if how == "timeout" else None)
        try:
            async with limit:
                if how == "steps":
                    inner = asyncio.create_task(work, name=f"round {self.number}, {one}")
                    self.tasks.append(inner)
                    await steps(self.chance.randrange(30))
                    inner.cancel()
                    await awaited(inner)
                else:
                    await work
        except asyncio.CancelledError:
            one.outcome = "cancelled"
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
        except TimeoutError:
            one.outcome = "cancelled"
            if not limit.expired():
                self.complaints.append(f"{one}: a timeout of somebody else's")
        except Exception as error:
            one.outcome = "refused"
            if not is_clear(error):
                self.complaints.append(f"{one}: {error!r}")
            raise
        else:
            one.outcome = "acknowledged"
            if late and self.stage.is_ours:
                self.complaints.append(f"{one}: after the end of its transaction")
            if group.leaving.is_set() and not self.stage.is_ours:
                one.outcome = "maybe"  # on a connection that is not closed, SQLAlchemy begins anew

    # --- Those that have nothing to do with it ---------------------------------------------------

    async def innocent(self, n: int) -> None:
        """Writes one after the other; none of it fails, but what is cancelled itself."""
        thread = f"r{self.number} i{n}"
        for k in range(self.chance.randrange(3, 9)):
            group = self.group(f"{thread}.{k}")
            if self.chance.random() < 0.3:
                work = self.alone_in_a_transaction(group)
            else:
                work = self.without_a_transaction(group)
            task = self.start(f"innocent {group.title}", work)
            if self.chance.random() < 0.1:
                await steps(self.chance.randrange(40))
                task.cancel()
            await asyncio.wait([task])
            if task.cancelled():
                group.outcome = "unknown"
            elif (error := task.exception()) is not None:
                group.outcome = "rolled back"
                self.complaints.append(f"innocent {group.title} was refused: {error!r}")
            else:
                group.outcome = "committed"

    async def without_a_transaction(self, group: Group) -> None:
        one = group.note(self.chance.choice(OPERATIONS), group.title)
        await do(self.stage.features, one.kind, one.name)
        one.outcome = "acknowledged"

    async def alone_in_a_transaction(self, group: Group) -> None:
        begin = (
            self.stage.block if self.chance.random() < 0.5 else self.stage.features.db.transaction
        )
        async with begin() as tx:
            for k in range(3):
                one = group.note(self.chance.choice(OPERATIONS), f"{group.title}.{k}")
                await do(self.stage.features, one.kind, one.name, tx)
                one.outcome = "acknowledged"

    # --- The ledger ------------------------------------------------------------------------------

    async def reckon(self) -> None:
        """Hold what is there against what must be."""
        await self.all_is_given_back()
        for group in self.groups:
            there = [one for one in group.operations if await self.found(one)]
            absent = [one for one in group.operations if one not in there]
            if group.outcome == "rolled back":
                self.complain(there, f"{group.title} was rolled back, and there are")
                continue
            refused = [one for one in there if one.outcome == "refused"]
            self.complain(refused, f"{group.title} is {group.outcome}; refused, and there, are")
            if group.outcome == "committed" or there:
                lost = [one for one in absent if one.outcome == "acknowledged"]
                self.complain(lost, f"{group.title} is {group.outcome}; lost are")
        for group in self.groups:
            # The process knows the thread by what was rolled back, or was not.
            after = f"{group.title.partition('.')[0]}.after"
            await do(self.stage.features, "save", after)
            if not await is_there(self.stage.fresh, "save", after):
                self.complaints.append(f"{after} was saved and is not there")

    async def found(self, one: Operation) -> bool:
        try:
            return await is_there(self.stage.fresh, one.kind, one.name)
        except (AssertionError, MemalchemyError) as error:
            self.complaints.append(f"{one}: {error!r}")
            return False

    def complain(self, about: list[Operation], why: str) -> None:
        if about:
            self.complaints.append(f"{why} {', '.join(map(str, about))}")

    async def all_is_given_back(self) -> None:
        try:  # what was cancelled may still run on the server
            await until(lambda: not self.stage.at_work())
        except AssertionError:
            self.complaints.append(f"still in a transaction: {self.stage.at_work()}")
        out = (await self.stage.features.db.health())["checked_out"]
        if self.stage.engine is not None:
            out = getattr(self.stage.engine.pool, "checkedout", int)()
        if out:
            self.complaints.append(f"{out} connections were not given back")


def is_expected(error: BaseException) -> bool:
    """Whether it is ours, or the test's own."""
    return isinstance(error, Regret) or is_clear(error)


async def awaited(task: asyncio.Task[Any]) -> Any:
    """What a task gives: in a coroutine, as a `TaskGroup` takes it."""
    return await task


def where(task: asyncio.Task[Any]) -> str:
    """The name of a task, and the innermost lines it waits in."""
    inner, lines = task.get_coro(), []
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "ag_frame", None)
        if frame is not None:
            lines.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        inner = getattr(inner, "cr_await", None) or getattr(inner, "ag_await", None)
    return f"{task.get_name()} at {' > '.join(lines)}"


async def test_nothing_acknowledged_is_lost_and_nothing_rolled_back_is_there(stage: Stage) -> None:
    tally: Counter[str] = Counter()
    heard: list[str] = []

    def hear(loop: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
        error = told.get("exception")
        if error is not None and not is_expected(error):
            heard.append(f"the loop was told: {told}")

    asyncio.get_running_loop().set_exception_handler(hear)
    ends = time.monotonic() + SECONDS
    try:
        async with asyncio.timeout(3 * SECONDS + 4 * HANGS):
            while time.monotonic() < ends or not tally:
                round_ = Round(stage, tally["rounds"])
                await round_.run()
                complaints = "\n  ".join([*round_.complaints, *heard])
                assert not complaints, f"seed {SEED}, round {round_.number}:\n  {complaints}"
                tally["rounds"] += 1
                tally.update(f"blocks {group.outcome}" for group in round_.groups)
                tally.update(one.outcome for group in round_.groups for one in group.operations)
            report = await verify(stage.fresh.db)
    except TimeoutError:
        hanging = "\n  ".join(where(task) for task in asyncio.all_tasks())
        raise AssertionError(f"seed {SEED}: it hangs after {dict(tally)}\n  {hanging}") from None
    print(dict(tally))  # for who runs it with -s
    assert report.ok, report.findings
    for expected in ("committed", "rolled back"):
        assert tally[f"blocks {expected}"], f"{dict(tally)}: nothing was {expected}"
    assert tally["cancelled"], f"{dict(tally)}: nothing was cancelled"
    gc.collect()  # it warns of a connection that nobody gave back, and a warning fails the test
