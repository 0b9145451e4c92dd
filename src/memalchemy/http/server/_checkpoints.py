"""The operations on threads and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memalchemy.codec.values import from_jsonable
from memalchemy.contracts import UNSET, CheckpointRecord
from memalchemy.errors import InvalidArgument, NotFound, NotSerialisable
from memalchemy.http import wire
from memalchemy.http._offload import offload
from memalchemy.http.server import _schemas as schemas
from memalchemy.http.server._context import RequestContext
from memalchemy.http.server._operations import Operations

THREAD = "/threads/{thread_id}"
CHECKPOINTS = "/threads/{thread_id}/checkpoints"
CHECKPOINT = "/threads/{thread_id}/checkpoints/{checkpoint_id}"

operations = Operations("checkpoints")

# A server of somebody else's needs the first four operations only (docs/http.md).


@operations.add(
    "POST",
    CHECKPOINTS,
    body=schemas.SaveBody,
    answer=schemas.Saved,
    status=201,
    problems=(404, 409, 410),
)
async def save(context: RequestContext, thread_id: str, body: schemas.SaveBody) -> Any:
    """Save a state as the newest checkpoint of the thread."""
    if body.thread_id is not None and body.thread_id != thread_id:
        raise InvalidArgument("thread_id of the body is another than that of the path")
    try:
        state = await offload(body.state, lambda: wire.decode_state(body.state))
    except ValueError as error:
        raise NotSerialisable("/state", str(error)) from error
    is_expecting = "expected_parent" in body.model_fields_set
    checkpoint_id = await context.checkpointer.save(
        state,
        thread_id,
        body.checkpoint_id,
        body.metadata,
        parent_id=body.parent_id,
        expected_parent=body.expected_parent if is_expecting else UNSET,
        ttl=body.ttl,
    )
    return {"checkpoint_id": checkpoint_id}


@operations.add(
    "GET", CHECKPOINTS, query=schemas.ListCheckpointsQuery, answer=schemas.CheckpointIdList
)
async def list_checkpoints(
    context: RequestContext, thread_id: str, query: schemas.ListCheckpointsQuery
) -> Any:
    """List the ids of a thread's checkpoints, newest first."""
    return {"checkpoints": await context.checkpointer.list_checkpoints(thread_id, query.limit)}


@operations.add("GET", CHECKPOINT, answer=schemas.Checkpoint, problems=(404,))
async def load(context: RequestContext, thread_id: str, checkpoint_id: str) -> Any:
    """Load the state of a checkpoint."""
    state = await _state(context, thread_id, checkpoint_id)
    return {"thread_id": thread_id, "state": state, "checkpoint_id": checkpoint_id}


@operations.add("DELETE", CHECKPOINT, answer=schemas.Deleted, problems=(404, 409))
async def delete_checkpoint(context: RequestContext, thread_id: str, checkpoint_id: str) -> Any:
    """Delete a checkpoint."""
    return await _delete(context, thread_id, checkpoint_id)


@operations.add("DELETE", CHECKPOINTS, answer=schemas.Deleted, problems=(404,))
async def delete_checkpoints(context: RequestContext, thread_id: str) -> Any:
    """Delete a thread with all its logs."""
    return await _delete(context, thread_id, None)


@operations.add("GET", CHECKPOINT + "/metadata", answer=schemas.CheckpointInfo, problems=(404,))
async def get_metadata(context: RequestContext, thread_id: str, checkpoint_id: str) -> Any:
    """Describe a checkpoint without its state."""
    return await _info(context, thread_id, checkpoint_id)


@operations.add("GET", "/threads", query=schemas.ListThreadsQuery, answer=schemas.ThreadIdList)
async def list_threads(context: RequestContext, query: schemas.ListThreadsQuery) -> Any:
    """List the ids of threads, most recently saved first."""
    ids = await context.checkpointer.list_threads(query.limit, query.pattern, offset=query.offset)
    return {"threads": ids}


@operations.add("GET", THREAD, answer=schemas.State, problems=(404,))
async def load_newest(context: RequestContext, thread_id: str) -> Any:
    """Load the newest state of a thread."""
    return {"thread_id": thread_id, "state": await _state(context, thread_id, None)}


@operations.add("DELETE", THREAD, answer=schemas.Deleted, problems=(404,))
async def delete_thread(context: RequestContext, thread_id: str) -> Any:
    """Delete a thread with all its logs."""
    return await _delete(context, thread_id, None)


@operations.add("GET", THREAD + "/metadata", answer=schemas.CheckpointInfo, problems=(404,))
async def get_newest_metadata(context: RequestContext, thread_id: str) -> Any:
    """Describe the newest checkpoint of a thread without its state."""
    return await _info(context, thread_id, None)


@operations.add(
    "GET",
    THREAD + "/history",
    query=schemas.HistoryQuery,
    answer=schemas.CheckpointInfoList,
    problems=(404,),
)
async def history(context: RequestContext, thread_id: str, query: schemas.HistoryQuery) -> Any:
    """Describe the checkpoints of a thread, newest first."""
    infos = context.checkpointer.history(thread_id, limit=query.limit, before=query.before)
    return {"checkpoints": [wire.encode_info(info.as_dict()) async for info in infos]}


@operations.add(
    "GET", THREAD + "/diff", query=schemas.DiffQuery, answer=schemas.Diff, problems=(404,)
)
async def diff(context: RequestContext, thread_id: str, query: schemas.DiffQuery) -> Any:
    """Compare two checkpoints: what changed from a to b."""
    found = await context.checkpointer.diff(thread_id, query.a, query.b)
    return await offload(found, lambda: wire.encode_diff(found))


