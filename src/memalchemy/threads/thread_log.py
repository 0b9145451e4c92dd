"""`ThreadLog`: the ordered log of a thread's entries, such as messages and events.

``entry_rows`` turns entries into rows and back, and ``roads`` chooses how they reach the database;
the statements and programs are those of `memalchemy.log`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Executable

from memalchemy.codec.tokens import Term
from memalchemy.contracts import (
    MAX_LIMIT,
    UNSET,
    Entry,
    EntryHit,
    LogReading,
    Match,
    Seconds,
    Unset,
    check_callable,
    check_entry_position,
    check_flag,
    check_limit,
    check_log_version,
    check_match,
    check_position,
    check_query,
    check_time,
    to_lifetime,
)
from memalchemy.database import (
    READ,
    WRITE,
    WRITE_ROWS,
    Database,
    Decode,
    HostConnection,
    check_database,
    off_loop,
)
from memalchemy.dialects import namespace_binds
from memalchemy.errors import InvalidArgument, NotFound
from memalchemy.events import Event, operation
from memalchemy.keys import (
    check_entry_key,
    check_list,
    check_namespace,
    check_thread_id,
    encode_id,
    encode_namespace,
    new_fork_id,
)
from memalchemy.log import (
    Head,
    Log,
    copy_log,
    delete_log,
    entries,
    listing,
    new_epoch,
    truncate_to_second,
)
from memalchemy.protection.signed_reads import (
    check_all_entries,
    check_entries,
    check_entries_of_logs,
    check_newest_entry,
    check_nothing_missing,
    check_sum_of_entries,
    sum_of_entries,
)
from memalchemy.search.ranking import ScoredRow
from memalchemy.search.text import find_entries, search_scope
from memalchemy.search.word_query import WordQuery
from memalchemy.statements import Answer, Program
from memalchemy.threads import entry_rows
from memalchemy.threads.roads import Append, EntryRoads

T = TypeVar("T")
Made = TypeVar("Made")

_ALWAYS = (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))

_VERSION, _EPOCH, _SEQ, _CODEC, _CHECKSUM, _PAYLOAD = range(6)
"""The first columns of `entries.read_changes`, whose rows have no names."""


class ThreadLog:
    """Ordered log of a thread's entries: any values, appended, read, edited and removed.

        log = ThreadLog(db)
        await log.append("thread-1", [{"role": "user", "content": "Hello"}])
        newest = await log.tail("thread-1", 20)

    Order is that of positions, which are allotted one after another whoever appends, never that of
    a clock. Every write is whole or absent, and costs the same however long the log is. Writes take
    ``expected_version``: the log's `version` that the caller has seen, 0 for a log that does not
    exist; if it has moved on, `Conflict` is raised and nothing is changed.

    Args:
        db: the database.
        namespace: keeps several uses of one thread id apart.
        index_text: let `search` find the words of entries.
        ttl: the lifetime of a log after its last append, in seconds or as a timedelta.

    Every method takes ``connection=``, an `AsyncConnection` or `AsyncSession` of the host: the work
    is then part of the host's transaction, sees its own writes, and is gone after a rollback.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    db: Database
    namespace: tuple[str, ...]

    def __init__(
        self,
        db: Database,
        *,
        namespace: Iterable[str] = ("log",),
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        self.db = check_database(db, self)
        self.namespace = check_namespace(namespace)
        self._path = encode_namespace(self.namespace)
        self._index_text = index_text
        self._ttl = None if ttl is None else to_lifetime(ttl)
        self._roads = EntryRoads(self.db)

    def __repr__(self) -> str:
        return f"ThreadLog({self.db!r}, namespace={self.namespace!r})"

    # --- Writing ----------------------------------------------------------------------------------

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
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Append one entry, or a list of them, all or none; return their positions.

        It is one round trip on PostgreSQL; with *keys* that is so if they are new, outside of a
        transaction of the host. If the connection is lost in the middle of it, nobody knows whether
        it happened: the error says ``maybe_applied``. With *keys* such an append is repeated,
        because it is safe to.

        Args:
            entries: a value, or a list of values; see `memalchemy.codec.values` for the values it
                may hold. A list is several entries: put one that is itself a list into a list.
            keys: for each entry a key of up to 128 characters, or ``None``. An entry whose key is
                in the log is not appended again; its position is returned.
            new_keys: raise `Conflict` if one of the keys is in the log, and append nothing.
            occurred_at: the time of all entries, or of each; now, if not given.
            ttl: in place of the log's own. The last append counts: after one without any, the log
                does not expire.

        Raises:
            NotSerialisable, TooLarge: one of them cannot be stored; nothing was written.
            Conflict: the log is not at *expected_version*, or has one of the *new_keys*.
            ThreadDeleted: a version was expected, and the thread has been deleted since.
        """
        given = list(entries) if isinstance(entries, list) else [entries]
        return await self._append(
            "thread.append",
            thread_id,
            given,
            keys=keys,
            new_keys=check_flag(new_keys, "new_keys"),
            expected=expected_version,
            occurred_at=occurred_at,
            ttl=ttl,
            connection=connection,
        )

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
        clearing: ThreadLog | None = None,
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Replace all entries beyond position *after* (0: all); return the new positions.

        One transaction. Otherwise as `append`; without entries it cuts off the end.
        Another log of the thread, *clearing*, loses its entries in the same transaction.
        """
        if clearing is not None and not isinstance(clearing, ThreadLog):
            raise TypeError(f"clearing is a ThreadLog, not {type(clearing).__name__}")
        given = list(entries) if isinstance(entries, list) else [entries]
        return await self._append(
            "thread.replace",
            thread_id,
            given,
            keys=keys,
            expected=expected_version,
            occurred_at=occurred_at,
            ttl=ttl,
            connection=connection,
            after=_position(after, "after"),
            clearing=clearing,
        )

    async def pop(
        self,
        thread_id: str,
        *,
        expected_version: int | Unset = UNSET,
        connection: HostConnection | None = None,
    ) -> Entry | None:
        """Remove the newest entry and return it; ``None`` if there is none.

        Of several that pop at once, in whatever processes, no two are given the same entry.

        Raises:
            Corrupt: the stored entry does not match its checksum; it was not removed.
        """
        log = self._log(thread_id)
        expected = check_log_version(expected_version)

        def program() -> Program[Entry | None]:
            values = self._values(log)
            row = yield from entries.pop_newest(self.db.dialect, log, values, expected)
            return None if row is None else entry_rows.to_entry(log, self.db.keyring, row)

        with operation("thread.pop", **self._about(thread_id)) as event:
            return await self.db.run(program, WRITE_ROWS, connection=connection, event=event)

    async def remove(
        self,
        thread_id: str,
        positions: Iterable[int],
        *,
        expected_version: int | Unset = UNSET,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove the entries at *positions*, in one transaction; return the number that existed.

        Raises:
            Conflict, ThreadDeleted: as `append`.
        """
        log, d = self._log(thread_id), self.db.dialect
        expected = check_log_version(expected_version)
        given = check_list(positions, "positions")
        ranges = _ranges(_position(position, "position") for position in given)
        return await self._run_write(
            "thread.remove",
            thread_id,
            lambda: entries.delete_ranges(d, log, self._values(log), ranges, expected),
            connection,
        )

    async def edit(
        self,
        thread_id: str,
        position: int,
        value: Any,
        *,
        expected_version: int | Unset = UNSET,
        connection: HostConnection | None = None,
    ) -> bool:
        """Change the value of the entry at *position*; return whether it existed.

        Its position, key and times stay.

        Raises:
            NotSerialisable, TooLarge, Conflict, ThreadDeleted: as `append`.
        """
        log, d = self._log(thread_id), self.db.dialect
        expected = check_log_version(expected_version)
        (value,), decoded_size = entry_rows.copy_if_heavy([value])
        encode = partial(entry_rows.entry_binds, value, self._indexes_text)
        row = await off_loop(decoded_size, encode)
        row["p_seq"] = _position(position, "position")
        with operation("thread.edit", **self._about(thread_id)) as event:
            event.payload_bytes = len(row["p_payload"])
            return await self.db.run(
                lambda: entries.edit_entry(d, log, self._values(log), row, expected),
                WRITE,
                connection=connection,
                event=event,
            )

    async def clear(
        self,
        thread_id: str,
        *,
        expected_version: int | Unset = UNSET,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove all entries; return their number. The log itself stays, and its versions go on."""
        log, d = self._log(thread_id), self.db.dialect
        expected = check_log_version(expected_version)
        return await self._run_write(
            "thread.clear",
            thread_id,
            lambda: entries.clear_entries(d, log, self._values(log), expected),
            connection,
        )

    async def delete(self, thread_id: str, *, connection: HostConnection | None = None) -> bool:
        """Delete this log of the thread; return whether it existed.

        The thread's other logs, its checkpoints too, stay: `Checkpointer.delete` deletes a thread
        with all its logs. For a day an append that expects a version gets `ThreadDeleted`.
        """
        log, now = self._log(thread_id), datetime.now(UTC)
        return await self._run_write(
            "thread.delete", thread_id, lambda: delete_log(self.db.dialect, log, now), connection
        )

    async def fork(
        self,
        thread_id: str,
        position: int | None = None,
        *,
        new_thread_id: str | None = None,
        namespace: Iterable[str] | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Copy the log up to *position* (the whole log, without) into a new thread; return its id.

        The id is ``THREAD-fork-xxxxxxxx`` if none is given (a long THREAD is cut off to fit).
        Positions, keys and times are those of the original; the two share nothing afterwards. With
        another *namespace* the copy goes there, and may be of the same thread.

        Raises:
            NotFound: there is no such entry, or none at all.
            Conflict: the new thread is not empty in that namespace.
            ValueError: the new log is the old one.
        """
        to_log = self if namespace is None else ThreadLog(self.db, namespace=namespace)
        target = new_thread_id
        if target is None:
            target = new_fork_id(thread_id)
        source, to, now = self._log(thread_id), to_log._log(target), datetime.now(UTC)
        if to == source:
            raise InvalidArgument("a fork needs a thread id of its own")
        at = None if position is None else _position(position, "position")
        with operation("thread.fork", **self._about(thread_id)) as event:
            event.details["to"] = target
            copied = await self.db.run(
                lambda: copy_log(
                    self.db.dialect, source, to, now, position=at, keyring=self.db.keyring
                ),
                WRITE,
                connection=connection,
                event=event,
            )
            if not copied:
                what = "any entry" if position is None else f"an entry at {position}"
                raise NotFound(f"the log of thread {thread_id!r} does not have {what}")
        return target

    # --- Reading ----------------------------------------------------------------------------------

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
            Corrupt: a stored entry does not match its checksum. From every reading method.
        """
        found, _ = await self._entries(
            thread_id, "last", None, before, None, None, limit, connection
        )
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
        """Return entries in order: the first *limit* that are within every given bound.

        Positions beyond *after* and below *before*; occurred at *since* or later, and earlier than
        *until*. Positions are looked up, times are compared entry by entry.
        """
        found, _ = await self._entries(
            thread_id, "first", after, before, since, until, limit, connection
        )
        return found

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
        end = "last" if newest_first else "first"
        first, before = after, None
        total = 0 if after <= 0 else None
        while True:
            page, total = await self._entries(
                thread_id, end, first, before, None, None, size, connection, total
            )
            for entry in page:
                yield entry
            if len(page) < size:
                return
            if newest_first:
                before = page[-1].position
            else:
                first = page[-1].position

    async def find(
        self,
        key: str,
        *,
        thread_id: str | None = None,
        connection: HostConnection | None = None,
    ) -> dict[str, Entry]:
        """Return the entry with a key of each thread that has one, by thread, in the order of ids.

        With *thread_id* only that of this thread, which is one look into the index; without, the
        index is asked for every thread of the namespace, in one query.

        Raises:
            Corrupt: a stored entry does not match its checksum.
        """
        binds: dict[str, Any] = {"p_key": check_entry_key(key), "p_now": datetime.now(UTC)}
        if thread_id is None:
            binds |= namespace_binds(self.db.tenant, self._path, below=False)
        else:
            binds |= self._log(thread_id).binds()
        scope = "namespace" if thread_id is None else "log"
        statement = entries.find_entries_of_key(self.db.dialect, scope=scope)
        with operation("thread.read", tenant=self.db.tenant, thread_id=thread_id) as event:
            check = None if thread_id is None else self._check_of(thread_id)
            rows = await self._query(statement, binds, connection, event, check)
        return {
            row.thread_id: entry_rows.to_entry(self._log(row.thread_id), self.db.keyring, row)
            for row in rows
        }

    async def read(
        self,
        thread_id: str,
        seen: LogReading | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> LogReading:
        """Return all entries; after an earlier reading *seen*, only the new ones if that suffices.

        It suffices while nothing was removed or edited. Otherwise ``complete`` is set, and the
        entries are all that there are, in place of those that were read before. One round trip.
        """
        make = partial(entry_rows.to_entries, self._log(thread_id), self.db.keyring)
        reading, found = await self._read_changes(thread_id, seen, make, True, connection)
        return replace(reading, entries=found)

    async def scan(
        self,
        thread_id: str,
        make: Callable[[int, Any, int], Made],
        seen: LogReading | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> tuple[LogReading, list[Made]]:
        """Do as `read` without keys and times, which is some times as fast.

        *make* is called with each position, value and checksum, maybe in another thread; its
        results are returned beside the reading, which has no entries.
        """

        check_callable(make, "make", "a position, a value and a checksum")

        def made(
            positions: Sequence[int], values: Sequence[Any], marks: Sequence[int]
        ) -> list[Made]:
            return list(map(make, positions, values, marks))

        return await self.read_columns(thread_id, made, seen, connection)

    async def read_threads(
        self,
        thread_ids: Sequence[str],
        *,
        newest: bool = False,
        connection: HostConnection | None = None,
    ) -> dict[str, list[Entry]]:
        """Return all entries of each of these threads that has any, in the order of *thread_ids*.

        With *newest* only the newest entry of each. One round trip for some hundred threads; all
        entries are in memory at once.
        """
        d, keyring = self.db.dialect, self.db.keyring
        check_flag(newest, "newest")
        given = check_list(thread_ids, "thread_ids")
        ids = [(encode_id(check_thread_id(thread_id)),) for thread_id in given]
        binds = {"k_tenant": self.db.tenant, "k_namespace": self._path, "p_now": datetime.now(UTC)}
        found: dict[str, list[Entry]] = {}
        read: dict[Log, list[Any]] = {self._log(thread_id): [] for thread_id in given}
        batches = list(d.statements.list_batches("p_thread_ids", ids))
        statement = entries.read_entries_of_threads(d, newest=newest)

        def program(listed: Mapping[str, Any], is_last: bool) -> Program[list[Log]]:
            rows = yield statement, {**binds, **listed}
            some = {
                self._log(thread_id): list(of_thread)
                for thread_id, of_thread in groupby(rows, key=attrgetter("thread_id"))
            }
            read.update(some)
            if is_last:
                yield from check_entries_of_logs(d, read, self.db.signing, newest=newest)
            return list(some)

        def decode(logs: list[Log]) -> None:
            for log in logs:
                found[log.thread_id] = entry_rows.to_entries(log, keyring, read[log])

        with operation("thread.read", tenant=self.db.tenant) as event:
            for number, listed in enumerate(batches, 1):
                logs = await self.db.run(
                    partial(program, listed, number == len(batches)),
                    READ,
                    connection=connection,
                    event=event,
                )
                size = sum(entry_rows.decoded_entry_size(read[log]) for log in logs)
                await off_loop(size, partial(decode, logs))
        return {thread_id: found[thread_id] for thread_id in given if thread_id in found}

    async def count(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """Count the entries of the log one by one: this takes longer as there are more."""
        check = self._check_of(thread_id)
        rows = await self._rows(entries.count_entries, thread_id, connection, check)
        return int(rows[0][0])

    async def version(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """Return the log's version, which every write moves; 0 if the log does not exist."""
        rows = await self._rows(entries.read_version, thread_id, connection)
        return int(rows[0].version) if rows else 0

    # --- Threads ----------------------------------------------------------------------------------

    async def list_threads(
        self, limit: int = 100, pattern: str = "*", *, connection: HostConnection | None = None
    ) -> list[str]:
        """Return the ids of threads with an entry, most recently written first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``.
        """
        found = listing.ThreadListing(self.db, self._path, "entries", pattern)
        return await found.first(check_limit(limit), connection)

    async def count_threads(
        self, pattern: str = "*", *, connection: HostConnection | None = None
    ) -> int:
        """Count the threads with an entry whose ids match the glob."""
        return await listing.ThreadListing(self.db, self._path, "entries", pattern).count(
            connection
        )

    async def last_written(
        self, thread_ids: Sequence[str], *, connection: HostConnection | None = None
    ) -> dict[str, datetime]:
        """Return the time of the last write of each of these threads that has an entry."""
        d = self.db.dialect
        found: dict[str, datetime] = {}
        given = check_list(thread_ids, "thread_ids")
        ids = [(encode_id(check_thread_id(thread_id)),) for thread_id in given]
        binds = {"k_tenant": self.db.tenant, "k_namespace": self._path, "p_now": datetime.now(UTC)}
        with operation("thread.read", tenant=self.db.tenant) as event:
            for some in d.statements.list_batches("p_thread_ids", ids):
                rows = await self._query(
                    listing.list_last_writes(d), binds | some, connection, event
                )
                found |= {row.thread_id: row.updated_at for row in rows}
        return found

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
        statement = listing.list_threads_older(self.db.dialect, after=after is not None)
        with operation("thread.read", tenant=self.db.tenant) as event:
            rows = await self._query(statement, binds, None, event)
        return [row.thread_id for row in rows]

    # --- Search -----------------------------------------------------------------------------------

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        thread_id: str | None = None,
        match: Match = "any",
        connection: HostConnection | None = None,
    ) -> list[EntryHit]:
        """Return entries that hold words of *query*, best first; of one thread, or of all.

        Words are compared and ranked as `Store.search` compares them. With the *match* ``all`` only
        entries that hold all words are found. A query without words finds nothing.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words.
            KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
        """
        limit = check_limit(limit)
        self.db.keyring.check_readable("text", "a search")
        first_words = self.db.has_first_words
        wanted = WordQuery.of(check_query(query), check_match(match), first_words=first_words)
        if thread_id is not None:
            thread_id = check_thread_id(thread_id)
        if not wanted or not limit:
            return []
        d = self.db.dialect
        scope, binds = search_scope(d, self.db.tenant, self._path, thread_id=thread_id)
        with operation("thread.search", tenant=self.db.tenant, thread_id=thread_id) as event:
            found = await self.db.run(
                lambda: find_entries(d, wanted, binds, scope, limit),
                READ,
                connection=connection,
                event=event,
            )
            if not found:
                await self.db.check_search(connection)
            hits = partial(self._hits, found, wanted.shown_terms())
            return await off_loop(entry_rows.decoded_entry_size(row for _, row in found), hits)

    # --- Shared by the methods above, and by what rests on a log ----------------------------------

    async def hold(self, thread_id: str, connection: HostConnection) -> Head | None:
        """Lock the log until the transaction of *connection* ends; return its head, if it has one.

        Nobody else writes to the log meanwhile, so that other data can be kept in step with it.
        """
        log, now = self._log(thread_id), datetime.now(UTC)
        program = partial(entries.lock_live_head, self.db.dialect, log, {"p_now": now}, UNSET)
        return await self.db.run(program, WRITE_ROWS, connection=connection)

    async def read_columns(
        self,
        thread_id: str,
        make: Callable[[Sequence[int], Sequence[Any], Sequence[int]], Made],
        seen: LogReading | None,
        connection: HostConnection | None,
    ) -> tuple[LogReading, Made]:
        """Do as `scan` with a *make* that is called once, with all positions and their values."""
        made = partial(self._make_columns, thread_id, make)
        return await self._read_changes(thread_id, seen, made, False, connection)

    async def read_columns_beside(
        self,
        other: ThreadLog,
        thread_id: str,
        make: Callable[[Entry | None, Sequence[int], Sequence[Any], Sequence[int]], Made],
        seen: LogReading | None,
        connection: HostConnection | None,
    ) -> tuple[LogReading, Made]:
        """Do as `read_columns`, and read the newest entry of the thread's log *other* before that.

        *make* is called with that entry, or ``None``, and the columns. With an entry, *seen* is
        ignored and all entries are read.
        """
        changes = self._changes(thread_id, whole=False)
        statement = entries.read_entries(self.db.dialect, end="last", timed=False)
        beside, d, keys = other._log(thread_id), self.db.dialect, self.db.signing
        binds = entries.all_binds(beside) | {
            "p_limit": 1,
            "p_now": datetime.now(UTC),
        }

        def program() -> Program[tuple[Answer, Answer]]:
            newest = yield statement, binds
            yield from check_newest_entry(d, beside, newest, keys)
            return newest, (yield from changes(None if newest else seen))

        def decode(found: tuple[Answer, Answer]) -> tuple[LogReading, Made]:
            newest = next(iter(entry_rows.to_entries(beside, self.db.keyring, found[0])), None)
            made = partial(self._make_columns, thread_id, partial(make, newest))
            return _reading(None if newest else seen, made, found[1])

        with operation("thread.read", **self._about(thread_id)) as event:
            reading, made = await self.db.run(
                program,
                READ,
                decode=Decode(decode, lambda found: _decoded_size(found[1])),
                connection=connection,
                event=event,
            )
            event.cache_hit = seen is not None and not reading.complete
            return reading, made

    def _make_columns(
        self,
        thread_id: str,
        make: Callable[[Sequence[int], Sequence[Any], Sequence[int]], Made],
        found: Sequence[Any],
    ) -> Made:
        log = self._log(thread_id)
        check_entries(log, found, self.db.signing)
        columns = list(zip(*found, strict=True)) or [()] * (_PAYLOAD + 1)
        _, _, seqs, codecs, checksums, payloads = columns[: _PAYLOAD + 1]
        decoded = entry_rows.decode_entry_values(
            log, self.db.keyring, seqs, codecs, checksums, payloads
        )
        return make(seqs, decoded, checksums)

    async def _append(
        self,
        name: str,
        thread_id: str,
        given: list[Any],
        *,
        keys: Sequence[str | None] | str | None = None,
        new_keys: bool = False,
        expected: int | Unset,
        occurred_at: datetime | Sequence[datetime] | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None,
        after: int | None = None,
        clearing: ThreadLog | None = None,
    ) -> list[int]:
        log, expected = self._log(thread_id), check_log_version(expected)
        life = self._ttl if ttl is None else to_lifetime(ttl)
        values = self._values(log)
        checked = entry_rows.check_entry_keys(keys, len(given))
        times = entry_rows.check_times(occurred_at, len(given), values["p_now"])
        given, decoded_size = entry_rows.copy_if_heavy(given)
        encode = partial(entry_rows.encode_entries, given, checked, times, self._indexes_text)
        rows = await off_loop(decoded_size, encode)
        values |= {
            "p_expires_at": None if life is None else values["p_now"] + life,
            "p_epoch": new_epoch(),
            "p_checkpoint_id": None,
        }
        if not rows and after is None and expected is UNSET:
            return []
        cleared = None
        if clearing is not None:
            other = clearing._log(thread_id)
            cleared = other, clearing._values(other)
        with operation(name, **self._about(thread_id)) as event:
            event.payload_bytes = sum(len(row["p_payload"]) for row in rows)
            event.details["entries"] = len(rows)
            append = Append(log, values, rows, expected, after, new_keys, cleared)
            return await self._roads.send(append, connection, event)

    async def _run_write(
        self,
        name: str,
        thread_id: str,
        program: Callable[[], Program[T]],
        connection: HostConnection | None,
    ) -> T:
        with operation(name, **self._about(thread_id)) as event:
            return await self.db.run(program, WRITE_ROWS, connection=connection, event=event)

    async def _read_changes(
        self,
        thread_id: str,
        seen: LogReading | None,
        make: Callable[[Sequence[Any]], Made],
        whole: bool,
        connection: HostConnection | None,
    ) -> tuple[LogReading, Made]:
        if seen is not None and not isinstance(seen, LogReading):
            raise TypeError(f"seen is an earlier LogReading, not {type(seen).__name__}")
        changes = self._changes(thread_id, whole=whole)
        with operation("thread.read", **self._about(thread_id)) as event:
            reading, found = await self.db.run(
                lambda: changes(seen),
                READ,
                decode=Decode(partial(_reading, seen, make), _decoded_size),
                connection=connection,
                event=event,
            )
            event.cache_hit = seen is not None and not reading.complete
            return reading, found

    def _changes(
        self, thread_id: str, *, whole: bool
    ) -> Callable[[LogReading | None], Program[Answer]]:
        """Return the program that reads what is new since an earlier reading, or everything."""
        log, d, keys = self._log(thread_id), self.db.dialect, self.db.signing
        news = entries.read_changes(d, whole=whole)
        binds = log.binds() | {"p_now": datetime.now(UTC)}

        def program(seen: LogReading | None) -> Program[Answer]:
            if seen is not None:
                rows = yield news, binds | {"p_epoch": seen.epoch, "p_after": seen.position}
                if not _is_other_history_of_epoch(seen, rows):
                    yield from check_newest_entry(d, log, rows, keys)
                    return rows
            rows = yield news, binds | {"p_epoch": -1, "p_after": -1}
            yield from check_all_entries(d, log, rows, keys)
            return rows

        return program

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
        total: int | None = None,
    ) -> tuple[list[Entry], int | None]:
        """Return entries; a reader of all pages gives the *total* of those before, and gets it."""
        for name, moment in (("since", since), ("until", until)):
            if moment is not None and not isinstance(moment, datetime):
                raise TypeError(f"{name} is an aware datetime, not {type(moment).__name__}")
        timed = since is not None or until is not None
        binds = self._log(thread_id).binds() | {
            "p_now": datetime.now(UTC),
            "p_after": -1 if after is None else check_position(after, "after"),
            "p_before": entries.MAX_POSITION
            if before is None
            else check_position(before, "before"),
            "p_limit": MAX_LIMIT if limit is None else check_limit(limit),
        }
        if timed:
            binds["p_since"] = _ALWAYS[0] if since is None else check_time(since, "since")
            binds["p_until"] = _ALWAYS[1] if until is None else check_time(until, "until")
        statement = entries.read_entries(self.db.dialect, end=end, timed=timed)

        log, d, keys = self._log(thread_id), self.db.dialect, self.db.signing

        def program() -> Program[tuple[Answer, int | None]]:
            rows = yield statement, binds
            is_end = len(rows) < binds["p_limit"]
            if total is not None:
                so_far = sum_of_entries(rows, keys, total)
                if is_end:
                    found = bool(rows or total)
                    yield from check_sum_of_entries(d, log, so_far, keys, found)
                return rows, so_far
            if after is None and before is None and not timed and is_end:
                yield from check_all_entries(d, log, rows, keys)
            elif before is None and until is None and end == "last":
                yield from check_newest_entry(d, log, rows[::-1], keys)
            else:
                yield from check_nothing_missing(d, log, keys)
            return rows, None

        def decode(found: tuple[Answer, int | None]) -> tuple[list[Entry], int | None]:
            return entry_rows.to_entries(log, self.db.keyring, found[0]), found[1]

        def size_of(found: tuple[Answer, int | None]) -> int:
            return entry_rows.decoded_entry_size(found[0])

        with operation("thread.read", **self._about(thread_id)) as event:
            return await self.db.run(
                program,
                READ,
                decode=Decode(decode, size_of),
                connection=connection,
                event=event,
            )

    def _check_of(self, thread_id: str) -> Callable[[], Program[None]]:
        """Return the program that holds a log to its head, after some of its rows were read."""
        log = self._log(thread_id)
        return partial(check_nothing_missing, self.db.dialect, log, self.db.signing)

    @property
    def _indexes_text(self) -> bool:
        """True if entries are stored with their words."""
        return self._index_text and self.db.keyring.is_readable("text")

    def _hits(self, found: Sequence[ScoredRow], terms: Sequence[Term]) -> list[EntryHit]:
        keyring = self.db.keyring
        return [
            entry_rows.to_hit(self._log(row.thread_id), row, score, terms, keyring)
            for score, row in found
        ]

    def _log(self, thread_id: str) -> Log:
        return Log(self.db.tenant, check_thread_id(thread_id), self._path)

    def _values(self, log: Log) -> dict[str, Any]:
        now = datetime.now(UTC)
        return log.head_binds() | {
            "p_now": now,
            "p_active_at": truncate_to_second(now),
            "p_stored_at": now,
        }

    def _about(self, thread_id: str) -> dict[str, Any]:
        details: dict[str, object] = {"namespace": "/".join(self.namespace)}
        return {"tenant": self.db.tenant, "thread_id": thread_id, "details": details}

    async def _rows(
        self,
        family: Any,
        thread_id: str,
        connection: HostConnection | None,
        check: Callable[[], Program[None]] | None = None,
    ) -> Answer:
        binds = self._log(thread_id).binds() | {"p_now": datetime.now(UTC)}
        with operation("thread.read", **self._about(thread_id)) as event:
            return await self._query(family(self.db.dialect), binds, connection, event, check)

    async def _query(
        self,
        statement: Executable,
        binds: Mapping[str, Any],
        connection: HostConnection | None,
        event: Event,
        check: Callable[[], Program[None]] | None = None,
    ) -> Answer:
        def program() -> Program[Answer]:
            rows = yield statement, binds
            if check is not None:
                yield from check()
            return rows

        return await self.db.run(program, READ, connection=connection, event=event)


def _ranges(positions: Iterable[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for at in sorted(set(positions)):
        if found and found[-1][1] == at - 1:
            found[-1] = (found[-1][0], at)
        else:
            found.append((at, at))
    return found


def _position(position: object, name: str) -> int:
    return max(min(check_entry_position(position, name), entries.MAX_POSITION), -1)


def _reading(
    seen: LogReading | None, make: Callable[[Sequence[Any]], Made], rows: Answer
) -> tuple[LogReading, Made]:
    if not rows:
        return LogReading([], 0, -1, -1, seen is None or seen.version != 0), make(())
    version, epoch, last = rows[0][_VERSION], rows[0][_EPOCH], rows[-1]
    complete = seen is None or seen.epoch != epoch or _is_other_history_of_epoch(seen, rows)
    if last[_SEQ] is None:
        return LogReading([], version, epoch, -1, complete), make(())
    known = 1 if seen is not None and not complete and seen.position >= 0 else 0
    found = make(rows[known:] if known else rows)
    return LogReading([], version, epoch, last[_SEQ], complete, last[_CHECKSUM]), found


def _is_other_history_of_epoch(seen: LogReading, rows: Answer) -> bool:
    """Return whether a log with the epoch of *seen* is not the log that was read then.

    The epoch stays where a standby that lagged has taken over, or an older copy was restored. The
    last entry of the reading may be among the lost ones.
    """
    if not rows or rows[0][_EPOCH] != seen.epoch or seen.position < 0:
        return False
    return (rows[0][_SEQ], rows[0][_CHECKSUM]) != (seen.position, seen.mark)


def _decoded_size(rows: Answer) -> int:
    return sum([len(row[_PAYLOAD] or b"") for row in rows])
