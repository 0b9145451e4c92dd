"""Encrypted rows move between databases as they are, and a backup holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from memalchemy import Checkpointer, Database, KeyMissing, Store
from memalchemy.codec.encryption import generate_key
from memalchemy.transfer import copy

KEY = generate_key()
STATE = {"messages": ["a private matter"] * 3}
SPACE = ("users",)


def keyed(url: str, **settings: object) -> Database:
    return Database(url, tenant="acme", keys=[KEY], **settings)  # type: ignore[arg-type]


async def test_a_copy_needs_no_key_and_loads_with_the_same(
    source: Database, target: Database, urls: list[str]
) -> None:
    async with keyed(urls[0]) as ours:
        for step in range(5):
            await Checkpointer(ours).save(STATE | {"step": step}, "t")
        await Store(ours).put(SPACE, "k", "her value")

    report = await copy(source, target)

    assert (report.new, report.rows) == (2, 1 + 5 + 5 + 1)
    async with keyed(urls[1]) as theirs:
        assert await Checkpointer(theirs).load("t") == STATE | {"step": 4}
        assert await Store(theirs).get(SPACE, "k") == "her value"
        await Checkpointer(theirs).save(STATE, "t")
    with pytest.raises(KeyMissing):
        await Checkpointer(target).load("t")


async def test_a_backup_is_as_encrypted_as_its_database(tmp_path: Path) -> None:
    async with keyed(f"sqlite:///{tmp_path}/agent.db") as db:
        await Checkpointer(db).save(STATE, "t")
        await db.backup(tmp_path / "backup.db")

    assert b"private" not in (tmp_path / "backup.db").read_bytes()
    async with keyed(f"sqlite:///{tmp_path}/backup.db") as copied:
        assert await Checkpointer(copied).load("t") == STATE