@operations.add(
    "POST",
    THREAD + "/fork",
    body=schemas.ForkBody,
    answer=schemas.Forked,
    status=201,
    problems=(404, 409),
)
async def fork(context: RequestContext, thread_id: str, body: schemas.ForkBody) -> Any:
    """Copy a thread up to a checkpoint into a new thread."""
    new_thread_id = await context.checkpointer.fork(
        thread_id, body.checkpoint_id, new_thread_id=body.new_thread_id
    )
    return {"thread_id": new_thread_id}


@operations.add(
    "POST", THREAD + "/copy", body=schemas.CopyBody, answer=schemas.Copied, problems=(409,)
)
async def copy_thread(context: RequestContext, thread_id: str, body: schemas.CopyBody) -> Any:
    """Copy a thread with all its logs."""
    return {"copied": await context.checkpointer.copy_thread(thread_id, body.dest_thread_id)}


@operations.add("GET", THREAD + "/stats", answer=schemas.StorageStats)
async def get_storage_stats(context: RequestContext, thread_id: str) -> Any:
    """Measure what a thread takes."""
    return await context.checkpointer.get_storage_stats(thread_id)


@operations.add("POST", THREAD + "/rewrite", answer=schemas.Count)
async def rewrite(context: RequestContext, thread_id: str) -> Any:
    """Encode a thread anew, so that nothing of deleted states is left in it."""
    return {"count": await context.checkpointer.rewrite(thread_id)}


@operations.add(
    "GET",
    "/checkpoints",
    query=schemas.NewestCheckpointsQuery,
    answer=schemas.CheckpointInfoList,
)
async def list_with_metadata(context: RequestContext, query: schemas.NewestCheckpointsQuery) -> Any:
    """Describe the newest checkpoints over all threads."""
    return await _infos(await context.checkpointer.list_with_metadata(query.limit))


@operations.add(
    "POST",
    "/checkpoints/search",
    body=schemas.SearchCheckpointsBody,
    answer=schemas.CheckpointHitList,
)
async def search(context: RequestContext, body: schemas.SearchCheckpointsBody) -> Any:
    """Find checkpoints by the words that they added."""
    return await _infos(await context.checkpointer.search(body.query, body.limit, data=body.data))


@operations.add(
    "POST",
    "/checkpoints/query",
    body=schemas.QueryByMetadataBody,
    answer=schemas.CheckpointInfoList,
)
async def query_by_metadata(context: RequestContext, body: schemas.QueryByMetadataBody) -> Any:
    """Find checkpoints by their metadata."""
    return await _infos(
        await context.checkpointer.query_by_metadata(
            body.key, body.value, body.limit, data=body.data
        )
    )


@operations.add(
    "POST", "/checkpoints/data", body=schemas.SearchDataBody, answer=schemas.CheckpointInfoList
)
async def search_data(context: RequestContext, body: schemas.SearchDataBody) -> Any:
    """Find threads by a field of their newest state, among those saved last."""
    try:
        value = from_jsonable(body.value)
    except ValueError as error:
        raise NotSerialisable("/value", str(error)) from error
    return await _infos(
        await context.checkpointer.search_data(body.path, value, body.limit, among=body.among)
    )


@operations.add("POST", "/prune", body=schemas.PruneBody, answer=schemas.Count)
async def prune(context: RequestContext, body: schemas.PruneBody) -> Any:
    """Delete checkpoints that every given rule lets go."""
    return {"count": await context.checkpointer.prune(**body.model_dump())}


@operations.add("POST", "/vacuum", body=schemas.VacuumBody, answer=schemas.Count)
async def vacuum(context: RequestContext, body: schemas.VacuumBody) -> Any:
    """Remove expired threads, and those that were not saved for a number of days."""
    return {"count": await context.checkpointer.vacuum(**body.model_dump())}


@operations.add("POST", "/forget", body=schemas.ForgetBody, answer=schemas.Count)
async def forget(context: RequestContext, body: schemas.ForgetBody) -> Any:
    """Erase a thread, or every thread and item with some metadata, without a trace."""
    return {"count": await context.checkpointer.forget(**body.model_dump())}


async def _state(context: RequestContext, thread_id: str, checkpoint_id: str | None) -> Any:
    state = await context.checkpointer.load(thread_id, checkpoint_id)
    if state is None:
        raise _not_found(thread_id, checkpoint_id)
    return await offload(state, lambda: wire.encode_state(state))


async def _info(context: RequestContext, thread_id: str, checkpoint_id: str | None) -> Any:
    info = await context.checkpointer.get_metadata(thread_id, checkpoint_id)
    if info is None:
        raise _not_found(thread_id, checkpoint_id)
    return wire.encode_info(info)


async def _infos(found: Sequence[CheckpointRecord]) -> Any:
    trees = await offload(found, lambda: [wire.encode_info(info) for info in found])
    return {"checkpoints": trees}


async def _delete(context: RequestContext, thread_id: str, checkpoint_id: str | None) -> Any:
    if not await context.checkpointer.delete(thread_id, checkpoint_id):
        raise _not_found(thread_id, checkpoint_id)
    return {"deleted": True}


def _not_found(thread_id: str, checkpoint_id: str | None) -> NotFound:
    if checkpoint_id is None:
        return NotFound(f"there is no thread {thread_id!r}")
    return NotFound(f"there is no checkpoint {checkpoint_id!r} in thread {thread_id!r}")
