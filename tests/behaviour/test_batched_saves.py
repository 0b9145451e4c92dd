"""Saves that wait at the same moment go together, and each is as if it had gone alone."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import delete, update

from memalchemy import Checkpointer, Conflict, Database
from memalchemy.events import Event, subscribe
from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow


async def history(checkpointer: Checkpointer, thread: str) -> list[tuple[str, str | None]]:
    """(id, parent) of each checkpoint, oldest first."""
    infos = [info async for info in checkpointer.history(thread)]
    return [(info.checkpoint_id, info.parent_id) for info in reversed(infos)]


@pytest.mark.asyncio_only("threads come in no order of the test's making")
async def test_saves_of_one_thread_that_come_together_are_one_line_in_the_order_they_came(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": -1}, "thread", "first")
    names = [f"c{n}" for n in range(20)]
    await asyncio.gather(
        *(checkpointer.save({"n": n}, "thread", name) for n, name in enumerate(names))
    )

    line = await history(checkpointer, "thread")
    assert [name for name, _ in line] == ["first", *names]
    assert [parent for _, parent in line] == [None, "first", *names[:-1]]
    for n, name in enumerate(names):
        assert await checkpointer.load("thread", name) == {"n": n}


async def test_a_new_thread_begins_with_saves_that_come_together(
    checkpointer: Checkpointer,
) -> None:
    await asyncio.gather(*(checkpointer.save({"n": n}, "thread", f"c{n}") for n in range(5)))

    line = await history(checkpointer, "thread")
    assert [parent for _, parent in line] == [None, *(name for name, _ in line[:-1])]
    assert await checkpointer.save({"n": 5}, "thread", "after") == "after"
    assert (await history(checkpointer, "thread"))[-1] == ("after", line[-1][0])


@pytest.mark.asyncio_only("threads come in no order of the test's making")
async def test_one_id_that_is_saved_twice_at_once_is_there_once_and_as_saved_last(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": 0}, "thread", "one")
    await asyncio.gather(
        *(checkpointer.save({"n": n}, "thread", "same") for n in (1, 2)),
        checkpointer.save({"n": 3}, "thread", "one"),
    )

    assert sorted(name for name, _ in await history(checkpointer, "thread")) == ["one", "same"]
    assert await checkpointer.load("thread", "same") == {"n": 2}
    assert await checkpointer.load("thread", "one") == {"n": 3}
    assert dict(await history(checkpointer, "thread"))["one"] is None, "it keeps its lineage"


async def test_a_thread_that_somebody_deleted_harms_no_other_that_is_saved_with_it(
    db: Database, checkpointer: Checkpointer
) -> None:
    threads = [f"t{n}" for n in range(8)]
    for thread in threads:
        await checkpointer.save({"n": 0, "text": "word " * 50}, thread)
    # As another process does it: this one's cache still has the base.
    other = Checkpointer(Database.for_tenant(db, db.tenant))
    logs = [checkpointer._log(thread) for thread in threads]
    cached = [(log, checkpointer._cache.get(log)) for log in logs]
    await other.delete("t3")
    for log, tip in cached:
        assert tip is not None
        checkpointer._cache.put(log, tip)

    await asyncio.gather(
        *(checkpointer.save({"n": 1, "text": "word " * 50}, thread) for thread in threads)
    )

    for thread in threads:
        assert (await checkpointer.load(thread))["n"] == 1
        expected = 1 if thread == "t3" else 2
        assert len(await checkpointer.list_checkpoints(thread)) == expected


async def test_a_save_that_is_cancelled_among_others_is_whole_or_absent(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": -1}, "thread")
    tasks = [asyncio.create_task(checkpointer.save({"n": n}, "thread", f"c{n}")) for n in range(12)]
    await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    kept = dict(await history(checkpointer, "thread"))
    for n, result in enumerate(ended):
        assert f"c{n}" in kept or isinstance(result, asyncio.CancelledError)
    for name in kept:
        assert await checkpointer.load("thread", name) is not None


async def test_one_that_expects_a_parent_conflicts_and_those_beside_it_do_not(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": 0}, "thread", "root")
    ended = await asyncio.gather(
        *(checkpointer.save({"n": n}, "thread", f"c{n}") for n in range(4)),
        checkpointer.save({"n": 9}, "thread", "x", expected_parent="somebody else's"),
        return_exceptions=True,
    )

    assert isinstance(ended[-1], Conflict)
    assert ended[:4] == ["c0", "c1", "c2", "c3"]
    assert len(await history(checkpointer, "thread")) == 5


@pytest.mark.plaintext_only(
    "a payload with keys is sent when its position is known", on=("postgresql", "psycopg")
)
async def test_many_saves_at_once_take_few_statements_where_they_can_go_together(
    db: Database, checkpointer: Checkpointer
) -> None:
    await asyncio.gather(*(checkpointer.save({"n": 0}, f"t{n}") for n in range(40)))
    if not db.dialect.groups_saves:
        pytest.skip("one statement does not take several saves here")
    seen: list[Event] = []
    end = subscribe(seen.append)
    try:
        await asyncio.gather(*(checkpointer.save({"n": 1}, f"t{n}") for n in range(40)))
    finally:
        end()
    # A group's round trip is counted for each of its saves, so every one says one.
    assert [event.round_trips for event in seen if event.name == "checkpoint.save"] == [1] * 40


@pytest.mark.unsigned_only("it changes rows by hand")
@pytest.mark.parametrize("together", [1, 3], ids=["alone", "together"])
async def test_a_save_on_a_base_that_was_lost_is_made_again_on_what_is_there(
    db: Database, checkpointer: Checkpointer, together: int
) -> None:
    """As after a failover to a standby that lagged: the end of the log is gone, not its epoch."""
    for n in range(1, 6):
        await checkpointer.save({"n": n, "text": "the same " * 40}, "thread", f"c{n}")
    async with db.transaction() as tx:
        mine = ThreadRow.tenant == db.tenant
        for table in (CheckpointRow, DeltaRow):
            await tx.execute(delete(table).where(table.tenant == db.tenant, table.seq > 3))
        await tx.execute(update(ThreadRow).where(mine).values(next_seq=4, head_id="c3"))

    await asyncio.gather(
        *(
            checkpointer.save({"n": n, "text": "the same " * 40}, "thread", f"c{n}")
            for n in range(6, 6 + together)
        )
    )

    names = [name for name, _ in await history(checkpointer, "thread")]
    assert sorted(names) == ["c1", "c2", "c3", *(f"c{n}" for n in range(6, 6 + together))]
    for name in names:
        assert (await checkpointer.load("thread", name))["n"] == int(name[1:])
