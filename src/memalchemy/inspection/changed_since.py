"""Changes: what was written since a token, for a page that follows a running agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Any

from memalchemy._cursors import decode_cursor, encode_cursor
from memalchemy.database import Database
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._log_heads import Namespace, query
from memalchemy.inspection._records import Record
from memalchemy.inspection.internal_items import holds_internal_items, internal_binds, places
from memalchemy.inspection.store import SORTED, count_items_up_to
from memalchemy.keys import decode_namespace, encode_namespace
from memalchemy.log.tables import truncate_to_second
from memalchemy.search.scope import scope_binds

CHANGED = 200
"""Changed threads, and changed items, that are named at once."""
OVERLAP = timedelta(seconds=5)
"""Time for which writers' clocks may be behind each other without a change being missed."""


@dataclass(frozen=True)
class ItemScope:
    """The items whose changes are asked for: of a namespace, with ``below`` of a tree of them."""

    namespace: Namespace
    below: bool


async def list_changes(
    db: Database, since: str | None = None, scope: ItemScope | None = None
) -> Record:
    """Return the threads that were written since a token, and a new token.

    Without *since*, only the token of now. With *scope* also its items that were written, and the
    number of its items, up to `SORTED`; of a tree with that many items none are named.
    """
    now = datetime.now(UTC)
    if since is None:
        after, seen = now - OVERLAP, None
    else:
        after, marks = decode_cursor("changes", since, (datetime, list))
        seen = frozenset(marks)
    binds: dict[str, Any] = {"k_tenant": db.tenant, "p_limit": CHANGED}
    binds["p_active_at"] = truncate_to_second(after)
    logs = await query(db, statements.changed_logs, binds)
    count, items = (0, []) if scope is None else await _changed_items(db, scope, after)
    rows = [*logs, *items]
    newest = max((row.updated_at for row in rows), default=after)
    # A token need not list what is older than this as seen.
    bound = max(min(newest, now) - OVERLAP, after)
    second = truncate_to_second(bound)
    marks_of = {_mark_of_version(row): row for row in rows}
    kept = [mark for mark, row in marks_of.items() if row.updated_at >= second]

    def new(some: Sequence[Any]) -> list[Any]:
        return [] if seen is None else [row for row in some if _mark_of_version(row) not in seen]

    changes: Record = {
        "token": encode_cursor("changes", bound, kept),
        "changed": [
            {"thread_id": row.thread_id, "namespace": list(decode_namespace(row.namespace))}
            for row in new(logs)
        ],
    }
    if scope is not None:
        changes["count"] = count
        changes["items"] = [
            {"namespace": list(decode_namespace(row.namespace)), "key": row.key}
            for row in new(items)
        ]
    return changes


async def _changed_items(
    db: Database, scope: ItemScope, after: datetime
) -> tuple[int, Sequence[Any]]:
    """Return the number of items of a scope, and those written since the second of *after*."""
    internal = holds_internal_items(scope.namespace)
    count = await count_items_up_to(
        db, scope.namespace, below=scope.below, internal=internal, most=SORTED
    )
    if scope.below and count >= SORTED:
        return count, []
    binds = scope_binds(db.tenant, encode_namespace(scope.namespace), scope.below)
    binds |= internal_binds(shown=internal)
    binds |= {"p_after": truncate_to_second(after), "p_limit": CHANGED}
    if scope.below:
        binds["p_most"] = SORTED
    statement = partial(statements.changed_items, below=scope.below, internal=places())
    return count, await query(db, statement, binds)


def _mark_of_version(row: Any) -> str:
    """Return a short text that changes with every write to a log or an item."""
    names = ("log_id", "version", "next_seq", "namespace", "key")
    written = "/".join(str(getattr(row, name, "")) for name in names)
    written += f"/{row.updated_at.isoformat()}"
    return blake2b(written.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
