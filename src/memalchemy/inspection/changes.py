"""Changes: what was written since a token, for a page that follows a running agent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from memalchemy.database import Database
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._cursors import decode_cursor, encode_cursor, moment_of
from memalchemy.inspection._logs import query
from memalchemy.inspection._records import Record
from memalchemy.keys import decode_namespace
from memalchemy.log.tables import truncate_to_second

CHANGED = 200
"""Changed threads that are named at once."""
OVERLAP = timedelta(seconds=5)
"""Time for which writers' clocks may be behind each other without a change being missed."""


async def list_changes(db: Database, since: str | None = None) -> Record:
    """Return the threads that were written since a token, and a new token.

    Without *since*, only the token of now. One look into an index.
    """
    now = datetime.now(UTC)
    if since is None:
        after, seen = now - OVERLAP, None
    else:
        stamp, marks = decode_cursor(since, 2)
        after, seen = moment_of(stamp), frozenset(marks if isinstance(marks, list) else ())
    binds = {"k_tenant": db.tenant, "p_limit": CHANGED}
    binds["p_active_at"] = truncate_to_second(after)
    rows = await query(db, statements.changed_logs, binds)
    marks_of = {_mark(row): row for row in rows}
    newest = max((row.updated_at for row in rows), default=after)
    # Of what is older than this a token need not know that it was seen.
    bound = max(min(newest, now) - OVERLAP, after)
    second = truncate_to_second(bound)
    kept = [mark for mark, row in marks_of.items() if row.updated_at >= second]
    new = [row for mark, row in marks_of.items() if seen is not None and mark not in seen]
    return {
        "token": encode_cursor([bound.isoformat(), kept]),
        "changed": [
            {"thread_id": row.thread_id, "namespace": list(decode_namespace(row.namespace))}
            for row in new
        ],
    }


def _mark(row: Any) -> str:
    """Return a short text that changes with every write to a log."""
    written = f"{row.log_id}/{row.version}/{row.next_seq}/{row.updated_at.isoformat()}"
    return blake2b(written.encode(), digest_size=6).hexdigest()
