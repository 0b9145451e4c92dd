"""The operations on threads and checkpoints."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from memalchemy._cursors import decode_cursor, encode_cursor
from memalchemy.contracts import UNSET, CheckpointInfo, CheckpointRecord, Unset
from memalchemy.errors import Conflict, InvalidArgument, NotFound, ThreadDeleted
from memalchemy.filters import field_equals
from memalchemy.http import operations, wire
from memalchemy.http._offload import offload
from memalchemy.http.server import _schemas as schemas
from memalchemy.http.server._conditions import (
    Conditions,
    precondition_required,
    tag_of_checkpoint,
)
from memalchemy.http.server._context import OperationResult, RequestContext, page
from memalchemy.http.server._endpoints import Endpoints
from memalchemy.http.server._limits import MAX_RESULTS
from memalchemy.http.server._values import decode_part
from memalchemy.keys import check_thread_id, decode_namespace
from memalchemy.log.listing import (
    LogMark,
    ThreadListing,
    ThreadMark,
    describe_logs,
    list_log_heads,
    namespaces_of_thread,
)

ROOT = "/"
"""The path of the namespace of checkpoints."""

ANCHORS = 3
"""Checkpoints that a cursor of a history names, one of which should still be there."""

endpoints = Endpoints()


@endpoints.add(operations.save)
async def save(context: RequestContext, thread_id: str, body: schemas.SaveBody) -> Any:
    """Save a state as the newest checkpoint of the thread."""
    state = await _decode_state(body, thread_id)
    checkpoint_id = await context.checkpointer.save(
        state,
        thread_id,
        body.checkpoint_id,
        body.metadata,
        parent_id=body.parent_id,
        expected_parent=_expected_parent(body),
        ttl=body.ttl,
        occurred_at=body.occurred_at,
        connection=context.connection,
    )
    return {"checkpoint_id": checkpoint_id}


@endpoints.add(operations.put_checkpoint)
async def put_checkpoint(
    context: RequestContext,
    thread_id: str,
    checkpoint_id: str,
    body: schemas.SaveBody,
    conditions: Conditions,
) -> Any:
    """Save a state under this id, as the newest checkpoint of the thread."""
    if body.checkpoint_id is not None and body.checkpoint_id != checkpoint_id:
        raise InvalidArgument("checkpoint_id of the body is another than that of the path")
    state = await _decode_state(body, thread_id)
    expected = _expected_parent(body)
    if context.server.requires_conditions and not conditions and expected is UNSET:
        raise precondition_required()

    async def save(expected_parent: str | Unset | None) -> Any:
        await context.checkpointer.save(
            state,
            thread_id,
            checkpoint_id,
            body.metadata,
            parent_id=body.parent_id,
            expected_parent=expected_parent,
            ttl=body.ttl,
            occurred_at=body.occurred_at,
            connection=context.connection,
        )
        return {"checkpoint_id": checkpoint_id}

    if not conditions:
        return await save(expected)
    # No save comes between the check and this save: it would be the newest, and not *newest*. The
    # time of the request bounds the number of attempts.
    checkpointer, connection = context.checkpointer, context.connection
    while True:
        newest = await checkpointer.list_checkpoints(thread_id, 1, connection=connection)
        info = await checkpointer.get_metadata(thread_id, checkpoint_id, connection=connection)
        conditions.check(None if info is None else tag_of_checkpoint(info))
        if expected is not UNSET or body.parent_id is not None:
            return await save(expected)
        try:
            return await save(newest[0] if newest else None)
        except (Conflict, ThreadDeleted):
            await asyncio.sleep(random.uniform(0, 0.02))


@endpoints.add(operations.list_checkpoints)
async def list_checkpoints(
    context: RequestContext, thread_id: str, query: schemas.ListCheckpointsQuery
) -> Any:
    """List the ids of a thread's checkpoints, newest first."""
    answer = await _page_of_history(context, thread_id, query.limit, None, query.cursor)
    return answer | {"checkpoints": [info.checkpoint_id for info in answer["checkpoints"]]}


@endpoints.add(operations.load)
async def load(
    context: RequestContext, thread_id: str, checkpoint_id: str, conditions: Conditions
) -> Any:
    """Load the state of a checkpoint."""
    return await _answer_with_checkpoint(context, thread_id, checkpoint_id, conditions)


@endpoints.add(operations.delete_checkpoint)
async def delete_checkpoint(context: RequestContext, thread_id: str, checkpoint_id: str) -> Any:
    """Delete a checkpoint."""
    return await _delete_checkpoint(context, thread_id, checkpoint_id)


