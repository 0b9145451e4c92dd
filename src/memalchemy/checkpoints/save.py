"""Save a state: encode it against the cached base, append, and retry if the base was outdated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Executable, and_, bindparam, select

from memalchemy._retry import (
    CONFLICTS,
    UNANSWERED_SAVE_TRIES,
    Overtaken,
    repeat_unanswered,
    retry_when_overtaken,
)
from memalchemy.checkpoints.load import decoded_size, load_chain
from memalchemy.checkpoints.retention import RetentionRun, retention_binds
from memalchemy.checkpoints.roads import SaveRoads
from memalchemy.checkpoints.save_request import Encoded, Request
from memalchemy.checkpoints.skip_deltas import Draft, Tip, encode, rebuild_checkpoint
from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.codec import values
from memalchemy.codec.deltas import Comparison
from memalchemy.codec.search_text import added_texts, search_text
from memalchemy.contracts import UNSET, Retention
from memalchemy.database import (
    OFF_LOOP_BYTES,
    READ,
    WRITE_ROWS,
    Database,
    Decode,
    HostConnection,
)
from memalchemy.dialects import Dialect
from memalchemy.errors import (
    Conflict,
    DatabaseUnreachable,
    MemalchemyError,
    NotFound,
    ThreadDeleted,
)
from memalchemy.events import Event, operation, publish
from memalchemy.log import (
    Head,
    Log,
    Position,
    forget_log,
    read_head,
    sweep,
)
from memalchemy.log.copy import read_position
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, of_log, same_log
from memalchemy.proofs import ARRIVED
from memalchemy.statements import Program, statement

T = TypeVar("T")

_log = logging.getLogger(__name__)

MAX_DELTA_TRIES = 3


@statement(unproven=ARRIVED)
def find_saved(dialect: Dialect) -> Executable:
    """Select the result of a save that happened: its id and its time identify it."""
    state = and_(same_log(DELTAS, CHECKPOINTS), DELTAS.c.seq == CHECKPOINTS.c.seq)
    return (
        select(
            CHECKPOINTS.c.seq,
            THREADS.c.version,
            THREADS.c.epoch,
            THREADS.c.previous_id,
            DELTAS.c.checksum,
        )
        .join(THREADS, same_log(THREADS, CHECKPOINTS))
        .join(DELTAS, state)
        .where(
            of_log(CHECKPOINTS),
            CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id"),
            CHECKPOINTS.c.created_at == bindparam("p_created_at"),
        )
    )


@dataclass(slots=True)
class _Tries:
    """The tries of one save."""

    made: int = 0
    unanswered: bool = False
    """An answer of the database was lost, so that one of them may have been done."""


@dataclass(frozen=True, slots=True)
class Saver:
    """Saves of one checkpointer, with its settings."""

    db: Database
    cache: TipCache
    index_text: bool | frozenset[str]
    """Store search text; a set has the top-level keys whose text alone is stored. False where words
    may not be readable."""
    retention: Retention | None
    max_chain_depth: int
    compression_level: int
    radix: int
    roads: SaveRoads

    async def save(self, request: Request, connection: HostConnection | None, event: Event) -> None:
        """Save, once and whole.

        Raises:
            Conflict: ``expected_parent`` is not the newest checkpoint.
            ThreadDeleted: a parent was named, and the thread has been deleted since.
            NotFound: ``parent_id`` is not a checkpoint of the thread.
        """
        tries = _Tries()
        try:
            saved = await self._attempt(request, tries, connection, event)
        except Overtaken:
            again = partial(self._attempt, request, tries, connection, event)
            saved = await retry_when_overtaken(again, tried=tries.made)
        stored, tip, position = saved
        event.payload_bytes = len(stored.payload) + self.roads.overhead
        event.state_bytes = stored.raw_size
        new = stored.as_tip(
            request.checkpoint_id,
            position.seq,
            position.epoch,
            position.checksum,
            request.encoded.textual,
        )
        if connection is None:
            self.cache.put(request.log, new)
        else:
            # The host's transaction, or a savepoint in it, may still roll back.
            self.cache.drop(request.log)
        replaced = position.previous_id == request.checkpoint_id
        if self.retention is not None and not self.roads.retain_at_once:
            # The parent's position, so that a multiple between is missed by no save.
            before = tip.links[-1].seq if tip is not None else 0
            if position.seq // self.retention.apply_every > before // self.retention.apply_every:
                await self._tidy("checkpoint.prune", self._prune, request, new, connection)
        elif (
            (self.retention is not None or replaced)
            and stored.kind == "snapshot"
            and position.seq > 1
        ):
            # The save deleted checkpoints; their states are deleted here, once in many saves.
            await self._tidy("checkpoint.sweep", self._sweep, request, new, connection)

    async def _tidy(
        self,
        name: str,
        remove: Callable[[Request, Tip, HostConnection | None, Event], Awaitable[None]],
        request: Request,
        newest: Tip,
        connection: HostConnection | None,
    ) -> None:
        """Remove what the log no longer needs.

        The save has happened: an error is logged and published, and a later save tries again.
        """
        log = request.log
        try:
            with operation(name, tenant=log.tenant, thread_id=log.thread_id) as event:
                await remove(request, newest, connection, event)
        except MemalchemyError as error:
            if connection is not None:
                raise
            _log.warning(
                "the save was done, but states beyond its retention were not removed (%s: %s); "
                "a later save of the thread tries again, and so does memalchemy prune",
                type(error).__name__,
                error,
            )

    async def _prune(
        self, request: Request, _: Tip, connection: HostConnection | None, event: Event
    ) -> None:
        assert self.retention is not None
        values = retention_binds(self.retention, request.now) | {"p_now": request.now}
        scope = request.log.head_binds()
        run = RetentionRun(self.db, self.cache, scope, values, "log", "live", True, connection)
        await run.run(event, None, dry_run=False)

    async def _sweep(
        self, request: Request, newest: Tip, connection: HostConnection | None, event: Event
    ) -> None:
        log = request.log
        swept = await self.db.run(
            lambda: sweep(self.db.dialect, log, request.now),
            WRITE_ROWS,
            connection=connection,
            event=event,
        )
        if connection is not None or swept is None:
            return
        head, epoch = swept
        # Another epoch before the sweep may be that of a rewrite, which changes depths.
        if (head.head_id, head.epoch) == (newest.checkpoint_id, newest.epoch):
            # What the newest checkpoint stands on was not swept: only the epoch is new.
            self.cache.put(log, replace(newest, epoch=epoch))

    async def _attempt(
        self, request: Request, tries: _Tries, connection: HostConnection | None, event: Event
    ) -> tuple[Draft, Tip | None, Position]:
        """Encode and append; return the draft, the checkpoint it is encoded against, its position.

        Raises:
            Overtaken: the log was not as the draft assumes, and is to be looked at again.
            Conflict, ThreadDeleted, NotFound: see `save`.
        """
        encoded, earlier = request.encoded, tries.made
        tries.made += 1
        tip = None if earlier else encoded.tip
        event.cache_hit = tip is not None and request.parent_id in (None, tip.checkpoint_id)
        if not event.cache_hit:
            tip = await self._read_base(request, connection, event)
        # The caller's object may change during a wait; what was encoded does not.
        is_large = encoded.size >= OFF_LOOP_BYTES
        waited = encoded.waited or is_large or not event.cache_hit
        state = None if waited else request.state
        # Others can go on deleting bases; a snapshot needs none.
        snapshot = earlier >= MAX_DELTA_TRIES
        if is_large:
            encoding = partial(self._encode, request, state, tip, snapshot)
            draft, words = await asyncio.to_thread(encoding)
        else:
            draft, words = self._encode(request, state, tip, snapshot)
        try:
            position = await self.roads.send(request, draft, words, connection, event)
        except DatabaseUnreachable as lost:
            if connection is not None:
                raise
            send = partial(self.roads.send, request, draft, words, None, event)
            find = partial(self._find_unanswered, request, tries, event)
            position = await repeat_unanswered(send, lost, find=find, tries=UNANSWERED_SAVE_TRIES)
        if position is None:
            position = await self._resolve_failure(request, connection, event, tries.unanswered)
        if position is None:
            raise Overtaken(
                f"thread {request.log.thread_id!r} was deleted and saved by others "
                f"{CONFLICTS.tries} times while this save was tried; nothing was written. Save "
                "again."
            )
        return draft, tip, position

    async def _find_unanswered(
        self, request: Request, tries: _Tries, event: Event, lost: DatabaseUnreachable
    ) -> Position | None:
        """Return the position of a save whose answer was *lost*, if it happened after all.

        Doing it again could move it behind what others have built on it since, so it is looked for
        first: by its id together with the time of this very request.
        """
        tries.unanswered = True
        log = request.log
        publish(Event("database.retry", log.tenant, log.thread_id, request.checkpoint_id))
        try:
            found = await self.db.run(
                partial(_find_saved, self.db.dialect, request), READ, event=event
            )
        except DatabaseUnreachable as error:
            raise DatabaseUnreachable(
                f"{error} The save may or may not have happened: look before repeating it.",
                maybe_applied=True,
            ) from error
        if found is None and lost.busy:
            # It is on its way to a slow server, and may arrive after another attempt.
            raise DatabaseUnreachable(
                f"{lost} The save may or may not have happened: look before repeating it.",
                maybe_applied=True,
                busy=True,
            ) from lost.__cause__
        return found

    async def _read_base(
        self, request: Request, connection: HostConnection | None, event: Event
    ) -> Tip | None:
        """Read the checkpoint to encode against: the named parent, or the newest."""
        read = await self.db.run(
            lambda: load_chain(
                self.db.dialect, request.log, request.parent_id, request.now, self.db.signing
            ),
            READ,
            decode=Decode(partial(self._rebuilt, request.log), decoded_size),
            connection=connection,
            event=event,
        )
        if read is not None:
            return read
        if request.parent_id is not None:
            head = await self._head(request.log, connection, event)
            if head is not None and head.deleted_at is not None:
                raise ThreadDeleted(request.log.thread_id)
            raise NotFound(
                f"thread {request.log.thread_id!r} has no checkpoint {request.parent_id!r} to "
                "branch from"
            )
        return None

    def _rebuilt(self, log: Log, tip: Tip | None) -> Tip | None:
        return None if tip is None else rebuild_checkpoint(log, tip, self.db.keyring)

    def _encode(
        self, request: Request, state: Mapping[str, Any] | None, tip: Tip | None, snapshot: bool
    ) -> tuple[Draft, str | None]:
        parts, parent = request.encoded.parts, request.encoded.parent
        draft = encode(
            parts,
            None if snapshot else tip,
            level=self.compression_level,
            max_depth=self.max_chain_depth,
            compared=parent,
            radix=self.radix,
            size=request.encoded.size,
        )
        if not self.index_text:
            return draft, None
        if tip is None:
            parent = None
        elif parent is None or parent.parts is not tip.links[-1].parts:
            parent = Comparison(tip.parts())
        if not isinstance(self.index_text, bool):
            parts = {key: part for key, part in parts.items() if key in self.index_text}
        if state is None:
            # Texts of a value in the tagged form are read from its encoding.
            state = values.decode_state(
                {key: part for key, part in parts.items() if part[:1] != values.TAGGED},
                is_checked=True,
            )
        added = added_texts(state, parts, parent)
        return draft, search_text(added)

    async def _resolve_failure(
        self, request: Request, connection: HostConnection | None, event: Event, unanswered: bool
    ) -> Position | None:
        """Find the reason why nothing was appended: raise it, or prepare another try.

        Returns the position if an *unanswered* attempt did append.
        """
        log, expected = request.log, request.expected_parent
        self.cache.drop(log)
        head = await self._head(log, connection, event)
        if head is not None:
            head.check_names(log)
        knows_parent = (
            request.parent_id is not None
            or isinstance(request.lineage, str)
            or not (expected is UNSET or expected is None)
        )
        if head is not None and head.deleted_at is not None:
            if knows_parent:
                raise ThreadDeleted(log.thread_id)
            return None
        if head is not None and head.is_expired(request.now):
            try:
                await self.db.run(
                    lambda: forget_log(self.db.dialect, log, lambda h: h.is_expired(request.now)),
                    WRITE_ROWS,
                    connection=connection,
                    event=event,
                )
            except DatabaseUnreachable as lost:
                if not lost.maybe_applied or connection is not None:
                    raise  # otherwise the next attempt sees whether it is gone
            return None
        if request.rests_on is not None and not await self._parent_exists(
            request, connection, event
        ):
            raise NotFound(
                f"thread {log.thread_id!r} has no checkpoint {request.rests_on!r}, which this "
                "state rests on; nothing was written. Load a checkpoint that is there, and go on "
                "from it."
            )
        newest = None if head is None else head.head_id
        if expected is UNSET or newest == expected:
            return None
        if unanswered:  # else what is found is another's, of the same id at the same moment
            found = await self.db.run(
                partial(_find_saved, self.db.dialect, request), READ, event=event
            )
            if found is not None:
                return found
        raise Conflict(
            f"the newest checkpoint of thread {log.thread_id!r} is {newest!r}, not {expected!r}; "
            "nothing was written. Load it, apply the change to it and save again.",
            expected=expected,
            current=newest,
        )

    async def _parent_exists(
        self, request: Request, connection: HostConnection | None, event: Event
    ) -> bool:
        """Return whether the checkpoint that the state rests on exists."""
        statement = read_position(self.db.dialect)
        values = request.log.binds() | {"p_checkpoint_id": request.rests_on}

        def program() -> Program[bool]:
            return bool((yield statement, values))

        return await self.db.run(program, READ, connection=connection, event=event)

    async def _head(self, log: Log, connection: HostConnection | None, event: Event) -> Head | None:
        return await self.db.run(
            lambda: _read_head(self.db.dialect, log), READ, connection=connection, event=event
        )


def _find_saved(dialect: Dialect, request: Request) -> Program[Position | None]:
    values = request.log.binds() | {
        "p_checkpoint_id": request.checkpoint_id,
        "p_created_at": request.now,
    }
    rows = yield find_saved(dialect), values
    return Position._make(rows[0]) if rows else None


def _read_head(dialect: Dialect, log: Log) -> Program[Head | None]:
    rows = yield read_head(dialect), log.binds()
    return Head._make(rows[0]) if rows else None


async def encode_off_loop(
    state: Mapping[str, Any], fallback: values.Fallback | None, tip: Tip | None
) -> Encoded:
    """Do as `values.encode_state`, the slow half in a thread if it would block the loop for long.

    *state* is encoded as it is now. *tip* is the cached tip of the parent, if there is one.
    """
    held = None if tip is None else tip.links[-1].parts
    parent = None if held is None else Comparison(held)

    def known(key: str, encoded: bytes) -> bool:
        """Return whether the value held nothing binary, and nothing was added that is."""
        assert parent is not None
        assert tip is not None
        return key in tip.textual and not parent.adds_binary(key, encoded, state[key])

    parts, left, textual = values.encode_plain(state, None if parent is None else known)
    heavy = bool(left) and values.is_heavy(state[key] for key in left)
    if heavy:
        # The caller may change its objects while the thread reads them.
        own = {key: values.frozen(state[key]) for key in left}
        size = await asyncio.to_thread(values.encode_rest, own, parts, left, fallback)
    else:
        size = values.encode_rest(state, parts, left, fallback)
    return Encoded(parts, size, textual, tip, parent, heavy)
