"""Where the bytes are, and giving them back: on real files and servers."""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event as sa_event
from sqlalchemy.engine import Engine

from lifetimes import MOMENT
from memalchemy import CapabilityMissing, Checkpointer, Database, Store, events, space
from memalchemy.contracts import Progress
from memalchemy.events import Event, StatementEvent
from servers import Postgres
from waiting import until


def big(number: int) -> dict[str, Any]:
    """A state that does not compress, with a word of its own."""
    return {"data": random.Random(number).randbytes(9000), "word": f"w{number}"}


def length(file: Path) -> int:
    return file.stat().st_size


def content(file: Path) -> bytes:
    return file.read_bytes()


async def fill(checkpointer: Checkpointer, threads: int = 20, each: int = 5) -> None:
    for thread in range(threads):
        for number in range(each):
            await checkpointer.save(big(thread * 100 + number), f"t{thread}")


KINDS = {"table", "index", "text index"}
"""The kinds of pieces that a database tells the sizes of, if it tells any."""


def says_sizes(db: Database) -> bool:
    return db.dialect.maintenance.sizes(exact=True) is not None


@pytest.fixture
async def own(database_url: str) -> Any:
    """A migrated database of the test's own."""
    database = Database(database_url)
    await database.migrate()
    async with database:
        yield database


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


async def test_the_parts_add_up_to_what_the_threads_say(db: Database) -> None:
    agent, graph = Checkpointer(db), Checkpointer(db, namespace=("graph",))
    for number in range(6):
        await agent.save({"text": f"word {number}", "pad": "x" * 2000}, f"t{number}")
    for number in range(30):
        await graph.save(big(number), "deep")

    found = await space.measure(db, largest=3)

    each = [await agent.get_storage_stats(f"t{n}") for n in range(6)]
    each.append(await graph.get_storage_stats("deep"))
    assert (found.threads, found.logs, found.checkpoints) == (7, 7, 36)
    assert [(one.name, one.threads, one.checkpoints) for one in found.frameworks] == [
        ("graph", 1, 30),
        ("", 6, 6),
    ]
    assert sum(one.stored_bytes for one in found.frameworks) == found.stored_bytes
    assert sum(one.raw_bytes for one in found.frameworks) == found.raw_bytes
    assert [(one.days, one.rows, one.bytes) for one in found.growth] == [
        (days, 36, found.stored_bytes) for days in (1, 7, 30)
    ]
    assert found.raw_bytes == sum(one["total_size"] for one in each)
    assert found.stored_bytes == sum(one["compressed_size"] for one in each)
    assert found.full_checkpoints == sum(one["full_checkpoints"] for one in each)
    kinds = {kind.name: kind for kind in found.kinds}
    assert kinds["snapshot"].rows == found.full_checkpoints
    payloads = sum(k.bytes for name, k in kinds.items() if name != "search text")
    assert payloads == found.stored_bytes
    assert (found.largest[0].thread_id, found.largest[0].namespace) == ("deep", ("graph",))
    assert [share.bytes for share in found.largest] == sorted(
        (share.bytes for share in found.largest), reverse=True
    )
    assert found.rest_bytes + sum(one.bytes for one in found.largest) == found.content_bytes
    pieces = {piece.name: piece for piece in found.pieces}
    assert {piece.kind for piece in found.pieces} == (KINDS if says_sizes(db) else set())
    assert "deltas" not in pieces or pieces["deltas"].bytes > 0


