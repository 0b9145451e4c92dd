"""The check that a rotation goes on beside an edited row, for as many edits as a test asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edited_rows import VALUES, Files, is_whole

from memalchemy import Database
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.keys import generate_key
from memalchemy.errors import Conflict, MemalchemyError
from memalchemy.rotation import RotationReport, rotate_keys

WORDS = ("search_text", "field_terms")
"""Columns whose readable words nobody but a signature can tell from those that were put there."""


async def check_rotations(
    directory: Path, table: str, *, signed: bool, values: tuple[str, ...] = VALUES
) -> int:
    """Rotate the keys of a database once for each edit of a table; return the number of edits.

    What was not edited is under the new key alone. The old key is not given up while a row cannot
    be read without it.
    """
    old, new = generate_key(), generate_key()
    keys: dict[str, Any] = {"readable": ("vectors",)}
    if signed:
        keys["signing_keys"] = [generate_key()]
    files, tried = Files(directory, keys | {"keys": [old]}), 0
    await files.make()
    async for edit in files.each(table, values):
        tried += 1
        try:
            report = await _rotated(files.url, keys | {"keys": [new, old]})
        except Conflict:
            assert edit.column in WORDS, edit
            continue
        async with Database(files.url, migrate="off", keys=[new], **keys) as db:
            for name in "ac":
                assert await is_whole(db, name), f"{edit}: {name}"
            needs_old = not await _opens(db, "b")
        async with Database(files.url, migrate="off", keys=[new, old], **keys) as db:
            needs_old = needs_old and await _opens(db, "b")
        if needs_old or report.damaged:
            assert report.left_out, f"{edit}: {report}"
            assert report.needed_keys == tuple(Keyring([old]).ids), f"{edit}: {report}"
    return tried


async def _rotated(url: str, keys: dict[str, Any]) -> RotationReport:
    async with Database(url, migrate="off", **keys) as db:
        return await rotate_keys(db)


async def _opens(db: Database, name: str) -> bool:
    try:
        return await is_whole(db, name)
    except MemalchemyError:
        return False
