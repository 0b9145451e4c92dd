"""`HTTPCheckpointer`: the contract of a checkpointer, kept by a server over HTTP.

It works on `memalchemy serve` with everything, and with less on any server that has the endpoints
of docs/http.md. It knows no SQL.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Generic, overload

from memalchemy._changes import ChangeFunction, check_changed_state, function_errors
from memalchemy._retry import retry_on_conflict
from memalchemy.codec.values import frozen, is_heavy
from memalchemy.contracts import (
    LEAVE,
    UNSET,
    CheckpointerCapabilities,
    CheckpointHit,
    CheckpointInfo,
    CheckpointMatch,
    CheckpointRecord,
    CheckpointWithData,
    Diff,
    LogInfo,
    Match,
    Seconds,
    State,
    StorageStats,
    Unset,
    check_flag,
    check_limit,
    check_time,
)
from memalchemy.errors import Corrupt, MemalchemyError
from memalchemy.events import operation
from memalchemy.http import operations, wire
from memalchemy.http._offload import offload
from memalchemy.http.client._client import RemoteClient, lifetime_seconds, words_to_match
from memalchemy.http.client._remote import PAGE, ReceivedJSON, RemoteServer
from memalchemy.http.client._transport import malformed
from memalchemy.http.operations import OperationRequest
from memalchemy.keys import check_list, check_name, check_thread_id, new_checkpoint_id
from memalchemy.metadata import check_metadata
from memalchemy.state_conversion import check_state_type, from_mapping, to_mapping


class HTTPCheckpointer(RemoteClient, Generic[State]):
    """Save an agent's states on a server, and load any of them.

    An outage, a timeout, half an answer and an answer that makes no sense are exceptions: ``None``
    and ``[]`` mean that the server said so. Reads are sent up to three times within *timeout*, and
    so are writes that ``memalchemy serve`` does once, however often they come: saves, deletions,
    forks and copies. Other writes are sent once. `DatabaseUnreachable.maybe_applied` says whether
    one may have happened. Errors are those of `memalchemy.Checkpointer`.

    Args:
        base_url: the address of ``memalchemy serve``, or of any server with the documented
            endpoints.
        headers: sent with every request.
        auth: user and password, for a server that asks for them.
        timeout: seconds that a call may take as a whole, repetitions included.
        token: a bearer token.
        state_type: the type that `load` builds: a pydantic model, a dataclass, or a class with
            ``from_checkpoint``. Without it, `load` returns the stored mapping.

    Construction does no I/O; one object serves several loops and survives a fork.
    """

    deletes_single_checkpoints: bool = True

    _server: RemoteServer

    @overload
    def __init__(
        self: HTTPCheckpointer[dict[str, Any]],
        base_url: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
        state_type: None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
        state_type: type[State] | Callable[[dict[str, Any]], State],
    ) -> None: ...
    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
        state_type: Any | None = None,
    ) -> None:
        super().__init__(base_url, headers, auth, timeout, token=token)
        self._state_type = check_state_type(state_type)

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """The capabilities of the server, as far as they are known.

        The server is asked by `connect`, by ``async with``, and by the first call that has to know.
        """
        return self._server.capabilities

    async def health_check(self) -> bool:
        """Return whether the server answers and is ready. Errors are ``False``."""
        try:
            reply = await self._server.transport.send("GET", operations.health.path)
        except MemalchemyError:
            return False
        return reply.status < 400

    async def save(
        self,
        state: Any,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        parent_id: str | None = None,
        expected_parent: str | Unset | None = UNSET,
        occurred_at: datetime | None = None,
        ttl: Seconds | None = None,
    ) -> str:
        """Save *state* as the newest checkpoint of the thread; return its id.

        It works as `memalchemy.Checkpointer.save`. A server of somebody else's takes no
        *parent_id*, *expected_parent*, *occurred_at* and *ttl*.

        Raises:
            CapabilityMissing: the server does not take one of them; nothing was sent.
        """
        is_new = checkpoint_id is None
        checkpoint_id = new_checkpoint_id() if checkpoint_id is None else checkpoint_id
        put = operations.put_checkpoint(thread_id, checkpoint_id)
        mapping, fallback = to_mapping(state, self._state_type)
        if is_heavy([mapping]):  # the caller may change it while a thread encodes it
            mapping = {key: frozen(value) for key, value in mapping.items()}
        checked = check_metadata(metadata)
        body: dict[str, Any] = {
            "checkpoint_id": checkpoint_id,
            "thread_id": thread_id,
            "created_at": datetime.now(UTC).isoformat(),
            "state": await offload(mapping, lambda: wire.encode_state_tree(mapping, fallback)),
            "metadata": checked,
        }
        options: dict[str, Any] = {}
        if parent_id is not None:
            options["parent_id"] = check_name(parent_id, "parent_id")
        if expected_parent is not UNSET:
            if expected_parent is not None:
                check_name(expected_parent, "expected_parent")
            options["expected_parent"] = expected_parent
        if occurred_at is not None:
            options["occurred_at"] = check_time(occurred_at, "occurred_at").isoformat()
        if ttl is not None:
            options["ttl"] = lifetime_seconds(ttl)
        if options:  # whoever has a history is a server of memalchemy's
            await self._server.require(operations.history, f"save with {', '.join(options)}")
        with operation("checkpoint.save", thread_id=thread_id, checkpoint_id=checkpoint_id):
            answer: ReceivedJSON | None
            if not await self._server.offers(put.operation):
                post = operations.save(thread_id, body=body | options)
                answer = await self._server.call(post, repeats=False)
            elif is_new:
                answer = await self._server.create(replace(put, body=body | options))
            else:
                answer = await self._server.call(replace(put, body=body | options))
        tree = None if answer is None else answer.tree
        given = tree.get("checkpoint_id", checkpoint_id) if isinstance(tree, dict) else None
        return given if isinstance(given, str) else checkpoint_id

    async def change(
        self,
        thread_id: str,
        function: Callable[[State | None], Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
    ) -> str | None:
        """Apply a function to the newest state and save the result; no save of others is lost.

        *function* runs here, and is called again if others save the thread meanwhile. It takes the
        state, or ``None`` if there is none, and returns the new state, or ``LEAVE`` to save
        nothing, as for `memalchemy.Checkpointer.change`. A checkpoint that was replaced under its
        own id meanwhile may be taken for the one that was read.

        Returns the id of the newest checkpoint after the call; ``None`` if there is none.

        Raises:
            InvalidArgument: the function returned ``None``; nothing was saved.
            Conflict: others saved first 20 times; nothing was saved.
            CapabilityMissing: the server is somebody else's; nothing was sent.
        """
        check_thread_id(thread_id)
        change = ChangeFunction(function, "a state")
        await self._server.require(operations.history, "change")

        async def attempt() -> str | None:
            parent, state = await self._load_with_id(thread_id, None) or (None, None)
            changed = await change.call(state)
            if changed is LEAVE:
                return parent
            check_changed_state(changed)
            return await self.save(
                changed, thread_id, metadata=metadata, expected_parent=parent, ttl=ttl
            )

        with function_errors():
            return await retry_on_conflict(attempt, f"thread {thread_id!r}")

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> State | None:
        """Return the state of a checkpoint, the newest without an id; ``None`` if it is not there.

        Raises:
            Corrupt: the state that the server has cannot be read.
        """
        found = await self._load_with_id(thread_id, checkpoint_id)
        return None if found is None else found[1]

    async def _load_with_id(
        self, thread_id: str, checkpoint_id: str | None
    ) -> tuple[str | None, State] | None:
        """Return the id of a checkpoint, the newest without one, and its state.

        Servers of others may leave out the id of the newest.
        """
        request = operations.load_newest(thread_id)
        with operation("checkpoint.load", thread_id=thread_id, checkpoint_id=checkpoint_id):
            if checkpoint_id is None and not await self._server.offers(operations.load_newest):
                newest = await self.list_checkpoints(thread_id, 1)
                if not newest:
                    return None
                checkpoint_id = newest[0]
            if checkpoint_id is not None:
                request = operations.load(thread_id, checkpoint_id)
            answer = await self._server.find(request)
            if answer is None:
                return None
            tree = answer.tree
            if not isinstance(tree, dict) or not isinstance(tree.get("state", tree), dict):
                raise malformed(self.base_url, "a state")
            try:
                found = tree.get("state", tree)
                state = await offload(found, lambda: wire.decode_state_tree(found))
            except ValueError as error:
                raise Corrupt(f"a state of thread {thread_id!r} cannot be read: {error}") from error
        loaded: State = from_mapping(state, self._state_type)
        return tree.get("checkpoint_id", checkpoint_id), loaded

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """Return the ids of the thread's checkpoints, newest first, at most *limit*."""
        query = {"limit": check_limit(limit)}
        answer = await self._server.find(operations.list_checkpoints(thread_id, query=query))
        return [] if answer is None else _checkpoint_ids(answer.tree, self.base_url)[:limit]

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete a checkpoint, or the whole thread without an id; ``False`` if it was not there."""
        if checkpoint_id is None:
            request = operations.delete_checkpoints(thread_id)
        else:
            request = operations.delete_checkpoint(thread_id, checkpoint_id)
        with operation("checkpoint.delete", thread_id=thread_id, checkpoint_id=checkpoint_id):
            answer = await self._server.find(request)
        tree = None if answer is None else answer.tree
        return answer is not None and not (isinstance(tree, dict) and tree.get("deleted") is False)

    async def delete_checkpoints(self, thread_id: str, checkpoint_ids: Iterable[str]) -> int:
        """Delete some checkpoints, in one transaction; return the number that existed."""
        given = check_list(checkpoint_ids, "checkpoint_ids")
        body = {"checkpoint_ids": [check_name(one, "checkpoint_id") for one in given]}
        request = operations.delete_some_checkpoints(thread_id, body=body)
        await self._server.require(request.operation, "delete_checkpoints")
        with operation("checkpoint.delete", thread_id=thread_id):
            return await self._server.count(request)

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Return whether the checkpoint is there; without an id, whether the thread has any."""
        if await self._server.offers(operations.get_metadata):
            return await self.get_metadata(thread_id, checkpoint_id) is not None
        if checkpoint_id is None:
            return bool(await self.list_checkpoints(thread_id, 1))
        return await self._server.find(operations.load(thread_id, checkpoint_id)) is not None

    async def get_metadata(
        self, thread_id: str, checkpoint_id: str | None = None
    ) -> CheckpointRecord | None:
        """Describe a checkpoint without its state, the newest without an id.

        ``None`` if it is not there.
        """
        if checkpoint_id is None:
            request = operations.get_newest_metadata(thread_id)
        else:
            request = operations.get_metadata(thread_id, checkpoint_id)
        await self._server.require(operations.get_metadata)
        answer = await self._server.find(request)
        return None if answer is None else answer.read(wire.decode_info)

    async def history(
        self, thread_id: str, *, limit: int | None = None, before: str | None = None
    ) -> AsyncIterator[CheckpointInfo]:
        """Yield the thread's checkpoints, newest first; if given, those older than *before*.

        They are read in pages of 500. A checkpoint that is deleted meanwhile may be missing.

        Raises:
            NotFound: *before* is not there.
        """
        request = operations.history(thread_id)
        left = None if limit is None else check_limit(limit)
        where = {} if before is None else {"before": check_name(before, "before")}
        await self._server.require(operations.history)
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            answer = await self._server.call(replace(request, query={"limit": size, **where}))
            infos = answer.members("checkpoints", wire.decode_checkpoint_info)
            for info in infos:
                yield info
            if "next" not in answer.tree:
                return
            where = {"cursor": answer.tree["next"]}
            left = None if left is None else left - len(infos)

    async def diff(self, thread_id: str, a: str, b: str) -> Diff:
        """Compare two checkpoints: what changed from *a* to *b*, by JSON pointer.

        Raises:
            NotFound: one of them is not there.
        """
        query = {"a": check_name(a, "a"), "b": check_name(b, "b")}
        return (await self._send_own(operations.diff(thread_id, query=query))).read(
            wire.decode_diff
        )

    async def fork(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        new_thread_id: str | None = None,
    ) -> str:
        """Copy a thread up to a checkpoint (the newest without an id) into a new thread.

        Returns the id of the new thread.

        Raises:
            NotFound: the checkpoint is not there.
            Conflict: the new thread holds something in a namespace that is copied.
        """
        body = {"checkpoint_id": checkpoint_id, "new_thread_id": new_thread_id}
        answer = await self._send_own(operations.fork(thread_id, body=body))
        return answer.value("thread_id", str)

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Copy a thread with all its logs; checkpoint ids and order stay. ``False`` if it is empty.

        Raises:
            Conflict: the target holds something in a namespace that is copied; nothing was changed.
        """
        body = {"dest_thread_id": check_thread_id(dest_thread_id)}
        answer = await self._send_own(operations.copy_thread(source_thread_id, body=body))
        return answer.value("copied", bool)

    async def list_threads(
        self, limit: int = 100, pattern: str = "*", *, offset: int = 0
    ) -> list[str]:
        """Return the ids of threads with a checkpoint, most recently saved first.

        *pattern* is a glob over the whole id; the first *offset* of them are left out.
        """
        query = {"limit": check_limit(limit), "pattern": pattern}
        if check_limit(offset, "offset"):
            query["offset"] = offset
        answer = await self._send_own(operations.list_threads(query=query))
        return answer.members("threads", str)

    async def count_threads(self, pattern: str = "*") -> int:
        """Count the threads with a checkpoint whose ids match the glob."""
        return await self._request_count(operations.count_threads(body={"pattern": pattern}))

    async def list_logs(
        self,
        thread_id: str | None = None,
        *,
        limit: int = 100,
        pattern: str = "*",
        below: bool = False,
    ) -> list[LogInfo]:
        """Describe at most *limit* logs, each a thread in one namespace, last written first.

        As `memalchemy.Checkpointer.list_logs`: with *below* also the logs of frameworks,
        conversations and entries.
        """
        query = {
            "thread_id": None if thread_id is None else check_thread_id(thread_id),
            "pattern": pattern,
            "below": check_flag(below, "below"),
        }
        most = check_limit(limit)
        request = operations.list_all_logs(query=query)
        await self._server.require(request.operation, "list_logs")
        return await self._server.all_pages(request, "logs", wire.decode_log_info, most)

    async def namespaces(self, thread_id: str) -> list[tuple[str, ...]]:
        """Return the namespaces in which the thread has a checkpoint."""
        request = operations.list_namespaces(thread_id)
        await self._server.require(request.operation, "namespaces")
        return await self._server.all_pages(request, "namespaces", tuple, None)

    async def set_thread_metadata(self, thread_id: str, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata of the thread itself as a whole; `list_logs` returns it.

        Raises:
            NotFound: the thread is not there.
        """
        body = {"metadata": check_metadata(metadata)}
        await self._send_own(operations.set_thread_metadata(thread_id, body=body))

    async def list_with_metadata(self, limit: int = 100) -> list[CheckpointRecord]:
        """Describe the newest checkpoints over all threads as `get_metadata` does, newest first."""
        query = {"limit": check_limit(limit)}
        return await self._request_infos(operations.list_with_metadata(query=query))

    async def search(
        self, query: str, limit: int = 10, *, match: Match = "any", data: bool = False
    ) -> list[CheckpointHit]:
        """Find checkpoints whose step added words of *query*, ``any`` or ``all``, best first.

        Each has a score and a snippet; with *data*, its state too, under ``data``.
        """
        body = {"query": query, "limit": check_limit(limit), "data": data} | words_to_match(match)
        return await self._request_infos(operations.search(body=body))

    async def search_data(
        self, path: str, value: Any, limit: int = 100, *, among: int | None = 1000
    ) -> list[CheckpointWithData]:
        """Find threads whose newest state has *value* under *path*, most recently saved first.

        As `memalchemy.Checkpointer.search_data`: it looks at the *among* threads saved last, and
        each that is found has its state under ``data``.
        """
        body = {
            "path": path,
            "value": wire.encode_searched_value(path, value),
            "among": None if among is None else check_limit(among, "among"),
            "limit": check_limit(limit),
        }
        return await self._request_infos(operations.search_data(body=body))

    async def query_by_metadata(
        self, key: str, value: Any, limit: int = 100, *, data: bool = False
    ) -> list[CheckpointMatch]:
        """Find checkpoints whose metadata has *value* under *key*, newest first.

        Each is described as by `get_metadata`; with *data*, its state is under ``data``.
        """
        ((key, value),) = check_metadata({key: value}).items()
        body = {"key": key, "value": value, "limit": check_limit(limit), "data": data}
        return await self._request_infos(operations.query_by_metadata(body=body))

    async def get_storage_stats(self, thread_id: str) -> StorageStats:
        """Measure what a thread takes, as `memalchemy.Checkpointer.get_storage_stats`."""
        answer = await self._send_own(operations.get_storage_stats(thread_id))
        stats: StorageStats = answer.read(dict)  # type: ignore[assignment]
        return stats

    async def prune(
        self,
        thread_id: str | None = None,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: Seconds | None = None,
        all_namespaces: bool = False,
        dry_run: bool = False,
    ) -> int:
        """Delete checkpoints that no given rule keeps (see `Retention`); return their number."""
        if thread_id is not None:
            check_thread_id(thread_id)
        body = {
            "thread_id": thread_id,
            "keep_last": keep_last,
            "keep_every": keep_every,
            "older_than": lifetime_seconds(older_than),
            "all_namespaces": all_namespaces,
            "dry_run": dry_run,
        }
        return await self._request_count(operations.prune(body=body))

    async def vacuum(
        self,
        older_than_days: float | None = 30,
        *,
        all_namespaces: bool = False,
        dry_run: bool = False,
    ) -> int:
        """Remove expired threads, and those that were not saved for *older_than_days*.

        With ``None`` only expired ones. Returns the number of removed checkpoints and entries.
        """
        body = {
            "older_than_days": older_than_days,
            "all_namespaces": all_namespaces,
            "dry_run": dry_run,
        }
        return await self._request_count(operations.vacuum(body=body))

    async def rewrite(self, thread_id: str) -> int:
        """Encode a thread anew, so that nothing of deleted states is left in it."""
        return await self._request_count(operations.rewrite(thread_id))

    async def forget(
        self, *, thread_id: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> int:
        """Erase a thread, or every thread and item with *metadata*; return how much went."""
        checked = None if metadata is None else check_metadata(metadata)
        body = {"thread_id": thread_id, "metadata": checked}
        return await self._request_count(operations.forget(body=body))

    async def _send_own(self, request: OperationRequest) -> ReceivedJSON:
        """Send a request of an operation that a server of somebody else's lacks."""
        await self._server.require(request.operation)
        return await self._server.call(request)

    async def _request_count(self, request: OperationRequest) -> int:
        return (await self._send_own(request)).value("count", int)

    async def _request_infos(self, request: OperationRequest) -> list[Any]:
        return (await self._send_own(request)).members("checkpoints", wire.decode_info)


def _checkpoint_ids(tree: Any, url: str) -> list[str]:
    """Return checkpoint ids from any of the forms in which servers list them."""
    found = tree.get("checkpoints", tree.get("data")) if isinstance(tree, dict) else tree
    if isinstance(found, list):
        ids = [one.get("checkpoint_id") if isinstance(one, dict) else one for one in found]
        texts = [one for one in ids if isinstance(one, str)]
        if len(texts) == len(ids):
            return texts
    raise malformed(url, "a list of checkpoints")
