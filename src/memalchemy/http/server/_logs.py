"""The operations on the logs of threads, and on conversations, whose messages are such logs.

A namespace is one segment of the path, as in those of the store: ``log`` is that of `ThreadLog`,
``conversation`` that of `Conversation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memalchemy._cursors import decode_cursor, encode_cursor
from memalchemy.contracts import UNSET, Entry, Unset
from memalchemy.conversations import Conversation
from memalchemy.conversations.records import check_records
from memalchemy.conversations.tool_exchange import ToolExchange
from memalchemy.errors import InvalidArgument, NotFound
from memalchemy.http import operations, wire
from memalchemy.http._offload import offload
from memalchemy.http.server import _schemas as schemas
from memalchemy.http.server._context import RequestContext, page
from memalchemy.http.server._endpoints import Endpoints
from memalchemy.http.server._values import decode_list, decode_part
from memalchemy.keys import check_entry_key, check_thread_id, encode_namespace
from memalchemy.log.listing import ThreadListing, ThreadMark
from memalchemy.state import Message
from memalchemy.threads import ThreadLog

Namespace = tuple[str, ...]

endpoints = Endpoints()


@endpoints.add(operations.list_logs)
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
    return encode_cursor("logs", mark.updated_at, mark.thread_id)


@endpoints.add(operations.log_search)
async def log_search(
    context: RequestContext, namespace: Namespace, body: schemas.SearchEntriesBody
) -> Any:
    """Find entries by their words, the best first."""
    log = ThreadLog(context.db, namespace=namespace)
    if body.thread_id is not None:
        check_thread_id(body.thread_id)
    hits = await log.search(body.query, body.limit, thread_id=body.thread_id, match=body.match)
    trees = await offload(hits, lambda: [wire.encode_entry(hit) for hit in hits])
    return {"entries": trees}


@endpoints.add(operations.log_count_threads)
async def log_count_threads(
    context: RequestContext, namespace: Namespace, body: schemas.CountThreadsBody
) -> Any:
    """Count the threads that have an entry in the namespace."""
    return {"count": await ThreadLog(context.db, namespace=namespace).count_threads(body.pattern)}


@endpoints.add(operations.log_find)
async def log_find(
    context: RequestContext, namespace: Namespace, body: schemas.FindEntriesBody
) -> Any:
    """Find the entry with a key, of one thread or of each that has one."""
    if body.thread_id is not None:
        check_thread_id(body.thread_id)
    log = ThreadLog(context.db, namespace=namespace)
    found = await log.find(check_entry_key(body.key), thread_id=body.thread_id)
    trees = await offload(
        found,
        lambda: [{"thread_id": name, **wire.encode_entry(one)} for name, one in found.items()],
    )
    return {"entries": trees}


@endpoints.add(operations.log_read_threads)
async def log_read_threads(
    context: RequestContext, namespace: Namespace, body: schemas.ReadThreadsBody
) -> Any:
    """Read all entries of several threads, or the newest of each."""
    log = ThreadLog(context.db, namespace=namespace)
    found = await log.read_threads(body.thread_ids, newest=body.newest)
    trees = await offload(
        found,
        lambda: [
            {"thread_id": name, "entries": [wire.encode_entry(entry) for entry in entries]}
            for name, entries in found.items()
        ],
    )
    return {"threads": trees}


@endpoints.add(operations.log_last_written)
async def log_last_written(
    context: RequestContext, namespace: Namespace, body: schemas.ThreadIdsBody
) -> Any:
    """Read when several threads were written last, of those that have an entry."""
    found = await ThreadLog(context.db, namespace=namespace).last_written(body.thread_ids)
    return {
        "threads": [
            {"thread_id": name, "updated_at": time.isoformat()} for name, time in found.items()
        ]
    }


@endpoints.add(operations.log_version)
async def log_version(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Read the version of a log, which every write moves; 0 if there is none."""
    log = ThreadLog(context.db, namespace=namespace)
    return {"version": await log.version(thread_id)}


