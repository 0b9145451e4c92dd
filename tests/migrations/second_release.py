"""A chain of two revisions, as a second release of memalchemy will have it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memalchemy.migrate import chain

SECOND = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None
oldest_release = "0.1.0"


def upgrade() -> None:
    schema = op.get_context().opts["memalchemy_schema"]
    op.add_column("threads", sa.Column("mood", sa.String(20)), schema=schema)


def downgrade() -> None:
    schema = op.get_context().opts["memalchemy_schema"]
    op.drop_column("threads", "mood", schema=schema)
"""

CACHED = (chain.scripts, chain.revisions, chain._sqlite_statements)


@contextmanager
def second_release(place: Path, revision: str = SECOND) -> Iterator[None]:
    """Let the installed release have revision 0002, whose files are in *place*."""
    shutil.copytree(chain.script_location(), place)
    (place / "versions" / "0002_mood.py").write_text(revision)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "script_location", lambda: place)
        _forget()
        try:
            yield
        finally:
            patch.undo()
            _forget()


def _forget() -> None:
    for cached in CACHED:
        cached.cache_clear()
