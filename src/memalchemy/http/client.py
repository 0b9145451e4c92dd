"""`HTTPCheckpointer`: the contract of a checkpointer, kept by a server over HTTP.

Works on `memalchemy serve` with everything, and on any server that has the few endpoints that a
checkpointer over HTTP needs: see docs/http.md. Knows no SQL.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Self
from uuid import uuid4

from memalchemy.codec.values import frozen, is_heavy, jsonable
from memalchemy.contracts import (
    UNSET,
    CheckpointerCapabilities,
    CheckpointInfo,
    Diff,
    Seconds,
    Unset,
    check_limit,
    to_timedelta,
)
from memalchemy.errors import Corrupt, DatabaseUnreachable, MemalchemyError, NotFound
from memalchemy.events import operation
from memalchemy.http import wire
from memalchemy.http.apart import apart
from memalchemy.http.asking import DOCUMENTED, Asking, ids_of, listed
from memalchemy.http.transport import Transport, malformed
from memalchemy.keys import check_name, check_thread_id
from memalchemy.mapping import check_state_type, from_mapping, to_mapping
from memalchemy.metadata import check_metadata

PAGE = 500


class HTTPCheckpointer(Asking):
    """Keeps an agent's states on a server, and gives any of them back.

    An outage, a timeout, half an answer and an answer that makes no sense are exceptions: ``None``
    and ``[]`` mean that the server said so. Reads are repeated for as long as *timeout* lasts;
    writes are sent once, and `DatabaseUnreachable.maybe_applied` says whether one may have
    happened. Errors are those of `memalchemy.Checkpointer`.

    Args:
        base_url: of ``memalchemy serve``, or of any server with the documented endpoints.
        headers: sent with every request.
        auth: user and password, for a server that asks for them.
        timeout: seconds that a call may take as a whole, repetitions included.
        token: a bearer token.
        state_type: what `load` builds: a pydantic model, or a class with ``from_checkpoint``;
            without it, `load` returns the stored mapping.

    Construction does no I/O; one object serves several loops and survives a fork.
    """

    deletes_single_checkpoints = True

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
        self._transport = Transport(base_url, headers, auth, timeout, token)
        self._state_type = check_state_type(state_type)

    @property
    def base_url(self) -> str:
        """The server's address, without a password."""
        return self._transport.display

    @property
    def identity(self) -> Transport:
        """What holds the connections, and can be closed when this is gone."""
        return self._transport

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """What the server can do, as far as it was asked.

        `connect` asks, and ``async with``, which enters too while the server is away; so does the
        first call that needs to know.
        """
        return (self._offer or DOCUMENTED).capabilities

    def __repr__(self) -> str:
        return f"HTTPCheckpointer({self.base_url!r})"

    async def __aenter__(self) -> Self:
        try:
            with suppress(DatabaseUnreachable):  # whoever uses it is told; it may be back by then
                await self.connect()
        except BaseException:
            await self.close()  # nobody calls __aexit__ after a failed __aenter__
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def connect(self) -> CheckpointerCapabilities:
        """Ask the server what it can do; from then on `capabilities` says so.

        Raises:
            DatabaseUnreachable, AuthenticationFailed.
        """
        return (await self._offered()).capabilities

    async def close(self) -> None:
        """Close this loop's connections. A later use opens new ones."""
        await self._transport.close()

    async def health_check(self) -> bool:
        """Whether the server answers and is well. A probe: what is wrong, other calls say."""
        try:
            reply = await self._transport.read("GET", "/health")
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
        ttl: Seconds | None = None,
    ) -> str:
        """Save *state* as the newest checkpoint of the thread; return its id.

        As `memalchemy.Checkpointer.save`. A server that is not memalchemy's takes no *parent_id*,
        *expected_parent* and *ttl*.

        Raises:
            CapabilityMissing: it was given one of them; nothing was sent.
        """
        path = _thread(thread_id) + "/checkpoints"
        checkpoint_id = check_name(checkpoint_id, "checkpoint_id") if checkpoint_id else uuid4().hex
        mapping, fallback = to_mapping(state)
        if is_heavy([mapping]):  # the caller may change it while a thread encodes it
            mapping = {key: frozen(value) for key, value in mapping.items()}
        checked = check_metadata(metadata)
        body: dict[str, Any] = {
            "checkpoint_id": checkpoint_id,
            "thread_id": thread_id,
            "created_at": datetime.now(UTC).isoformat(),
            "state": await apart(mapping, lambda: wire.tree_of_state(mapping, fallback)),
            "metadata": checked,
        }
        more: dict[str, Any] = {}
        if parent_id is not None:
            more["parent_id"] = check_name(parent_id, "parent_id")
        if expected_parent is not UNSET:
            if expected_parent is not None:
                check_name(expected_parent, "expected_parent")
            more["expected_parent"] = expected_parent
        if ttl is not None:
            more["ttl"] = to_timedelta(ttl).total_seconds()
        if more:
            await self._need("history", f"save with {', '.join(more)}")
        with operation("checkpoint.save", thread_id=thread_id, checkpoint_id=checkpoint_id):
            tree = await self._write("POST", path, body=body | more)
        given = tree.get("checkpoint_id", checkpoint_id) if isinstance(tree, dict) else None
        return given if isinstance(given, str) else checkpoint_id

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> Any:
        """The state of a checkpoint, the newest without an id; ``None`` if there is none.

        Raises:
            Corrupt: what the server holds cannot be read.
        """
        path = _thread(thread_id)
        with operation("checkpoint.load", thread_id=thread_id, checkpoint_id=checkpoint_id):
            if checkpoint_id is None and not await self._has("load_newest"):
                newest = await self.list_checkpoints(thread_id, 1)
                if not newest:
                    return None
                checkpoint_id = newest[0]
            if checkpoint_id is not None:
                path += "/checkpoints/" + _name(checkpoint_id)
            tree = await self._read("GET", path)
            if tree is None:
                return None
            if not isinstance(tree, dict) or not isinstance(tree.get("state", tree), dict):
                raise malformed(self.base_url, "a state")
            try:
                found = tree.get("state", tree)
                state = await apart(found, lambda: wire.state_of_tree(found))
            except ValueError as error:
                raise Corrupt(f"a state of thread {thread_id!r} cannot be read: {error}") from error
        return from_mapping(state, self._state_type)

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """The ids of the thread's checkpoints, newest first, at most *limit*."""
        query = {"limit": check_limit(limit)}
        tree = await self._read("GET", _thread(thread_id) + "/checkpoints", query)
        return [] if tree is None else ids_of(tree, self.base_url)[:limit]

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete a checkpoint, or without an id the whole thread; whether it was there."""
        path = _thread(thread_id) + "/checkpoints"
        if checkpoint_id is not None:
            path += "/" + _name(checkpoint_id)
        await self._offered()
        with operation("checkpoint.delete", thread_id=thread_id, checkpoint_id=checkpoint_id):
            reply = await self._transport.write("DELETE", path)
            if self._is_absent(reply):
                return False
            tree = self._tree(reply, writes=True)
        return not (isinstance(tree, dict) and tree.get("deleted") is False)

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Whether the checkpoint is there; without an id, whether the thread has any."""
        if await self._has("get_metadata"):
            return await self.get_metadata(thread_id, checkpoint_id) is not None
        if checkpoint_id is None:
            return bool(await self.list_checkpoints(thread_id, 1))
        path = f"{_thread(thread_id)}/checkpoints/{_name(checkpoint_id)}"
        return await self._read("GET", path) is not None

    async def get_metadata(
        self, thread_id: str, checkpoint_id: str | None = None
    ) -> dict[str, Any] | None:
        """What is known of a checkpoint without its state, the newest without an id."""
        path = _thread(thread_id)
        if checkpoint_id is not None:
            path += "/checkpoints/" + _name(checkpoint_id)
        await self._need("get_metadata")
        tree = await self._read("GET", path + "/metadata")
        return None if tree is None else self._made(wire.info_of_tree, tree)

    async def history(
        self, thread_id: str, *, limit: int | None = None, before: str | None = None
    ) -> AsyncIterator[CheckpointInfo]:
        """The thread's checkpoints, newest first; those older than checkpoint *before*, if given.

        In pages of 500; a checkpoint deleted meanwhile may be missing.

        Raises:
            NotFound: *before* is not there.
        """
        path, left = _thread(thread_id) + "/history", None if limit is None else check_limit(limit)
        marks = [] if before is None else [check_name(before, "before")]
        await self._need("history")
        last: CheckpointInfo | None = None
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            tree = await self._page(path, size, marks)
            infos = [self._made(wire.checkpoint_info, one) for one in listed(tree, "checkpoints")]
            for info in infos:
                if last is None or info.seq < last.seq:
                    yield info
            if len(infos) < size:
                return
            # Where the last was deleted meanwhile, the page goes on from one before it.
            marks = [info.checkpoint_id for info in reversed(infos)]
            last = infos[-1]
            left = None if left is None else left - len(infos)

    async def _page(self, path: str, size: int, marks: list[str]) -> Any:
        for number, mark in enumerate(marks):
            try:
                return await self._asked("GET", path, {"limit": size, "before": mark})
            except NotFound:
                if number == len(marks) - 1:
                    raise
        return await self._asked("GET", path, {"limit": size})

    async def diff(self, thread_id: str, a: str, b: str) -> Diff:
        """What changed from checkpoint *a* to *b*, as JSON pointers.

        Raises:
            NotFound: one of them is not there.
        """
        query = {"a": check_name(a, "a"), "b": check_name(b, "b")}
        await self._need("diff")
        tree = await self._asked("GET", _thread(thread_id) + "/diff", query)
        return self._made(wire.diff_of_tree, tree)

    async def fork(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        new_thread_id: str | None = None,
    ) -> str:
        """Copy a thread up to a checkpoint (the newest without an id) into a new thread; its id.

        Raises:
            NotFound: the checkpoint is not there.
            Conflict: the new thread holds something already.
        """
        path = _thread(thread_id) + "/fork"
        body = {"checkpoint_id": checkpoint_id, "new_thread_id": new_thread_id}
        await self._need("fork")
        tree = await self._write("POST", path, body=body)
        return self._made(lambda found: str(found["thread_id"]), tree, writes=True)

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Copy a thread with all its logs; checkpoint ids and order stay. ``False`` if it is empty.

        Raises:
            Conflict: the target holds something already; nothing was changed.
        """
        path = _thread(source_thread_id) + "/copy"
        body = {"dest_thread_id": check_thread_id(dest_thread_id)}
        await self._need("copy_thread")
        tree = await self._write("POST", path, body=body)
        return self._made(lambda found: bool(found["copied"]), tree, writes=True)

    async def list_threads(
        self, limit: int = 100, pattern: str = "*", *, offset: int = 0
    ) -> list[str]:
        """The ids of threads with a checkpoint, most recently saved first; *pattern* is a glob,
        *offset* leaves out as many of the first.
        """
        query = {"limit": check_limit(limit), "pattern": pattern}
        if check_limit(offset, "offset"):
            query["offset"] = offset
        await self._need("list_threads")
        return listed(await self._asked("GET", "/threads", query), "threads")

    async def list_with_metadata(self, limit: int = 100) -> list[dict[str, Any]]:
        """The newest checkpoints over all threads, as `get_metadata`, newest first."""
        query = {"limit": check_limit(limit)}
        await self._need("list_with_metadata")
        return self._infos(await self._asked("GET", "/checkpoints", query))

    async def search(
        self, query: str, limit: int = 10, *, data: bool = False
    ) -> list[dict[str, Any]]:
        """Checkpoints whose step added words of *query*, best first, with score and snippet; with
        *data* each has its state under ``data``.
        """
        body = {"query": query, "limit": check_limit(limit), **_with_data(data)}
        await self._need("search")
        return self._infos(await self._asked("POST", "/checkpoints/search", body=body))

    async def search_data(
        self, path: str, value: Any, limit: int = 100, *, among: int | None = 1000
    ) -> list[dict[str, Any]]:
        """Threads whose newest state has *value* under *path*, most recently saved first.

        As `memalchemy.Checkpointer.search_data`: of the *among* threads saved last, with the state
        under ``data``.
        """
        most = None if among is None else check_limit(among, "among")
        body = {"path": path, "value": jsonable(value), "among": most}
        await self._need("search_data")
        found = await self._asked(
            "POST", "/checkpoints/data", body=body | {"limit": check_limit(limit)}
        )
        return self._infos(found)

    async def query_by_metadata(
        self, key: str, value: Any, limit: int = 100, *, data: bool = False
    ) -> list[dict[str, Any]]:
        """Checkpoints whose metadata has *value* under *key*, newest first, as `get_metadata`; with
        *data* each has its state under ``data``.
        """
        ((key, value),) = check_metadata({key: value}).items()
        body = {"key": key, "value": value, "limit": check_limit(limit), **_with_data(data)}
        await self._need("query_by_metadata")
        return self._infos(await self._asked("POST", "/checkpoints/query", body=body))

    async def get_storage_stats(self, thread_id: str) -> dict[str, Any]:
        """What a thread takes, as `memalchemy.Checkpointer.get_storage_stats`."""
        path = _thread(thread_id) + "/stats"
        await self._need("get_storage_stats")
        return dict(await self._asked("GET", path))

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
        """Delete checkpoints that every given rule lets go (see `Retention`); how many."""
        if thread_id is not None:
            check_thread_id(thread_id)
        age = None if older_than is None else to_timedelta(older_than).total_seconds()
        rules = {"keep_last": keep_last, "keep_every": keep_every, "older_than": age}
        where = {"thread_id": thread_id, "all_namespaces": all_namespaces, "dry_run": dry_run}
        await self._need("prune")
        return await self._count("/prune", rules | where)

    async def vacuum(
        self,
        older_than_days: float | None = 30,
        *,
        all_namespaces: bool = False,
        dry_run: bool = False,
    ) -> int:
        """Remove threads that were not saved for so long, and expired ones; how many checkpoints.

        Without *older_than_days* (``None``) only expired ones.
        """
        where = {"all_namespaces": all_namespaces, "dry_run": dry_run}
        await self._need("vacuum")
        return await self._count("/vacuum", {"older_than_days": older_than_days, **where})

    async def rewrite(self, thread_id: str) -> int:
        """Encode a thread anew, so that nothing of deleted states is left in it."""
        path = _thread(thread_id) + "/rewrite"
        await self._need("rewrite")
        return await self._count(path, None)

    async def forget(
        self, *, thread_id: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> int:
        """Erase everything of a thread, or of every thread and item with *metadata*; how much."""
        body = {"thread_id": thread_id, "metadata": metadata}
        await self._need("forget")
        return await self._count("/forget", body)


def _with_data(data: bool) -> dict[str, Any]:
    # A server of an earlier release refuses a name that it does not know.
    return {"data": True} if data else {}


def _thread(thread_id: str) -> str:
    return "/threads/" + wire.segment(check_thread_id(thread_id))


def _name(checkpoint_id: str) -> str:
    return wire.segment(check_name(checkpoint_id, "checkpoint_id"))
