"""The commands that go over the rows of a tenant, and what each test of them needs.

`tests/cli/test_cli_jobs_are_tested_beside_edits.py` compares this list with the commands that
there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import embedders


@dataclass(frozen=True)
class Job:
    """A command that goes over the rows of a tenant.

    Attributes:
        module: the module of `tests/behaviour` that runs it once for every edit of a column.
        table: a table of `edited_rows.EDITED` whose rows it looks at.
        column: the column of which an edit is damage to it.
        arguments: what it is called with, beside the database.
        signed: the edit is told by a signature alone.
        encrypted: it is given the keys of a database that is encrypted.
    """

    module: str
    table: str
    column: str
    arguments: tuple[str, ...] = ()
    signed: bool = False
    encrypted: bool = False


JOBS = {
    "copy": Job("test_copies_beside_damaged_rows.py", "deltas", "checksum"),
    "forget": Job(
        "test_jobs_beside_damaged_rows.py",
        "threads",
        "created_at",
        ("--metadata", "of=a thread", "--yes"),
        signed=True,
    ),
    "prune": Job(
        "test_jobs_beside_damaged_rows.py",
        "checkpoints",
        "created_at",
        ("--all", "--keep-last", "1"),
        signed=True,
    ),
    "rebuild-words": Job(
        "test_jobs_beside_damaged_rows.py",
        "deltas",
        "checksum",
        ("--all-namespaces",),
        encrypted=True,
    ),
    "reembed": Job(
        "test_jobs_beside_damaged_rows.py",
        "store_items",
        "value",
        ("--all-namespaces", "--embedder", embedders.NAME),
    ),
    "rotate-keys": Job(
        "test_rotations_beside_damaged_rows.py", "deltas", "checksum", encrypted=True
    ),
    "sign": Job("test_jobs_beside_damaged_rows.py", "deltas", "payload", signed=True),
    "store sweep": Job("test_jobs_beside_damaged_rows.py", "store_items", "value", signed=True),
    "vacuum": Job("test_jobs_beside_damaged_rows.py", "threads", "created_at", signed=True),
}
