"""`HTTPThreadLog`: the log of threads, kept by a server over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

from memalchemy.codec.values import jsonable
from memalchemy.contracts import UNSET, Entry, EntryHit, Seconds, Unset, check_limit, to_timedelta
from memalchemy.events import operation
from memalchemy.http import wire
from memalchemy.http._offload import offload
from memalchemy.http.client._client import RemoteClient, namespace_path
from memalchemy.http.client._remote import RemoteServer
from memalchemy.keys import check_entry_key, check_namespace, check_thread_id


class HTTPThreadLog(RemoteClient):
    """Ordered log of a thread's entries on ``memalchemy serve``, as `memalchemy.ThreadLog` is.

    Writes are repeated if their answers are lost, and done once. Outages are exceptions, as of
    `HTTPCheckpointer`, whose arguments these are.

    Args:
        namespace: keeps several uses of one thread id apart.
    """

    _server: RemoteServer

    namespace: tuple[str, ...]

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
        namespace: Iterable[str] = ("log",),
    ) -> None:
        super().__init__(base_url, headers, auth, timeout, token=token)
        self.namespace = check_namespace(namespace)
        self._path = "/logs/" + namespace_path(self.namespace)

    async def append(
        self,
        thread_id: str,
        entries: Any,
        *,
        keys: Sequence[str | None] | str | None = None,
        new_keys: bool = False,
        expected_version: int | Unset = UNSET,
        occurred_at: datetime | Sequence[datetime] | None = None,
        ttl: Seconds | None = None,
    ) -> list[int]:
        """Append one entry, or a list of them, all or none; return their positions.

        The arguments are those of `memalchemy.ThreadLog.append`.

        Raises:
            NotSerialisable, TooLarge: one of them cannot be stored; nothing was written.
            Conflict: the log is not at *expected_version*, or has one of the *new_keys*.
            ValueError: there is not a key, or a time, for each entry.
        """
        given = list(entries) if isinstance(entries, list) else [entries]
        names = for_each(keys, len(given), "keys", str)
        for key in names:
            if key is not None:
                check_entry_key(key)
        times = for_each(occurred_at, len(given), "occurred_at", datetime)
        trees = await offload(given, lambda: [jsonable(value) for value in given])
        body = {
            "entries": [
                {"value": tree, "key": key, "occurred_at": None if at is None else at.isoformat()}
                for tree, key, at in zip(trees, names, times, strict=True)
            ],
            "new_keys": new_keys,
            "expected_version": None if expected_version is UNSET else expected_version,
            "ttl": None if ttl is None else to_timedelta(ttl).total_seconds(),
        }
        path = f"{self._log_path(thread_id)}/entries"
        with operation("thread.append", thread_id=thread_id):
            tree = await self._server.change("POST", path, body)
        return self._server.decode(lambda found: list(found["positions"]), tree, writes=True)

    async def edit(
        self,
        thread_id: str,
        position: int,
        value: Any,
        *,
        expected_version: int | Unset = UNSET,
    ) -> bool:
        """Change the value of the entry at *position*; return whether it existed."""
        body = {
            "value": jsonable(value),
            "expected_version": None if expected_version is UNSET else expected_version,
        }
        path = f"{self._log_path(thread_id)}/entries/{int(position)}"
        return await self._server.change("PUT", path, body) is not None

    async def remove(
        self, thread_id: str, position: int, *, expected_version: int | Unset = UNSET
    ) -> bool:
        """Remove the entry at *position*; return whether it existed."""
        path = f"{self._log_path(thread_id)}/entries/{int(position)}"
        query = {"expected_version": None if expected_version is UNSET else expected_version}
        return await self._server.change("DELETE", path, query=query) is not None

    async def clear(self, thread_id: str, *, expected_version: int | Unset = UNSET) -> int:
        """Remove all entries; return their number. The log itself stays, and its versions go on."""
        query = {"expected_version": None if expected_version is UNSET else expected_version}
        path = f"{self._log_path(thread_id)}/entries"
        tree = await self._server.change("DELETE", path, query=query)
        return self._server.decode(lambda found: int(found["count"]), tree, writes=True)

    async def delete(self, thread_id: str) -> bool:
        """Delete this log of the thread; return whether it existed. Its other logs stay."""
        return await self._server.change("DELETE", self._log_path(thread_id)) is not None

    async def tail(self, thread_id: str, limit: int = 100) -> list[Entry]:
        """Return the newest *limit* entries, the oldest of them first."""
        query = {"newest_first": "true"}
        return (await self._entries(thread_id, query, check_limit(limit)))[::-1]

    async def range(
        self, thread_id: str, *, after: int | None = None, limit: int | None = None
    ) -> list[Entry]:
        """Return entries in order, those beyond position *after*, at most *limit*."""
        return await self._entries(thread_id, {"after": after}, limit)

    async def iter_entries(self, thread_id: str, *, after: int = 0) -> AsyncGenerator[Entry]:
        """Yield the entries beyond position *after*, in order, in pages of 500."""
        path = f"{self._log_path(thread_id)}/entries"
        pages = self._server.pages(path, "entries", {"after": after}, None)
        async with aclosing(pages):
            async for some in pages:
                for one in some:
                    yield self._server.decode(wire.decode_entry, one)

    async def count(self, thread_id: str) -> int:
        """Count the entries of the log."""
        tree = await self._server.read("GET", f"{self._log_path(thread_id)}/count")
        return self._server.decode(lambda found: int(found["count"]), tree)

    async def version(self, thread_id: str) -> int:
        """Return the log's version, which every write moves; 0 if the log does not exist."""
        tree = await self._server.read("GET", self._log_path(thread_id))
        return self._server.decode(lambda found: int(found["version"]), tree)

    async def list_threads(self, limit: int = 100, pattern: str = "*") -> list[str]:
        """Return the ids of threads with an entry, most recently written first."""
        query = {"pattern": pattern}
        return await self._server.all_pages(self._path, "threads", query, check_limit(limit))

    async def search(
        self, query: str, limit: int = 10, *, thread_id: str | None = None
    ) -> list[EntryHit]:
        """Return entries that hold words of *query*, best first; of one thread, or of all."""
        body = {"query": query, "limit": check_limit(limit), "thread_id": thread_id}
        tree = await self._server.read("POST", f"{self._path}/search", body=body)
        hits: Any = self._server.decode_list(wire.decode_entry, tree, "entries")
        found: list[EntryHit] = hits
        return found

    def _log_path(self, thread_id: str) -> str:
        return f"{self._path}/{wire.quote_id(check_thread_id(thread_id))}"

    async def _entries(
        self, thread_id: str, query: Mapping[str, Any], limit: int | None
    ) -> list[Entry]:
        path = f"{self._log_path(thread_id)}/entries"
        trees = await self._server.all_pages(path, "entries", query, limit)
        return [self._server.decode(wire.decode_entry, tree) for tree in trees]


def for_each(given: Any, number: int, name: str, kind: type) -> list[Any]:
    """Return what was given for each of several things: one for all or one for each.

    Raises:
        ValueError: there are more or fewer.
    """
    if given is None:
        return [None] * number
    if isinstance(given, kind):
        if kind is str and number != 1:
            raise ValueError(f"{name}= has 1 for {number}; give one for each")
        return [given] * number
    found = list(given)
    if len(found) != number:
        raise ValueError(f"{name}= has {len(found)} for {number}; give one for each")
    return found
