"""SQL over what is stored: answers, what it cannot reach, and the file that keeps the tables."""

# ruff: noqa: ASYNC240 (small files)

from __future__ import annotations

import os
import random
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from histories import History, rows_of

from memalchemy import Checkpointer, Database, Store, ThreadLog, sync
from memalchemy.analysis import TABLES, Analysis, SQLConnection, connect
from memalchemy.codec.encryption import generate_key
from memalchemy.errors import (
    CapabilityMissing,
    Conflict,
    DatabaseUnreachable,
    InvalidArgument,
    StatementFailed,
)

duckdb = pytest.importorskip("duckdb")


async def tables_of(connection: SQLConnection) -> dict[str, set[tuple[Any, ...]]]:
    """Return all rows of all tables of a connection."""
    return {name: set(connection.execute(f"FROM {name}").fetchall()) for name in TABLES}


async def stored_tables(db: Database) -> dict[str, set[tuple[Any, ...]]]:
    """Return the same from the rows of Python, whose times have a zone."""

    def plain(value: Any) -> Any:
        return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value

    analysis = Analysis(db)
    return {
        name: {tuple(map(plain, row.values())) for row in await rows_of(analysis, name)}
        for name in TABLES
    }


@pytest.mark.parametrize("seed", range(3))
async def test_the_tables_have_the_rows(db: Database, seed: int) -> None:
    history = History(db, seed)
    await history.save_thread("t1")
    await history.append_thread("t2")
    await Store(db).put(("users", "ada"), "diet", {"a": [1, None]}, {"kind": "note"})

    with await connect(db) as connection:
        assert await tables_of(connection) == await stored_tables(db)
        assert connection.execute("SHOW TABLES").fetchall() == [(name,) for name in sorted(TABLES)]
        counted = connection.execute("select count(*) n from messages where role = ?", ["user"])
        users = [role for _, _, role in history.expected.texts.values() if role == "user"]
        assert counted.rows() == [{"n": len(users)}]
        assert connection.execute("from usage").arrow().num_rows == 9
        assert connection.unreadable == []


async def test_a_selection_and_chosen_tables_narrow_what_is_read(db: Database) -> None:
    history = History(db, 1)
    await history.save_thread("t1")
    await history.save_thread("t2")

    with await connect(db, tables=["messages"], thread="t1") as connection:
        assert connection.execute("select distinct thread from messages").fetchall() == [("t1",)]
        assert connection.execute("select count(*) from steps").fetchall() == [(0,)]
    with pytest.raises(InvalidArgument, match="there is no table 'calls'"):
        await connect(db, tables=["calls"])
    with pytest.raises(InvalidArgument, match="no size of memory"):
        await connect(db, memory="much")


@pytest.mark.asyncio_only("it makes a synchronous database of its own")
def test_a_synchronous_database_is_connected_without_await(tmp_path: Path) -> None:
    with sync.Database(f"sqlite:///{tmp_path}/agent.db") as db:
        sync.Checkpointer(db).save({"messages": [{"role": "user", "content": "hi"}]}, "t")
        with connect(db) as connection:
            assert connection.execute("select text from messages").fetchall() == [("hi",)]
        with sync.Analysis(db).connect(cache=tmp_path / "agent.duckdb") as connection:
            assert connection.execute("select role from messages").rows() == [{"role": "user"}]


WAYS_OUT = [
    "select * from read_text('{file}')",
    "select * from read_blob('{file}')",
    "select * from '{file}'",
    "select * from read_csv('{file}')",
    "select * from sniff_csv('{file}')",
    "select * from read_parquet('{file}')",
    "select * from glob('{folder}/*')",
    "select * from read_text('https://example.org')",
    "select * from duckdb_secrets()",
    "copy messages to '{folder}/out.csv'",
    "export database '{folder}/out'",
    "attach '{file}' as other",
    "attach ':memory:' as other",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "pragma enable_external_access = true",
    "reset memory_limit",
    "select * from secret_of_python",
    "create table mine as select 1",
    "create temp table mine as select 1",
    "create macro f(x) as x",
    "insert into messages select * from messages",
    "with x as (insert into messages select * from messages returning *) select * from x",
    "with x as (delete from messages returning *) select * from x",
    "with x as (update messages set text = '' returning *) select * from x",
    "delete from messages",
    "drop table messages",
    "call enable_logging()",
    "begin transaction",
    "commit",
    "select 1; select 2",
    "select 1; drop table messages",
    "",
    "select getenv('HOME')",
    "prepare p as select 1",
    "use memory",
    "checkpoint",
    "selec 1",
    "select * from nothing",
    "select nothing from messages",
]


