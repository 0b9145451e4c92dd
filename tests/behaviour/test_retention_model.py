"""Retention counts checkpoints and goes by when they happened, whatever else the log holds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from drawn_examples import examples
from memalchemy import Checkpointer, Database, Retention, events
from memalchemy.errors import DatabaseUnreachable
from memalchemy.events import Event
from memalchemy.keys import log_key
from memalchemy.log import CHECKPOINTS


async def pairs_of_writes(checkpointer: Checkpointer, thread: str, checkpoint_id: str) -> None:
    for task in ("a", "b"):
        await checkpointer.put_writes([("channel", task)], thread, checkpoint_id, task)


async def kept(checkpointer: Checkpointer, thread: str) -> list[str]:
    """The ids that are there, oldest position first."""
    return (await checkpointer.list_checkpoints(thread, 1000))[::-1]


async def ordinals(db: Database, thread: str) -> list[int]:
    query = select(CHECKPOINTS.c.ordinal).where(
        CHECKPOINTS.c.log_id == log_key(db.tenant, thread, "/")
    )
    return await db.run_sync(lambda c: list(c.scalars(query.order_by(CHECKPOINTS.c.seq))))


async def test_every_third_checkpoint_is_kept_with_pending_writes_between_them(
    checkpointer: Checkpointer,
) -> None:
    for number in range(1, 10):
        await checkpointer.save({"n": number}, "t", f"c{number}")
        await pairs_of_writes(checkpointer, "t", f"c{number}")

    assert await checkpointer.prune("t", keep_every=3, dry_run=True) == 6
    assert await checkpointer.prune("t", keep_every=3) == 6

    assert await kept(checkpointer, "t") == ["c3", "c6", "c9"]
    assert await checkpointer.prune("t", keep_every=3) == 0


async def test_the_retention_of_a_save_counts_checkpoints_too(db: Database) -> None:
    checkpointer = Checkpointer(db, retention=Retention(keep_every=3))
    for number in range(1, 9):
        await checkpointer.save({"n": number}, "t", f"c{number}")
        await pairs_of_writes(checkpointer, "t", f"c{number}")
    assert await kept(checkpointer, "t") == ["c3", "c6", "c8"]


async def test_saves_that_are_sent_together_are_counted_one_by_one(
    db: Database, checkpointer: Checkpointer
) -> None:
    await checkpointer.save({"n": 0}, "t", "again")
    await asyncio.gather(
        *(checkpointer.save({"n": n}, thread, f"c{n}") for n in range(40) for thread in "tu"),
        checkpointer.save({"n": -1}, "t", "again"),
    )
    assert sorted(await ordinals(db, "t")) == list(range(1, 42))
    assert sorted(await ordinals(db, "u")) == list(range(1, 41))


async def test_a_replacement_keeps_its_number_and_takes_none(
    db: Database, checkpointer: Checkpointer
) -> None:
    for number in range(1, 7):
        for _ in range(2):
            await checkpointer.save({"n": number}, "t", f"c{number}")
    await checkpointer.save({"n": "new"}, "t", "c2")

    assert await ordinals(db, "t") == [1, 3, 4, 5, 6, 2]
    assert await checkpointer.prune("t", keep_every=2) == 3
    assert await kept(checkpointer, "t") == ["c4", "c6", "c2"]


async def test_a_thread_that_was_deleted_is_counted_anew(
    db: Database, checkpointer: Checkpointer
) -> None:
    for number in range(3):
        await checkpointer.save({"n": number}, "t")
    await checkpointer.delete("t")
    await checkpointer.save({"n": 3}, "t")
    assert await ordinals(db, "t") == [1]


async def test_what_happened_long_ago_is_old_however_late_it_was_saved(
    checkpointer: Checkpointer,
) -> None:
    now = datetime.now(UTC)
    for age in (400, 40, 10, 0):
        await checkpointer.save({"age": age}, "t", f"c{age}", occurred_at=now - timedelta(days=age))

    told = [info async for info in checkpointer.history("t")]
    assert [round((now - info.occurred_at) / timedelta(days=1)) for info in told] == [
        0,
        10,
        40,
        400,
    ]
    assert all(abs(info.created_at - now) < timedelta(minutes=5) for info in told)
    assert await checkpointer.prune(older_than=timedelta(days=30), dry_run=True) == 2
    assert await checkpointer.prune(older_than=timedelta(days=30)) == 2
    assert await kept(checkpointer, "t") == ["c10", "c0"]


async def test_the_retention_of_a_save_goes_by_when_it_happened(db: Database) -> None:
    checkpointer = Checkpointer(db, retention=Retention(older_than=timedelta(days=30)))
    now = datetime.now(UTC)
    for age in (90, 60, 10):
        await checkpointer.save({}, "t", f"c{age}", occurred_at=now - timedelta(days=age))
    assert await kept(checkpointer, "t") == ["c10"]


async def test_a_time_without_a_zone_is_refused(checkpointer: Checkpointer) -> None:
    with pytest.raises(ValueError, match="time zone"):
        await checkpointer.save({}, "t", occurred_at=datetime(2020, 1, 1))
    assert not await checkpointer.exists("t")


# --- The model -----------------------------------------------------------------------------------


@dataclass
class Log:
    """What a log should hold: its checkpoints by position, each with its number and its age."""

    names: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    ages: dict[str, int] = field(default_factory=dict)
    counted: int = 0

    def save(self, name: str, age: int) -> None:
        if name in self.names:
            self.names.remove(name)
        else:
            self.counted += 1
            self.numbers[name] = self.counted
        self.names.append(name)
        self.ages[name] = age

    def delete(self, name: str) -> None:
        self.names.remove(name)

    def fork(self, name: str) -> Log:
        names = self.names[: self.names.index(name) + 1]
        counted = max(self.numbers[one] for one in names)
        return Log(names, dict(self.numbers), dict(self.ages), counted)

    def prune(self, last: int | None, every: int | None, days: int | None) -> int:
        newest = len(self.names) - max(last or 1, 1)
        left = [
            name
            for at, name in enumerate(self.names)
            if at >= newest
            or (every is not None and self.numbers[name] % every == 0)
            or (days is not None and self.ages[name] < days)
        ]
        gone = len(self.names) - len(left)
        self.names = left
        return gone


NAMES = st.sampled_from([f"c{n}" for n in range(12)])
THREADS = st.sampled_from(["one", "two"])
STEPS = st.one_of(
    st.tuples(st.just("save"), THREADS, NAMES, st.sampled_from([0, 20, 40, 400])),
    st.tuples(st.just("save"), THREADS, NAMES, st.sampled_from([0, 20, 40, 400])),
    st.tuples(st.just("write"), THREADS, NAMES, st.integers(1, 3)),
    st.tuples(st.just("delete"), THREADS, NAMES, st.none()),
    st.tuples(st.just("fork"), THREADS, NAMES, st.none()),
    st.tuples(
        st.just("prune"),
        st.one_of(THREADS, st.none()),
        st.tuples(
            st.sampled_from([None, 1, 3]),
            st.sampled_from([None, 1, 2, 3]),
            st.sampled_from([None, 30]),
        ).filter(any),
        st.none(),
    ),
)


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
async def test_what_is_left_is_what_a_model_leaves(
    db: Database, steps: list[tuple[Any, ...]]
) -> None:
    db = db.for_tenant(f"{db.tenant}-model")
    checkpointer = Checkpointer(db)
    await checkpointer.forget(tenant=db.tenant)
    model: dict[str, Log] = {}
    start = datetime.now(UTC)
    for at, (what, thread, name, more) in enumerate(steps):
        log = model.get(thread, Log())
        if what == "save":
            then = start - timedelta(days=more)
            await checkpointer.save({"at": at}, thread, name, occurred_at=then)
            model.setdefault(thread, log).save(name, more)
        elif what == "write":
            for task in range(more):
                await checkpointer.put_writes([("c", at)], thread, name, f"task {task}")
        elif what == "delete":
            there = name in log.names
            assert await checkpointer.delete(thread, name) == there
            if there:
                log.delete(name)
        elif what == "fork":
            if name in log.names:
                model[f"fork {at}"] = log.fork(name)
                await checkpointer.fork(thread, name, new_thread_id=f"fork {at}")
        else:
            last, every, days = name
            rules = {
                "keep_last": last,
                "keep_every": every,
                "older_than": None if days is None else timedelta(days=days),
            }
            logs = list(model.values()) if thread is None else [log]
            gone = sum(one.prune(last, every, days) for one in logs)
            assert await checkpointer.prune(thread, **rules, dry_run=True) == gone
            assert await checkpointer.prune(thread, **rules) == gone
            assert await checkpointer.prune(thread, **rules) == 0
    for thread, log in model.items():
        assert await kept(checkpointer, thread) == log.names
        assert await ordinals(db, thread) == [log.numbers[name] for name in log.names]


# --- A sweep that fails --------------------------------------------------------------------------


async def test_a_sweep_that_fails_is_told_and_the_save_has_happened(
    db: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise DatabaseUnreachable("the disk is on holiday")
        yield

    monkeypatch.setattr("memalchemy.checkpoints.save.sweep", fails)
    told: list[Event] = []
    unsubscribe = events.subscribe(told.append)
    try:
        checkpointer = Checkpointer(db, retention=Retention(keep_last=1), max_chain_depth=1)
        for number in range(3):
            await checkpointer.save({"n": number}, "t", f"c{number}")
    finally:
        unsubscribe()

    assert await checkpointer.load("t") == {"n": 2}
    swept = [event for event in told if event.name == "checkpoint.sweep"]
    assert {event.error for event in swept} == {"DatabaseUnreachable"}
    assert "the disk is on holiday" in caplog.text
    assert "memalchemy prune" in caplog.text
