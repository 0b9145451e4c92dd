"""What must hold of a log whatever was done to it; each function looks with fresh eyes."""

from __future__ import annotations

import sqlite3
from itertools import pairwise

from sqlalchemy import text

from memalchemy import Checkpointer, CheckpointInfo, Database
from rows import differences_of
from workers.states import state_of


async def history(keep: Checkpointer, thread: str) -> list[CheckpointInfo]:
    """Every checkpoint of a thread, oldest first."""
    return [info async for info in keep.history(thread)][::-1]


def is_one_line(infos: list[CheckpointInfo]) -> None:
    """Positions follow each other without a gap, and each parent is the checkpoint before."""
    assert [info.seq for info in infos] == list(range(1, len(infos) + 1))
    assert all(info.parent_id == before.checkpoint_id for before, info in pairwise(infos))
    assert not infos or infos[0].parent_id is None


async def all_load(keep: Checkpointer, thread: str, infos: list[CheckpointInfo]) -> None:
    """Every checkpoint loads as what was saved under its id."""
    for info in infos:
        assert await keep.load(thread, info.checkpoint_id) == state_of(info.checkpoint_id)


async def nothing_is_left_over(db: Database) -> None:
    """Every stored state has a name or is what another is based on."""
    dead = text(
        "SELECT count(*) FROM deltas d WHERE d.tenant = :tenant"
        " AND NOT EXISTS (SELECT 1 FROM checkpoints c"
        "  WHERE c.log_id = d.log_id AND c.seq = d.seq)"
        " AND NOT EXISTS (SELECT 1 FROM deltas x"
        "  WHERE x.log_id = d.log_id AND x.base_seq = d.seq)"
    )
    assert await db.run_sync(lambda c: c.scalar(dead, {"tenant": db.tenant})) == 0


def file_is_sound(url: str) -> None:
    """SQLite's own checks, of the file and of both text indexes."""
    file = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    try:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []
        for index in ("deltas_search", "checkpoints_meta"):
            file.execute(f"INSERT INTO {index}({index}) VALUES ('integrity-check')")
        assert differences_of(file.execute) == []
    finally:
        file.close()
