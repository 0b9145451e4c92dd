"""Every command is either tried beside edited rows, or is no job that goes over the rows of all."""

from __future__ import annotations

from pathlib import Path

import typer
from commandline import commands

from jobs import JOBS
from memalchemy.cli.app import app

BEHAVIOUR = Path(__file__).parent.parent / "behaviour"

OTHERS = {
    "of one thread, item or file": {
        "backup", "delete", "diff", "fork", "history", "show", "store get", "store put", "store rm",
        "restore", "tail",
    },
    "reads, and says what it could not read": {
        "anchor", "check", "current", "export", "index show", "inspect", "log ls", "messages",
        "search", "sql", "stats", "store export", "store ls", "store search", "tenants list",
        "tenants status", "threads", "tools", "usage", "verify",
    },
    "of the schema, or of an index": {
        "distribute", "downgrade", "grants", "index build", "index drop", "tenants enforce",
        "tenants release", "upgrade", "views",
    },
    "writes what it is given": {"demo", "generate-key", "import", "serve", "store import"},
}  # fmt: skip


def test_every_command_is_a_job_that_is_tried_or_none() -> None:
    found = set(commands(typer.main.get_command(app)))

    assert found == set(JOBS).union(*OTHERS.values())


def test_each_job_has_a_module_that_tries_it() -> None:
    assert [job.module for job in JOBS.values() if not (BEHAVIOUR / job.module).is_file()] == []
