"""No room left: a clear error, nothing acknowledged is lost, nothing is half there, and later it
works again. On a small disk of its own, where one can be mounted; on SQLite also in a file that may
not grow, which runs everywhere.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from disk import Disk, small_disk
from sqlalchemy import Connection, inspect
from workers import proof

from memalchemy import Checkpointer, Database
from memalchemy.errors import StatementFailed
from servers import Postgres

THREADS = 5
AT_ONCE = 8
SIZE = 24_000

PLACES = ("sqlite", "sqlite-limit", "postgresql")


@dataclass
class Room:
    """Where a database is, and how much room it has."""

    url: str
    disk: Disk | None = None
    server: Postgres | None = None

    @property
    def too_many(self) -> int:
        """So many saves do not fit."""
        megabytes = 8 if self.disk is None else self.disk.megabytes
        return megabytes * 2**20 // SIZE

    async def limit(self, db: Database) -> None:
        """Leave the database a little room only; a small disk has little anyway."""
        if self.disk is None:
            await _limit_pages(db, 1_500)

    async def grow(self, db: Database, megabytes: int) -> None:
        if self.disk is not None:
            self.disk.grow(megabytes)
        else:
            await _limit_pages(db, 256 * megabytes)

    async def fill(self, db: Database) -> None:
        if self.disk is None:
            await _limit_pages(db, 10)
        else:
            await db.current()  # opening a file takes room, too
            self.disk.fill()

    async def clear(self, db: Database) -> None:
        if self.disk is not None:
            self.disk.clear()
        await self.grow(db, 20)

    async def reclaim(self, db: Database) -> None:
        """What the owner of a server does after deleting much; SQLite reuses pages by itself."""
        if self.server is not None:
            self.server.execute("VACUUM", self.url.split("?")[0].rsplit("/", 1)[1])


async def _limit_pages(db: Database, more: int) -> None:
    """Let the file grow by *more* pages of 4 KB; the limit is the writing connection's."""

    def limit(connection: Connection) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + more}")

    await db.run_sync(limit)


@contextmanager
def on_a_small_disk(server: Postgres, driver: str) -> Iterator[Room]:
    """Tables on a disk of 12 MB, the server's log elsewhere, which it ends without."""
    if not server.host.startswith("/"):
        pytest.skip("a full disk of PostgreSQL's needs its server on this machine: no POSTGRES_URL")
    with small_disk(12) as disk:
        place = disk.path / "tables"
        place.mkdir()
        owner = Path(server.host)
        os.chown(place, owner.stat().st_uid, owner.stat().st_gid)
        server.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
        name = server.create_database(tablespace="small")
        try:
            yield Room(server.url(name, driver=driver), disk, server)
        finally:
            server.drop_database(name)
            server.execute("DROP TABLESPACE small")


@pytest.fixture(params=PLACES)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    """An empty database with little room."""
    if request.param == "sqlite-limit":
        yield Room(f"sqlite:///{tmp_path}/agent.db")
    elif request.param == "sqlite":
        with small_disk(14) as disk:  # the -wal file alone takes 4
            yield Room(f"sqlite:///{disk.path}/agent.db", disk)
    else:
        server: Postgres = request.getfixturevalue("postgres")
        driver = "psycopg" if request.param == "psycopg" else ""
        with on_a_small_disk(server, driver) as found:
            yield found


@pytest.fixture
async def db(room: Room) -> AsyncIterator[Database]:
    async with Database(room.url, migrate="off") as database:
        yield database
        assert (await database.health())["checked_out"] == 0


def big(number: int) -> dict[str, object]:
    """Random bytes: they take as much room as they look."""
    return {"number": number, "noise": random.Random(number).randbytes(SIZE)}


class Agent:
    """Saves until there is no room, and knows what it was told."""

    def __init__(self, db: Database) -> None:
        self.keep = Checkpointer(db)
        self.acknowledged: dict[str, dict[str, object]] = {}
        self.refused: dict[str, StatementFailed] = {}
        self.number = 0

    async def save(self) -> bool:
        self.number += 1
        number, state = self.number, big(self.number)
        name = f"c{number}"
        try:
            await self.keep.save(state, f"thread-{number % THREADS}", name)
        except StatementFailed as error:
            self.refused[name] = error
            return False
        self.acknowledged[name] = state
        return True

    async def save_until_full(self) -> None:
        while all(await asyncio.gather(*(self.save() for _ in range(AT_ONCE)))):
            assert self.number < 5_000, "it is never full"

    async def check(self, db: Database) -> None:
        """Exactly what was acknowledged is there, in order, and loads."""
        keep, found = Checkpointer(db), set()
        for thread in (f"thread-{number}" for number in range(THREADS)):
            infos = await proof.history(keep, thread)
            proof.is_one_line(infos)
            for info in infos:
                found.add(info.checkpoint_id)
                state = await keep.load(thread, info.checkpoint_id)
                assert state == self.acknowledged[info.checkpoint_id]
        assert found == self.acknowledged.keys()
        await proof.nothing_is_left_over(db)


