"""What the databases do for our statements: indexes instead of scans, HOT updates, rowids."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from planner import Planner
from sqlalchemy import Connection
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import create_async_engine
from workers import proof
from workers.states import name_of

from clocks import Clock
from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.checkpoints import listing, load
from memalchemy.codec.tokens import query_terms
from memalchemy.keys import encode_id
from memalchemy.log import Log, bulk_delete, pending_writes
from memalchemy.log.listing import list_heads
from memalchemy.search.text import search_checkpoints
from memalchemy.store.read import list_expired
from servers import Postgres
from waiting import until

DEEP, OTHERS, EACH = 2_000, 50, 40
"""Checkpoints of the thread that is read, how many threads lie around it, and their checkpoints."""

KEY_OF_A_WRITE = "uq_deltas_entry_key (log_id=? AND entry_key>?"

LOG = Log("default", "deep", "/")
BINDS: dict[str, Any] = LOG.head_binds() | {
    "p_now": datetime(2100, 1, 1, tzinfo=UTC),
    "p_checkpoint_id": "deep-1000",
    "p_before": 1_000,
    "p_limit": 20,
    "p_low": "deep",
    "p_high": "deeq",
    "p_updated_at": datetime(2100, 1, 1, tzinfo=UTC),
    "p_active_at": datetime(2100, 1, 1, tzinfo=UTC),
    "p_thread_id": "deep",
    "p_terms": 1,
    "p_most": 200,
    "p_beyond": 201,
    "match_key": "number",
    "match_value": "7",
    "tenant": encode_id("default"),
    "namespace": "/",
}


async def fill(url: str) -> None:
    async def save(thread: str, checkpoints: int) -> None:
        for number in range(1, checkpoints + 1):
            name = name_of(thread, number)
            state = {"step": number, "words": f"{thread} said word{number}"}
            await keep.save(state, thread, name, {"number": number})

    db = Database(url)
    await db.migrate()
    async with db:
        keep = Checkpointer(db)
        await asyncio.gather(save("deep", DEEP), *(save(f"other {i}", EACH) for i in range(OTHERS)))


@pytest.fixture(scope="module")
def planner(postgres: Postgres) -> Iterator[Planner]:
    name = postgres.create_database()
    url = postgres.url(name)
    asyncio.run(fill(url))
    postgres.execute("ANALYZE", name)
    planner = Planner(postgres, name, url, BINDS)
    yield planner
    planner.close()
    postgres.drop_database(name)


MODES = pytest.mark.parametrize("mode", ["custom", "generic"])


@MODES
@pytest.mark.parametrize("which", ["newest", "named"])
def test_a_load_scans_neither_deltas_nor_checkpoints(
    planner: Planner, which: str, mode: str
) -> None:
    plan = planner.plan(load.read_chain(planner.memalchemy, which=which, signed=False), mode)

    # Some fifty threads are one page, which is read as soon as an index.
    assert plan.scanned <= {"threads"}
    assert "pk_deltas" in plan.indexes


@MODES
@pytest.mark.parametrize("before", [True, False])
def test_history_is_read_through_an_index(planner: Planner, before: bool, mode: str) -> None:
    plan = planner.plan(listing.list_checkpoints(planner.memalchemy, before=before), mode)

    assert "checkpoints" not in plan.scanned
    assert "pk_checkpoints" in plan.indexes


@MODES
def test_one_checkpoint_is_found_through_an_index(planner: Planner, mode: str) -> None:
    plan = planner.plan(listing.read_checkpoint(planner.memalchemy), mode)

    assert "checkpoints" not in plan.scanned


@MODES
@pytest.mark.parametrize("kind", ["text", "number", "container"])
def test_metadata_is_answered_by_its_index(planner: Planner, kind: str, mode: str) -> None:
    statement = listing.list_by_metadata(planner.memalchemy, kind=kind, exact=False)

    plan = planner.plan(statement, mode)

    assert "checkpoints" not in plan.scanned
    assert "ix_checkpoints_meta" in plan.indexes


RARE = pytest.mark.parametrize("rare", [False, True], ids=["of any", "of rare ones"])
ONE = pytest.mark.parametrize("one", [True, False], ids=["of one term", "of several"])


@MODES
@ONE
@RARE
def test_a_word_is_found_through_the_text_index(
    planner: Planner, rare: bool, one: bool, mode: str
) -> None:
    terms = planner.memalchemy.text.terms(query_terms("word1234"))

    statement = search_checkpoints(
        planner.memalchemy, scope="namespace", weighed=True, one=one, rare=rare, last_stored=False
    )

    plan = planner.plan(statement, mode, terms=terms)

    assert "deltas" not in plan.scanned
    assert "ix_deltas_search_text" in plan.indexes


@ONE
@RARE
def test_a_word_of_any_namespace_is_found_through_the_text_index_however_often_one_asks(
    planner: Planner, rare: bool, one: bool
) -> None:
    terms = planner.memalchemy.text.terms(query_terms("word1234"))
    statement = search_checkpoints(
        planner.memalchemy, scope="below", weighed=True, one=one, rare=rare, last_stored=False
    )

    plan = planner.plan(statement, "auto", terms=terms, k_beyond="0")

    assert "deltas" not in plan.scanned
    assert "ix_deltas_search_text" in plan.indexes


@MODES
@pytest.mark.parametrize("scope", ["below", "namespace"])
def test_the_newest_steps_are_read_through_indexes(planner: Planner, scope: str, mode: str) -> None:
    statement = search_checkpoints(
        planner.memalchemy, scope=scope, weighed=True, one=True, rare=False, last_stored=True
    )

    plan = planner.plan(statement, mode, terms=["'said'"], k_beyond="0", p_offset=0)

    assert plan.scanned <= {"threads"}
    assert {"pk_checkpoints", "pk_deltas"} <= plan.indexes
    assert "ix_deltas_search_text" not in plan.indexes


@MODES
def test_the_writes_of_what_is_pruned_are_found_by_their_keys(planner: Planner, mode: str) -> None:
    keys = f'[["{LOG.key}", "deep-1000", "w/deep-1000/", "w/deep-10000"]]'

    plan = planner.plan(bulk_delete.delete_pruned_writes(planner.memalchemy), mode, p_keys=keys)

    assert not plan.scanned
    assert "uq_deltas_entry_key" in plan.indexes


@MODES
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("prefix", [True, False])
def test_listing_threads_touches_neither_checkpoints_nor_deltas(
    planner: Planner, after: bool, prefix: bool, mode: str
) -> None:
    statement = list_heads(planner.memalchemy, of="checkpoints", after=after, prefix=prefix)

    plan = planner.plan(statement, mode)

    assert plan.scanned <= {"threads"}
    assert all("threads" in index for index in plan.indexes)


async def test_saves_update_their_thread_in_place(postgres: Postgres, clock: Clock) -> None:
    """HOT updates write no index entry; an index on a column that each save changes would end them.

    ``active_at`` is in one, and changes with the first save of a second: here there is one.
    """
    name = postgres.create_database()
    db = Database(postgres.url(name))
    await db.migrate()
    async with db:
        keep = Checkpointer(db)

        async def save(thread: str) -> None:
            for number in range(100):
                await keep.save({"step": number}, thread)

        await asyncio.gather(*(save(f"thread {i}") for i in range(5)))

    counters = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'threads'"
    # A server process adds up what it did when its client leaves.
    await until(lambda: postgres.execute(counters, name)[0][0] >= 495)
    ((updates, in_place),) = postgres.execute(counters, name)
    assert updates == 495
    assert updates - in_place < 5 + 0.1 * updates
    postgres.drop_database(name)


@pytest.fixture
async def empty(postgres: Postgres) -> AsyncIterator[str]:
    """A migrated database of the test's own."""
    name = postgres.create_database()
    db = Database(postgres.url(name))
    await db.migrate()
    await db.close()
    yield name
    postgres.drop_database(name)