@endpoints.add(operations.delete_checkpoints)
async def delete_checkpoints(context: RequestContext, thread_id: str) -> Any:
    """Delete a thread with all its logs."""
    return await _delete_checkpoint(context, thread_id, None)


@endpoints.add(operations.get_metadata)
async def get_metadata(context: RequestContext, thread_id: str, checkpoint_id: str) -> Any:
    """Describe a checkpoint without its state."""
    return await _require_info(context, thread_id, checkpoint_id)


@endpoints.add(operations.list_threads)
async def list_threads(context: RequestContext, query: schemas.ListThreadsQuery) -> Any:
    """List the ids of threads, most recently saved first."""
    after = None
    if query.cursor is not None:
        after = ThreadMark(*decode_cursor("threads", query.cursor, (datetime, str)))
    listing = ThreadListing(context.db, ROOT, "checkpoints", query.pattern)
    marks = (await listing.page(query.offset + query.limit + 1, after, None))[query.offset :]
    answer = page("threads", marks, query.limit, _cursor_of_thread)
    return answer | {"threads": [mark.thread_id for mark in answer["threads"]]}


@endpoints.add(operations.count_threads)
async def count_threads(context: RequestContext, body: schemas.CountThreadsBody) -> Any:
    """Count the threads that have a checkpoint."""
    return {"count": await context.checkpointer.count_threads(body.pattern)}


@endpoints.add(operations.list_all_logs)
async def list_all_logs(context: RequestContext, query: schemas.ListAllLogsQuery) -> Any:
    """Describe logs, each a thread in one namespace, the most recently written first."""
    if query.thread_id is not None:
        check_thread_id(query.thread_id)
    after = None
    if query.cursor is not None:
        time, thread_id, parts = decode_cursor("all logs", query.cursor, (datetime, str, list))
        after = LogMark(time, thread_id, tuple(parts))
    heads = await list_log_heads(
        context.db,
        ROOT,
        query.thread_id,
        below=query.below,
        pattern=query.pattern,
        limit=query.limit + 1,
        after=after,
    )
    answer = page("logs", heads, query.limit, _cursor_of_log)
    infos = await describe_logs(context.db, answer["logs"])
    return answer | {"logs": [wire.encode_log_info(info) for info in infos]}


@endpoints.add(operations.list_namespaces)
async def list_namespaces(
    context: RequestContext, thread_id: str, query: schemas.ListNamespacesOfThreadQuery
) -> Any:
    """List the namespaces in which a thread has a checkpoint."""
    after = None
    if query.cursor is not None:
        (parts,) = decode_cursor("namespaces of a thread", query.cursor, (list,))
        after = tuple(parts)
    found = await namespaces_of_thread(
        context.db, ROOT, thread_id, limit=query.limit + 1, after=after
    )
    namespaces = [list(namespace) for namespace in found]
    return page("namespaces", namespaces, query.limit, _cursor_of_namespace)


@endpoints.add(operations.set_thread_metadata)
async def set_thread_metadata(
    context: RequestContext, thread_id: str, body: schemas.ThreadMetadataBody
) -> Any:
    """Replace the metadata of the thread itself, which is not that of a checkpoint."""
    await context.checkpointer.set_thread_metadata(
        thread_id, body.metadata, connection=context.connection
    )
    return {"edited": True}


@endpoints.add(operations.delete_some_checkpoints)
async def delete_some_checkpoints(
    context: RequestContext, thread_id: str, body: schemas.CheckpointIdsBody
) -> Any:
    """Delete some checkpoints of a thread, in one transaction; count those that were there."""
    count = await context.checkpointer.delete_checkpoints(
        thread_id, body.checkpoint_ids, connection=context.connection
    )
    return {"count": count}


@endpoints.add(operations.load_newest)
async def load_newest(context: RequestContext, thread_id: str, conditions: Conditions) -> Any:
    """Load the newest state of a thread."""
    return await _answer_with_checkpoint(context, thread_id, None, conditions)


@endpoints.add(operations.delete_thread)
async def delete_thread(context: RequestContext, thread_id: str) -> Any:
    """Delete a thread with all its logs."""
    return await _delete_checkpoint(context, thread_id, None)


@endpoints.add(operations.get_newest_metadata)
async def get_newest_metadata(context: RequestContext, thread_id: str) -> Any:
    """Describe the newest checkpoint of a thread without its state."""
    return await _require_info(context, thread_id, None)


