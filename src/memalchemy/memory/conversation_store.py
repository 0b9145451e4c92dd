"""`ConversationStore`: whole conversations under ids, loaded and saved at once.

For agents that hold their history themselves. The messages lie where `Conversation` has them, so
both may be used on the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memalchemy.contracts import Seconds
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.memory.conversation import NAMESPACE, Conversation
from memalchemy.memory.managers import ConversationManager
from memalchemy.memory.purging import purge_messages
from memalchemy.memory.summarised import SUMMARY
from memalchemy.state import Message
from memalchemy.threads import ThreadLog

ALL = 2**31 - 1

Messages = list[Message]
Ids = list[str]


class ConversationStore:
    """Loads and saves histories.

    A history that is saved again is compared with what is there, and only the difference is
    written: in most cases the messages that are new.

    Args:
        db: where to keep them.
        namespace, index_text, ttl: as of `Conversation`.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        db: Database,
        *,
        namespace: Iterable[str] = NAMESPACE,
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        check_database(db, self)
        self.log = ThreadLog(db, namespace=namespace, index_text=index_text, ttl=ttl)
        self._settings: dict[str, Any] = {"index_text": index_text, "ttl": ttl}

    def __repr__(self) -> str:
        return f"ConversationStore({self.log.db!r})"

    def conversation(
        self, conversation_id: str, *, manager: ConversationManager | None = None
    ) -> Conversation:
        """One of them, to add to."""
        namespace = self.log.namespace
        return Conversation(
            self.log.db, conversation_id, manager=manager, namespace=namespace, **self._settings
        )

    async def load(
        self, conversation_id: str, *, connection: HostConnection | None = None
    ) -> Messages:
        """All messages, oldest first; ``[]`` if there are none.

        Raises:
            Corrupt: what is stored does not match its checksum.
        """
        return await self.conversation(conversation_id).history(connection=connection)

    async def load_snapshot(
        self, conversation_id: str, *, connection: HostConnection | None = None
    ) -> dict[str, Any] | None:
        """What was saved as a snapshot, as `Conversation.snapshot` gives it; ``None`` if nothing
        was.
        """
        found = await self.conversation(conversation_id).snapshot(connection=connection)
        return found if found["messages"] or found["summary"] or len(found) > 3 else None

    async def save(
        self,
        conversation_id: str,
        messages: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        snapshot: Mapping[str, Any] | Sequence[Any] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Make a conversation these messages, or this snapshot: ``{"messages": …, "summary": …}``.

        Either may be given as either.

        Messages are what `Conversation.add` takes. What a snapshot has besides is kept as it is. Of
        two that save at once the later wins, and what it wrote is whole.

        Raises:
            TypeError, ValueError: one of them is not a message; nothing was written.
            NotSerialisable, TooLarge: one of them cannot be stored; nothing was written.
        """
        if (messages is None) == (snapshot is None):
            raise TypeError("save takes messages= or snapshot=, one of them")
        given: Any = snapshot if messages is None else messages
        await self.conversation(conversation_id).restore(given, connection=connection)

    async def delete(
        self, conversation_id: str, *, connection: HostConnection | None = None
    ) -> bool:
        """Delete a conversation; whether it was there. The thread's other logs stay."""
        return await self.conversation(conversation_id).delete(connection=connection)

    async def clear(self) -> int:
        """Delete all conversations of the namespace, one by one; how many."""
        return sum([await self.delete(one) for one in await self.list_conversations()])

    async def purge_messages(
        self, older_than: Seconds, thread_id: str | None = None, batch: int = 500
    ) -> int:
        """Remove messages older than that, of one conversation or of all; how many.

        What goes is whole: an exchange, which is what the user said and all up to what the user
        said next, goes when its newest message is old; from the start on, up to the first exchange
        that stays. System messages stay, summaries of what went do not. Each transaction removes
        about *batch* messages; interrupted, run it again.
        """
        return await purge_messages(self.log, older_than, thread_id, batch)

    async def list(
        self, limit: int = 100, pattern: str = "*", *, connection: HostConnection | None = None
    ) -> Ids:
        """The ids of conversations with a message, most recently written first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``.
        """
        return await self.log.list_threads(limit, pattern, connection=connection)

    async def list_conversations(self, *, connection: HostConnection | None = None) -> Ids:
        """The ids of all conversations with a message or a summary, in order."""
        summaries = ThreadLog(self.log.db, namespace=(*self.log.namespace, SUMMARY))
        found = await self.log.list_threads(ALL, connection=connection)
        return sorted({*found, *await summaries.list_threads(ALL, connection=connection)})

    async def count(self, pattern: str = "*", *, connection: HostConnection | None = None) -> int:
        """How many conversations with a message there are, whose ids match the glob."""
        return await self.log.count_threads(pattern, connection=connection)
