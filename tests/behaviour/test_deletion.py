"""Deleting, forgetting, expiring, pruning: what is gone is gone, what stays still loads."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from clocks import Clock
from lifetimes import MOMENT
from memalchemy import (
    Checkpointer,
    Conflict,
    Database,
    NotFound,
    Retention,
    Store,
    ThreadDeleted,
    ThreadLog,
    events,
)
from memalchemy.protection.key_registry import KEYS_NAMESPACE
from memalchemy.schema import (
    CheckpointRow,
    DeltaRow,
    EmbeddingRow,
    StoreItemRow,
    ThreadRow,
)
from memalchemy.verify import verify

ROWS = (ThreadRow, CheckpointRow, DeltaRow, StoreItemRow, EmbeddingRow)


async def rows(db: Database, *tables: Any) -> list[int]:
    """How many rows this test's tenant has in each table, but the mark of ``--encrypted``."""
    found = []
    async with db.transaction() as tx:
        for table in tables:
            query = select(func.count()).select_from(table).where(table.tenant == db.tenant)
            if table is StoreItemRow:
                query = query.where(table.namespace != KEYS_NAMESPACE)
            found.append((await tx.execute(query)).scalar_one())
    return found


async def grow(checkpointer: Checkpointer, count: int, thread: str = "thread") -> list[str]:
    return [
        await checkpointer.save({"messages": [f"message {i}" for i in range(n)]}, thread, f"c{n}")
        for n in range(count)
    ]


async def assert_all_load(
    checkpointer: Checkpointer, ids: list[str], thread: str = "thread"
) -> None:
    for checkpoint_id in ids:
        expected = {"messages": [f"message {i}" for i in range(int(checkpoint_id[1:]))]}
        assert await checkpointer.load(thread, checkpoint_id) == expected


async def test_a_deleted_checkpoint_is_gone_and_the_others_load(checkpointer: Checkpointer) -> None:
    ids = await grow(checkpointer, 40)
    for gone in ("c0", "c16", "c32", "c33", "c7", "c39"):
        assert await checkpointer.delete("thread", gone) is True
        ids.remove(gone)
        assert await checkpointer.load("thread", gone) is None
        assert await checkpointer.exists("thread", gone) is False
        assert await checkpointer.list_checkpoints("thread", 100) == ids[::-1]
        await assert_all_load(checkpointer, ids)

    assert await checkpointer.load("thread") == {"messages": [f"message {i}" for i in range(38)]}
    assert await checkpointer.delete("thread", "c0") is False
    assert await checkpointer.delete("thread", "nobody") is False


async def test_after_the_newest_is_deleted_a_save_follows_the_one_before(
    checkpointer: Checkpointer,
) -> None:
    await grow(checkpointer, 5)
    await checkpointer.delete("thread", "c4")
    await checkpointer.save({"messages": []}, "thread", "new", expected_parent="c3")

    assert (await checkpointer.get_metadata("thread"))["parent_id"] == "c3"


async def test_deleting_every_checkpoint_leaves_no_state_behind(
    checkpointer: Checkpointer, db: Database
) -> None:
    for checkpoint_id in await grow(checkpointer, 20):
        await checkpointer.delete("thread", checkpoint_id)

    assert await rows(db, CheckpointRow, DeltaRow) == [0, 0]
    assert await checkpointer.load("thread") is None
    assert not await checkpointer.exists("thread")
    assert await checkpointer.list_threads() == []
    await checkpointer.save({"n": 1}, "thread", expected_parent=None)
    assert await checkpointer.load("thread") == {"n": 1}


async def test_a_save_on_a_base_that_another_process_deleted_is_whole(
    checkpointer: Checkpointer, reopen: Callable[[], Database]
) -> None:
    ids = await grow(checkpointer, 17)
    async with reopen() as other:
        for checkpoint_id in ids:
            await Checkpointer(other).delete("thread", checkpoint_id)
    await checkpointer.save({"messages": ["message 0"]}, "thread", "c1")

    async with reopen() as other:
        await assert_all_load(Checkpointer(other), ["c1"])


