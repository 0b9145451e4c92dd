"""`MemalchemyChatMessageHistory`: the messages of one session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from memalchemy.contracts import Seconds
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations.langchain._adapter import LangChainAdapter
from memalchemy.integrations.langchain._records import message_to_record, record_to_message
from memalchemy.keys import check_thread_id
from memalchemy.threads import ThreadLog


class MemalchemyChatMessageHistory(LangChainAdapter, BaseChatMessageHistory):
    """The messages of a session, in the order in which any process added them.

    An addition is whole or absent, and costs the same however long the history is. A message comes
    back equal to the one that was added, with its ids, tool calls, usage and metadata; every read
    builds new objects. An object of a subclass comes back as LangChain's own class of its type; a
    tuple in a metadata dict comes back as a list.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone. Histories with the same URL share their connections.
        session_id: up to 255 characters. It is the thread's id in ``log``.
        namespace: keeps the sessions of several applications or users apart.
        index_text: let ``log.search`` and ``memalchemy search`` find the words of messages.
        ttl: the lifetime of a session after its last message, in seconds or as a timedelta.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored message cannot be read.
    """

    kind = "messages"
    shares_databases = True

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        session_id: str,
        namespace: Iterable[str] = (),
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.session_id: str = check_thread_id(session_id)
        self.log: ThreadLog = ThreadLog(
            self.db, namespace=self.namespace, index_text=index_text, ttl=ttl
        )
        """The messages as entries, with asynchronous methods."""

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """All messages, oldest first. Reading them is one round trip."""
        return self.wait(self.aget_messages())

    async def aget_messages(self) -> list[BaseMessage]:
        """Return all messages, oldest first."""
        _, messages = await self.log.read_columns(self.session_id, _to_messages, None, None)
        return messages

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages, all or none.

        Raises:
            TypeError: one of them is none of LangChain's own messages.
            NotSerialisable, TooLarge: one of them cannot be stored.
        """
        records = [message_to_record(message) for message in messages]
        if records:
            await self.log.append(self.session_id, records)

    add_messages = blocking(aadd_messages)

    async def aclear(self) -> None:
        """Delete all messages of the session."""
        await self.log.delete(self.session_id)

    clear = blocking(aclear)


def _to_messages(_: Sequence[int], records: Sequence[Any], __: Sequence[int]) -> list[BaseMessage]:
    return list(map(record_to_message, records))
