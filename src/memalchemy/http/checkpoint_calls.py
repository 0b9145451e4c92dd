"""The operations on threads and checkpoints, each an endpoint and a line of the route table."""

from __future__ import annotations

from typing import Any

from memalchemy.codec.values import from_jsonable
from memalchemy.contracts import UNSET
from memalchemy.errors import NotSerialisable
from memalchemy.http import shapes, wire
from memalchemy.http.apart import apart
from memalchemy.http.calls import Call, Route, missing


async def save(call: Call) -> Any:
    body: shapes.Save = call.body
    if body.thread_id is not None and body.thread_id != call.thread_id:
        raise ValueError("thread_id of the body is another than that of the path")
    given = "expected_parent" in body.model_fields_set
    try:
        state = await apart(body.state, lambda: wire.state_of_tree(body.state))
    except ValueError as error:
        raise NotSerialisable("/state", str(error)) from error
    saved = await call.checkpointer.save(
        state,
        call.thread_id,
        body.checkpoint_id,
        body.metadata,
        parent_id=body.parent_id,
        expected_parent=body.expected_parent if given else UNSET,
        ttl=body.ttl,
    )
    return {"checkpoint_id": saved}


async def list_checkpoints(call: Call) -> Any:
    found = await call.checkpointer.list_checkpoints(call.thread_id, call.query.limit)
    return {"checkpoints": found}


async def load(call: Call) -> Any:
    state = await call.checkpointer.load(call.thread_id, call.checkpoint_id)
    if state is None:
        raise _absent(call)
    tree = await apart(state, lambda: wire.tree_of_state(state))
    answer = {"thread_id": call.thread_id, "state": tree}
    if call.checkpoint_id is not None:
        answer["checkpoint_id"] = call.checkpoint_id
    return answer


async def delete(call: Call) -> Any:
    if not await call.checkpointer.delete(call.thread_id, call.checkpoint_id):
        raise _absent(call)
    return {"deleted": True}


async def list_threads(call: Call) -> Any:
    query: shapes.Threads = call.query
    ids = await call.checkpointer.list_threads(query.limit, query.pattern, offset=query.offset)
    return {"threads": ids}


async def metadata(call: Call) -> Any:
    known = await call.checkpointer.get_metadata(call.thread_id, call.checkpoint_id)
    if known is None:
        raise _absent(call)
    return wire.tree_of_info(known)


async def history(call: Call) -> Any:
    infos = call.checkpointer.history(
        call.thread_id, limit=call.query.limit, before=call.query.before
    )
    return {"checkpoints": [wire.tree_of_info(info.as_dict()) async for info in infos]}


async def diff(call: Call) -> Any:
    found = await call.checkpointer.diff(call.thread_id, call.query.a, call.query.b)
    return await apart(found, lambda: wire.tree_of_diff(found))


async def fork(call: Call) -> Any:
    body: shapes.Fork = call.body
    new = await call.checkpointer.fork(
        call.thread_id, body.checkpoint_id, new_thread_id=body.new_thread_id
    )
    return {"thread_id": new}


async def copy(call: Call) -> Any:
    copied = await call.checkpointer.copy_thread(call.thread_id, call.body.dest_thread_id)
    return {"copied": copied}


async def stats(call: Call) -> Any:
    return await call.checkpointer.get_storage_stats(call.thread_id)


async def rewrite(call: Call) -> Any:
    return {"count": await call.checkpointer.rewrite(call.thread_id)}


async def newest(call: Call) -> Any:
    found = await call.checkpointer.list_with_metadata(call.query.limit)
    return {"checkpoints": [wire.tree_of_info(info) for info in found]}


async def search(call: Call) -> Any:
    body: shapes.Search = call.body
    found = await call.checkpointer.search(body.query, body.limit, data=body.data)
    return await _trees(found)


async def by_metadata(call: Call) -> Any:
    body: shapes.ByMetadata = call.body
    found = await call.checkpointer.query_by_metadata(
        body.key, body.value, body.limit, data=body.data
    )
    return await _trees(found)


async def by_data(call: Call) -> Any:
    body: shapes.ByData = call.body
    value = from_jsonable(body.value)
    found = await call.checkpointer.search_data(body.path, value, body.limit, among=body.among)
    return await _trees(found)


async def prune(call: Call) -> Any:
    rules = call.body.model_dump()
    return {"count": await call.checkpointer.prune(rules.pop("thread_id"), **rules)}


async def vacuum(call: Call) -> Any:
    return {"count": await call.checkpointer.vacuum(**call.body.model_dump())}


async def forget(call: Call) -> Any:
    return {"count": await call.checkpointer.forget(**call.body.model_dump())}


async def _trees(found: list[dict[str, Any]]) -> Any:
    trees = await apart(found, lambda: [wire.tree_of_info(info) for info in found])
    return {"checkpoints": trees}