@endpoints.add(operations.history)
async def history(context: RequestContext, thread_id: str, query: schemas.HistoryQuery) -> Any:
    """Describe the checkpoints of a thread, newest first."""
    answer = await _page_of_history(context, thread_id, query.limit, query.before, query.cursor)
    infos = [wire.encode_info(info.as_dict()) for info in answer["checkpoints"]]
    return answer | {"checkpoints": infos}


@endpoints.add(operations.diff)
async def diff(context: RequestContext, thread_id: str, query: schemas.DiffQuery) -> Any:
    """Compare two checkpoints: what changed from a to b."""
    found = await context.checkpointer.diff(thread_id, query.a, query.b)
    return await offload(found, lambda: wire.encode_diff(found))


@endpoints.add(operations.fork)
async def fork(context: RequestContext, thread_id: str, body: schemas.ForkBody) -> Any:
    """Copy a thread up to a checkpoint into a new thread."""
    new_thread_id = await context.checkpointer.fork(
        thread_id,
        body.checkpoint_id,
        new_thread_id=body.new_thread_id,
        connection=context.connection,
    )
    return {"thread_id": new_thread_id}


@endpoints.add(operations.copy_thread)
async def copy_thread(context: RequestContext, thread_id: str, body: schemas.CopyBody) -> Any:
    """Copy a thread with all its logs."""
    copied = await context.checkpointer.copy_thread(
        thread_id, body.dest_thread_id, connection=context.connection
    )
    return {"copied": copied}


@endpoints.add(operations.get_storage_stats)
async def get_storage_stats(context: RequestContext, thread_id: str) -> Any:
    """Measure what a thread takes."""
    return await context.checkpointer.get_storage_stats(thread_id)


@endpoints.add(operations.rewrite)
async def rewrite(context: RequestContext, thread_id: str) -> Any:
    """Encode a thread anew, so that nothing of deleted states is left in it."""
    return {"count": await context.checkpointer.rewrite(thread_id)}


@endpoints.add(operations.list_with_metadata)
async def list_with_metadata(context: RequestContext, query: schemas.NewestCheckpointsQuery) -> Any:
    """Describe the newest checkpoints over all threads."""
    # These are in the order of time over all threads, of which the database has no index: each page
    # is read from the beginning.
    before, offset = None, 0
    if query.cursor is not None:
        *place, offset = decode_cursor("newest", query.cursor, (datetime, int, str, int))
        before = tuple(place)
    size = offset + query.limit + 1
    while True:
        found = await context.checkpointer.list_with_metadata(size)
        behind = [one for one in found if before is None or _place_of(one) < before]
        if len(behind) > query.limit or len(found) < size or size >= MAX_RESULTS:
            break
        size = min(2 * size, MAX_RESULTS)  # others were saved meanwhile

    def cursor(last: CheckpointRecord) -> str:
        created_at, seq, thread_id = _place_of(last)
        return encode_cursor("newest", created_at, seq, thread_id, offset + query.limit)

    answer = page("checkpoints", behind, query.limit, cursor)
    return answer | await _encode_infos(answer["checkpoints"])


@endpoints.add(operations.search)
async def search(context: RequestContext, body: schemas.SearchCheckpointsBody) -> Any:
    """Find checkpoints by the words that they added."""
    return await _encode_infos(
        await context.checkpointer.search(body.query, body.limit, match=body.match, data=body.data)
    )


@endpoints.add(operations.query_by_metadata)
async def query_by_metadata(context: RequestContext, body: schemas.QueryByMetadataBody) -> Any:
    """Find checkpoints by their metadata."""
    return await _encode_infos(
        await context.checkpointer.query_by_metadata(
            body.key, body.value, body.limit, data=body.data
        )
    )


