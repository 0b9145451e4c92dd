"""What is measured, how a ratio comes of it, and when a target is met, or out of reach."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks import report
from benchmarks.by_hand import by_hand, connect
from benchmarks.curves_report import Curve
from benchmarks.measure import (
    CpuTime,
    Finding,
    Run,
    Seconds,
    Stopwatch,
    Target,
    at_least,
    at_most,
    cpu_ratio,
    cpu_speed,
    in_order_of,
    ratio,
    take_turns,
    under,
    with_floor,
)
from benchmarks.workload import FULL

from memalchemy import Checkpointer, Database


def finding(value: float, target: Target | None) -> Finding:
    return Finding("save", "a", value, "x", target, "1 ms", "2 ms")


# --- Targets -------------------------------------------------------------------------------------


def test_a_time_may_miss_by_a_tenth_and_bytes_by_nothing() -> None:
    for target, value, is_met in [
        (at_most(2.0), 2.19, True),
        (at_most(2.0), 2.21, False),
        (at_least(2.0), 1.81, True),
        (at_least(2.0), 1.79, False),
        (at_most(2.0, timed=False), 2.01, False),
        (at_least(2.0, timed=False), 1.99, False),
    ]:
        assert target.met_by(value) is is_met, (target, value)


def test_a_score_is_a_share_of_the_promise_under_both_rules() -> None:
    assert finding(3.0, at_most(2.0)).score == 1.5
    assert finding(3.0, at_least(6.0)).score == 2.0


def test_a_target_that_only_the_tolerance_meets_says_so() -> None:
    for value, said in [(1.0, "met"), (1.05, "met (within 10 %)"), (1.2, "MISSED")]:
        assert report.verdict(finding(value, at_most(1.0))) == said
        assert report.verdict(finding(1 / value, at_least(1.0))) == said
        assert report.cells(finding(value, at_most(1.0)))[-1] == said


def test_a_target_for_long_threads_is_left_out_of_a_short_run() -> None:
    target, note = under(FULL, 36, at_most(1.0))

    assert target is None
    assert "36" in note
    assert "1,222" in note
    assert under(FULL, FULL, at_most(1.0)) == (at_most(1.0), "")


def test_a_share_is_shown_without_a_unit() -> None:
    found = Finding("vectors", "recall", 0.9951, "", at_least(0.99, timed=False), "", "")

    assert str(found) == "0.995"


def test_what_is_missed_by_hand_too_has_a_floor() -> None:
    for case, target, value, took, floor in [
        ("above", at_most(1.0), 3.0, 2.0, "floor 2.000x by hand"),
        ("below", at_least(2.0), 1.0, 1.5, "floor 1.500x by hand"),
        ("in reach, with the tolerance", at_most(1.0), 3.0, 1.05, ""),
        ("far in reach", at_least(2.0), 1.0, 3.0, ""),
        ("met", at_most(1.0), 1.0, 2.0, ""),
        ("no target", None, 3.0, 2.0, ""),
    ]:
        found = with_floor(finding(value, target), took)

        assert found.floor == floor, case
        assert found.value == value, case
        assert found.is_met == (target is None or target.met_by(value)), case


# --- Rounds and times ----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 3, 7])
def test_each_subject_begins_and_follows_its_neighbour_as_often_as_another(number: int) -> None:
    subjects = list(range(number))
    orders = [in_order_of(turn, subjects) for turn in range(2 * number)]

    assert [sorted(order) for order in orders] == [subjects] * len(orders)
    assert {*Counter(order[0] for order in orders).values()} == {2}
    follows = Counter(pair for order in orders for pair in pairwise(order))
    assert all(times == follows[b, a] for (a, b), times in follows.items())


async def test_subjects_take_turns_in_an_order_that_changes() -> None:
    order: list[str] = []

    def run(name: str) -> Run:
        async def once() -> float:
            order.append(name)
            return float(len(order))

        return once

    found = await take_turns({name: run(name) for name in "abc"}, rounds=3)

    assert "".join(order) == "abccbabca"
    assert found["a"] == [1.0, 6.0, 9.0]


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    # The third round was disturbed on both sides.
    assert ratio([1.0, 2.0, 90.0], [2.0, 4.0, 30.0]) == 0.5


async def test_a_turn_knows_its_cpu_time_as_well_as_the_wall_s() -> None:
    async def waiting() -> float:
        watch = Stopwatch()
        await asyncio.sleep(0.02)  # timed: it uses no processor meanwhile
        return watch.read()

    async def working() -> float:
        watch = Stopwatch()
        began = time.process_time()
        while time.process_time() - began < 0.02:  # timed: it uses so much
            pass
        return watch.read()

    found = await take_turns({"waiting": waiting, "working": working}, rounds=3)
    cpu = cpu_ratio(found["working"], found["waiting"])

    assert cpu is not None
    assert cpu.ratio > 2
    assert cpu.ours >= 0.02


def test_cpu_time_is_left_out_where_a_turn_has_none() -> None:
    assert cpu_ratio([1.0, 2.0], [Seconds(1.0, 0.5), Seconds(2.0, 0.5)]) is None
    assert cpu_speed([Seconds(1.0, 1.0)], [Seconds(1.0, 3.0)]) == CpuTime(1.0, 3.0, 3.0)


def test_what_grows_faster_in_its_steepest_part_than_what_it_works_on_is_superlinear() -> None:
    for case, values, exponent, is_superlinear in [
        ("constant", (1.0, 1.0, 1.0), 0.0, False),
        ("linear", (1.0, 100.0, 10_000.0), 1.0, False),
        ("twice that in the end", (1.0, 100.0, 20_000.0), 1.15, True),
        ("quadratic in the end", (1.0, 1.0, 10_000.0), 2.0, True),
    ]:
        found = Curve(
            "threads", "save", "ms", tuple(zip((10, 1_000, 100_000), values, strict=True))
        )

        assert found.exponent == pytest.approx(exponent, abs=0.01), case
        assert found.is_superlinear is is_superlinear, case


# --- Floors: statements by the driver alone ------------------------------------------------------


async def test_a_statement_by_hand_fetches_what_ours_has_written(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/a.db") as db:
        await Checkpointer(db).save({"step": 1}, "thread")
        async with by_hand(tmp_path / "a.db") as fetch:
            rows = await fetch("SELECT head_id FROM threads WHERE thread_id = ?", "thread")

        assert [head for (head,) in rows] == await Checkpointer(db).list_checkpoints("thread")


def test_a_connection_by_hand_is_as_durable_as_ours(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "a.db")) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
