"""`ThreadLog`: the ordered log of a thread's entries, such as messages and events.

This file writes; ``reading`` reads and searches, ``coding`` turns entries into rows and back. The
statements and programs are those of `memalchemy.log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from memalchemy.contracts import UNSET, Entry, Seconds, Unset, to_lifetime
from memalchemy.database import Database, HostConnection, off_loop
from memalchemy.errors import DatabaseUnreachable, NotFound
from memalchemy.events import Event, operation
from memalchemy.keys import check_list, fork_of
from memalchemy.log import Log, append, copy_log, delete_log, entries, new_epoch, second_of
from memalchemy.statements import Program
from memalchemy.threads import coding
from memalchemy.threads.reading import Reading

T = TypeVar("T")

TRIES = 5


class ThreadLog(Reading):
    """Keeps what happens in a thread, in order: any values, appended, read, taken back.

    Order is that of positions, which are allotted one after another whoever appends, never that of
    a clock. Every write is whole or absent, and costs the same however long the log is. Writes take
    ``expected_version``: the log's `version` that the caller has seen, 0 for a log that is not
    there; if it has moved on, `Conflict` is raised and nothing is changed.

    Args:
        db: where to keep them.
        namespace: keeps several uses of one thread id apart.
        index_text: make the words of entries findable with `search`.
        ttl: how long a log lives after its last append, in seconds or as a timedelta.

    Every method takes ``connection=``, an `AsyncConnection` or `AsyncSession` of the host: the work
    is then part of the host's transaction, sees its own writes, and is gone after a rollback.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        db: Database,
        *,
        namespace: Iterable[str] = ("log",),
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace)
        self._index_text = index_text
        self._ttl = None if ttl is None else to_lifetime(ttl)

    def __repr__(self) -> str:
        return f"ThreadLog({self.db!r}, namespace={self.namespace!r})"

    async def append(
        self,
        thread_id: str,
        entries: Any,
        *,
        keys: Sequence[str | None] | str | None = None,
        expected_version: int | Unset = UNSET,
        occurred_at: datetime | Sequence[datetime] | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Append one entry, or a list of them, and return their positions; all or none.

        Without *keys* it is one round trip on PostgreSQL. If the connection is lost in the middle
        of it, nobody knows whether it happened: the error says ``maybe_applied``. With *keys* such
        an append is repeated, because it is safe to.

        Args:
            entries: a value, or a list of values; see `memalchemy.codec.values` for what they may
                hold. A list is several entries: put one that is itself a list into a list.
            keys: for each entry a key of up to 128 characters, or ``None``. An entry whose key is
                in the log is not appended again; its position is returned.
            occurred_at: when it happened, for all or for each; now, if not given.
            ttl: in place of the log's own. The last append counts: after one without any, the log
                does not expire.

        Raises:
            NotSerialisable, TooLarge: one of them cannot be stored; nothing was written.
            Conflict: the log is not at *expected_version*.
            ThreadDeleted: a version was expected, and the thread has been deleted since.
        """
        given = list(entries) if isinstance(entries, list) else [entries]
        return await self._place(
            "thread.append",
            thread_id,
            given,
            keys=keys,
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
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Put entries in place of all beyond position *after* (0: of all), in one transaction.

        Their positions are new ones. Otherwise as `append`; without entries it cuts off the end.
        """
        given = list(entries) if isinstance(entries, list) else [entries]
        return await self._place(
            "thread.replace",
            thread_id,
            given,
            keys=keys,
            expected=expected_version,
            occurred_at=occurred_at,
            ttl=ttl,
            connection=connection,
            after=_position(after, "after"),
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
            Corrupt: what is stored does not match its checksum; it was not removed.
        """
        log = self._log(thread_id)
        expected = _version(expected_version)

        def program() -> Program[Entry | None]:
            values = self._values(log)
            row = yield from entries.take_newest(self.db.dialect, log, values, expected)
            return None if row is None else coding.entry(thread_id, self.db.keyring, row)

        with operation("thread.pop", **self._about(thread_id)) as event:
            return await self.db.write(program, connection=connection, event=event, payloads=False)

    async def remove(
        self,
        thread_id: str,
        positions: Iterable[int],
        *,
        expected_version: int | Unset = UNSET,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove the entries at *positions*, in one transaction; how many of them there were.

        Raises:
            Conflict, ThreadDeleted: as `append`.
        """
        log, d = self._log(thread_id), self.db.dialect
        expected = _version(expected_version)
        given = check_list(positions, "positions")
        ranges = _ranges(_position(position, "position") for position in given)
        return await self._written(
            "thread.remove",
            thread_id,
            lambda: entries.remove_some(d, log, self._values(log), ranges, expected),
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
        """Give the entry at *position* another value; whether it was there.

        Its position, key and times stay.

        Raises:
            NotSerialisable, TooLarge, Conflict, ThreadDeleted: as `append`.
        """
        log, d = self._log(thread_id), self.db.dialect
        expected = _version(expected_version)
        (value,), weight = coding.weighed([value])
        encode = partial(coding.encoded, value, self._index_text, self.db.keyring)
        row = await off_loop(weight, encode)
        row["p_seq"] = _position(position, "position")
        with operation("thread.edit", **self._about(thread_id)) as event:
            event.payload_bytes = len(row["p_payload"])
            return await self.db.write(
                lambda: entries.change_one(d, log, self._values(log), row, expected),
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
        """Remove all entries; how many they were. The log itself stays, and so do its versions."""
        log, d = self._log(thread_id), self.db.dialect
        expected = _version(expected_version)
        return await self._written(
            "thread.clear",
            thread_id,
            lambda: entries.remove_all(d, log, self._values(log), expected),
            connection,
        )

    async def delete(self, thread_id: str, *, connection: HostConnection | None = None) -> bool:
        """Delete this log of the thread; whether it was there.

        The thread's other logs, its checkpoints too, stay: `Checkpointer.delete` deletes a thread
        with all its logs. For a day an append that expects a version gets `ThreadDeleted`.
        """
        log, now = self._log(thread_id), datetime.now(UTC)
        return await self._written(
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
        """Copy the log up to *position* (all of it, without) into a new thread; return its id.

        ``THREAD-fork-xxxxxxxx`` if none is given (a long THREAD is cut off to fit).
        Positions, keys and times are those of the original; the two share nothing afterwards. With
        another *namespace* the copy goes there, and may be of the same thread.

        Raises:
            NotFound: there is no such entry, or none at all.
            Conflict: the new thread holds something in that namespace already.
            ValueError: the new log is the old one.
        """
        to_log = self if namespace is None else Reading(self.db, namespace)
        target = new_thread_id
        if target is None:
            target = fork_of(thread_id)
        source, to, now = self._log(thread_id), to_log._log(target), datetime.now(UTC)
        if to == source:
            raise ValueError("a fork needs a thread id of its own")
        at = None if position is None else _position(position, "position")
        with operation("thread.fork", **self._about(thread_id)) as event:
            event.details["to"] = target
            copied = await self.db.write(
                lambda: copy_log(self.db.dialect, source, to, now, position=at),
                connection=connection,
                event=event,
                payloads=False,
            )
            if not copied:
                what = "any entry" if position is None else f"an entry at {position}"
                raise NotFound(f"the log of thread {thread_id!r} does not have {what}")
        return target

    async def _place(
        self,
        name: str,
        thread_id: str,
        given: list[Any],
        *,
        keys: Sequence[str | None] | str | None = None,
        expected: int | Unset,
        occurred_at: datetime | Sequence[datetime] | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None,
        after: int | None = None,
        then: Callable[[], Program[object]] | None = None,
    ) -> list[int]:
        """With *then*, which goes with an *after*, that program in the same transaction."""
        log, d = self._log(thread_id), self.db.dialect
        expected = _version(expected)
        life = self._ttl if ttl is None else to_lifetime(ttl)
        values = self._values(log)
        checked = coding.check_keys(keys, len(given))
        times = coding.check_times(occurred_at, len(given), values["p_now"])
        how = self._index_text, self.db.keyring
        given, weight = coding.weighed(given)
        encode = partial(coding.rows_of, given, checked, times, *how)
        rows = await off_loop(weight, encode)
        values |= {
            "p_expires_at": None if life is None else values["p_now"] + life,
            "p_epoch": new_epoch(),
            "p_checkpoint_id": None,
        }
        if not rows and after is None and expected is UNSET:
            return []
        with operation(name, **self._about(thread_id)) as event:
            event.payload_bytes = sum(len(row["p_payload"]) for row in rows)
            event.details["entries"] = len(rows)
            if d.single_statement_save and after is None and rows and not any(checked):
                allotted = await self.db.write(
                    lambda: append.append_entries(d, values, rows, expected),
                    connection=connection,
                    event=event,
                    single=True,
                )
                if allotted is not None:
                    return list(range(allotted.next_seq - len(rows), allotted.next_seq))

            def program() -> Program[list[int]]:
                placed = yield from append.place_entries(d, log, values, rows, expected, after)
                if then is not None:
                    yield from then()
                return placed

            # Where each has a key an append may be sent again; unless a version refuses it then.
            keyed = None not in checked and after is None and expected is UNSET
            again = keyed and connection is None
            return await self._sent(program, connection, event, tries=TRIES if again else 1)

    async def _sent(
        self,
        program: Callable[[], Program[T]],
        connection: HostConnection | None,
        event: Event,
        *,
        tries: int,
    ) -> T:
        for left in reversed(range(tries)):
            try:
                return await self.db.write(program, connection=connection, event=event)
            except DatabaseUnreachable as lost:
                if not left or not lost.maybe_applied:
                    raise
        raise AssertionError("unreachable")

    async def _written(
        self,
        name: str,
        thread_id: str,
        program: Callable[[], Program[T]],
        connection: HostConnection | None,
    ) -> T:
        with operation(name, **self._about(thread_id)) as event:
            return await self.db.write(program, connection=connection, event=event, payloads=False)

    def _values(self, log: Log) -> dict[str, Any]:
        now = datetime.now(UTC)
        return log.names() | {"p_now": now, "p_active_at": second_of(now), "p_stored_at": now}


def _version(version: object) -> int | Unset:
    if version is UNSET:
        return UNSET
    if isinstance(version, bool) or not isinstance(version, int):
        raise TypeError(f"expected_version is a whole number, not {type(version).__name__}")
    if version < 0:
        raise ValueError("expected_version is 0 for a log that is not there, or above")
    return version


def _ranges(positions: Iterable[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for at in sorted(set(positions)):
        if found and found[-1][1] == at - 1:
            found[-1] = (found[-1][0], at)
        else:
            found.append((at, at))
    return found


def _position(position: object, name: str) -> int:
    if isinstance(position, bool) or not isinstance(position, int):
        raise TypeError(f"{name} is a position, not {type(position).__name__}")
    return max(min(position, entries.EVERYTHING), -1)
