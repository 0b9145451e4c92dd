"""Reading a log of entries: its end, a range, what is new, how many; and finding by words."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Executable

from memalchemy.codec import text
from memalchemy.codec.sealing import Keyring
from memalchemy.contracts import (
    Entry,
    EntryHit,
    LogReading,
    check_limit,
    check_position,
    check_query,
    check_time,
)
from memalchemy.database import Database, HostConnection, Then, check_database, off_loop
from memalchemy.dialects.lists import lists
from memalchemy.events import Event, operation
from memalchemy.keys import (
    check_list,
    check_namespace,
    check_thread_id,
    encode_id,
    encode_namespace,
)
from memalchemy.log import Log, entries, listing
from memalchemy.search.entries import find_entries
from memalchemy.search.relevance import Scored
from memalchemy.statements import Answer, Program
from memalchemy.threads import coding

_ALWAYS = (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))

Made = TypeVar("Made")

_VERSION, _EPOCH, _SEQ, _CODEC, _CHECKSUM, _PAYLOAD = range(6)
"""What `entries.read_news` begins with: its rows are not given names."""


class Reading:
    """The reading half of `ThreadLog`: one namespace of one tenant of a database."""

    def __init__(self, db: Database, namespace: Iterable[str]) -> None:
        self.db = check_database(db, self)
        self.namespace = check_namespace(namespace)
        self._path = encode_namespace(self.namespace)

    async def tail(
        self,
        thread_id: str,
        limit: int = 100,
        *,
        before: int | None = None,
        connection: HostConnection | None = None,
    ) -> list[Entry]:
        """The newest *limit* entries, the oldest of them first; those below position *before*.

        Raises:
            Corrupt: what is stored does not match its checksum. From every reading method.
        """
        found = await self._entries(thread_id, "last", None, before, None, None, limit, connection)
        return found[::-1]

    async def range(
        self,
        thread_id: str,
        *,
        after: int | None = None,
        before: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        connection: HostConnection | None = None,
    ) -> list[Entry]:
        """Entries in order: the first *limit* of those that every given bound lets through.

        Positions beyond *after* and below *before*; occurred at *since* or later, and earlier than
        *until*. Positions are looked up, times are compared entry by entry.
        """
        return await self._entries(
            thread_id, "first", after, before, since, until, limit, connection
        )

    async def iter_entries(
        self,
        thread_id: str,
        *,
        after: int = 0,
        newest_first: bool = False,
        page_size: int = 100,
        connection: HostConnection | None = None,
    ) -> AsyncGenerator[Entry]:
        """Yield the entries beyond position *after*, in order, or with *newest_first* backwards.

        Each page of *page_size* entries is a query of its own.
        """
        size = check_limit(page_size, "page_size")
        if not size:
            raise ValueError("page_size must be at least 1")
        first, before = after, None
        while True:
            if newest_first:
                page = await self.tail(thread_id, size, before=before, connection=connection)
                page = [entry for entry in reversed(page) if entry.position > after]
            else:
                page = await self.range(thread_id, after=first, limit=size, connection=connection)
            for entry in page:
                yield entry
            if len(page) < size:
                return
            first = before = page[-1].position

    async def read(
        self,
        thread_id: str,
        seen: LogReading | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> LogReading:
        """All entries; after an earlier reading *seen*, only what is new since, if that will do.

        It will while nothing was removed or edited. Otherwise ``complete`` is set, and the entries
        are all that there are, in place of those that were read before. One round trip.
        """
        make = partial(coding.entries, thread_id, self.db.keyring)
        reading, found = await self._news(thread_id, seen, make, True, connection)
        return replace(reading, entries=found)

    async def scan(
        self,
        thread_id: str,
        make: Callable[[int, Any, int], Made],
        seen: LogReading | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> tuple[LogReading, list[Made]]:
        """`read`, for those who need neither keys nor times: some times as fast.

        *make* is called with each position, value and checksum, maybe in another thread; what it
        returned is given beside the reading, which has no entries.
        """

        def made(
            positions: Sequence[int], values: Sequence[Any], marks: Sequence[int]
        ) -> list[Made]:
            return list(map(make, positions, values, marks))

        return await scan_at_once(self, thread_id, made, seen, connection)

    async def count(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """How many entries the log has. They are counted: this takes longer as there are more."""
        rows = await self._rows(entries.count_entries, thread_id, connection)
        return int(rows[0][0])

    async def version(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """The log's version, which every write moves; 0 if it is not there."""
        rows = await self._rows(entries.read_version, thread_id, connection)
        return int(rows[0].version) if rows else 0

    async def list_threads(
        self, limit: int = 100, pattern: str = "*", *, connection: HostConnection | None = None
    ) -> list[str]:
        """The ids of threads with an entry, most recently written first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``.
        """
        found = listing.ThreadIds(self.db, self._path, "entries", pattern)
        return await found.first(check_limit(limit), connection)

    async def last_written(
        self, thread_ids: Sequence[str], *, connection: HostConnection | None = None
    ) -> dict[str, datetime]:
        """When each of these threads was last written, of those that have an entry."""
        d = self.db.dialect
        found: dict[str, datetime] = {}
        given = check_list(thread_ids, "thread_ids")
        ids = [(encode_id(check_thread_id(thread_id)),) for thread_id in given]
        binds = {"k_tenant": self.db.tenant, "k_namespace": self._path, "p_now": datetime.now(UTC)}
        with operation("thread.read", tenant=self.db.tenant) as event:
            for some in lists(d, ids):
                values = binds | {"p_thread_ids": some}
                rows = await self._ask(listing.list_named(d), values, connection, event)
                found |= {row.thread_id: row.updated_at for row in rows}
        return found

    async def count_threads(
        self, pattern: str = "*", *, connection: HostConnection | None = None
    ) -> int:
        """How many threads with an entry there are, whose ids match the glob."""
        return await listing.ThreadIds(self.db, self._path, "entries", pattern).count(connection)

    async def list_older(
        self, cutoff: datetime, *, after: str | None = None, limit: int = 100
    ) -> list[str]:
        """The ids of threads with an entry that occurred before *cutoff*, in the order of ids.

        A page of *limit*, beyond the id *after*.
        """
        binds: dict[str, Any] = {"k_tenant": self.db.tenant, "k_namespace": self._path}
        binds |= {
            "p_cutoff": check_time(cutoff, "cutoff"),
            "p_now": datetime.now(UTC),
            "p_limit": check_limit(limit),
        }
        if after is not None:
            binds["p_thread_id"] = check_thread_id(after)
        statement = listing.list_old(self.db.dialect, after=after is not None)
        with operation("thread.read", tenant=self.db.tenant) as event:
            rows = await self._ask(statement, binds, None, event)
        return [row.thread_id for row in rows]

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        thread_id: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[EntryHit]:
        """Entries that hold words of *query*, best first; of one thread, or of all.

        Accents and case do not matter, Chinese, Japanese and Korean words are found, and nothing in
        *query* is an operator. A query without words finds nothing.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words.
        """
        limit = check_limit(limit)
        self.db.keyring.check_reveals("text", "a search")
        terms = text.query_terms(check_query(query))
        if not terms or not limit:
            return []
        d = self.db.dialect
        binds: dict[str, Any] = {
            "terms": d.text_terms(terms),
            "k_tenant": self.db.tenant,
            "k_namespace": self._path,
            "p_terms": len(terms),
            "p_now": datetime.now(UTC),
        }
        if thread_id is not None:
            binds["k_thread_id"] = check_thread_id(thread_id)
        scope = "namespace" if thread_id is None else "log"
        with operation("thread.search", tenant=self.db.tenant, thread_id=thread_id) as event:
            found = await self.db.read(
                lambda: find_entries(d, terms, binds, scope, limit),
                connection=connection,
                event=event,
            )
            hits = partial(_hits, found, terms, self.db.keyring)
            return await off_loop(coding.weight(row for _, row in found), hits)

    async def _news(
        self,
        thread_id: str,
        seen: LogReading | None,
        make: Callable[[Sequence[Any]], Made],
        whole: bool,
        connection: HostConnection | None,
    ) -> tuple[LogReading, Made]:
        if seen is not None and not isinstance(seen, LogReading):
            raise TypeError(f"seen is an earlier LogReading, not {type(seen).__name__}")
        binds = self._log(thread_id).binds() | {
            "p_now": datetime.now(UTC),
            "p_epoch": -1 if seen is None else seen.epoch,
            "p_after": -1 if seen is None else seen.position,
        }

        def program() -> Program[Answer]:
            news = entries.read_news(self.db.dialect, whole=whole)
            rows = yield news, binds
            if seen is not None and _is_other(seen, rows):
                rows = yield news, binds | {"p_epoch": -1, "p_after": -1}
            return rows

        with operation("thread.read", **self._about(thread_id)) as event:
            reading, found = await self.db.read_then(
                program,
                Then(partial(_reading, seen, make), _weight),
                connection=connection,
                event=event,
            )
            event.cache_hit = seen is not None and not reading.complete
            return reading, found

    async def _entries(
        self,
        thread_id: str,
        end: str,
        after: int | None,
        before: int | None,
        since: datetime | None,
        until: datetime | None,
        limit: int | None,
        connection: HostConnection | None,
    ) -> list[Entry]:
        for name, moment in (("since", since), ("until", until)):
            if moment is not None and not isinstance(moment, datetime):
                raise TypeError(f"{name} is an aware datetime, not {type(moment).__name__}")
        timed = since is not None or until is not None
        binds = self._log(thread_id).binds() | {
            "p_now": datetime.now(UTC),
            "p_after": -1 if after is None else check_position(after, "after"),
            "p_before": entries.EVERYTHING if before is None else check_position(before, "before"),
            "p_limit": check_limit(2**31 - 1 if limit is None else limit),
        }
        if timed:
            binds["p_since"] = _ALWAYS[0] if since is None else check_time(since, "since")
            binds["p_until"] = _ALWAYS[1] if until is None else check_time(until, "until")
        statement = entries.read_entries(self.db.dialect, end=end, timed=timed)

        def program() -> Program[Answer]:
            return (yield statement, binds)

        with operation("thread.read", **self._about(thread_id)) as event:
            return await self.db.read_then(
                program,
                Then(partial(coding.entries, thread_id, self.db.keyring), coding.weight),
                connection=connection,
                event=event,
            )

    def _log(self, thread_id: str) -> Log:
        return Log(self.db.tenant, check_thread_id(thread_id), self._path)

    def _about(self, thread_id: str) -> dict[str, Any]:
        details: dict[str, object] = {"namespace": "/".join(self.namespace)}
        return {"tenant": self.db.tenant, "thread_id": thread_id, "details": details}

    async def _rows(self, family: Any, thread_id: str, connection: HostConnection | None) -> Answer:
        binds = self._log(thread_id).binds() | {"p_now": datetime.now(UTC)}
        with operation("thread.read", **self._about(thread_id)) as event:
            return await self._ask(family(self.db.dialect), binds, connection, event)

    async def _ask(
        self,
        statement: Executable,
        binds: Mapping[str, Any],
        connection: HostConnection | None,
        event: Event,
    ) -> Answer:
        def program() -> Program[Answer]:
            return (yield statement, binds)

        return await self.db.read(program, connection=connection, event=event)


