"""Processor time of a call on two databases, which take turns: what else runs disturbs both alike.

The server's share is on Linux only, which says what a process of somebody else's has used.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol, TypeVar

from sqlalchemy import text

from benchmarks.measure import Finding, at_most
from memalchemy import Database

CALLS = 100
"""Calls of a round."""


class Side(Protocol):
    """One of the two databases."""

    backend: int | None
    """The process that serves the one connection; ``None`` without a server."""


S = TypeVar("S", bound=Side)


@dataclass
class Took:
    """The mean times of the calls of a round, in microseconds."""

    wall: float
    client: float
    server: float

    @property
    def cpu(self) -> float:
        return self.client + self.server


async def backend_of(db: Database) -> int:
    """Return the server's process behind the one connection of a PostgreSQL database."""
    found: int = await db.run_sync(lambda c: c.scalar(text("SELECT pg_backend_pid()")))
    return found


def _server_seconds(side: Side) -> float:
    """Return the processor time that the server's process has used."""
    if side.backend is None:
        return 0.0
    nanoseconds = Path(f"/proc/{side.backend}/schedstat").read_text().split()[0]
    return int(nanoseconds) / 1e9


async def measure_pairs(
    call: Callable[[S, int], Awaitable[object]],
    sides: tuple[S, S],
    rounds: int,
    before: Callable[[S], None] = lambda _: None,
    calls: int = CALLS,
) -> tuple[list[Took], list[Took]]:
    """Return the times of *call*, which is given a side and a number, on both in each round.

    *before* each call something is done that is not measured.
    """
    found: tuple[list[Took], list[Took]] = ([], [])
    for round_ in range(rounds):
        gc.collect()
        sums = [[0.0, 0.0], [0.0, 0.0]]
        started = [_server_seconds(side) for side in sides]
        for n in range(calls):
            for at in ((0, 1), (1, 0))[n % 2]:
                before(sides[at])
                wall, client = time.perf_counter(), time.process_time()
                await call(sides[at], round_ * calls + n)
                sums[at][1] += time.process_time() - client
                sums[at][0] += time.perf_counter() - wall
        await asyncio.sleep(0.005)  # a server ends its work after it has answered
        for at, side in enumerate(sides):
            parts = (*sums[at], _server_seconds(side) - started[at])
            found[at].append(Took(*(1e6 * part / calls for part in parts)))
    return found


def compared(
    group: str, name: str, found: tuple[list[Took], list[Took]], most: float | None
) -> Finding:
    """Return the median share of the second side's processor time to the first's."""
    without, with_it = found
    shares = [b.cpu / a.cpu for a, b in zip(without, with_it, strict=True)]
    target = None if most is None else at_most(most, timed=False)
    ours, theirs = _described(with_it), _described(without)
    return Finding(group, name, median(shares), "x", target, ours, theirs)


def _described(times: list[Took]) -> str:
    def middle(name: str) -> str:
        return f"{median(getattr(one, name) for one in times):,.0f}"

    return (
        f"{middle('cpu')} µs ({middle('client')} client, {middle('server')} server), "
        f"{middle('wall')} on the wall"
    )
