"""`MemalchemyChatMessageStore`: chat histories for haystack-experimental's components."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final
from uuid import uuid4

from haystack.dataclasses import ChatMessage, ChatRole
from haystack.utils import Secret

from memalchemy._retry import retry_on_conflict
from memalchemy.contracts import MAX_LIMIT, UNSET
from memalchemy.database import HostConnection
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.haystack._adapter import HaystackAdapter
from memalchemy.threads import ThreadLog

ID = "chat_message_id"
"""The metadata field with a message's id."""


class MemalchemyChatMessageStore(HaystackAdapter):
    """Stores chat histories; haystack-experimental's writer and retriever of messages take it.

    It has the methods of that package's ``ChatMessageStore``, and does not need it to be installed.
    Order is that in which any process wrote. A message without a ``chat_message_id`` in its
    metadata gets one; a message whose id is in the history is not written again, so a whole
    conversation may be written after each turn. A call writes all of its messages or none. Messages
    that are read are new objects. Every method has a twin with ``_async`` at the end of its name.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        url: a `Secret` with the URL, in place of *db*. A saved pipeline has the name of its
            variable.
        namespace: keeps the histories of several stores apart in one database.
        skip_system_messages: do not store system messages.
        last_k: how many rounds of a history `retrieve_messages` returns if it is not told;
            ``None`` for all.
        index_text: make the words of messages searchable.

    The id of a history is the id of a thread: at most 255 characters; a message's id has at most
    128.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored message cannot be read.
        NotSerialisable, TooLarge: a message cannot be stored; nothing was written.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        url: Secret | None = None,
        namespace: Iterable[str] = (),
        skip_system_messages: bool = True,
        last_k: int | None = 10,
        index_text: bool = True,
    ) -> None:
        super().__init__(db, url=url, namespace=namespace)
        self.skip_system_messages = skip_system_messages
        self.last_k = last_k
        self.index_text = index_text
        self.log: ThreadLog = ThreadLog(
            self.db, namespace=(*self.namespace, "messages"), index_text=index_text
        )
        """The log of messages; a history is a thread."""

    async def count_messages_async(self, chat_history_id: str) -> int:
        """Return the number of messages of a history."""
        return await self.log.count(chat_history_id)

    async def write_messages_async(self, chat_history_id: str, messages: list[ChatMessage]) -> int:
        """Append the messages that are new; return their number.

        Raises:
            ValueError: these are no messages.
        """
        if not isinstance(messages, Iterable) or not all(
            isinstance(message, ChatMessage) for message in messages
        ):
            raise ValueError("Please provide a list of ChatMessages.")
        given = [
            message.to_dict()
            for message in messages
            if not (self.skip_system_messages and message.is_from(ChatRole.SYSTEM))
        ]
        if not given:
            return 0

        async def attempt() -> int:
            async with self.db.transaction() as tx:
                return await self._append_messages(chat_history_id, given, tx)

        target = f"the history {chat_history_id!r}"
        try:
            return await retry_on_conflict(attempt, target)  # others may begin it meanwhile
        except _IdTaken:
            for value in given:
                value["meta"] = {ID: uuid4().hex} | value["meta"]
        return await retry_on_conflict(attempt, target)

    async def retrieve_messages_async(
        self, chat_history_id: str, last_k: int | None = None
    ) -> list[ChatMessage]:
        """Return the newest *last_k* rounds of a history, the oldest first.

        A round is what a user says and all up to the answer, calls and results of tools included; a
        system message is one by itself. Without *last_k*, that of the constructor. No more than
        these rounds are read, up to a page.

        Raises:
            ValueError: *last_k* is below 0.
        """
        if last_k is not None and last_k < 0:
            raise ValueError("last_k must be 0 or greater")
        wanted = self.last_k if last_k is None else last_k
        if wanted is None:
            _, found = await self.log.scan(chat_history_id, lambda _, value, __: _to_message(value))
            return found
        if not wanted:
            return []
        newest: list[ChatMessage] = []
        entries = self.log.iter_entries(chat_history_id, newest_first=True)
        async with aclosing(entries):
            async for entry in entries:
                message = _to_message(entry.value)
                if _ends_round(message) and len(_split_into_rounds(newest)) >= wanted:
                    break
                newest.append(message)
        return [message for one in _split_into_rounds(newest)[-wanted:] for message in one]

    async def delete_messages_async(self, chat_history_id: str) -> None:
        """Delete a history, if it is there."""
        await self.log.delete(chat_history_id)

    async def delete_all_messages_async(self) -> None:
        """Delete all histories of this store, one after another."""
        for chat_history_id in await self.log.list_threads(MAX_LIMIT):
            await self.log.delete(chat_history_id)

    count_messages: Final = blocking(count_messages_async)
    write_messages: Final = blocking(write_messages_async)
    retrieve_messages: Final = blocking(retrieve_messages_async)
    delete_messages: Final = blocking(delete_messages_async)
    delete_all_messages: Final = blocking(delete_all_messages_async)

    def _options(self) -> dict[str, Any]:
        return {
            "skip_system_messages": self.skip_system_messages,
            "last_k": self.last_k,
            "index_text": self.index_text,
        }

    async def _append_messages(
        self, chat_history_id: str, given: Sequence[dict[str, Any]], tx: HostConnection
    ) -> int:
        """Append messages, those without an id under the number of messages before them.

        Raises:
            Conflict: there was no history to lock, and there is one now.
        """
        head = await self.log.hold(chat_history_id, tx)
        first = 1 if head is None else head.next_seq
        count = 0 if head is None else await self.log.count(chat_history_id, connection=tx)
        values: list[dict[str, Any]] = []
        counted: list[str] = []
        for value in given:
            if value["meta"].get(ID) is None:
                number = str(count + len(counted))
                counted.append(number)
                value = value | {"meta": {**value["meta"], ID: number}}
            values.append(value)
        keys = [str(value["meta"][ID]) for value in values]
        placed = await self.log.append(
            chat_history_id,
            values,
            keys=keys,
            expected_version=0 if head is None else UNSET,
            connection=tx,
        )
        news = {at for at in placed if at >= first}
        if any(at < first for key, at in zip(keys, placed, strict=True) if key in counted):
            raise _IdTaken
        return len(news)


class _IdTaken(Exception):
    """Rolls back an append in which a counted id is that of another message."""


@StoredForm("message of Haystack")
def _to_message(stored: Any) -> ChatMessage:
    return ChatMessage.from_dict(stored)


def _ends_round(message: ChatMessage) -> bool:
    return message.is_from(ChatRole.ASSISTANT) and bool(message.text) and not message.tool_calls


def _split_into_rounds(newest_first: Sequence[ChatMessage]) -> list[list[ChatMessage]]:
    """Split messages into rounds, the oldest first, as haystack-experimental does."""
    rounds: list[list[ChatMessage]] = []
    current: list[ChatMessage] = []
    for message in reversed(newest_first):
        if message.is_from(ChatRole.SYSTEM):
            rounds.append([message])
            continue
        current.append(message)
        if _ends_round(message):
            rounds.append(current)
            current = []
    return [*rounds, current] if current else rounds
