"""`RetainedCheckpointer`: a checkpointer whose states keep no message beyond its age.

Whole checkpoints are removed by `Retention`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Any, Unpack, overload

from memalchemy._cache import BoundedCache
from memalchemy._retry import retry_on_conflict
from memalchemy.checkpoints import Checkpointer
from memalchemy.checkpoints.checkpointer import CheckpointerOptions
from memalchemy.codec.values import encode_state, frozen
from memalchemy.context.message_age import STORED_AT, message_time, stamp_message, trim_messages
from memalchemy.context.windows import SlidingWindowManager
from memalchemy.contracts import Progress, Seconds, State, to_lifetime
from memalchemy.database import Database, HostConnection
from memalchemy.errors import Conflict, NotSerialisable
from memalchemy.events import operation
from memalchemy.log.listing import all_threads
from memalchemy.messages import copy_with, metadata_of, role_of, with_messages
from memalchemy.protection.proven_jobs import Damage
from memalchemy.state_conversion import Fallback

CACHED_THREADS = 256
"""Threads whose message times one object caches."""

MessageTimes = dict[bytes, list[datetime]]
"""Times at which messages were first saved, by the digests of their contents; a message that was
said several times has several.
"""


class RetainedCheckpointer(Checkpointer[State]):
    """`Checkpointer` that removes old messages from the states that it saves.

    States have their messages under ``messages``; others are saved as they are. Each message gets
    the time of its first save, as ``stored_at`` in its metadata. The first save after *max_age*
    removes it, with its exchange as a whole, and a save with more than *keep_messages* messages
    removes the oldest. No answer loses its question, no tool call its result; system messages stay.
    A message that has a time, ``occurred_at``, keeps it. If an application drops the times from its
    messages, they are found again by the content of the messages.

    Earlier checkpoints keep the messages that they were saved with, so `Retention` is useful here,
    too.

    Args:
        max_age: how long a message is kept, in seconds or as a timedelta; ``None`` for ever.
        keep_messages: maximum number of messages of a state, as of `SlidingWindowManager`.
        clock: function that returns the time, an aware datetime.
        settings: the other arguments of `Checkpointer`.
    """

    @overload
    def __init__(
        self: RetainedCheckpointer[dict[str, Any]],
        db: Database,
        max_age: Seconds | None = None,
        *,
        keep_messages: int | None = None,
        clock: Callable[[], datetime] | None = None,
        state_type: None = None,
        **settings: Unpack[CheckpointerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        db: Database,
        max_age: Seconds | None = None,
        *,
        keep_messages: int | None = None,
        clock: Callable[[], datetime] | None = None,
        state_type: type[State] | Callable[[dict[str, Any]], State],
        **settings: Unpack[CheckpointerOptions],
    ) -> None: ...
    def __init__(
        self,
        db: Database,
        max_age: Seconds | None = None,
        *,
        keep_messages: int | None = None,
        clock: Callable[[], datetime] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(db, **settings)
        self._max_age = None if max_age is None else to_lifetime(max_age, "max_age")
        self._window = None if keep_messages is None else SlidingWindowManager(keep_messages)
        self._clock = clock or partial(datetime.now, UTC)
        self._times: BoundedCache[tuple[str, str], MessageTimes] = BoundedCache(CACHED_THREADS)
        # Loads states as the mappings that are stored, whatever the state_type.
        self._stored_states = Checkpointer(db, namespace=self.namespace)

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
        """Remove old messages from the newest state of one thread or of all; return how many.

        It is for threads that nobody saves any more. A state with old messages is saved anew
        without them, with its metadata and ``"source": "purge_messages"``. The age of a message,
        and what stays whole, are as in `save`; a message without a time is as old as the
        checkpoint. What others save meanwhile is not lost. An interrupted purge can be run again.

        Args:
            history: also delete the earlier checkpoints of each thread that lost a message, and
                rewrite what is stored of them.
            progress: called after every thread; ``removed`` counts messages.

        Raises:
            Corrupt: threads cannot be read or proven; they were left, and the others purged.
        """
        age = to_lifetime(older_than, "older_than")
        with operation("checkpoint.purge", tenant=self.db.tenant, thread_id=thread_id) as event:
            removed, damage = 0, Damage()
            threads = (
                [thread_id] if thread_id is not None else await all_threads(self.db, damage=damage)
            )
            for done, one in enumerate(threads, 1):
                # A head that does not name its newest checkpoint is a conflict for ever.
                with damage.noted(Conflict) if thread_id is None else nullcontext():
                    attempt = partial(self._delete_old_messages, one, self._clock() - age)
                    gone = await retry_on_conflict(attempt, f"thread {one!r}")
                    removed += gone
                    if gone and history:
                        await self.prune(one, keep_last=1)
                        await self.rewrite(one)
                event.details["removed"] = removed
                if progress is not None:
                    progress(Progress(done, len(threads), removed=removed))
            damage.raise_if_any(f"{removed:,} messages were removed")
        return removed

    async def _delete_old_messages(self, thread_id: str, cutoff: datetime) -> int:
        newest = await self.get_metadata(thread_id)
        if newest is None:
            return 0
        state = await self._stored_states.load(thread_id, newest["checkpoint_id"])
        before = _messages_in(state)
        left = trim_messages(before, cutoff, unknown=newest["created_at"])
        if state is None or len(left) == len(before):
            return 0
        await self.save(
            with_messages(state, left),
            thread_id,
            metadata={**newest["metadata"], "source": "purge_messages"},
            expected_parent=newest["checkpoint_id"],
        )
        return len(before) - len(left)

    async def _mapping_of(
        self, state: Any, thread_id: str, connection: HostConnection | None
    ) -> tuple[Mapping[str, Any], Fallback | None]:
        """Stamp and trim the messages of a state before it is saved."""
        mapping, fallback = await super()._mapping_of(state, thread_id, connection)
        if not _messages_in(mapping):
            return mapping, fallback
        if (self.db.tenant, thread_id) not in self._times:
            # The caller may change its objects while the times are read from the database.
            mapping = {key: frozen(value) for key, value in mapping.items()}
        messages = await self._stamp_messages(
            _messages_in(mapping), thread_id, fallback, connection
        )
        if self._max_age is not None:
            messages = trim_messages(messages, self._clock() - self._max_age)
        if self._window is not None:
            messages = self._window.apply(messages)
        return with_messages(mapping, messages), fallback

    async def _stamp_messages(
        self,
        messages: list[Any],
        thread_id: str,
        fallback: Fallback | None,
        connection: HostConnection | None,
    ) -> list[Any]:
        """Return the messages with their times: their own, that of their first save, or now."""
        if all(message_time(message) is not None for message in messages):
            return messages
        try:
            digests = [_content_digest(message, fallback) for message in messages]
        except NotSerialisable:
            return messages  # the save raises it, with the path within the state
        known = await self._known_times(thread_id, connection)
        now, times, stamped = self._clock(), MessageTimes(), []
        for message, digest in zip(messages, digests, strict=True):
            seen = times.setdefault(digest, [])
            earlier = known.get(digest, ())
            first = earlier[len(seen)] if len(seen) < len(earlier) else now
            seen.append(message_time(message) or first)
            stamped.append(stamp_message(message, first))
        self._times.put((self.db.tenant, thread_id), times)
        return stamped

    async def _known_times(self, thread_id: str, connection: HostConnection | None) -> MessageTimes:
        """Return the times of the messages in the newest state; they are read once."""
        known = self._times.get((self.db.tenant, thread_id))
        if known is None:
            known = {}
            state = await self._stored_states.load(thread_id, connection=connection)
            for message in _messages_in(state):
                if (time := message_time(message)) is not None:
                    known.setdefault(_content_digest(message, None), []).append(time)
        return known


def _messages_in(mapping: Mapping[str, Any] | None) -> list[Any]:
    """Return the messages of a state; ``[]`` if it holds something else under that name."""
    found = (mapping or {}).get("messages")
    if isinstance(found, (list, tuple)) and all(map(role_of, found)):
        return list(found)
    return []


def _content_digest(message: Any, fallback: Fallback | None) -> bytes:
    """Return a digest of what a message says, whenever it was stored."""
    bare = copy_with(message, "metadata", None)
    metadata = {name: value for name, value in metadata_of(message).items() if name != STORED_AT}
    if isinstance(bare, dict):
        del bare["metadata"]
    parts = encode_state({"said": bare, "told": metadata}, fallback)
    return blake2b(b"\0".join(parts.values()), digest_size=16).digest()
