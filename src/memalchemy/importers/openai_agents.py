"""Import of sessions from the OpenAI Agents SDK's own tables, with all branches and usage.

It reads the tables of `SQLiteSession`, `SQLAlchemySession` and `AdvancedSQLiteSession`, in the
order in which these return items, and writes what `openai_layout` describes. The key of an entry is
its row's id: an interrupted import continues when it is run again, and a repeated one imports what
is new. The SDK is not needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from memalchemy.codec.values import encode_value
from memalchemy.contracts import Entry, LogReading
from memalchemy.database import Database
from memalchemy.errors import Conflict, Corrupt, NotSerialisable, ThreadDeleted, TooLarge
from memalchemy.importers._openai_tables import MESSAGES, AgentTables, Branch, Item
from memalchemy.importers.openai_layout import branch_namespace, usage_key, usage_namespace
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

__all__ = ["MESSAGES", "OnConflict", "Outcome", "Status", "count_sessions", "import_sessions"]

OnConflict = Literal["error", "skip", "replace"]
Status = Literal["imported", "resumed", "unchanged", "replaced", "skipped", "conflict", "bad"]

BATCH = 500
"""Items that are written, and read back, together."""

_DIFFERENT = "the session exists and holds something else"
_CHANGED = "another process changed the session while it was imported"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result for one branch of one session.

    The target's branch was empty (``imported``), had the first items (``resumed``), had all items
    (``unchanged``), or had others: these were replaced (``replaced``) or stay (``skipped``,
    ``conflict``). ``bad`` cannot be stored. ``items`` counts items that were written and read back,
    or in a dry run would be; ``unreadable`` counts rows that are not JSON, which the SDK also
    skips.
    """

    session_id: str
    branch: str
    status: Status
    items: int = 0
    unreadable: int = 0
    problem: str | None = None


async def import_sessions(
    source: Database,
    db: Database,
    *,
    messages_table: str = MESSAGES,
    prefix: str = "",
    on_conflict: OnConflict = "error",
    dry_run: bool = False,
) -> AsyncIterator[Outcome]:
    """Import the sessions in *source* into *db*; yield the result of each branch, by session id.

    *source* is read as of one moment and is not changed. Before its first write, each branch is
    compared with the target: one that has exactly the first items is completed, one that has
    anything else is a conflict. Every item is read back and compared. The times of items, branches
    and the usage of turns are imported, too.

    Args:
        source: the database with the SDK's tables: ``Database(url, migrate="off")``.
        db: the target, on any dialect; it may be the same database.
        messages_table: the table's name, as it was given to the SDK.
        prefix: put before every session id.
        on_conflict: ``"error"`` and ``"skip"`` leave such a session alone, and differ in the status
            that they report; ``"replace"`` replaces its items.
        dry_run: write nothing.

    Raises:
        NotFound: *source* has no such tables.
        Corrupt: *db* returns something else than was written.
        MemalchemyError: of either database. What was written stays, and another import completes
            it.
    """
    if on_conflict not in ("error", "skip", "replace"):
        raise ValueError(f"on_conflict is 'error', 'skip' or 'replace', not {on_conflict!r}")
    async with AgentTables.open(source, messages_table) as tables:
        async for branch in tables.branches():
            given = replace(branch, session_id=prefix + branch.session_id)
            try:
                yield await _import(db, given, on_conflict, dry_run)
            except (NotSerialisable, TooLarge, ValueError) as error:
                yield replace(_not_written(given), problem=f"cannot be stored: {error}")


async def count_sessions(source: Database, *, messages_table: str = MESSAGES) -> int:
    """Count the sessions in *source*, for the progress of `import_sessions`."""
    async with AgentTables.open(source, messages_table) as tables:
        return await tables.count()


async def _import(db: Database, branch: Branch, on_conflict: OnConflict, dry_run: bool) -> Outcome:
    log = ThreadLog(db, namespace=branch_namespace(branch.name))
    reading = await log.read(branch.session_id)
    # The number of items that are stored already, from the first; None if other items are.
    there = _count_there(reading.entries, branch.items)
    status: Status = "imported"
    if there is None and on_conflict != "replace":
        status = "skipped" if on_conflict == "skip" else "conflict"
        return replace(_not_written(branch), status=status, problem=_DIFFERENT)
    if there is None:
        status = "replaced"
    elif there:
        status = "unchanged" if there == len(branch.items) else "resumed"
    outcome = replace(_not_written(branch), status=status, items=len(branch.items) - (there or 0))
    if dry_run:
        return outcome
    try:
        positions = await _write(log, branch, reading, there)
    except (Conflict, ThreadDeleted):
        return replace(outcome, status="conflict", items=0, problem=_CHANGED)
    await _write_usage(db, branch, positions)
    return outcome


async def _write(
    log: ThreadLog, branch: Branch, reading: LogReading, there: int | None
) -> list[int]:
    """Write the missing items in batches, read each back, and return the positions of all items."""
    positions = [entry.position for entry in reading.entries[: there or 0]]
    after = 0 if there is None else None
    for start in range(there or 0, len(branch.items), BATCH):
        some = branch.items[start : start + BATCH]
        values = [item.value for item in some]
        given: dict[str, Any] = {
            "keys": [item.key for item in some],
            "occurred_at": [item.occurred_at for item in some],
            "expected_version": reading.version,
        }
        if after is None:
            positions += await log.append(branch.session_id, values, **given)
        else:
            positions += await log.replace_suffix(branch.session_id, after, values, **given)
            after = None
        reading = await log.read(branch.session_id, reading)
        written = reading.entries[-len(some) :]
        if [entry.position for entry in written] != positions[-len(some) :]:
            raise Conflict(_CHANGED)
        if _count_there(written, some) != len(some):
            raise Corrupt(
                f"session {branch.session_id!r} reads back as something else than was written"
            )
    return positions


async def _write_usage(db: Database, branch: Branch, positions: list[int]) -> None:
    namespace, store = usage_namespace(branch.session_id, branch.name), Store(db)
    given = {usage_key(positions[at]): usage for at, usage in branch.usage.items()}
    known = await store.get_batch([(namespace, key) for key in given])
    new = [(namespace, key, v) for key, v in given.items() if known.get((namespace, key)) != v]
    await store.put_batch(new, index=False)


def _count_there(entries: Sequence[Entry], items: Sequence[Item]) -> int | None:
    """Count the items that a log has; return ``None`` if it has anything else."""
    if len(entries) > len(items):
        return None
    same = all(
        entry.key == item.key
        and entry.occurred_at == item.occurred_at
        and encode_value(entry.value) == encode_value(item.value)
        for entry, item in zip(entries, items, strict=False)
    )
    return len(entries) if same else None


def _not_written(branch: Branch) -> Outcome:
    return Outcome(branch.session_id, branch.name, "bad", unreadable=branch.unreadable)