async def test_a_word_of_very_many_steps_is_looked_for_in_the_newest_alone(
    postgres: Postgres, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.search.text.CANDIDATES", 20)
    engine = create_async_engine(postgres.url(empty, driver="asyncpg"))
    async with Database(engine) as db, engine.connect() as host:
        keep = Checkpointer(db)
        for number in range(300):
            await keep.save({f"said {number}": f"kettle {number}"}, "thread", str(number))
        hours = "interval '1 hour'"
        for change in (
            f"UPDATE checkpoints SET created_at = created_at + seq * {hours}",
            f"UPDATE threads SET active_at = active_at + 1000 * {hours}",
        ):
            await host.execute(sql(change))
        found = await keep.search("kettle", 3, connection=host)
        read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables "
        (rows,) = (await host.execute(sql(f"{read} WHERE relname = 'deltas'"))).one()
        await host.rollback()
    await engine.dispose()
    assert [hit["checkpoint_id"] for hit in found] == ["299", "298", "297"]
    # Of the sample, of the page twice, once when they are tested and once when they are read.
    assert 40 <= rows < 150


async def _save(db: Database, said: str, number: int) -> None:
    await Checkpointer(db).save({"said": said}, "thread", str(number))


async def _save_with_parent(db: Database, said: str, number: int) -> None:
    parent = {"parent_id": str(number - 1)} if number else {}
    await Checkpointer(db).save({"said": said}, "thread", str(number), **parent)


async def _append(db: Database, said: str, number: int) -> None:
    await ThreadLog(db).append("thread", [said])


async def _append_by_key(db: Database, said: str, number: int) -> None:
    half = len(said) // 2
    keys = [f"{number}a", f"{number}b"]
    await ThreadLog(db).append("thread", [said[:half], said[half:]], keys=keys)


@pytest.mark.parametrize("write", [_save, _save_with_parent, _append, _append_by_key])
async def test_writes_leave_a_search_few_words_that_are_not_in_the_index_yet(
    postgres: Postgres, empty: str, write: Callable[[Database, str, int], Awaitable[None]]
) -> None:
    """A search reads those one by one, and the server alone would put off 4 MB of them."""
    async with Database(postgres.url(empty)) as db:
        for number in range(40):
            await write(db, " ".join(f"w{number}x{each}" for each in range(1_000)), number)

    merged = "SELECT gin_clean_pending_list('ix_deltas_search_text')"
    ((pages,),) = postgres.execute(merged, empty)
    assert pages <= (128 + 2 * 32) // 8


async def test_a_save_leaves_a_hosts_connection_as_it_was(postgres: Postgres, empty: str) -> None:
    asked = sql("SHOW gin_pending_list_limit")
    engine = create_async_engine(postgres.url(empty, driver="asyncpg"))
    async with Database(engine) as db, engine.connect() as host:
        before = (await host.execute(asked)).scalar_one()
        await Checkpointer(db).save({"said": "kettle"}, "thread", connection=host)
        await host.commit()
        after = (await host.execute(asked)).scalar_one()
    await engine.dispose()
    assert before == after


@pytest.fixture
def file(tmp_path: Any) -> str:
    return f"sqlite:///{tmp_path}/agent.db"


async def explain(db: Database, statement: Any) -> list[str]:
    """Return the steps of SQLite's plan for a statement."""

    def ask(connection: Connection) -> list[str]:
        compiled = statement.compile(dialect=connection.dialect)
        asked = connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {compiled}", (None,) * len(compiled.positiontup)
        )
        return [row.detail for row in asked]

    return await db.run_sync(ask)


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("which", ["newest", "named"])
async def test_a_load_from_a_file_reads_every_table_through_an_index(
    file: str, which: str, analyzed: bool
) -> None:
    async with Database(file) as db:
        keep = Checkpointer(db)
        for number in range(1, 200):
            await keep.save({"step": number}, f"thread {number % 20}", f"c-{number}")
        if analyzed:
            await db.run_sync(lambda c: c.exec_driver_sql("ANALYZE"))

        steps = await explain(db, load.read_chain(db.dialect, which=which, signed=False))

    # The rows that the recursion has found so far are what it scans, and nothing else.
    assert {m[1] for step in steps if (m := re.match(r"SCAN (\S+)", step))} == {"chain"}
    searched = {
        m[1]
        for step in steps
        if (m := re.match(r"SEARCH (\S+) USING .*(?:INDEX|PRIMARY KEY)", step))
    }
    assert searched >= {"checkpoints", "deltas", "base", "threads"}


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (
            pending_writes.read_writes_of_checkpoints,
            "uq_deltas_entry_key (log_id=? AND entry_key>?",
        ),
        (listing.list_checkpoints_of_runs, "ix_checkpoints_run_id (tenant=? AND run_id=?"),
        (
            partial(list_expired, after=False),
            "ix_store_items_expires_at (tenant=? AND expires_at<?",
        ),
        (
            partial(list_expired, after=True),
            "ix_store_items_expires_at (tenant=? AND expires_at>? AND expires_at<?",
        ),
    ],
    ids=["writes of checkpoints", "runs", "expired items", "more of these"],
)
async def test_a_file_is_asked_through_the_index_that_was_made_for_it(
    file: str, statement: Any, index: str
) -> None:
    async with Database(file) as db:
        steps = await explain(db, statement(db.dialect))

    assert any(index in step for step in steps), steps


