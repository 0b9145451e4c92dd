"""``kill -9`` during a graph: acknowledged steps are stored, and the graph continues."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import graph_to_kill

import memalchemy
from memalchemy.integrations.langgraph import MemalchemySaver
from waiting import first_lines

TOLD = 25
"""After how many steps the process is killed; it has far more to do."""


async def test_a_killed_graph_continues_after_its_last_acknowledged_step(
    shared_url: str, db: memalchemy.Database, lasting: None
) -> None:
    thread = uuid.uuid4().hex
    process = subprocess.Popen(  # noqa: ASYNC220 - nobody else waits
        [sys.executable, graph_to_kill.__file__, shared_url, db.tenant, thread],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    lines = first_lines(process.stdout, TOLD)
    process.kill()
    rest, errors = process.communicate()
    assert len(lines) == TOLD, errors
    told = [line.split() for line in [*lines, *rest.splitlines()]]

    saver = MemalchemySaver(db)
    everywhere = {"configurable": {"thread_id": thread}}
    found = [one async for one in saver.alist(everywhere)][::-1]
    stored = {one.config["configurable"]["checkpoint_id"]: one for one in found}
    # The last that it told of may have been on its way to the database; all before were there.
    acknowledged = [checkpoint_id for checkpoint_id, _ in told[:-1]]
    assert [name for name in acknowledged if name not in stored] == []
    steps = [one.metadata["step"] for one in found]
    assert steps == [*range(-1, len(steps) - 1)]
    assert max(steps) < graph_to_kill.STEPS

    graph = graph_to_kill.build(saver)
    resumed = {**everywhere, "recursion_limit": graph_to_kill.STEPS + 10}
    done = await graph.ainvoke(None, resumed, durability="exit")

    assert done["done"] == [*range(graph_to_kill.STEPS)]
    state = await graph.aget_state(everywhere)
    assert (state.values, state.next) == (done, ())