@pytest.mark.parametrize("cached", [False, True], ids=["memory", "cache"])
async def test_sql_reaches_nothing_else_and_changes_nothing(
    db: Database, tmp_path: Path, cached: bool
) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("password\nhunter2\n")
    secret_of_python = [{"password": "hunter2"}]
    await History(db, 1).save_thread("t1")
    options: dict[str, Any] = {"cache": tmp_path / "c.duckdb"} if cached else {}
    with await connect(db, **options) as connection:
        before = await tables_of(connection)
        for way in WAYS_OUT:
            with pytest.raises((InvalidArgument, StatementFailed)) as caught:
                connection.execute(way.format(file=file, folder=tmp_path)).fetchall()
            assert "hunter2" not in str(caught.value)
            assert await tables_of(connection) == before, way
    assert secret_of_python
    assert {path.name for path in tmp_path.iterdir()} == {"secret.csv", *(["c.duckdb"] * cached)}


ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r"
LARGE = "select string_agg(repeat('a', 1000000), '') from range(900)"


async def test_a_query_that_takes_too_long_or_too_much_is_stopped(db: Database) -> None:
    with await connect(db, memory="100MB") as connection:
        with pytest.raises(StatementFailed, match=r"longer than 0\.2 seconds"):
            connection.execute(ENDLESS, timeout=0.2).fetchall()
        with pytest.raises(StatementFailed, match="needs more memory"):
            connection.execute(LARGE).fetchall()
        assert connection.execute("select 1", timeout=60).fetchall() == [(1,)]
        with pytest.raises(InvalidArgument, match="above 0"):
            connection.execute("select 1", timeout=0)


# --- The cache ----------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "agent.duckdb"


async def cached(db: Database, cache: Path, **options: Any) -> dict[str, set[tuple[Any, ...]]]:
    with await connect(db, cache=cache, **options) as connection:
        return await tables_of(connection)


@pytest.mark.parametrize("seed", range(6))
async def test_the_cache_has_what_the_database_has_after_any_changes(
    db: Database, cache: Path, seed: int
) -> None:
    chance = random.Random(seed)
    history = History(db, seed)
    checkpointer, log = Checkpointer(db), ThreadLog(db, namespace=("conversation",))
    store = Store(db)

    async def delete_checkpoints() -> None:
        infos = [info.checkpoint_id async for info in checkpointer.history("s1")]
        await checkpointer.delete_checkpoints("s1", infos[1:3])

    async def edit() -> None:
        if found := await log.tail("e1", 1):
            await log.edit("e1", found[0].position, {"role": "user", "content": "edited"})

    changes: list[Callable[[], Any]] = [
        lambda: history.save_thread(chance.choice(["s1", "s2"]), 3),
        lambda: history.append_thread(chance.choice(["e1", "e2"]), 2),
        lambda: checkpointer.delete("s2"),
        lambda: log.pop("e1"),
        edit,
        lambda: checkpointer.prune("s1", keep_last=2),
        delete_checkpoints,
        lambda: checkpointer.forget(thread_id="e2"),
        lambda: checkpointer.set_thread_metadata("s1", {"title": str(chance.random())}),
        lambda: store.put(("n",), chance.choice("ab"), chance.random()),
        lambda: store.delete(("n",), "a"),
    ]
    await history.save_thread("s1")
    await history.append_thread("e1")
    for _ in range(5):
        for _ in range(chance.randrange(4)):
            await chance.choice(changes)()
        assert await cached(db, cache) == await stored_tables(db)


