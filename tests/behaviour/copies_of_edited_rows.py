"""The check that a copy goes on beside an edited row, for as many edits as a test asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edited_rows import VALUES, Edit, Files, files_in, is_whole

from memalchemy import Database
from memalchemy.codec.secret_keys import generate_key
from memalchemy.errors import CopyIncomplete
from memalchemy.transfer import copy
from memalchemy.verify import verify
from servers import Postgres


async def check_copies(
    directory: Path,
    table: str,
    *,
    signed: bool,
    values: tuple[str, ...] = VALUES,
    server: Postgres | None = None,
) -> int:
    """Copy a database once for each edit of a table; return the number of edits.

    What was not edited is copied, the target verifies, and what was left out is named. A copy of
    the database once it is whole again completes the target.
    """
    keys: dict[str, Any] = {"signing_keys": [generate_key()]} if signed else {}
    files, tried = files_in(directory, keys, server), 0
    await files.make()
    async for edit in files.each(table, values):
        tried += 1
        target = f"sqlite:///{files.new('target.db')}"
        left = await _copied(files, target, edit)
        assert all(" b" in one or "'b'" in one or _names_itself(edit, one) for one in left), edit
        if left or signed:
            files.restore()
            assert await _copied(files, target, None) == (), edit
    return tried


async def _copied(files: Files, target: str, edit: Edit | None) -> tuple[str, ...]:
    """Copy a database, of which a row has an edit; return what was left out."""
    left: tuple[str, ...] = ()
    async with (
        Database(files.url, migrate="off", **files.keys) as source,
        Database(target, migrate="upgrade", **files.keys) as copied,
    ):
        try:
            await copy(source, copied)
        except CopyIncomplete as error:
            left = error.report.left_out
        for name in "abc" if edit is None else "ac":
            assert await is_whole(copied, name), f"{edit}: {name}"
        # Words of the database's own making, which no row can be held to.
        indexes = {"text-index"} if edit is not None and edit.column == "search_text" else set()
        found = [one for one in (await verify(copied)).findings if one.severity == "error"]
        assert [one for one in found if one.code not in indexes] == [], edit
    return left


def _names_itself(edit: Edit, named: str) -> bool:
    """Return whether a row is named by an edited column, or by the key of its log."""
    return edit.column in ("thread_id", "namespace", "log_id", "tenant", "key") or "(log " in named
