"""The check that items are embedded beside edited rows, which are left and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edited_rows import VALUES, files_in, is_whole
from sqlalchemy import Connection

from embedders import embed
from memalchemy import Database, Store
from memalchemy.codec.secret_keys import generate_key
from memalchemy.contracts import ReembedReport
from servers import Postgres

COVERED = {"version", "signature"}
"""Some of the columns of which a row says by its signature that they were edited."""


async def check_embeddings(
    directory: Path,
    table: str,
    *,
    signed: bool,
    encrypted: bool = False,
    server: Postgres | None = None,
    values: tuple[str, ...] = VALUES,
) -> int:
    """Embed items beside each edit of a table; return the number of edits."""
    keys: dict[str, Any] = {"signing_keys": [generate_key()]} if signed else {}
    if encrypted:
        keys |= {"keys": [generate_key()], "readable": ("vectors",)}
    files, tried, told = files_in(directory, keys, server), 0, 0
    await files.make()
    files.restore()
    async with files.opened() as db:
        assert (await reembed(db)).embedded == 6
        wanted = await db.run_sync(vectors_of_others)
        assert len(wanted) == 4
    async for edit in files.each(table, values):
        tried += 1
        async with files.opened() as db:
            report = await reembed(db)
            assert await db.run_sync(vectors_of_others) == wanted, f"{edit}: {report}"
            for name in "ac":
                assert await is_whole(db, name), edit
        assert report.left == len(report.left_out), f"{edit}: {report}"
        assert all("'b'" in what for what in report.left_out), f"{edit}: {report}"
        if edit.column != "codec":  # which may say that the value is not encrypted
            assert report.damaged == report.left, f"{edit}: {report}"
        told += report.left > 0
        if edit.column in ("value", "codec") or (signed and edit.column in COVERED):
            assert report.left, f"{edit}: {report}"
    # The values of a server's columns are of their types: nothing tells them without a signature.
    assert told > tried // 10 or (server is not None and table == "embeddings" and not signed)
    return tried


async def reembed(db: Database) -> ReembedReport:
    """Embed all items with another model."""
    store = Store(db, embedder=embed, model="new")
    return await store.reembed((), prefix=True, replace_model="default")


def vectors_of_others(connection: Connection) -> set[tuple[Any, ...]]:
    """Return the vectors of items that are not edited, with what names them."""
    found = connection.exec_driver_sql(
        "SELECT namespace, key, field, model, part, vector FROM embeddings WHERE key IN ('a', 'c')"
    )
    return {tuple(row) for row in found}
