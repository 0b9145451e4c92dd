"""Pending writes of steps, and the interrupts that wait for somebody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from memalchemy._json_types import to_json_types
from memalchemy.adapters import views_of
from memalchemy.checkpoints import load
from memalchemy.contracts import CheckpointInfo, PendingWrite
from memalchemy.database import Database
from memalchemy.errors import KeyMissing, NotEncrypted
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._log_heads import log_of, query
from memalchemy.inspection._records import Record
from memalchemy.inspection.states import States, checkpointer_of
from memalchemy.inspection.tree import tree
from memalchemy.log import Log
from memalchemy.log.pending_writes import bind_write_keys
from memalchemy.stored_messages import unwrapped

SMALL = 64 * 1024
"""Bytes of pending writes that a list of steps reads."""
ANY_SIZE = 2**31 - 1
"""More bytes than a pending write has."""

# The channels of interrupts and of their answers in the pending writes of any thread, and the task
# that an answer is written for before the tasks that take it up. They are called as LangGraph's.
INTERRUPT, RESUME = "__interrupt__", "__resume__"
NULL_TASK = "00000000-0000-0000-0000-000000000000"


async def read_pending_writes(
    states: States, thread_id: str, namespace: Iterable[str] = (), *, at: str | None = None
) -> Record:
    """Return the pending writes of a checkpoint, and the interrupts that it waits with."""
    log = log_of(states.db, thread_id, namespace)
    info = await states.require_checkpoint(log, at)
    found = await checkpointer_of(states.db, log).get_writes(thread_id, info.checkpoint_id)
    interrupts = await _list_interrupts(states, log, info, found)
    return {
        "at": info.checkpoint_id,
        "writes": [
            {
                "task_id": write.task_id,
                "channel": write.channel,
                "index": write.index,
                "value": tree(write.value),
            }
            for write in found
        ],
        "interrupts": [one | {"value": tree(one["value"])} for one in interrupts],
    }


async def read_interrupts(
    states: States, thread_id: str, namespace: Iterable[str] = (), *, at: str | None = None
) -> list[Record]:
    """Return the interrupts that a checkpoint waits with: their ids and whole values as JSON."""
    log = log_of(states.db, thread_id, namespace)
    found = await read_interrupts_of(states, log, await states.require_checkpoint(log, at))
    return [one | {"value": to_json_types(one["value"])} for one in found]


async def read_interrupts_of(states: States, log: Log, info: CheckpointInfo) -> list[Record]:
    """Return the interrupts that a checkpoint of a log waits with; values are as stored."""
    found = await checkpointer_of(states.db, log).get_writes(log.thread_id, info.checkpoint_id)
    return await _list_interrupts(states, log, info, found)


async def _list_interrupts(
    states: States, log: Log, info: CheckpointInfo, writes: Iterable[PendingWrite]
) -> list[Record]:
    if any(write.channel == INTERRUPT for write in writes):
        ids = [info.checkpoint_id]
        rows = (await _read_rows(states.db, log, ids, ANY_SIZE)).get(info.checkpoint_id, [])
        waiting = waiting_interrupts(_decode_calls(states.db, log, info.checkpoint_id, rows))
        return [one for write in waiting for one in interrupts_of_write(write.value)]
    loaded = await states.load(log, info)
    return await asyncio.to_thread(interrupts_of_state, loaded.state, info.namespace)


def waiting_interrupts(calls: Iterable[Sequence[PendingWrite]]) -> list[PendingWrite]:
    """Return the writes of interrupts that wait for an answer.

    An interrupt waits until its task writes something else, or an answer is written that no task
    has taken up. A task that is interrupted again writes the new interrupt after the old answers.

    Args:
        calls: the writes of each call of `Checkpointer.put_writes`, in their order.
    """
    waiting: dict[str, PendingWrite] = {}
    for writes in calls:
        for write in writes:
            if (write.task_id, write.channel) == (NULL_TASK, RESUME):
                waiting.clear()
            waiting.pop(write.task_id, None)
        waiting |= {write.task_id: write for write in writes if write.channel == INTERRUPT}
    return list(waiting.values())


async def count_writes(db: Database, log: Log, ids: Sequence[str]) -> dict[str, tuple[int, bool]]:
    """Return the number of each checkpoint's writes, and whether an interrupt of it waits."""
    found: dict[str, tuple[int, bool]] = {}
    for id_, rows in (await _read_rows(db, log, ids, SMALL)).items():
        small = [row for row in rows if row.payload is not None]
        count, waits = _count_writes(db, log, id_, rows, small)
        if waits and len(small) < len(rows):  # a large one may be the result of the task
            rows = (await _read_rows(db, log, [id_], ANY_SIZE)).get(id_, [])
            count, waits = _count_writes(db, log, id_, rows, rows)
        found[id_] = count, waits
    return found


