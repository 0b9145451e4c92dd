"""Several processes on one database: nothing is lost, torn or out of order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from workers import proof
from workers.states import name_of, state_of

from memalchemy import Checkpointer, Database
from memalchemy.database import Intent

HERE = Path(__file__).parent
# Sixteen processes on few cores: numpy's own threads would only get in the way.
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
SECONDS = float(os.environ.get("MEMALCHEMY_CROWD_SECONDS", "10"))
"""How long savers and deleters run together."""


@pytest.fixture
def tenant() -> str:
    return f"t-{uuid.uuid4().hex[:16]}"


def crowd(
    url: str, tenant: str, parts: list[tuple[str, dict[str, Any]]], **environment: str
) -> list[dict[str, Any]]:
    """Run one process for each of *parts* together; everything they were told, in no order."""
    done = subprocess.run(
        [sys.executable, "-m", "workers.crowd", url, tenant, json.dumps(parts)],
        cwd=HERE,
        env=ENVIRONMENT | environment,
        capture_output=True,
        text=True,
        timeout=SECONDS + 120,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


class Actor:
    """A process of `workers.turns`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, *command: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def actor(url: str, tenant: str) -> Iterator[Actor]:
    process = subprocess.Popen(
        [sys.executable, "-m", "workers.turns", url, tenant],
        cwd=HERE,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Actor(process)


async def test_eight_processes_saving_on_one_thread_lose_nothing(place: str, tenant: str) -> None:
    told = crowd(
        place,
        tenant,
        [("save", {"worker": f"w{i}", "threads": ["thread"], "saves": 50}) for i in range(8)],
    )

    async with Database(place, tenant=tenant) as db:
        keep = Checkpointer(db)
        infos = await proof.history(keep, "thread")
        names = [info.checkpoint_id for info in infos]
        assert len(told) == 400
        assert sorted(names) == sorted(fact["saved"] for fact in told)
        for i in range(8):
            its_own = [name for name in names if name.startswith(f"w{i}-")]
            assert its_own == [name_of(f"w{i}", number) for number in range(1, 51)]
        proof.is_one_line(infos)
        await proof.all_load(keep, "thread", infos)
        await proof.nothing_is_left_over(db)


async def test_eight_processes_saving_on_many_threads_lose_nothing(place: str, tenant: str) -> None:
    threads = [f"thread {i}" for i in range(25)]
    told = crowd(
        place,
        tenant,
        [("save", {"worker": f"w{i}", "threads": threads, "saves": 50}) for i in range(8)],
    )

    async with Database(place, tenant=tenant) as db:
        keep = Checkpointer(db)
        assert len(told) == 400
        assert sorted(await keep.list_threads()) == sorted(threads)
        for thread in threads:
            infos = await proof.history(keep, thread)
            saved = [fact["saved"] for fact in told if fact["thread"] == thread]
            assert sorted(info.checkpoint_id for info in infos) == sorted(saved)
            proof.is_one_line(infos)
            await proof.all_load(keep, thread, infos)


async def test_what_deleters_leave_of_what_savers_save_is_whole(place: str, tenant: str) -> None:
    """Every save builds on a base that another process may be deleting just then."""
    common = {"thread": "thread", "seconds": SECONDS}
    savers = [("save_for", {"worker": f"w{i}"} | common) for i in range(6)]
    deleters = [("delete_for", {"seed": i} | common) for i in range(2)]

    told = crowd(place, tenant, savers + deleters)

    saved = {fact["saved"] for fact in told if "saved" in fact}
    deleted = {fact["deleted"] for fact in told if "deleted" in fact}
    pruned = sum(fact.get("pruned", 0) for fact in told)
    print(f"{len(saved)} saved, {len(deleted)} deleted, {pruned} pruned")
    assert deleted
    async with Database(place, tenant=tenant) as db:
        keep = Checkpointer(db)
        infos = await proof.history(keep, "thread")
        assert [fact["wrong"] for fact in told if "wrong" in fact] == []
        await proof.all_load(keep, "thread", infos)
        left = {info.checkpoint_id for info in infos}
        assert left <= saved - deleted
        assert len(left) == len(saved) - len(deleted) - pruned
        assert len({info.seq for info in infos}) == len(left)
        for info in infos:
            assert name_of(info.metadata["worker"], info.metadata["number"]) == info.checkpoint_id
        await proof.nothing_is_left_over(db)


async def test_two_processes_taking_turns_make_one_line(place: str, tenant: str) -> None:
    names = [name_of("ab"[number % 2], number) for number in range(1, 21)]
    with actor(place, tenant) as one, actor(place, tenant) as other:
        for number, name in enumerate(names):
            first, second = (one, other) if number % 2 else (other, one)
            assert first("save", "thread", name) == name
            assert second("load", "thread") == state_of(name)

    async with Database(place, tenant=tenant) as db:
        keep = Checkpointer(db)
        infos = await proof.history(keep, "thread")
        assert [info.checkpoint_id for info in infos] == names
        proof.is_one_line(infos)
        await proof.all_load(keep, "thread", infos)


async def test_a_save_goes_well_though_its_base_was_deleted_by_another_process(
    place: str, tenant: str
) -> None:
    """For chains of every shape: the process still holds a tip of which nothing is left."""
    lengths = range(1, 10)
    with actor(place, tenant) as one:
        for length in lengths:
            for number in range(length):
                one("save", f"thread {length}", name_of("a", 10 + number))
        async with Database(place, tenant=tenant) as db:
            for length in lengths:
                for number in range(length):
                    name = name_of("a", 10 + number)
                    assert await Checkpointer(db).delete(f"thread {length}", name)

        for length in lengths:
            assert one("save", f"thread {length}", "b-20") == "b-20"

    async with Database(place, tenant=tenant) as db:
        keep = Checkpointer(db)
        for length in lengths:
            assert await keep.load(f"thread {length}") == state_of("b-20")
            (info,) = await proof.history(keep, f"thread {length}")
            assert info.parent_id is None
        await proof.nothing_is_left_over(db)


async def test_a_plain_save_goes_through_however_often_others_delete_its_base(
    place: str, tenant: str
) -> None:
    """A plain save never conflicts: it cannot lose against deleters for ever."""
    async with Database(place, tenant=tenant) as db, Database(place, tenant=tenant) as elsewhere:
        keep, rival = Checkpointer(db), Checkpointer(elsewhere)
        await rival.save(state_of("r-10"), "thread")
        run, deletions = db.run, 0

        async def write_a_moment_too_late(program: Any, intent: Intent, **options: Any) -> Any:
            nonlocal deletions
            if intent.writes and deletions < 50:
                deletions += 1
                (newest,) = await rival.list_checkpoints("thread")
                await rival.delete("thread", newest)
                await rival.save(state_of("r-10"), "thread")
            return await run(program, intent, **options)

        db.run = write_a_moment_too_late  # type: ignore[method-assign]
        assert await keep.save(state_of("a-11"), "thread", "a-11") == "a-11"

    async with Database(place, tenant=tenant) as db:
        assert await Checkpointer(db).load("thread") == state_of("a-11")


async def test_a_thread_deleted_by_another_process_starts_anew_with_a_plain_save(
    place: str, tenant: str
) -> None:
    with actor(place, tenant) as one:
        for number in range(1, 6):
            one("save", "thread", name_of("a", number))
        async with Database(place, tenant=tenant) as db:
            assert await Checkpointer(db).delete("thread")

        one("save", "thread", "a-6")
        one("save", "thread", "a-7")

    async with Database(place, tenant=tenant) as db:
        keep = Checkpointer(db)
        infos = await proof.history(keep, "thread")
        assert [info.checkpoint_id for info in infos] == ["a-6", "a-7"]
        assert [info.parent_id for info in infos] == [None, "a-6"]
        await proof.all_load(keep, "thread", infos)
