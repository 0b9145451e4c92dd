"""Who is at work: the workers, the HTTP server, and the keys and places that they are given."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from releases import THIS

from httpserver import ended, started
from memalchemy import Database, DatabaseUnreachable
from memalchemy.anchors import Anchor
from memalchemy.codec.encryption import generate_key
from month import TESTS
from month.agents import PLAIN, SEALED, TENANTS, TOKEN, frameworks
from month.ledger import Ledger
from month.places import Backup, Place
from month.worker import READABLE, Settings, told
from servers import free_port
from waiting import A_WHILE, until

EACH = 2
"""Workers of a tenant."""
LOADING = 10 * A_WHILE
"""Seconds after which the frameworks are taken never to load, and a worker never to be forked."""
HOURS = 3600
CLOCKS = {PLAIN: (0, 5, 6 * HOURS), SEALED: (0, 5)}
"""By how many seconds the clocks of the workers of a tenant are wrong.

For anchors those of who deletes something and creates it again may differ by ten: docs/anchors.md.
"""


@dataclass
class Keys:
    """The keys of the sealed tenant: the first is used, the others are known."""

    encrypting: list[str] = field(default_factory=lambda: [generate_key()])
    signing: list[str] = field(default_factory=lambda: [generate_key()])

    def options(self, tenant: str) -> dict[str, Any]:
        if tenant == PLAIN:
            return {}
        return {"keys": [*self.encrypting], "signing_keys": [*self.signing]}

    def copy(self) -> Keys:
        return Keys([*self.encrypting], [*self.signing])

    def also(self, older: Keys) -> None:
        """Know the keys of a backup as well, until they are rotated away."""
        self.encrypting += [key for key in older.encrypting if key not in self.encrypting]
        self.signing += [key for key in older.signing if key not in self.signing]


@dataclass(frozen=True)
class Kept:
    """A backup, and the keys without which it is nothing."""

    backup: Backup
    keys: Keys


@dataclass
class Worker:
    """A process of a tenant's agents."""

    pid: int
    tenant: str
    report: Path


class Nursery:
    """A process of one release that forks workers."""

    def __init__(self, release: Path) -> None:
        self.release = release
        self.statuses: dict[int, int] = {}
        self._forked: asyncio.Queue[int] = asyncio.Queue()
        self._ready = asyncio.Event()

    async def open(self, errors: Path) -> None:
        paths = os.pathsep.join([str(self.release), str(TESTS)])
        with errors.open("a") as file:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "month.worker",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=file,
                # glibc gives many threads heaps of their own, and keeps what is free in them.
                env=os.environ | {
                    "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"
                },
            )  # fmt: skip
        self._reader = asyncio.create_task(self._read())
        await asyncio.wait_for(self._ready.wait(), LOADING)
        assert not self._reader.done(), f"the nursery ended: see {errors}"

    async def fork(self, settings: Settings) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{told(settings)}\n".encode())
        return await asyncio.wait_for(self._forked.get(), LOADING)

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reader

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            facts = json.loads(line)
            if "forked" in facts:
                self._forked.put_nowait(facts["forked"])
            elif "ended" in facts:
                self.statuses[facts["ended"]] = facts["status"]
            self._ready.set()
        self._ready.set()


