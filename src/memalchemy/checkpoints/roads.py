"""The roads of saves and pending writes to the database, and the one place that chooses among them.

A save is a part of the host's transaction, or a transaction or a statement of its own. Without
conditions it may share one with other saves that wait. Where rows are bound to their places it is a
single statement too, if the head of the log is known. What rests on an earlier checkpoint locks the
log before it looks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Executable, and_, bindparam, select

from memalchemy.checkpoints.retention import retention_binds
from memalchemy.checkpoints.save_request import Request
from memalchemy.checkpoints.skip_deltas import Draft
from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.codec.deltas import CODEC
from memalchemy.contracts import UNSET, Retention
from memalchemy.database import (
    WRITE,
    WRITE_SAVE,
    WRITE_SIGNED_SAVE,
    BatchedRow,
    Database,
    HostConnection,
    Intent,
)
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict
from memalchemy.events import Event
from memalchemy.log import (
    Log,
    Position,
    append_checkpoint,
    append_checkpoints,
    lock_log,
    new_epoch,
    truncate_to_second,
)
from memalchemy.log.append import append_to_known_head, append_write, saves_to_known_heads
from memalchemy.log.memory import LogMemory, WrittenHead, takes_turns
from memalchemy.log.tables import CHECKPOINTS, DELTAS, of_log, routed, same_log
from memalchemy.proofs import COMPARED
from memalchemy.statements import Program, statement


@statement(unproven=COMPARED)
def read_state_row(dialect: Dialect) -> Executable:
    """Select the position and the checksum of a checkpoint's state."""
    state = and_(same_log(DELTAS, CHECKPOINTS), DELTAS.c.seq == CHECKPOINTS.c.seq)
    same = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    return (
        select(DELTAS.c.seq, DELTAS.c.checksum)
        .select_from(CHECKPOINTS)
        .join(DELTAS, state)
        .where(of_log(CHECKPOINTS), *routed(dialect, DELTAS), same)
    )


class Road(NamedTuple):
    """Way on which a save reaches the database.

    Attributes:
        intent: how its statements are sent.
        takes_turn: it waits for the writes of its log that this process has begun before.
        skips_look: it moves the head that is known, if there is one, without a look at the log.
        locks: it locks the log before it looks: what it rests on has to stay there.
        shares: it may share a statement with others that wait.
        keeps_head: the head that it leaves is remembered, and makes the next save the shorter.
    """

    intent: Intent
    takes_turn: bool = False
    skips_look: bool = False
    locks: bool = False
    shares: bool = False
    keeps_head: bool = False


class _Roads(NamedTuple):
    """The roads of one database."""

    plain: Road
    """For a save behind the newest checkpoint that asks for nothing else."""
    other: Road
    locking: Road


