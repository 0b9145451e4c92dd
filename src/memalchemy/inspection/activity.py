"""`Activity`: what is written to a thread, from its newest entries and steps on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from typing import Any

from memalchemy._json_types import to_json_types
from memalchemy.checkpoints import load
from memalchemy.contracts import MAX_LIMIT, CheckpointInfo
from memalchemy.errors import NotFound
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._log_heads import log_of
from memalchemy.inspection._records import Record, step_record, time
from memalchemy.inspection.inspector import Inspector
from memalchemy.inspection.messages import message
from memalchemy.inspection.states import channels_of_writes
from memalchemy.inspection.transcript import read_added_by_steps
from memalchemy.inspection.writes import INTERRUPT, NULL_TASK, RESUME, interrupts_of_write
from memalchemy.keys import check_thread_id, decode_namespace
from memalchemy.log import Log
from memalchemy.log.scan import run_query
from memalchemy.stored_messages import unwrapped
from memalchemy.threads import entry_rows

LOGS = 100
"""Logs of a thread that `Activity.since` looks at first, those written last."""
ROWS = 200
"""Rows of a log that `Activity.since` reads at once."""


_DELETED: Record = {"total": None, "added": 0, "messages": [], "waiting": []}
"""The fields of a step that was deleted since its row was read: it added nothing."""


@dataclass(frozen=True)
class _Seen:
    """The life of a log, and the last position that was read in it."""

    created_at: datetime
    position: int


@dataclass(frozen=True)
class _Row:
    """A row of a log, with a time of storage that is never before that of the row before it."""

    log: Log
    row: Any
    stored_at: datetime


class Activity:
    """Entries, steps and pending writes of a thread, each once and in the order of their positions.

        activity = Activity(Inspector(db), "support-42")
        newest = await activity.newest(10)
        while True:
            new = await activity.since()

    Positions are allotted under a lock that is held until the commit, so nothing appears behind
    what was read, whatever the writers' clocks say. A step or an entry that is saved anew is there
    again; removals and edits of entries are not seen. Rows of several namespaces are merged by the
    time at which they were stored.

    A record is plain JSON, with ``kind``, ``thread_id``, ``namespace``, ``position`` and
    ``occurred_at``. Its kind is

    - ``step``, with the fields of a checkpoint, the ``messages`` that it ``added`` (the newest 100)
      to those of its parent, the ``total`` of its messages, and ``waiting``, the interrupts that
      its state holds;
    - ``entry``, with its ``key`` and, in ``messages``, the entry as a message;
    - ``write``, with ``checkpoint_id``, ``task_id``, ``channel``, ``index`` and ``value``;
    - ``interrupt``, with ``checkpoint_id``, ``task_id``, ``value``, ``id`` and ``answered``, which
      is true if the same call returns what its task has written since, or its answer.

    Args:
        inspector: reads the states.
        thread_id: the thread.
        namespace: follows one log, not all of the thread.

    Raises, from any method:
        NotFound: there is no such thread, or it was deleted or has expired.
        KeyMissing, NotEncrypted, Corrupt: what is stored cannot be read.
        DatabaseUnreachable: and nothing is lost: the next call returns what this one did not.
    """

    def __init__(
        self, inspector: Inspector, thread_id: str, namespace: Iterable[str] | None = None
    ) -> None:
        self._inspector = inspector
        self._db = inspector.db
        self._states = inspector._states
        self._thread_id = check_thread_id(thread_id)
        self._only = None if namespace is None else log_of(self._db, thread_id, namespace)
        self._seen: dict[str, _Seen] = {}
        self.is_behind: bool = False
        """More is there than the last call returned."""

    @property
    def logs(self) -> int:
        """Number of logs of the thread that have been seen, one for each namespace."""
        return len(self._seen)

    async def newest(self, limit: int) -> list[Record]:
        """Return the newest *limit* rows, oldest first; `since` goes on after them.

        A query for each log that was written after the oldest of these rows.
        """
        found: list[list[_Row]] = []
        times: list[datetime] = []
        seen: dict[str, _Seen] = {}
        for head in await self._read_heads(MAX_LIMIT):
            position = head.next_seq - 1
            if limit and (len(times) < limit or times[-1] < head.updated_at):
                rows = await self._read_rows(head, "last", 0, limit)
                found.append(rows[::-1])
                position = max([position, *(row.row.seq for row in rows)])
                times = sorted((*times, *(row.stored_at for row in rows)), reverse=True)[:limit]
            seen[head.namespace] = _Seen(head.created_at, position)
        newest = list(_merge_by_time(found))[-limit:] if limit else []
        records = await self._to_records(newest)
        self._seen = seen
        return records

    async def since(self) -> list[Record]:
        """Return what was written since the last call, at most 200 rows of each log.

        If there is more, `is_behind` is set. A query if nothing was written; otherwise one more for
        each log that was, and a few for each ten steps. Of a thread with more than 100 logs,
        those written last are looked at; all of them if the 100 have news.
        """
        found: list[list[_Row]] = []
        seen = dict(self._seen)
        behind = False
        heads = await self._read_heads(LOGS)
        if len(heads) == LOGS and self._has_news(heads[-1]):
            # The log written longest ago has news, so those beyond it may have some, too.
            heads = await self._read_heads(MAX_LIMIT)
        for head in heads:
            position = self._last_seen(head)
            if self._has_news(head):
                rows = await self._read_rows(head, "first", position, ROWS)
                found.append(rows)
                if len(rows) == ROWS:
                    position, behind = rows[-1].row.seq, True
                else:
                    position = max([head.next_seq - 1, *(row.row.seq for row in rows)])
            seen[head.namespace] = _Seen(head.created_at, position)
        records = await self._to_records(list(_merge_by_time(found)))
        self._seen, self.is_behind = seen, behind
        return records

    def _last_seen(self, head: Any) -> int:
        """Return the last position that was read in a log, 0 if nothing was."""
        known = self._seen.get(head.namespace)
        # A log that was deleted and begun anew starts again from its first position.
        return known.position if known is not None and known.created_at == head.created_at else 0

    def _has_news(self, head: Any) -> bool:
        return int(head.next_seq) - 1 > self._last_seen(head)

    async def _read_heads(self, limit: int) -> Sequence[Any]:
        if self._only is not None:
            binds = self._only.binds()
        else:
            binds = {"k_tenant": self._db.tenant, "k_thread_id": self._thread_id, "p_limit": limit}
        # A replica could be behind the one that answered before.
        statement = statements.read_next_positions(self._db.dialect, one=self._only is not None)
        heads = await run_query(self._db, statement, binds)
        if not heads:
            was = "was deleted, or has expired" if self._seen else "does not exist"
            place = "" if self._only is None else f" in namespace {self._only.namespace}"
            raise NotFound(f"the thread {self._thread_id!r} {was}{place}")
        return heads

    async def _read_rows(self, head: Any, end: str, after: int, limit: int) -> list[_Row]:
        log = Log(self._db.tenant, self._thread_id, head.namespace)
        binds = log.binds() | {"p_after": after, "p_limit": limit}
        statement = statements.read_activity(self._db.dialect, end=end)
        rows = await run_query(self._db, statement, binds)
        return [_Row(log, row, row.stored_at or row.created_at) for row in rows]

    async def _to_records(self, rows: Sequence[_Row]) -> list[Record]:
        records: list[Record] = []
        steps = await self._step_records(rows)
        for one in rows:
            shared = {
                "thread_id": self._thread_id,
                "namespace": list(decode_namespace(one.log.namespace)),
                "position": one.row.seq,
            }
            if one.row.checkpoint_id is not None:
                found = [steps[one.log, one.row.seq]]
            elif one.row.kind == "entry":
                found = [await asyncio.to_thread(self._entry_record, one)]
            else:
                found = await asyncio.to_thread(lambda one: list(self._write_records(one)), one)
            records += [{"kind": record["kind"], **shared, **record} for record in found]
        _mark_answered(records)
        return records

    async def _step_records(self, rows: Sequence[_Row]) -> dict[tuple[Log, int], Record]:
        """Return the records of those rows that are steps; those of a log together."""
        by_log: dict[Log, list[CheckpointInfo]] = {}
        for one in rows:
            if one.row.checkpoint_id is not None:
                by_log.setdefault(one.log, []).append(self._info(one))
        found: dict[tuple[Log, int], Record] = {}
        for log, infos in by_log.items():
            added = await self._added_messages(infos)
            for info in infos:
                record = added.get(info.checkpoint_id, _DELETED)
                found[log, info.seq] = {
                    "kind": "step",
                    **step_record(info),
                    **{name: record[name] for name in _DELETED},
                }
        return found

    def _info(self, one: _Row) -> CheckpointInfo:
        row = one.row
        return CheckpointInfo(
            thread_id=self._thread_id,
            namespace=decode_namespace(one.log.namespace),
            checkpoint_id=row.checkpoint_id,
            parent_id=row.parent_id,
            seq=row.seq,
            metadata=row.meta,
            created_at=row.created_at,
            raw_size=row.raw_size,
            stored_size=row.stored_size,
            occurred_at=row.occurred_at,
        )

    async def _added_messages(self, infos: Sequence[CheckpointInfo]) -> dict[str, Record]:
        together = [info for info in infos if not channels_of_writes(info)]
        found = await read_added_by_steps(self._states, together, whole=True)
        for info in infos:
            if channels_of_writes(info):
                with suppress(NotFound):  # deleted since its row was read
                    found[info.checkpoint_id] = await self._inspector.added_messages(
                        info.thread_id, info.namespace, at=info.checkpoint_id, whole=True
                    )
        return found

    def _entry_record(self, one: _Row) -> Record:
        entry = entry_rows.to_entry(one.log, self._db.keyring, one.row)
        return {
            "kind": "entry",
            "key": entry.key,
            "occurred_at": time(entry.occurred_at),
            "messages": [message(entry.position, entry.value, entry.occurred_at, whole=True)],
        }

    def _write_records(self, one: _Row) -> Iterator[Record]:
        row = one.row
        for write in load.decode_pending_writes(one.log, row.label, [row], self._db.keyring):
            shared = {
                "checkpoint_id": row.label,
                "task_id": write.task_id,
                "occurred_at": time(row.stored_at),
            }
            if write.channel == INTERRUPT:
                for interrupt in interrupts_of_write(write.value):
                    asked = interrupt | {"value": to_json_types(interrupt["value"])}
                    yield {"kind": "interrupt", **shared, **asked, "answered": False}
            else:
                place = {"channel": write.channel, "index": write.index}
                value = to_json_types(unwrapped(write.value))
                yield {"kind": "write", **shared, **place, "value": value}


def _mark_answered(records: Iterable[Record]) -> None:
    """Mark the interrupts after which their task, or an answer to it, was written."""
    asked: list[Record] = []
    for record in records:
        if record["kind"] == "interrupt":
            asked.append(record)
        if record["kind"] != "write":
            continue
        is_answer = (record["task_id"], record["channel"]) == (NULL_TASK, RESUME)
        for one in asked:
            if (
                all(one[name] == record[name] for name in ("namespace", "checkpoint_id"))
                and (is_answer or one["task_id"] == record["task_id"])
                and one["position"] < record["position"]  # not in the same call
            ):
                one["answered"] = True


def _merge_by_time(logs: Sequence[Sequence[_Row]]) -> Iterator[_Row]:
    """Yield the rows of several logs by time; those of one log stay in their order."""
    return merge(*map(_with_rising_times, logs), key=_stored_at)


def _with_rising_times(rows: Sequence[_Row]) -> Iterator[_Row]:
    latest: datetime | None = None
    for row in rows:
        latest = row.stored_at if latest is None else max(latest, row.stored_at)
        yield _Row(row.log, row.row, latest)


def _stored_at(row: _Row) -> datetime:
    return row.stored_at