@endpoints.add(operations.search_data)
async def search_data(context: RequestContext, body: schemas.SearchDataBody) -> Any:
    """Find threads by a field of their newest state, among those saved last."""
    value: Any = await decode_part(body.value, "/value")
    try:
        field_equals(body.path, value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(str(error)) from error
    return await _encode_infos(
        await context.checkpointer.search_data(body.path, value, body.limit, among=body.among)
    )


@endpoints.add(operations.prune)
async def prune(context: RequestContext, body: schemas.PruneBody) -> Any:
    """Delete checkpoints that no given rule keeps."""
    return {"count": await context.checkpointer.prune(**body.model_dump())}


@endpoints.add(operations.vacuum)
async def vacuum(context: RequestContext, body: schemas.VacuumBody) -> Any:
    """Remove expired threads, and those that were not saved for a number of days."""
    return {"count": await context.checkpointer.vacuum(**body.model_dump())}


@endpoints.add(operations.forget)
async def forget(context: RequestContext, body: schemas.ForgetBody) -> Any:
    """Erase a thread, or every thread and item with some metadata, without a trace."""
    return {"count": await context.checkpointer.forget(**body.model_dump())}


def _place_of(info: CheckpointRecord) -> tuple[datetime, int, str]:
    return info["created_at"], info["seq"], info["thread_id"]


def _cursor_of_thread(mark: ThreadMark) -> str:
    return encode_cursor("threads", mark.updated_at, mark.thread_id)


def _cursor_of_log(head: Any) -> str:
    namespace = decode_namespace(head.namespace)
    return encode_cursor("all logs", head.updated_at, head.thread_id, namespace)


def _cursor_of_namespace(parts: list[str]) -> str:
    return encode_cursor("namespaces of a thread", parts)


async def _page_of_history(
    context: RequestContext, thread_id: str, limit: int, before: str | None, cursor: str | None
) -> dict[str, Any]:
    """Return a page of a history, its checkpoints not encoded yet."""
    checkpointer = context.checkpointer
    found: list[CheckpointInfo] = []
    if cursor is None:
        found = [
            info async for info in checkpointer.history(thread_id, limit=limit + 1, before=before)
        ]
    else:
        # If the last of the page before was deleted meanwhile, it goes on behind one before it.
        ids, seq = decode_cursor("history", cursor, (list, int))
        for begin in [*ids, None]:
            most = None if begin is None else limit + 1 + len(ids)
            history = checkpointer.history(thread_id, limit=most, before=begin)
            with suppress(NotFound):
                found = [info async for info in history if info.seq < seq]
                break

    def after(last: CheckpointInfo) -> str:
        shown = found[:limit]
        return encode_cursor(
            "history", [one.checkpoint_id for one in shown[: -ANCHORS - 1 : -1]], last.seq
        )

    return page("checkpoints", found, limit, after)


async def _decode_state(body: schemas.SaveBody, thread_id: str) -> Any:
    if body.thread_id is not None and body.thread_id != thread_id:
        raise InvalidArgument("thread_id of the body is another than that of the path")
    return await decode_part(body.state, "/state", wire.decode_state_tree)


def _expected_parent(body: schemas.SaveBody) -> str | Unset | None:
    return body.expected_parent if "expected_parent" in body.model_fields_set else UNSET


async def _answer_with_checkpoint(
    context: RequestContext, thread_id: str, checkpoint_id: str | None, conditions: Conditions
) -> OperationResult:
    info = await context.checkpointer.get_metadata(thread_id, checkpoint_id)
    if info is None:
        raise _not_found(thread_id, checkpoint_id)
    # If it is replaced before it is loaded, the tag is too old, which is on the safe side.
    tag = tag_of_checkpoint(info)
    headers = {"ETag": tag}
    if conditions.is_unchanged(tag):
        return OperationResult(None, 304, headers)
    checkpoint_id = info["checkpoint_id"]
    state = await context.checkpointer.load(thread_id, checkpoint_id)
    if state is None:
        raise _not_found(thread_id, checkpoint_id)
    tree = await offload(state, lambda: wire.encode_state_tree(state))
    found = {"thread_id": thread_id, "state": tree, "checkpoint_id": checkpoint_id}
    return OperationResult(found, headers=headers)


async def _require_info(context: RequestContext, thread_id: str, checkpoint_id: str | None) -> Any:
    info = await context.checkpointer.get_metadata(thread_id, checkpoint_id)
    if info is None:
        raise _not_found(thread_id, checkpoint_id)
    return wire.encode_info(info)


async def _encode_infos(found: Sequence[CheckpointRecord]) -> Any:
    trees = await offload(found, lambda: [wire.encode_info(info) for info in found])
    return {"checkpoints": trees}


async def _delete_checkpoint(
    context: RequestContext, thread_id: str, checkpoint_id: str | None
) -> Any:
    if not await context.checkpointer.delete(
        thread_id, checkpoint_id, connection=context.connection
    ):
        raise _not_found(thread_id, checkpoint_id)
    return {"deleted": True}


def _not_found(thread_id: str, checkpoint_id: str | None) -> NotFound:
    if checkpoint_id is None:
        return NotFound(f"there is no thread {thread_id!r}")
    return NotFound(f"there is no checkpoint {checkpoint_id!r} in thread {thread_id!r}")