async def test_the_states_of_a_file_are_counted_in_its_indexes(file: str) -> None:
    async with Database(file) as db:
        steps = await explain(db, listing.measure_log(db.dialect))

    for index in ("sqlite_autoindex_deltas_1", "uq_deltas_entry_key", "ix_deltas_base_seq"):
        assert any(f"deltas USING COVERING INDEX {index} (log_id=?" in step for step in steps), (
            steps
        )


@pytest.mark.parametrize("exact", [True, False])
async def test_metadata_of_a_file_is_answered_by_its_index(file: str, exact: bool) -> None:
    """Only the checkpoints that it finds are read, however many the log has."""
    async with Database(file) as db:
        steps = await explain(db, listing.list_by_metadata(db.dialect, kind="text", exact=exact))

    assert "SEARCH checkpoints USING INTEGER PRIMARY KEY (rowid=?)" in steps
    others = [step for step in steps if re.match(r"(SCAN|SEARCH) (checkpoints|threads)\b", step)]
    assert [step[step.index("(") :] for step in others if "rowid=?" not in step] == [
        "(log_id=?)",
        "(log_id=? AND seq=?)",
        "(log_id=?)",
    ]


@pytest.mark.parametrize(
    "build",
    [
        lambda dialect: bulk_delete.delete_pruned_checkpoints(dialect, named=True),
        bulk_delete.delete_unneeded_states,
        bulk_delete.delete_pruned_writes,
    ],
    ids=["checkpoints", "states", "writes"],
)
async def test_a_batch_of_a_prune_reads_its_window_of_a_file_and_no_more(
    file: str, build: Any
) -> None:
    """Of a log it reads a range of positions, or one place, or the positions from the end on."""
    async with Database(file) as db:
        steps = await explain(db, build(db.dialect))

    whole = r"(SCAN|SEARCH) (checkpoints|deltas|base|resting)\b(?!.*\(log_id=\? AND )"
    assert not [step for step in steps if re.match(whole, step)], steps
    assert any("(log_id=? AND " in step for step in steps), steps