async def test_items_and_their_vectors_are_measured_and_are_no_part_of_a_thread(
    db: Database,
) -> None:
    store = Store(db)
    await Checkpointer(db).save(big(1), "t")
    threads = await space.measure(db)
    values = [{"text": f"word{n}", "pad": random.Random(n).randbytes(3000)} for n in range(5)]
    for number, value in enumerate(values):
        await store.put(("notes",), str(number), value, embedding=[1.0] * 100)
    await store.put(("notes",), "4", values[4], ttl=MOMENT)

    found = await space.measure(db)

    assert (threads.items, found.items) == (0, 4)
    assert (threads.expired, found.expired) == (0, 1)
    kinds = {kind.name: kind for kind in found.kinds}
    assert (kinds["item"].rows, kinds["item text"].rows, kinds["vector"].rows) == (5, 5, 4)
    assert 5 * 3000 < kinds["item"].bytes < 5 * 3200
    assert kinds["vector"].bytes == 4 * 100 * 4
    assert found.content_bytes - threads.content_bytes == sum(
        kinds[name].bytes for name in ("item", "item text", "vector")
    )
    assert found.rest_bytes == threads.rest_bytes == 0
    indexes = {piece.owner for piece in found.pieces if piece.kind == "text index"}
    assert ({"deltas", "store_items"} <= indexes) == says_sizes(db)


async def test_words_of_items_that_were_deleted_are_merged_out_of_the_index(file: Path) -> None:
    async with Database(f"sqlite:///{file}") as db:
        store = Store(db)
        for number in range(200):
            await store.put(("n",), str(number), {"text": f"secretword{number} and others"})
        await store.clear_namespace(("n",))
        assert b"secretword" in content(file) + content(Path(f"{file}-wal"))

        await space.reclaim(db)

        assert b"secretword" not in content(file)


async def test_an_empty_tenant_has_no_bytes(db: Database) -> None:
    found = await space.measure(db)

    assert (found.threads, found.checkpoints, found.logs) == (0, 0, 0)
    assert (found.content_bytes, found.rest_bytes) == (0, 0)


async def test_the_number_of_queries_does_not_grow_with_the_threads(db: Database) -> None:
    async def queries() -> int:
        sent = []

        def look(conn: Any, cursor: Any, sql: str, *_: Any) -> None:
            if not sql.startswith(("BEGIN", "COMMIT")):
                sent.append(sql)

        sa_event.listen(Engine, "before_cursor_execute", look)
        try:
            await space.measure(db)
        finally:
            sa_event.remove(Engine, "before_cursor_execute", look)
        return len(sent)

    agent = Checkpointer(db)
    await agent.save({}, "one")
    few = await queries()
    for number in range(40):
        await agent.save({}, f"t{number}")

    # By Oracle's programs it takes one more.
    assert await queries() == few <= (11 if db.dialect.upserts else 12)


