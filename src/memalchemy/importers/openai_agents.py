"""The OpenAI Agents SDK's own tables, read and brought over: every branch of every session.

Reads what `SQLiteSession`, `SQLAlchemySession` and `AdvancedSQLiteSession` keep, in the order in
which they give it; `openai_places` says where it goes. Each item gets its row's id as key: so an
import that was interrupted goes on, and one that is repeated brings what came since. Knows nothing
of terminals, and does not need the SDK.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from memalchemy.codec.values import encode_value
from memalchemy.contracts import Entry, LogReading
from memalchemy.database import Database
from memalchemy.errors import Conflict, Corrupt, NotSerialisable, ThreadDeleted, TooLarge
from memalchemy.importers.openai_places import branch_namespace, usage_key, usage_namespace
from memalchemy.importers.openai_tables import MESSAGES, AgentTables, Branch, Item
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

OnConflict = Literal["error", "skip", "replace"]
Status = Literal["imported", "resumed", "unchanged", "replaced", "skipped", "conflict", "bad"]

AT_ONCE = 500
"""Items that are written, and read back, together."""

_OTHER = "the session exists and holds something else"
_MEANWHILE = "somebody else changed the session while it was imported"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one branch of one session.

    ``imported``: it was not there. ``resumed``: it held the first items already. ``unchanged``: it
    held all of them. ``replaced``: it held something else, which is gone. ``skipped`` and
    ``conflict``: it holds something else, which stays. ``bad``: it cannot be stored. ``items``
    counts what was written now and read back, or would be; ``unreadable`` the rows that are no
    JSON, which the SDK passes over, too.
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
    """Bring the sessions in *source* over to *db*; yield what became of each, by session id.

    *source* is read as of one moment and is not changed. Whether a session is written is decided
    before its first write: one that holds exactly the first items is completed, one that holds
    anything else is a conflict. Every item is read back and compared. The times of items are kept,
    and so are branches and what turns used.

    Args:
        source: the database with the SDK's tables: ``Database(url, migrate="off")``.
        db: where they go, of any kind; the same database will do.
        messages_table: as it was given to the SDK.
        prefix: put before every session id.
        on_conflict: ``"error"`` and ``"skip"`` leave such a session alone, and differ in the status
            that they report; ``"replace"`` puts the items in place of what is there.
        dry_run: only say what would become of each.

    Raises:
        NotFound: *source* has no such tables.
        Corrupt: *db* does not give back what was written.
        What either database raises. What was written stays, and another import completes it.
    """
    if on_conflict not in ("error", "skip", "replace"):
        raise ValueError(f"on_conflict is 'error', 'skip' or 'replace', not {on_conflict!r}")
    async with AgentTables.open(source, messages_table) as tables:
        async for branch in tables.branches():
            given = replace(branch, session_id=prefix + branch.session_id)
            try:
                yield await _import(db, given, on_conflict, dry_run)
            except (NotSerialisable, TooLarge, ValueError) as error:
                yield replace(_nothing(given), problem=f"cannot be stored: {error}")


async def count_sessions(source: Database, *, messages_table: str = MESSAGES) -> int:
    """How many sessions `import_sessions` finds in *source*."""
    async with AgentTables.open(source, messages_table) as tables:
        return await tables.count()


async def _import(db: Database, branch: Branch, how: OnConflict, dry_run: bool) -> Outcome:
    log = ThreadLog(db, namespace=branch_namespace(branch.name))
    reading = await log.read(branch.session_id)
    there = _already_there(reading.entries, branch.items)
    status: Status = "imported"
    if there is None and how != "replace":
        status = "skipped" if how == "skip" else "conflict"
        return replace(_nothing(branch), status=status, problem=_OTHER)
    if there is None:
        status = "replaced"
    elif there:
        status = "unchanged" if there == len(branch.items) else "resumed"
    outcome = replace(_nothing(branch), status=status, items=len(branch.items) - (there or 0))
    if dry_run:
        return outcome
    try:
        positions = await _write(log, branch, reading, there)
    except (Conflict, ThreadDeleted):
        return replace(outcome, status="conflict", items=0, problem=_MEANWHILE)
    await _write_usage(db, branch, positions)
    return outcome


async def _write(
    log: ThreadLog, branch: Branch, reading: LogReading, there: int | None
) -> list[int]:
    """Write what is not there, in parts that are read back; the positions of all items."""
    positions = [entry.position for entry in reading.entries[: there or 0]]
    after = 0 if there is None else None
    for start in range(there or 0, len(branch.items), AT_ONCE):
        some = branch.items[start : start + AT_ONCE]
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
            raise Conflict(_MEANWHILE)
        if _already_there(written, some) != len(some):
            raise Corrupt(
                f"the target does not give back what was written of session {branch.session_id!r}"
            )
    return positions


async def _write_usage(db: Database, branch: Branch, positions: list[int]) -> None:
    place, store = usage_namespace(branch.session_id, branch.name), Store(db)
    given = {usage_key(positions[at]): usage for at, usage in branch.usage.items()}
    known = await store.get_batch([(place, key) for key in given])
    new = [(place, key, v) for key, v in given.items() if known.get((place, key)) != v]
    await store.put_batch(new, index=False)


def _already_there(entries: Sequence[Entry], items: Sequence[Item]) -> int | None:
    """How many of the items a log holds; ``None`` if it holds anything else."""
    if len(entries) > len(items):
        return None
    same = all(
        entry.key == item.key
        and entry.occurred_at == item.occurred_at
        and encode_value(entry.value) == encode_value(item.value)
        for entry, item in zip(entries, items, strict=False)
    )
    return len(entries) if same else None


def _nothing(branch: Branch) -> Outcome:
    return Outcome(branch.session_id, branch.name, "bad", unreadable=branch.unreadable)
