"""Threads: the list of them, filtered and page by page, and one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from memalchemy._cursors import decode_cursor, encode_cursor, is_of_listing
from memalchemy.database import READ_REPLICA, Database
from memalchemy.dialects import namespace_binds
from memalchemy.errors import InvalidArgument
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._log_heads import find_head, find_heads, log_of, query
from memalchemy.inspection._records import Record, thread_record
from memalchemy.keys import decode_namespace, encode_id, encode_namespace
from memalchemy.log import Log
from memalchemy.log.listing import (
    list_logs,
    measure_logs,
    namespaces_that_hold,
    range_of_prefix,
)
from memalchemy.log.scan import run_query
from memalchemy.log.tables import truncate_to_second
from memalchemy.protection.signed_reads import check_nothing_missing

MATCHES = 1_000
"""Matching ids up to which all are read, and sorted here."""
SCANNED = 50_000
"""Ids that one page looks through, at most, for those that have a part."""

NEWEST, BY_ID = "newest logs", "logs by id"
"""The listings of logs, in cursors."""

_FIRST, _BEYOND = "\x01", "\U0010ffff" * 4
"""Stand before and behind all stored ids."""
SIBLINGS = 200
"""Other namespaces of a thread that are named."""


class HeadPage(NamedTuple):
    """A page of the heads of logs: their order is ``newest``, or ``id`` where ids are scanned."""

    heads: Sequence[Any]
    order: str
    next: str | None


async def list_thread_heads(
    db: Database,
    part: str = "",
    *,
    framework: str = "",
    cursor: str | None = None,
    limit: int = 50,
) -> HeadPage:
    """Return a page of the heads of threads, the last written first.

    Where the ids are too many to look through them all at once, a page with *part* has those that
    begin with it, and the following pages those that a scan of the ids comes upon: the order is
    ``id`` then, and a page may be empty while ``next`` is not.

    Args:
        part: a part of the threads' ids, in any case of ASCII letters.
        framework: the first part of the namespace; ``/`` stands for the root.
    """
    scope = _Scope(db, framework)
    if part:
        scope.binds["p_like"] = _pattern_of_like(part)
        return await _list_matching(scope, part, cursor, limit)
    after = None if cursor is None else after_head(cursor)
    page = partial(_list_recent, db.dialect, scope.name, False)
    if scope.name == "tenant" or await _is_small(scope):
        page = partial(page_of_logs, db.dialect, scope.name)
    return await _list_newest(scope, page, after, limit)


async def read_thread(
    db: Database, thread_id: str, namespace: Iterable[str] = ()
) -> tuple[Any, Record]:
    """Return the head of a log, and describe it and its content.

    The description names the thread's logs in other namespaces.
    """
    log = log_of(db, thread_id, namespace)
    head = await find_head(db, log)
    (record,) = await thread_records(db, [head])
    check = partial(check_nothing_missing, db.dialect, log, db.signing)
    await db.run(check, READ_REPLICA)
    own = decode_namespace(log.namespace)
    others = [path for path in await namespaces_that_hold("some", db, thread_id) if path != own]
    kind = "entries" if not record["checkpoints"] else "steps"
    return head, record | {
        "kind": "both" if record["checkpoints"] and record["entries"] else kind,
        "newest_id": head.head_id,
        "metadata": head.meta,
        "forked_from": head.forked_from,
        "siblings": [{"namespace": list(path)} for path in others[:SIBLINGS]],
        "more_siblings": len(others) > SIBLINGS,
    }


async def thread_records(db: Database, heads: Sequence[Any]) -> list[Record]:
    """Return the logs of *heads* that are still there, in the same order, with their sizes."""
    contents = await log_contents(db, heads)
    return [thread_record(head, contents[head.log_id]) for head in heads if head.log_id in contents]


async def log_contents(db: Database, heads: Sequence[Any]) -> dict[Any, Any]:
    """Return the numbers and sizes of what logs hold, by their keys."""
    found: dict[Any, Any] = {}
    listed = [(head.log_id,) for head in heads]
    for binds in db.dialect.statements.list_batches("p_logs", listed):
        for row in await query(db, measure_logs, binds):
            found[row.log_id] = row
    return found


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


class _Scope:
    """Scope of statements: the logs of a framework, or of the tenant."""

    def __init__(self, db: Database, framework: str) -> None:
        self.db = db
        self.name = "below"
        if framework in ("", "/"):
            self.name = "namespace" if framework else "tenant"
        path = encode_namespace(()) if framework in ("", "/") else encode_namespace((framework,))
        self.binds: dict[str, Any] = namespace_binds(db.tenant, path, below=True)


async def _list_newest(
    scope: _Scope, page: Callable[[bool], Any], after: dict[str, Any] | None, limit: int
) -> HeadPage:
    heads = await page_of_heads(scope.db, page, scope.binds, after, limit)
    return _first_heads(heads, limit)


def _first_heads(heads: Sequence[Any], limit: int) -> HeadPage:
    following = head_cursor(heads[limit - 1]) if len(heads) > limit else None
    return HeadPage(heads[:limit], "newest", following)


async def _list_matching(scope: _Scope, part: str, cursor: str | None, limit: int) -> HeadPage:
    """Return a page of the threads whose ids have a part."""
    if cursor is not None and is_of_listing(BY_ID, cursor):
        is_beginning, low = decode_cursor(BY_ID, cursor, (bool, str))
        return await _scan_by_id(scope, part, low, is_beginning=is_beginning, limit=limit)
    after = None if cursor is None else after_head(cursor)
    if scope.name != "tenant" and await _is_small(scope):
        matched = await query(
            scope.db,
            partial(statements.match_ids_of_few, scope=scope.name),
            scope.binds | {"p_limit": MATCHES + 1},
        )
        return await _sort_page(scope, matched, after, limit)
    high = await _end_of_scan(scope, _FIRST)
    id_range = range_of_prefix(part)
    if cursor is None and high is not None and id_range is not None:
        beginning = await _read_matches(scope, *id_range)
        if 0 < len(beginning) <= MATCHES:
            return await _scan_by_id(scope, part, id_range[0], is_beginning=True, limit=limit)
    matched = await _read_matches(scope, _FIRST, high or _BEYOND)
    if len(matched) > MATCHES:
        return await _list_newest(
            scope, partial(_list_recent, scope.db.dialect, scope.name, True), after, limit
        )
    if high is None:
        return await _sort_page(scope, matched, after, limit)
    return await _scan_by_id(scope, part, _FIRST, is_beginning=False, limit=limit)


async def _scan_by_id(
    scope: _Scope, part: str, low: str, *, is_beginning: bool, limit: int
) -> HeadPage:
    """Return the threads that have a part in their ids, from an id on: as many as one page scans.

    First come all that begin with it (*is_beginning*), then the others.
    """
    id_range = range_of_prefix(part)
    if is_beginning and id_range is not None:
        high: str | None = id_range[1]
        following: list[Any] | None = [False, _FIRST]
    else:
        high = await _end_of_scan(scope, low)
        following = None if high is None else [False, high]
    matched = await _read_matches(scope, low, high or _BEYOND)
    if len(matched) > limit:
        last = matched[limit - 1].thread_id
        following = [is_beginning, last + _FIRST]
        matched = [row for row in matched if row.thread_id <= last]
    if not is_beginning and id_range is not None:
        matched = [row for row in matched if not id_range[0] <= row.thread_id < id_range[1]]
    page = await _sort_page(scope, matched, None, len(matched))
    return HeadPage(
        page.heads, "id", None if following is None else encode_cursor(BY_ID, *following)
    )


async def _end_of_scan(scope: _Scope, low: str) -> str | None:
    """Return the id before which one page looks, from *low* on; ``None`` if it comes to the end."""
    binds = {"k_tenant": scope.db.tenant, "p_low": low, "p_offset": SCANNED}
    rows = await query(scope.db, statements.skip_ids, binds)
    return str(rows[0].thread_id) if rows else None


async def _read_matches(scope: _Scope, low: str, high: str) -> Sequence[Any]:
    binds = scope.binds | {"p_low": low, "p_high": high, "p_limit": MATCHES + 1}
    return await query(scope.db, partial(statements.match_ids, scope=scope.name), binds)  # type: ignore[no-any-return]


async def _sort_page(
    scope: _Scope, matched: Sequence[Any], after: dict[str, Any] | None, limit: int
) -> HeadPage:
    """Return a page of logs by their names, the last written first."""
    logs = [Log(scope.db.tenant, row.thread_id, row.namespace) for row in matched]
    heads = sorted(await find_heads(scope.db, logs), key=_newest_first)
    if after is not None:
        last = _head_order(after["p_updated_at"], after["p_thread_id"], after["p_namespace"])
        heads = [head for head in heads if _newest_first(head) > last]
    return _first_heads(heads, limit)


async def _is_small(scope: _Scope) -> bool:
    """Return whether a scope has few logs, which can be sorted."""
    counted = await query(
        scope.db,
        partial(statements.count_logs_of_namespaces, scope=scope.name, exact=False),
        scope.binds | {"p_limit": MATCHES},
    )
    return int(counted[0].logs) < MATCHES


def _list_recent(dialect: Any, scope: str, like: bool, after: bool) -> Any:
    return statements.list_recent(dialect, scope=scope, like=like, after=after)


def page_of_logs(dialect: Any, scope: str, after: bool) -> Any:
    """Return the statement that lists the logs of a scope, the last written first."""
    return list_logs(dialect, which="all", scope=scope, after=after)


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def lower_ascii(text: str) -> str:
    """Return a text with the letters of ASCII in lower case, as statements compare ids."""
    return text.translate(_ASCII_LOWER)


def _pattern_of_like(part: str) -> str:
    """Return the pattern of LIKE for ids that contain *part*, as they are stored."""
    if len(part) > 255:
        raise InvalidArgument("an id has 255 characters at most, and so has a part of one")
    stored = lower_ascii(encode_id(part))
    for sign in ("\\", "%", "_"):
        stored = stored.replace(sign, "\\" + sign)
    return f"%{stored}%"


def _head_order(moment: datetime, thread_id: str, namespace: str) -> tuple[float, str, str]:
    return -moment.timestamp(), thread_id, namespace


def _newest_first(head: Any) -> tuple[float, str, str]:
    return _head_order(head.updated_at, head.thread_id, head.namespace)


def head_cursor(head: Any) -> str:
    """Return the cursor of what is listed behind a log."""
    return encode_cursor(NEWEST, head.updated_at, head.thread_id, head.namespace)


def after_head(cursor: str) -> dict[str, Any]:
    """Return the values of the log that a cursor stands behind.

    Raises:
        InvalidArgument: it is of another listing.
    """
    moment, thread_id, path = decode_cursor(NEWEST, cursor, (datetime, str, str))
    return {
        "p_updated_at": moment,
        "p_active_at": truncate_to_second(moment),
        "p_thread_id": thread_id,
        "p_namespace": path,
    }