async def scan_at_once(
    log: Reading,
    thread_id: str,
    make: Callable[[Sequence[int], Sequence[Any], Sequence[int]], Made],
    seen: LogReading | None,
    connection: HostConnection | None,
) -> tuple[LogReading, Made]:
    """`Reading.scan` for a *make* that is called once, with all positions, values and checksums."""
    keyring = log.db.keyring

    def made(rows: Sequence[Any]) -> Made:
        seqs, codecs, checksums, payloads = (
            [row[at] for row in rows] for at in (_SEQ, _CODEC, _CHECKSUM, _PAYLOAD)
        )
        return make(
            seqs, coding.values(thread_id, keyring, seqs, codecs, checksums, payloads), checksums
        )

    return await log._news(thread_id, seen, made, False, connection)


def _hits(found: Sequence[Scored], terms: list[list[str]], keyring: Keyring) -> list[EntryHit]:
    return [coding.hit(row, score, terms, keyring) for score, row in found]


def _reading(
    seen: LogReading | None, make: Callable[[Sequence[Any]], Made], rows: Answer
) -> tuple[LogReading, Made]:
    if not rows:
        return LogReading([], 0, -1, -1, seen is None or seen.version != 0), make(())
    version, epoch, last = rows[0][_VERSION], rows[0][_EPOCH], rows[-1]
    complete = seen is None or seen.epoch != epoch or _is_other(seen, rows)
    if last[_SEQ] is None:
        return LogReading([], version, epoch, -1, complete), make(())
    known = 1 if seen is not None and not complete and seen.position >= 0 else 0
    found = make(rows[known:] if known else rows)
    return LogReading([], version, epoch, last[_SEQ], complete, last[_CHECKSUM]), found


def _is_other(seen: LogReading, rows: Answer) -> bool:
    """Whether a log of the same epoch is not the one that was read.

    The epoch stays where a standby that lagged has taken over, or an older copy was restored. What
    was read last may be among what was lost.
    """
    if not rows or rows[0][_EPOCH] != seen.epoch or seen.position < 0:
        return False
    return (rows[0][_SEQ], rows[0][_CHECKSUM]) != (seen.position, seen.mark)


def _weight(rows: Answer) -> int:
    return sum([len(row[_PAYLOAD] or b"") for row in rows])
