"""Clocks that jump back, far ahead and back again, or stand still: order comes from positions.

A clock decides only what is about time: when a thread expires, how old a checkpoint is.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from workers import proof

from clocks import NOON, Clock
from memalchemy import Checkpointer, Conflict, Database, Retention

DAY = timedelta(days=1)
JUMPS = (
    NOON,
    NOON - timedelta(hours=1),
    NOON + 3650 * DAY,
    datetime(1970, 1, 1, tzinfo=UTC),
    NOON - timedelta(microseconds=1),
    NOON,
    NOON,
    datetime(2099, 12, 31, tzinfo=UTC),
    NOON + timedelta(seconds=1),
)


def state(n: int) -> dict[str, Any]:
    return {"n": n, "messages": [f"message {i}" for i in range(n)]}


async def ids(keep: Checkpointer, thread: str = "thread") -> list[str]:
    return [info.checkpoint_id for info in await proof.history(keep, thread)]


async def test_no_module_reads_another_clock(clock: Clock, checkpointer: Checkpointer) -> None:
    clock.now = datetime(2001, 2, 3, tzinfo=UTC)
    await checkpointer.save(state(1), "thread", "c1")

    assert clock.readings
    found = await checkpointer.get_metadata("thread", "c1")
    assert found is not None
    assert found["created_at"] == clock.now


async def test_order_is_that_of_the_saves_whatever_the_clock_says(
    clock: Clock, checkpointer: Checkpointer, reopen: Callable[[], Database]
) -> None:
    names = [f"c{n}" for n in range(len(JUMPS))]
    async with reopen() as other:
        ours, theirs = checkpointer, Checkpointer(other)
        for n, (name, now) in enumerate(zip(names, JUMPS, strict=True)):
            clock.now = now
            parent = names[n - 1] if n else None
            await (ours, theirs)[n % 2].save(state(n), "thread", name, expected_parent=parent)
            for keep in (ours, theirs):
                assert await keep.load("thread") == state(n)
                assert await ids(keep) == names[: n + 1]
                assert await keep.list_checkpoints("thread", limit=1) == [name]
            with pytest.raises(Conflict):
                await ours.save(state(0), "thread", f"late {n}", expected_parent="c-1")

        for now in JUMPS:
            clock.now = now
            assert await theirs.load("thread") == state(len(JUMPS) - 1)
            assert [i.checkpoint_id async for i in ours.history("thread", before="c4")] == [
                *reversed(names[:4])
            ]
            found = await ours.get_metadata("thread", "c3")
            assert found is not None
            assert (found["parent_id"], found["created_at"]) == ("c2", JUMPS[3])
    proof.is_one_line(await proof.history(checkpointer, "thread"))


async def test_saves_at_one_time_by_a_clock_that_jumps_are_one_line(
    clock: Clock, db: Database, checkpointer: Checkpointer
) -> None:
    chance = random.Random(3)

    async def save(number: int) -> None:
        clock.now = chance.choice(JUMPS)
        await checkpointer.save(state(number), "thread", f"c{number}")

    await asyncio.gather(*(save(number) for number in range(60)))

    infos = await proof.history(checkpointer, "thread")
    assert len(infos) == 60
    proof.is_one_line(infos)
    for info in infos:
        loaded = await checkpointer.load("thread", info.checkpoint_id)
        assert loaded == state(int(info.checkpoint_id[1:]))
    await proof.nothing_is_left_over(db)


async def test_of_two_racers_at_the_same_moment_one_is_told_of_the_conflict(
    clock: Clock, checkpointer: Checkpointer, reopen: Callable[[], Database]
) -> None:
    """A save whose answer was lost is recognised by its id and time, and these share both."""
    await checkpointer.save(state(0), "thread", "c0")
    async with reopen() as other:
        await Checkpointer(other).save(state(1), "thread", "c1", expected_parent="c0")

        with pytest.raises(Conflict):
            await checkpointer.save(state(2), "thread", "c1", expected_parent="c0")

    assert await checkpointer.load("thread") == state(1)


async def test_keep_last_keeps_the_newest_positions(
    clock: Clock, checkpointer: Checkpointer
) -> None:
    keeping = Checkpointer(checkpointer.db, retention=Retention(keep_last=3), max_chain_depth=2)
    for n, now in enumerate(JUMPS):
        clock.now = now
        await checkpointer.save(state(n), "pruned", f"c{n}")
        await keeping.save(state(n), "kept", f"c{n}")
        assert (await ids(keeping, "kept"))[-3:] == [f"c{i}" for i in range(max(0, n - 2), n + 1)]
    for now in JUMPS:
        clock.now = now
        await checkpointer.prune("pruned", keep_last=3)
        assert await ids(checkpointer, "pruned") == ["c6", "c7", "c8"]


async def test_retention_by_age_deletes_nothing_that_is_younger_than_it_says(
    clock: Clock, checkpointer: Checkpointer
) -> None:
    """By the clock of the moment; a checkpoint from the future is young, the newest stays."""
    stamps = [now for now in JUMPS if now.year > 1970]
    for n, now in enumerate(stamps):
        clock.now = now
        await checkpointer.save(state(n), "thread", f"c{n}")

    for now in (NOON - 10 * DAY, NOON, NOON + DAY / 2):
        clock.now = now
        assert await checkpointer.prune("thread", older_than=DAY) == 0
    clock.now = NOON + 2 * DAY
    await checkpointer.prune("thread", older_than=DAY)

    young = [f"c{n}" for n, stamp in enumerate(stamps) if stamp >= clock.now - DAY]
    newest = f"c{len(stamps) - 1}"
    assert await ids(checkpointer) == [*young, newest]
    clock.now = datetime(2120, 1, 1, tzinfo=UTC)
    await checkpointer.prune("thread", older_than=DAY)
    assert await ids(checkpointer) == [newest]
    assert await checkpointer.load("thread") == state(len(stamps) - 1)


async def test_a_thread_lives_at_least_as_long_as_it_was_promised(
    clock: Clock, checkpointer: Checkpointer
) -> None:
    await checkpointer.save(state(1), "thread", "c1", ttl=2 * DAY)
    for now in (NOON - 3650 * DAY, NOON + DAY, NOON):
        clock.now = now
        assert await checkpointer.load("thread") == state(1)
        await checkpointer.vacuum()
        assert await ids(checkpointer) == ["c1"]

    clock.now = NOON + 3 * DAY
    assert await checkpointer.load("thread") is None
    # Expired, not erased: it is there again if the clock was wrong, until something clears it.
    clock.now = NOON
    assert await checkpointer.load("thread") == state(1)
    clock.now = NOON + 3 * DAY
    await checkpointer.save(state(2), "thread", "c2", ttl=DAY)
    clock.now = NOON
    assert await ids(checkpointer) == ["c2"]
    assert await checkpointer.load("thread") == state(2)


async def test_a_deleted_thread_stays_deleted_and_is_remembered_for_a_day(
    clock: Clock, checkpointer: Checkpointer
) -> None:
    from memalchemy import ThreadDeleted

    await checkpointer.save(state(1), "thread", "c1")
    assert await checkpointer.delete("thread")

    for now in (NOON - 100 * DAY, NOON + DAY / 2, NOON):
        clock.now = now
        await checkpointer.vacuum()
        assert await checkpointer.load("thread") is None
        with pytest.raises(ThreadDeleted):
            await checkpointer.save(state(2), "thread", "c2", expected_parent="c1")
    clock.now = NOON - 100 * DAY
    await checkpointer.save(state(3), "thread", "c3")
    clock.now = NOON + DAY / 2
    assert await ids(checkpointer) == ["c3"]


async def test_every_thread_is_listed_once_whatever_it_was_stamped_with(
    clock: Clock, checkpointer: Checkpointer
) -> None:
    for n, now in enumerate(JUMPS):
        clock.now = now
        await checkpointer.save(state(n), f"thread-{n}", "c")
    names = {f"thread-{n}" for n in range(len(JUMPS))}
    for now in JUMPS:
        clock.now = now
        listed = await checkpointer.list_threads()
        assert sorted(listed) == sorted(names)
        found = await checkpointer.list_with_metadata()
        assert sorted(row["thread_id"] for row in found) == sorted(names)