@pytest.mark.parametrize("room", [*PLACES, "psycopg"], indirect=True)
async def test_without_room_a_save_says_so_and_later_the_same_object_saves_again(
    room: Room, db: Database
) -> None:
    await db.migrate()
    await room.limit(db)
    agent = Agent(db)

    await agent.save_until_full()
    for _ in range(2):
        await asyncio.gather(*(agent.save() for _ in range(AT_ONCE)))

    assert len(agent.acknowledged) > 10
    for error in agent.refused.values():
        assert "has no room left" in str(error)
        assert error.__cause__ is not None
    await agent.check(db)
    async with Database(room.url, migrate="off") as other:
        await agent.check(other)

    await room.grow(db, 20)
    for _ in range(5):
        assert all(await asyncio.gather(*(agent.save() for _ in range(AT_ONCE))))
    await agent.check(db)
    if room.url.startswith("sqlite"):
        proof.file_is_sound(room.url)


async def test_deleting_makes_room(room: Room, db: Database) -> None:
    await db.migrate()
    await room.limit(db)
    agent = Agent(db)
    await agent.save_until_full()

    # A deletion writes before it frees, and SQLite empties its -wal file into the other first.
    grown = 4
    await room.grow(db, grown)
    for thread in range(THREADS - 1):
        assert await agent.keep.delete(f"thread-{thread}")
    await room.reclaim(db)

    agent.acknowledged = {
        name: state
        for name, state in agent.acknowledged.items()
        if int(name[1:]) % THREADS == THREADS - 1
    }
    before = agent.number
    await agent.save_until_full()
    assert agent.number - before > grown * 2**20 // SIZE + AT_ONCE, "no more than it has grown by"


async def test_a_batch_that_does_not_fit_acknowledges_what_is_there_and_no_more(
    room: Room, db: Database
) -> None:
    """On SQLite they share one commit; its failure is every save's own answer."""
    await db.migrate()
    await room.limit(db)
    agent = Agent(db)
    await agent.save()

    held, queued = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with db.transaction():
            held.set()
            await queued.wait()

    holding = asyncio.create_task(hold())
    await held.wait()
    saves = [asyncio.create_task(agent.save()) for _ in range(room.too_many)]
    await asyncio.sleep(0)  # each has started, and waits for its turn
    queued.set()
    await asyncio.gather(holding, *saves)

    assert agent.refused
    await agent.check(db)


@pytest.mark.parametrize("room", [p for p in PLACES if p != "sqlite-limit"], indirect=True)
async def test_a_transaction_that_does_not_fit_leaves_nothing(room: Room, db: Database) -> None:
    """A limit of pages is a connection's, and a transaction has a connection of its own."""
    await db.migrate()
    await room.limit(db)
    agent = Agent(db)
    await agent.save()

    with pytest.raises(StatementFailed, match="has no room left"):  # noqa: PT012 - the block is full
        async with db.transaction() as tx:
            for number in range(2_000):
                await agent.keep.save(big(number), "thread-0", f"tx{number}", connection=tx)

    await agent.check(db)
    await room.grow(db, 1)
    await room.reclaim(db)  # PostgreSQL does not reuse the room of what was rolled back before
    assert await agent.save()
    await agent.check(db)


async def test_a_migration_without_room_leaves_the_schema_that_was_there(
    room: Room, db: Database
) -> None:
    await room.fill(db)

    with pytest.raises(StatementFailed, match="has no room left"):
        await db.migrate()

    assert await db.current() is None
    await room.clear(db)
    assert await db.run_sync(lambda c: inspect(c).get_table_names()) == []
    assert await db.migrate() != []
    agent = Agent(db)
    assert await agent.save()
    await agent.check(db)


async def test_a_file_on_a_full_disk_opens_as_an_error_that_says_so() -> None:
    with small_disk(3) as disk:
        url = f"sqlite:///{disk.path}/agent.db"
        async with Database(url) as db:
            await Checkpointer(db).save({"n": 1}, "thread", "c1")
        disk.fill()

        db = Database(url)
        keep = Checkpointer(db)
        with pytest.raises(StatementFailed, match="has no room left"):
            await keep.load("thread")
        with pytest.raises(StatementFailed, match="has no room left"):
            await keep.save({"n": 2}, "thread", "c2")

        disk.clear()
        assert await keep.load("thread") == {"n": 1}
        await keep.save({"n": 2}, "thread", "c2")
        assert await keep.list_checkpoints("thread") == ["c2", "c1"]
        await db.close()
