"""Where the month is kept: a SQLite file, or servers of PostgreSQL with what operators put by them.

Both do the same: give the URL, take a backup, open one, put one back, move to a new place, and
show the bytes of their files and who is connected.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from proxy import Proxy, proxy
from releases import upgraded

from memalchemy import Database
from memalchemy.maintenance.restore import restore
from memalchemy.migrate import TABLES
from month.ledger import Moments, now
from servers import (
    Postgres,
    Standby,
    postgres_of_the_wheel,
    restart,
    run_server_program,
    server_program,
    standby,
)
from waiting import until


@dataclass(frozen=True)
class Backup:
    """A file, and between which moments it was taken."""

    file: Path
    taken: Moments


class Place(Protocol):
    """A database, and what its operator can do with it."""

    url: str
    """What the workers and the HTTP server are given."""
    replica: str | None
    directory: Path

    async def back_up(self) -> Backup:
        """Take a backup while everybody writes."""

    def opened(self, backup: Backup) -> AsyncIterator[str]:
        """Give the URL of a database that is made of a backup, beside the one in use."""

    async def put_back(self, backup: Backup) -> None:
        """Put a backup in the place of the database. Nobody is at work."""

    async def fresh(self) -> str:
        """Make an empty database beside this one, and return its name."""

    def at(self, name: str) -> str:
        """Return the URL of a database that was made so."""

    def contents(self, url: str) -> list[bytes]:
        """Read the files of a database."""

    def connections(self) -> list[str]:
        """Say who is connected."""


class SqlitePlace:
    """A file."""

    replica = None

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "agent.db"
        self.url = f"sqlite:///{self.file}"
        self._made = 0

    async def back_up(self) -> Backup:
        file, begin = self._new("backup"), now()
        async with Database(self.url) as db:
            await db.backup(file)
        return Backup(file, Moments(begin, now()))

    @asynccontextmanager
    async def opened(self, backup: Backup) -> AsyncIterator[str]:
        copy = self._new("drill")
        shutil.copyfile(backup.file, copy)
        yield f"sqlite:///{copy}"
        copy.unlink()

    async def put_back(self, backup: Backup) -> None:
        replaced = (await restore(self.file, backup.file)).replaced
        assert replaced is not None
        for file in replaced.parent.glob(f"{replaced.name}*"):
            file.unlink()

    async def fresh(self) -> str:
        return str(self._new("moved"))

    def at(self, name: str) -> str:
        return f"sqlite:///{name}"

    def contents(self, url: str) -> list[bytes]:
        path = Path(url.removeprefix("sqlite:///"))
        return [file.read_bytes() for file in path.parent.glob(f"{path.name}*")]

    def connections(self) -> list[str]:
        return [file.name for file in self.directory.glob("agent.db-wal") if file.stat().st_size]

    def _new(self, what: str) -> Path:
        self._made += 1
        return self.directory / f"{what}-{self._made}.db"


@dataclass
class PostgresPlace:
    """A database on a primary that a standby follows, behind a network that can be cut."""

    directory: Path
    server: Postgres
    standby: Standby
    network: Proxy
    name: str
    _stack: ExitStack
    follows: bool = True
    """The standby has not been promoted."""
    _made: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.network.url(self.name, driver="")

    @property
    def replica(self) -> str | None:
        return self.standby.url(self.name) if self.follows else None

    async def back_up(self) -> Backup:
        self._made.append(f"backup-{len(self._made)}.dump")
        file, begin = self.directory / self._made[-1], now()
        await self._run("pg_dump", "--format=custom", f"--file={file}", "--dbname", self.name)
        return Backup(file, Moments(begin, now()))

    @asynccontextmanager
    async def opened(self, backup: Backup) -> AsyncIterator[str]:
        name = await self._restored(backup)
        yield self.server.url(name)
        await asyncio.to_thread(self.server.drop_database, name)

    async def put_back(self, backup: Backup) -> None:
        old, self.name = self.name, await self._restored(backup)
        await asyncio.to_thread(self.server.drop_database, old)

    async def fresh(self) -> str:
        return await asyncio.to_thread(self.server.create_database)

    def at(self, name: str) -> str:
        return self.server.url(name)

    def contents(self, url: str) -> list[bytes]:
        name = url.split("?")[0].rsplit("/", 1)[1]
        self.server.execute("CHECKPOINT", name)
        ((data,),) = self.server.execute("SHOW data_directory")
        tables = ", ".join(f"'{table}'::regclass" for table in TABLES)
        files = self.server.execute(
            "SELECT pg_relation_filepath(c.oid) FROM pg_class c"
            f" WHERE c.oid IN ({tables})"
            f" OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN ({tables}))"
            f" OR c.oid IN (SELECT reltoastrelid FROM pg_class WHERE oid IN ({tables}))",
            name,
        )
        return [Path(data, file).read_bytes() for (file,) in files]

    def connections(self) -> list[str]:
        found = self.server.execute(
            "SELECT application_name || ' ' || state || ' ' || left(query, 80)"
            f" FROM pg_stat_activity WHERE datname = '{self.name}'"
            " AND backend_type = 'client backend'"
        )
        return [line for (line,) in found]

    # --- What only servers have -------------------------------------------------------------------

    async def lose_the_primary(self) -> None:
        """End the primary as a power cut does, and promote the standby: clients find it by name."""
        self.network.refuse()
        self.network.cut_all()
        ((data,),) = self.server.execute("SHOW data_directory")
        stop = ("pg_ctl", "-w", "-D", data, "-m", "immediate", "stop")
        await asyncio.to_thread(run_server_program, *stop)
        await asyncio.to_thread(self.standby.promote)
        self.server, self.network.server, self.follows = self.standby, self.standby, False
        await self.network.listen()

    async def follow_by_subscription(self, release: Path) -> Postgres:
        """Begin to fill a new server by logical replication, as docs/growing.md says."""
        subscriber = self._stack.enter_context(postgres_of_the_wheel())
        subscriber.execute(f"CREATE DATABASE {self.name}")
        await asyncio.to_thread(upgraded, release, subscriber.url(self.name))
        for statement in (
            "DELETE FROM memalchemy_version",
            "DELETE FROM store_items WHERE tenant = '~'",
        ):
            subscriber.execute(statement, self.name)
        self.server.execute("CREATE PUBLICATION month FOR ALL TABLES", self.name)
        server = self.server
        connect = f"host={server.host} port={server.port} user={server.user} dbname={self.name}"
        subscribe = f"CREATE SUBSCRIPTION month CONNECTION '{connect}' PUBLICATION month"
        await asyncio.to_thread(subscriber.execute, subscribe, self.name)
        return subscriber

    async def move_to(self, subscriber: Postgres) -> None:
        """Let the subscriber take over. Nobody is at work."""
        waiting = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'"
        await until(lambda: subscriber.execute(waiting, self.name) == [(0,)], "tables are missing")
        ((written,),) = self.server.execute("SELECT pg_current_wal_flush_lsn()")
        behind = (
            f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'month'"
            f" AND confirmed_flush_lsn < '{written}'"
        )
        await until(lambda: self.server.execute(behind) == [(0,)], "the subscriber does not follow")
        async with Database(subscriber.url(self.name), migrate="off") as db:
            await db.check()
        await asyncio.to_thread(subscriber.execute, "DROP SUBSCRIPTION month", self.name)
        self.server = self.network.server = subscriber

    async def _restored(self, backup: Backup) -> str:
        name = await asyncio.to_thread(self.server.create_database)
        await self._run("pg_restore", "--exit-on-error", "--dbname", name, str(backup.file))
        return name

    async def _run(self, program: str, *arguments: str) -> None:
        where = ("-h", self.server.host, "-p", str(self.server.port), "-U", self.server.user)
        command = [str(server_program(program)), *where, *arguments]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@asynccontextmanager
async def sqlite_place(directory: Path) -> AsyncIterator[SqlitePlace]:
    place = SqlitePlace(directory)
    async with Database(place.url, migrate="upgrade"):
        pass
    yield place


@asynccontextmanager
async def postgres_place(directory: Path) -> AsyncIterator[PostgresPlace]:
    """A primary of its own: a month kills it. Its standby has replayed what was acknowledged."""
    with ExitStack() as stack:
        primary = stack.enter_context(postgres_of_the_wheel())
        primary.execute("ALTER SYSTEM SET wal_level = 'logical'")
        primary.execute("ALTER SYSTEM SET max_connections = 300")
        restart(primary)
        follower = stack.enter_context(standby(primary))
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
        primary.execute("SELECT pg_reload_conf()")
        name = primary.create_database()
        async with Database(primary.url(name), migrate="upgrade"):
            pass
        async with proxy(primary) as network:
            yield PostgresPlace(directory, primary, follower, network, name, stack)
