"""``kill -9`` of a process with a flow: acknowledged states are stored, and none is stored half."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import flow_to_kill

import memalchemy
from memalchemy.integrations.crewai import MemalchemyFlowPersistence
from waiting import first_lines

TOLD = 30
"""After how many pauses the process is killed."""


async def test_a_killed_flow_has_its_last_acknowledged_state_and_what_it_waits_for(
    shared_url: str, db: memalchemy.Database, lasting: None
) -> None:
    flow = uuid.uuid4().hex
    process = subprocess.Popen(  # noqa: ASYNC220 - nobody else waits
        [sys.executable, flow_to_kill.__file__, shared_url, db.tenant, flow],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    lines = first_lines(process.stdout, TOLD)
    process.kill()
    rest, errors = process.communicate()
    assert len(lines) == TOLD, errors
    told = int([*lines, *rest.splitlines()][-1])

    flows = MemalchemyFlowPersistence(db)
    state = await flows.aload_state(flow)
    paused = await flows.aload_pending_feedback(flow)
    assert state is not None
    assert paused is not None
    last = state["n"]
    assert last in (told, told + 1)
    assert state == paused[0] == {"n": last, "seen": [*range(last)]}
    assert paused[1].method_name == f"m{last}"
    ids = await flows.native.list_checkpoints(flow, 10_000)
    states = [await flows.native.load(flow, one) for one in ids[::-1]]
    assert [one["n"] for one in states] == [*range(last + 1)]