async def test_a_deleted_thread_is_gone_in_every_namespace(db: Database) -> None:
    one, two = Checkpointer(db), Checkpointer(db, namespace=("two",))
    for checkpointer in (one, two):
        await checkpointer.save({"word": "needle"}, "thread")

    assert await one.delete("thread") is True
    for checkpointer in (one, two):
        assert await checkpointer.load("thread") is None
        assert await checkpointer.list_threads() == []
        assert await checkpointer.search("needle") == []
        assert await checkpointer.delete("thread") is False
    assert await rows(db, CheckpointRow, DeltaRow) == [0, 0]


async def test_a_late_save_that_builds_on_a_deleted_thread_is_refused(
    checkpointer: Checkpointer,
) -> None:
    last = (await grow(checkpointer, 3))[-1]
    await checkpointer.delete("thread")

    for arguments in ({"parent_id": last}, {"expected_parent": last}):
        with pytest.raises(ThreadDeleted, match="start the thread anew"):
            await checkpointer.save({}, "thread", **arguments)
    assert not await checkpointer.exists("thread")


async def test_a_parentless_save_starts_a_deleted_thread_anew(
    checkpointer: Checkpointer, reopen: Callable[[], Database]
) -> None:
    await grow(checkpointer, 5)
    async with reopen() as other:
        await Checkpointer(other).delete("thread")
    # This process still has the old states cached.
    await checkpointer.save({"n": 1}, "thread", "new")

    assert await checkpointer.list_checkpoints("thread") == ["new"]
    assert (await checkpointer.get_metadata("thread"))["parent_id"] is None
    async with reopen() as other:
        assert await Checkpointer(other).load("thread") == {"n": 1}


async def test_a_new_life_can_demand_that_there_is_none(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 2)
    await checkpointer.delete("thread")
    await checkpointer.save({"n": 1}, "thread", expected_parent=None)

    with pytest.raises(Conflict):
        await checkpointer.save({"n": 2}, "thread", expected_parent=None)


@pytest.mark.unsigned_only("it counts statements")
@pytest.mark.plaintext_only(
    "a payload with keys is sent when its position is known", on=("postgresql", "psycopg")
)
async def test_retention_is_kept_by_each_save_without_another_trip(db: Database) -> None:
    checkpointer = Checkpointer(db, retention=Retention(keep_last=3))
    seen: list[events.Event] = []
    unsubscribe = events.subscribe(seen.append)
    for n in range(40):
        await checkpointer.save({"messages": [f"message {i}" for i in range(n)]}, "thread", f"c{n}")
        expected = [f"c{i}" for i in range(n, max(-1, n - 3), -1)]
        assert await checkpointer.list_checkpoints("thread") == expected
    unsubscribe()

    await assert_all_load(checkpointer, ["c37", "c38", "c39"])
    saves = [event for event in seen if event.name == "checkpoint.save"]
    trips = {event.round_trips for event in saves[1:]}
    trips_of_many = 4 if db.dialect.upserts else 5
    assert trips == {1 if db.dialect.single_statement_save else trips_of_many}


async def test_retention_gives_the_room_back(db: Database) -> None:
    checkpointer = Checkpointer(db, retention=Retention(keep_last=2))
    for n in range(300):
        await checkpointer.save({"n": n, "text": "x" * n}, "thread")

    (left,) = await rows(db, DeltaRow)
    assert left < 60


async def test_saving_one_id_over_and_over_gives_the_room_back(
    checkpointer: Checkpointer, db: Database
) -> None:
    for n in range(200):
        await checkpointer.save({"n": n, "text": "x" * n}, "thread", "latest")

    (left,) = await rows(db, DeltaRow)
    assert left < 60


