"""The summary of a conversation that a manager wrote, stored beside the conversation.

It is the only entry of a log of its own, in a namespace below the conversation's. It stands for all
messages up to a position. That those have not changed is told by the epoch of the conversation's
log or, if that has moved, by a chain of digests over the messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

from memalchemy._transactions import transaction_of
from memalchemy.codec.values import encode_value
from memalchemy.context.summarizers import ManagedMessages
from memalchemy.context.summary import Summary
from memalchemy.contracts import LogReading
from memalchemy.database import HostConnection
from memalchemy.log import Head
from memalchemy.messages import is_system, metadata_of
from memalchemy.state import Message
from memalchemy.threads import ThreadLog

SUMMARY = "summary"
"""Last part of the namespace of the log with the summary."""

GIVEN = "given"
"""Key in the metadata of a summary's message: an application gave the summary, or the one from
which it was made. Its value is the record that was given about messages stored elsewhere, if there
is one.
"""

SNAPSHOT_KEYS = frozenset({"summary", "summarized", "beginning"})
"""Keys of a snapshot that describe the summary; other keys are the application's."""

_SHORTEST_TTL = timedelta(milliseconds=1)


class LogMessage(NamedTuple):
    """Message of a conversation's log as it is stored, with its checksum."""

    position: int
    record: Any
    checksum: int


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """Messages that stand for the first messages of a conversation.

    Attributes:
        position: the last position that they stand for; -1 if they stand for none.
        messages: their records: the summary, and messages that the manager kept around it.
        epoch: the epoch of the conversation's log when they were written.
        digest: the digest of the messages that they stand for.
        checksum: the checksum of the message at *position*.
        extra: what a snapshot held besides, for the next snapshot.
    """

    position: int
    messages: list[dict[str, Any]]
    epoch: int
    digest: bytes
    checksum: int
    extra: dict[str, Any] = field(default_factory=dict)

    def cursor(self) -> LogReading:
        """Return the reading of somebody who has read the messages that the summary stands for."""
        return LogReading([], 0, self.epoch, self.position, False, self.checksum)

    @property
    def text(self) -> str | None:
        """Text of the summary, or ``None``."""
        summaries = (Summary.from_message(message) for message in self.messages)
        return next((one.text for one in summaries if one is not None), None)

    @property
    def is_given(self) -> bool:
        """``True`` if an application set or restored it, or what it was made from.

        Only such a summary tells what the messages of the log do not.
        """
        return self.position < 0 or any(
            GIVEN in _summary_fields(record) for record in self.messages
        )

    def given_before(self) -> dict[str, Any] | None:
        """Return the record of the summary of messages stored elsewhere that this one contains."""
        if self.position < 0:
            return self.messages[0] if self.messages else None
        found = (_summary_fields(record).get(GIVEN) for record in self.messages)
        return next((record for record in found if isinstance(record, dict)), None)

    def is_equivalent(self, other: StoredSummary) -> bool:
        """Return whether both say the same about the same messages, whatever the epoch."""
        same = replace(self, epoch=other.epoch) == other
        return same and encode_value(self.extra) == encode_value(other.extra)  # True equals 1


def split_at_summary(
    stored: StoredSummary | None, reading: LogReading, messages: list[LogMessage]
) -> tuple[StoredSummary | None, list[LogMessage]]:
    """Return the summary if it is still valid, and the messages that it does not stand for.

    Args:
        reading, messages: what a scan of the log from `StoredSummary.cursor` on gave.
    """
    if stored is None or not stored.messages or not reading.version:
        return None, messages
    if not reading.complete:
        return stored, messages  # nothing was removed or edited since
    covered = [one for one in messages if one.position <= stored.position]
    if _digest(b"", covered) == stored.digest:
        return stored, messages[len(covered) :]
    before = stored.given_before()
    if before is None:
        return None, messages
    # What it says of the messages is stale, what it was told of others is not.
    return replace(stored, position=-1, messages=[before], digest=b"", checksum=0), messages


