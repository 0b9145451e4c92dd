"""The check that a rotation goes on beside an edited row, for as many edits as a test asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edited_rows import VALUES, Files, files_in, is_whole
from sqlalchemy import Connection

from memalchemy import Database
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.secret_keys import generate_key
from memalchemy.errors import MemalchemyError
from memalchemy.rotation import RotationReport, rotate_keys
from servers import Postgres

WORDS = ("search_text", "field_terms")
"""Columns of readable words, which the settings of these databases do not allow."""


async def check_rotations(
    directory: Path,
    table: str,
    *,
    signed: bool,
    values: tuple[str, ...] = VALUES,
    server: Postgres | None = None,
) -> int:
    """Rotate the keys of a database once for each edit of a table; return the number of edits.

    What was not edited is under the new key alone. The old key is not given up while a row cannot
    be read without it.
    """
    old, new = generate_key(), generate_key()
    keys: dict[str, Any] = {"readable": ("vectors",)}
    if signed:
        keys["signing_keys"] = [generate_key()]
    files, tried = files_in(directory, keys | {"keys": [old]}, server), 0
    await files.make()
    async for edit in files.each(table, values):
        tried += 1
        report = await _rotated(files.url, keys | {"keys": [new, old]})
        if edit.column in WORDS:
            await _check_words(files, keys | {"keys": [new, old]}, report, signed=signed)
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


async def _check_words(
    files: Files, keys: dict[str, Any], report: RotationReport, *, signed: bool
) -> None:
    """Check that words are gone or, of a signed row, that it is left and named."""

    def read(connection: Connection) -> list[Any]:
        words = "SELECT * FROM {} WHERE search_text IS NOT NULL"
        found = connection.exec_driver_sql(words.format("deltas")).all()
        terms = " OR (field_terms IS NOT NULL AND field_terms != 'fothers')"
        return [*found, *connection.exec_driver_sql(words.format("store_items") + terms)]

    async with Database(files.url, migrate="off", **keys) as db:
        worded = await db.run_sync(read)
    assert len(report.left_out) == report.damaged == report.left >= len(worded), report
    assert signed or not report.left, report


async def _opens(db: Database, name: str) -> bool:
    try:
        return await is_whole(db, name)
    except MemalchemyError:
        return False