async def test_without_page_counts_sizes_are_estimated_near_the_truth(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Database(f"sqlite:///{file}", durability="normal") as db:
        await fill(Checkpointer(db))
        exact = await space.measure(db)
        assert not exact.estimated

        async def no(*_: Any) -> list[tuple[int]]:
            return [(0,)]

        from memalchemy.maintenance import space as measuring

        run_query = measuring.run_query
        counts = measuring.counts_pages(db.dialect)
        monkeypatch.setattr(
            measuring, "run_query", lambda db, q, b: no() if q is counts else run_query(db, q, b)
        )
        guessed = await space.measure(db)

    assert guessed.estimated
    whole, guess = (sum(p.bytes for p in found.pieces) for found in (exact, guessed))
    assert 0.5 < guess / whole < 1.2
    assert guessed.pieces[0].name == exact.pieces[0].name == "deltas"
    assert {"pk_deltas", "deltas_search_data"} <= {piece.name for piece in guessed.pieces}


async def test_a_file_gives_its_bytes_back_while_others_write(file: Path) -> None:
    url = f"sqlite:///{file}"
    async with Database(url, durability="normal") as db, Database(url) as other:
        agent, writer = Checkpointer(db), Checkpointer(other)
        await fill(agent, threads=300)
        await writer.save({"n": 0}, "live")
        await agent.prune(keep_last=1)
        await agent.delete("t1")
        seen: list[Progress] = []
        reclaiming = asyncio.create_task(space.reclaim(db, progress=seen.append))
        saves = 0
        while not reclaiming.done():
            # A few, so that what they take does not hide what was given back.
            if saves < 50:
                saves += 1
                await writer.save({"n": saves}, "live")
            await asyncio.sleep(0)
        done = await reclaiming
        assert len(seen) >= 2
        assert saves >= 10
        assert (seen[-1].done, seen[-1].total) == (seen[-1].total, seen[0].total)
        assert await writer.load("live") == {"n": saves}
        again = await space.reclaim(db)
    assert done.before is not None
    assert done.after is not None
    assert again.after is not None
    # Of five states of each thread two stay: the newest, and the one that it is based on.
    assert max(done.after, again.after) < done.before * 2 / 5
    assert again.advice == ()
    assert length(file) == again.after
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_no_word_of_what_is_gone_stays_in_the_text_index(file: Path) -> None:
    async with Database(f"sqlite:///{file}", durability="normal") as db:
        agent = Checkpointer(db)
        for number in range(50):
            await agent.save({"text": f"quuxstreet {number}"}, "gone")
            await agent.save({"text": f"other {number}"}, "stays")
        await agent.delete("gone")
        await space.reclaim(db)
        assert len(await agent.search("other", 100)) == 1
    assert b"quuxst" not in content(file)


async def test_a_file_that_others_made_is_rewritten_only_when_asked(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
        connection.commit()
    async with Database(f"sqlite:///{file}", durability="normal") as db:
        agent = Checkpointer(db)
        await fill(agent, threads=10)
        await agent.prune(keep_last=1)

        kept = await space.reclaim(db)
        (advice,) = kept.advice
        assert advice.commands == ("memalchemy vacuum --full",)
        assert "was not made for shrinking by steps" in advice.reason
        given = await space.reclaim(db, full=True)
        assert given.advice == ()
        assert given.after is not None
        assert kept.after is not None
        assert given.after < kept.after * 0.6
        # From now on it shrinks by steps.
        await fill(agent, threads=10)
        await agent.vacuum(0)
        assert (await space.reclaim(db)).advice == ()
        assert db.file_bytes == length(file) < given.after


async def test_a_file_is_opened_and_measured_while_others_close_it(file: Path) -> None:
    async with Database(f"sqlite:///{file}", migrate="upgrade") as db:
        await Checkpointer(db).save({"n": 1}, "thread")
    whole = db.file_bytes
    assert whole == length(file) > 0
    comes_and_goes = (
        "import os, sys\n"
        "for _ in range(60_000):\n"
        "    os.close(os.open(sys.argv[1], os.O_CREAT))\n"
        "    os.unlink(sys.argv[1])\n"
    )
    sizes = set()
    started = [sys.executable, "-c", comes_and_goes, f"{file}-wal"]
    with subprocess.Popen(started) as other:  # noqa: ASYNC220 - nothing else runs on this loop
        while other.poll() is None:
            sizes |= {db.file_bytes for _ in range(1000)}
    assert (sizes, other.returncode) == ({whole}, 0)


async def test_a_reader_that_stays_keeps_the_log_and_is_named(file: Path) -> None:
    async with Database(f"sqlite:///{file}", durability="normal") as db:
        agent = Checkpointer(db)
        await fill(agent, threads=2)
        with closing(sqlite3.connect(file, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM deltas").fetchall()
            await agent.save({}, "t")
            (advice,) = (await space.reclaim(db)).advice
            assert "the file is in use" in advice.reason
        assert (await space.reclaim(db)).advice == ()


async def test_memory_has_nothing_to_give_back() -> None:
    async with Database("sqlite://") as db:
        done = await space.reclaim(db)

    assert (done.before, done.after) == (None, None)
    assert len(done.advice) == 1


async def test_an_owner_of_tables_vacuums_them(own: Database) -> None:
    if own.dialect.single_writer:
        return  # a file: above
    agent = Checkpointer(own)
    await fill(agent, threads=30)
    before = sum(piece.bytes for piece in (await space.measure(own)).pieces)
    await agent.prune(keep_last=1)
    told: list[Event] = []
    unsubscribe = events.subscribe(told.append)
    seen: list[Progress] = []

    done = await space.reclaim(own, full=True, progress=seen.append)

    unsubscribe()
    assert (seen[-1].done, seen[-1].total) == (5, 5)
    (event,) = (one for one in told if one.name == "database.reclaim")
    assert event.details == {"before": done.before, "after": done.after}
    assert done.before is not None
    whole = done.before
    for _ in range(20):  # the server's own autovacuum may have been looking at them just then
        assert done.after is not None
        if done.after < whole / 2 and done.advice == ():
            break
        done = await space.reclaim(own, full=True)
    assert done.after < whole / 2
    assert done.advice == ()
    assert sum(piece.bytes for piece in (await space.measure(own)).pieces) < before / 2


async def test_a_table_that_stays_long_is_named_with_its_command(own: Database) -> None:
    if own.dialect.single_writer:
        return
    agent = Checkpointer(own)
    await fill(agent, threads=30)
    await agent.prune(keep_last=1)
    # The last rows of the file stay, so a plain vacuum cannot cut it off.
    await agent.save(big(1), "last")

    async def its_dead_are_counted() -> bool:
        return any(row.dead for row in await _seen(own) if row.name == "deltas")

    await until(its_dead_are_counted)  # a moment after they died

    done = await space.reclaim(own)

    named = {one.table: one for one in done.advice}
    assert named["deltas"].commands == ("VACUUM (FULL, ANALYZE) deltas;",)
    assert "dead rows of deltas made room" in named["deltas"].reason


async def test_rows_that_are_counted_late_are_no_dead_rows(
    own: Database, database_url: str
) -> None:
    """A session has removed rows, and tells the server's counters of it after the vacuum."""
    if own.dialect.name != "postgresql":
        return
    agent = Checkpointer(own)
    await fill(agent, threads=10)
    with psycopg.connect(re.sub(r"[+]\w+", "", database_url), autocommit=True) as other:
        other.execute("DELETE FROM deltas WHERE seq = 1")  # told at once
        other.execute("UPDATE deltas SET codec = codec")  # told with what follows a second later
        vacuumed: list[str] = []

        def count_late(event: StatementEvent) -> None:
            if event.sql.startswith("VACUUM") and "deltas" in event.sql:
                vacuumed.append(event.sql)
                if len(vacuumed) == 1:
                    other.execute("SELECT pg_stat_force_next_flush()")

        unsubscribe = events.subscribe_statements(count_late)
        try:
            done = await space.reclaim(own)
        finally:
            unsubscribe()

    assert len(vacuumed) == 2
    assert not [one for one in done.advice if "still has" in one.reason]


async def _seen(db: Database) -> Any:
    from memalchemy.log.scan import run_query
    from memalchemy.maintenance.space import read_tables

    return await run_query(db, read_tables(db.dialect), {"p_schema": None})


@pytest.fixture
def moved(postgres: Postgres) -> Iterator[str]:
    name = postgres.create_database()
    yield postgres.url(name)
    postgres.drop_database(name)


async def test_tables_in_a_schema_of_their_own_are_found_there(
    moved: str, postgres: Postgres
) -> None:
    postgres.execute('CREATE SCHEMA "Mem ory"', moved.split("?")[0].rsplit("/", 1)[1])
    async with Database(moved, schema="Mem ory", migrate="off") as db:
        await db.migrate()
        await fill(Checkpointer(db), threads=2)
        found = await space.measure(db)
        done = await space.reclaim(db)
    assert {"deltas", "ix_deltas_search_text"} <= {piece.name for piece in found.pieces}
    assert done.before
    assert all("Mem ory" in line for one in done.advice for line in one.commands)


async def test_through_a_pooler_nothing_is_vacuumed(bouncer: Postgres, postgres: Postgres) -> None:
    name = postgres.create_database()
    try:
        async with Database(postgres.url(name), migrate="off") as owner:
            await owner.migrate()
        async with Database(bouncer.url(name), pgbouncer=True) as db:
            with pytest.raises(CapabilityMissing, match="PgBouncer"):
                await space.reclaim(db)
    finally:
        postgres.drop_database(name)
