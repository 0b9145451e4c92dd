"""The operations on the logs of threads, and on conversations, whose messages are such logs.

A namespace is one segment of the path, as in those of the store: ``log`` is that of `ThreadLog`,
``conversation`` that of `Conversation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from memalchemy.codec.values import from_jsonable
from memalchemy.contracts import UNSET, Entry, Unset
from memalchemy.conversations import Conversation
from memalchemy.errors import InvalidArgument, NotFound, NotSerialisable
from memalchemy.http import wire
from memalchemy.http._offload import offload
from memalchemy.http.server import _schemas as schemas
from memalchemy.http.server._context import RequestContext, page
from memalchemy.http.server._cursors import decode_cursor, encode_cursor
from memalchemy.http.server._operations import Operations
from memalchemy.keys import check_thread_id, encode_namespace
from memalchemy.log.listing import ThreadListing, ThreadMark
from memalchemy.state import Message
from memalchemy.threads import ThreadLog

LOGS = "/logs/{namespace}"
LOG = LOGS + "/{thread_id}"
ENTRIES = LOG + "/entries"
ENTRY = ENTRIES + "/{position}"
CONVERSATION = "/conversations/{namespace}/{thread_id}"
MESSAGES = CONVERSATION + "/messages"

Namespace = tuple[str, ...]

operations = Operations("logs")


@operations.add("GET", LOGS, query=schemas.ListLogsQuery, answer=schemas.ThreadIdList)
async def list_logs(
    context: RequestContext, namespace: Namespace, query: schemas.ListLogsQuery
) -> Any:
    """List the ids of threads that have an entry in the namespace, most recently written first."""
    after = None
    if query.cursor is not None:
        after = ThreadMark(*decode_cursor("logs", query.cursor, (datetime, str)))
    listing = ThreadListing(context.db, encode_namespace(namespace), "entries", query.pattern)
    marks = await listing.page(query.limit + 1, after, None)
    answer = page("threads", marks, query.limit, _cursor_of_thread)
    return answer | {"threads": [mark.thread_id for mark in answer["threads"]]}


def _cursor_of_thread(mark: ThreadMark) -> str:
    return encode_cursor("logs", mark.updated_at.isoformat(), mark.thread_id)


@operations.add(
    "POST",
    LOGS + "/search",
    body=schemas.SearchEntriesBody,
    answer=schemas.EntryHitList,
    access="read",
)
async def log_search(
    context: RequestContext, namespace: Namespace, body: schemas.SearchEntriesBody
) -> Any:
    """Find entries by their words, the best first."""
    log = ThreadLog(context.db, namespace=namespace)
    if body.thread_id is not None:
        check_thread_id(body.thread_id)
    hits = await log.search(body.query, body.limit, thread_id=body.thread_id)
    trees = await offload(hits, lambda: [wire.encode_entry(hit) for hit in hits])
    return {"entries": trees}


@operations.add("GET", LOG, answer=schemas.LogState)
async def log_version(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Read the version of a log, which every write moves; 0 if there is none."""
    log = ThreadLog(context.db, namespace=namespace)
    return {"version": await log.version(thread_id)}


