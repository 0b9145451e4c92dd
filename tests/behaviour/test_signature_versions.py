"""Signatures of version 1, which left fractions of seconds out, are valid, told, and renewed."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from sqlalchemy import select, text, update
from typer.testing import CliRunner

from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.cli.app import app
from memalchemy.codec import signatures
from memalchemy.codec.secret_keys import generate_key
from memalchemy.maintenance import sign as signing
from memalchemy.rows import CHECKPOINT, DELTA, HEAD, ITEM
from memalchemy.schema import Base
from memalchemy.signing import outdated_tenants, sign
from memalchemy.transfer import copy
from memalchemy.verify import verify

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

FILE = Path(__file__).parents[1] / "data" / "signed_version_1.db.gz"
"""A file that the first release that signs has written, with ormsgpack 1.13.1."""
KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
LIMIT = timedelta(microseconds=536_871)
"""The first fraction of a second that version 1 left out."""
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
SIGNED = {
    "threads": HEAD.signed,
    "checkpoints": CHECKPOINT.signed,
    "deltas": DELTA.signed,
    "store_items": ITEM.signed,
}
TIMES = [
    (table, column)
    for table, columns in SIGNED.items()
    for column in columns
    if column.endswith("_at")
]
"""The columns of times that are signed."""


@pytest.fixture(autouse=True)
def nobody_else_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "NOTICED_AFTER", 0)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "signed.db"
    path.write_bytes(gzip.decompress(FILE.read_bytes()))
    return f"sqlite:///{path}"


@pytest.fixture(params=["first", "second"])
async def signed(
    request: pytest.FixtureRequest, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Database]:
    """A database that was signed with either version, and was renewed if with the first."""
    if request.param == "first":
        monkeypatch.setattr(signatures, "_VERSION", b"\x01")
    async with Database(database_url, migrate="off", signing_keys=[KEY]) as db:
        await db.migrate()
        await fill(db)
        if request.param == "first":
            assert {one[:1] for one in await signatures_of(db)} == {b"\x01"}
    monkeypatch.setattr(signatures, "_VERSION", b"\x02")
    async with Database(database_url, migrate="off", signing_keys=[KEY]) as db:
        report = await sign(db)
        assert report.refused_count == 0
        assert (report.signed > 0) == (request.param == "first")
        yield db


async def fill(db: Database) -> None:
    at = [NOON + LIMIT, NOON + LIMIT - timedelta(microseconds=1), NOON]
    checkpointer, store = Checkpointer(db), Store(db)
    for number, time in enumerate(at):
        await checkpointer.save({"n": number}, "t", f"c{number}", occurred_at=time)
        await store.put(("users",), f"k{number}", {"n": number}, updated_at=time, ttl=10_000)
    await checkpointer.put_writes([("channel", "v")], "t", "c2", "task")
    await ThreadLog(db).append("log", ["one", "two", "three"], occurred_at=at, ttl=10_000)
    await checkpointer.save({"n": 0}, "deleted")
    await checkpointer.delete("deleted")


async def signatures_of(db: Database) -> list[bytes]:
    """Return all signatures of rows of the user's."""
    found: list[bytes] = []

    def read(connection: Any) -> None:
        for name in (*SIGNED, "embeddings"):
            table = Base.metadata.tables[name]
            found.extend(
                bytes(one)
                for one in connection.scalars(select(table.c.signature))
                if one is not None
            )

    await db.run_sync(read)
    return found


async def read_all(db: Database) -> list[Any]:
    checkpointer, log, store = Checkpointer(db), ThreadLog(db), Store(db)
    read: list[Any] = [await checkpointer.load("t", f"c{number}") for number in range(5)]
    read += [info.occurred_at async for info in checkpointer.history("t")]
    read += await checkpointer.get_writes("t", "c4")
    read += [entry.occurred_at for entry in await log.tail("t-log", 10)]
    read += [(await store.get_item(("users",), f"k{number}")).value for number in range(5)]
    return read


