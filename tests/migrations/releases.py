"""Releases to upgrade between: this checkout's package, and the next, which has a revision more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from programs import CHECKOUT

from memalchemy import migrate

THIS = CHECKOUT / "src"
NEXT = f"{int(migrate.head()) + 1:04}"

# What most revisions are: columns, an index, a table.
ADDITIVE = '''"""A column in every table of the log, an index, and a table."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"
oldest_release = "{oldest_release}"


def upgrade():
    op.add_column("threads", sa.Column("colour", sa.String(20)))
    op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True))
    op.add_column("deltas", sa.Column("note", sa.String(20)))
    op.add_column("checkpoints", sa.Column("stars", sa.Integer, nullable=False, server_default="0"))
    op.create_index("ix_checkpoints_stars", "checkpoints", ["tenant", "stars"])


def downgrade():
    op.drop_table("notes")
'''


def next_release(place: Path, *, version: str, oldest_release: str) -> Path:
    """This checkout's package with a revision more, as a wheel lays it out."""
    package = place / "memalchemy"
    rest = shutil.ignore_patterns("__pycache__")
    shutil.copytree(THIS / "memalchemy", package, ignore=rest)
    shutil.copytree(CHECKOUT / "migrations", package / "migrations", ignore=rest)
    (package / "_version.py").write_text(f'__version__ = "{version}"\n')
    (package / "migrations" / "versions" / f"{NEXT}_additive.py").write_text(
        ADDITIVE.format(revision=NEXT, before=migrate.head(), oldest_release=oldest_release)
    )
    return place


def memalchemy(release: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The release's own command."""
    return subprocess.run(
        [sys.executable, "-m", "memalchemy", *arguments],
        env=os.environ | {"PYTHONPATH": str(release)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def upgraded(release: Path, url: str) -> list[str]:
    """Upgrade as a deploy job of the release does; the revisions that ran."""
    done = memalchemy(release, "--db", url, "upgrade", "--json")
    assert done.returncode == 0, done.stderr
    ran: list[str] = json.loads(done.stdout)["ran"]
    return ran
