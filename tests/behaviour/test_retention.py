"""Retention as an operation: what goes over many threads, in what portions, and what it tells."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, select, text, update
from sqlalchemy import event as sa_event
from sqlalchemy.engine import Engine

from lifetimes import MOMENT
from memalchemy import Checkpointer, Database, events
from memalchemy.contracts import Progress
from memalchemy.events import Event
from memalchemy.log import CHECKPOINTS, DELTAS, THREADS, Log, bulk_delete
from rows import copy_logs, logs_of
from waiting import A_WHILE, give_time_to_go_wrong

NAMESPACES = ((), ("graph",), ("a", "b"))
PORTION = 7


def state(thread: str, number: int) -> dict[str, Any]:
    return {"who": thread, "text": f"{thread} said {number} " * 8, "n": number}


async def dead_rows(db: Database) -> int:
    """States that no name leads to, over any number of bases."""
    states = select(DELTAS.c.log_id, DELTAS.c.seq, DELTAS.c.base_seq)
    names = select(CHECKPOINTS.c.log_id, CHECKPOINTS.c.seq)
    states = states.where(DELTAS.c.tenant == db.tenant)
    names = names.where(CHECKPOINTS.c.tenant == db.tenant)
    rows, named = await db.run_sync(lambda c: (c.execute(states).all(), c.execute(names).all()))
    bases = {(row.log_id, row.seq): (row.log_id, row.base_seq) for row in rows}
    alive = set()
    for row in named:
        at = (row.log_id, row.seq)
        while at in bases and at not in alive:
            alive.add(at)
            at = bases[at]
    return len(bases) - len(alive)


async def aged(db: Database, thread: str, before: int, days: int) -> None:
    """Make a thread's checkpoints up to a position so many days old."""
    then = datetime.now(UTC) - timedelta(days=days)
    logs = select(THREADS.c.log_id).where(
        THREADS.c.tenant == db.tenant, THREADS.c.thread_id == thread
    )
    of = CHECKPOINTS.c.log_id.in_(logs)
    old = update(CHECKPOINTS).where(of, CHECKPOINTS.c.seq <= before).values(occurred_at=then)
    await db.run_sync(lambda c: c.execute(old))


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows and logs in a transaction, so that a few threads make many of them."""
    monkeypatch.setattr(bulk_delete, "MAX_ROWS", PORTION)
    monkeypatch.setattr(bulk_delete, "MAX_LOGS", 3)


@pytest.mark.unsigned_only("it changes rows by hand")
@pytest.mark.usefixtures("small_portions")
@pytest.mark.parametrize("seed", range(4))
async def test_pruning_all_keeps_what_a_simple_model_keeps(db: Database, seed: int) -> None:
    chance = random.Random(seed)
    model: dict[tuple[tuple[str, ...], str], list[tuple[int, str, bool]]] = defaultdict(list)
    for number in range(12):
        namespace, thread = chance.choice(NAMESPACES), f"t{number % 7}-\x00-'\"é"
        agent = Checkpointer(db, namespace=namespace, max_chain_depth=chance.choice((2, 64)))
        log = model[namespace, thread]
        for _ in range(chance.choice((1, 3, 20))):
            seq = len(log) + 1
            parent = chance.choice(log)[1] if log and chance.random() < 0.3 else None
            await agent.save(state(thread, seq), thread, f"c{seq}", parent_id=parent)
            log.append((seq, f"c{seq}", False))
    for thread in {thread for _, thread in model}:
        await aged(db, thread, 9, days=40)
    rules: dict[str, Any] = {
        "keep_last": chance.choice((None, 1, 4)),
        "keep_every": chance.choice((None, 3)),
        "older_than": chance.choice((timedelta(days=30), None)),
    }
    if not any(rules.values()):
        rules["keep_last"] = 2

    def stays(seq: int, last: int) -> bool:
        return (
            last - seq < (rules["keep_last"] or 1)
            or (rules["keep_every"] is not None and seq % rules["keep_every"] == 0)
            or (rules["older_than"] is not None and seq > 9)
        )

    kept = {
        key: [name for seq, name, _ in log if stays(seq, len(log))] for key, log in model.items()
    }
    going = sum(len(log) - len(kept[key]) for key, log in model.items())

    every = Checkpointer(db)
    assert await every.prune(**rules, all_namespaces=True, dry_run=True) == going
    assert await every.prune(**rules, all_namespaces=True) == going
    for (namespace, thread), names in kept.items():
        agent = Checkpointer(db, namespace=namespace)
        assert await agent.list_checkpoints(thread, 100) == names[::-1]
        for name in names:
            assert await agent.load(thread, name) == state(thread, int(name[1:]))
    assert await dead_rows(db) == 0
    assert await every.prune(**rules, all_namespaces=True) == 0


async def test_without_all_namespaces_only_the_own_is_pruned(db: Database) -> None:
    mine, graph = Checkpointer(db), Checkpointer(db, namespace=("graph",))
    for agent in (mine, graph):
        for number in range(4):
            await agent.save(state("t", number), "t")

    assert await mine.prune(keep_last=1) == 3
    assert len(await graph.list_checkpoints("t")) == 4
    assert await mine.prune("t", keep_last=1, all_namespaces=True) == 3
    assert len(await graph.list_checkpoints("t")) == 1


async def test_other_tenants_keep_theirs(db: Database) -> None:
    other = db.for_tenant(f"{db.tenant}-2")
    for one in (db, other):
        for number in range(3):
            await Checkpointer(one).save({"n": number}, "t")

    assert await Checkpointer(db).prune(keep_last=1, all_namespaces=True) == 2
    await Checkpointer(db).vacuum(0, all_namespaces=True)

    assert len(await Checkpointer(other).list_checkpoints("t")) == 3
    await Checkpointer(other).forget(tenant=other.tenant)


async def test_a_dry_run_reads_only(db: Database, checkpointer: Checkpointer) -> None:
    for number in range(6):
        await checkpointer.save(state("t", number), "t")
    sent: list[str] = []

    def look(conn: Any, cursor: Any, sql: str, *_: Any) -> None:
        sent.append(sql.split()[0])

    sa_event.listen(Engine, "before_cursor_execute", look)
    try:
        assert await checkpointer.prune(keep_last=2, dry_run=True) == 4
        assert await checkpointer.vacuum(0, dry_run=True) == 6
    finally:
        sa_event.remove(Engine, "before_cursor_execute", look)

    assert set(sent) - {"BEGIN", "COMMIT"} <= {"SELECT", "WITH"}
    assert len(await checkpointer.list_checkpoints("t")) == 6


async def test_progress_tells_how_far_it_is(db: Database, checkpointer: Checkpointer) -> None:
    for thread in range(5):
        for number in range(3):
            await checkpointer.save({"n": number}, f"t{thread}")
    seen: list[Progress] = []

    await checkpointer.prune(keep_last=1, progress=seen.append)

    assert seen[-1] == Progress(done=5, total=5, removed=10, busy=0)
    assert [p.removed for p in seen] == sorted(p.removed for p in seen)
    seen.clear()
    await checkpointer.vacuum(0, progress=seen.append)
    assert seen[-1] == Progress(done=5, total=5, removed=5, busy=0)


@pytest.mark.usefixtures("small_portions")
async def test_an_interrupted_run_goes_on_where_something_is_left(
    db: Database, checkpointer: Checkpointer, reopen: Callable[[], Database]
) -> None:
    for thread in range(6):
        for number in range(10):
            await checkpointer.save(state(f"t{thread}", number), f"t{thread}", f"c{number}")

    class Stopped(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.removed >= 20:
            raise Stopped

    with pytest.raises(Stopped):
        await checkpointer.prune(keep_last=2, progress=stop)

    async with reopen() as fresh:
        keep = Checkpointer(fresh)
        left = [len(await keep.list_checkpoints(f"t{thread}", 100)) for thread in range(6)]
        assert 12 < sum(left) < 60
        # Also of a thread that was left in the middle of its rows, everything that is there loads.
        for thread in range(6):
            for name in await keep.list_checkpoints(f"t{thread}", 100):
                assert await keep.load(f"t{thread}", name) == state(f"t{thread}", int(name[1:]))
        assert await keep.prune(keep_last=2, dry_run=True) == sum(left) - 12
        sent: list[str] = []
        unsubscribe = _locked(sent)
        assert await keep.prune(keep_last=2) == sum(left) - 12
        unsubscribe()
        assert await dead_rows(fresh) == 0
    done = {f"t{thread}" for thread in range(6) if left[thread] == 2}
    assert done
    assert not [thread for thread in done for binds in sent if f'"{thread}"' in binds]


@pytest.mark.unsigned_only("it changes rows by hand")
@pytest.mark.usefixtures("small_portions")
async def test_states_that_lost_their_names_go_with_the_next_prune(
    db: Database, checkpointer: Checkpointer
) -> None:
    for number in range(3 * PORTION + 1):
        await checkpointer.save(state("t", number), "t")
    (log,) = await db.run_sync(lambda c: list(logs_of(c, db.tenant, "t")))
    older = (CHECKPOINTS.c.log_id == log.key, CHECKPOINTS.c.seq <= 2 * PORTION)
    await db.run_sync(lambda c: c.execute(delete(CHECKPOINTS).where(*older)))
    assert await dead_rows(db) > PORTION

    assert await checkpointer.prune(keep_last=2 * PORTION) == 0
    assert await dead_rows(db) == 0


@pytest.mark.usefixtures("small_portions")
@pytest.mark.parametrize("rules", [{"keep_last": 5}, {"keep_every": 4}, {"keep_last": 20}], ids=str)
async def test_each_batch_of_a_long_thread_leaves_it_whole(
    db: Database, checkpointer: Checkpointer, rules: dict[str, int]
) -> None:
    for number in range(5 * PORTION):
        await checkpointer.save(state("t", number), "t", f"c{number}")
        await checkpointer.put_writes([("said", number)], "t", f"c{number}", "task")
    seen: list[Progress] = []

    class Stopped(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.removed:
            seen.append(progress)
            raise Stopped

    left = 5 * PORTION
    for _ in range(20):
        going = await checkpointer.prune("t", dry_run=True, **rules)
        try:
            assert await checkpointer.prune("t", progress=stop, **rules) == 0
        except Stopped:
            left -= seen[-1].removed
            assert 0 < seen[-1].removed <= min(PORTION, going)
        names = await checkpointer.list_checkpoints("t", 100)
        assert len(names) == left
        assert await dead_rows(db) == left, "each has its writes, and nothing else is nameless"
        for name in names:
            assert await checkpointer.load("t", name) == state("t", int(name[1:]))
            assert [w.value for w in await checkpointer.get_writes("t", name)] == [int(name[1:])]
        if not going:
            break
    kept = {n + 1 for n in range(5 * PORTION) if n >= 5 * PORTION - rules.get("keep_last", 1)}
    kept |= {n for n in range(1, 5 * PORTION + 1) if n % rules.get("keep_every", 1000) == 0}
    assert left == len(kept)


def _locked(into: list[str]) -> Callable[[], None]:
    """Write down the lists of logs that anything is done to; returns what ends it."""

    def look(conn: Any, cursor: Any, sql: str, parameters: Any, *_: Any) -> None:
        if "DELETE" in sql or "UPDATE" in sql:
            into.append(str(parameters))

    sa_event.listen(Engine, "before_cursor_execute", look)
    return lambda: sa_event.remove(Engine, "before_cursor_execute", look)


async def test_a_thread_that_is_held_is_passed_over_and_one_named_is_waited_for(
    db: Database, checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if db.dialect.single_writer:
        return  # a transaction that holds a thread holds the database
    monkeypatch.setattr("memalchemy.checkpoints.retention.PAUSES", (0.0, 0.0))
    for thread in ("free", "held"):
        for number in range(4):
            await checkpointer.save(state(thread, number), thread)
    seen: list[Progress] = []

    async with db.transaction() as tx:
        await checkpointer.save({"mine": 1}, "held", connection=tx)
        async with asyncio.timeout(A_WHILE):
            assert await checkpointer.prune(keep_last=1, progress=seen.append) == 3
            assert seen[-1].busy == 1
            seen.clear()
            # One that was saved in time to stay, and the one that is held.
            assert await checkpointer.vacuum(0, progress=seen.append) == 1
            assert seen[-1].busy == 1
        waiting = asyncio.create_task(checkpointer.prune("held", keep_last=1))
        await give_time_to_go_wrong()
        assert not waiting.done()
    assert await waiting == 4
    assert await checkpointer.load("held") == {"mine": 1}
    assert await dead_rows(db) == 0


@pytest.mark.asyncio_only(reason="it waits for an event of its loop, set where progress is told")
async def test_a_thread_that_becomes_free_is_pruned_at_the_end(
    db: Database, checkpointer: Checkpointer
) -> None:
    if db.dialect.single_writer:
        return  # as above
    for thread in ("free", "held"):
        for number in range(4):
            await checkpointer.save(state(thread, number), thread)
    passed_over = asyncio.Event()

    def watch(progress: Progress) -> None:
        if progress.busy:
            passed_over.set()

    async with db.transaction() as tx:
        await checkpointer.save({"mine": 1}, "held", connection=tx)
        pruning = asyncio.create_task(checkpointer.prune(keep_last=1, progress=watch))
        await passed_over.wait()

    assert await pruning == 3 + 4
    assert await checkpointer.list_checkpoints("held") == [
        (await checkpointer.get_metadata("held") or {})["checkpoint_id"]
    ]


@pytest.mark.usefixtures("small_portions")
async def test_a_long_thread_that_is_in_use_between_two_batches_is_tried_again(
    db: Database, checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4 * PORTION):
        await checkpointer.save(state("t", number), "t")
    prune_batch = bulk_delete.prune_batch
    passed_over: list[int] = []

    def lock_once(*arguments: Any, **options: Any) -> Any:
        below = arguments[-1]
        if below is not None and not passed_over:
            passed_over.append(below)
            return bulk_delete.BatchResult([], 0)
        return (yield from prune_batch(*arguments, **options))

    monkeypatch.setattr(bulk_delete, "prune_batch", lock_once)

    assert await checkpointer.prune(keep_last=1) == 4 * PORTION - 1
    assert passed_over


async def test_a_cached_base_that_was_pruned_is_not_built_on(
    db: Database, checkpointer: Checkpointer, reopen: Callable[[], Database]
) -> None:
    for number in range(9):
        await checkpointer.save(state("t", number), "t", f"c{number}")
    async with reopen() as elsewhere:
        # A branch that is not built on the newest, which is what the first process remembers.
        await Checkpointer(elsewhere).save(state("t", 9), "t", "branch", parent_id="c0")
        assert await Checkpointer(elsewhere).prune(keep_last=1, all_namespaces=True) == 9
    await checkpointer.save(state("t", 10), "t", "after")

    async with reopen() as elsewhere:
        assert await Checkpointer(elsewhere).load("t", "after") == state("t", 10)
    assert await dead_rows(db) == 0


@pytest.mark.unsigned_only("it ages a tombstone without the key")
async def test_vacuum_without_days_removes_what_nobody_sees(
    db: Database, checkpointer: Checkpointer
) -> None:
    graph = Checkpointer(db, namespace=("graph",))
    for thread in ("live", "deleted", "buried"):
        await checkpointer.save({}, thread)
    await graph.save({}, "expired", ttl=MOMENT)
    await checkpointer.delete("deleted")
    await checkpointer.delete("buried")
    long_ago = datetime.now(UTC) - timedelta(hours=25)
    old = update(THREADS).where(THREADS.c.tenant == db.tenant, THREADS.c.thread_id == "buried")
    await db.run_sync(lambda c: c.execute(old.values(deleted_at=long_ago)))

    assert await checkpointer.vacuum(None, all_namespaces=True) == 1

    rows = await db.run_sync(
        lambda c: c.execute(
            text("SELECT thread_id FROM threads WHERE tenant = :t ORDER BY thread_id"),
            {"t": db.tenant},
        ).all()
    )
    assert [row[0] for row in rows] == ["deleted", "live"]


@pytest.mark.unsigned_only("it counts statements")
async def test_a_hundred_times_the_threads_take_the_same_statements_a_batch(
    db: Database, checkpointer: Checkpointer
) -> None:
    """10,000 threads: bounded memory, and as many statements a hundred threads as for the first."""
    await checkpointer.save({"n": 1}, "t", "c1")
    await checkpointer.save({"n": 2}, "t", "c2")
    await _multiply(db, "t", 10_000)
    told: list[Event] = []
    unsubscribe = events.subscribe(told.append)
    tracemalloc.start()
    try:
        pruned = await checkpointer.prune(keep_last=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        unsubscribe()

    assert pruned == 10_001
    (event,) = (one for one in told if one.name == "checkpoint.prune")
    pages = 10_001 // bulk_delete.MAX_LOGS + 1
    # Of a page of logs: read, lock, rank, forget, sweep, move. A cluster does them log by log.
    most = 10_001 * 8 + pages if db.dialect.distributed else pages * 7
    assert event.round_trips <= most
    assert peak < 8 * 1024 * 1024
    assert await checkpointer.prune(keep_last=1, dry_run=True) == 0
    assert await checkpointer.vacuum(0) == 10_001


async def _multiply(db: Database, thread: str, times: int) -> None:
    """Copy a thread's rows, inside the database, under so many ids."""

    def work(connection: Any) -> None:
        (log,) = logs_of(connection, db.tenant, thread)
        copies = ((log, log._replace(thread_id=f"{thread}-{n}")) for n in range(1, times + 1))
        copy_logs(connection, copies)

    await db.run_sync(work)


