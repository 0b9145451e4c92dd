"""The beginning of a conversation as a manager has summarised it, kept beside the conversation.

A `Beginning` is what stands for all messages up to a position: the summary, and messages that the
manager kept before or around it. It lies as the one entry of a log of its own, in a namespace below
the conversation's. Whether the messages that it stands for are still what they were is told by the
log's epoch, and, if that has moved, by a chain of digests over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

from pydantic import PrivateAttr

from memalchemy.codec.values import encode_value
from memalchemy.contracts import LogReading
from memalchemy.database import Database, HostConnection
from memalchemy.log import Head
from memalchemy.memory.managers import ConversationManager
from memalchemy.memory.managers.summaries import Summary
from memalchemy.memory.records import message_of
from memalchemy.messages import is_system
from memalchemy.state import Message
from memalchemy.threads import ThreadLog

SUMMARY = "summary"
"""The last part of the namespace where it lies."""

TOLD = frozenset({"summary", "summarized", "beginning"})
"""What a snapshot tells of it."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """``until`` is the last position that it stands for, ``messages`` the records in its place.

    ``mark`` is the checksum that the message at ``until`` was stored with.
    """

    until: int
    messages: list[dict[str, Any]]
    epoch: int
    digest: bytes
    mark: int
    rest: dict[str, Any] = field(default_factory=dict)
    """What a snapshot said besides, which is kept for the next one."""

    def seen(self) -> LogReading:
        """What somebody has read who knows this: all up to it."""
        return LogReading([], 0, self.epoch, self.until, False, self.mark)

    @property
    def text(self) -> str | None:
        """That of its summary."""
        return None if self.summary is None else self.summary.text

    @property
    def summary(self) -> Summary | None:
        """The summary among its messages."""
        found = (Summary.read(message) for message in self.messages)
        return next((one for one in found if one is not None), None)


class Said(NamedTuple):
    """A message of the log, as it is stored."""

    position: int
    value: Any
    mark: int
    """The checksum that it was stored with."""


class Placed(Message):
    """A message that knows its position through a manager: copies that a manager makes, too.

    0 is a message of the beginning; ``None`` one that the manager has written itself.
    """

    _position: int | None = PrivateAttr(default=None)

    @classmethod
    def at(cls, position: int, message: Message) -> Placed:
        made = cls.model_construct(**message.__dict__, **(message.model_extra or {}))
        made._position = position
        return made


_MOMENT = timedelta(milliseconds=1)


def within(
    db: Database, connection: HostConnection | None
) -> AbstractAsyncContextManager[HostConnection]:
    """The host's transaction, or one of its own."""
    return db.transaction() if connection is None else nullcontext(connection)


class Beginnings:
    """Where the beginning of one conversation lies.

    Whoever writes it holds the conversation's log, so that it rests on what is there, and ends with
    it.
    """

    def __init__(self, log: ThreadLog, thread_id: str) -> None:
        self._said = log
        self.log = ThreadLog(log.db, namespace=(*log.namespace, SUMMARY), index_text=False)
        self._thread_id = thread_id

    async def read(self, connection: HostConnection | None) -> Beginning | None:
        """What was written last."""
        entries = await self.log.tail(self._thread_id, 1, connection=connection)
        return Beginning(**entries[0].value) if entries else None

    async def keep(
        self, new: Beginning, before: Beginning | None, connection: HostConnection | None
    ) -> bool:
        """Keep *new*, which was made from *before*; not if a message that it stands for was
        changed since, or somebody else has written one.
        """
        async with within(self.log.db, connection) as tx:
            head = await self._said.hold(self._thread_id, tx)
            if head is None or head.epoch != new.epoch or await self.read(tx) != before:
                return False
            await self._write(new, head.expires_at, tx)
            return True

    async def forget_summary(self, connection: HostConnection) -> None:
        """Keep nothing of what was said; what a snapshot said besides stays."""
        head = await self._said.hold(self._thread_id, connection)
        known = await self.read(connection)
        if head is not None and known is not None and known.rest:
            if known.messages:
                bare = replace(known, until=-1, messages=[], digest=b"", mark=0)
                await self._write(bare, head.expires_at, connection)
        elif known is not None:
            await self.clear(connection)

    async def clear(self, connection: HostConnection) -> None:
        """Keep none."""
        await self.log.clear(self._thread_id, connection=connection)

    async def delete(self, connection: HostConnection) -> bool:
        """Keep none, nor the log; whether there was one."""
        return await self.log.delete(self._thread_id, connection=connection)

    async def _write(
        self, new: Beginning, expires_at: datetime | None, connection: HostConnection
    ) -> None:
        record = {
            "until": new.until,
            "messages": new.messages,
            "epoch": new.epoch,
            "digest": new.digest,
            "mark": new.mark,
            "rest": new.rest,
        }
        left = None if expires_at is None else max(expires_at - datetime.now(UTC), _MOMENT)
        log = ThreadLog(self.log.db, namespace=self.log.namespace, index_text=False, ttl=left)
        await log.replace_suffix(self._thread_id, 0, record, connection=connection)

    @staticmethod
    def is_empty(rest: dict[str, Any]) -> bool:
        """Whether a snapshot says nothing besides the messages that `restore` would keep."""
        return rest.get("summary") in (None, "") and not rest.keys() - TOLD

    @staticmethod
    def still_good(
        known: Beginning | None, reading: LogReading, said: list[Said]
    ) -> tuple[Beginning | None, list[Said]]:
        """*known*, if it stands for what is there, and what was said beyond it; else *said*, all.

        *said* is what one reads who has `Beginning.seen` it.
        """
        if known is None or not known.messages or not reading.version:
            return None, said
        if not reading.complete:
            return known, said  # nothing was taken back since
        covered = [one for one in said if one.position <= known.until]
        if _chained(b"", covered) != known.digest:
            return None, said
        return known, said[len(covered) :]

    @staticmethod
    def told(
        known: Beginning | None,
        good: Beginning | None,
        reading: LogReading,
        whole: Sequence[Said],
    ) -> dict[str, Any]:
        """What a snapshot says besides the messages."""
        covered = 0 if good is None else sum(e.position <= good.until for e in whole)
        text = None if good is None else good.text
        found: dict[str, Any] = {"summary": text, "summarized": covered}
        if good is not None and len(good.messages) > 1:
            found["beginning"] = good.messages
        return found | (known.rest if known is not None and reading.version else {})

    async def restore(self, rest: dict[str, Any], connection: HostConnection) -> None:
        """Keep what a snapshot said besides the messages, which are in the log already."""
        more = {k: v for k, v in rest.items() if k not in TOLD}
        text = rest.get("summary")
        if not isinstance(text, str | None):
            raise TypeError(f"summary is a text, not {type(text).__name__}")
        known = await self.read(connection)
        if not text and not more:
            if known is not None:
                await self.clear(connection)
            return
        head = await self._begun(connection)
        reading, said = await self._said.scan(self._thread_id, Said, connection=connection)
        covered = said[: rest.get("summarized") or 0]
        messages = _in_place_of(covered, text, rest.get("beginning")) if text else []
        until = covered[-1].position if covered else -1
        mark = covered[-1].mark if covered else 0
        new = Beginning(until, messages, reading.epoch, _chained(b"", covered), mark, more)
        if known is not None and _stands_alike(known, new):
            return
        await self._write(new, head.expires_at, connection)

    async def _begun(self, connection: HostConnection) -> Head:
        """The conversation's head. A log that is not there is begun, without an entry."""
        head = await self._said.hold(self._thread_id, connection)
        if head is None:
            empty = Message.system("").to_record()
            first = await self._said.append(self._thread_id, empty, connection=connection)
            await self._said.remove(self._thread_id, first, connection=connection)
            head = await self._said.hold(self._thread_id, connection)
        assert head is not None
        return head


