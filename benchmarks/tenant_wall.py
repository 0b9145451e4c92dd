"""What row-level security between tenants costs a save and a load, on PostgreSQL with asyncpg.

Two databases of one server, one walled, and an application's role that has no right to pass the
wall. The tenant changes at each call, on one connection. The calls alternate between the two
databases, so that what else the machine does disturbs both alike. The value is the processor time
of a call, client and server together, since the wall adds work and no waiting: no round trip and no
write. The group runs if ``--only tenant_wall`` names it, and on Linux, which says what a process of
somebody else's has used.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median

import psycopg
from sqlalchemy import text
from sqlalchemy.engine import make_url

from benchmarks.filling import settle
from benchmarks.measure import Finding, at_most
from benchmarks.workload import Message, state_at
from memalchemy import Checkpointer, Database
from memalchemy.dialects import DIALECTS
from memalchemy.maintenance import tenants
from memalchemy.migrate import TABLES, VERSION_TABLE

ROLE = "memalchemy_bench_application"
MOST = 1.10
TENANTS = 50
LENGTH = 40
"""Messages of a thread at which it is saved and loaded."""
SAVED = 20
"""Checkpoints of each thread before it is measured."""
CALLS = 100
"""Calls of a round, of each kind."""
ROUNDS_OF_ONE = 4
"""Rounds for each of those that were asked for: processor time of so short calls scatters."""


@dataclass
class Side:
    """One of the two databases, and the tenants of it."""

    url: str
    db: Database
    tenants: list[Checkpointer]
    backend: int
    """The process that serves the one connection."""

    @property
    def server(self) -> float:
        """The seconds of processor time that the server's process has used."""
        nanoseconds = Path(f"/proc/{self.backend}/schedstat").read_text().split()[0]
        return int(nanoseconds) / 1e9


@dataclass
class Took:
    """The times of one call, in microseconds."""

    wall: float
    client: float
    server: float

    @property
    def cpu(self) -> float:
        return self.client + self.server


async def measure(
    messages: Sequence[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    """Yield the findings for a save and for a load."""
    length = min(LENGTH, len(messages) - 1)
    states = cycle([state_at(list(messages), step) for step in range(length, length + 2)])
    plain = await _open(new_database(), walled=False)
    walled = await _open(new_database(), walled=True)

    async def save(one: Checkpointer) -> None:
        await one.save(next(states), "thread")

    async def load(one: Checkpointer) -> None:
        assert await one.load("thread") is not None

    for side in (plain, walled):
        for one in side.tenants * SAVED:
            await save(one)
    for name, call in (("save", save), ("load", load)):
        for side in (plain, walled):
            settle(side.url)
        yield _finding(name, await _rounds(call, plain, walled, ROUNDS_OF_ONE * rounds))
    for side in (plain, walled):
        await side.db.close()


async def _open(url: str, *, walled: bool) -> Side:
    with psycopg.connect(url, autocommit=True) as admin:
        if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE]).fetchall():
            admin.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{ROLE}'")
        async with Database(url, migrate="upgrade") as owner:
            if walled:
                await tenants.enforce(owner)
        maintenance = DIALECTS["postgresql"].maintenance
        for grant in maintenance.grants(ROLE, None, (*TABLES, VERSION_TABLE)):
            admin.execute(grant.encode())
    role = make_url(url).set(username=ROLE, password=ROLE)
    db = Database(role.render_as_string(hide_password=False), pool_size=1)
    made = [Checkpointer(db.for_tenant(f"tenant-{n}")) for n in range(TENANTS)]
    (backend,) = {await _backend(db) for _ in range(2)}
    assert (await db.tenant_wall()).is_active == walled
    return Side(url, db, made, backend)


async def _backend(db: Database) -> int:
    found: int = await db.run_sync(lambda c: c.scalar(text("SELECT pg_backend_pid()")))
    return found


async def _rounds(
    call: Callable[[Checkpointer], Awaitable[None]], plain: Side, walled: Side, rounds: int
) -> tuple[list[Took], list[Took]]:
    """The mean times of *call* in each round, without and with the wall."""
    for side in (plain, walled):
        for one in side.tenants * 2:
            await call(one)
    found: tuple[list[Took], list[Took]] = ([], [])
    for _ in range(rounds):
        gc.collect()
        sums = [[0.0, 0.0], [0.0, 0.0]]
        before = [side.server for side in (plain, walled)]
        for n in range(CALLS):
            for at in ((0, 1), (1, 0))[n % 2]:
                one = (plain, walled)[at].tenants[n % TENANTS]
                wall, client = time.perf_counter(), time.process_time()
                await call(one)
                sums[at][1] += time.process_time() - client
                sums[at][0] += time.perf_counter() - wall
        await asyncio.sleep(0.005)  # the server ends its work after it has answered
        for at, side in enumerate((plain, walled)):
            parts = (*sums[at], side.server - before[at])
            found[at].append(Took(*(1e6 * part / CALLS for part in parts)))
    return found


def _finding(name: str, found: tuple[list[Took], list[Took]]) -> Finding:
    without, with_wall = found
    shares = [b.cpu / a.cpu for a, b in zip(without, with_wall, strict=True)]
    return Finding(
        "tenant_wall",
        f"processor time of a {name} with tenants walled to one without",
        median(shares),
        "x",
        at_most(MOST, timed=False),
        _described(with_wall),
        _described(without),
    )


def _described(times: list[Took]) -> str:
    def middle(name: str) -> str:
        return f"{median(getattr(one, name) for one in times):,.0f}"

    return (
        f"{middle('cpu')} µs ({middle('client')} client, {middle('server')} server), "
        f"{middle('wall')} on the wall"
    )