async def test_replacing_under_retention_keeps_as_many_as_promised(db: Database) -> None:
    checkpointer = Checkpointer(db, retention=Retention(keep_last=3))
    for name in ("a", "b", "c", "b", "b", "d"):
        await checkpointer.save({"name": name}, "thread", name)

    assert await checkpointer.list_checkpoints("thread") == ["d", "b", "c"]


async def test_pruning_keeps_what_any_rule_keeps(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 20)
    assert await checkpointer.prune("thread", keep_last=3, keep_every=5) == 14
    kept = await checkpointer.list_checkpoints("thread", 100)

    # Positions count from one: c4 is the fifth.
    assert kept == ["c19", "c18", "c17", "c14", "c9", "c4"]
    await assert_all_load(checkpointer, kept)
    assert await checkpointer.prune("thread", older_than=3600) == 0
    assert await checkpointer.prune("thread", older_than=timedelta(microseconds=1)) == 5
    assert await checkpointer.list_checkpoints("thread") == ["c19"]


async def test_pruning_every_thread(checkpointer: Checkpointer) -> None:
    for thread in ("a", "b", "c"):
        await grow(checkpointer, 4, thread)

    assert await checkpointer.prune(keep_last=1) == 9
    for thread in ("a", "b", "c"):
        assert await checkpointer.list_checkpoints(thread) == ["c3"]
    assert await checkpointer.prune("no such thread", keep_last=1) == 0


@pytest.mark.parametrize(
    "rules", [{}, {"keep_last": 0}, {"keep_every": -1}, {"older_than": 0}, {"keep_last": 1.5}]
)
async def test_rules_that_make_no_sense_are_refused(
    checkpointer: Checkpointer, rules: dict[str, Any]
) -> None:
    await grow(checkpointer, 2)

    with pytest.raises((ValueError, TypeError)):
        await checkpointer.prune("thread", **rules)
    assert len(await checkpointer.list_checkpoints("thread")) == 2


@pytest.mark.parametrize("ttl", [60, timedelta(minutes=1)])
async def test_an_expired_thread_is_gone_for_every_reader(
    db: Database, clock: Clock, ttl: Any
) -> None:
    checkpointer = Checkpointer(db, ttl=ttl)
    made = await checkpointer.save({"word": "needle"}, "thread", metadata={"k": "v"})
    clock.go_on(timedelta(seconds=59))
    assert await checkpointer.load("thread") == {"word": "needle"}
    clock.go_on(timedelta(seconds=2))

    assert await checkpointer.load("thread") is None
    assert await checkpointer.load("thread", made) is None
    assert not await checkpointer.exists("thread")
    assert await checkpointer.list_checkpoints("thread") == []
    assert [info async for info in checkpointer.history("thread")] == []
    assert await checkpointer.list_threads() == []
    assert await checkpointer.list_with_metadata() == []
    assert await checkpointer.query_by_metadata("k", "v") == []
    assert await checkpointer.search("needle") == []
    assert await checkpointer.get_metadata("thread") is None
    assert not await checkpointer.delete("thread", made)
    assert not await checkpointer.copy_thread("thread", "copy")
    with pytest.raises(NotFound):
        await checkpointer.fork("thread")


async def test_a_save_after_expiry_starts_a_new_life(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"n": 1}, "thread", "old", ttl=MOMENT)
    await checkpointer.save({"n": 2}, "thread", "new")

    assert await checkpointer.list_checkpoints("thread") == ["new"]
    assert (await checkpointer.get_metadata("thread"))["parent_id"] is None
    assert await rows(db, DeltaRow) == [1]


async def test_after_a_save_without_a_ttl_the_thread_does_not_expire(
    db: Database, clock: Clock
) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"n": 1}, "thread", ttl=60)
    await checkpointer.save({"n": 2}, "thread")
    clock.go_on(timedelta(days=1000))

    assert await checkpointer.load("thread") == {"n": 2}