def _stands_alike(one: Beginning, other: Beginning) -> bool:
    """Whether both say the same of the same messages, and besides."""
    same = replace(one, epoch=other.epoch) == other
    return same and encode_value(one.rest) == encode_value(other.rest)  # True is not 1


def _in_place_of(covered: Sequence[Said], text: str, given: Any) -> list[dict[str, Any]]:
    """The records that stand for messages: those *given* if their summary is *text*; else the
    system messages among them, which a summary does not replace, and the summary.
    """
    if given is not None:
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            raise TypeError("beginning is a list of messages, as a snapshot gives it")
        messages = [Message.of(one) for one in given]
        summaries = [one for one in map(Summary.read, messages) if one is not None]
        if summaries and summaries[0].text == text:
            return [message.to_record() for message in messages]
    kept = [one.value for one in covered if is_system(one.value)]
    told = Summary(text, len(covered) - len(kept)).message([Message.system("")])
    return [*kept, told.to_record()]


async def managed(
    manager: ConversationManager,
    known: Beginning | None,
    entries: Sequence[Said],
    reading: LogReading,
    rest: dict[str, Any],
) -> tuple[list[Message], Beginning | None]:
    """What *manager* makes of a conversation, and the beginning that is to be kept, if it is new.

    *entries* are those beyond *known*; *rest* is what a snapshot said besides. A digest that a
    manager wrote because its summariser failed is not kept: the next summary shall be made from the
    messages.
    """
    first = [] if known is None else [Placed.at(0, message_of(m)) for m in known.messages]
    said = [Placed.at(entry.position, message_of(entry.value)) for entry in entries]
    result = await manager.async_apply([*first, *said])
    plain = [_plain(message) for message in result]
    places = [message._position if isinstance(message, Placed) else None for message in result]
    until = _summarised(plain, places, entries)
    if until is not None:
        covered = [entry for entry in entries if entry.position <= until]
        digest = _chained(b"" if known is None else known.digest, covered)
        end = next((at for at, p in enumerate(places) if (p or 0) > until), len(places))
        records = [message.to_record() for message in plain[:end]]
        mark = covered[-1].mark
        return plain, Beginning(until, records, reading.epoch, digest, mark, rest)
    if known is not None and known.epoch != reading.epoch:
        # It was held against the messages, and is still good.
        return plain, replace(known, epoch=reading.epoch)
    return plain, None


def _summarised(
    result: Sequence[Message], places: Sequence[int | None], entries: Sequence[Said]
) -> int | None:
    """The last position that a new summary in *result* stands for; ``None`` without one."""
    new = None
    for at, (message, place) in enumerate(zip(result, places, strict=True)):
        summary = Summary.read(message) if place is None else None
        if summary is not None:
            if summary.failure is not None:
                return None
            new = at
    if new is None:
        return None
    after = [place for place in places[new:] if place]
    stays = set(places)
    gone = [
        entry.position
        for entry in entries
        if entry.position not in stays and (not after or entry.position < min(after))
    ]
    return max(gone, default=None)


def _plain(message: Any) -> Message:
    """A message without its position, as anybody's."""
    if not isinstance(message, Placed):
        return Message.of(message)
    return Message.model_construct(**message.__dict__, **(message.model_extra or {}))


def _chained(digest: bytes, entries: Sequence[Said]) -> bytes:
    """The digest of what was before and of *entries*: the same in whatever parts it is made."""
    for entry in entries:
        told = entry.position.to_bytes(8, "big") + encode_value(entry.value)
        digest = blake2b(digest + told, digest_size=16).digest()
    return digest
