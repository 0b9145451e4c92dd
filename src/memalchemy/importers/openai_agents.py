"""Import of sessions from the OpenAI Agents SDK's own tables, with all branches and usage.

It reads the tables of `SQLiteSession`, `SQLAlchemySession` and `AdvancedSQLiteSession`, in the
order in which these return items, and writes into the logs and items that
`openai_session_namespaces` names. The key of an entry is its row's id: an interrupted import
continues when it is run again, and a repeated one imports what is new. The SDK is not needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from memalchemy.contracts import NewItem
from memalchemy.database import Database
from memalchemy.importers._openai_tables import MESSAGES, AgentTables, Branch
from memalchemy.importers.openai_session_namespaces import (
    branch_namespace,
    usage_key,
    usage_namespace,
)
from memalchemy.importers.target import (
    ImportedEntry,
    ImportedLog,
    ImportTarget,
    OnConflict,
    Status,
    Unreadable,
)

__all__ = ["MESSAGES", "BranchOutcome", "OnConflict", "Status", "count_sessions", "import_sessions"]


@dataclass(frozen=True, slots=True)
class BranchOutcome:
    """Result for one branch of one session.

    The target's branch was empty (``imported``), had the first items (``resumed``), had all items
    (``unchanged``), or had others: these were replaced (``replaced``) or stay (``skipped``,
    ``conflict``). ``bad`` cannot be read or stored. ``items`` counts items that were written and
    read back, or in a dry run would be; ``unreadable`` counts those that are left out, as nobody
    can read or store them, and ``left_out`` names them.
    """

    session_id: str
    branch: str
    status: Status
    items: int = 0
    unreadable: int = 0
    problem: str | None = None
    left_out: tuple[str, ...] = ()


async def import_sessions(
    source: Database,
    db: Database,
    *,
    messages_table: str = MESSAGES,
    prefix: str = "",
    on_conflict: OnConflict = "error",
    dry_run: bool = False,
) -> AsyncIterator[BranchOutcome]:
    """Import the sessions in *source* into *db*; yield the result of each branch, by session id.

    *source* is read as of one moment and is not changed. Before its first write, each branch is
    compared with the target: one that has exactly the first items is completed, one that has all
    and may have gone on is left, one that has anything else is a conflict. Every item is read back
    and compared. The times of items, branches and the usage of turns are imported, too.

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
    target = ImportTarget(db, prefix=prefix, on_conflict=on_conflict, dry_run=dry_run)
    async with AgentTables.open(source, messages_table) as tables, target:
        async for branch in tables.branches():
            done = await target.write(_log_of(branch, prefix))
            yield BranchOutcome(
                f"{prefix}{branch.session_id}",
                str(branch.name),
                done.status,
                done.written,
                done.unreadable,
                done.problem,
                done.left_out,
            )


async def count_sessions(source: Database, *, messages_table: str = MESSAGES) -> int:
    """Count the sessions in *source*, for the progress of `import_sessions`."""
    async with AgentTables.open(source, messages_table) as tables:
        return await tables.count()


def _log_of(branch: Branch, prefix: str) -> ImportedLog | Unreadable:
    if not isinstance(branch.session_id, str) or not isinstance(branch.name, str):
        lost = [*branch.left_out, *(item.key for item in branch.items)]
        return Unreadable("log", str(branch.session_id), "has an id that is no text", lost)

    def usage(positions: Sequence[int]) -> list[NewItem]:
        namespace = usage_namespace(prefix + branch.session_id, branch.name)
        return [
            NewItem(namespace, usage_key(positions[at]), used, index=False)
            for at, used in branch.usage.items()
        ]

    return ImportedLog(
        branch_namespace(branch.name),
        branch.session_id,
        [ImportedEntry(item.key, item.value, item.occurred_at) for item in branch.items],
        items=usage,
        left_out=branch.left_out,
    )