@endpoints.add(operations.log_count)
async def log_count(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Count the entries of a log."""
    return {"count": await ThreadLog(context.db, namespace=namespace).count(thread_id)}


@endpoints.add(operations.log_fork)
async def log_fork(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.ForkLogBody
) -> Any:
    """Copy a log up to a position into a new thread, or into another namespace."""
    new_thread_id = await ThreadLog(context.db, namespace=namespace).fork(
        thread_id,
        body.position,
        new_thread_id=body.new_thread_id,
        namespace=body.namespace,
        connection=context.connection,
    )
    return {"thread_id": new_thread_id}


@endpoints.add(operations.log_pop)
async def log_pop(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.ChangeLogBody
) -> Any:
    """Remove the newest entry and return it; null if there is none."""
    entry = await ThreadLog(context.db, namespace=namespace).pop(
        thread_id, expected_version=_expected_version(body), connection=context.connection
    )
    return {"entry": None if entry is None else wire.encode_entry(entry)}


@endpoints.add(operations.log_delete)
async def log_delete(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Delete a log; the thread's checkpoints and other logs stay."""
    log = ThreadLog(context.db, namespace=namespace)
    if not await log.delete(thread_id, connection=context.connection):
        raise NotFound(f"there is no log of thread {thread_id!r} in this namespace")
    return {"deleted": True}


@endpoints.add(operations.log_entries)
async def log_entries(
    context: RequestContext, namespace: Namespace, thread_id: str, query: schemas.ListEntriesQuery
) -> Any:
    """Read entries in their order, or the newest first."""
    log = ThreadLog(context.db, namespace=namespace)
    answer = await _page_of_entries(log, thread_id, query)
    entries = answer["entries"]
    trees = await offload(entries, lambda: [wire.encode_entry(entry) for entry in entries])
    return answer | {"entries": trees}


@endpoints.add(operations.log_append)
async def log_append(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.AppendBody
) -> Any:
    """Append entries, all or none. One whose key is in the log is not appended again."""
    values = await decode_list([entry.value for entry in body.entries], "/entries")
    positions = await ThreadLog(context.db, namespace=namespace).append(
        thread_id,
        values,
        keys=[entry.key for entry in body.entries],
        new_keys=body.new_keys,
        occurred_at=_times_of(body.entries),
        expected_version=_expected_version(body),
        ttl=body.ttl,
        connection=context.connection,
    )
    return {"positions": positions}


@endpoints.add(operations.log_replace_suffix)
async def log_replace_suffix(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.ReplaceSuffixBody
) -> Any:
    """Replace all entries beyond a position, in one transaction."""
    values = await decode_list([entry.value for entry in body.entries], "/entries")
    positions = await ThreadLog(context.db, namespace=namespace).replace_suffix(
        thread_id,
        body.after,
        values,
        keys=[entry.key for entry in body.entries],
        occurred_at=_times_of(body.entries),
        expected_version=_expected_version(body),
        ttl=body.ttl,
        connection=context.connection,
    )
    return {"positions": positions}


@endpoints.add(operations.log_remove)
async def log_remove(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.RemoveEntriesBody
) -> Any:
    """Remove the entries at some positions, in one transaction; count those that were there."""
    count = await ThreadLog(context.db, namespace=namespace).remove(
        thread_id,
        body.positions,
        expected_version=_expected_version(body),
        connection=context.connection,
    )
    return {"count": count}


@endpoints.add(operations.log_edit)
async def log_edit(
    context: RequestContext,
    namespace: Namespace,
    thread_id: str,
    position: int,
    body: schemas.EditBody,
) -> Any:
    """Change the value of an entry."""
    value: Any = await decode_part(body.value, "/value")
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


@endpoints.add(operations.log_clear)
async def log_clear(
    context: RequestContext, namespace: Namespace, thread_id: str, query: schemas.ChangeLogQuery
) -> Any:
    """Remove all entries of a log."""
    count = await ThreadLog(context.db, namespace=namespace).clear(
        thread_id, expected_version=_expected_version(query), connection=context.connection
    )
    return {"count": count}


@endpoints.add(operations.conversation_messages)
async def conversation_messages(
    context: RequestContext, namespace: Namespace, thread_id: str, query: schemas.ListEntriesQuery
) -> Any:
    """Read the messages of a conversation in their order, or the newest first."""
    log = Conversation(context.db, thread_id, namespace=namespace).log
    answer = await _page_of_entries(log, thread_id, query)
    entries = answer.pop("entries")

    def encode() -> list[dict[str, Any]]:
        check_records(entry.value for entry in entries)
        return [wire.encode_message(entry) for entry in entries]

    return {"messages": await offload(entries, encode), **answer}


@endpoints.add(operations.conversation_search)
async def conversation_search(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.SearchMessagesBody
) -> Any:
    """Find messages of a conversation by their words, or of all in the namespace."""
    conversation = Conversation(context.db, check_thread_id(thread_id), namespace=namespace)
    hits = await conversation.search(**body.model_dump())
    trees = await offload(hits, lambda: [wire.encode_message_hit(hit) for hit in hits])
    return {"messages": trees}


@endpoints.add(operations.conversation_add)
async def conversation_add(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.AddMessagesBody
) -> Any:
    """Add messages, all or none. One whose key is there already is not added again."""
    messages = _messages_of([one.message for one in body.messages])
    conversation = Conversation(context.db, thread_id, namespace=namespace, ttl=body.ttl)
    positions = await conversation.add(
        messages,
        keys=[one.key for one in body.messages],
        occurred_at=_times_of(body.messages),
        expected_version=_expected_version(body),
        connection=context.connection,
    )
    return {"positions": positions}


@endpoints.add(operations.conversation_clear)
async def conversation_clear(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Remove all messages of a conversation, and its summary."""
    conversation = Conversation(context.db, thread_id, namespace=namespace)
    return {"count": await conversation.clear(connection=context.connection)}


@endpoints.add(operations.conversation_count)
async def conversation_count(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Count the messages of a conversation."""
    return {"count": await Conversation(context.db, thread_id, namespace=namespace).count()}


@endpoints.add(operations.conversation_snapshot)
async def conversation_snapshot(
    context: RequestContext, namespace: Namespace, thread_id: str
) -> Any:
    """Read a whole conversation, with its summary."""
    snapshot = await Conversation(context.db, thread_id, namespace=namespace).snapshot()
    return {"snapshot": await offload(snapshot, lambda: wire.encode_state_tree(snapshot))}


@endpoints.add(operations.conversation_restore)
async def conversation_restore(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.RestoreBody
) -> Any:
    """Make a conversation equal to a snapshot, or to a list of messages, all or nothing."""
    given: Any
    if body.messages is not None and body.snapshot is None:
        given = _messages_of(body.messages)
    elif body.snapshot is not None and body.messages is None:
        given = await decode_part(body.snapshot, "/snapshot", wire.decode_state_tree)
    else:
        raise InvalidArgument("give a snapshot, or messages")
    conversation = Conversation(context.db, thread_id, namespace=namespace)
    try:
        await conversation.restore(
            given, occurred_at=body.occurred_at, connection=context.connection
        )
    except TypeError as error:  # as `Conversation` says of what is no snapshot
        raise InvalidArgument(str(error)) from error
    return {"restored": True}


@endpoints.add(operations.conversation_set_summary)
async def conversation_set_summary(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.SummaryBody
) -> Any:
    """Store a summary of what was said before the messages, or remove it."""
    await Conversation(context.db, thread_id, namespace=namespace).set_summary(
        body.text, summarized=body.summarized, connection=context.connection
    )
    return {"text": body.text}


@endpoints.add(operations.conversation_amend_last)
async def conversation_amend_last(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.AmendBody
) -> Any:
    """Replace the content of the assistant's last message."""
    content: Any = await decode_part(body.content, "/content")
    conversation = Conversation(context.db, thread_id, namespace=namespace)
    if not isinstance(content, str | list):
        raise InvalidArgument("content is a text or a list of parts")
    amended = await conversation.amend_last(content, connection=context.connection)
    if not amended:
        raise NotFound(f"the conversation of thread {thread_id!r} has no message of an assistant")
    return {"edited": True}


@endpoints.add(operations.conversation_exchange)
async def conversation_exchange(
    context: RequestContext, namespace: Namespace, thread_id: str
) -> Any:
    """Read the open tool exchange."""
    conversation = Conversation(context.db, thread_id, namespace=namespace)
    return _encode_exchange(await conversation.active_tool_exchange(), thread_id)


@endpoints.add(operations.conversation_begin_exchange)
async def conversation_begin_exchange(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.BeginExchangeBody
) -> Any:
    """Store an assistant's message with tool calls until all their results are there."""
    (message,) = _messages_of([body.message])
    conversation = Conversation(context.db, thread_id, namespace=namespace)
    exchange = await conversation.begin_tool_exchange(message, connection=context.connection)
    return _encode_exchange(exchange, thread_id)


@endpoints.add(operations.conversation_add_results)
async def conversation_add_results(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.ResultsBody
) -> Any:
    """Store results of the open tool exchange, all or none."""
    results = _messages_of(body.results)
    conversation = Conversation(context.db, thread_id, namespace=namespace)
    exchange = await conversation.add_tool_results(*results, connection=context.connection)
    return _encode_exchange(exchange, thread_id)


@endpoints.add(operations.conversation_commit_exchange)
async def conversation_commit_exchange(
    context: RequestContext, namespace: Namespace, thread_id: str, body: schemas.ResultsBody
) -> Any:
    """Move the open tool exchange into the conversation, after more results if there are any."""
    results = _messages_of(body.results)
    conversation = Conversation(context.db, thread_id, namespace=namespace)
    positions = await conversation.commit_tool_exchange(*results, connection=context.connection)
    return {"positions": positions}


@endpoints.add(operations.conversation_abort_exchange)
async def conversation_abort_exchange(
    context: RequestContext, namespace: Namespace, thread_id: str
) -> Any:
    """Remove the open tool exchange, and return it."""
    conversation = Conversation(context.db, thread_id, namespace=namespace)
    exchange = await conversation.abort_tool_exchange(connection=context.connection)
    return _encode_exchange(exchange, thread_id)


@endpoints.add(operations.conversation_delete)
async def conversation_delete(context: RequestContext, namespace: Namespace, thread_id: str) -> Any:
    """Delete a conversation; the thread's checkpoints and other logs stay."""
    conversation = Conversation(context.db, thread_id, namespace=namespace)
    if not await conversation.delete(connection=context.connection):
        raise NotFound(f"there is no conversation of thread {thread_id!r} in this namespace")
    return {"deleted": True}


async def _page_of_entries(
    log: ThreadLog, thread_id: str, query: schemas.ListEntriesQuery
) -> dict[str, Any]:
    """Return a page of entries that are not encoded yet."""
    listing = "newest entries" if query.newest_first else "entries"
    begin = query.before if query.newest_first else query.after
    bounds = (query.after, query.since, query.until)
    if query.newest_first and bounds != (None, None, None):
        raise InvalidArgument(
            "after, since and until are for entries in their order, not for the newest first"
        )
    if query.cursor is not None:
        (begin,) = decode_cursor(listing, query.cursor, (int,))
    if query.newest_first:
        entries = (await log.tail(thread_id, query.limit + 1, before=begin))[::-1]
    else:
        entries = await log.range(
            thread_id,
            after=begin,
            before=query.before,
            since=query.since,
            until=query.until,
            limit=query.limit + 1,
        )

    def cursor(last: Entry) -> str:
        return encode_cursor(listing, last.position)

    return page("entries", entries, query.limit, cursor)


def _messages_of(trees: Sequence[Mapping[str, Any]]) -> list[Message]:
    try:
        return [Message.of(wire.decode_state_tree(tree)) for tree in trees]
    except ValueError as error:
        raise InvalidArgument(str(error)) from error


def _encode_exchange(exchange: ToolExchange | None, thread_id: str) -> dict[str, Any]:
    if exchange is None:
        raise NotFound(f"no tool exchange is open in the conversation of thread {thread_id!r}")
    return {
        "calls": wire.encode_state_tree(exchange.calls.to_record()),
        "results": [wire.encode_state_tree(result.to_record()) for result in exchange.results],
        "begun_at": exchange.begun_at.isoformat(),
    }


def _times_of(
    given: Sequence[schemas.NewEntry | schemas.NewMessage],
) -> list[datetime] | None:
    if all(one.occurred_at is None for one in given):
        return None
    now = datetime.now(UTC)
    return [one.occurred_at or now for one in given]


def _expected_version(given: schemas.ChangesLog) -> int | Unset:
    return UNSET if given.expected_version is None else given.expected_version
