"""The details of a thread: its subject, its open question, and its other branches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memalchemy.checkpoints import listing
from memalchemy.contracts import CheckpointInfo
from memalchemy.inspection._log_heads import log_of
from memalchemy.inspection._records import Record, time
from memalchemy.inspection.states import States
from memalchemy.inspection.step_digests import StepDigests
from memalchemy.inspection.thread_summaries import (
    STATE_BYTES,
    ThreadSummaries,
    question_of,
    read_newest,
)
from memalchemy.inspection.threads import read_thread
from memalchemy.inspection.tree import tree
from memalchemy.inspection.writes import count_writes, interrupts_of_state, read_interrupts_of
from memalchemy.log import Log
from memalchemy.log.scan import run_query

STEPS = 1_000
"""Newest steps among which the ends of branches are looked for."""
BRANCHES = 12
"""Branches that are described."""


async def read_details(
    states: States,
    summaries: ThreadSummaries,
    digests: StepDigests,
    thread_id: str,
    namespace: Iterable[str] = (),
) -> Record:
    """Describe a thread; see `Inspector.thread`."""
    db, log = states.db, log_of(states.db, thread_id, namespace)
    head, record = await read_thread(db, thread_id, namespace)
    newest = await read_newest(db, [head])
    summary = (await summaries.read([head], newest))[head.log_id]
    info = newest.get(head.log_id)
    found: Record = {"interrupts": [], "branches": [], "more_branches": 0}
    if info is not None:
        found["interrupts"] = await _interrupts(states, log, info)
        ends, infos = await _other_ends(states, log, info)
        read, problem = await digests.read(log, ends[:BRANCHES])
        line = _line_of(info, infos)
        found["branches"] = [
            _branch(one, infos, line, read.get(one.checkpoint_id)) for one in ends[:BRANCHES]
        ]
        found["more_branches"] = max(len(ends) - BRANCHES, 0)
        found["problem"] = summary.problem or problem
    return record | summary.as_record() | found


async def _interrupts(states: States, log: Log, info: CheckpointInfo) -> list[Record]:
    """Return the interrupts of the newest step; of a large state, only those of its writes."""
    writes = await count_writes(states.db, log, [info.checkpoint_id])
    _, waits = writes.get(info.checkpoint_id, (0, False))
    if waits:
        found = await read_interrupts_of(states, log, info)
    elif info.raw_size <= STATE_BYTES:
        loaded = await states.load(log, info)
        found = interrupts_of_state(loaded.state, info.namespace)
    else:
        found = []
    return [one | {"text": question_of([one]), "value": tree(one["value"])} for one in found]


async def _other_ends(
    states: States, log: Log, newest: CheckpointInfo
) -> tuple[list[CheckpointInfo], Mapping[str, CheckpointInfo]]:
    """Return the ends of the branches beside the newest step's, latest first, and the steps."""
    db = states.db
    statement = listing.list_checkpoints(db.dialect, before=False)
    rows = await run_query(db, statement, log.binds() | {"p_limit": STEPS}, replica_ok=True)
    infos = {one.checkpoint_id: one for one in (listing.info(db, row) for row in rows)}
    parents = {one.parent_id for one in infos.values()}
    ends = [one for id_, one in infos.items() if id_ not in parents]
    return [one for one in ends if one.checkpoint_id != newest.checkpoint_id], infos


def _line_of(info: CheckpointInfo, infos: Mapping[str, CheckpointInfo]) -> list[str]:
    """Return the ids of a step and those before it, as far as *infos* go."""
    line: dict[str, None] = {}
    current: CheckpointInfo | None = info
    while current is not None and current.checkpoint_id not in line:
        line[current.checkpoint_id] = None
        current = infos.get(current.parent_id) if current.parent_id is not None else None
    return list(line)


def _branch(
    end: CheckpointInfo,
    infos: Mapping[str, CheckpointInfo],
    newest_line: Sequence[str],
    digest: Any,
) -> Record:
    line, shared = _line_of(end, infos), set(newest_line)
    own = [one for one in line if one not in shared]
    fork = next((one for one in line if one in shared), None)
    return {
        "checkpoint_id": end.checkpoint_id,
        "occurred_at": time(end.occurred_at),
        "steps": len(own),
        "forks_at": fork,
        "messages": None if digest is None else digest.messages,
        "text": None if digest is None else digest.text,
        "role": None if digest is None else digest.role,
    }