class SaveRoads:
    """The roads on which the saves and pending writes of one checkpointer reach its database."""

    def __init__(self, db: Database, cache: TipCache, retention: Retention | None) -> None:
        self._db, self._dialect, self._cache = db, db.dialect, cache
        self._retention = (
            retention if retention is not None and retention.apply_every == 1 else None
        )
        self._allots_first = db.guard.allots_first
        self._memory = LogMemory(db)
        self.overhead: int = db.keyring.stored_size(b"")
        """Bytes that a payload takes more as it is stored."""
        self._planned: _Roads | None = None

    @property
    def retain_at_once(self) -> bool:
        """True if each save deletes, in its own statement, what retention does not keep."""
        return self._retention is not None

    def send(
        self,
        request: Request,
        draft: Draft,
        words: str | None,
        connection: HostConnection | None,
        event: Event,
    ) -> Awaitable[Position | None]:
        """Append the draft; return its position, or ``None`` if the log is not as it assumes."""
        road = self._choose(request, connection)
        take = self._take_in_turn if road.takes_turn else self._take
        return take(road, request, draft, words, connection, event)

    async def send_writes(
        self, log: Log, row: Mapping[str, Any], connection: HostConnection | None, event: Event
    ) -> bool:
        """Append a row of pending writes; return false, with nothing done, if the log has expired.

        Raises:
            UniqueViolation: the row is there already.
        """
        apart = self._allots_first
        seq = await self._db.run(
            partial(append_write, self._dialect, row, apart=apart),
            WRITE if apart else WRITE_SAVE,
            connection=connection,
            event=event,
        )
        if seq is not None and connection is None:
            self._memory.note_row(log, seq, row["p_now"])
        return seq is not None

    def _choose(self, request: Request, connection: HostConnection | None) -> Road:
        locks = request.expected_row is not None or (
            request.rests_on is not None and not self._is_newest(request)
        )
        if connection is not None:
            return Road(WRITE if locks or self._allots_first else WRITE_SAVE, locks=locks)
        roads = self._planned or self._plan()
        if locks:
            return roads.locking
        is_behind_newest = self._retention is None and request.parent_id is None
        if self._allots_first:
            is_plain = request.rests_on is None
        else:
            is_plain = request.lineage is UNSET and request.expected_parent is UNSET
        return roads.plain if is_behind_newest and is_plain else roads.other

    def _plan(self) -> _Roads:
        """Plan the roads of the database, and keep to them once it is known what its server is."""
        d = self._dialect
        if self._allots_first:
            other = Road(WRITE, takes_turn=not d.single_writer)
            plain = other._replace(skips_look=saves_to_known_heads(d))
        else:
            other = Road(
                WRITE_SAVE,
                takes_turn=takes_turns(d) and not d.single_writer,
                keeps_head=self._memory.keeps_written_heads,
            )
            plain = other._replace(shares=True)
        planned = _Roads(plain, other, other._replace(intent=WRITE, locks=True))
        if not d.has_to_learn:
            self._planned = planned
        return planned

    def _is_newest(self, request: Request) -> bool:
        """Return whether the state rests on the newest checkpoint, as far as this process knows.

        The newest is not removed. An earlier one has to be looked up under the log's lock: a single
        statement sees what was there when it began.
        """
        cached = self._cache.get(request.log)
        return cached is not None and cached.checkpoint_id == request.rests_on

    async def _take_in_turn(self, road: Road, request: Request, *given: Any) -> Position | None:
        async with self._memory.turn(request.log):
            return await self._take(road, request, *given)

    async def _take(
        self,
        road: Road,
        request: Request,
        draft: Draft,
        words: str | None,
        connection: HostConnection | None,
        event: Event,
    ) -> Position | None:
        db, d = self._db, self._dialect
        known = self._memory.known_head(request.log) if road.skips_look else None
        if known is not None and request.expected_parent in (UNSET, known.columns.head_id):
            row = self._row(request, draft, words)
            program = partial(append_to_known_head, d, row, known)
            position = await db.run(program, WRITE_SIGNED_SAVE, event=event)
            if position is not None:
                return position
        written = None
        if road.keeps_head:
            base = draft.base_seq, draft.base_checksum
            written = self._memory.written_head(request.log, base)
        append = self._append_locked if road.locks else self._append
        position = await db.run(
            partial(append, request, draft, words, written),
            road.intent,
            connection=connection,
            event=event,
            batch=partial(self._batched, request, draft, words) if road.shares else None,
        )
        if road.keeps_head and position is not None:
            below = [(link.seq, link.checksum) for link in draft.chain]
            bases = frozenset([*below, (position.seq, position.checksum)])
            self._memory.note_checkpoint(
                request.log, request.checkpoint_id, position.seq, request.now, bases
            )
        return position

    def _batched(
        self, request: Request, draft: Draft, words: str | None
    ) -> BatchedRow[Position | None]:
        """Return the row of a save without conditions, which may share a statement with others."""
        mode = "create" if draft.base_seq is None else "unchanged"
        return BatchedRow(
            partial(self._row, request, draft, words),
            size=len(draft.payload),
            family=mode,
            sequence=request.log,
            key=(request.log, request.checkpoint_id),
            program=partial(append_checkpoints, self._dialect, mode=mode),
        )

    def _append_locked(
        self, request: Request, draft: Draft, words: str | None, written: WrittenHead | None
    ) -> Program[Any]:
        yield lock_log(self._dialect), request.log.binds()
        if request.expected_row is not None:
            values = request.log.binds() | {"p_checkpoint_id": request.expected_parent}
            found = yield read_state_row(self._dialect), values
            if found and tuple(found[0]) != request.expected_row:
                raise Conflict(
                    f"checkpoint {request.expected_parent!r} of thread {request.log.thread_id!r} "
                    "was replaced; nothing was written. Load it, apply the change to it and save "
                    "again.",
                    expected=request.expected_parent,
                    current=request.expected_parent,
                )
        return (yield from self._append(request, draft, words, written))

    def _append(
        self, request: Request, draft: Draft, words: str | None, written: WrittenHead | None
    ) -> Program[Any]:
        expected = (
            "any"
            if request.expected_parent is UNSET
            else "none"
            if request.expected_parent is None
            else "newest"
        )
        needs_thread = (
            request.parent_id is not None or request.rests_on is not None or expected == "newest"
        )
        mode = (
            "unchanged" if draft.base_seq is not None else "existing" if needs_thread else "create"
        )
        if mode == "create" and expected == "any" and isinstance(request.lineage, str):
            expected = "alive"
        return append_checkpoint(
            self._dialect,
            self._row(request, draft, words),
            mode=mode,
            condition=expected,
            retain=self._retention is not None,
            needs_parent=request.lineage is UNSET or request.rests_on is not None,
            apart=self._allots_first,
            written=written,
        )

    def _row(self, request: Request, draft: Draft, words: str | None) -> dict[str, Any]:
        """Return the binds of a save: of its head, its checkpoint and its state."""
        parent_id = request.parent_id
        if request.lineage is not UNSET:
            # A checkpoint without a parent names itself: NULL would stand for the newest.
            parent_id = request.checkpoint_id if request.lineage is None else request.lineage
        row = {
            **request.log.head_binds(),
            "p_now": request.now,
            "p_active_at": truncate_to_second(request.now),
            "p_count": 1,
            "p_expires_at": request.expires_at,
            "p_epoch": new_epoch() if draft.epoch is None else draft.epoch,
            "p_checkpoint_id": request.checkpoint_id,
            "p_parent_id": parent_id,
            "p_expected": None if request.expected_parent is UNSET else request.expected_parent,
            "p_run_id": request.run_id,
            "p_rests_on": request.rests_on,
            "p_meta": request.metadata,
            "p_raw_size": draft.raw_size,
            "p_stored_size": len(draft.payload) + self.overhead,
            "p_occurred_at": request.occurred_at,
            "p_created_at": request.now,
            "p_kind": draft.kind,
            "p_base_seq": draft.base_seq,
            "p_base_checksum": draft.base_checksum,
            "p_depth": draft.depth,
            "p_codec": CODEC,
            "p_checksum": draft.checksum,
            "p_radix": draft.radix,
            "p_search_text": words,
            "p_payload": draft.payload,
            "p_signature": None,
        }
        if self._retention is not None:
            row |= retention_binds(self._retention, request.now)
        return row
