"""Threads: the list of them, filtered and page by page, and one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from memalchemy.database import Database
from memalchemy.dialects import namespace_binds
from memalchemy.errors import InvalidArgument
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._cursors import decode_cursor, encode_cursor, moment_of
from memalchemy.inspection._logs import log_of, query, read_head, read_heads
from memalchemy.inspection._records import Record, thread_record
from memalchemy.keys import decode_namespace, encode_id, encode_namespace
from memalchemy.log import Log
from memalchemy.log.listing import list_logs, list_logs_of_thread, measure_logs
from memalchemy.log.scan import run_query
from memalchemy.log.tables import truncate_to_second

MATCHES = 1_000
"""Matching ids up to which all are read, and sorted here."""
SIBLINGS = 200
"""Other namespaces of a thread that are named."""


async def list_threads(
    db: Database,
    part: str = "",
    *,
    framework: str = "",
    cursor: str | None = None,
    limit: int = 50,
) -> Record:
    """Return a page of threads, the last written first.

    Args:
        part: a part of the threads' ids, in any case of ASCII letters.
        framework: the first part of the namespace; ``/`` stands for the root.
    """
    path, scope = _place_of(framework)
    binds: dict[str, Any] = namespace_binds(db.tenant, path, below=True)
    after = None if cursor is None else after_head(cursor)
    if part:
        binds |= {"p_like": _like(part)}
    heads = None
    if part:
        heads = await _few_matching(db, scope, binds, after, limit)
    if heads is None:
        page = partial(_list_recent, db.dialect, scope, bool(part))
        if not part and (scope == "tenant" or await _is_small(db, scope, binds)):
            page = partial(page_of_logs, db.dialect, scope)
        heads = await page_of_heads(db, page, binds, after, limit)
    return {
        "threads": await thread_records(db, heads[:limit]),
        "next": head_cursor(heads[limit - 1]) if len(heads) > limit else None,
    }


async def read_thread(db: Database, thread_id: str, namespace: Iterable[str] = ()) -> Record:
    """Return what a log is and holds, and the thread's logs in other namespaces."""
    log = log_of(db, thread_id, namespace)
    head = await read_head(db, log)
    (record,) = await thread_records(db, [head])
    binds = {"k_tenant": log.tenant, "k_thread_id": log.thread_id}
    rows = await query(db, list_logs_of_thread, binds)
    others = [
        row.namespace for row in rows if row.deleted_at is None and row.namespace != log.namespace
    ]
    kind = "entries" if not record["checkpoints"] else "steps"
    return record | {
        "kind": "both" if record["checkpoints"] and record["entries"] else kind,
        "newest_id": head.head_id,
        "metadata": head.meta,
        "forked_from": head.forked_from,
        "siblings": [{"namespace": list(decode_namespace(path))} for path in others[:SIBLINGS]],
        "more_siblings": len(others) > SIBLINGS,
    }


async def thread_records(db: Database, heads: Sequence[Any]) -> list[Record]:
    """Return the logs of *heads* that are still there, in the same order, with their sizes."""
    sizes: dict[Any, Any] = {}
    listed = [(head.log_id,) for head in heads]
    for binds in db.dialect.statements.list_batches("p_logs", listed):
        for row in await query(db, measure_logs, binds):
            sizes[row.log_id] = row
    return [thread_record(head, sizes[head.log_id]) for head in heads if head.log_id in sizes]


async def page_of_heads(
    db: Database,
    page: Callable[[bool], Any],
    binds: Mapping[str, Any],
    after: dict[str, Any] | None,
    limit: int,
) -> list[Any]:
    """Return the *limit* heads behind *after*, and one more if there is one.

    Args:
        page: returns the statement, with or without the condition of *after*.
    """
    values = {**binds, **(after or {}), "p_limit": limit + 1}
    return await run_query(db, page(after is not None), values, replica_ok=True)


async def _few_matching(
    db: Database, scope: str, binds: dict[str, Any], after: dict[str, Any] | None, limit: int
) -> list[Any] | None:
    """Return a page of the heads that match a part of an id; ``None`` if many do."""
    matched = await query(
        db, partial(statements.match_ids, scope=scope), binds | {"p_limit": MATCHES + 1}
    )
    if len(matched) > MATCHES:
        return None
    logs = [Log(db.tenant, row.thread_id, row.namespace) for row in matched]
    heads = sorted(await read_heads(db, logs), key=_newest_first)
    if after is not None:
        last = _head_order(after["p_updated_at"], after["p_thread_id"], after["p_namespace"])
        heads = [head for head in heads if _newest_first(head) > last]
    return heads[: limit + 1]


async def _is_small(db: Database, scope: str, binds: Mapping[str, Any]) -> bool:
    """Return whether a scope has few logs, which can be sorted."""
    counted = await query(
        db,
        partial(statements.count_logs, scope=scope, exact=False),
        {**binds, "p_limit": MATCHES},
    )
    return int(counted[0].logs) < MATCHES


def _place_of(framework: str) -> tuple[str, str]:
    """Return the path and the scope of a framework's logs."""
    if not framework:
        return "/", "tenant"
    if framework == "/":
        return "/", "namespace"
    return encode_namespace((framework,)), "below"


def _list_recent(dialect: Any, scope: str, like: bool, after: bool) -> Any:
    return statements.list_recent(dialect, scope=scope, like=like, after=after)


def page_of_logs(dialect: Any, scope: str, after: bool) -> Any:
    """Return the statement that lists the logs of a scope, the last written first."""
    return list_logs(dialect, which="all", scope=scope, after=after)


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _like(part: str) -> str:
    """Return the pattern of LIKE for ids that contain *part*, as they are stored."""
    if len(part) > 255:
        raise InvalidArgument("an id has 255 characters at most, and so has a part of one")
    stored = encode_id(part).translate(_ASCII_LOWER)
    for sign in ("\\", "%", "_"):
        stored = stored.replace(sign, "\\" + sign)
    return f"%{stored}%"


def _head_order(moment: datetime, thread_id: str, namespace: str) -> tuple[float, str, str]:
    return -moment.timestamp(), thread_id, namespace


def _newest_first(head: Any) -> tuple[float, str, str]:
    return _head_order(head.updated_at, head.thread_id, head.namespace)


def head_cursor(head: Any) -> str:
    """Return the cursor of what is listed behind a log."""
    return encode_cursor([head.updated_at.isoformat(), head.thread_id, head.namespace])


def after_head(cursor: str) -> dict[str, Any]:
    """Return the values of the log that a cursor stands behind.

    Raises:
        InvalidArgument: it is of another listing.
    """
    stamp, thread_id, path = decode_cursor(cursor, 3)
    if not isinstance(thread_id, str) or not isinstance(path, str):
        raise InvalidArgument("this cursor is of another listing")
    moment = moment_of(stamp)
    return {
        "p_updated_at": moment,
        "p_active_at": truncate_to_second(moment),
        "p_thread_id": thread_id,
        "p_namespace": path,
    }
