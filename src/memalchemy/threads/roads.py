"""The roads of entries to the database, and the one place that chooses among them.

Entries are appended in a transaction that locks their log, looks up their keys, and then allots
positions. Some databases append them in one statement, which fails if a key is there. Into a signed
log whose head is known they go without a look at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from memalchemy._retry import repeat_unanswered
from memalchemy.contracts import UNSET, Unset
from memalchemy.database import (
    WRITE,
    WRITE_SAVE,
    WRITE_SIGNED_SAVE,
    Database,
    HostConnection,
)
from memalchemy.errors import DatabaseUnreachable, UniqueViolation
from memalchemy.events import Event
from memalchemy.log import Log
from memalchemy.log.append import (
    append_entries,
    append_entries_locked,
    append_signed_entries,
    appends_at_once,
    appends_to_known_heads,
)
from memalchemy.log.entries import clear_entries
from memalchemy.log.memory import LogMemory
from memalchemy.statements import Program


class Append(NamedTuple):
    """Entries to append to a log, encoded, with their conditions.

    Attributes:
        binds: the binds of the log's head.
        rows: the binds of each entry.
        expected: the version of the log, or `UNSET` for any.
        after: the position beyond which all entries are replaced, or ``None`` to replace none.
        new_keys: an entry whose key is there is a conflict.
        cleared: another log that loses its entries in the same transaction, and its binds.
    """

    log: Log
    binds: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    expected: int | Unset = UNSET
    after: int | None = None
    new_keys: bool = False
    cleared: tuple[Log, Mapping[str, Any]] | None = None


class EntryRoad(NamedTuple):
    """Way on which entries reach the database.

    Attributes:
        skips_look: they move the head that is known, if there is one, without a look at the log.
        at_once: one statement appends them, unless one of their keys is there.
        may_repeat: they may be sent again if nobody knows whether they have arrived.
    """

    skips_look: bool
    at_once: bool
    may_repeat: bool


class EntryRoads:
    """The roads on which the entries of one `ThreadLog` reach its database."""

    def __init__(self, db: Database) -> None:
        self._db, self._dialect, self._guard = db, db.dialect, db.guard
        self._memory = LogMemory(db)

    async def send(
        self, append: Append, connection: HostConnection | None, event: Event
    ) -> list[int]:
        """Append entries; return their positions, in the order of the rows.

        Raises:
            Conflict, ThreadDeleted: the log is not as it has to be; nothing was changed.
        """
        road = self._choose(append, connection)
        positions = None
        if road.skips_look:
            positions = await self._append_to_known_head(append, event)
        if positions is None and road.at_once:
            positions = await self._append_at_once(append, road, connection, event)
        if positions is None:
            positions = await self._append_locked(append, road, connection, event)
        return positions

    def _choose(self, append: Append, connection: HostConnection | None) -> EntryRoad:
        is_ours = connection is None
        keys = list(map(itemgetter("p_entry_key"), append.rows))
        has_keys = keys.count(None) < len(keys)
        only_appends = append.after is None and bool(keys)
        # With a key that is there the statement fails, and with it a transaction of the host.
        may_fail = is_ours or not has_keys
        # Each entry has a key, by which it is not appended twice, and nothing would refuse it.
        is_refused_twice = None not in keys and append.expected is UNSET and not append.new_keys
        return EntryRoad(
            skips_look=only_appends and is_ours and not has_keys,
            at_once=only_appends
            and may_fail
            and not self._guard.allots_first
            and appends_at_once(self._dialect),
            may_repeat=only_appends and is_ours and is_refused_twice,
        )

    async def _append_to_known_head(self, append: Append, event: Event) -> list[int] | None:
        """Append without a look at the log, if it is signed and this process has just written it.

        Returns ``None``, and has changed nothing, if the log has to be looked at.
        """
        known = self._memory.known_head(append.log)
        if (
            known is None
            or not appends_to_known_heads(self._dialect, sealed=self._guard.seals_payloads)
            or append.expected not in (UNSET, known.columns.version)
        ):
            return None
        program = partial(append_signed_entries, self._dialect, append.binds, append.rows, known)
        return await self._db.run(program, WRITE_SIGNED_SAVE, event=event)

    async def _append_at_once(
        self, append: Append, road: EntryRoad, connection: HostConnection | None, event: Event
    ) -> list[int] | None:
        """Append without a look at the keys; return ``None`` if the log has to be looked at."""
        binds, rows, expected = append.binds, append.rows, append.expected
        try:
            head = await self._db.run(
                partial(append_entries, self._dialect, binds, rows, expected),
                WRITE_SAVE,
                connection=connection,
                event=event,
            )
        except UniqueViolation:
            return None
        except DatabaseUnreachable as lost:
            if not road.may_repeat or not lost.maybe_applied:
                raise
            return None
        return None if head is None else list(range(head.next_seq - len(rows), head.next_seq))

    async def _append_locked(
        self, append: Append, road: EntryRoad, connection: HostConnection | None, event: Event
    ) -> list[int]:
        """Append under the lock of the log, after a look at its version and its keys."""

        def program() -> Program[list[int]]:
            placed = yield from append_entries_locked(
                self._dialect,
                append.log,
                append.binds,
                append.rows,
                append.expected,
                append.after,
                append.new_keys,
            )
            if append.cleared is not None:
                yield from clear_entries(self._dialect, *append.cleared)
            return placed

        async def send() -> list[int]:
            return await self._db.run(program, WRITE, connection=connection, event=event)

        try:
            return await send()
        except DatabaseUnreachable as lost:
            if not road.may_repeat:
                raise
            return await repeat_unanswered(send, lost)
