"""`RetainedCheckpointer`: a checkpointer whose states keep no message beyond its age.

The states' messages are under ``messages``. Which of them go is in ``message_times`` and in the
managers; whole checkpoints are let go of by `Retention`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from memalchemy import _forks
from memalchemy.checkpoints import Checkpointer
from memalchemy.checkpoints.skip_deltas import MAX_CHAIN_DEPTH
from memalchemy.codec.values import encode_state, frozen
from memalchemy.contracts import Progress, Retention, Seconds, to_lifetime
from memalchemy.database import Database, HostConnection
from memalchemy.errors import Conflict, NotSerialisable, ThreadDeleted
from memalchemy.events import operation
from memalchemy.log.listing import all_threads
from memalchemy.mapping import Fallback, to_mapping
from memalchemy.memory.managers import SlidingWindowManager
from memalchemy.memory.managers.making import replaced
from memalchemy.memory.message_times import STORED_AT, message_time, stamped, trim_messages
from memalchemy.memory.states import with_messages
from memalchemy.messages import metadata_of, role_of

TRIES = 20
REMEMBERED = 256
"""Threads whose messages' times one object remembers."""

Times = dict[bytes, list[datetime]]
"""When what was said was first saved, by its mark: as often as it was said, in that order."""


class RetainedCheckpointer(Checkpointer):
    """A `Checkpointer` that takes old messages out of the states it saves.

    Each message is given the time of its first save, in its metadata as ``stored_at``, and goes
    from the next save after *max_age*; or from the start of the messages, where there are more than
    *keep_messages*. Exchanges and tool calls stay whole, system messages stay. What has a time of
    its own, ``occurred_at``, keeps it. An application that does not carry the stamps on loses none:
    they are found again by what the messages say.

    States without ``messages`` are saved as they are. `Retention` lets whole checkpoints go, and is
    of use here too: earlier checkpoints keep the messages they were saved with.

    Args:
        max_age: how long a message is kept, in seconds or as a timedelta; ``None`` for ever.
        keep_messages: how many messages a state keeps, as by `SlidingWindowManager`.
        clock: gives the time; an aware datetime.

    The others are those of `Checkpointer`.
    """

    def __init__(
        self,
        db: Database,
        max_age: Seconds | None = None,
        *,
        keep_messages: int | None = None,
        clock: Callable[[], datetime] | None = None,
        namespace: Iterable[str] = (),
        state_type: Any | None = None,
        index_text: bool = True,
        retention: Retention | None = None,
        ttl: Seconds | None = None,
        max_chain_depth: int = MAX_CHAIN_DEPTH,
        compression_level: int = 3,
    ) -> None:
        super().__init__(
            db,
            namespace=namespace,
            state_type=state_type,
            index_text=index_text,
            retention=retention,
            ttl=ttl,
            max_chain_depth=max_chain_depth,
            compression_level=compression_level,
        )
        self._max_age = None if max_age is None else to_lifetime(max_age, "max_age")
        self._window = None if keep_messages is None else SlidingWindowManager(keep_messages)
        self._clock = clock or _now
        self._times: OrderedDict[tuple[str, str], Times] = OrderedDict()
        self._lock = _forks.lock()

    def __repr__(self) -> str:
        return f"RetainedCheckpointer({self.db!r}, {self._max_age!r}, namespace={self.namespace!r})"

    async def purge_messages(
        self,
        older_than: Seconds,
        *,
        thread_id: str | None = None,
        history: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> int:
        """Take messages older than that out of the newest state, of one thread or of all; how many.

        For threads that nobody saves any more. A state that has some is saved anew without them,
        with its metadata and ``"source": "purge_messages"``; what a message's age is, and what
        stays whole, is as in `save`, and a message without a time is as old as the checkpoint.
        What others save meanwhile is not lost. Interrupted, run it again.

        Args:
            history: also delete the thread's earlier checkpoints where a message was taken out, and
                what is stored of them.
            progress: called after every thread; ``removed`` counts messages.
        """
        age = to_lifetime(older_than, "older_than")
        tenant = self.db.tenant
        with operation("checkpoint.purge", tenant=tenant, thread_id=thread_id) as event:
            threads = [thread_id] if thread_id is not None else await all_threads(self.db)
            removed = 0
            for done, one in enumerate(threads, 1):
                gone = await self._purge(one, self._clock() - age)
                if gone and history:
                    await self.prune(one, keep_last=1)
                    await self.rewrite(one)
                removed += gone
                event.details["removed"] = removed
                if progress is not None:
                    progress(Progress(done, len(threads), removed=removed))
        return removed

    async def _purge(self, thread_id: str, cutoff: datetime) -> int:
        for _ in range(TRIES):
            newest = await self._info(thread_id, None, None)
            if newest is None:
                return 0
            state = await self._stored(thread_id, newest.checkpoint_id, None)
            before = _messages(state)
            left = trim_messages(before, cutoff, unknown=newest.created_at)
            if state is None or len(left) == len(before):
                return 0
            try:
                await self.save(
                    with_messages(state, left),
                    thread_id,
                    metadata={**newest.metadata, "source": "purge_messages"},
                    expected_parent=newest.checkpoint_id,
                )
            except (Conflict, ThreadDeleted):
                continue  # somebody saved since, or deleted it
            return len(before) - len(left)
        raise Conflict(
            f"others saved thread {thread_id!r} {TRIES} times while this was tried; it is as it was"
        )

    async def _mapping_of(
        self, state: Any, thread_id: str, connection: HostConnection | None
    ) -> tuple[Mapping[str, Any], Fallback | None]:
        mapping, fallback = to_mapping(state)
        if not _messages(mapping):
            return mapping, fallback
        with self._lock:
            known = (self.db.tenant, thread_id) in self._times
        if not known:  # the caller may change its objects while the times are read
            mapping = {key: frozen(value) for key, value in mapping.items()}
        messages = _messages(mapping)
        messages = await self._stamped(messages, thread_id, fallback, connection)
        if self._max_age is not None:
            messages = trim_messages(messages, self._clock() - self._max_age)
        if self._window is not None:
            messages = self._window.apply(messages)
        return with_messages(mapping, messages), fallback

    async def _stamped(
        self,
        messages: list[Any],
        thread_id: str,
        fallback: Fallback | None,
        connection: HostConnection | None,
    ) -> list[Any]:
        """The messages, each with its time: its own, that of its first save, or now."""
        if all(message_time(message) is not None for message in messages):
            return messages
        try:
            marks = [_mark(message, fallback) for message in messages]
        except NotSerialisable:
            return messages  # the save says where in the state that is
        known = await self._known(thread_id, connection)
        now, times, found = self._clock(), Times(), []
        for message, mark in zip(messages, marks, strict=True):
            seen = times.setdefault(mark, [])
            before = known.get(mark, ())
            first = before[len(seen)] if len(seen) < len(before) else now
            seen.append(message_time(message) or first)
            found.append(stamped(message, first))
        self._remember(thread_id, times)
        return found

    async def _known(self, thread_id: str, connection: HostConnection | None) -> Times:
        """The times of messages that were saved before; read once."""
        with self._lock:
            known = self._times.get((self.db.tenant, thread_id))
        if known is None:
            known = {}
            for message in _messages(await self._stored(thread_id, None, connection)):
                if (time := message_time(message)) is not None:
                    known.setdefault(_mark(message, None), []).append(time)
        return known

    def _remember(self, thread_id: str, times: Times) -> None:
        with self._lock:
            key = self.db.tenant, thread_id
            self._times[key] = times
            self._times.move_to_end(key)
            while len(self._times) > REMEMBERED:
                self._times.popitem(last=False)

    async def _stored(
        self, thread_id: str, checkpoint_id: str | None, connection: HostConnection | None
    ) -> Mapping[str, Any] | None:
        """A state as the mapping that is stored."""
        plain = Checkpointer(self.db, namespace=self.namespace)
        state: Mapping[str, Any] | None = await plain.load(
            thread_id, checkpoint_id, connection=connection
        )
        return state


def _messages(mapping: Mapping[str, Any] | None) -> list[Any]:
    """The messages of a state; none if what it has under that name is something else."""
    found = (mapping or {}).get("messages")
    if isinstance(found, (list, tuple)) and all(map(role_of, found)):
        return list(found)
    return []


def _mark(message: Any, fallback: Fallback | None) -> bytes:
    """What it says, whenever it was stored."""
    bare = replaced(message, "metadata", None)
    told = {name: value for name, value in metadata_of(message).items() if name != STORED_AT}
    if isinstance(bare, dict):
        del bare["metadata"]
    parts = encode_state({"said": bare, "told": told}, fallback)
    return blake2b(b"\0".join(parts.values()), digest_size=16).digest()


def _now() -> datetime:
    return datetime.now(UTC)
