"""Processor time that all processes of a PostgreSQL server here have used together."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg

TICKS = os.sysconf("SC_CLK_TCK")


def postmaster_of(url: str) -> int:
    """Return the process that all others of a server are children of; for a server on Linux."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert found is not None
        return int(_fields(found[0])[1])


def seconds_of(postmaster: int) -> float:
    """Return the processor seconds of a server: of its processes, and of those that have ended."""
    ticks = sum(map(int, _fields(postmaster)[11:15]))  # its own, and of children that it waited for
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = _fields(int(entry.name))
            except OSError:  # it has ended meanwhile
                continue
            if int(fields[1]) == postmaster:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS


def _fields(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` behind the name, which may have blanks in it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
