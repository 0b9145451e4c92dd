"""`Conversation`: the messages of a thread, and the part of them that goes to the model.

Each message is an entry of a log. A summary that a manager writes is stored in a log beside it, and
an open tool exchange in another, so that the log of messages is never shortened and never holds
half an exchange.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from functools import partial
from typing import Any

from memalchemy._in_flight import InFlight
from memalchemy._transactions import transaction_of
from memalchemy.context.manager import ConversationManager
from memalchemy.context.summarizers import ManagedMessages, PreparedSummary, SummarizerBase
from memalchemy.context.summary import Summary
from memalchemy.contracts import (
    UNSET,
    Entry,
    LogReading,
    Match,
    Seconds,
    Unset,
    check_flag,
    check_position,
)
from memalchemy.conversations._cache import (
    CachedConversation,
    cache_conversation,
    drop_conversation,
    known_records,
    read_conversation,
    read_with_summary,
)
from memalchemy.conversations._message_hit import MessageHit
from memalchemy.conversations._message_search import search_messages
from memalchemy.conversations._old_messages import purge_messages
from memalchemy.conversations._stored_summary import (
    LogMessage,
    StoredSummary,
    SummaryLog,
    has_no_summary,
    snapshot_parts,
    split_at_summary,
    summary_to_store,
)
from memalchemy.conversations.records import (
    check_records,
    common_prefix_length,
    messages_from_cache,
    records_from_cache,
    to_messages,
    to_record,
    to_records,
)
from memalchemy.conversations.tool_exchange import ToolExchange, check_calls, check_results
from memalchemy.database import Database, HostConnection, check_database, off_loop
from memalchemy.database.per_database import shared
from memalchemy.errors import Conflict, InvalidArgument, MemalchemyError, NotFound
from memalchemy.events import Event, publish
from memalchemy.messages import calls_of, is_user_turn, role_of, roles_with
from memalchemy.state import Message, Role
from memalchemy.threads import ThreadLog
from memalchemy.threads.locked_log_retry import retry_on_log

NAMESPACE = ("conversation",)

EXCHANGE = "exchange"
"""Last part of the namespace of the log with the open tool exchange."""


class Conversation:
    """Messages of a thread in order, and a policy that selects those which go to the model.

    All objects on the same thread see the same messages, in every process, and two that add at the
    same time lose none. Adding writes what is new and reads nothing. Reading what this process has
    read before asks the database for what is new, and whether the rest has changed.

    Args:
        db: the database.
        thread_id: the thread.
        manager: the policy of `messages`; without one it returns all messages.
        namespace: keeps several conversations of one thread apart.
        index_text: let `search` find the words of messages.
        ttl: how long the conversation lives after its last message, in seconds or as a timedelta.
        roles: roles of the application's own that messages may have, besides those that exist.

    ``log`` is the `ThreadLog` with the messages, for searching, forking and the rest. Every method
    takes ``connection=``, an `AsyncConnection` or `AsyncSession` of the host.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Conflict: something else has written to ``log`` what is no message, and this reads it;
            `search` leaves it out.
    """

    log: ThreadLog
    thread_id: str

    def __init__(
        self,
        db: Database,
        thread_id: str,
        *,
        manager: ConversationManager | None = None,
        namespace: Iterable[str] = NAMESPACE,
        index_text: bool = True,
        ttl: Seconds | None = None,
        roles: Iterable[str] = (),
    ) -> None:
        check_database(db, self)
        self._roles = roles_with(roles)
        if manager is not None and not isinstance(manager, ConversationManager):
            given = manager.__name__ if isinstance(manager, type) else type(manager).__name__
            raise TypeError(
                "manager is a ConversationManager, such as SlidingWindowManager(window_size=20), "
                f"not {given}"
            )
        self.log = ThreadLog(db, namespace=namespace, index_text=index_text, ttl=ttl)
        self.thread_id = thread_id
        self.manager = manager
        self._summary = SummaryLog(self.log, thread_id)
        exchange = (*self.log.namespace, EXCHANGE)
        self._exchange = ThreadLog(db, namespace=exchange, index_text=False, ttl=ttl)

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

        A message is a `Message`, a dict in OpenAI's format, or an object with role and content. A
        list of messages is accepted as well. Two texts are a message of the user and the
        assistant's answer; nothing is added if both are empty.

        Args:
            keys: for each message a key, or ``None``. A message whose key is there already is not
                added again.
            occurred_at: when the messages were said, one time for all or one for each; now by
                default.
            expected_version: add only if the log is at this version.

        Raises:
            TypeError, ValueError: one of them is not a message, or has a role that does not exist;
                nothing was added.
            NotSerialisable, TooLarge, Conflict, ThreadDeleted: as `ThreadLog.append`.
        """
        records = [to_record(message, self._roles) for message in parse_messages(messages)]
        positions = await self.log.append(
            self.thread_id,
            records,
            keys=keys,
            occurred_at=occurred_at,
            expected_version=expected_version,
            connection=connection,
        )
        if positions:
            self._publish("memory.conversation.added", messages=len(records))
        return positions

    async def messages(self, *, connection: HostConnection | None = None) -> list[Message]:
        """Return the messages that go to the model, oldest first: all, or those of the manager.

        A summary that was set or restored is there whatever the manager, in place of the messages
        that it stands for. A summary that the manager writes is stored. No process writes it again
        until more messages were added than the manager allows, or until one of the summarised
        messages was changed. Several calls at once in one process ask for it once.

        Raises:
            Corrupt: what is stored does not match its checksum.
        """
        if isinstance(self.manager, SummarizerBase):
            return await self._summarize(self.manager, connection)
        told, messages = await self._read_after_given_summary(connection)
        if self.manager is None:
            return [*told, *messages]
        managed = await self.manager.async_apply([*told, *messages])
        if not any(Summary.from_message(message) is not None for message in managed):
            # A manager of the application may know nothing of summaries.
            managed = [*(one for one in told if Summary.from_message(one) is not None), *managed]
        return [Message.of(message) for message in managed]

    async def history(
        self,
        *,
        after: int | None = None,
        limit: int | None = None,
        connection: HostConnection | None = None,
    ) -> list[Message]:
        """Return all messages as they were added, whatever the manager, oldest first.

        Args:
            after: only messages beyond this position.
            limit: only the newest so many.
        """
        if limit is not None:
            first = -1 if after is None else check_position(after, "after")
            entries = await self.log.tail(self.thread_id, limit, connection=connection)
            return to_messages(entry.value for entry in entries if entry.position > first)
        if after is not None:
            entries = await self.log.range(self.thread_id, after=after, connection=connection)
            return to_messages(entry.value for entry in entries)
        read = await read_conversation(self.log, self.thread_id, connection)
        return await off_loop(read.size, partial(messages_from_cache, read.records))

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        match: Match = "any",
        all_conversations: bool = False,
        connection: HostConnection | None = None,
    ) -> list[MessageHit]:
        """Return messages that hold words of *query*, whatever the manager, the best first.

        Those of this conversation; with *all_conversations* of every one in the namespace. With the
        *match* ``all`` only messages that hold all words. The words are those that were said, also
        in calls and results of tools; an open exchange and summaries are not searched. Accents and
        case do not matter, and nothing in *query* is an operator. A query without words finds
        nothing, and a conversation with ``index_text=False`` has no words.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words.
            KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
            Corrupt: what is stored does not match its checksum.
        """
        thread_id = None if check_flag(all_conversations, "all_conversations") else self.thread_id
        return await search_messages(self.log, query, limit, thread_id, match, connection)

    async def text(self, *, connection: HostConnection | None = None) -> str:
        """Return `messages` as text: ``User: …``, ``Assistant: …``, a blank line between turns."""
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
        """Replace the content of the assistant's last message, and return whether there is one.

        Messages that others add meanwhile are not lost.
        """

        async def attempt(tx: HostConnection | None) -> bool:
            version = await self.log.version(self.thread_id, connection=tx)
            entry = await self._last_assistant_entry(tx)
            if entry is None:
                return False
            message = Message.of(entry.value).model_copy(update={"content": content})
            return await self.log.edit(
                self.thread_id,
                entry.position,
                Message.of(message.to_record()).to_record(),
                expected_version=version,
                connection=tx,
            )

        return await retry_on_log(self.log, self.thread_id, attempt, connection)

    async def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove all messages, the summary and an open exchange; return how many messages went."""
        async with transaction_of(self.log.db, connection) as tx:
            removed = await self.log.clear(self.thread_id, connection=tx)
            await self._exchange.clear(self.thread_id, connection=tx)
            await self._summary.clear(tx)
        drop_conversation(self.log, self.thread_id)
        return removed

    async def delete(self, *, connection: HostConnection | None = None) -> bool:
        """Delete the conversation, not the thread's other logs; return whether it was there."""
        async with transaction_of(self.log.db, connection) as tx:
            was_there = await self.log.delete(self.thread_id, connection=tx)
            await self._exchange.delete(self.thread_id, connection=tx)
            was_there |= await self._summary.delete(tx)
        drop_conversation(self.log, self.thread_id)
        return was_there

    async def purge_messages(self, older_than: Seconds, batch: int = 500) -> int:
        """Remove old messages and return how many; see `ConversationStore.purge_messages`."""
        return await purge_messages(self.log, older_than, self.thread_id, batch)

    async def count(self, *, connection: HostConnection | None = None) -> int:
        """Return the number of messages, whatever the manager."""
        return await self.log.count(self.thread_id, connection=connection)

    async def snapshot(self, *, connection: HostConnection | None = None) -> dict[str, Any]:
        """Return the whole conversation as plain values, for `restore`.

        Keys: ``messages`` (records), ``summary`` (a text or ``None``), ``summarized`` (for how many
        of the messages the summary stands), and any other keys that `restore` was given. Where the
        manager kept some of the summarised messages, such as system messages, ``beginning`` lists
        them together with the message that tells the summary.
        """
        read = await read_with_summary(self.log, self._summary, self.thread_id, connection)
        if isinstance(read, CachedConversation):
            return {"messages": records_from_cache(read.records), "summary": None, "summarized": 0}
        stored, reading, messages = read
        records = [message.record for message in messages]
        check_records(records)
        return {"messages": records} | snapshot_parts(stored, reading, messages)

    async def restore(
        self,
        snapshot: Mapping[str, Any] | Sequence[Any],
        *,
        occurred_at: datetime | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Make the conversation equal to a `snapshot`, or to a list of messages; all or nothing.

        Only the difference is written: messages that are the same from the start on stay. A
        ``summary`` stands before all messages, or for the first ``summarized`` of them, of which
        system messages stay. With a list, a summary that is stored stays as long as the messages
        that it stands for do. *occurred_at* is the time of the messages that are new; now, if not
        given.

        Raises:
            TypeError, ValueError: it is no snapshot; nothing was written.
            NotSerialisable, TooLarge: it cannot be stored; nothing was written.
        """
        messages, rest = _split_snapshot(snapshot)
        records = to_records(messages, self._roles, known_records(self.log, self.thread_id))
        if rest is None:
            await self._replace_messages(records, connection, at=occurred_at)
        elif has_no_summary(rest):
            await self._replace_messages(records, connection, clearing=True, at=occurred_at)
        else:
            async with transaction_of(self.log.db, connection) as tx:
                if await self.log.hold(self.thread_id, tx) is None:
                    # Several may make the log at once. Who then finds its own messages there has
                    # written nothing, and would hold no lock.
                    await self._replace_messages(records, tx, at=occurred_at)
                    await self.log.hold(self.thread_id, tx)
                read = await self._replace_messages(records, tx, at=occurred_at)
                await self._summary.restore(rest, tx)
            if connection is None:
                cache_conversation(self.log, self.thread_id, read)

    async def set_summary(
        self, text: str | None, *, summarized: int = 0, connection: HostConnection | None = None
    ) -> None:
        """Store *text* as the summary of what was said before the messages, or remove it.

        It replaces an earlier summary. With *summarized* it stands for the first so many messages,
        of which system messages stay. `messages` returns it first, whatever the manager. ``None``
        removes the summary.

        Raises:
            TypeError: *text* is no text; nothing was written.
        """
        async with transaction_of(self.log.db, connection) as tx:
            await self.log.hold(self.thread_id, tx)
            stored = await self._summary.read(tx)
            extra = {} if stored is None else stored.extra
            await self._summary.restore({**extra, "summary": text, "summarized": summarized}, tx)

    def view(self) -> ConversationView:
        """Return a reader with a cursor of its own. There may be any number of them."""
        return ConversationView(self)

    async def begin_tool_exchange(
        self, message: Any, *, connection: HostConnection | None = None
    ) -> ToolExchange:
        """Store an assistant's *message* with tool calls until all their results are there.

        `messages`, `history` and the rest do not show it before `commit_tool_exchange`. It survives
        a crash: `active_tool_exchange` returns it to whoever continues.

        Raises:
            ValueError: the message has no tool call, a call without an id, or two calls of one id.
            Conflict: another exchange is open.
            TypeError, NotSerialisable, TooLarge: as `add`.
        """
        calls = Message.of(message)
        check_calls(calls_of(calls))
        async with transaction_of(self.log.db, connection) as tx:
            head = await self._exchange.hold(self.thread_id, tx)
            if head is not None and await self._read_exchange(tx) is not None:
                raise Conflict(
                    f"a tool exchange is open in thread {self.thread_id!r}: commit or abort it "
                    "before another begins"
                )
            await self._exchange.append(
                self.thread_id,
                calls.to_record(),
                expected_version=0 if head is None else UNSET,
                connection=tx,
            )
            exchange = await self._read_exchange(tx)
        assert exchange is not None
        self._publish_exchange("begun", exchange)
        return exchange

    async def active_tool_exchange(
        self, *, connection: HostConnection | None = None
    ) -> ToolExchange | None:
        """Return the open exchange, whoever began it, or ``None``."""
        return await self._read_exchange(connection)

    async def add_tool_results(
        self, *results: Any, connection: HostConnection | None = None
    ) -> ToolExchange:
        """Store results of the open exchange, all or none, and return the exchange.

        A result that is equal to one that is there is not added again.

        Raises:
            ValueError: a result belongs to no call of the exchange, or to one that has another.
            NotFound: no exchange is open.
        """
        async with transaction_of(self.log.db, connection) as tx:
            return await self._add_results(results, tx)

    async def commit_tool_exchange(
        self, *results: Any, connection: HostConnection | None = None
    ) -> list[int]:
        """Move the open exchange into the conversation and return the positions of its messages.

        The calls come first. *results* are added before, as by `add_tool_results`. It is one
        transaction: either the conversation has all of the exchange, or it is still open.

        Raises:
            ValueError: a call has no result yet; or as `add_tool_results`.
            NotFound: no exchange is open.
        """
        async with transaction_of(self.log.db, connection) as tx:
            exchange = await self._add_results(results, tx)
            if exchange.missing:
                raise InvalidArgument(
                    f"calls without a result: {', '.join(map(repr, exchange.missing))}; give "
                    "results for them, or abort the exchange"
                )
            records = [message.to_record() for message in exchange.messages]
            positions = await self.log.append(self.thread_id, records, connection=tx)
            await self._exchange.clear(self.thread_id, connection=tx)
        self._publish_exchange("committed", exchange)
        return positions

    async def abort_tool_exchange(
        self, *, connection: HostConnection | None = None
    ) -> ToolExchange | None:
        """Remove the open exchange and return it, or ``None``; the conversation stays as it is."""
        async with transaction_of(self.log.db, connection) as tx:
            await self._exchange.hold(self.thread_id, tx)
            exchange = await self._read_exchange(tx)
            if exchange is not None:
                await self._exchange.clear(self.thread_id, connection=tx)
        if exchange is not None:
            self._publish_exchange("aborted", exchange)
        return exchange

    async def _read_after_given_summary(
        self, connection: HostConnection | None
    ) -> tuple[list[Message], list[Message]]:
        """Return the messages of a summary that was set or restored, and the messages after it."""
        read = await read_with_summary(self.log, self._summary, self.thread_id, connection)
        if isinstance(read, CachedConversation):
            return [], await off_loop(read.size, partial(messages_from_cache, read.records))
        stored, reading, messages = read
        valid, rest = split_at_summary(stored, reading, messages)
        if valid is None or not valid.is_given:
            return [], to_messages(message.record for message in messages)
        return to_messages(valid.messages), to_messages(message.record for message in rest)

    async def _summarize(
        self, manager: SummarizerBase, connection: HostConnection | None
    ) -> list[Message]:
        """Apply a manager to the stored summary and the messages beyond it.

        Of several calls at once that need a summary one has it written, and the others read it.
        """
        db = self.log.db
        key = (db.tenant, self.log.namespace, self.thread_id)
        # Whoever waited in a transaction of the host would hold the locks that others need.
        is_alone = connection is not None
        while True:
            prepared, store = await self._prepare_summary(manager, connection)
            if is_alone or not prepared.is_needed:
                return await store(await manager.complete(prepared))
            with shared(db, InFlight).claim(key) as running:
                if running is None:
                    # Another one may have written it since this one has read.
                    prepared, store = await self._prepare_summary(manager, connection)
                    return await store(await manager.complete(prepared))
            is_alone = await asyncio.wrap_future(running)

    async def _prepare_summary(
        self, manager: SummarizerBase, connection: HostConnection | None
    ) -> tuple[PreparedSummary, Callable[[ManagedMessages], Awaitable[list[Message]]]]:
        """Return a manager's decision on stored messages, and a function that stores its result."""
        stored = await self._summary.read(connection)
        cursor = None if stored is None else stored.cursor()
        reading, read = await self.log.scan(
            self.thread_id, LogMessage, cursor, connection=connection
        )
        summary, messages = split_at_summary(stored, reading, read)
        before = [] if summary is None else summary.messages
        prepared = manager.prepare(
            to_messages([*before, *(message.record for message in messages)])
        )
        return prepared, partial(
            self._store_summary, stored, reading, summary, messages, connection=connection
        )

    async def _store_summary(
        self,
        stored: StoredSummary | None,
        reading: LogReading,
        summary: StoredSummary | None,
        messages: list[LogMessage],
        managed: ManagedMessages,
        *,
        connection: HostConnection | None,
    ) -> list[Message]:
        """Store the summary that a manager has written, if it is new; return its messages."""
        extra = {} if stored is None else stored.extra
        new = summary_to_store(managed, summary, reading, messages, extra)
        if new is not None and not self.log.db.read_only:
            # Without a transaction of the host the answer does not depend on this write: if it
            # fails, the next reader tries again.
            with suppress(*(() if connection is not None else (MemalchemyError,))):
                await self._summary.replace(new, stored, connection)
        return [Message.of(message) for message in managed.messages]

    async def _replace_messages(
        self,
        records: list[dict[str, Any]],
        connection: HostConnection | None,
        clearing: bool = False,
        at: datetime | None = None,
    ) -> CachedConversation:
        """Write the difference to *records*, clear the summary with it, return what was read."""

        async def attempt(tx: HostConnection | None) -> CachedConversation:
            read = await read_conversation(self.log, self.thread_id, tx)
            same = common_prefix_length(read.records, records)
            is_same = same == len(records) == len(read.records)
            if not is_same or (clearing and await self._summary.read(tx) is not None):
                await self.log.replace_suffix(
                    self.thread_id,
                    read.positions[same - 1] if same else 0,
                    records[same:],
                    occurred_at=at,
                    clearing=self._summary.log if clearing else None,
                    expected_version=0 if read.reading is None else read.reading.version,
                    connection=tx,
                )
            return read

        return await retry_on_log(self.log, self.thread_id, attempt, connection)

    async def _last_assistant_entry(self, connection: HostConnection | None) -> Entry | None:
        entries = self.log.iter_entries(
            self.thread_id, newest_first=True, page_size=50, connection=connection
        )
        async with aclosing(entries):
            async for entry in entries:
                if role_of(entry.value) == Role.ASSISTANT:
                    return entry
        return None

    async def _add_results(self, results: Sequence[Any], tx: HostConnection) -> ToolExchange:
        """Lock the open exchange and add *results* to it."""
        given = [Message.of(result) for result in results]
        await self._exchange.hold(self.thread_id, tx)
        exchange = await self._read_exchange(tx)
        if exchange is None:
            raise NotFound(f"no tool exchange is open in thread {self.thread_id!r}")
        new = [result for result in given if result not in exchange.results]
        check_results(exchange, new)
        if new:
            records = [result.to_record() for result in new]
            await self._exchange.append(self.thread_id, records, connection=tx)
        return ToolExchange(exchange.calls, (*exchange.results, *new), exchange.begun_at)

    async def _read_exchange(self, connection: HostConnection | None) -> ToolExchange | None:
        entries = await self._exchange.range(self.thread_id, connection=connection)
        if not entries:
            return None
        calls, *results = to_messages(entry.value for entry in entries)
        return ToolExchange(calls, tuple(results), entries[0].occurred_at)

    def _publish_exchange(self, what: str, exchange: ToolExchange) -> None:
        self._publish(
            f"memory.exchange.{what}",
            calls=len(calls_of(exchange.calls)),
            results=len(exchange.results),
        )

    def _publish(self, name: str, **details: object) -> None:
        publish(Event(name, self.log.db.tenant, self.thread_id, details=details))


class ConversationView:
    """Reader of a conversation with a cursor of its own; see `Conversation.view`.

    `refresh` reads only what was added since the last call. If messages were removed or changed
    meanwhile, it reads everything again, and ``restarted`` is set. Managers are not applied.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._reading: LogReading | None = None
        self._messages: list[Message] = []
        self._restarted = False

    @property
    def messages(self) -> list[Message]:
        """All messages that were read, oldest first."""
        return list(self._messages)

    @property
    def version(self) -> int:
        """Version of the conversation's log that was read; 0 before the first `refresh`."""
        return 0 if self._reading is None else self._reading.version

    @property
    def restarted(self) -> bool:
        """``True`` if the last `refresh` returned all messages in place of those read before."""
        return self._restarted

    async def refresh(self, *, connection: HostConnection | None = None) -> list[Message]:
        """Read and return the messages that are new; all, if ``restarted``. One round trip.

        With *connection* the view does not change: what a transaction sees may be rolled back.
        """
        conversation = self._conversation
        reading, new = await conversation.log.read_columns(
            conversation.thread_id,
            lambda _, records, __: to_messages(records),
            self._reading,
            connection,
        )
        self._restarted = reading.complete and self._reading is not None
        if connection is None:
            self._messages = new if reading.complete else [*self._messages, *new]
            self._reading = reading
        return list(new)


def parse_messages(given: Sequence[Any]) -> list[Message]:
    """Return the arguments of `Conversation.add` as messages."""
    if given and all(isinstance(one, str) for one in given):
        if len(given) != 2:
            raise TypeError(
                "two texts are a message of the user and the assistant's answer; say whose a "
                "single text is: Message.user(text)"
            )
        return [Message.user(given[0]), Message.assistant(given[1])] if any(given) else []
    flat: list[Any] = []
    for one in given:
        if isinstance(one, (list, tuple)):
            flat.extend(one)
        else:
            flat.append(one)
    return [Message.of(one) for one in flat]


def _split_snapshot(
    snapshot: Mapping[str, Any] | Sequence[Any],
) -> tuple[Sequence[Any], dict[str, Any] | None]:
    """Return the messages, and what a mapping holds besides; ``None`` for a list."""
    rest: dict[str, Any] | None = None
    messages: Any = snapshot
    if isinstance(snapshot, Mapping):
        rest = {name: value for name, value in snapshot.items() if name != "messages"}
        messages = snapshot.get("messages")
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence):
        raise TypeError("a conversation is a list of messages, or a mapping with messages=")
    return messages, rest