async def _read_rows(db: Database, log: Log, ids: Sequence[str], most: int) -> dict[str, list[Any]]:
    """Return the rows of checkpoints' writes, in their order; larger payloads are ``None``."""
    by_id: dict[str, list[Any]] = {}
    for binds in bind_write_keys(db.dialect, ids):
        values = log.binds() | binds | {"p_most": most}
        for row in await query(db, statements.read_small_writes, values):
            by_id.setdefault(row.label, []).append(row)
    return by_id


async def find_waiting(db: Database, infos: Sequence[CheckpointInfo]) -> set[str]:
    """Return the ids of checkpoints that wait for an answer to an interrupt of LangGraph.

    *infos* are the newest checkpoints of one log, without a gap: none of them continues another
    that waits.
    """
    if not infos:
        return set()
    parents = {info.parent_id for info in infos}
    ends = [info.checkpoint_id for info in infos if info.checkpoint_id not in parents]
    log = log_of(db, infos[0].thread_id, infos[0].namespace)
    writes = await count_writes(db, log, ends)
    return {id_ for id_, (_, waits) in writes.items() if waits}


def _count_writes(
    db: Database, log: Log, id_: str, rows: Sequence[Any], small: Sequence[Any]
) -> tuple[int, bool]:
    """Count the writes of *rows*, of which *small* can be read, and say whether they wait."""
    calls: list[list[PendingWrite]] = []
    with suppress(KeyMissing, NotEncrypted):  # the steps themselves are readable
        calls = _decode_calls(db, log, id_, small)
    if not calls:
        return len(rows), False
    places = {(write.task_id, write.index) for writes in calls for write in writes}
    return len(places) + len(rows) - len(small), bool(waiting_interrupts(calls))


def _decode_calls(
    db: Database, log: Log, id_: str, rows: Sequence[Any]
) -> list[list[PendingWrite]]:
    """Return the writes of each call of `Checkpointer.put_writes`, in their order."""
    return [load.decode_pending_writes(log, id_, [row], db.keyring) for row in rows]


def interrupts_of_write(value: Any) -> list[Record]:
    """Return the interrupts of a write to `INTERRUPT`, with their ids and whole values."""
    found = unwrapped(value)
    return [
        _interrupt_record(one["value"], one.get("id"))
        if isinstance(one, dict) and "value" in one
        else _interrupt_record(one, None)
        for one in (found if isinstance(found, list) else [found])
    ]


def interrupts_of_state(state: Any, namespace: Sequence[str] = ()) -> list[Record]:
    """Return the interrupts in the state of a framework without pending writes."""
    found = unwrapped(state) if isinstance(state, dict) else None
    if not isinstance(found, dict):
        return []
    for view in views_of(namespace):
        if (waiting := view.interrupts(found)) is not None:
            return [_interrupt_record(value, id_) for value, id_ in waiting]
    return []


def _interrupt_record(value: Any, id_: Any) -> Record:
    return {"value": value, "id": None if id_ is None else str(id_)}
