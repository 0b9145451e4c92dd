"""Floors: statements by the driver alone, and when they stand in a target's place."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from benchmarks.by_hand import by_hand, connect
from benchmarks.measure import Finding, Target, at_least, at_most, with_floor

from memalchemy import Checkpointer, Database


async def test_a_statement_by_hand_fetches_what_ours_has_written(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/a.db") as db:
        await Checkpointer(db).save({"step": 1}, "thread")
        async with by_hand(tmp_path / "a.db") as fetch:
            rows = await fetch("SELECT head_id FROM threads WHERE thread_id = ?", "thread")

        assert [head for (head,) in rows] == await Checkpointer(db).list_checkpoints("thread")


def test_a_connection_by_hand_is_as_durable_as_ours(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "a.db")) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    ("target", "value", "took", "floor"),
    [
        (at_most(1.0), 3.0, 2.0, "floor 2.000x by hand"),
        (at_least(2.0), 1.0, 1.5, "floor 1.500x by hand"),
        (at_most(1.0), 3.0, 1.05, ""),  # would be met, with the tolerance
        (at_least(2.0), 1.0, 3.0, ""),
        (at_most(1.0), 1.0, 2.0, ""),  # is met
        (None, 3.0, 2.0, ""),
    ],
    ids=["above", "below", "in reach", "far in reach", "met", "no target"],
)
def test_what_is_missed_by_hand_too_has_a_floor(
    target: Target | None, value: float, took: float, floor: str
) -> None:
    found = with_floor(Finding("save", "a", value, "x", target, "1 ms", "2 ms"), took)

    assert found.floor == floor
    assert found.value == value
    assert found.is_met == (target is None or target.met_by(value))
