"""After `forget` the files hold no byte of what was erased: looked for in the files themselves."""

from __future__ import annotations

import random
import secrets
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select

from memalchemy import Checkpointer, Database, Store, ThreadLog, events, space
from memalchemy.database.sqlite import shrink
from memalchemy.log.tables import THREADS
from servers import Postgres

pytestmark = [
    pytest.mark.own_keys,  # it has none: plain bytes are in the files before they are erased
    pytest.mark.asyncio_only(reason="what is left in a file does not depend on who waits"),
]

SUBJECT = f"subject-{secrets.token_hex(12)}"


@dataclass
class Traces:
    """What must not be found: bytes of values, words, metadata, and how an index spells these."""

    made: list[bytes] = field(default_factory=list)

    def word(self) -> str:
        word = "".join(secrets.choice("bcdfghjklmnpqrstvwxz") for _ in range(24))
        self.made.append(word[8:].encode())  # an index leaves out what a word shares with the last
        return word

    def blob(self, size: int) -> bytes:
        blob = secrets.token_bytes(size)
        self.made += [blob[:24], blob[-24:]]
        return blob

    def in_(self, content: bytes) -> list[bytes]:
        return [trace for trace in self.made if trace in content]


async def fill(db: Database) -> Traces:
    """A thread and items of the subject among others, with histories of their own."""
    traces = Traces([SUBJECT.encode(), SUBJECT.encode().hex().encode()])
    checkpointer, graph = Checkpointer(db), Checkpointer(db, namespace=("graph",))
    log, store = ThreadLog(db), Store(db)
    about = {"subject": SUBJECT}
    for number in range(30):
        for kept in (checkpointer, graph):
            await kept.save({"text": f"others say {number}", "n": number}, f"other {number % 3}")
            state = {"text": traces.word(), "blob": traces.blob(5000), "n": number}
            await kept.save(state, "gone", f"c{number % 25}", about)
            await kept.put_writes([("c", traces.blob(300))], "gone", f"c{number % 25}", "task")
        await log.append("gone", {"said": traces.word(), "blob": traces.blob(200)})
        await log.append("other 1", {"said": f"nothing {number}"})
        place = ("facts", f"n{number % 4}")
        for _ in range(2):
            value = {"text": traces.word(), "blob": traces.blob(5000)}
            vector = [float(n + 1) for n in range(8)]
            await store.put(
                place, f"k{number}", value, about | {"word": traces.word()}, embedding=vector
            )
        await store.put(place, f"other {number}", {"text": f"kept {number}"})
    await graph.set_thread_metadata("gone", about | {"title": traces.word()})
    await checkpointer.set_thread_metadata("gone", {"title": traces.word()})
    await checkpointer.set_thread_metadata("gone", about | {"title": traces.word()})
    await checkpointer.delete("gone", "c3")
    await checkpointer.delete("gone", "c0")
    await graph.prune("gone", keep_last=5)
    return traces


def files_of(path: Path) -> bytes:
    beside = [path, Path(f"{path}-wal"), Path(f"{path}-shm"), Path(f"{path}-journal")]
    return b"".join(file.read_bytes() for file in beside if file.exists())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.mark.parametrize("how", ["metadata", "tenant"])
async def test_nothing_is_left_in_a_sqlite_file(path: Path, how: str) -> None:
    async with Database(f"sqlite:///{path}", tenant="acme") as db:
        traces = await fill(db)
        assert len(traces.in_(files_of(path))) > len(traces.made) / 2  # it would be seen

        given: dict[str, Any] = {"metadata": {"subject": SUBJECT}}
        await Checkpointer(db).forget(**given if how == "metadata" else {"tenant": "acme"})

        assert traces.in_(files_of(path)) == []
        if how == "metadata":
            assert len(await Checkpointer(db).list_checkpoints("other 1", 100)) == 10
            assert await Store(db).search(("facts",), "kept 7", prefix=True)


async def test_nothing_is_left_of_a_namespace_in_a_sqlite_file(path: Path) -> None:
    async with Database(f"sqlite:///{path}", tenant="acme") as db:
        store, traces = Store(db), Traces([SUBJECT.encode()])
        for number in range(20):
            value = {"text": traces.word(), "blob": traces.blob(5000)}
            place = ("users", SUBJECT, *("facts",) * (number % 2))
            await store.put(place, f"k{number}", value, embedding=[float(number + 1), 1.0])
            await store.put(("users", "other"), f"k{number}", {"text": f"kept {number}"})
        assert len(traces.in_(files_of(path))) > len(traces.made) / 2  # it would be seen

        assert await store.forget_namespace(("users", SUBJECT)) == 20

        assert traces.in_(files_of(path)) == []
        assert await store.search(("users",), "kept 7", prefix=True)


async def fill_with_growing_rows(db: Database) -> Traces:
    """Items that are replaced in any order, whose rows SQLite moves from page to page for that."""
    traces, order, store = Traces(), random.Random(1), Store(db)
    for _ in range(2):
        for number in order.sample(range(400), 400):
            about = {"subject": SUBJECT if number % 2 else "another"}
            value = order.randbytes(order.randint(2500, 5000))
            if number % 2:
                traces.made += [value[:24], value[-24:]]
            await store.put(("facts",), f"k{number:03}", {"blob": value}, about)
    return traces