class Team:
    """Everybody who works on the database of a month."""

    def __init__(self, place: Place, seed: str) -> None:
        self.place = place
        self.seed = seed
        self.chance = random.Random(seed)
        self.directory = place.directory
        self.ledger = Ledger(self.directory / "ledger")
        self.frameworks = frameworks(self.chance)
        self.keys = Keys()
        self.workers: list[Worker] = []
        self.reports: list[Path] = []
        self.complaints: list[str] = []
        self.counts: Counter[str] = Counter()
        self.releases = [THIS]
        self.anchor: Anchor | None = None
        self.anchor_file = self.directory / "agent.anchor"
        self.backup: Kept | None = None
        self.moved: str | None = None
        """The name of the database to which everything is copied."""
        self.subscriber: Any = None
        self.changing = asyncio.Lock()
        """Who starts and ends the workers."""
        self.errors = self.directory / "stderr"
        self._nurseries: dict[Path, Nursery] = {}
        self._port = free_port()
        self._server: Any = None

    def note(self, what: str, since: float) -> None:
        """Write into the diary of the month, which is looked at when something went wrong."""
        self.counts[what] += 1
        line = f"{time.strftime('%X')} {what}, {time.monotonic() - since:.1f} s\n"
        with (self.directory / "diary").open("a") as diary:
            diary.write(line)

    @property
    def server(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def moved_url(self) -> str:
        assert self.moved is not None
        return self.place.at(self.moved)

    def databases(self, url: str | None = None) -> Iterator[Database]:
        """Give a database for each tenant, as an operator opens it."""
        for tenant in TENANTS:
            yield self.database(tenant, url)

    def database(self, tenant: str, url: str | None = None) -> Database:
        options = self.keys.options(tenant)
        return Database(url or self.place.url, tenant=tenant, readable=READABLE, **options)

    # --- Workers ----------------------------------------------------------------------------------

    async def start_all(self) -> None:
        await self.start_server()
        for tenant in TENANTS:
            for _ in range(EACH):
                await self.start(tenant)

    async def start(self, tenant: str) -> None:
        """Start a worker with the keys of now, of the newest release or of the one before."""
        number = self.counts["workers"]
        self.counts["workers"] += 1
        options = self.keys.options(tenant)
        if self.place.replica and self.chance.random() < 0.5:
            options |= {"read_url": self.place.replica}
        if tenant == SEALED and self.anchor is not None:
            options |= {"anchor": str(self.anchor_file)}
        settings = Settings(
            url=self.place.url,
            tenant=tenant,
            directory=str(self.directory / "ledger"),
            report=str(self.directory / f"report-{number}.json"),
            seed=f"{self.seed} {number}",
            frameworks=self.frameworks[tenant],
            server=self.server,
            options=options,
            clock_is_off_by=self.chance.choice(CLOCKS[tenant]),
        )
        nursery = await self._nursery(self.chance.choice(self.releases))
        pid = await nursery.fork(settings)
        self.workers.append(Worker(pid, tenant, Path(settings.report)))

    async def stop(self, worker: Worker) -> None:
        """Let a worker end by itself."""
        self.reports.append(worker.report)
        with suppress(ProcessLookupError):  # its report will be missed
            os.kill(worker.pid, signal.SIGTERM)
        await self._gone(worker)

    async def kill(self, worker: Worker) -> None:
        """End a worker in whatever it does."""
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)
        await self._gone(worker)

    async def restart(self, worker: Worker) -> None:
        await self.stop(worker)
        await self.start(worker.tenant)

    async def restart_all(self) -> None:
        """Start everybody anew: what they are given has changed."""
        async with self.changing:
            await self.stop_server()
            await self.start_server()
            await asyncio.gather(*map(self.restart, self.workers))

    @asynccontextmanager
    async def pause(self) -> AsyncIterator[None]:
        """Let nobody work meanwhile."""
        async with self.changing:
            await self.stop_all()
            yield
            await self.start_all()

    async def stop_all(self) -> None:
        await self.stop_server()
        await asyncio.gather(*map(self.stop, self.workers))

    async def close(self) -> None:
        """End everybody, whatever has happened."""
        if self._server is not None:
            self.kill_server()
        for nursery in self._nurseries.values():
            await nursery.close()

    async def _nursery(self, release: Path) -> Nursery:
        if release not in self._nurseries:
            self._nurseries[release] = Nursery(release)
            await self._nurseries[release].open(self.errors)
        return self._nurseries[release]

    async def _gone(self, worker: Worker) -> None:
        self.workers.remove(worker)
        await until(
            lambda: any(worker.pid in one.statuses for one in self._nurseries.values()),
            f"worker {worker.pid} does not end",
        )

    # --- The HTTP server --------------------------------------------------------------------------

    async def start_server(self) -> None:
        """Serve the plain tenant, with its inspector; again where its connection is cut."""
        environment = {
            "MEMALCHEMY_TOKENS": f"{TOKEN}={PLAIN}",
            "PYTHONPATH": str(self.releases[-1]),
        }
        serve = partial(
            started,
            *("--db", self.place.url),
            port=self._port,
            options=("--inspector", "--quiet"),
            **environment,
        )
        while self._server is None:
            try:
                self._server, _ = await asyncio.to_thread(serve)
            except AssertionError as ended_at_once:
                if DatabaseUnreachable.code not in str(ended_at_once):
                    raise

    async def stop_server(self) -> None:
        code, said = await asyncio.to_thread(ended, self._server, signal.SIGTERM)
        self._server = None
        if code or "Traceback" in said:
            self.complaints.append(f"the HTTP server ended with {code}: {said[-4000:]}")

    def kill_server(self) -> None:
        self._server.kill()
        self._server.communicate()
        self._server = None
