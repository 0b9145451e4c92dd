"""What row-level security between tenants costs a save and a load, on PostgreSQL with asyncpg.

Two databases of one server, one walled, and an application's role that has no right to pass the
wall. The tenant changes at each call, on one connection. The value is the processor time of a call,
client and server together, since the wall adds work and no waiting: no round trip and no write. The
group runs if ``--only tenant_wall`` names it; see `benchmarks.paired`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from benchmarks.filling import settle
from benchmarks.measure import Finding
from benchmarks.paired import backend_of, compared, measure_pairs
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
ROUNDS_OF_ONE = 4
"""Rounds for each of those that were asked for: processor time of so short calls scatters."""


@dataclass
class Side:
    """One of the two databases, and the tenants of it."""

    url: str
    db: Database
    tenants: list[Checkpointer]
    backend: int | None


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
            for one in side.tenants * 2:
                await call(one)
        at_tenant = partial(_call_at_tenant, call)
        found = await measure_pairs(at_tenant, (plain, walled), ROUNDS_OF_ONE * rounds)
        what = f"processor time of a {name} with tenants walled to one without"
        yield compared("tenant_wall", what, found, MOST)
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
    (backend,) = {await backend_of(db) for _ in range(2)}
    assert (await db.tenant_wall()).is_active == walled
    return Side(url, db, made, backend)


async def _call_at_tenant(
    call: Callable[[Checkpointer], Awaitable[None]], side: Side, number: int
) -> None:
    await call(side.tenants[number % TENANTS])
