"""Databases: `Database`, and how programs reach SQLite, PostgreSQL and Oracle.

`Database` (database.py) checks what a program's `Intent` says and hands it to the `Backend`, which
all tenants share; an executor (executors/) runs it on a connection.
"""

from memalchemy.database.database import Database, check_database, run_check
from memalchemy.database.executors.batching import BatchedRow
from memalchemy.database.executors.host import HostConnection, ThreadBound
from memalchemy.database.intent import (
    EXAMINE_INDEX,
    MAINTENANCE,
    READ,
    READ_IN_TRANSACTION,
    READ_REPLICA,
    WRITE,
    WRITE_COPIED,
    WRITE_ROWS,
    WRITE_ROWS_STATEMENT,
    WRITE_SAVE,
    WRITE_SIGNED_SAVE,
    WRITE_STATEMENT,
    WRITE_STORED,
    Intent,
)
from memalchemy.database.program_runner import OFF_LOOP_BYTES, Decode, off_loop

__all__ = [
    "EXAMINE_INDEX",
    "MAINTENANCE",
    "OFF_LOOP_BYTES",
    "READ",
    "READ_IN_TRANSACTION",
    "READ_REPLICA",
    "WRITE",
    "WRITE_COPIED",
    "WRITE_ROWS",
    "WRITE_ROWS_STATEMENT",
    "WRITE_SAVE",
    "WRITE_SIGNED_SAVE",
    "WRITE_STATEMENT",
    "WRITE_STORED",
    "BatchedRow",
    "Database",
    "Decode",
    "HostConnection",
    "Intent",
    "ThreadBound",
    "check_database",
    "off_loop",
    "run_check",
]