async def test_nothing_is_left_of_rows_that_were_moved_from_page_to_page(path: Path) -> None:
    async with Database(f"sqlite:///{path}") as db:
        traces = await fill_with_growing_rows(db)

        await Checkpointer(db).forget(metadata={"subject": SUBJECT})

        assert traces.in_(files_of(path)) == []
        assert await Store(db).count(("facts",)) == 200


async def test_a_file_that_is_too_large_to_be_rewritten_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shrink, "REWRITTEN_BYTES", 4096)
    async with Database(f"sqlite:///{path}") as db:
        traces = await fill_with_growing_rows(db)

        await Checkpointer(db).forget(metadata={"subject": SUBJECT})

        assert "memalchemy vacuum --full" in caplog.text
        await space.reclaim(db, full=True)
        assert traces.in_(files_of(path)) == []


async def test_a_deleted_thread_leaves_its_ids_once_the_file_is_vacuumed(path: Path) -> None:
    async with Database(f"sqlite:///{path}") as db:
        traces = await fill(db)
        await Checkpointer(db).delete("gone")
        for number in range(30):
            await Store(db).delete(("facts", f"n{number % 4}"), f"k{number}")

        await space.reclaim(db, full=True)

        content = files_of(path)
        assert traces.in_(content) == []
        assert b"gone" in content


async def test_a_log_that_somebody_reads_is_told_and_emptied_later(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.database.sqlite.shrink.LOG_ATTEMPTS", 2)
    async with Database(f"sqlite:///{path}") as db:
        traces = await fill(db)
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM threads").fetchone()
        await Checkpointer(db).forget(metadata={"subject": SUBJECT})
        assert "memalchemy vacuum" in caplog.text
        assert SUBJECT not in caplog.text
        reader.close()
        await space.reclaim(db, full=True)
        assert traces.in_(files_of(path)) == []


async def test_metadata_of_a_first_save_goes_with_its_checkpoint(
    db: Database, checkpointer: Checkpointer
) -> None:
    await checkpointer.save({"n": 1}, "t", "first", {"subject": SUBJECT})
    await checkpointer.save({"n": 2}, "t", "second")
    await checkpointer.delete("t", "first")
    query = select(THREADS.c.meta).where(THREADS.c.tenant == db.tenant, THREADS.c.meta.is_not(None))
    heads = await db.run_sync(lambda connection: connection.execute(query).all())
    assert not [head for head in heads if SUBJECT in str(head)]
    assert await checkpointer.forget(metadata={"subject": SUBJECT}) == 0
    assert await checkpointer.exists("t", "second")


def relation_files(postgres: Postgres, url: str) -> bytes:
    """The files of our tables, with their indexes and what lies out of line."""
    query = """
        WITH ours AS (
            SELECT oid, reltoastrelid FROM pg_class
            WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
        ), tables AS (
            SELECT oid FROM ours UNION SELECT reltoastrelid FROM ours WHERE reltoastrelid <> 0
        )
        SELECT pg_relation_filepath(oid) FROM tables
        UNION SELECT pg_relation_filepath(indexrelid) FROM pg_index
        WHERE indrelid IN (SELECT oid FROM tables)
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        data = Path(connection.execute("SHOW data_directory").fetchone()[0])  # type: ignore[index]
        paths = [data / row[0] for row in connection.execute(query)]
    content = b"".join(path.read_bytes() for path in paths if path.exists())
    assert content
    return content


async def test_nothing_is_left_in_the_files_of_postgresql_after_a_full_vacuum(
    postgres: Postgres,
) -> None:
    name = postgres.create_database()
    url = postgres.url(name)
    try:
        async with Database(url, migrate="off") as db:
            await db.migrate()
            traces = await fill(db)
            await space.reclaim(db, full=True)
            assert len(traces.in_(relation_files(postgres, url))) > len(traces.made) / 2

            await Checkpointer(db).forget(metadata={"subject": SUBJECT})
            await space.reclaim(db, full=True)

            assert traces.in_(relation_files(postgres, url)) == []
            with psycopg.connect(url) as connection:
                stats = connection.execute(
                    "SELECT * FROM pg_stats WHERE schemaname = 'public'"
                ).fetchall()
            assert traces.in_(repr(stats).encode()) == []
    finally:
        postgres.drop_database(name)


async def test_free_pages_are_cut_off_many_at_a_time(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/agent.db") as db:
        store, checkpointer = Store(db), Checkpointer(db)
        places = [(("filler",), f"k{n}") for n in range(20)]
        await store.put_batch([(*place, secrets.token_bytes(200_000)) for place in places])
        await checkpointer.save({"n": 1}, "gone")
        seen: list[events.Event] = []
        unsubscribe = events.subscribe(seen.append)
        await store.delete_batch(places)
        assert await checkpointer.forget(thread_id="gone") == 1
        unsubscribe()

    (forgotten,) = (event for event in seen if event.name == "checkpoint.forget")
    assert forgotten.round_trips < 50, "there were about a thousand free pages"
    assert (tmp_path / "agent.db").stat().st_size < 1_000_000