def summary_to_store(
    managed: ManagedMessages,
    summary: StoredSummary | None,
    reading: LogReading,
    messages: Sequence[LogMessage],
    extra: dict[str, Any],
) -> StoredSummary | None:
    """Return the summary to store after a manager has run; ``None`` if there is nothing new.

    A digest that a manager wrote because its summariser failed is not stored: the next summary is
    to be made from the messages.

    Args:
        summary: the valid summary whose messages the manager was given first.
        messages: the messages that it was given after those.
    """
    prefix = managed.prefix
    before = 0 if summary is None else len(summary.messages)
    covered = [] if prefix is None else messages[: max(prefix.count - before, 0)]
    if prefix is not None and covered and prefix.summary.failure is None:
        records = [Message.of(message).to_record() for message in prefix.messages]
        return StoredSummary(
            position=covered[-1].position,
            messages=records if summary is None else _mark_if_given(records, summary),
            epoch=reading.epoch,
            digest=_digest(b"" if summary is None else summary.digest, covered),
            checksum=covered[-1].checksum,
            extra=extra,
        )
    if summary is not None and summary.epoch != reading.epoch:
        # The messages were compared with its digest, so that the next reader need not do so.
        return replace(summary, epoch=reading.epoch)
    return None


class SummaryLog:
    """The log with the summary of one conversation.

    Every write holds the lock of the conversation's log, so that the summary matches the messages
    that are there, and expires with them.
    """

    def __init__(self, conversation: ThreadLog, thread_id: str) -> None:
        self._conversation = conversation
        self._thread_id = thread_id
        namespace = (*conversation.namespace, SUMMARY)
        self.log = ThreadLog(conversation.db, namespace=namespace, index_text=False)

    async def read(self, connection: HostConnection | None) -> StoredSummary | None:
        """Return the stored summary, valid or not."""
        entries = await self.log.tail(self._thread_id, 1, connection=connection)
        return StoredSummary(**entries[0].value) if entries else None

    async def replace(
        self,
        new: StoredSummary,
        expected: StoredSummary | None,
        connection: HostConnection | None,
    ) -> bool:
        """Store *new* in place of *expected*, and return whether it was stored.

        It is not if another one was stored since, or if a message was removed or edited.
        """
        async with transaction_of(self.log.db, connection) as tx:
            head = await self._conversation.hold(self._thread_id, tx)
            if head is None or head.epoch != new.epoch or await self.read(tx) != expected:
                return False
            await self._write_summary(new, head.expires_at, tx)
            return True

    async def invalidate(self, connection: HostConnection) -> None:
        """Remove the summary, but not what a snapshot held besides."""
        head = await self._conversation.hold(self._thread_id, connection)
        stored = await self.read(connection)
        if head is not None and stored is not None and stored.extra:
            if stored.messages:
                empty = replace(stored, position=-1, messages=[], digest=b"", checksum=0)
                await self._write_summary(empty, head.expires_at, connection)
        elif stored is not None:
            await self.clear(connection)

    async def clear(self, connection: HostConnection) -> None:
        """Remove the summary and what a snapshot held besides."""
        await self.log.clear(self._thread_id, connection=connection)

    async def delete(self, connection: HostConnection) -> bool:
        """Delete the log and return whether it was there."""
        return await self.log.delete(self._thread_id, connection=connection)

    async def restore(self, snapshot: dict[str, Any], connection: HostConnection) -> None:
        """Store what a snapshot holds besides the messages, which are in the log already.

        Raises:
            TypeError: the summary is no text.
        """
        extra = {key: value for key, value in snapshot.items() if key not in SNAPSHOT_KEYS}
        text = snapshot.get("summary")
        if not isinstance(text, str | None):
            raise TypeError(f"summary is a text, not {type(text).__name__}")
        stored = await self.read(connection)
        if not text and not extra:
            if stored is not None:
                await self.clear(connection)
            return
        head = await self._locked_head(connection)
        reading, messages = await self._conversation.scan(
            self._thread_id, LogMessage, connection=connection
        )
        covered = messages[: snapshot.get("summarized") or 0]
        new = StoredSummary(
            position=covered[-1].position if covered else -1,
            messages=_given_records(covered, text, snapshot.get("beginning")) if text else [],
            epoch=reading.epoch,
            digest=_digest(b"", covered),
            checksum=covered[-1].checksum if covered else 0,
            extra=extra,
        )
        if stored is None or not stored.is_equivalent(new):
            await self._write_summary(new, head.expires_at, connection)

    async def _write_summary(
        self, new: StoredSummary, expires_at: datetime | None, connection: HostConnection
    ) -> None:
        ttl = None if expires_at is None else max(expires_at - datetime.now(UTC), _SHORTEST_TTL)
        log = ThreadLog(self.log.db, namespace=self.log.namespace, index_text=False, ttl=ttl)
        record = {one.name: getattr(new, one.name) for one in fields(new)}
        await log.replace_suffix(self._thread_id, 0, record, connection=connection)

    async def _locked_head(self, connection: HostConnection) -> Head:
        """Return the locked head of the conversation's log, which is created if need be."""
        head = await self._conversation.hold(self._thread_id, connection)
        if head is None:
            # A head comes into being with a first message, and stays when that is removed.
            empty = Message.system("").to_record()
            first = await self._conversation.append(self._thread_id, empty, connection=connection)
            await self._conversation.remove(self._thread_id, first, connection=connection)
            head = await self._conversation.hold(self._thread_id, connection)
        assert head is not None
        return head


