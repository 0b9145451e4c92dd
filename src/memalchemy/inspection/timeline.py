"""The steps of a thread, newest first: each branch is a lane of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from memalchemy._cursors import decode_cursor, encode_cursor
from memalchemy.checkpoints import listing
from memalchemy.database import Database
from memalchemy.errors import InvalidArgument
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._log_heads import find_head, log_of, query
from memalchemy.inspection._records import Record, step_record
from memalchemy.inspection.step_digests import StepDigests
from memalchemy.inspection.writes import count_writes
from memalchemy.keys import encode_id
from memalchemy.log import Log
from memalchemy.log.scan import run_query
from memalchemy.protection.signed_reads import check_nothing_missing

MAX_LANES = 32
"""Lanes that are told apart; what is beyond them is in the last one."""

GAP = ""
"""Stands for a parent that was deleted: its lane goes on with the next older step."""


@dataclass
class Lanes:
    """The lanes that are open at a place of the timeline.

    ``expected`` has for each lane the id of the step that it goes on with: `GAP` if that one was
    deleted, ``None`` if the lane has ended.
    """

    expected: list[str | None] = field(default_factory=list)

    def place(self, step: str, parent: str | None) -> tuple[int, bool]:
        """Return the lane of the next older step, and whether several lanes go on with it.

        Its lane goes on with its *parent*; lanes that met in it end.
        """
        found = [at for at, wanted in enumerate(self.expected) if wanted == step]
        if not found and GAP in self.expected:
            found = [self.expected.index(GAP)]
        if not found:
            found = [self._free_lane()]
        lane, *merged = found
        self.expected[lane] = parent
        for other in merged:
            self.expected[other] = None
        return lane, bool(merged)

    def _free_lane(self) -> int:
        for lane, wanted in enumerate(self.expected):
            if wanted is None and lane:  # the first is the newest step's alone
                return lane
        if len(self.expected) < MAX_LANES:
            self.expected.append(None)
        return len(self.expected) - 1


def parent_to_follow(parent: str | None, seq: int, positions: Mapping[str, int]) -> str | None:
    """Return the parent with which a lane continues below a step at *seq*.

    *positions* are those of the parents that exist. A parent that was saved anew stands above its
    child, so the lane ends.
    """
    if parent is None:
        return None
    if parent not in positions:
        return GAP
    return parent if positions[parent] < seq else None


async def read_timeline(
    db: Database,
    digests: StepDigests,
    thread_id: str,
    namespace: Iterable[str] = (),
    *,
    cursor: str | None = None,
    limit: int = 200,
) -> Record:
    """Return a page of the steps of a thread, the newest first, with the lanes of branches.

    ``is_branch`` is true of steps outside of lane 0, the line of the newest step, and of steps that
    several steps follow: where a line forks. ``interrupt`` is true of those that wait for an answer
    to an interrupt of LangGraph: no step follows them. ``digest`` says what a step did, as far as
    states are not too large to be read for a list.
    """
    log = log_of(db, thread_id, namespace)
    before, lanes, is_first = None, Lanes(), cursor is None
    if cursor is not None:
        before, expected = decode_cursor("steps", cursor, (int, object))
        if not isinstance(expected, list):
            raise InvalidArgument("this cursor is of another listing")
        lanes = Lanes([one if isinstance(one, str) else None for one in expected])
    binds = log.binds() | {"p_limit": limit + 1, "p_before": before}
    statement = listing.list_checkpoints(db.dialect, before=before is not None)
    check = partial(check_nothing_missing, db.dialect, log, db.signing)
    rows = await run_query(db, statement, binds, replica_ok=True, check=check)
    if not rows and is_first:
        await find_head(db, log)
    infos = [listing.info(db, row) for row in rows]
    shown = infos[:limit]
    parents = await _read_positions(db, log, {info.parent_id for info in shown} - {None})
    writes = await count_writes(db, log, [info.checkpoint_id for info in shown])
    made, problem = await digests.read(log, shown)
    steps = []
    for at, info in enumerate(shown):
        parent = parent_to_follow(info.parent_id, info.seq, parents)
        is_continued = info.checkpoint_id in lanes.expected
        lane, forks = lanes.place(info.checkpoint_id, parent)
        count, waits = writes.get(info.checkpoint_id, (0, False))
        steps.append(
            step_record(info)
            | {
                "is_branch": forks or lane > 0,
                "lane": lane,
                "writes": count,
                "interrupt": waits and not is_continued,
                "newest": is_first and not at,
                "digest": made[info.checkpoint_id].as_record()
                if info.checkpoint_id in made
                else None,
            }
        )
    more = len(infos) > limit
    return {
        "steps": steps,
        "lanes": len(lanes.expected),
        "problem": problem,
        "next": encode_cursor("steps", shown[-1].seq, lanes.expected) if more else None,
    }


async def _read_positions(db: Database, log: Log, ids: Iterable[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    listed = [(encode_id(one),) for one in ids]
    for binds in db.dialect.statements.list_batches("p_keys", listed):
        for row in await query(db, statements.find_listed_checkpoints, log.binds() | binds):
            found[row.checkpoint_id] = row.seq
    return found