async def test_export_writes_out_expired_threads_too(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"n": 1}, "thread", ttl=MOMENT)

    assert len([r async for r in checkpointer.export(thread_id="thread")]) == 1
    assert await checkpointer.forget(thread_id="thread") == 1


async def test_no_word_of_a_forgotten_thread_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with Database(f"sqlite:///{path}") as db:
        checkpointer = Checkpointer(db)
        for n in range(50):
            await checkpointer.save({"text": f"quuxstreet {n}"}, "thread", metadata={"k": "quuxk"})
            await checkpointer.save({"text": f"other {n}"}, "other")
        await checkpointer.forget(thread_id="thread")
        await db.run_sync(lambda c: c.exec_driver_sql("PRAGMA incremental_vacuum"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")

    assert b"quuxst" not in path.read_bytes()
    assert b"other" in path.read_bytes()


async def test_each_save_moves_the_expiry(db: Database, clock: Clock) -> None:
    checkpointer = Checkpointer(db, ttl=60)
    await checkpointer.save({"n": 1}, "thread", ttl=10)
    await checkpointer.save({"n": 2}, "thread")
    clock.go_on(timedelta(seconds=30))

    assert await checkpointer.load("thread") == {"n": 2}


@pytest.mark.parametrize("ttl", [0, -1, timedelta(0)])
async def test_a_ttl_of_no_time_is_refused(db: Database, ttl: Any) -> None:
    with pytest.raises(ValueError, match="ttl"):
        Checkpointer(db, ttl=ttl)


@pytest.mark.unsigned_only("it counts all rows, and the key is one")
async def test_vacuum_removes_idle_and_expired_threads_and_counts_checkpoints(
    checkpointer: Checkpointer, db: Database
) -> None:
    await grow(checkpointer, 3, "idle")
    await checkpointer.save({}, "expired", ttl=MOMENT)

    assert await checkpointer.vacuum() == 1
    assert await checkpointer.vacuum(1) == 0
    assert await checkpointer.list_threads() == ["idle"]
    assert await checkpointer.vacuum(older_than_days=0, dry_run=True) == 3
    assert await checkpointer.list_threads() == ["idle"]
    assert await checkpointer.vacuum(0) == 3
    assert await rows(db, *ROWS) == [0] * 5


@pytest.mark.unsigned_only("it counts all rows, and the key is one")
async def test_vacuum_goes_through_any_number_of_threads(db: Database) -> None:
    checkpointer = Checkpointer(db, index_text=False)
    for n in range(230):
        await checkpointer.save({}, f"t{n}")

    assert await checkpointer.vacuum(0) == 230
    assert await rows(db, *ROWS) == [0] * 5


async def test_rewriting_leaves_nothing_of_deleted_states(
    checkpointer: Checkpointer, db: Database
) -> None:
    # A first state that does not compress: the others are deltas, and the ninth is a base of many.
    ballast = random.Random(1).randbytes(5000)
    for n in range(20):
        secret = "the secret phrase " * 20 if n == 8 else ""
        state = {"n": n, "text": secret + "x" * n, "ballast": ballast}
        await checkpointer.save(state, "thread", f"c{n}")
    await checkpointer.delete("thread", "c8")
    (before,) = await rows(db, DeltaRow)
    dropped = await checkpointer.rewrite("thread")

    (after,) = await rows(db, DeltaRow)
    assert (before, after, dropped) == (20, 19, 1)
    for n in [n for n in range(20) if n != 8]:
        expected = {"n": n, "text": "x" * n, "ballast": ballast}
        assert await checkpointer.load("thread", f"c{n}") == expected
    await checkpointer.save({"n": 20}, "thread")
    assert await checkpointer.load("thread") == {"n": 20}
    assert await checkpointer.search("secret phrase") == []


@pytest.mark.unsigned_only("it counts all rows, and the key is one")
async def test_forgetting_a_thread_leaves_no_row_of_it(db: Database) -> None:
    one, two = Checkpointer(db), Checkpointer(db, namespace=("two",))
    await grow(one, 5)
    await grow(two, 3)
    await one.delete("thread", "c2")
    await grow(one, 2, "other")

    assert await one.forget(thread_id="thread") == 7
    assert await rows(db, ThreadRow, CheckpointRow, DeltaRow) == [1, 2, 2]
    assert await one.forget(thread_id="thread") == 0
    await one.delete("other")
    await one.forget(thread_id="other")
    assert await rows(db, *ROWS) == [0] * 5


async def test_forgetting_a_namespace_takes_what_threads_have_there_and_below(
    db: Database,
) -> None:
    root = Checkpointer(db)
    mine, below, beside = (
        Checkpointer(db, namespace=("users", *place))
        for place in (("ada",), ("ada", "eu"), ("adam",))
    )
    log = ThreadLog(db, namespace=("users", "ada", "log"))
    for one in (root, mine, below, beside):
        ids = await grow(one, 3)
    await grow(mine, 2, "deleted")
    await mine.delete("deleted", all_namespaces=False)
    await log.append("thread", ["word"])
    await Store(db).put(("users", "ada"), "k", "stays")

    assert await beside.forget(namespace=("users", "ada")) == 7
    paths = select(ThreadRow.namespace).where(ThreadRow.tenant == db.tenant)
    async with db.transaction() as tx:
        found = (await tx.execute(paths)).scalars().all()
    assert sorted(found) == [(), ("users", "adam")]
    assert await root.forget(namespace=("users", "ada")) == 0
    assert await mine.load("thread") is None
    await assert_all_load(root, ids)
    await assert_all_load(beside, ids)
    assert await Store(db).get(("users", "ada"), "k") == "stays"

    # It begins anew, although this process knew the states.
    await assert_all_load(mine, await grow(mine, 4))
    await root.forget(namespace=("users",))
    await assert_all_load(root, ids)


async def test_forgetting_a_namespace_names_one(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 1)

    with pytest.raises(ValueError, match="erase every thread"):
        await checkpointer.forget(namespace=())
    with pytest.raises(TypeError, match="tuple of strings"):
        await checkpointer.forget(namespace="users")
    with pytest.raises(ValueError, match="exactly one of tenant=, thread_id=, metadata=, name"):
        await checkpointer.forget(namespace=("users",), thread_id="thread")
    assert await checkpointer.exists("thread")


async def test_the_forks_of_a_forgotten_thread_do_not_name_it_and_load(
    checkpointer: Checkpointer, db: Database
) -> None:
    await grow(checkpointer, 3, "ada@example.com")
    for fork in ("one", "two"):
        await checkpointer.fork("ada@example.com", new_thread_id=fork)
    await grow(checkpointer, 1, "bob@example.com")
    await checkpointer.fork("bob@example.com", new_thread_id="three")

    assert await checkpointer.forget(thread_id="ada@example.com") == 3
    named = select(ThreadRow.forked_from).where(ThreadRow.tenant == db.tenant).distinct()
    found = await db.run_sync(lambda c: {*c.scalars(named)})
    assert found == {None, "bob@example.com"}
    assert await checkpointer.load("one") == await checkpointer.load("two") is not None
    assert (await verify(db)).ok


async def test_forgetting_by_metadata_takes_every_thread_that_carries_it(
    checkpointer: Checkpointer, db: Database
) -> None:
    await checkpointer.save({}, "a", metadata={"user": "ada", "team": 1})
    await checkpointer.save({}, "a", metadata={})
    await checkpointer.save({}, "b", metadata={"user": "ada", "team": 2})
    await checkpointer.save({}, "c", metadata={"user": "bob"})

    assert await checkpointer.forget(metadata={"user": "ada", "team": 1}) == 2
    assert sorted(await checkpointer.list_threads()) == ["b", "c"]
    assert await checkpointer.forget(metadata={"user": "ada"}) == 1
    assert await checkpointer.list_threads() == ["c"]


async def test_forgetting_by_metadata_takes_threads_that_have_it_themselves(
    checkpointer: Checkpointer, db: Database
) -> None:
    for thread in ("a", "b", "c", "d"):
        await checkpointer.save({}, thread, metadata={"team": 1})
    await checkpointer.set_thread_metadata("a", {"user": "ada", "n": 1, "deep": {"x": [1, None]}})
    await checkpointer.set_thread_metadata("b", {"user": "bob", "n": True, "deep": {"x": [1]}})
    await checkpointer.set_thread_metadata("c", {"user": None})
    other = Checkpointer(db.for_tenant(db.tenant + "-other"))
    await other.save({}, "a")
    await other.set_thread_metadata("a", {"user": "ada"})

    assert await checkpointer.forget(metadata={"user": "eve"}) == 0
    assert await checkpointer.forget(metadata={"user": "ada", "team": 1, "n": 1.0}) == 1
    assert sorted(await checkpointer.list_threads()) == ["b", "c", "d"]
    assert await checkpointer.forget(metadata={"deep": {"x": [1]}}) == 1
    assert await checkpointer.forget(metadata={"user": None}) == 1
    assert await checkpointer.list_threads() == ["d"]
    assert await other.list_threads() == ["a"]


@pytest.mark.parametrize("named", [(), ("user",), ("team",)], ids=["all", "user", "team"])
async def test_forgetting_by_metadata_takes_items_that_have_all_of_it(
    db: Database, named: tuple[str, ...]
) -> None:
    agent, store, near = Checkpointer(db), Store(db, index_metadata=named), [1.0, 0.5]
    await agent.save({}, "a", metadata={"user": "ada", "team": 1})
    await store.put(("n",), "both", "ada's", {"user": "ada", "team": 1.0}, embedding=near)
    await store.put(("n", "deep"), "too", "ada's", {"user": "ada", "team": 1, "more": 2})
    await store.put(("n",), "one", "ada's", {"user": "ada"}, embedding=near)
    await store.put(("n",), "true", "ada's", {"user": "ada", "team": True})
    await store.put(("n",), "value", {"user": "ada", "team": 1}, {"user": "bob", "team": 1})
    await store.put(("n",), "gone", "ada's", {"user": "ada", "team": 1}, ttl=MOMENT)
    await Store(db.for_tenant(db.tenant + "-other")).put(("n",), "both", 1, {"user": "ada"})

    assert await agent.forget(metadata={"user": "ada", "team": 1}) == 4
    assert await agent.list_threads() == []
    assert await store.list_keys(("n",)) == ["one", "true", "value"]
    hits = await store.search((), mode="vector", embedding=near, prefix=True)
    assert [hit.key for hit in hits] == ["one"]
    assert await store.sweep() == 0
    assert await agent.forget(metadata={"user": "ada"}) == 2
    assert await store.list_keys(("n",)) == ["value"]
    await Checkpointer(db.for_tenant(db.tenant + "-other")).forget(metadata={"user": "ada"})


async def test_items_are_forgotten_by_metadata_that_no_index_knows(db: Database) -> None:
    agent, store = Checkpointer(db), Store(db)
    tags: dict[str, Any] = {"tags": ["a", {"b/c": None}], "/odd~": None}
    for number in range(520):  # more than a page
        await store.put(("n",), f"{number:03}", number, tags if number % 2 else {"tags": ["a"]})

    assert await agent.forget(metadata={"tags": ["a", {"b/c": None}]}) == 260
    assert await store.count(("n",)) == 260
    await store.put(("n",), "odd", 1, tags)
    assert await agent.forget(metadata={"/odd~": None}) == 1
    assert await agent.forget(metadata={"tags": ["a"]}) == 260


async def test_no_word_of_a_forgotten_item_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with Database(f"sqlite:///{path}") as db:
        store = Store(db)
        for n in range(50):
            await store.put(("n",), f"k{n}", {"text": f"quuxstreet {n}"}, {"who": "quuxada"})
            await store.put(("n",), f"o{n}", {"text": f"other {n}"}, {"who": "bob"})
        assert await Checkpointer(db).forget(metadata={"who": "quuxada"}) == 50
        assert len(await store.search(("n",), "other", limit=100)) == 50
        await db.run_sync(lambda c: c.exec_driver_sql("PRAGMA incremental_vacuum"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")

    assert b"quux" not in path.read_bytes()
    assert b"other" in path.read_bytes()


async def test_forgetting_a_namespace_takes_all_below_it_and_nothing_beside_it(
    db: Database,
) -> None:
    store, ada = Store(db), ("users", "ada")
    other = Store(db.for_tenant(db.tenant + "-other"))
    for place in (ada, (*ada, "memories"), (*ada, "a/b")):
        await store.put(place, "k", {"text": "harbour"}, embedding=[1.0, 2.0])
    await store.put(ada, "expired", {"text": "harbour"}, ttl=MOMENT)
    for place in (("users", "adam"), ("users",), ("users", "ad", "a")):
        await store.put(place, "k", {"text": "harbour"}, embedding=[1.0, 2.0])
    await other.put(ada, "k", {"text": "harbour"})
    assert len(await store.search(("users",), embedding=[1.0, 2.0], prefix=True)) == 6

    assert await store.forget_namespace(ada) == 4

    assert await store.count(("users",), prefix=True) == 3
    assert len(await store.search(("users",), "harbour", prefix=True)) == 3
    assert len(await store.search(("users",), embedding=[1.0, 2.0], prefix=True)) == 3
    assert await other.exists(ada, "k")
    assert await store.forget_namespace(ada) == 0
    await store.put(ada, "k", {"text": "new"}, embedding=[2.0, 1.0])
    assert [h.key for h in await store.search(ada, embedding=[1.0, 2.0], prefix=True)] == ["k"]
    await other.forget_namespace(ada)
    with pytest.raises(ValueError, match=r"Checkpointer\.forget"):
        await store.forget_namespace(())


async def test_forgetting_a_namespace_in_a_transaction_is_undone_with_it(db: Database) -> None:
    store = Store(db)
    await store.put(("users", "ada"), "k", {"n": 1}, embedding=[1.0, 2.0])
    async with db.transaction() as tx:
        assert await store.forget_namespace(("users", "ada"), connection=tx) == 1
        await tx.rollback()

    hits = await store.search(("users", "ada"), embedding=[1.0, 2.0])
    assert [hit.key for hit in hits] == ["k"]


async def test_forgetting_a_tenant_takes_its_store_whole(db: Database) -> None:
    store, other = Store(db), Store(db.for_tenant(db.tenant + "-other"))
    for each in (store, other):
        await each.put(("n",), "k", {"text": "words"}, embedding=[1.0, 2.0])

    assert await Checkpointer(db).forget(tenant=db.tenant) == 1

    assert await rows(db, *ROWS) == [0] * 5
    assert await store.search(("n",), mode="vector", embedding=[1.0, 2.0]) == []
    assert len(await other.search(("n",), mode="vector", embedding=[1.0, 2.0])) == 1
    await Checkpointer(other.db).forget(tenant=other.db.tenant)


async def test_no_handle_of_a_tenant_reaches_another(db: Database, tmp_path: Path) -> None:
    other = db.for_tenant(db.tenant + "-other")
    await grow(Checkpointer(other), 3)
    checkpointer = Checkpointer(db)

    async def exported() -> list[Any]:
        return [record async for record in checkpointer.export(tenant=other.tenant)]

    for reach in (
        exported,
        lambda: checkpointer.export_files(tmp_path / "out", tenant=other.tenant),
        lambda: checkpointer.forget(tenant=other.tenant),
    ):
        with pytest.raises(ValueError, match=r"reaches no other.*for_tenant\('.*-other'\)"):
            await reach()

    assert not (tmp_path / "out").exists()
    await assert_all_load(Checkpointer(other), ["c0", "c1", "c2"])
    await Checkpointer(other).forget(tenant=other.tenant)


async def test_forgetting_a_tenant_leaves_the_others(db: Database) -> None:
    other = db.for_tenant(db.tenant + "-other")
    for each in (db, other):
        await grow(Checkpointer(each), 3)

    assert await Checkpointer(db).forget(tenant=db.tenant) == 3
    assert await rows(db, *ROWS) == [0] * 5
    await assert_all_load(Checkpointer(other), ["c0", "c1", "c2"])
    await Checkpointer(other).forget(tenant=other.tenant)


@pytest.mark.parametrize("selector", [{}, {"tenant": "a", "thread_id": "b"}, {"metadata": {}}])
async def test_forgetting_needs_exactly_one_selector(
    checkpointer: Checkpointer, selector: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="metadata"):
        await checkpointer.forget(**selector)
    with pytest.raises(ValueError, match="metadata"):
        [record async for record in checkpointer.export(**selector)]


async def test_export_writes_out_what_forget_would_erase(db: Database) -> None:
    one, two = Checkpointer(db), Checkpointer(db, namespace=("two",))
    await one.save({"b": b"\x00", "t": (1,)}, "thread", "c0", metadata={"user": "ada"})
    await one.save({"b": b"\x01"}, "thread", "c1")
    await two.save({"n": 1}, "thread", "c2")
    await one.save({"n": 2}, "other", "c3")

    def names(records: list[dict[str, Any]]) -> list[Any]:
        return [(r["thread_id"], tuple(r["namespace"]), r["checkpoint_id"]) for r in records]

    by_thread = [r async for r in one.export(thread_id="thread")]
    assert names(by_thread) == [
        ("thread", (), "c0"),
        ("thread", (), "c1"),
        ("thread", ("two",), "c2"),
    ]
    assert by_thread[0]["state"] == {"b": {"~b": "AA=="}, "t": {"~t": [1]}}
    assert [r async for r in one.export(metadata={"user": "ada"})] == by_thread
    everything = [r async for r in one.export(tenant=db.tenant)]
    assert len(everything) == 4
    json.dumps(everything, default=str)
    assert await one.forget(tenant=db.tenant) == len(everything)


async def test_many_savers_and_deleters_leave_only_whole_states(
    db: Database, reopen: Callable[[], Database]
) -> None:
    async with reopen() as second, reopen() as third:
        savers = [Checkpointer(db), Checkpointer(second)]
        deleter = Checkpointer(third)

        async def save(saver: Checkpointer, name: str) -> None:
            for n in range(60):
                await saver.save({"name": name, "log": list(range(n))}, "thread", f"{name}-{n}")

        async def delete(until: asyncio.Event) -> None:
            n = 0
            while not until.is_set():
                n += 1
                listed = await deleter.list_checkpoints("thread", 50)
                for checkpoint_id in listed[n % 3 :: 4]:
                    await deleter.delete("thread", checkpoint_id)

        done = asyncio.Event()
        deleting = asyncio.create_task(delete(done))
        await asyncio.gather(save(savers[0], "a"), save(savers[1], "b"))
        done.set()
        await deleting
        await savers[0].save({"name": "c", "log": []}, "thread", "c-0")
        survivors = await deleter.list_checkpoints("thread", 1000)
        assert survivors
        for checkpoint_id in survivors:
            name, n = checkpoint_id.split("-")
            expected = {"name": name, "log": list(range(int(n)))}
            assert await deleter.load("thread", checkpoint_id) == expected