async def test_what_the_first_release_has_signed_is_read_told_and_renewed(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(*_: Any, **options: Any) -> bytes:
        assert not options.get("option", 0) & ormsgpack.OPT_DATETIME_AS_TIMESTAMP_EXT
        return packed(*_, **options)

    packed = ormsgpack.packb
    monkeypatch.setattr(ormsgpack, "packb", later)
    async with Database(file, signing_keys=[KEY]) as db:
        before = await read_all(db)
        assert len({at for at in before if isinstance(at, datetime)}) == 5
        assert not (await verify(db)).findings
        assert await outdated_tenants(db) == ["default"]
        assert (await sign(db, dry_run=True)).signed == len(await signatures_of(db))
        assert await outdated_tenants(db) == ["default"]
        # A row is changed by a later release, and one is added.
        await Checkpointer(db).save({"n": 5}, "t", "c5")
        await Store(db).put(("users",), "k0", {"n": 0})
        assert not (await verify(db)).findings
        report = await sign(db)
        assert report.signed > 20
        assert report.refused_count == 0
        assert await outdated_tenants(db) == []
        assert {one[:1] for one in await signatures_of(db)} == {b"\x02"}
        assert not (await verify(db)).findings
        assert (await sign(db)).signed == 0
    async with Database(file, signing_keys=[KEY]) as db:
        assert (await read_all(db))[:5] == before[:5]


def test_check_tells_of_the_first_version_until_it_is_renewed(file: str) -> None:
    def run(*command: str) -> Any:
        given = ["--db", file, "--json", *command]
        result = CliRunner().invoke(app, given, env={"MEMALCHEMY_SIGNING_KEYS": KEY})
        assert result.exit_code == 0, result.output
        return result.output

    assert "sign --all-tenants" in run("check")
    run("sign", "--all-tenants")
    assert "sign --all-tenants" not in run("check")


async def test_check_is_silent_about_a_database_of_this_release(signed: Database) -> None:
    assert await outdated_tenants(signed) == []


async def test_a_copy_of_the_first_version_is_told_as_well(file: str, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'target.db'}"
    async with (
        Database(file, signing_keys=[KEY]) as old,
        Database(target, signing_keys=[KEY]) as new,
    ):
        await Store(new).put(("other",), "k", 1)
        assert await outdated_tenants(new) == []
        await copy(old, new)
        assert await outdated_tenants(new) == ["default"]
        assert not (await verify(new)).findings
        await sign(new)
        assert await outdated_tenants(new) == []


async def test_what_the_first_version_did_not_prove_is_not_renewed_if_it_is_damaged(
    file: str,
) -> None:
    async with Database(file, signing_keys=[KEY]) as db:
        await db.run_sync(
            lambda connection: connection.execute(
                text("UPDATE checkpoints SET parent_id = 'c0' WHERE checkpoint_id = 'c2'")
            )
        )
        assert (await sign(db)).refused_count == 1
        assert await outdated_tenants(db) == ["default"]


async def test_another_key_renews_as_well(file: str) -> None:
    new = generate_key()
    async with Database(file, signing_keys=[new, KEY]) as db:
        report = await sign(db)
        assert len(report.unregistered) == 1
        assert await outdated_tenants(db) == []
    async with Database(file, signing_keys=[new]) as db:
        assert not (await verify(db)).findings


@pytest.mark.parametrize(("table", "column"), TIMES, ids=[".".join(one) for one in TIMES])
async def test_a_time_that_is_moved_by_a_microsecond_is_damage(
    signed: Database, table: str, column: str
) -> None:
    rows = Base.metadata.tables[table]
    time = rows.c[column]

    def move(connection: Any) -> int:
        given = connection.execute(
            select(*rows.primary_key.columns, time).where(
                rows.c.signature.is_not(None), time.is_not(None)
            )
        ).all()
        for row in given:
            same = [key == value for key, value in zip(rows.primary_key.columns, row, strict=False)]
            moved = row[-1] + timedelta(microseconds=1)
            connection.execute(update(rows).where(*same).values({column: moved}))
        return len(given)

    assert not (await verify(signed)).findings
    moved = await signed.run_sync(move)
    assert moved > 0
    found = (await verify(signed)).findings
    assert {one.code for one in found} == {"signature"}
    assert len(found) == moved
