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
    Match,
    Seconds,
    Unset,
    check_limit,
    check_time,
)
from memalchemy.events import operation
from memalchemy.http import operations, wire
from memalchemy.http._offload import offload
from memalchemy.http.client._client import (
    RemoteClient,
    lifetime_seconds,
    log_bound,
    log_position,
    log_version,
    words_to_match,
)
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
        body = await _body_of_entries(entries, keys, expected_version, occurred_at, ttl)
        body["new_keys"] = new_keys
        request = operations.log_append(self.namespace, thread_id, body=body)
        with operation("thread.append", thread_id=thread_id):
            answer = await self._server.call(request)
        return answer.value("positions", list)

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
        body = await _body_of_entries(entries, keys, expected_version, occurred_at, ttl)
        body["after"] = log_position(after, "after")
        request = operations.log_replace_suffix(self.namespace, thread_id, body=body)
        with operation("thread.replace", thread_id=thread_id):
            answer = await self._server.call(request)
        return answer.value("positions", list)

    async def pop(self, thread_id: str, *, expected_version: int | Unset = UNSET) -> Entry | None:
        """Remove the newest entry and return it; ``None`` if there is none.

        Of several that pop at once, no two are given the same entry.
        """
        body = {"expected_version": log_version(expected_version)}
        with operation("thread.pop", thread_id=thread_id):
            request = operations.log_pop(self.namespace, thread_id, body=body)
            answer = await self._server.call(request)
        return answer.value("entry", lambda one: None if one is None else wire.decode_entry(one))

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
            "expected_version": log_version(expected_version),
        }
        at = log_position(position, "position")
        request = operations.log_edit(self.namespace, thread_id, at, body=body)
        return await self._server.find(request) is not None

    async def remove(
        self,
        thread_id: str,
        positions: Iterable[int],
        *,
        expected_version: int | Unset = UNSET,
    ) -> int:
        """Remove the entries at *positions*, in one transaction; return the number that existed."""
        body = {
            "positions": [
                log_position(one, "position") for one in check_list(positions, "positions")
            ],
            "expected_version": log_version(expected_version),
        }
        request = operations.log_remove(self.namespace, thread_id, body=body)
        with operation("thread.remove", thread_id=thread_id):
            return await self._server.count(request)

    async def clear(self, thread_id: str, *, expected_version: int | Unset = UNSET) -> int:
        """Remove all entries; return their number. The log itself stays, and its versions go on."""
        query = {"expected_version": log_version(expected_version)}
        request = operations.log_clear(self.namespace, thread_id, query=query)
        return await self._server.count(request)

    async def delete(self, thread_id: str) -> bool:
        """Delete this log of the thread; return whether it existed. Its other logs stay."""
        request = operations.log_delete(self.namespace, thread_id)
        return await self._server.find(request) is not None

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
            "position": None if position is None else log_position(position, "position"),
            "new_thread_id": new_thread_id,
            "namespace": None if namespace is None else list(check_namespace(namespace)),
        }
        with operation("thread.fork", thread_id=thread_id):
            request = operations.log_fork(self.namespace, thread_id, body=body)
            answer = await self._server.call(request)
        return answer.value("thread_id", str)

    async def tail(
        self, thread_id: str, limit: int = 100, *, before: int | None = None
    ) -> list[Entry]:
        """Return the newest *limit* entries, the oldest first; those below position *before*."""
        query = {"newest_first": True, "before": log_bound(before, "before")}
        return (await self._request_entries(thread_id, query, check_limit(limit)))[::-1]

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
        bounds = {"after": log_bound(after, "after"), "before": log_bound(before, "before")}
        query: dict[str, Any] = bounds | {
            name: check_time(time, name).isoformat()
            for name, time in times.items()
            if time is not None
        }
        return await self._request_entries(thread_id, query, limit)

    async def iter_entries(
        self, thread_id: str, *, after: int = 0, newest_first: bool = False
    ) -> AsyncGenerator[Entry]:
        """Yield the entries beyond position *after*, in order, or with *newest_first* backwards.

        They are read in pages of 500.
        """
        first = log_position(after, "after")
        query: dict[str, Any] = {"newest_first": True} if newest_first else {"after": first}
        request = operations.log_entries(self.namespace, thread_id, query=query)
        pages = self._server.pages(request, "entries", wire.decode_entry, None)
        async with aclosing(pages):
            async for some in pages:
                for entry in some:
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
        answer = await self._server.call(operations.log_find(self.namespace, body=body))
        return dict(
            answer.members("entries", lambda one: (str(one["thread_id"]), wire.decode_entry(one)))
        )

    async def read_threads(
        self, thread_ids: Sequence[str], *, newest: bool = False
    ) -> dict[str, list[Entry]]:
        """Return all entries of each of these threads that has any, in the order of *thread_ids*.

        With *newest* only the newest entry of each.
        """
        body = {"thread_ids": _check_thread_ids(thread_ids), "newest": newest}
        answer = await self._server.call(operations.log_read_threads(self.namespace, body=body))
        return dict(
            answer.members(
                "threads",
                lambda one: (str(one["thread_id"]), list(map(wire.decode_entry, one["entries"]))),
            )
        )

    async def last_written(self, thread_ids: Sequence[str]) -> dict[str, datetime]:
        """Return the time of the last write of each of these threads that has an entry."""
        body = {"thread_ids": _check_thread_ids(thread_ids)}
        answer = await self._server.call(operations.log_last_written(self.namespace, body=body))
        return dict(
            answer.members(
                "threads",
                lambda one: (str(one["thread_id"]), datetime.fromisoformat(one["updated_at"])),
            )
        )

    async def count(self, thread_id: str) -> int:
        """Count the entries of the log."""
        request = operations.log_count(self.namespace, thread_id)
        return await self._server.count(request)

    async def version(self, thread_id: str) -> int:
        """Return the log's version, which every write moves; 0 if the log does not exist."""
        request = operations.log_version(self.namespace, thread_id)
        return (await self._server.call(request)).value("version", int)

    async def list_threads(self, limit: int = 100, pattern: str = "*") -> list[str]:
        """Return the ids of threads with an entry, most recently written first."""
        request = operations.list_logs(self.namespace, query={"pattern": pattern})
        return await self._server.all_pages(request, "threads", str, check_limit(limit))

    async def count_threads(self, pattern: str = "*") -> int:
        """Count the threads with an entry whose ids match the glob."""
        request = operations.log_count_threads(self.namespace, body={"pattern": pattern})
        return await self._server.count(request)

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        thread_id: str | None = None,
        match: Match = "any",
    ) -> list[EntryHit]:
        """Return entries that hold words of *query*, ``any`` or ``all``, best first.

        Of one thread, or of all.
        """
        body = {"query": query, "limit": check_limit(limit), "thread_id": thread_id}
        body |= words_to_match(match)
        answer = await self._server.call(operations.log_search(self.namespace, body=body))
        hits: Any = answer.members("entries", wire.decode_entry)
        found: list[EntryHit] = hits
        return found

    async def _request_entries(
        self, thread_id: str, query: Mapping[str, Any], limit: int | None
    ) -> list[Entry]:
        request = operations.log_entries(self.namespace, thread_id, query=query)
        return await self._server.all_pages(request, "entries", wire.decode_entry, limit)


