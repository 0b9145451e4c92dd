"""An interrupt of LangGraph waits until it is answered, wherever its writes are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from memalchemy import Checkpointer, Database
from memalchemy.checkpoints import Checkpointer as Steps
from memalchemy.inspection import Activity, Inspector
from memalchemy.inspection.writes import NULL_TASK, SMALL, find_waiting

ASKED = ("task", [("__interrupt__", [{"value": "sure?", "id": "i"}])])
ANSWER = (NULL_TASK, [("__resume__", "yes")])
ASKED_AGAIN = ("task", [("__resume__", ["yes"]), ("__interrupt__", [{"value": "really?"}])])
RESULT = ("task", [("messages", "done")])
LARGE_RESULT = ("task", [("messages", bytes(range(256)) * (SMALL // 128))])
OTHERS = ("other", [("messages", "done")])

Calls = Sequence[tuple[str, list[tuple[str, Any]]]]


async def write(db: Database, calls: Calls) -> Steps:
    steps = Checkpointer(db)
    await steps.save({}, "t", "a")
    for task_id, writes in calls:
        await steps.put_writes(writes, "t", "a", task_id)
    return steps


@pytest.mark.parametrize(
    ("calls", "waits_for"),
    [
        ([ASKED], ["sure?"]),
        ([ASKED, OTHERS], ["sure?"]),
        ([ASKED, ANSWER], []),
        ([ASKED, ANSWER, ASKED_AGAIN], ["really?"]),
        ([ASKED, ANSWER, ASKED_AGAIN, ANSWER], []),
        ([ASKED, ANSWER, RESULT], []),
        ([ASKED, RESULT], []),
        ([ASKED, LARGE_RESULT], []),
    ],
)
async def test_an_interrupt_waits_until_its_task_has_gone_on(
    db: Database, calls: Calls, waits_for: list[str]
) -> None:
    steps = await write(db, calls)
    inspector = Inspector(db)

    infos = [info async for info in steps.history("t")]
    (step,) = (await inspector.timeline("t"))["steps"]
    interrupts = await inspector.interrupts("t")
    newest = await Activity(inspector, "t").newest(20)

    assert [one["value"] for one in interrupts] == waits_for
    assert await find_waiting(db, infos) == ({"a"} if waits_for else set())
    assert step["interrupt"] is bool(waits_for)
    assert step["writes"] == len((await inspector.writes("t"))["writes"])
    asked = [one for one in newest if one["kind"] == "interrupt" and not one["answered"]]
    assert [one["value"] for one in asked] == waits_for


async def test_a_fork_of_an_answered_step_does_not_wait(db: Database) -> None:
    steps = await write(db, [ASKED, ANSWER, RESULT])

    await steps.fork("t", "a", new_thread_id="fork")

    assert await Inspector(db).interrupts("fork") == []
    assert (await Inspector(db).timeline("fork"))["steps"][0]["interrupt"] is False