async def test_the_text_index_is_right_after_vacuum(file: str) -> None:
    """It knows rows by their rowid, which VACUUM may give anew if that is no INTEGER PRIMARY KEY.

    See xferOptimization in SQLite's insert.c.
    """
    names = [name_of("a", number) for number in range(1, 61)]
    gone = [name for number, name in enumerate(names) if number % 3 != 2]
    async with Database(file) as db:
        keep = Checkpointer(db, max_chain_depth=1)
        for name in names:
            await keep.save({"word": name.replace("-", "x")}, "thread", name, {"n": name})
        for name in gone:
            await keep.delete("thread", name)

    whole = sqlite3.connect(file.removeprefix("sqlite:///"), isolation_level=None)
    before = whole.execute("SELECT seq, rowid FROM deltas ORDER BY seq").fetchall()
    assert len(before) < len(names)
    whole.execute("VACUUM")
    whole.close()

    proof.file_is_sound(file)
    async with Database(file) as db:
        keep = Checkpointer(db)
        await keep.save({"word": "added"}, "thread", "added")
        for name in [*names, "added"]:
            left = [] if name in gone else [name]
            word = name.replace("-", "x")
            assert [hit["checkpoint_id"] for hit in await keep.search(word)] == left
            by_metadata = await keep.query_by_metadata("n", name)
            assert [hit["checkpoint_id"] for hit in by_metadata] == [
                n for n in left if n != "added"
            ]
    proof.file_is_sound(file)