async def _body_of_entries(
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
    values = list(entries) if isinstance(entries, list) else [entries]
    marks = keys_and_times(len(values), keys, occurred_at)
    trees = await offload(values, lambda: [jsonable(value) for value in values])
    return {
        "entries": [{"value": tree} | mark for tree, mark in zip(trees, marks, strict=True)],
        "expected_version": log_version(expected_version),
        "ttl": lifetime_seconds(ttl),
    }


def _check_thread_ids(given: Sequence[str]) -> list[str]:
    return [check_thread_id(one) for one in check_list(given, "thread_ids")]


def keys_and_times(
    number: int,
    keys: Sequence[str | None] | str | None,
    occurred_at: datetime | Sequence[datetime] | None,
) -> list[dict[str, Any]]:
    """Return the key and the time of each of a *number* of new entries, as they travel.

    Raises:
        ValueError: there is not a key, or a time, for each entry.
    """
    names = _for_each(keys, number, "keys", str)
    for key in names:
        if key is not None:
            check_entry_key(key)
    times = _for_each(occurred_at, number, "occurred_at", datetime)
    return [
        {"key": key, "occurred_at": None if at is None else at.isoformat()}
        for key, at in zip(names, times, strict=True)
    ]


def _for_each(given: Any, number: int, name: str, kind: type) -> list[Any]:
    """Return a value for each of several things, given one for all or one for each.

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
