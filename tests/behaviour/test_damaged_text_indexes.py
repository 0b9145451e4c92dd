"""Whatever happens to the tables of a text index on SQLite: rows are written, kept and read.

The index is made of the rows, so nothing of it is worth an operation that fails.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memalchemy import Checkpointer, Corrupt, Database, Store, ThreadLog, space
from memalchemy.dialects import TEXT_INDEXES
from memalchemy.verify import verify

DOCS = ("docs",)
SHADOWS = ("data", "idx", "config")
VALUES = {
    "zeros": "zeroblob(40)",
    "ones": "x'ffffffffffffffffffff'",
    "text": "'no block'",
    "number": "7",
    "empty": "x''",
}
COLUMNS = {"data": ("block",), "idx": ("term", "pgno"), "config": ("v",)}
EVENTS = ("insert", "delete", "update")
ROWS = 5
"""The rows of a table of FTS5 that are damaged one by one: the file has fewer, or about as many."""


def damages() -> Iterator[tuple[str, str]]:
    """Yield names of damages, and their SQL: to each table as a whole, and to each of its rows."""
    for index in TEXT_INDEXES:
        for shadow in SHADOWS:
            table = f"{index}_{shadow}"
            yield f"{table}-emptied", f"DELETE FROM {table}"
            yield f"{table}-dropped", f"DROP TABLE {table}"
            for at in range(ROWS):
                # A table without rowids is addressed by its key.
                keys = {"data": "id", "idx": "(segid, term)", "config": "k"}[shadow]
                row = f"{keys} IN (SELECT {keys.strip('()')} FROM {table} LIMIT 1 OFFSET {at})"
                yield f"{table}-{at}-removed", f"DELETE FROM {table} WHERE {row}"
                for column in COLUMNS[shadow]:
                    for name, value in VALUES.items():
                        sql = f"UPDATE OR REPLACE {table} SET {column} = {value} WHERE {row}"
                        yield f"{table}-{at}-{column}-{name}", sql
        yield f"{index}-dropped", f"DROP TABLE {index}"
        for event in EVENTS:
            yield f"{index}-without-{event}", f"DROP TRIGGER {index}_{event}"


DAMAGES = dict(damages())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with states, entries and items, in which every text index has several blocks."""
    file = tmp_path_factory.mktemp("indexes") / "whole.db"

    async def fill() -> None:
        async with Database(f"sqlite:///{file}") as db:
            agent, store = Checkpointer(db), Store(db)
            for n in range(12):
                words = " ".join(f"w{n}x{m}" for m in range(60))
                await agent.save({"said": f"parcel{n} {words}"}, f"t{n % 3}", f"c{n}", {"step": n})
                await store.put(DOCS, f"k{n}", {"text": f"walrus{n} {words}"})
            await ThreadLog(db).append("log", [{"text": "an entry about giraffes"}])

    asyncio.run(fill())
    return file


async def save(db: Database) -> None:
    await Checkpointer(db).save({"said": "a new giraffe"}, "t0", "new", {"step": 99})
    assert await Checkpointer(db).load("t0") == {"said": "a new giraffe"}


async def put(db: Database) -> None:
    await Store(db).put(DOCS, "k7", {"text": "now another walrus"})
    assert await Store(db).get(DOCS, "k7") == {"text": "now another walrus"}


async def append(db: Database) -> None:
    assert await ThreadLog(db).append("log", [{"text": "a second entry"}]) == [2]


async def delete_thread(db: Database) -> None:
    await Checkpointer(db).delete("t1")
    assert await Checkpointer(db).load("t1") is None


async def delete_item(db: Database) -> None:
    await Store(db).delete(DOCS, "k8")
    assert await Store(db).get(DOCS, "k8") is None


async def prune(db: Database) -> None:
    await Checkpointer(db).prune("t2", keep_last=1)
    assert [info.checkpoint_id async for info in Checkpointer(db).history("t2")] == ["c11"]


async def forget(db: Database) -> None:
    await Store(db).forget_namespace(DOCS)
    assert await Store(db).list_keys(DOCS) == []


async def load(db: Database) -> None:
    assert (await Checkpointer(db).load("t2"))["said"].startswith("parcel11")


async def search(db: Database) -> None:
    """What a search returns is right; where it cannot know, it says how to mend the index."""
    for look in (
        lambda: Checkpointer(db).search("parcel4"),
        lambda: Checkpointer(db).query_by_metadata("step", 4),
        lambda: Store(db).search(DOCS, query="walrus4"),
    ):
        error = next(iter(await asyncio.gather(look(), return_exceptions=True)))
        if isinstance(error, BaseException):
            assert isinstance(error, Corrupt)
            assert "verify --repair" in str(error)


async def back_up(db: Database) -> None:
    file = f"{(await db.health())['url'].removeprefix('sqlite:///')}.backup"
    await db.backup(file)
    async with Database(f"sqlite:///{file}") as copy:
        await load(copy)


async def reclaim(db: Database) -> None:
    await space.reclaim(db, full=True)
    await load(db)


OPERATIONS: list[Callable[[Database], Awaitable[None]]] = [
    save,
    put,
    append,
    delete_thread,
    delete_item,
    prune,
    forget,
    load,
    search,
    back_up,
    reclaim,
]


def damaged(whole: Path, file: Path, sql: str) -> str:
    shutil.copy(whole, file)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(sql)
        connection.commit()
    return f"sqlite:///{file}"


async def check_mended(db: Database) -> None:
    """Repair, and check that each index finds its rows and is as in a new file."""
    await verify(db, repair=True)
    report = await verify(db)
    assert report.findings == ()
    assert [hit["checkpoint_id"] for hit in await Checkpointer(db).search("parcel9")] == ["c9"]
    by_step = await Checkpointer(db).query_by_metadata("step", 9)
    assert [hit["checkpoint_id"] for hit in by_step] == ["c9"]


def schema_of(file: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(
            "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
        ).fetchall()


@pytest.mark.parametrize("damage", DAMAGES)
async def test_no_damage_to_a_text_index_stops_an_operation(
    whole: Path, tmp_path: Path, damage: str
) -> None:
    at = list(DAMAGES).index(damage)
    # Each damage meets each kind of operation somewhere; all of them meet saves and puts first.
    for operation in {save, put, OPERATIONS[at % len(OPERATIONS)]}:
        file = tmp_path / f"{operation.__name__}.db"
        async with Database(damaged(whole, file, DAMAGES[damage])) as db:
            await operation(db)

    file = tmp_path / "all.db"
    async with Database(damaged(whole, file, DAMAGES[damage])) as db:
        await verify(db)
        for operation in (load, search, back_up, save, put, append, delete_item):
            await operation(db)
        await check_mended(db)
        for operation in (delete_thread, prune, forget, reclaim):
            await operation(db)
        # What counts the rows of an index is believed until it falls below none.
        await verify(db, repair=True)
        assert (await verify(db)).findings == ()
    assert schema_of(file) == schema_of(whole)