@operations.add("GET", LOG + "/count", answer=schemas.Count)
async def log_count(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Count the entries of a log."""
    return {"count": await ThreadLog(context.db, namespace=namespace).count(thread_id)}


@operations.add("DELETE", LOG, answer=schemas.Deleted, problems=(404,), keyed=True)
async def log_delete(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Delete a log; the thread's checkpoints and other logs stay."""
    log = ThreadLog(context.db, namespace=namespace)
    if not await log.delete(thread_id, connection=context.connection):
        raise NotFound(f"there is no log of thread {thread_id!r} in this namespace")
    return {"deleted": True}


@operations.add("GET", ENTRIES, query=schemas.ListEntriesQuery, answer=schemas.EntryList)
async def log_entries(
    context: RequestContext, namespace: Namespace, thread_id: str, query: schemas.ListEntriesQuery
) -> Any:
    """Read entries in their order, or the newest first."""
    log = ThreadLog(context.db, namespace=namespace)
    answer = await _page_of_entries(log, thread_id, query)
    entries = answer["entries"]
    trees = await offload(entries, lambda: [wire.encode_entry(entry) for entry in entries])
    return answer | {"entries": trees}


@operations.add(
    "POST",
    ENTRIES,
    body=schemas.AppendBody,
    answer=schemas.PositionList,
    status=201,
    problems=(409, 410),
    keyed=True,
)
async def log_append(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.AppendBody
) -> Any:
    """Append entries, all or none. One whose key is in the log is not appended again."""
    try:
        values = await offload(
            body.entries, lambda: [from_jsonable(entry.value) for entry in body.entries]
        )
    except ValueError as error:
        raise NotSerialisable("/entries", str(error)) from error
    positions = await ThreadLog(context.db, namespace=namespace).append(
        thread_id,
        values,
        keys=[entry.key for entry in body.entries],
        new_keys=body.new_keys,
        occurred_at=_times(body.entries),
        expected_version=_expected_version(body),
        ttl=body.ttl,
        connection=context.connection,
    )
    return {"positions": positions}


@operations.add(
    "PUT",
    ENTRY,
    body=schemas.EditBody,
    answer=schemas.Edited,
    problems=(404, 409, 410),
    keyed=True,
)
async def log_edit(
    context: RequestContext,
    namespace: Namespace,
    thread_id: str,
    position: int,
    body: schemas.EditBody,
) -> Any:
    """Change the value of an entry."""
    try:
        value = await offload([body.value], lambda: from_jsonable(body.value))
    except ValueError as error:
        raise NotSerialisable("/value", str(error)) from error
    was_there = await ThreadLog(context.db, namespace=namespace).edit(
        thread_id,
        position,
        value,
        expected_version=_expected_version(body),
        connection=context.connection,
    )
    if not was_there:
        raise NotFound(f"the log of thread {thread_id!r} has no entry at {position}")
    return {"edited": True}


@operations.add(
    "DELETE",
    ENTRY,
    query=schemas.ChangeLogQuery,
    answer=schemas.Deleted,
    problems=(404, 409, 410),
    keyed=True,
)
async def log_remove(
    context: RequestContext,
    namespace: Namespace,
    thread_id: str,
    position: int,
    query: schemas.ChangeLogQuery,
) -> Any:
    """Remove an entry."""
    removed = await ThreadLog(context.db, namespace=namespace).remove(
        thread_id,
        [position],
        expected_version=_expected_version(query),
        connection=context.connection,
    )
    if not removed:
        raise NotFound(f"the log of thread {thread_id!r} has no entry at {position}")
    return {"deleted": True}


@operations.add(
    "DELETE",
    ENTRIES,
    query=schemas.ChangeLogQuery,
    answer=schemas.Count,
    problems=(409, 410),
    keyed=True,
)
async def log_clear(
    context: RequestContext, namespace: Namespace, thread_id: str, query: schemas.ChangeLogQuery
) -> Any:
    """Remove all entries of a log."""
    count = await ThreadLog(context.db, namespace=namespace).clear(
        thread_id, expected_version=_expected_version(query), connection=context.connection
    )
    return {"count": count}


@operations.add("GET", MESSAGES, query=schemas.ListEntriesQuery, answer=schemas.MessageList)
async def conversation_messages(
    context: RequestContext, namespace: Namespace, thread_id: str, query: schemas.ListEntriesQuery
) -> Any:
    """Read the messages of a conversation in their order, or the newest first."""
    log = Conversation(context.db, thread_id, namespace=namespace).log
    answer = await _page_of_entries(log, thread_id, query)
    entries = answer.pop("entries")
    trees = await offload(entries, lambda: [wire.encode_message(entry) for entry in entries])
    return {"messages": trees, **answer}


@operations.add(
    "POST",
    MESSAGES,
    body=schemas.AddMessagesBody,
    answer=schemas.PositionList,
    status=201,
    problems=(409, 410),
    keyed=True,
)
async def conversation_add(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.AddMessagesBody
) -> Any:
    """Add messages, all or none. One whose key is there already is not added again."""
    try:
        messages = [Message.of(wire.decode_state(one.message)) for one in body.messages]
    except ValueError as error:
        raise InvalidArgument(str(error)) from error
    conversation = Conversation(context.db, thread_id, namespace=namespace, ttl=body.ttl)
    positions = await conversation.add(
        messages,
        keys=[one.key for one in body.messages],
        occurred_at=_times(body.messages),
        expected_version=_expected_version(body),
        connection=context.connection,
    )
    return {"positions": positions}


@operations.add("DELETE", MESSAGES, answer=schemas.Count)
async def conversation_clear(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Remove all messages of a conversation, and its summary."""
    conversation = Conversation(context.db, thread_id, namespace=namespace)
    return {"count": await conversation.clear()}


@operations.add("DELETE", CONVERSATION, answer=schemas.Deleted, problems=(404,))
async def conversation_delete(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Delete a conversation; the thread's checkpoints and other logs stay."""
    if not await Conversation(context.db, thread_id, namespace=namespace).delete():
        raise NotFound(f"there is no conversation of thread {thread_id!r} in this namespace")
    return {"deleted": True}


async def _page_of_entries(
    log: ThreadLog, thread_id: str, query: schemas.ListEntriesQuery
) -> dict[str, Any]:
    """Return a page of entries that are not encoded yet."""
    listing = "newest entries" if query.newest_first else "entries"
    begin = query.after
    if query.cursor is not None:
        (begin,) = decode_cursor(listing, query.cursor, (int,))
    elif query.newest_first and begin is not None:
        raise InvalidArgument("after is for entries in their order, not for the newest first")
    if query.newest_first:
        entries = (await log.tail(thread_id, query.limit + 1, before=begin))[::-1]
    else:
        entries = await log.range(thread_id, after=begin, limit=query.limit + 1)

    def cursor(last: Entry) -> str:
        return encode_cursor(listing, last.position)

    return page("entries", entries, query.limit, cursor)


def _times(
    given: Sequence[schemas.NewEntry | schemas.NewMessage],
) -> list[datetime] | None:
    if all(one.occurred_at is None for one in given):
        return None
    now = datetime.now(UTC)
    return [one.occurred_at or now for one in given]


def _expected_version(given: schemas.ChangesLog) -> int | Unset:
    return UNSET if given.expected_version is None else given.expected_version
