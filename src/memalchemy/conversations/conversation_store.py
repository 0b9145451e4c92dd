"""`ConversationStore`: whole conversations, loaded and saved by their ids.

It is for agents that hold their history themselves. The messages are stored where `Conversation`
stores them, so both may be used on the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import Any

from memalchemy.context.manager import ConversationManager
from memalchemy.contracts import MAX_LIMIT, Match, Seconds
from memalchemy.conversations._message_hit import MessageHit
from memalchemy.conversations._message_search import search_messages
from memalchemy.conversations._old_messages import purge_messages
from memalchemy.conversations._stored_summary import SUMMARY
from memalchemy.conversations.conversation import NAMESPACE, Conversation
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.database.replica import on_primary
from memalchemy.messages import roles_with
from memalchemy.state import Message
from memalchemy.threads import ThreadLog

# The method `list` hides the type inside the class.
Messages = list[Message]
Ids = list[str]
Hits = list[MessageHit]


class ConversationStore:
    """Loads and saves whole histories.

    A history that is saved again is compared with the stored one, and only the difference is
    written: usually the messages that are new.

    Args:
        db: the database.
        namespace, index_text, ttl, roles: as of `Conversation`.

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
        roles: Iterable[str] = (),
    ) -> None:
        check_database(db, self)
        own = roles_with(roles)
        self.log: ThreadLog = ThreadLog(db, namespace=namespace, index_text=index_text, ttl=ttl)
        self._settings: dict[str, Any] = {"index_text": index_text, "ttl": ttl, "roles": own}

    def __repr__(self) -> str:
        return f"ConversationStore({self.log.db!r})"

    def conversation(
        self, conversation_id: str, *, manager: ConversationManager | None = None
    ) -> Conversation:
        """Return the `Conversation` of an id, to add messages to it."""
        namespace = self.log.namespace
        return Conversation(
            self.log.db, conversation_id, manager=manager, namespace=namespace, **self._settings
        )

    async def load(
        self, conversation_id: str, *, connection: HostConnection | None = None
    ) -> Messages:
        """Return all messages, oldest first; ``[]`` if there are none.

        Raises:
            Corrupt: what is stored does not match its checksum.
        """
        return await self.conversation(conversation_id).history(connection=connection)

    async def load_snapshot(
        self, conversation_id: str, *, connection: HostConnection | None = None
    ) -> dict[str, Any] | None:
        """Return what `Conversation.snapshot` returns; ``None`` if nothing is stored."""
        found = await self.conversation(conversation_id).snapshot(connection=connection)
        return found if found["messages"] or found["summary"] or len(found) > 3 else None

    async def save(
        self,
        conversation_id: str,
        messages: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        snapshot: Mapping[str, Any] | Sequence[Any] | None = None,
        occurred_at: datetime | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Store a list of messages or a snapshot, ``{"messages": …, "summary": …}``, as a whole.

        Both parameters accept either. It takes the place of all that was stored: after a list, or a
        snapshot without a summary, there is none. Messages are as of `Conversation.add`; other keys
        of a snapshot are stored as they are. Of two that save at the same time the later wins, and
        what it wrote is complete. *occurred_at* is the time of the messages that are new; now, if
        not given.

        Raises:
            TypeError, ValueError: one of them is not a message; nothing was written.
            NotSerialisable, TooLarge: one of them cannot be stored; nothing was written.
        """
        if (messages is None) == (snapshot is None):
            raise TypeError("save takes either messages= or snapshot=, one of them")
        given: Any = snapshot if messages is None else messages
        if not isinstance(given, Mapping):
            given = {"messages": given}
        await self.conversation(conversation_id).restore(
            given, occurred_at=occurred_at, connection=connection
        )

    async def delete(
        self, conversation_id: str, *, connection: HostConnection | None = None
    ) -> bool:
        """Delete a conversation, not the thread's other logs; return whether it was there."""
        return await self.conversation(conversation_id).delete(connection=connection)

    async def clear(self) -> int:
        """Delete all conversations of the namespace, one by one, and return how many."""
        here = copy(self)
        here.log = on_primary(self.log)
        return sum([await self.delete(one) for one in await here.list_conversations()])

    async def purge_messages(
        self, older_than: Seconds, thread_id: str | None = None, batch: int = 500
    ) -> int:
        """Remove messages older than *older_than* from one conversation or all; return how many.

        Exchanges are removed whole: a user message and everything up to the next user message,
        once its newest message is old. Removal starts at the first message and ends at the first
        exchange that stays. System messages stay; summaries of removed messages do not. Each
        transaction removes about *batch* messages. An interrupted purge can be run again.

        Raises:
            Corrupt: conversations cannot be read or proven; they were left, and the others purged.
        """
        return await purge_messages(self.log, older_than, thread_id, batch)

    async def list(
        self, limit: int = 100, pattern: str = "*", *, connection: HostConnection | None = None
    ) -> Ids:
        """Return the ids of conversations with a message, most recently written first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``.
        """
        return await self.log.list_threads(limit, pattern, connection=connection)

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        conversation_id: str | None = None,
        match: Match = "any",
        connection: HostConnection | None = None,
    ) -> Hits:
        """Return messages of all conversations, or of one, as `Conversation.search` does."""
        return await search_messages(self.log, query, limit, conversation_id, match, connection)

    async def list_conversations(self, *, connection: HostConnection | None = None) -> Ids:
        """Return the ids of all conversations with a message or a summary, in order."""
        summaries = ThreadLog(self.log.db, namespace=(*self.log.namespace, SUMMARY))
        found = await self.log.list_threads(MAX_LIMIT, connection=connection)
        return sorted({*found, *await summaries.list_threads(MAX_LIMIT, connection=connection)})

    async def count(self, pattern: str = "*", *, connection: HostConnection | None = None) -> int:
        """Return the number of conversations with a message whose ids match the glob."""
        return await self.log.count_threads(pattern, connection=connection)
