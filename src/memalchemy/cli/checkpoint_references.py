"""References to threads, checkpoints and entries, such as ``latest~2`` and ``@2026-11-01``.

`find_thread`, `find_checkpoint` and `find_entry` are the only places that read them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from memalchemy.cli.usage_errors import UsageError
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy import Checkpointer, Database, ThreadLog

LATEST = "latest"

LISTED = 5
"""Ids that a message lists."""

_PAGE = 500
"""Steps that are read together on the way to an ancestor."""

_PAGES = 20
"""Such pages that are read to tell whether one checkpoint continues another."""

_ANCESTOR = re.compile(r"(.+)~(\d{0,9})", re.DOTALL)


async def find_thread(db: Database, reference: str) -> str:
    """Return the id of the thread that has this id, or whose id alone begins with it.

    Returns *reference* itself if there is no such thread, or if it is empty: every id begins so.

    Raises:
        UsageError: several ids begin with it; the message lists some.
    """
    from memalchemy.log.listing import threads_by_prefix

    if reference == "":
        return reference
    # Of all ids that begin with it, the id itself comes first.
    found = await threads_by_prefix(db, reference, limit=LISTED + 1)
    if not found or found[0] == reference:
        return reference
    if len(found) > 1:
        raise UsageError(f"several threads begin with {reference!r}: {_join_ids(found)}")
    return found[0]


async def find_checkpoint(
    checkpointer: Checkpointer, thread: str, reference: str, *, whole_ids: bool = False
) -> str:
    """Return the id of the checkpoint of *thread* that *reference* names.

    These are tried in this order:

    - an id;
    - ``latest``, the newest checkpoint;
    - ``@TIME``, the latest that happened at or before a time in UTC;
    - the beginning of an id that no other id has, unless *whole_ids*;
    - ``REFERENCE~N``, the N-th parent; ``~`` is ``~1``.

    Raises:
        NotFound: there is no such checkpoint.
        UsageError: several ids begin with it, or the time is not one.
    """
    if await checkpointer.exists(thread, reference):
        return reference
    if reference == "":
        raise UsageError("the reference to a checkpoint is empty; `latest` is the newest one")
    if reference == LATEST:
        newest = await checkpointer.list_checkpoints(thread, 1)
        if not newest:
            raise _checkpoint_missing(thread, reference)
        return newest[0]
    ancestor = _ANCESTOR.fullmatch(reference)
    is_relative = ancestor is not None and reference.startswith((f"{LATEST}~", "@"))
    if reference.startswith("@") and not is_relative:
        return await _find_at_time(checkpointer, thread, reference)
    if not is_relative:
        found = await _find_by_prefix(checkpointer, thread, reference)
        if len(found) > 1:
            raise UsageError(
                f"several checkpoints of thread {thread!r} begin with {reference!r}: "
                f"{_join_ids(found)}"
            )
        if found and whole_ids:
            raise NotFound(
                f"there is no checkpoint {reference!r} in thread {thread!r}; give the whole id, "
                f"which may be {found[0]}"
            )
        if found:
            return found[0]
    if ancestor is None:
        raise _checkpoint_missing(thread, reference)
    start = await find_checkpoint(checkpointer, thread, ancestor[1], whole_ids=whole_ids)
    return await _find_ancestor(checkpointer, thread, start, int(ancestor[2] or 1), reference)


async def find_entry(log: ThreadLog, thread: str, reference: str) -> int:
    """Return the position of the entry of *thread* that *reference* names.

    It is a position, ``latest``, ``@TIME`` as in `find_checkpoint`, or ``REFERENCE~N``, the N-th
    entry before.

    Raises:
        NotFound: there is no such entry.
        UsageError: *reference* is none of these.
    """
    ancestor = _ANCESTOR.fullmatch(reference)
    start, steps = (ancestor[1], int(ancestor[2] or 1)) if ancestor else (reference, 0)
    if start == LATEST:
        before = None
    elif start.startswith("@"):
        before = await _find_entry_at(log, thread, start)
    elif re.fullmatch("[0-9]{1,18}", start):
        before = int(start) + 1
    else:
        raise UsageError(
            f"{reference!r} names no entry; write a position, latest~2 or @2026-11-01: thread "
            f"{thread!r} has entries, but no checkpoint"
        )
    try:
        found = await log.tail(thread, steps + 1, before=before)
    except ValueError as error:
        raise UsageError(str(error)) from error
    is_there = len(found) > steps and (
        start[0] in f"{LATEST[0]}@" or found[-1].position + 1 == before
    )
    if not is_there:
        raise NotFound(
            f"thread {thread!r} has no entry {reference!r}; `memalchemy show` prints all"
        )
    return found[0].position


async def _find_entry_at(log: ThreadLog, thread: str, reference: str) -> int:
    """Return the position after the last entry that happened at or before a time."""
    from memalchemy.keys import encode_namespace
    from memalchemy.log import entries
    from memalchemy.log.scan import run_query
    from memalchemy.log.tables import Log
    from memalchemy.protection.signed_reads import check_every_row

    db = log.db
    moment = _parse_time(reference)
    within = Log(db.tenant, thread, encode_namespace(log.namespace))
    binds = entries.all_binds(within) | {
        "p_since": datetime.min.replace(year=2, tzinfo=UTC),
        "p_until": min(moment, datetime.max.replace(tzinfo=UTC) - timedelta(days=2))
        + timedelta(microseconds=1),
        "p_limit": 1,
    }
    statement = entries.read_entries(db.dialect, end="last", timed=True)
    check = partial(check_every_row, db.dialect, within, "deltas", db.signing)
    rows = await run_query(db, statement, binds, replica_ok=True, check=check)
    return int(rows[0].seq) + 1 if rows else 0


async def _find_by_prefix(checkpointer: Checkpointer, thread: str, prefix: str) -> list[str]:
    """Return ids that begin with *prefix*, the highest first; at most one more than are listed."""
    from memalchemy.log.listing import range_of_prefix

    id_range = range_of_prefix(prefix)
    if id_range is None:
        return []
    found = []
    async for info in checkpointer.history(
        thread, order="id", before=id_range[1], limit=LISTED + 1
    ):
        if not info.checkpoint_id.startswith(prefix):
            break
        found.append(info.checkpoint_id)
    return found


async def _find_at_time(checkpointer: Checkpointer, thread: str, reference: str) -> str:
    from memalchemy.checkpoints.listing import list_until
    from memalchemy.keys import encode_namespace
    from memalchemy.log.scan import run_query
    from memalchemy.log.tables import Log
    from memalchemy.protection.signed_reads import check_every_row

    db = checkpointer.db
    log = Log(db.tenant, thread, encode_namespace(checkpointer.namespace))
    binds = log.binds() | {"p_moment": _parse_time(reference), "p_limit": 1}
    check = partial(check_every_row, db.dialect, log, "checkpoints", db.signing)
    rows = await run_query(db, list_until(db.dialect), binds, replica_ok=True, check=check)
    if not rows:
        raise _checkpoint_missing(thread, reference)
    found: str = rows[0].checkpoint_id
    return found


def _parse_time(reference: str) -> datetime:
    try:
        moment = datetime.fromisoformat(reference.removeprefix("@"))
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{reference!r} is not a time; write @2026-11-01 or @2026-11-01T12:00, in UTC"
        ) from None
    # Times are shown to the second, so one that is copied from there stands for all of its second.
    return moment if moment.microsecond else moment.replace(microsecond=999_999)


async def is_ancestor(
    checkpointer: Checkpointer, thread: str, ancestor: str, start: str
) -> bool | None:
    """Return whether checkpoint *ancestor* is *start*, its parent, or a parent of that, and so on.

    ``None`` if that cannot be told: a parent between them has been deleted, or it is far away.
    """
    at: str | None = start
    for _ in range(_PAGES):
        if at is None or at == ancestor:
            return at is not None
        info = await checkpointer.get_metadata(thread, at)
        if info is None:
            return None
        parents = {at: info["parent_id"]}
        async for older in checkpointer.history(thread, limit=_PAGE, before=at):
            parents[older.checkpoint_id] = older.parent_id
        while at in parents and at != ancestor:
            at = parents[at]
    return None


async def _find_ancestor(
    checkpointer: Checkpointer, thread: str, start: str, steps: int, reference: str
) -> str:
    """Return the *steps*-th parent of checkpoint *start*.

    A parent is mostly the checkpoint before, so parents are looked for in pages of the history.
    """
    at, done = start, 0
    while True:
        info = await checkpointer.get_metadata(thread, at)
        if info is None:
            raise NotFound(
                f"there is no checkpoint {reference!r} in thread {thread!r}: its ancestor {at} has "
                "been deleted"
            )
        if done == steps:
            return at
        parents = {at: info["parent_id"]}
        size = min(steps - done, _PAGE)
        async for older in checkpointer.history(thread, limit=size, before=at):
            parents[older.checkpoint_id] = older.parent_id
        while done < steps and at in parents:
            parent = parents[at]
            if parent is None:
                raise NotFound(
                    f"there is no checkpoint {reference!r} in thread {thread!r}: {at}, "
                    f"{done} steps back, has no parent"
                )
            at, done = parent, done + 1


def _checkpoint_missing(thread: str, reference: str) -> NotFound:
    return NotFound(
        f"there is no checkpoint {reference!r} in thread {thread!r}; `memalchemy history` lists "
        "its checkpoints"
    )


def _join_ids(ids: Sequence[str]) -> str:
    more = ", …" if len(ids) > LISTED else ""
    return ", ".join(ids[:LISTED]) + more
