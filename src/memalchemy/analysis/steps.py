"""The steps of a log, read as the public classes read them: checkpoints, then entries.

What cannot be read is noted and passed over: a state, an entry, or a log of which nothing can be
proven.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memalchemy.adapters import ADAPTERS
from memalchemy.analysis.added_messages import AddedMessage, AddedMessages, Digests
from memalchemy.analysis.selection import Selection
from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import CheckpointInfo, Entry, Snapshot, StoreItem
from memalchemy.database import Database
from memalchemy.errors import MemalchemyError
from memalchemy.protection.proven_jobs import ERRORS, Damage, is_damage
from memalchemy.store import Store
from memalchemy.stored_messages import unwrapped
from memalchemy.threads import ThreadLog

BATCH = 20
"""States that are read at once."""
ENTRIES = 200
"""Entries that are read at once."""


@dataclass(frozen=True, slots=True)
class LogHead:
    """A log, and what tells whether it has changed."""

    thread_id: str
    namespace: tuple[str, ...]
    metadata: Mapping[str, Any]
    has_checkpoints: bool
    has_entries: bool
    mark: str
    row: Any


@dataclass(frozen=True, slots=True)
class Step:
    """A checkpoint or an entry, with the messages that it adds."""

    name: str
    kind: str
    position: int
    parent: str | None
    metadata: Mapping[str, Any]
    size: int | None
    time: datetime
    stored_at: datetime
    messages: list[AddedMessage]


async def read_steps(
    db: Database,
    head: LogHead,
    selection: Selection,
    unreadable: Damage,
    *,
    known: Digests,
    with_messages: bool,
) -> AsyncIterator[Step]:
    """Yield the selected steps of a log: its checkpoints and then its entries, in their order.

    Without *with_messages* no state is read, and no step of a checkpoint has messages. No state
    adds one that is *known*.
    """
    if head.has_checkpoints:
        checkpointer = Checkpointer(db, namespace=head.namespace)
        infos = await _list_checkpoints(checkpointer, head.thread_id, unreadable)
        async for step in _read_checkpoints(
            checkpointer, infos, selection, unreadable, known=known, with_messages=with_messages
        ):
            yield step
    if head.has_entries:
        async for step in _read_entries(db, head, selection, unreadable):
            yield step


async def find_messages(
    db: Database, thread_id: str, namespace: tuple[str, ...], unreadable: Damage
) -> Digests:
    """Return the messages of all states of a log, each as often as one of them holds it."""
    checkpointer = Checkpointer(db, namespace=namespace)
    infos = await _list_checkpoints(checkpointer, thread_id, unreadable)
    added = AddedMessages(infos)
    async for info, snapshot in _read_in_batches(checkpointer, infos, unreadable):
        if snapshot is not None:
            added.read(info, snapshot)
    return added.found


async def read_usage_items(
    db: Database, head: LogHead, selection: Selection, unreadable: Damage
) -> AsyncIterator[StoreItem]:
    """Yield the items in which the framework of a log states what its turns took."""
    namespace = usage_namespace_of(head.namespace, head.thread_id)
    if namespace is None:
        return
    with unreadable.noted():
        async for item in Store(db).iter_items(namespace, order="key"):
            if item.key.isdigit() and selection.has_time(item.updated_at):
                yield item


def usage_namespace_of(namespace: tuple[str, ...], thread_id: str) -> tuple[str, ...] | None:
    """Return the namespace of those items; ``None`` if the framework has none for the log."""
    declared = ADAPTERS.of(namespace)
    return None if declared is None else declared.view.usage(namespace, thread_id)


async def _list_checkpoints(
    checkpointer: Checkpointer, thread_id: str, unreadable: Damage
) -> list[CheckpointInfo]:
    """Return the checkpoints of a log, the first one first."""
    infos: list[CheckpointInfo] = []
    with unreadable.noted():
        infos = [info async for info in checkpointer.history(thread_id)][::-1]
    return infos


async def _read_checkpoints(
    checkpointer: Checkpointer,
    infos: list[CheckpointInfo],
    selection: Selection,
    unreadable: Damage,
    *,
    known: Digests,
    with_messages: bool,
) -> AsyncIterator[Step]:
    chosen = {info.checkpoint_id for info in infos if selection.has_time(info.occurred_at)}
    parents = {info.parent_id for info in infos if info.checkpoint_id in chosen}
    read = [info for info in infos if info.checkpoint_id in chosen | parents]
    added = AddedMessages(read, known)
    async for info, snapshot in _read_in_batches(
        checkpointer, read, unreadable, with_states=with_messages
    ):
        messages = [] if snapshot is None else added.read(info, snapshot)
        if info.checkpoint_id in chosen and (snapshot is not None or not with_messages):
            yield Step(
                info.checkpoint_id,
                "checkpoint",
                info.seq,
                info.parent_id,
                info.metadata,
                info.raw_size,
                info.occurred_at,
                info.created_at,
                messages,
            )


async def _read_in_batches(
    checkpointer: Checkpointer,
    infos: list[CheckpointInfo],
    unreadable: Damage,
    *,
    with_states: bool = True,
) -> AsyncIterator[tuple[CheckpointInfo, Snapshot | None]]:
    """Yield checkpoints with their states; ``None`` of one that cannot be read or is not wanted."""
    for first in range(0, len(infos), BATCH):
        some = infos[first : first + BATCH]
        found: Mapping[str, Snapshot] = {}
        if with_states:
            found = await _read_states(checkpointer, some, unreadable)
        for info in some:
            yield info, found.get(info.checkpoint_id)


async def _read_states(
    checkpointer: Checkpointer, infos: list[CheckpointInfo], unreadable: Damage
) -> dict[str, Snapshot]:
    """Read states at once, or one by one if one of them cannot be read."""
    thread_id = infos[0].thread_id
    ids = [info.checkpoint_id for info in infos]
    try:
        return {one.checkpoint_id: one async for one in checkpointer.snapshots(thread_id, ids)}
    except ERRORS as error:
        _raise_unless_damage(error)
    found = {}
    for one in ids:
        with unreadable.noted():
            snapshot = await checkpointer.snapshot(thread_id, one)
            if snapshot is not None:
                found[one] = snapshot
    return found


async def _read_entries(
    db: Database, head: LogHead, selection: Selection, unreadable: Damage
) -> AsyncIterator[Step]:
    log = ThreadLog(db, namespace=head.namespace)
    after, end = 0, head.row.next_seq
    while after < end:
        try:
            page = await _range(log, head, selection, after, ENTRIES)
        except ERRORS as error:
            _raise_unless_damage(error)
            until = await _range_until_damage(log, head, selection, after, end, unreadable)
            if until is None:
                return
            page = until
        for entry in page[0]:
            yield _step_of_entry(entry)
        after = page[1]


_Page = tuple[list[Entry], int]
"""Entries, and the position up to which they were read."""


async def _range(
    log: ThreadLog, head: LogHead, selection: Selection, after: int, limit: int, end: int = 2**62
) -> _Page:
    found = await log.range(
        head.thread_id,
        after=after,
        before=end,
        since=selection.since,
        until=selection.until,
        limit=limit,
    )
    return found, found[-1].position if len(found) == limit else min(end - 1, head.row.next_seq)


async def _range_until_damage(
    log: ThreadLog,
    head: LogHead,
    selection: Selection,
    after: int,
    end: int,
    unreadable: Damage,
) -> _Page | None:
    """Read the entries before the first that cannot be read, and step over that one.

    ``None`` if nothing of the log can be read, for example because an entry is missing that a
    signature counts.
    """
    with unreadable.noted():
        await _range(log, head, selection, after, 1, after + 1)  # between two positions is nothing
        good, bad = after, end
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                await _range(log, head, selection, after, 2**31, middle + 1)
                good = middle
            except ERRORS as error:
                _raise_unless_damage(error)
                bad = middle
        with unreadable.noted():
            await _range(log, head, selection, good, 1, bad + 1)
        found, _ = await _range(log, head, selection, after, 2**31, good + 1)
        return found, bad
    return None


def _step_of_entry(entry: Entry) -> Step:
    given = unwrapped(entry.value)
    own = given.get("metadata") if isinstance(given, dict) else None
    return Step(
        str(entry.position),
        "entry",
        entry.position,
        None,
        own if isinstance(own, dict) else {},
        None,
        entry.occurred_at,
        entry.stored_at,
        [AddedMessage(entry.position, given)],
    )


def _raise_unless_damage(error: MemalchemyError) -> None:
    if not is_damage(error):
        raise error