async def test_a_cache_reads_only_what_has_changed(
    db: Database, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(db, 1)
    for number in range(5):
        await history.save_thread(f"t{number}", 3)
    read: list[str] = []
    original = Checkpointer.snapshots

    def snapshots(self: Checkpointer, thread_id: str, *arguments: Any, **more: Any) -> Any:
        read.append(thread_id)
        return original(self, thread_id, *arguments, **more)

    monkeypatch.setattr(Checkpointer, "snapshots", snapshots)
    await cached(db, cache)
    assert sorted(read) == [f"t{number}" for number in range(5)]
    read.clear()
    await history.save_thread("t3", 1)
    await cached(db, cache)
    assert read == ["t3"]
    read.clear()
    await cached(db, cache)
    assert read == []


async def test_usage_that_is_stated_beside_a_log_comes_into_the_cache(
    db: Database, cache: Path
) -> None:
    await ThreadLog(db, namespace=("openai",)).append("t", {"role": "user", "content": "hi"})
    place = ("openai", "usage", "t", "main")
    for tokens in (1, 2, 2):
        await Store(db).put(place, f"{1:012d}", {"input_tokens": tokens})
        assert await cached(db, cache) == await stored_tables(db)
        assert {row[7] for row in (await cached(db, cache))["usage"]} == {tokens}


async def test_what_was_erased_is_not_in_the_bytes_of_the_cache(db: Database, cache: Path) -> None:
    words = "incompressible-secret-" + random.Random(1).randbytes(40).hex()
    said = {"messages": [{"role": "user", "content": words}]}
    checkpointer = Checkpointer(db)
    await checkpointer.save(said, "gone")
    await checkpointer.save({"messages": [{"role": "user", "content": "kept"}]}, "kept")
    await Store(db).put(("a",), "k", words)
    await cached(db, cache)
    assert words.encode() in cache.read_bytes()

    await checkpointer.forget(thread_id="gone")
    await Store(db).delete(("a",), "k")
    tables = await cached(db, cache)

    assert words.encode() not in cache.read_bytes()
    assert {row[7] for row in tables["messages"]} >= {None}
    assert len(tables["messages"]) == 1
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


async def test_a_cache_is_its_owners_alone_and_opens_in_duckdb(db: Database, cache: Path) -> None:
    await History(db, 1).save_thread("t1")
    before = os.umask(0)
    try:
        await cached(db, cache)
    finally:
        os.umask(before)

    assert stat.S_IMODE(cache.stat().st_mode) == 0o600
    with duckdb.connect(str(cache), read_only=True) as opened:
        (number,) = opened.execute("select count(*) from messages").fetchone()
        assert number > 0
    cache.with_name(f".{cache.name}.part").write_bytes(b"of a process that was killed")
    await cached(db, cache)
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


async def test_a_file_that_is_no_cache_of_the_database_is_left_alone(
    db: Database, cache: Path, tmp_path: Path
) -> None:
    cache.write_text("my notes")
    with pytest.raises(Conflict, match="is not a cache of this database"):
        await connect(db, cache=cache)
    assert cache.read_text() == "my notes"
    cache.unlink()
    await cached(db, cache)
    content = cache.read_bytes()
    with pytest.raises(Conflict, match="is not a cache of this database"):
        await connect(db.for_tenant("another"), cache=cache)
    assert cache.read_bytes() == content
    with pytest.raises(DatabaseUnreachable):
        await connect(db, cache=tmp_path / "no" / "such" / "folder.duckdb")
    with pytest.raises(InvalidArgument, match="select in SQL"):
        await connect(db, cache=cache, thread="t1")


def write_sqlite(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("create table x (a)")


def write_duckdb(file: Path) -> None:
    with duckdb.connect(str(file)) as other:
        other.execute("create table x (a int)")


OTHER_FILES: dict[str, Callable[[Path], Any]] = {
    "SQLite": write_sqlite,
    "DuckDB": write_duckdb,
    "Parquet": lambda file: duckdb.sql("select 1 as a").write_parquet(str(file)),
    "CSV": lambda file: duckdb.sql("select 1 as a").write_csv(str(file)),
    "text": lambda file: file.write_text("my notes\n" * 1_000),
    "bytes": lambda file: file.write_bytes(bytes(20_000)),
    "nothing": lambda file: file.touch(),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
@pytest.mark.parametrize("name", ["agent.duckdb", "agent.db", "agent.parquet"])
async def test_a_file_of_another_program_is_no_cache(
    db: Database, tmp_path: Path, kind: str, name: str
) -> None:
    file = tmp_path / name
    OTHER_FILES[kind](file)
    content = file.read_bytes()

    with pytest.raises(Conflict, match="is not a cache of this database"):
        await connect(db, cache=file)

    assert file.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.own_keys
async def test_the_cache_of_an_encrypted_database_is_refused(
    shared_url: str, db: Database, cache: Path
) -> None:
    async with Database(shared_url, tenant=f"{db.tenant}-e", keys=generate_key()) as encrypted:
        await Checkpointer(encrypted).save({"messages": [{"role": "user", "content": "x"}]}, "t")
        with pytest.raises(CapabilityMissing, match="is encrypted"):
            await connect(encrypted, cache=cache)
        assert not cache.exists()
        with await connect(encrypted) as connection:
            assert connection.execute("select text from messages").fetchall() == [("x",)]
        assert len((await cached(encrypted, cache, plaintext=True))["messages"]) == 1
        await Checkpointer(encrypted).forget(tenant=encrypted.tenant)
