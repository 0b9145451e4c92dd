"""`HTTPThreadLog`: the log of threads, kept by a server over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

from memalchemy.codec.values import jsonable
from memalchemy.contracts import (
    UNSET,
    Entry,
    EntryHit,
    Seconds,
    Unset,
    check_limit,
    check_time,
    to_timedelta,
)
from memalchemy.events import operation
from memalchemy.http import wire
from memalchemy.http._offload import offload
from memalchemy.http.client._client import RemoteClient, namespace_path
from memalchemy.http.client._remote import RemoteServer
from memalchemy.keys import check_entry_key, check_list, check_namespace, check_thread_id


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
        body = await _new_entries(entries, keys, expected_version, occurred_at, ttl)
        body["new_keys"] = new_keys
        path = f"{self._log_path(thread_id)}/entries"
        with operation("thread.append", thread_id=thread_id):
            tree = await self._server.change("POST", path, body)
        return self._server.decode(lambda found: list(found["positions"]), tree, writes=True)

    async def replace_suffix(
        self,
        thread_id: str,
        after: int,
        entries: Any,
        *,
        keys: Sequence[str | None] | str | None = None,
        expected_version: int | Unset = UNSET,
        occurred_at: datetime | Sequence[datetime] | None = None,
        ttl: Seconds | None = None,
    ) -> list[int]:
        """Replace all entries beyond position *after* (0: all); return the new positions.

        One transaction. Otherwise as `append`; without entries it cuts off the end.
        """
        body = await _new_entries(entries, keys, expected_version, occurred_at, ttl)
        body["after"] = int(after)
        path = f"{self._log_path(thread_id)}/entries"
        with operation("thread.replace", thread_id=thread_id):
            tree = await self._server.change("PUT", path, body)
        return self._server.decode(lambda found: list(found["positions"]), tree, writes=True)

    async def pop(self, thread_id: str, *, expected_version: int | Unset = UNSET) -> Entry | None:
        """Remove the newest entry and return it; ``None`` if there is none.

        Of several that pop at once, no two are given the same entry.
        """
        body = {"expected_version": None if expected_version is UNSET else expected_version}
        with operation("thread.pop", thread_id=thread_id):
            tree = await self._server.change("POST", f"{self._log_path(thread_id)}/pop", body)
        return self._server.decode(
            lambda found: None if found["entry"] is None else wire.decode_entry(found["entry"]),
            tree,
            writes=True,
        )

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
        self,
        thread_id: str,
        positions: Iterable[int],
        *,
        expected_version: int | Unset = UNSET,
    ) -> int:
        """Remove the entries at *positions*, in one transaction; return the number that existed."""
        body = {
            "positions": [int(one) for one in check_list(positions, "positions")],
            "expected_version": None if expected_version is UNSET else expected_version,
        }
        path = f"{self._log_path(thread_id)}/remove"
        with operation("thread.remove", thread_id=thread_id):
            return await self._server.write_and_count(path, body, once=False)

    async def clear(self, thread_id: str, *, expected_version: int | Unset = UNSET) -> int:
        """Remove all entries; return their number. The log itself stays, and its versions go on."""
        query = {"expected_version": None if expected_version is UNSET else expected_version}
        path = f"{self._log_path(thread_id)}/entries"
        tree = await self._server.change("DELETE", path, query=query)
        return self._server.decode(lambda found: int(found["count"]), tree, writes=True)

    async def delete(self, thread_id: str) -> bool:
        """Delete this log of the thread; return whether it existed. Its other logs stay."""
        return await self._server.change("DELETE", self._log_path(thread_id)) is not None

    async def fork(
        self,
        thread_id: str,
        position: int | None = None,
        *,
        new_thread_id: str | None = None,
        namespace: Iterable[str] | None = None,
    ) -> str:
        """Copy the log up to *position* (the whole log, without) into a new thread; return its id.

        Positions, keys and times are those of the original. With another *namespace* the copy goes
        there, and may be of the same thread.

        Raises:
            NotFound: there is no such entry, or none at all.
            Conflict: the new thread is not empty in that namespace.
        """
        body = {
            "position": position,
            "new_thread_id": new_thread_id,
            "namespace": None if namespace is None else list(check_namespace(namespace)),
        }
        with operation("thread.fork", thread_id=thread_id):
            tree = await self._server.write(f"{self._log_path(thread_id)}/fork", body, once=False)
        return self._server.decode(lambda found: str(found["thread_id"]), tree, writes=True)

    async def tail(
        self, thread_id: str, limit: int = 100, *, before: int | None = None
    ) -> list[Entry]:
        """Return the newest *limit* entries, the oldest first; those below position *before*."""
        query = {"newest_first": "true", "before": before}
        return (await self._entries(thread_id, query, check_limit(limit)))[::-1]

    async def range(
        self,
        thread_id: str,
        *,
        after: int | None = None,
        before: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """Return entries in order: the first *limit* that are within every given bound.

        Positions beyond *after* and below *before*; occurred at *since* or later, and earlier than
        *until*.
        """
        times = {"since": since, "until": until}
        query: dict[str, Any] = {"after": after, "before": before} | {
            name: check_time(time, name).isoformat()
            for name, time in times.items()
            if time is not None
        }
        return await self._entries(thread_id, query, limit)

    async def iter_entries(
        self, thread_id: str, *, after: int = 0, newest_first: bool = False
    ) -> AsyncGenerator[Entry]:
        """Yield the entries beyond position *after*, in order, or with *newest_first* backwards.

        They are read in pages of 500.
        """
        path = f"{self._log_path(thread_id)}/entries"
        query: dict[str, Any] = {"newest_first": "true"} if newest_first else {"after": after}
        pages = self._server.pages(path, "entries", query, None)
        async with aclosing(pages):
            async for some in pages:
                for one in some:
                    entry = self._server.decode(wire.decode_entry, one)
                    if entry.position <= after:
                        return
                    yield entry

    async def find(self, key: str, *, thread_id: str | None = None) -> dict[str, Entry]:
        """Return the entry with a key of each thread that has one, by thread, in the order of ids.

        With *thread_id* only that of this thread.
        """
        body = {
            "key": check_entry_key(key),
            "thread_id": None if thread_id is None else check_thread_id(thread_id),
        }
        tree = await self._server.read("POST", f"{self._path}/find", body=body)
        return dict(
            self._server.decode_list(
                lambda one: (str(one["thread_id"]), wire.decode_entry(one)), tree, "entries"
            )
        )

    async def read_threads(
        self, thread_ids: Sequence[str], *, newest: bool = False
    ) -> dict[str, list[Entry]]:
        """Return all entries of each of these threads that has any, in the order of *thread_ids*.

        With *newest* only the newest entry of each.
        """
        body = {"thread_ids": _thread_ids(thread_ids), "newest": newest}
        tree = await self._server.read("POST", f"{self._path}/read", body=body)
        return dict(
            self._server.decode_list(
                lambda one: (str(one["thread_id"]), list(map(wire.decode_entry, one["entries"]))),
                tree,
                "threads",
            )
        )

    async def last_written(self, thread_ids: Sequence[str]) -> dict[str, datetime]:
        """Return the time of the last write of each of these threads that has an entry."""
        body = {"thread_ids": _thread_ids(thread_ids)}
        tree = await self._server.read("POST", f"{self._path}/last-written", body=body)
        return dict(
            self._server.decode_list(
                lambda one: (str(one["thread_id"]), datetime.fromisoformat(one["updated_at"])),
                tree,
                "threads",
            )
        )

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

    async def count_threads(self, pattern: str = "*") -> int:
        """Count the threads with an entry whose ids match the glob."""
        return await self._server.read_count(f"{self._path}/count", {"pattern": pattern})

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


async def _new_entries(
    entries: Any,
    keys: Sequence[str | None] | str | None,
    expected_version: int | Unset,
    occurred_at: datetime | Sequence[datetime] | None,
    ttl: Seconds | None,
) -> dict[str, Any]:
    """Return the body of a write of one entry, or of a list of them.

    Raises:
        NotSerialisable, TooLarge: one of them cannot be stored.
        ValueError: there is not a key, or a time, for each entry.
    """
    given = list(entries) if isinstance(entries, list) else [entries]
    names = for_each(keys, len(given), "keys", str)
    for key in names:
        if key is not None:
            check_entry_key(key)
    times = for_each(occurred_at, len(given), "occurred_at", datetime)
    trees = await offload(given, lambda: [jsonable(value) for value in given])
    return {
        "entries": [
            {"value": tree, "key": key, "occurred_at": None if at is None else at.isoformat()}
            for tree, key, at in zip(trees, names, times, strict=True)
        ],
        "expected_version": None if expected_version is UNSET else expected_version,
        "ttl": None if ttl is None else to_timedelta(ttl).total_seconds(),
    }


def _thread_ids(given: Sequence[str]) -> list[str]:
    return [check_thread_id(one) for one in check_list(given, "thread_ids")]


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
