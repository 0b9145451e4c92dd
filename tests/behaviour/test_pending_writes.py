"""Pending writes: what a task wrote for the step after a checkpoint, whichever comes first."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import bindparam, text

from lifetimes import MOMENT, end_lifetimes_of_threads
from memalchemy import (
    Checkpointer,
    Conflict,
    Database,
    NotSerialisable,
    Retention,
    ThreadDeleted,
    ThreadLog,
)
from memalchemy.contracts import Packed, PendingWrite
from memalchemy.schema import DeltaRow
from memalchemy.verify import verify

SAVES_UNTIL_A_SNAPSHOT = 40


async def values_of(checkpointer: Checkpointer, thread_id: str, checkpoint_id: str) -> list[object]:
    return [one.value for one in await checkpointer.get_writes(thread_id, checkpoint_id)]


async def test_writes_come_back_in_the_order_of_path_task_and_place(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.put_writes([("a", 1), ("b", {"x": (2, b"3")})], "t", "cp", "task-2")
    await checkpointer.put_writes([("a", 0)], "t", "cp", "task-1")
    await checkpointer.put_writes([("c", None)], "t", "cp", "task-0", task_path="later")

    assert await checkpointer.get_writes("t", "cp") == [
        PendingWrite("task-1", 0, "a", 0),
        PendingWrite("task-2", 0, "a", 1),
        PendingWrite("task-2", 1, "b", {"x": (2, b"3")}),
        PendingWrite("task-0", 0, "c", None, "later"),
    ]
    assert await checkpointer.get_writes("t", "other") == []
    assert await checkpointer.get_writes("other", "cp") == []


async def test_the_first_write_in_a_place_stays_unless_a_later_one_is_to_overwrite(
    checkpointer: Checkpointer,
) -> None:
    for value, overwrite in (("first", False), ("second", False), ("third", True), ("4", False)):
        await checkpointer.put_writes([("a", value)], "t", "cp", "task", overwrite=overwrite)

    assert await values_of(checkpointer, "t", "cp") == ["third"]


async def test_in_a_place_below_zero_the_last_write_stays_also_among_others(
    checkpointer: Checkpointer,
) -> None:
    for value in ("first", "second"):
        both = [("answer", value), ("said", value)]
        await checkpointer.put_writes(both, "t", "cp", "task", indexes=[-4, 1])

    assert await values_of(checkpointer, "t", "cp") == ["second", "first"]


async def test_writes_before_their_checkpoint_make_no_checkpoint(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.put_writes([("a", 1)], "t", "cp", "task")
    assert await checkpointer.load("t") is None
    assert await checkpointer.snapshot("t") is None
    assert await checkpointer.list_threads() == []

    await checkpointer.save({"n": 1}, "t", "cp")
    found = await checkpointer.snapshot("t")
    assert found is not None
    assert (found.checkpoint_id, found.parent_id, found.state) == ("cp", None, {"n": 1})
    assert [one.value for one in found.writes] == [1]


async def test_a_snapshot_is_the_last_saved_or_that_of_the_highest_id(
    checkpointer: Checkpointer,
) -> None:
    for name in ("b", "c", "a"):
        await checkpointer.save({"name": name}, "t", name)
        await checkpointer.put_writes([("of", name)], "t", name, "task")

    for options, expected in (({}, "a"), ({"newest_by": "id"}, "c")):
        found = await checkpointer.snapshot("t", **options)
        assert found is not None
        assert (found.checkpoint_id, found.state) == (expected, {"name": expected})
        assert [one.value for one in found.writes] == [expected]
    pages = [one async for one in checkpointer.snapshots("t", ["a", "gone", "c", "b"])]
    assert [(one.checkpoint_id, one.state["name"]) for one in pages] == [
        ("a", "a"), ("c", "c"), ("b", "b"),
    ]  # fmt: skip
    assert [one.writes[0].value for one in pages] == ["a", "c", "b"]


async def test_many_checkpoints_are_read_as_they_were_saved(checkpointer: Checkpointer) -> None:
    states = [{"list": list(range(n)), "n": n} for n in range(70)]
    for n, state in enumerate(states):
        await checkpointer.save(state, "t", f"cp-{n:03}")

    names = [f"cp-{n:03}" for n in range(70)]
    assert [one.state async for one in checkpointer.snapshots("t", names)] == states
    older = checkpointer.history("t", order="id", before="cp-050")
    infos = [info.checkpoint_id async for info in older]
    assert infos == names[:50][::-1]


async def test_a_lineage_is_recorded_whether_the_parent_is_there_or_not(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": 1}, "t", "one")
    await checkpointer.save({"n": 2}, "t", "two", lineage=None)
    await checkpointer.save({"n": 3}, "t", "three", lineage="never")
    await checkpointer.save({"n": 4}, "t", "four", lineage="one")

    infos = checkpointer.history("t", order="id")
    parents = {info.checkpoint_id: info.parent_id async for info in infos}
    assert parents == {"one": None, "two": None, "three": "never", "four": "one"}
    with pytest.raises(ValueError, match="not both"):
        await checkpointer.save({}, "t", parent_id="one", lineage="one")


async def test_a_lineage_does_not_bring_a_deleted_thread_back(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"n": 1}, "t", "one")
    await checkpointer.delete("t")

    with pytest.raises(ThreadDeleted):
        await checkpointer.save({"n": 2}, "t", "two", lineage="one")
    with pytest.raises(ThreadDeleted):
        await checkpointer.put_writes([("a", 1)], "t", "one", "task")
    assert await checkpointer.load("t") is None
    await checkpointer.save({"n": 3}, "t", "three", lineage=None)
    assert await checkpointer.load("t") == {"n": 3}


async def test_what_a_new_life_writes_first_waits_for_its_first_checkpoint(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": 1}, "t", "one")
    await checkpointer.put_writes([("a", "old")], "t", "new", "task")
    await checkpointer.delete("t")
    later = datetime.now(UTC) + timedelta(seconds=1)

    await checkpointer.put_writes([("a", "new")], "t", "new", "task", made_at=later)

    assert await checkpointer.load("t") is None
    assert await checkpointer.delete("t") is False
    await checkpointer.put_writes([("a", "newer")], "t", "new", "task", made_at=later)
    assert (await verify(checkpointer.db)).ok
    await checkpointer.save({"n": 2}, "t", "new")
    assert await values_of(checkpointer, "t", "new") == ["newer"]


async def test_writes_go_with_their_checkpoint(checkpointer: Checkpointer) -> None:
    for n in range(6):
        await checkpointer.save({"n": n}, "t", f"cp-{n}")
        await checkpointer.put_writes([("of", n)], "t", f"cp-{n}", "task")

    assert await checkpointer.delete("t", "cp-0") is True
    assert await checkpointer.delete_checkpoints("t", ["cp-1", "cp-2", "gone"]) == 2
    assert await checkpointer.prune("t", keep_last=2) == 1

    left = [await values_of(checkpointer, "t", f"cp-{n}") for n in range(6)]
    assert left == [[], [], [], [], [4], [5]]
    assert (await verify(checkpointer.db)).ok
    await checkpointer.delete("t")
    await checkpointer.save({"n": 9}, "t", "cp-5")
    assert await values_of(checkpointer, "t", "cp-5") == []


@pytest.mark.unsigned_only("it ages writes without the key")
async def test_writes_that_retention_leaves_behind_go_when_nobody_can_name_their_checkpoint(
    db: Database,
) -> None:
    checkpointer = Checkpointer(db, retention=Retention(keep_last=2))
    await checkpointer.put_writes([("of", "early")], "t", "named much later", "task")
    for n in range(4):
        await checkpointer.save({"n": n}, "t", f"cp-{n}")
        await checkpointer.put_writes([("of", n)], "t", f"cp-{n}", "task")
    await made_yesterday(db, "cp-%")
    await checkpointer.put_writes([("of", "new")], "t", "named soon", "task")

    for n in range(4, 4 + SAVES_UNTIL_A_SNAPSHOT):
        await checkpointer.save({"n": n}, "t", f"cp-{n}")

    assert [await values_of(checkpointer, "t", f"cp-{n}") for n in range(4)] == [[], [], [], []]
    for name, value in (("named soon", "new"), ("named much later", "early")):
        await checkpointer.save({}, "t", name)
        assert await values_of(checkpointer, "t", name) == [value]
    assert (await verify(db)).ok


async def made_yesterday(db: Database, checkpoint_id: str) -> None:
    """Let the writes of such checkpoints be so old that no checkpoint comes after them."""
    older = text("UPDATE deltas SET stored_at = :then WHERE tenant = :tenant AND label LIKE :of")
    then = bindparam("then", datetime.now(UTC) - timedelta(days=2), type_=DeltaRow.stored_at.type)
    binds = {"tenant": db.tenant, "of": checkpoint_id}
    await db.run_sync(lambda c: c.execute(older.bindparams(then), binds))


async def test_a_fork_has_the_writes_of_what_it_has(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"n": 0}, "t", "cp-0")
    await checkpointer.save({"n": 1}, "t", "cp-1")
    await checkpointer.put_writes([("of", 1)], "t", "cp-1", "task")
    await checkpointer.put_writes([("of", 0)], "t", "cp-0", "task")
    await checkpointer.put_writes([("of", 2)], "t", "cp-2", "task")

    await checkpointer.fork("t", "cp-0", new_thread_id="fork")
    await checkpointer.copy_thread("t", "copy")
    await checkpointer.save({"n": 7}, "fork", "cp-7")

    assert await values_of(checkpointer, "fork", "cp-0") == [0]
    assert await values_of(checkpointer, "fork", "cp-1") == []
    assert await values_of(checkpointer, "copy", "cp-1") == [1]
    assert await values_of(checkpointer, "copy", "cp-2") == [2]
    assert await checkpointer.load("fork") == {"n": 7}
    assert (await verify(checkpointer.db)).ok


async def test_checkpoints_of_runs_come_in_the_order_of_saving(checkpointer: Checkpointer) -> None:
    for name, run in (("z", "first"), ("a", "second"), ("m", "first"), ("0", "first")):
        await checkpointer.save({}, "t", name, run_id=run)

    assert await checkpointer.find_runs(["second", "first"]) == {("t", ()): ["z", "a", "m", "0"]}
    assert await checkpointer.find_runs(["first"]) == {("t", ()): ["z", "m", "0"]}


async def test_the_logs_below_a_namespace_are_copied_and_deleted_alone(db: Database) -> None:
    top, under = (Checkpointer(db, namespace=parts) for parts in (("f",), ("f", "sub")))
    other, entries = Checkpointer(db, namespace=("fx",)), ThreadLog(db)
    for one in (top, under, other):
        await one.save({"of": one.namespace}, "t", "cp", run_id="run")
    await entries.append("t", "entry")

    assert await top.namespaces("t") == [("f",), ("f", "sub")]
    assert await top.find_runs(["run", "none"]) == {
        ("t", ("f",)): ["cp"],
        ("t", ("f", "sub")): ["cp"],
    }
    assert len([info async for info in top.history(None, order="id", below=True)]) == 2
    assert len([info async for info in top.history(None, order="id")]) == 1
    assert await top.copy_thread("t", "u", below=True) is True
    with pytest.raises(Conflict):
        await top.copy_thread("t", "u", below=True)
    assert await top.delete("t", below=True) is True

    assert [await one.load("t") for one in (top, under)] == [None, None]
    assert await under.load("u") == {"of": ("f", "sub")}
    assert await other.load("t") == {"of": ("fx",)}
    assert await other.load("u") is None
    assert await entries.count("t") == 1


async def test_writes_at_the_same_moment_are_all_kept(checkpointer: Checkpointer) -> None:
    await asyncio.gather(
        *(checkpointer.put_writes([("a", n)], "t", "cp", f"task-{n:02}") for n in range(30)),
        checkpointer.save({}, "t", "cp"),
    )

    assert await values_of(checkpointer, "t", "cp") == list(range(30))


async def test_writes_in_a_transaction_that_is_rolled_back_never_were(
    checkpointer: Checkpointer,
) -> None:
    async def fail() -> None:
        async with checkpointer.db.transaction() as tx:
            await checkpointer.put_writes([("a", 1)], "t", "cp", "task", connection=tx)
            assert len(await checkpointer.get_writes("t", "cp", connection=tx)) == 1
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await fail()

    assert await checkpointer.get_writes("t", "cp") == []


async def test_what_cannot_be_stored_is_refused_before_anything_is_written(
    checkpointer: Checkpointer,
) -> None:
    with pytest.raises(NotSerialisable):
        await checkpointer.put_writes([("a", 1), ("b", object())], "t", "cp", "task")
    with pytest.raises(ValueError, match="2 places for 1"):
        await checkpointer.put_writes([("a", 1)], "t", "cp", "task", indexes=[1, 2])

    assert await checkpointer.get_writes("t", "cp") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"task_id": {"a": 1}},
        {"task_path": None},
        {"indexes": ["0"]},
        {"indexes": [True]},
        {"writes": [(1, "value")]},
    ],
    ids=repr,
)
async def test_names_that_are_no_text_are_refused_before_they_make_writes_unreadable(
    checkpointer: Checkpointer, wrong: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"writes": [("channel", 1)], "task_id": "task"}

    with pytest.raises(TypeError):
        await checkpointer.put_writes(thread_id="t", checkpoint_id="c", **given | wrong)

    assert await checkpointer.get_writes("t", "c") == []


async def test_an_expired_thread_begins_anew_with_a_write(db: Database) -> None:
    brief = Checkpointer(db, ttl=MOMENT)
    await brief.save({"n": 1}, "t", "one")

    await Checkpointer(db).put_writes([("a", 1)], "t", "two", "task")

    assert await brief.load("t") is None
    assert await values_of(brief, "t", "two") == [1]


async def test_packed_values_are_kept_as_they_are_and_their_words_are_found(
    db: Database,
) -> None:
    packed = Packed("msgpack", b"\x92\xa5hello\xa9xylophone")
    checkpointer = Checkpointer(db, retention=Retention(keep_last=3))
    await checkpointer.save({"of": packed, "__own": Packed("other", b"\x00")}, "t")

    assert await checkpointer.load("t") == {"of": packed, "__own": Packed("other", b"\x00")}
    if db.keyring.is_readable("text"):
        assert [one["thread_id"] for one in await checkpointer.search("xylophone")] == ["t"]


@pytest.mark.parametrize("radix", [3, 16, 32])
async def test_every_radix_gives_back_what_was_saved(db: Database, radix: int) -> None:
    checkpointer = Checkpointer(db, radix=radix)
    for n in range(60):
        await checkpointer.save({"list": list(range(n)), "n": n}, "t", f"cp-{n}")
        if n % 7 == 3:
            await checkpointer.delete("t", f"cp-{n - 2}")
    await Checkpointer(db).save({"list": list(range(60)), "n": 60}, "t", "cp-60")

    for n in range(61):
        gone = n % 7 == 1 and n < 59
        state = await checkpointer.load("t", f"cp-{n}")
        assert state == (None if gone else {"list": list(range(n)), "n": n})
    assert (await verify(db)).ok
    await checkpointer.rewrite("t")
    assert (await verify(db)).ok
    assert await checkpointer.load("t", "cp-40") == {"list": list(range(40)), "n": 40}


@pytest.mark.asyncio_only(reason="its database is an asynchronous one, made by the test")
@pytest.mark.unsigned_only("it changes rows by hand")
async def test_writes_that_find_an_expired_thread_each_time_are_not_lost_in_silence(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, beset = Checkpointer(db), db.for_tenant(db.tenant)
    run, writes = beset.run, 0

    async def run_after_others(program: Any, intent: Any, **options: Any) -> Any:
        """Run it after somebody else has saved, and the thread has expired."""
        nonlocal writes
        if intent.writes:
            writes += 1
            await others.save({"n": writes}, "t", ttl=3600)
            await end_lifetimes_of_threads(db)
        return await run(program, intent, **options)

    monkeypatch.setattr(beset, "run", run_after_others)

    with pytest.raises(Conflict, match="20 times while these writes were put"):
        await Checkpointer(beset).put_writes([("a", 1)], "t", "cp", "task")

    assert writes == 40, "each try inserts, and removes what has expired"
    assert await values_of(others, "t", "cp") == []