def test_a_batch_of_logs_fits_into_one_list_on_every_database() -> None:
    from memalchemy.dialects import DIALECTS

    logs = [Log("t", f"{'漢' * 200}{n}", "/") for n in range(bulk_delete.MAX_LOGS + 1)]
    found = [bulk_delete.RemovableLog(log, 1, 1) for log in logs]
    batches = list(bulk_delete.transaction_batches(DIALECTS["sqlite"], found))
    assert [[one.log for one in batch] for batch in batches] == [logs[:-1], logs[-1:]]
    for d in DIALECTS.values():
        assert bulk_delete.log_list_binds(d, logs[:-1])
    whole = [
        bulk_delete.RemovableLog(Log("t", str(n), "/"), bulk_delete.MAX_ROWS + 1, 1)
        for n in range(3)
    ]
    assert [len(batch) for batch in bulk_delete.transaction_batches(DIALECTS["sqlite"], whole)] == [
        1,
        1,
        1,
    ]


async def test_every_operation_that_keeps_or_erases_is_an_event(
    db: Database, checkpointer: Checkpointer
) -> None:
    for number in range(3):
        await checkpointer.save(state("t", number), "t", f"c{number}")
    told: list[Event] = []
    unsubscribe = events.subscribe(told.append)
    try:
        await checkpointer.fork("t", new_thread_id="f")
        await checkpointer.copy_thread("t", "copy")
        assert len([record async for record in checkpointer.export(thread_id="t")]) == 3
        await checkpointer.prune(keep_last=1)
        await checkpointer.rewrite("t")
        await checkpointer.forget(thread_id="f")
        await checkpointer.vacuum(0)
        with pytest.raises(LookupError):
            await checkpointer.fork("nobody")
    finally:
        unsubscribe()

    assert [(e.name, e.error) for e in told] == [
        ("checkpoint.fork", None),
        ("checkpoint.copy", None),
        ("checkpoint.export", None),
        ("checkpoint.prune", None),
        ("checkpoint.rewrite", None),
        ("checkpoint.forget", None),
        ("checkpoint.vacuum", None),
        ("checkpoint.fork", "NotFound"),
    ]
    fork, copy, export, prune, _, forget, vacuum, _ = told
    assert (fork.thread_id, fork.checkpoint_id, fork.details) == ("t", "c2", {"to": "f"})
    assert copy.details == {"to": "copy"}
    assert export.details == {"exported": 3}
    assert prune.details == {"removed": 6, "busy": 0, "dry_run": False}
    assert forget.details == {"erased": 1}
    assert vacuum.details == {"removed": 2, "busy": 0, "dry_run": False}
    assert {e.tenant for e in told} == {db.tenant}
    assert all(e.round_trips > 0 for e in (fork, copy, prune, forget, vacuum))