def _absent(call: Call) -> Exception:
    if call.checkpoint_id is None:
        return missing(f"thread {call.thread_id!r}")
    return missing(f"checkpoint {call.checkpoint_id!r} in thread {call.thread_id!r}")


_THREAD = "/threads/{thread_id}"
_CHECKPOINTS = f"{_THREAD}/checkpoints"
_ONE = _CHECKPOINTS + "/{checkpoint_id}"
_FOUND = (404,)

# The first five are those that a checkpointer over HTTP needs; the others are memalchemy's.
ROUTES = [
    Route(
        "POST",
        _CHECKPOINTS,
        "save",
        "Save a state as the newest checkpoint of the thread.",
        save,
        shapes.Saved,
        body=shapes.Save,
        status=201,
        errors=(404, 409, 410),
    ),
    Route(
        "GET",
        _CHECKPOINTS,
        "list_checkpoints",
        "The ids of a thread's checkpoints, newest first.",
        list_checkpoints,
        shapes.Ids,
        query=shapes.Listing,
    ),
    Route("GET", _ONE, "load", "A state.", load, shapes.Checkpoint, errors=_FOUND),
    Route(
        "DELETE", _ONE, "delete_checkpoint", "Delete a checkpoint.", delete, shapes.Deleted,
        errors=(*_FOUND, 409),
    ),
    Route(
        "DELETE", _CHECKPOINTS, "delete_checkpoints", "Delete a thread with all its logs.", delete,
        shapes.Deleted, errors=_FOUND,
    ),
    Route(
        "GET", _ONE + "/metadata", "get_metadata",
        "What is known of a checkpoint without its state.", metadata, shapes.Info, errors=_FOUND,
    ),
    Route(
        "GET", "/threads", "list_threads", "The ids of threads, most recently saved first.",
        list_threads, shapes.ThreadIds, query=shapes.Threads,
    ),
    Route("GET", _THREAD, "load_newest", "The newest state.", load, shapes.State, errors=_FOUND),
    Route(
        "DELETE", _THREAD, "delete_thread", "Delete a thread with all its logs.", delete,
        shapes.Deleted, errors=_FOUND,
    ),
    Route(
        "GET", f"{_THREAD}/metadata", "get_newest_metadata",
        "What is known of the newest checkpoint without its state.", metadata, shapes.Info,
        errors=_FOUND,
    ),
    Route(
        "GET", f"{_THREAD}/history", "history", "A thread's checkpoints, newest first.", history,
        shapes.Infos, query=shapes.Paging, errors=_FOUND,
    ),
    Route(
        "GET", f"{_THREAD}/diff", "diff", "What changed from checkpoint a to b.", diff,
        shapes.Difference, query=shapes.Between, errors=_FOUND,
    ),
    Route(
        "POST", f"{_THREAD}/fork", "fork", "Copy a thread up to a checkpoint into a new one.", fork,
        shapes.Forked, body=shapes.Fork, status=201, errors=(404, 409),
    ),
    Route(
        "POST", f"{_THREAD}/copy", "copy_thread", "Copy a thread with all its logs.", copy,
        shapes.Copied, body=shapes.Copy, errors=(409,),
    ),
    Route(
        "GET", f"{_THREAD}/stats", "get_storage_stats", "What a thread takes.", stats, shapes.Stats
    ),
    Route(
        "POST", f"{_THREAD}/rewrite", "rewrite",
        "Encode a thread anew, so that nothing of deleted states is left in it.", rewrite,
        shapes.Count,
    ),
    Route(
        "GET", "/checkpoints", "list_with_metadata",
        "The newest checkpoints over all threads.", newest, shapes.Infos, query=shapes.Newest,
    ),
    Route(
        "POST", "/checkpoints/search", "search", "Checkpoints by the words that they added.",
        search, shapes.Hits, body=shapes.Search,
    ),
    Route(
        "POST", "/checkpoints/query", "query_by_metadata", "Checkpoints by their metadata.",
        by_metadata, shapes.Infos, body=shapes.ByMetadata,
    ),
    Route(
        "POST", "/checkpoints/data", "search_data",
        "Threads by a field of their newest state; so many of the threads saved last are read.",
        by_data, shapes.Infos, body=shapes.ByData,
    ),
    Route(
        "POST", "/prune", "prune", "Delete checkpoints that every given rule lets go.", prune,
        shapes.Count, body=shapes.Prune,
    ),
    Route(
        "POST", "/vacuum", "vacuum", "Remove threads that were not saved for long.", vacuum,
        shapes.Count, body=shapes.Vacuum,
    ),
    Route(
        "POST", "/forget", "forget",
        "Erase a thread, or every thread and item with some metadata, without a trace.", forget,
        shapes.Count, body=shapes.Forget,
    ),
]  # fmt: skip