def snapshot_parts(
    stored: StoredSummary | None,
    reading: LogReading,
    messages: list[LogMessage],
) -> dict[str, Any]:
    """Return what a snapshot holds besides the messages: the summary, if it is still valid."""
    valid, _ = split_at_summary(stored, reading, messages)
    covered = 0 if valid is None else sum(one.position <= valid.position for one in messages)
    text = None if valid is None else valid.text
    parts: dict[str, Any] = {"summary": text, "summarized": covered}
    if valid is not None and len(valid.messages) > 1:
        parts["beginning"] = [_without_mark(record) for record in valid.messages]
    return parts | (stored.extra if stored is not None and reading.version else {})


def has_no_summary(snapshot: dict[str, Any]) -> bool:
    """Return whether a snapshot holds nothing besides the messages that has to be stored."""
    return snapshot.get("summary") in (None, "") and not snapshot.keys() - SNAPSHOT_KEYS


def _given_records(covered: Sequence[LogMessage], text: str, given: Any) -> list[dict[str, Any]]:
    """Return the records that an application gives in place of the *covered* messages.

    They are those *given* if their summary is *text*; otherwise the system messages among the
    covered ones, which a summary does not replace, and the summary.
    """
    if given is not None:
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            raise TypeError("beginning is a list of messages, as a snapshot gives it")
        messages = [Message.of(one) for one in given]
        summaries = [one for one in map(Summary.from_message, messages) if one is not None]
        if summaries and summaries[0].text == text:
            return _with_mark([message.to_record() for message in messages], True)
    kept = [one.record for one in covered if is_system(one.record)]
    summary = Summary(text, len(covered) - len(kept)).to_message([Message.system("")])
    return [*kept, *_with_mark([summary.to_record()], True)]


def _mark_if_given(records: list[dict[str, Any]], before: StoredSummary) -> list[dict[str, Any]]:
    """Return the records of a summary that was made from *before*, marked if that was given."""
    return _with_mark(records, before.given_before() or True) if before.is_given else records


def _with_mark(records: list[dict[str, Any]], mark: Any) -> list[dict[str, Any]]:
    """Return the records, with *mark* in the metadata of those that tell a summary."""
    return [
        record | {"metadata": {**record["metadata"], SUMMARY: {**told, GIVEN: mark}}}
        if (told := _summary_fields(record))
        else record
        for record in records
    ]


def _without_mark(record: dict[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in _summary_fields(record).items() if name != GIVEN}
    return record | {"metadata": {**record["metadata"], SUMMARY: told}} if told else record


def _summary_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of the summary in the record of its message; empty for other records."""
    told = metadata_of(record).get(SUMMARY)
    if not isinstance(told, dict) or Summary.from_message(record) is None:
        return {}
    return told


def _digest(before: bytes, messages: Sequence[LogMessage]) -> bytes:
    """Return the digest of messages, chained to *before*, that of the messages before them."""
    digest = before
    for one in messages:
        content = one.position.to_bytes(8, "big") + encode_value(one.record)
        digest = blake2b(digest + content, digest_size=16).digest()
    return digest
