"""`Conversation`: the messages of one thread, kept in its log, and what of them goes to the model.

A message is an entry. Where the manager writes a summary, that is kept in a log beside it, with the
position up to which it stands for the messages, so that it is made once; the log stays whole.
Retention by age is in ``purging``, calls of tools that wait for their results are in ``exchanges``,
whole histories are the ``conversation_store``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from memalchemy.contracts import UNSET, Entry, LogReading, Seconds, Unset
from memalchemy.database import Database, HostConnection, check_database, off_loop
from memalchemy.errors import Conflict, MemalchemyError, ThreadDeleted
from memalchemy.events import Event, publish
from memalchemy.memory.exchanges import Exchanging
from memalchemy.memory.managers import ConversationManager
from memalchemy.memory.managers.folding import FoldingManager
from memalchemy.memory.purging import purge_messages
from memalchemy.memory.recalling import Known, forget, recall, remember
from memalchemy.memory.records import (
    message_of,
    messages_of_held,
    record_of,
    records_of_held,
    same_until,
)
from memalchemy.memory.summarised import Beginning, Beginnings, Said, managed, within
from memalchemy.messages import is_user_turn, role_of
from memalchemy.state import Message, Role
from memalchemy.threads import ThreadLog

TRIES = 20
NAMESPACE = ("conversation",)


class Conversation(Exchanging):
    """The messages of a thread, in the order in which they were said, and a policy over them.

    Every object on the same thread, in whatever process, sees the same messages, and two that add
    at once lose none. Adding stores what is new and reads nothing; reading what some object of this
    process has read before asks the database for what is new, and whether the rest is as it was.

    Args:
        db: where to keep it.
        thread_id: whose conversation.
        manager: what of it `messages` gives; everything without one.
        namespace: keeps several conversations of one thread apart.
        index_text: make the words of messages findable, with ``conversation.log.search``.
        ttl: how long it lives after its last message, in seconds or as a timedelta.

    ``log`` is the `ThreadLog` below it, with searching, forking and the rest. Every method takes
    ``connection=``, an `AsyncConnection` or `AsyncSession` of the host.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        db: Database,
        thread_id: str,
        *,
        manager: ConversationManager | None = None,
        namespace: Iterable[str] = NAMESPACE,
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        check_database(db, self)
        if manager is not None and not isinstance(manager, ConversationManager):
            what = manager.__name__ if isinstance(manager, type) else type(manager).__name__
            raise TypeError(
                f"manager is a ConversationManager, as SlidingWindowManager(window_size=20), "
                f"not {what}"
            )
        self.log = ThreadLog(db, namespace=namespace, index_text=index_text, ttl=ttl)
        self._opened_in(self.log, ttl)
        self.thread_id = thread_id
        self.manager = manager
        self._beginnings = Beginnings(self.log, thread_id)

    def __repr__(self) -> str:
        return f"Conversation({self.log.db!r}, {self.thread_id!r}, manager={self.manager!r})"

    async def add(
        self,
        *messages: Any,
        keys: Sequence[str | None] | str | None = None,
        occurred_at: datetime | Sequence[datetime] | None = None,
        expected_version: int | Unset = UNSET,
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Add messages, all or none, and return their positions.

        Each is a `Message`, a dict in OpenAI's format, or an object with role and content; a list
        of them, too. Two texts are what the user said and what the assistant answered, and nothing
        is added if both are empty.

        Args:
            keys: for each message a key, or ``None``; one whose key is there is not added again.
            occurred_at: when it was said, for all or for each; now, if not given.
            expected_version: add only if the log is at this version.

        Raises:
            TypeError, ValueError: one of them is not a message; nothing was added.
            NotSerialisable, TooLarge, Conflict, ThreadDeleted: as `ThreadLog.append`.
        """
        records = [message.to_record() for message in messages_of(messages)]
        positions = await self.log.append(
            self.thread_id,
            records,
            keys=keys,
            occurred_at=occurred_at,
            expected_version=expected_version,
            connection=connection,
        )
        if positions:
            details: dict[str, object] = {"messages": len(records)}
            tenant = self.log.db.tenant
            publish(Event("memory.conversation.added", tenant, self.thread_id, details=details))
        return positions

    async def messages(self, *, connection: HostConnection | None = None) -> list[Message]:
        """What goes to the model: all messages, or what the manager makes of them, oldest first.

        A summary that a manager writes is kept, and not written again by any process until more
        has been said than it allows; or until a message that it stands for was changed.

        Raises:
            Corrupt: what is stored does not match its checksum.
        """
        if self.manager is None:
            return await self.history(connection=connection)
        known: Beginning | None = None
        if isinstance(self.manager, FoldingManager):
            known = await self._beginnings.read(connection)
        reading, said = await self.log.scan(
            self.thread_id,
            Said,
            None if known is None else known.seen(),
            connection=connection,
        )
        rest = {} if known is None else known.rest
        good, said = self._beginnings.still_good(known, reading, said)
        result, new = await managed(self.manager, good, said, reading, rest)
        if new is not None and not self.log.db.read_only:
            # The answer does not wait on whether this works: the next one that reads tries again.
            with suppress(*(() if connection is not None else (MemalchemyError,))):
                await self._beginnings.keep(new, known, connection)
        return result

    async def history(
        self,
        *,
        after: int | None = None,
        limit: int | None = None,
        connection: HostConnection | None = None,
    ) -> list[Message]:
        """All messages as they were added, whatever the manager; the newest *limit*, or those
        beyond a position.
        """
        if limit is not None:
            entries = await self.log.tail(self.thread_id, limit, connection=connection)
            return [message_of(e.value) for e in entries if after is None or e.position > after]
        if after is not None:
            entries = await self.log.range(self.thread_id, after=after, connection=connection)
            return [message_of(entry.value) for entry in entries]
        known = await recall(self.log, self.thread_id, connection)
        return await off_loop(known.size, partial(messages_of_held, known.records))

    async def text(self, *, connection: HostConnection | None = None) -> str:
        """`messages` as text: ``User: …`` and ``Assistant: …``, an empty line between turns."""
        lines: list[str] = []
        for message in await self.messages(connection=connection):
            if not message.text:
                continue
            if lines and is_user_turn(message):
                lines.append("")
            lines.append(f"{role_of(message).capitalize()}: {message.text}")
        return "\n".join(lines)

    async def amend_last(
        self, content: str | list[Any], *, connection: HostConnection | None = None
    ) -> bool:
        """Give the last message of the assistant another content; whether there is one.

        Other messages may be added meanwhile; none is lost.
        """
        for _ in range(TRIES):
            version = await self.log.version(self.thread_id, connection=connection)
            entry = await self._last(Role.ASSISTANT, connection)
            if entry is None:
                return False
            message = message_of(entry.value).model_copy(update={"content": content})
            try:
                return await self.log.edit(
                    self.thread_id,
                    entry.position,
                    Message.of(message.to_record()).to_record(),
                    expected_version=version,
                    connection=connection,
                )
            except (Conflict, ThreadDeleted):
                continue  # somebody added to it since, or deleted it
        raise _busy(self.thread_id)

    async def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove all messages, the summary and an open exchange; how many messages there were."""
        async with within(self.log.db, connection) as tx:
            gone = await self.log.clear(self.thread_id, connection=tx)
            await self._open.clear(self.thread_id, connection=tx)
            await self._beginnings.clear(tx)
        forget(self.log, self.thread_id)
        return gone

    async def delete(self, *, connection: HostConnection | None = None) -> bool:
        """Delete the conversation; whether it was there. The thread's other logs stay."""
        async with within(self.log.db, connection) as tx:
            was_there = await self.log.delete(self.thread_id, connection=tx)
            await self._open.delete(self.thread_id, connection=tx)
            was_there |= await self._beginnings.delete(tx)
        forget(self.log, self.thread_id)
        return was_there

    async def purge_messages(self, older_than: Seconds, batch: int = 500) -> int:
        """Remove messages older than that; how many. See `ConversationStore.purge_messages`."""
        return await purge_messages(self.log, older_than, self.thread_id, batch)

    async def count(self, *, connection: HostConnection | None = None) -> int:
        """How many messages there are, whatever the manager."""
        return await self.log.count(self.thread_id, connection=connection)

    async def snapshot(self, *, connection: HostConnection | None = None) -> dict[str, Any]:
        """All there is, as plain values: ``messages`` (records), ``summary`` (a text or ``None``),
        ``summarized`` (how many of the messages are behind it), and what `restore` was given
        besides. Where the manager kept some of those, such as system messages, ``beginning`` is
        what is told in their place, the summary among it.
        """
        known = await self._beginnings.read(connection)
        if known is None:
            there = await recall(self.log, self.thread_id, connection)
            return {"messages": records_of_held(there.records), "summary": None, "summarized": 0}
        reading, said = await self.log.scan(self.thread_id, Said, connection=connection)
        good, _ = self._beginnings.still_good(known, reading, said)
        found = {"messages": [one.value for one in said]}
        return found | Beginnings.told(known, good, reading, said)

    async def restore(
        self,
        snapshot: Mapping[str, Any] | Sequence[Any],
        *,
        connection: HostConnection | None = None,
    ) -> None:
        """Make the conversation what a `snapshot` says, or a list of messages.

        Only the difference is written: messages that are the same from the start on stay. A
        ``summary`` stands before the messages, or for the first ``summarized`` of them, of which
        system messages stay; with a list the one that there is stays, if it stands for messages
        that do. Whole or not at all.
        """
        records, rest = parts_of(snapshot)
        if rest is None or Beginnings.is_empty(rest):
            no_longer = None if rest is None else self._beginnings.log
            await self._replace(records, connection, no_longer)
            return
        async with within(self.log.db, connection) as tx:
            await self.log.hold(self.thread_id, tx)
            known = await self._replace(records, tx)
            await self._beginnings.restore(rest, tx)
        if connection is None:
            remember(self.log, self.thread_id, known)

    async def set_summary(
        self, text: str | None, *, summarized: int = 0, connection: HostConnection | None = None
    ) -> None:
        """Keep *text* as what was said before the messages, in place of any earlier summary.

        With *summarized* it stands for the first so many of the messages, of which system messages
        stay. `messages` gives it where the conversation has a manager that summarises, `snapshot`
        in any case; ``None`` takes it back.

        Raises:
            TypeError: it is no text; nothing was written.
        """
        async with within(self.log.db, connection) as tx:
            await self.log.hold(self.thread_id, tx)
            known = await self._beginnings.read(tx)
            rest = {} if known is None else known.rest
            told = {"summary": text, "summarized": summarized}
            await self._beginnings.restore({**rest, **told}, tx)

    def view(self) -> ConversationView:
        """A reader of its own, which knows nothing yet; any number of them may look on."""
        return ConversationView(self)

    async def _replace(
        self,
        records: list[dict[str, Any]],
        connection: HostConnection | None,
        clearing: ThreadLog | None = None,
    ) -> Known:
        """Write what differs from what is there, and clear a log beside it; the answer is what was
        there.
        """
        for _ in range(TRIES):
            known = await recall(self.log, self.thread_id, connection)
            same = same_until(known.records, records)
            if same == len(records) == len(known.records) and clearing is None:
                return known
            try:
                await self.log.replace_suffix(
                    self.thread_id,
                    known.positions[same - 1] if same else 0,
                    records[same:],
                    clearing=clearing,
                    expected_version=0 if known.seen is None else known.seen.version,
                    connection=connection,
                )
                return known
            except (Conflict, ThreadDeleted):
                continue  # somebody wrote to it since, or deleted it
        raise _busy(self.thread_id)

    async def _last(self, role: str, connection: HostConnection | None) -> Entry | None:
        before: int | None = None
        while entries := await self.log.tail(
            self.thread_id, 50, before=before, connection=connection
        ):
            for entry in reversed(entries):
                if role_of(entry.value) == role:
                    return entry
            before = entries[0].position
        return None


class ConversationView:
    """What one reader knows of a conversation; see `Conversation.view`.

    `refresh` reads only what was added since it was last called. If something was taken back or
    changed meanwhile, it reads everything again, and ``restarted`` says so. Managers have no part
    in it.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._seen: LogReading | None = None
        self._messages: list[Message] = []
        self._restarted = False

    @property
    def messages(self) -> list[Message]:
        """All messages that it knows, oldest first."""
        return list(self._messages)

    @property
    def version(self) -> int:
        """The version of the conversation's log that it knows; 0 before the first look."""
        return 0 if self._seen is None else self._seen.version

    @property
    def restarted(self) -> bool:
        """Whether the last `refresh` gave everything anew, in place of what was known."""
        return self._restarted

    async def refresh(self, *, connection: HostConnection | None = None) -> list[Message]:
        """Look, and return the messages that are new; all, if ``restarted``. One round trip.

        With *connection* nothing of it is remembered: what a transaction sees may be rolled back.
        """
        of = self._conversation
        reading, new = await of.log.scan(
            of.thread_id,
            lambda _, record, __: message_of(record),
            self._seen,
            connection=connection,
        )
        self._restarted = reading.complete and self._seen is not None
        if connection is None:
            self._messages = new if reading.complete else [*self._messages, *new]
            self._seen = reading
        return list(new)


def messages_of(given: Sequence[Any]) -> list[Message]:
    """What `add` was given, as messages."""
    if given and all(isinstance(one, str) for one in given):
        if len(given) != 2:
            raise TypeError(
                "two texts are what the user said and what the assistant answered; of one alone "
                "say whose it is: Message.user(text)"
            )
        return [Message.user(given[0]), Message.assistant(given[1])] if any(given) else []
    flat: list[Any] = []
    for one in given:
        if isinstance(one, (list, tuple)):
            flat.extend(one)
        else:
            flat.append(one)
    return [Message.of(one) for one in flat]


def parts_of(
    snapshot: Mapping[str, Any] | Sequence[Any],
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The records of a snapshot's messages, or of a list's, and what else it says; a list says
    nothing.
    """
    rest: dict[str, Any] | None = None
    given: Any = snapshot
    if isinstance(snapshot, Mapping):
        rest = {name: value for name, value in snapshot.items() if name != "messages"}
        given = snapshot.get("messages")
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise TypeError("a conversation is a list of messages, or a mapping with messages=")
    return [record_of(one) for one in given], rest


def _busy(thread_id: str) -> Conflict:
    return Conflict(
        f"others wrote to thread {thread_id!r} {TRIES} times while this was tried; nothing was "
        "written"
    )
