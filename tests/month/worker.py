"""The processes in which agents live.

    python -m month.worker

This is a nursery: it imports the frameworks once, and forks a worker for each line of JSON that it
reads, which is a `Settings`. It writes a line when it has forked one, and one when one has ended.
A worker lives until SIGTERM, or until it is killed. It writes its report when it ends by itself:
what went wrong, and what its process held before it opened a database and after it closed it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from workers.memory_growth import held, settle

import clocks
from memalchemy import Database, DatabaseUnreachable
from month.agents import NATIVE, PLAIN, REMOTE, kinds, open_kind
from month.ledger import Ledger
from month.turns import Agent, take_a_turn

READABLE = ("text", "fields", "vectors")
PAUSE = 0.1
"""Seconds that an agent waits at most for its model."""


@dataclass(frozen=True)
class Settings:
    """What a worker is started with."""

    url: str
    tenant: str
    directory: str
    """The ledger's."""
    report: str
    """The file that it writes when it ends."""
    seed: str
    frameworks: list[str]
    server: str
    """The URL of the HTTP server."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of `Database`: keys, and the URL of a replica."""
    clock_is_off_by: int = 0
    """Seconds by which its clock is wrong at first, and jumps later."""

    def open(self) -> Database:
        return Database(self.url, tenant=self.tenant, readable=READABLE, **self.options)


class JumpingClock(clocks.Clock):
    """The machine's time, off by some seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.off = timedelta()

    def read(self, zone: tzinfo | None = None) -> datetime:
        return datetime.now(zone) + self.off


def agents_of(
    settings: Settings, part: str, ledger: Ledger, db: Database
) -> dict[str, list[Agent]]:
    """Make the agents of a tenant: each with all kinds of things of its framework."""
    names = [NATIVE, *settings.frameworks, *([REMOTE] if settings.tenant == PLAIN else [])]
    return {
        name: [
            Agent(
                ledger=ledger,
                db=db,
                kind=kind,
                subject=subject,
                adapter=open_kind(subject, kind, db, settings.server),
                chance=random.Random(f"{settings.seed} {part} {kind}"),
            )
            for kind, subject in kinds(name).items()
        ]
        for name in names
    }


async def work(
    settings: Settings, part: str, clock: JumpingClock, stop: asyncio.Event
) -> list[str]:
    """Let the agents take turns until *stop*; return what went wrong."""
    wrong: list[str] = []
    ledger, chance = Ledger(Path(settings.directory)), random.Random(f"{settings.seed} {part}")

    async def act(agents: list[Agent]) -> None:
        while not stop.is_set():
            agent = chance.choice(agents)
            try:
                await take_a_turn(agent, settings.tenant)
            except DatabaseUnreachable:
                pass  # it was noted whether the write may have happened
            except Exception:  # noqa: BLE001 - everything else is a finding, and the others go on
                wrong.append(f"{agent.kind}: {traceback.format_exc()}")
                if len(wrong) > 5:
                    return
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    stop.wait(), chance.uniform(0, PAUSE)
                )  # timed: it decides nothing

    async def jump() -> None:
        while True:
            clock.off = timedelta(seconds=chance.uniform(-1, 1) * settings.clock_is_off_by)
            await asyncio.sleep(chance.uniform(0.5, 5))

    async with AsyncExitStack() as stack:
        db = await opened(settings, stack)
        everyone = agents_of(settings, part, ledger, db)
        jumping = asyncio.create_task(jump())
        await asyncio.gather(*map(act, everyone.values()))
        jumping.cancel()
        for agent in everyone.get(REMOTE, []):
            await agent.adapter.close()
    return wrong


async def opened(settings: Settings, stack: AsyncExitStack) -> Database:
    """Open the database, again and again while its server is away."""
    while True:
        with suppress(DatabaseUnreachable):
            return await stack.enter_async_context(settings.open())
        await asyncio.sleep(PAUSE)


async def live(settings: Settings, clock: JumpingClock) -> list[str]:
    """Work until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    return await work(settings, "life", clock, stop)


async def warm_up(settings: Settings, clock: JumpingClock) -> list[str]:
    """Work for a moment, so that what is made once in a process is there."""
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(1, stop.set)
    return await work(settings, "warm-up", clock, stop)


def one_life(settings: Settings) -> None:
    """Live, and write the report."""
    clock = JumpingClock()
    with pytest.MonkeyPatch.context() as patch:
        clocks.set_clock(patch, clock)
        wrong = asyncio.run(warm_up(settings, clock))
        settle()
        before = held()
        wrong += asyncio.run(live(settings, clock))
        settle()
        report = {"wrong": wrong, "before": before, "after": held()}
    Path(settings.report).write_text(json.dumps(report))


def fork(settings: Mapping[str, Any]) -> int:
    """Fork a worker; return its process's id."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # until it can end
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(2, 1)
            one_life(Settings(**settings))
            status = 0
        except BaseException:  # noqa: BLE001 - printed; a child never returns from here
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return pid


def nursery() -> None:
    """Fork workers as told, and tell who has ended, until the standard input ends."""
    wakes, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    tell(ready=True)
    alive: set[int] = set()
    commands = b""
    while True:
        readable, _, _ = select.select([0, wakes], [], [])
        if 0 in readable:
            read = os.read(0, 65536)
            if not read:
                for pid in alive:
                    os.kill(pid, signal.SIGKILL)
                return
            *lines, commands = (commands + read).split(b"\n")
            for line in lines:
                pid = fork(json.loads(line))
                alive.add(pid)
                tell(forked=pid)
        if wakes in readable:
            os.read(wakes, 4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                alive.discard(ended[0])
                tell(ended=ended[0], status=os.waitstatus_to_exitcode(ended[1]))


def tell(**facts: Any) -> None:
    os.write(1, f"{json.dumps(facts)}\n".encode())


def told(settings: Settings) -> str:
    """Return the line that tells a nursery to fork such a worker."""
    return json.dumps(asdict(settings))


if __name__ == "__main__":
    nursery()
